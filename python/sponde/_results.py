"""What comes out of code and questions."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from ._errors import CellError

#: Bytes of output that is kept of one cell, and number of outputs. The notebook has limits of its own.
MOST_TEXT = 32 << 20
MOST_OUTPUTS = 10_000

#: How a figure is kept as typed data, in the schema of E2B's charts.
CHART = "application/vnd.sponde.chart+json"
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")
ESCAPES = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


@dataclass
class Output:
    """One output of a cell."""

    kind: Literal["stream", "display", "result", "error"]
    #: Of a stream, `stdout` or `stderr`; of an error, the exception's name.
    name: str = ""
    #: Of a stream or an error, as it came, with escape sequences.
    text: str = ""
    #: Of a display or a result, by MIME type; pictures but SVG are base64.
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str | None = None

    @property
    def plain(self) -> str:
        """It as text, without escape sequences."""
        if self.kind in ("stream", "error"):
            return ESCAPES.sub("", self.text)
        text = self.data.get("text/plain", self.data.get("text/markdown", ""))
        return text if isinstance(text, str) else ""

    @property
    def picture(self) -> bytes | None:
        """The bytes of its picture, if it is one."""
        for mime in PICTURES:
            data = self.data.get(mime)
            if isinstance(data, str):
                return data.encode() if mime == "image/svg+xml" else base64.b64decode(data)
        return None


@dataclass
class Result:
    """What code did."""

    cell: str
    source: str = ""
    language: str = "python"
    #: `ok`, `error`, `interrupted`, `timed out`, `not run`, `declined` or `kernel died`.
    status: str = "not run"
    #: The `In [n]` number.
    count: int | None = None
    outputs: list[Output] = field(default_factory=list)
    #: Whether there was more output than is kept here; the notebook and its files have it.
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ran to its end."""
        return self.status == "ok"

    @property
    def stdout(self) -> str:
        """What it printed."""
        return "".join(it.text for it in self.outputs if it.kind == "stream" and it.name == "stdout")

    @property
    def stderr(self) -> str:
        """What it printed to stderr."""
        return "".join(it.text for it in self.outputs if it.kind == "stream" and it.name == "stderr")

    @property
    def text(self) -> str:
        """All outputs as text, in order, without escape sequences."""
        text = ""
        for output in self.outputs:
            plain = output.plain
            if text and plain and not text.endswith("\n"):
                text += "\n"
            text += plain
        return text.rstrip("\n")

    @property
    def plots(self) -> list[bytes]:
        """The bytes of its pictures, in order."""
        return [picture for it in self.outputs if (picture := it.picture) is not None]

    @property
    def charts(self) -> list[dict[str, Any]]:
        """Its figures as typed data, in order: lines, points, bars, pies, boxes, with their labels and scales."""
        return [it.data[CHART] for it in self.outputs if CHART in it.data]

    @property
    def data(self) -> dict[str, Any] | None:
        """The value of its last expression by MIME type, if it has one."""
        return next((it.data for it in reversed(self.outputs) if it.kind == "result"), None)

    @property
    def error(self) -> CellError | None:
        """Why it is not `ok`."""
        if self.ok:
            return None
        for output in reversed(self.outputs):
            if output.kind == "error":
                traceback = output.plain
                name, value = output.name, str(output.metadata.get("value", ""))
                return CellError(f"{name}: {value}", name=name, value=value, traceback=traceback)
        return CellError(f"the code ended as `{self.status}`", name=self.status, value="", traceback="")

    def check(self) -> Result:
        """Raises `error` if there is one, and returns itself otherwise."""
        if (error := self.error) is not None:
            raise error
        return self

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.data or {"text/plain": self.text}


#: A cell of an answer: code of the model, and what it did.
Cell = Result


