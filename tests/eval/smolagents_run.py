"""Runs smolagents' CodeAgent over the questions that stdin has, one JSON line for each answer."""

import importlib.util
import json
import sys
import time

from smolagents import CodeAgent, LogLevel, OpenAIServerModel

#: As far as they are installed: smolagents refuses to allow what is not there.
LIBRARIES = ["pandas", "numpy", "scipy", "statsmodels", "sklearn", "matplotlib"]

order = json.load(sys.stdin)
model = OpenAIServerModel(model_id=order["model"], api_base=order["url"], api_key=order["key"], temperature=order["temperature"],
                          seed=order["seed"])
agent = CodeAgent(tools=[], model=model, max_steps=order["steps"], verbosity_level=LogLevel.OFF,
                  additional_authorized_imports=[it for name in LIBRARIES if importlib.util.find_spec(name) for it in (name, f"{name}.*")])
for number, question in enumerate(order["questions"]):
    begin = time.monotonic()
    text = question if number else f"Files in the current directory: {', '.join(order['files'])}. Read them with pandas.\n\n{question}"
    result = agent.run(text, reset=number == 0, return_full_result=True)
    steps = [step for step in result.steps if step.get("step_number")]
    errors = [step for step in steps if step.get("error")]
    usage = result.token_usage
    print("ANSWER " + json.dumps({
        "words": str(result.output), "model": order["model"], "requests": len(steps), "runs": len(steps), "failed": len(errors),
        "ran_well": len(errors) < len(steps), "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0, "seconds": time.monotonic() - begin,
    }), flush=True)
