"""The examples of Open Interpreter's README, docs and notebooks (0.4), as they are written there."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import sponde
import sponde.interpreter
from sponde.interpreter import OpenInterpreter, SpondeWarning

from .support import MODEL, WithDirectory, sent_to_model


def words_sent(request: dict[str, Any]) -> str:
    """What a request to the model says, as text."""
    return json.dumps(request["messages"]).replace('\\"', '"')


class WithOldName(WithDirectory):
    """`from interpreter import interpreter` is an interpreter of this test."""

    def setUp(self) -> None:
        super().setUp()
        self.instances: list[OpenInterpreter] = []
        self.one = self.made()
        modules = mock.patch.dict(sys.modules)
        modules.start()
        self.addCleanup(modules.stop)
        instance = mock.patch.object(sponde.interpreter, "interpreter", self.one)
        instance.start()
        self.addCleanup(instance.stop)
        sponde.interpreter.install()

    def made(self) -> OpenInterpreter:
        made = OpenInterpreter(directory=self.directory)
        made.llm.model = MODEL
        self.addCleanup(made.close)
        return made

    def run_example(self, code: str, typed: str = "", **names: Any) -> str:
        """Runs an example and returns what it printed; `typed` is what a person types."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), mock.patch("sys.stdin", io.StringIO(typed)):
            exec(compile(code, "example", "exec"), {"__name__": "__main__", **names})
        return shown.getvalue()

    def value(self, code: str) -> str:
        """What code in the interpreter's kernel gives."""
        return self.one.computer.run("python", code)[0]["content"]


