"""The adapters with the libraries that they are for: an agent of each, its model played, its code in a real kernel."""

from __future__ import annotations

import asyncio
import json
import os

import sponde
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.tool_context import ToolContext
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
from sponde.agents import code_tool
from sponde.langchain import SpondeTool
from sponde.smolagents import SpondeExecutor
from sponde.smolagents import SpondeTool as SmolTool

from .support import MODEL, WithDirectory, sent_to_model

BASE = os.environ["OPENAI_BASE_URL"]


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: The number.
    """
    return number * 2


class Adapters(WithDirectory):
    def test_an_agent_of_langchain(self) -> None:
        session = self.session()
        tool = SpondeTool(session)
        agent = create_agent(ChatOpenAI(model=MODEL, base_url=BASE), tools=[tool])
        messages = agent.invoke({"messages": [("user", "Sum of squares")]})["messages"]
        self.assertEqual(messages[-1].content, "It is 285.")
        answers = [it for it in messages if isinstance(it, ToolMessage)]
        self.assertEqual([(it.content, it.status) for it in answers], [("summed\n285", "success")])
        self.assertIsInstance(answers[0].artifact, sponde.Result)
        self.assertEqual(session.get("total"), 285)
        self.assertIn("ZeroDivisionError", tool.invoke({"code": "1 / 0"}))

    def test_langchains_tool_has_a_session_of_its_own(self) -> None:
        folder = os.getcwd()
        os.chdir(self.directory)
        self.addCleanup(os.chdir, folder)
        tool = SpondeTool()
        self.addCleanup(tool.close)
        self.assertEqual(tool.invoke({"code": "x = 6"}), "(no output)")
        self.assertEqual(tool.invoke({"code": "x * 7"}), "42")
        self.assertIn("Read-only file system", tool.invoke({"code": "open('/usr/sponde-test', 'w')"}))

    def test_an_agent_of_openais_sdk(self) -> None:
        set_tracing_disabled(True)
        session = self.session()
        model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=BASE))
        agent = Agent(name="Analyst", model=model, tools=[code_tool(session)], model_settings=ModelSettings())
        ran = Runner.run_sync(agent, "Sum of squares")
        self.assertEqual(ran.final_output, "It is 285.")
        results = [it for it in sent_to_model()[-1]["messages"] if it["role"] == "tool"]
        self.assertEqual([it["content"] for it in results], ["summed\n285"])
        self.assertEqual(session.get("total"), 285)

    def test_openais_tool_returns_pictures(self) -> None:
        tool = code_tool(self.session())
        plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
        context = ToolContext(context=None, tool_name="run_code", tool_call_id="1", tool_arguments="")
        shown = asyncio.run(tool.on_invoke_tool(context, json.dumps({"code": plot})))
        self.assertEqual([it.type for it in shown], ["text", "image"])
        self.assertTrue(shown[1].image_url.startswith("data:image/png;base64,iVBOR"))

    def test_a_tool_calling_agent_of_smolagents(self) -> None:
        session = self.session()
        tool = SmolTool(session)
        self.assertEqual(tool(code="6 * 7"), "42")
        agent = ToolCallingAgent([tool], OpenAIModel(MODEL, api_base=BASE), verbosity_level=0)
        self.assertIn("run_code", agent.tools)

    def test_a_code_agent_of_smolagents_runs_its_code_in_the_kernel(self) -> None:
        session = self.session()
        executor = SpondeExecutor(session)
        agent = CodeAgent([double], OpenAIModel(MODEL, api_base=BASE), executor=executor, verbosity_level=0)
        answer = agent.run("Double", additional_args={"sales": [1, 2]})
        self.assertEqual(answer, {"doubled": 4})
        self.assertEqual(session.get("kept"), 4)
        sent = json.dumps(sent_to_model()[-1]["messages"])
        self.assertIn("rows 2", sent)
        self.assertIn("division by zero", sent)