@dataclass
class Answer:
    """What the model answered."""

    question: str
    #: Its last words: the answer.
    text: str = ""
    #: All its words, with those between cells.
    said: str = ""
    #: The code that it wrote, in order.
    cells: list[Cell] = field(default_factory=list)
    #: How the turn ended: `done`, `declined`, `interrupted`, `step_limit`, `repeating`, ...
    end: str = ""
    #: US dollars, if a price is known.
    cost: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    notebook: str | None = None

    @property
    def plots(self) -> list[bytes]:
        """The pictures of all cells, in order."""
        return [plot for cell in self.cells for plot in cell.plots]

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


@dataclass(frozen=True)
class Variable:
    """A variable of the kernel."""

    name: str
    type: str
    shape: str | None = None
    size: int | str | None = None
    bytes: int | None = None
    preview: str | None = None


def output_of(emitted: dict[str, Any]) -> Output | None:
    """An output as the stream of events has it; None for updates and for what clears."""
    kind, value = next(iter(emitted.items()))
    if kind == "stream":
        return Output("stream", name=value["name"], text=value["text"])
    if kind in ("display", "result"):
        shown = Output("display" if kind == "display" else "result")
        shown.data, shown.metadata = value["data"], value.get("metadata") or {}
        shown.display_id = value.get("display_id")
        return shown
    if kind == "error":
        return failure(value)
    if kind == "lost":
        return Output("stream", name="stderr", text=f"{value}\n")
    return None


def failure(value: dict[str, Any]) -> Output:
    """An exception."""
    name, words = value.get("ename", ""), value.get("evalue", "")
    text = "\n".join(value.get("traceback") or []) or f"{name}: {words}"
    return Output("error", name=name, text=text, metadata={"value": words})


def outputs_of(kept: dict[str, Any]) -> list[Output]:
    """All outputs of a cell as a snapshot has them."""
    outputs = []
    for item in kept.get("items", []):
        if "text" in item:
            outputs.append(Output("stream", name=item["text"]["name"], text=item["text"]["shown"]))
            continue
        rich = item["rich"]["output"]
        kind = rich.get("output_type")
        if kind == "error":
            outputs.append(failure(rich))
        elif kind == "stream":
            text = rich["text"]
            outputs.append(Output("stream", name=rich["name"], text=text if isinstance(text, str) else "".join(text)))
        else:
            shown = Output("result" if kind == "execute_result" else "display")
            shown.data, shown.metadata = rich.get("data", {}), rich.get("metadata", {})
            shown.display_id = item["rich"].get("display_id")
            outputs.append(shown)
    return outputs


class Collector:
    """Builds a `Result` out of the outputs of a cell as they come."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self._clear = False
        self._kept = 0

    def emit(self, emitted: dict[str, Any]) -> Output | None:
        """Takes an output, and returns it if it is a new one."""
        if "clear" in emitted:
            if emitted["clear"].get("wait"):
                self._clear = True
            else:
                self.result.outputs.clear()
            return None
        output = output_of(emitted)
        if output is None:
            return None
        if self._clear:
            self.result.outputs.clear()
            self._clear = False
        self._kept += len(output.text) + sum(len(it) for it in output.data.values() if isinstance(it, str))
        outputs = self.result.outputs
        last = outputs[-1] if outputs else None
        if self._kept > MOST_TEXT or len(outputs) >= MOST_OUTPUTS:
            self.result.truncated = True
        elif last and last.kind == output.kind == "stream" and last.name == output.name:
            last.text += output.text
        else:
            outputs.append(Output(**vars(output)) if output.kind == "stream" else output)
        return output


def update(results: list[Result], value: dict[str, Any]) -> None:
    """New data for every display of that name."""
    for result in results:
        for output in result.outputs:
            if output.display_id == value["display_id"]:
                output.data, output.metadata = value["data"], value.get("metadata") or {}


def status_of(status: Any) -> str:
    """A cell's status in words."""
    if isinstance(status, str):
        return status
    kind, value = next(iter(status.items()))
    if kind == "finished":
        word = value if isinstance(value, str) else next(iter(value))
        return {"timed_out": "timed out", "kernel_died": "kernel died", "aborted": "not run"}.get(word, word)
    return {"not_run": "not run"}.get(kind, kind)
