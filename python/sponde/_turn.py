"""Follows one turn of a session: items of its stream in, events for the caller out, and a result at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ._decisions import ApprovalRequest, InputRequest, PauseRequest
from ._results import Answer, Collector, Output, Result, outputs_of, status_of, update

EventKind = Literal[
    "text",
    "reasoning",
    "code_delta",
    "code",
    "approval",
    "input",
    "pause",
    "started",
    "output",
    "cell",
    "notice",
    "end",
]


@dataclass
class Event:
    """Something that happened while a question was answered or code ran.

    `text` and `code_delta` are pieces in `text`; `code` and `cell` have the `cell`, as it begins and as it ended; `output`
    has the new `output`; `approval`, `input` and `pause` have a `request` that can be answered; `end` has the `answer`.
    """

    kind: EventKind
    text: str = ""
    cell: Result | None = None
    output: Output | None = None
    request: ApprovalRequest | InputRequest | PauseRequest | None = None
    answer: Answer | None = None


@dataclass
class Turn:
    """What is known of a turn so far. `question` is None for code of the caller's own."""

    name: str
    language: str
    question: str | None = None
    #: The cell of the caller: its question, or its code.
    own: str | None = None
    answer: Answer = field(default_factory=lambda: Answer(""))
    cells: dict[str, Result] = field(default_factory=dict)
    finished: dict[str, Any] | None = None
    problem: str | None = None
    _collectors: dict[str, Collector] = field(default_factory=dict)
    _words: dict[str, list[str]] = field(default_factory=dict)
    _steps: dict[str, int] = field(default_factory=dict)

    def take(self, item: dict[str, Any]) -> list[Event]:
        """The events that an item is."""
        kind = item.get("type")
        if kind == "edit":
            name, value = next(iter(item["edit"].items()))
            handle = getattr(self, f"_edit_{name}", None)
            return handle(value, item.get("by")) if handle else []
        if kind == "event":
            handle = getattr(self, f"_on_{item['event']}", None)
            return handle(item) if handle else []
        return self._snapshot(item["snapshot"]) if kind == "snapshot" else []

    # The transcript.

    def _edit_say(self, value: dict[str, Any], by: str | None) -> list[Event]:
        if self.own is None and by == self.name:
            self.own = value["cell"]
        return []

    def _edit_append_text(self, value: dict[str, Any], _: str | None) -> list[Event]:
        self._words.setdefault(value["cell"], []).append(value["text"])
        self._steps[value["cell"]] = value["step"]
        return [Event("text", text=value["text"])]

    def _edit_cut_off(self, value: dict[str, Any], _: str | None) -> list[Event]:
        self._words.pop(value["cell"], None)
        return []

    def _edit_propose(self, value: dict[str, Any], by: str | None) -> list[Event]:
        is_own = value["author"] == "person"
        if is_own and self.question is None and self.own is None and by == self.name:
            self.own = value["cell"]
        cell = self._cell(value["cell"])
        cell.source, cell.language = value["source"], value["language"] or self.language
        cell.status = "proposed"
        return [Event("code", cell=cell)] if not is_own else []

    def _edit_change(self, value: dict[str, Any], _: str | None) -> list[Event]:
        self._cell(value["cell"]).source = value["source"]
        return []

    def _edit_start(self, value: dict[str, Any], _: str | None) -> list[Event]:
        cell = self._cell(value["cell"])
        cell.status = "running"
        return [Event("started", cell=cell)]

    def _edit_number(self, value: dict[str, Any], _: str | None) -> list[Event]:
        self._cell(value["cell"]).count = value["count"]
        return []

    def _edit_emit(self, value: dict[str, Any], _: str | None) -> list[Event]:
        cell, emitted = self._cell(value["cell"]), value["output"]
        if "update" in emitted:
            update(list(self.cells.values()), emitted["update"])
            return []
        output = self._collectors.setdefault(cell.cell, Collector(cell)).emit(emitted)
        return [Event("output", cell=cell, output=output)] if output else []

    def _edit_finish(self, value: dict[str, Any], _: str | None) -> list[Event]:
        cell = self._cell(value["cell"])
        cell.status = status_of(value["status"])
        return [Event("cell", cell=cell)]

    # What is no transcript.

    def _on_reasoning(self, item: dict[str, Any]) -> list[Event]:
        return [Event("reasoning", text=item["text"])]

    def _on_code_delta(self, item: dict[str, Any]) -> list[Event]:
        return [Event("code_delta", text=item["text"], cell=self._cell(item["cell"]))]

    def _on_notice(self, item: dict[str, Any]) -> list[Event]:
        return [Event("notice", text=item["message"])]

    def _on_approval_requested(self, item: dict[str, Any]) -> list[Event]:
        cell = self._cell(item["cell"])
        request = ApprovalRequest(cell.cell, cell.source, cell.language, item.get("reason", ""), item.get("findings") or [])
        return [Event("approval", cell=cell, request=request)]

    def _on_input_requested(self, item: dict[str, Any]) -> list[Event]:
        cell = self._cell(item["cell"])
        return [Event("input", cell=cell, request=InputRequest(cell.cell, item["prompt"], item["password"]))]

    def _on_continue_requested(self, item: dict[str, Any]) -> list[Event]:
        fields = {name: value for name, value in item.items() if name not in ("id", "type", "event", "request")}
        return [Event("pause", request=PauseRequest(item["end"], fields))]

    def _on_kernel_failed(self, item: dict[str, Any]) -> list[Event]:
        self.problem = item["message"]
        return []

    def _on_kernel_died(self, item: dict[str, Any]) -> list[Event]:
        self.problem = f"the kernel died: {item['reason']}"
        return []

    def _on_turn_finished(self, item: dict[str, Any]) -> list[Event]:
        self.finished = item
        spent, answer = item.get("turn") or {}, self.answer
        answer.question, answer.end = self.question or "", item["end"]
        answer.said = "\n\n".join("".join(words).strip() for words in self._words.values())
        last = max(self._steps.values(), default=0)
        final = [cell for cell in self._words if self._steps[cell] == last]
        answer.text = "\n\n".join("".join(self._words[cell]) for cell in final).strip()
        answer.cells = [cell for id, cell in self.cells.items() if id != self.own and cell.source]
        answer.cost = spent.get("cost_usd")
        answer.input_tokens = spent.get("input_tokens", 0)
        answer.output_tokens = spent.get("output_tokens", 0)
        answer.seconds = spent.get("seconds", 0.0)
        answer.notebook = item.get("notebook")
        return [Event("end", answer=answer)]

    def _snapshot(self, snapshot: dict[str, Any]) -> list[Event]:
        """We fell behind, or begin: what belongs to this turn is taken as it is now."""
        begun = self.own is None
        for edit in snapshot["transcript"]:
            if "restore" not in edit:
                continue
            cell = edit["restore"]
            begun = begun or cell["id"] == self.own
            if begun and self.own is not None:
                self._restore(cell)
        events: list[Event] = []
        for pending in snapshot["state"].get("pending", []):
            if self.own is not None:
                handle = getattr(self, f"_on_{pending['request']}_requested", None)
                events += handle(pending) if handle else []
        last = snapshot["state"].get("last_turn")
        if last and snapshot["state"]["turn"] == "idle" and self.own is not None:
            events += self._on_turn_finished(last)
        return events

    def _restore(self, kept: dict[str, Any]) -> None:
        kind = kept["kind"]
        if isinstance(kind, dict) and "assistant" in kind:
            self._words[kept["id"]] = [kept["source"]]
            self._steps[kept["id"]] = kind["assistant"]["step"]
        elif isinstance(kind, dict) and "code" in kind:
            cell, code = self._cell(kept["id"]), kind["code"]
            cell.source, cell.language = kept["source"], code["language"] or self.language
            cell.status, cell.count = status_of(code["status"]), code["count"]
            cell.outputs = outputs_of(code["outputs"])
            cell.truncated = "cut" in code["outputs"]

    def _cell(self, id: str) -> Result:
        return self.cells.setdefault(id, Result(id, language=self.language))
