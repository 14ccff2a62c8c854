"""A tool for LangChain agents: Python (and other languages) in a session that keeps its variables.

>>> from sponde.langchain import SpondeTool
>>> tool = SpondeTool()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from ._tool import DESCRIPTION, Runner
from .session import Session


class _Arguments(BaseModel):
    code: str = Field(description="The code")
    language: str | None = Field(default=None, description="Its language, if it is not Python")


class SpondeTool(BaseTool):
    """Runs code. The artifact of a call is the `sponde.Result`, with plots."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str = "run_code"
    description: str = DESCRIPTION
    args_schema: Any = _Arguments
    response_format: Any = "content_and_artifact"
    _runner: Runner = PrivateAttr()

    def __init__(self, session: Session | None = None, timeout: float | None = 600, **options: Any) -> None:
        super().__init__(**options)
        self._runner = Runner(session, timeout)

    @property
    def session(self) -> Session:
        """The session, which starts with the first code."""
        return self._runner.session

    def close(self) -> None:
        """Ends the session, if it is the tool's own."""
        self._runner.close()

    def _run(self, code: str, language: str | None = None, **_: Any) -> tuple[Any, Any]:
        result = self._runner.run(code, language)
        return self._runner.words(result), result