class Readme(WithOldName):
    def test_python_a_single_command_then_a_chat(self) -> None:
        self.one.auto_run = True
        shown = self.run_example(
            """
from interpreter import interpreter

interpreter.chat("Plot AAPL and META's normalized stock prices") # Executes a single command
interpreter.chat() # Starts an interactive chat
""",
            typed="My name is Killian.\nexit\n",
        )
        self.assertIn("[picture]", shown)
        self.assertIn("It **grows**.", shown)
        self.assertIn("Hello Killian.", shown)

    def test_programmatic_chat_goes_on_with_the_conversation(self) -> None:
        shown = self.run_example(
            """
from interpreter import interpreter

interpreter.chat("My name is Killian.")

# ... Streams output to your terminal, completes task ...

interpreter.chat("These look great but what is my name?")
"""
        )
        self.assertIn("Hello Killian.", shown)
        asked = words_sent(sent_to_model()[-1])
        self.assertIn("My name is Killian.", asked)
        self.assertIn("Hello Killian.", asked)

    def test_streaming(self) -> None:
        self.one.auto_run = True
        shown = self.run_example(
            """
from interpreter import interpreter

message = "What is 6 times 7?"

for chunk in interpreter.chat(message, display=False, stream=True):
  print(chunk)
"""
        )
        lines = shown.splitlines()
        self.assertEqual(lines[0], "{'role': 'assistant', 'type': 'message', 'start': True}")
        self.assertIn("{'role': 'computer', 'type': 'console', 'format': 'active_line', 'content': None}", lines)
        self.assertEqual(lines[-1], "{'role': 'assistant', 'type': 'message', 'end': True}")

    def test_a_new_chat(self) -> None:
        self.run_example(
            """
from interpreter import interpreter

interpreter.chat("My name is Killian.", display=False)
interpreter.messages = []
interpreter.chat("What is my name?", display=False)
"""
        )
        asked = words_sent(sent_to_model()[-1])
        self.assertIn("What is my name?", asked)
        self.assertNotIn("Killian", asked)

    def test_saving_and_restoring_chats(self) -> None:
        self.run_example(
            """
from interpreter import interpreter

messages = interpreter.chat("My name is Killian.", display=False) # Save messages to 'messages'
interpreter.messages = [] # Reset interpreter ("Killian" will be forgotten)

interpreter.messages = messages # Resume chat from 'messages' ("Killian" will be remembered)
interpreter.chat("What is my name?", display=False)
"""
        )
        asked = words_sent(sent_to_model()[-1])
        self.assertIn("Killian", asked)

    def test_a_fork_in_a_second_instance(self) -> None:
        self.one.auto_run = True
        other = self.made()
        self.run_example(
            """
import copy
from interpreter import interpreter

interpreter.chat("What is 6 times 7?", display=False)
other.messages = copy.deepcopy(interpreter.messages)
other.chat("What is my name?", display=False)
""",
            other=other,
        )
        asked = words_sent(sent_to_model()[-1])
        self.assertIn("What is 6 times 7?", asked)
        self.assertIn("The answer is **42**.", asked)
        self.assertEqual(self.one.messages, other.messages[: len(self.one.messages)])
        self.assertEqual(self.one.messages[-1]["content"], "The answer is **42**.")
        # The kernels are two: what one sets the other does not have.
        self.assertEqual(self.value("answer"), "42")
        self.assertEqual(other.computer.run("python", "'answer' in dir()")[0]["content"], "False")

    def test_the_system_message(self) -> None:
        shown = self.run_example(
            '''
from interpreter import interpreter

interpreter.system_message += """
Run shell commands with -y so the user doesn't have to confirm them.
"""
print(interpreter.system_message)
interpreter.chat("Hi", display=False)
'''
        )
        self.assertIn("Run shell commands with -y", shown)
        self.assertIn("Run shell commands with -y", words_sent(sent_to_model()[-1]))

    def test_the_model_is_changed_between_questions(self) -> None:
        self.run_example(
            """
from interpreter import interpreter

interpreter.chat("Hi", display=False)
interpreter.llm.model = "gpt-3.5-turbo"
interpreter.chat("What is my name?", display=False)
"""
        )
        last = sent_to_model()[-1]
        self.assertEqual(last["model"], "gpt-3.5-turbo")
        self.assertIn("Hello there.", words_sent(last))

    def test_an_openai_compatible_server(self) -> None:
        import os

        base = os.environ["OPENAI_BASE_URL"]
        with mock.patch.dict(os.environ):
            del os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
            shown = self.run_example(
                f"""
from interpreter import interpreter

interpreter.offline = True # Disables online features like Open Procedures
interpreter.llm.model = "openai/x" # Tells OI to send messages in OpenAI's format
interpreter.llm.api_key = "fake_key" # LiteLLM, which we use to talk to LM Studio, requires this
interpreter.llm.api_base = "{base}" # Point this at any OpenAI compatible server

interpreter.chat()
""",
                typed="Hi\nexit\n",
            )
        self.assertIn("Hello there.", shown)
        self.assertEqual(sent_to_model()[-1]["model"], "x")

    def test_a_server_of_events(self) -> None:
        """The endpoints of the FastAPI example, called as FastAPI calls them."""
        self.one.auto_run = True
        names: dict[str, Any] = {}

        def get(path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            return lambda function: names.setdefault(path, function)

        self.run_example(
            """
from interpreter import interpreter

@app.get("/chat")
def chat_endpoint(message: str):
    def event_stream():
        for result in interpreter.chat(message, stream=True):
            yield f"data: {result}\\n\\n"

    return event_stream()

@app.get("/history")
def history_endpoint():
    return interpreter.messages
""",
            app=mock.Mock(get=get),
        )
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            events = list(names["/chat"]("What is 6 times 7?"))
        self.assertTrue(all(it.startswith("data: {") and it.endswith("}\n\n") for it in events))
        history = names["/history"]()
        self.assertEqual([history[0]["content"], history[-1]["content"]], ["What is 6 times 7?", "The answer is **42**."])
        self.assertIn("The answer is **42**.", shown.getvalue())


class Documentation(WithOldName):
    def test_code_usage(self) -> None:
        hello = self.run_example(
            """
from interpreter import interpreter

print(interpreter.computer.run("python", "print('Hello World!')"))
interpreter.computer.run("python", "replicate = 'logged in'")

interpreter.custom_instructions = "Replicate has already been imported."
interpreter.auto_run = True
interpreter.chat("Hi! Can you print hello world?", display=False)
"""
        )
        self.assertIn("'format': 'output', 'content': 'Hello World!\\n'", hello)
        self.assertIn("Replicate has already been imported.", words_sent(sent_to_model()[-1]))
        self.assertEqual(self.one.messages[-1]["content"], "Done.")

    def test_a_custom_tool_is_there_for_the_model(self) -> None:
        """examples/custom_tool.ipynb and screenpipe.ipynb."""
        self.one.auto_run = True
        self.run_example(
            '''
from interpreter import interpreter

interpreter.computer.import_computer_api = False
custom_tool = """

import os

def search_aws_docs(query):

    return query.upper()

"""
interpreter.computer.run("python", custom_tool)
interpreter.chat("What is 6 times 7?", display=False)
'''
        )
        # The kernel that the model's code ran in has both.
        self.assertEqual(self.value("search_aws_docs('s3'), answer"), "('S3', 42)")

    def test_instances_talk_to_each_other(self) -> None:
        """docs/usage/python/multiple-instances, for two rounds."""
        agents = [self.one, self.made()]
        said = self.run_example(
            """
agent_1, agent_2 = agents
agent_1.system_message = "This is a separate instance."
agent_2.system_message = "This is yet another instance."

def swap_roles(messages):
    for message in messages:
        if message['role'] == 'user':
            message['role'] = 'assistant'
        elif message['role'] == 'assistant':
            message['role'] = 'user'
    return messages

# Kick off the conversation
messages = [{"role": "user", "type": "message", "content": "Hello!"}]

for round in range(2):
    for agent in agents:
        messages = agent.chat(messages, display=False)
        messages = swap_roles(messages)
        print(messages)
""",
            agents=agents,
        )
        answer = "[{'role': 'user', 'type': 'message', 'content': 'Hello there.'}]"
        self.assertEqual(said.splitlines(), [answer] * 4)
        self.assertIn("This is yet another instance.", words_sent(sent_to_model()[-1]))
        self.assertNotIn("This is a separate instance.", words_sent(sent_to_model()[-1]))

    def test_streaming_to_a_program_that_joins_messages(self) -> None:
        """examples/local_server.ipynb and JARVIS.ipynb."""
        self.one.auto_run = True
        shown = self.run_example(
            """
from interpreter import interpreter

full_response = ""
active_block_type = ""
history = ""
for chunk in interpreter.chat("What is 6 times 7?", stream=True, display=False):
    if isinstance(chunk, dict):
        if chunk.get("type") == "message":
            full_response += chunk.get("content", "")
    if chunk["type"] == "code" and "content" in chunk:
        if active_block_type != "code":
            active_block_type = "code"
            history += f"\\n```{chunk['format']}\\n"
        history += chunk["content"]
    if chunk["type"] == "console":
        if chunk.get("format") == "output":
            history += f"\\n```\\n{chunk['content']}"
print(full_response)
print(history)
"""
        )
        self.assertIn("I compute.", shown)
        self.assertIn("The answer is **42**.", shown)
        self.assertIn("```python\nprint('hey')\nanswer = 6 * 7\nanswer\n```\nhey", shown)

    def test_all_settings_are_taken(self) -> None:
        """docs/settings/all-settings: nothing raises, and what has no effect warns."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.run_example(
                """
from interpreter import interpreter

interpreter.llm.temperature = 0.7
interpreter.llm.context_window = 16000
interpreter.llm.max_tokens = 100
interpreter.llm.max_output = 1000
interpreter.llm.api_version = '2.0.2'
interpreter.llm.supports_functions = True
interpreter.llm.supports_vision = True
interpreter.loop = True
interpreter.verbose = True
interpreter.safe_mode = 'ask'
interpreter.auto_run = True
interpreter.max_budget = 0.01
interpreter.max_output = 1000
interpreter.offline = True
interpreter.anonymized_telemetry = False
interpreter.disable_telemetry = True
interpreter.system_message = "You are Open Interpreter..."
interpreter.custom_instructions = "This is a custom instruction."
interpreter.user_message_template = "{content}. Be concise."
interpreter.always_apply_user_message_template = False
interpreter.code_output_template = "Code output: {content}"
interpreter.empty_code_output_template = "It produced no text output."
interpreter.code_output_sender = "user"
interpreter.computer.offline = True
interpreter.computer.verbose = True
interpreter.computer.emit_images = True
interpreter.computer.import_computer_api = True
interpreter.llm.load()
"""
            )
        self.assertEqual({it.category for it in told}, {SpondeWarning})
        names = [str(it.message).split("`")[1].split(" =")[0].removeprefix("interpreter.") for it in told]
        self.assertEqual(
            names,
            [
                "llm.temperature",
                "llm.context_window",
                "llm.max_tokens",
                "llm.max_output",
                "llm.api_version",
                "llm.supports_vision",
                "max_output",
                "code_output_template",
                "empty_code_output_template",
                "computer.import_computer_api",
            ],
        )
        self.assertTrue(all(it.filename == "example" for it in told), "a warning names the line of the program")
        self.one.loop = False
        self.one.chat("Hi", display=False)
        sent = words_sent(sent_to_model()[-1])
        for words in ("You are Open Interpreter...", "This is a custom instruction.", "Hi. Be concise."):
            self.assertIn(words, sent)

    def test_profiles(self) -> None:
        """docs/guides/profiles and examples/talk_to_your_database.ipynb."""
        profile = Path(self.directory) / "oracle.py"
        profile.write_text(
            """
from interpreter import interpreter

interpreter.llm.supports_functions = True
interpreter.llm.load()
interpreter.computer.import_computer_api = False
interpreter.auto_run = False
interpreter.offline = True
interpreter.custom_instructions = "You are a SQL master."
"""
        )
        self.one.load_profile(profile)
        self.one.chat("Hi", display=False)
        self.assertIn("You are a SQL master.", words_sent(sent_to_model()[-1]))

    def test_a_function_as_the_model(self) -> None:
        """docs/language-models/custom-models."""
        shown = self.run_example(
            '''
from interpreter import interpreter

def custom_language_model(messages, model, stream, max_tokens):
    """
    OpenAI-compatible completions function (this one just echoes what the user said back).
    To make it OpenAI-compatible and parsable, `choices` has to be the root property.
    The property `delta` is used to signify streaming.
    """
    users_content = messages[-1].get("content") # Get last message's content

    for character in users_content:
        yield {"choices": [{"delta": {"content": character}}]}

# Tell Open Interpreter to power the language model with this function

interpreter.llm.completions = custom_language_model

interpreter.llm.max_tokens = 1000 # In tokens
interpreter.llm.supports_functions = False # Does this completions endpoint accept/return function calls?
interpreter.chat("Hi!") # Returns/displays "Hi!" character by character
'''
        )
        # What it gets ends with the question; Sponde may say before it what is in the directory.
        self.assertIn("Hi!", shown)
        self.assertTrue(self.one.messages[-1]["content"].endswith("Hi!"), self.one.messages[-1])

    def test_a_function_as_the_model_has_code_run(self) -> None:
        def model(**asked: Any) -> Iterator[dict[str, Any]]:
            last = str(asked["messages"][-1]["content"])
            words = "It is done." if "hello 42" in last else "I compute.\n```python\nprint('hello', 6 * 7)\n```"
            yield {"choices": [{"delta": {"content": words}}]}

        self.one.llm.completions = model
        self.one.auto_run = True
        answer = self.one.chat("What is 6 times 7?", display=False)
        self.assertEqual([it["content"].strip() for it in answer or []][-2:], ["hello 42", "It is done."])

        def broken(messages: list[Any]) -> Iterator[Any]:
            raise ValueError("no weights")

        self.one.llm.completions = broken
        with self.assertRaisesRegex(sponde.SpondeError, "ValueError: no weights"):
            self.one.chat("Hi", display=False)

    def test_a_language_of_ones_own(self) -> None:
        """docs/code-execution/custom-languages."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpondeWarning)
            self.run_example(
                """
from interpreter import interpreter

class Shouting:
    name = "shout"

    system_message = "# Follow this rule: Every block MUST shout."

    def run(self, code):
        yield {"type": "console", "format": "output", "content": code.upper()}

    def stop(self):
        pass

    def terminate(self):
        pass

# (Tip: Do this before adding/removing languages, otherwise OI might retain the state of previous languages:)
interpreter.computer.terminate()

# Give Open Interpreter its languages. This will only let it run PythonE2B:
interpreter.computer.languages = [Shouting]
"""
            )
        self.assertEqual(self.one.computer.run("shout", "hi")[0]["content"], "HI")

    def test_asking_before_running(self) -> None:
        """docs/guides/streaming-response, with the flag that 0.4 sends: `confirmation`."""

        def chunks(run: bool) -> Iterator[str]:
            for chunk in self.one.chat("What is 6 times 7?", stream=True, display=False):
                yield chunk["type"]
                if chunk["type"] == "confirmation" and not run:
                    break

        self.assertNotIn("console", list(chunks(run=False)))
        self.one.messages = []
        self.assertIn("console", list(chunks(run=True)))
