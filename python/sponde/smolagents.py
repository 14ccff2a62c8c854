"""For smolagents: `SpondeTool` for any agent, `SpondeExecutor` in which a `CodeAgent` runs its code.

>>> from smolagents import CodeAgent
>>> from sponde.smolagents import SpondeExecutor
>>> agent = CodeAgent(tools=[], model=model, executor=SpondeExecutor())  # doctest: +SKIP
"""

from __future__ import annotations

import io
import json
from typing import Any

from smolagents import Tool
from smolagents.local_python_executor import CodeOutput, PythonExecutor
from smolagents.monitoring import LogLevel

from ._errors import CellError, SpondeError
from ._tool import DESCRIPTION, Runner
from .session import Session


class SpondeTool(Tool):
    """Runs code in a session that keeps its variables."""

    name = "run_code"
    description = DESCRIPTION
    inputs = {
        "code": {"type": "string", "description": "The code"},
        "language": {"type": "string", "description": "Its language, if it is not Python", "nullable": True},
    }
    output_type = "string"

    def __init__(self, session: Session | None = None, timeout: float | None = 600) -> None:
        super().__init__()
        self._runner = Runner(session, timeout)

    def forward(self, code: str, language: str | None = None) -> str:
        return self._runner.words(self._runner.run(code, language))


#: What the code finds in the kernel. Tools are classes of smolagents, which the kernel need not have. The agent's end: its
#: answer leaves the cell as an exception, from whatever depth of its code.
PRELUDE = """
def _sponde_smolagents():
    import sys, types
    try:
        import smolagents
    except ImportError:
        class Tool:
            def __init__(self, *args, **options):
                pass

            def __call__(self, *args, **options):
                return self.forward(*args, **options)

        sys.modules["smolagents"] = module = types.ModuleType("smolagents")
        module.Tool = Tool

_sponde_smolagents()

class _SpondeFinalAnswer(BaseException):
    pass

def final_answer(answer=None):
    import json
    try:
        text = json.dumps(answer)
    except (TypeError, ValueError):
        text = json.dumps(str(answer))
    print("sponde-final-answer:" + text)
    raise _SpondeFinalAnswer()
"""
MARK = "sponde-final-answer:"


class SpondeExecutor(PythonExecutor):
    """Runs the code of a `CodeAgent`. Tools of the agent must be code: they are defined in the kernel."""

    def __init__(self, session: Session | None = None, timeout: float | None = 600) -> None:
        self._runner = Runner(session, timeout)
        self._is_ready = False

    @property
    def session(self) -> Session:
        """The session, which starts with the first code."""
        return self._runner.session

    def send_tools(self, tools: dict[str, Tool]) -> None:
        """Defines the agent's tools in the kernel."""
        sources = [PRELUDE]
        for name, tool in tools.items():
            if name == "final_answer":
                continue
            try:
                source = tool.to_dict()["code"]
            except Exception as error:
                raise SpondeError(
                    f"the tool `{name}` cannot be sent to the kernel: {error}",
                    "define it as a class of its own with imports inside, or give the agent a `SpondeTool` instead",
                ) from error
            sources.append(f"{source}\n{name} = {type(tool).__name__}()")
        for source in sources:
            self._runner.run(source).check()
        self._is_ready = True

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Gives the kernel variables: tables and plain values."""
        for name, value in variables.items():
            self._runner.session.put(name, value)

    def __call__(self, code_action: str) -> CodeOutput:
        if not self._is_ready:
            self._runner.run(PRELUDE).check()
            self._is_ready = True
        result = self._runner.run(code_action)
        lines = io.StringIO(result.stdout)
        answers = [line for line in lines if line.startswith(MARK)]
        logs = "".join(line for line in result.stdout.splitlines(True) if not line.startswith(MARK))
        error = result.error
        if answers and isinstance(error, CellError) and error.name == "_SpondeFinalAnswer":
            return CodeOutput(output=json.loads(answers[-1].removeprefix(MARK)), logs=logs, is_final_answer=True)
        if error is not None:
            raise SpondeError(self._runner.words(result))
        return CodeOutput(output=_value(result.data), logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """Ends a session of its own."""
        self._runner.close()

    #: What smolagents reads of an executor.
    log_level = LogLevel.INFO


def _value(data: dict[str, Any] | None) -> Any:
    return (data or {}).get("text/plain")
