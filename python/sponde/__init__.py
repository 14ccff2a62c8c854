"""Sponde from Python: questions and code on real Jupyter kernels.

>>> import sponde
>>> with sponde.Session() as session:
...     print(session.run("6 * 7").text)
42

`Session` starts `sponde serve` by itself, or reaches a server that runs already. `sponde.interpreter` stands in for Open
Interpreter, `%load_ext sponde` adds `%%ask` to notebooks. See docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._decisions import Always, ApprovalRequest, Change, Decline, InputRequest, PauseRequest, Run
from ._errors import (
    ApprovalRequiredError,
    BudgetSpentError,
    BusyError,
    CellError,
    ConnectionLostError,
    KernelError,
    ModelError,
    ProgramNotFoundError,
    RequestError,
    ServerError,
    SpondeError,
    UndoError,
)
from ._program import find_program
from ._results import Answer, Cell, Output, Result, Variable
from .session import Event, Files, Session

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = [
    "Always",
    "Answer",
    "ApprovalRequest",
    "ApprovalRequiredError",
    "BudgetSpentError",
    "BusyError",
    "Cell",
    "CellError",
    "Change",
    "ConnectionLostError",
    "Decline",
    "Event",
    "Files",
    "InputRequest",
    "KernelError",
    "ModelError",
    "Output",
    "PauseRequest",
    "ProgramNotFoundError",
    "RequestError",
    "Result",
    "Run",
    "ServerError",
    "Session",
    "SpondeError",
    "UndoError",
    "Variable",
    "find_program",
]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext sponde`: the magics `%%ask` and `%sponde`."""
    from ._magic import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext sponde`: ends the session of the magics."""
    from ._magic import unload

    unload(shell)
