"""Errors. Each says what was tried, what happened, and in `hint` what to do."""

from __future__ import annotations


class SpondeError(Exception):
    """Anything that went wrong in Sponde."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}\n\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class ProgramNotFoundError(SpondeError):
    """The program `sponde` is not on this machine."""


class ServerError(SpondeError):
    """The server could not be started, or it failed."""


class ConnectionLostError(ServerError):
    """The server does not answer any more."""


class RequestError(SpondeError):
    """The server refused a request. `reason` is a word for programs, such as `not_found`."""

    def __init__(self, message: str, hint: str | None = None, *, status: int, reason: str) -> None:
        super().__init__(message, hint)
        self.status = status
        self.reason = reason


class BusyError(RequestError):
    """The session does something else."""


class ModelError(SpondeError):
    """The model did not answer."""


class BudgetSpentError(SpondeError):
    """The session may cost no more."""


class KernelError(SpondeError):
    """The kernel could not be started, or it is gone."""


class ApprovalRequiredError(SpondeError):
    """Code of the model needs approval, and nobody was asked."""


class UndoError(SpondeError):
    """The turns cannot be taken back, or not exactly (`inexact`)."""

    def __init__(self, message: str, hint: str | None = None, *, inexact: bool = False) -> None:
        super().__init__(message, hint)
        self.inexact = inexact


class CellError(SpondeError):
    """Code failed: an exception, an interrupt, the end of its time or of its kernel."""

    def __init__(self, message: str, *, name: str, value: str, traceback: str) -> None:
        super().__init__(message)
        self.name = name
        self.value = value
        self.traceback = traceback
