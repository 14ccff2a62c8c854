"""What a session asks of its caller, and the answers to that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Run:
    """Run the code."""


@dataclass(frozen=True)
class Always:
    """Run it, and do not ask again about code in which the same is found."""


@dataclass(frozen=True)
class Change:
    """Run other code instead."""

    source: str


@dataclass(frozen=True)
class Decline:
    """Do not run it. With a reason the model goes on and reads it; without one the turn ends."""

    reason: str | None = None


Decision = Run | Always | Change | Decline
"""An answer to an `ApprovalRequest`."""


@dataclass
class ApprovalRequest:
    """May this code of the model run?"""

    cell: str
    source: str
    language: str
    #: Why it is asked, in words.
    reason: str
    #: What was found in the code: each with `finding`, `line`, `text`, `reason`.
    findings: list[dict[str, Any]] = field(default_factory=list)
    #: The answer, once there is one.
    decision: Decision | None = None

    def run(self) -> None:
        """Let it run."""
        self.decision = Run()

    def always(self) -> None:
        """Let it run, and do not ask again about the same."""
        self.decision = Always()

    def change(self, source: str) -> None:
        """Run `source` instead."""
        self.decision = Change(source)

    def decline(self, reason: str | None = None) -> None:
        """Do not run it."""
        self.decision = Decline(reason)


@dataclass
class InputRequest:
    """Code asks for a line (`input()`, `getpass()`)."""

    cell: str
    prompt: str
    #: Whether the answer must be hidden.
    password: bool
    #: The answer, once there is one.
    value: str | None = None

    def reply(self, value: str) -> None:
        """Give the code this line."""
        self.value = value


@dataclass
class PauseRequest:
    """A limit of the turn is reached (`step_limit`, `repeating`, `budget`). Does it go on?"""

    #: Which limit: the `end` that the turn has if it does not go on.
    end: str
    fields: dict[str, Any]
    go_on: bool = False


def decision_of(answer: Any) -> Decision:
    """What a callback means: a decision, true to run, false to decline, words to decline with a reason."""
    if isinstance(answer, (Run, Always, Change, Decline)):
        return answer
    if isinstance(answer, str):
        return Decline(answer)
    return Run() if answer else Decline()


def as_json(decision: Decision) -> dict[str, Any]:
    """The decision as the server takes it."""
    if isinstance(decision, Change):
        return {"decision": "change", "source": decision.source}
    if isinstance(decision, Decline):
        return {"decision": "decline", "reason": decision.reason}
    return {"decision": "always" if isinstance(decision, Always) else "run"}
