"""A function tool for the OpenAI Agents SDK.

>>> from agents import Agent
>>> from sponde.agents import code_tool
>>> agent = Agent(name="Analyst", tools=[code_tool()])  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import FunctionTool, ToolOutputImage, ToolOutputText, function_tool

from ._tool import DESCRIPTION, Runner
from .session import Session


def code_tool(session: Session | None = None, timeout: float | None = 600, name: str = "run_code") -> FunctionTool:
    """A tool that runs code in `session`, or in one of its own that ends with the process."""
    runner = Runner(session, timeout)

    async def run_code(code: str, language: str | None = None) -> Any:
        """Runs code.

        Args:
            code: The code.
            language: Its language, if it is not Python.
        """
        result = await asyncio.to_thread(runner.run, code, language)
        words = runner.words(result)
        if not result.plots:
            return words
        pictures = [ToolOutputImage(image_url=url) for url in runner.pictures(result)]
        return [ToolOutputText(text=words), *pictures]

    return function_tool(run_code, name_override=name, description_override=DESCRIPTION, strict_mode=False)
