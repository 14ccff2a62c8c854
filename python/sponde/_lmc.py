"""Open Interpreter's LMC format: chunks of a stream, the messages that they make, and notebooks made of messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from ._decisions import ApprovalRequest
from ._results import PICTURES, Output
from .session import Event

Chunk = dict[str, Any]
Message = dict[str, Any]


class Chunks:
    """Turns the events of a turn into chunks, each message between a `start` and an `end`."""

    def __init__(self, languages: int) -> None:
        # Pieces of code come before their language is known, if there are several.
        self._holds_code = languages > 1
        self._open: Chunk | None = None
        self._held: list[str] = []
        self._streamed = False

    def of(self, event: Event) -> Iterator[Chunk]:
        """The chunks of one event."""
        if event.kind == "text":
            yield from self._within({"role": "assistant", "type": "message"}, event.text)
        elif event.kind == "code_delta" and event.cell is not None:
            if self._holds_code:
                self._held.append(event.text)
            else:
                self._streamed = True
                yield from self._within(_code(event.cell.language), event.text)
        elif event.kind == "code" and event.cell is not None:
            pieces = self._held or ([] if self._streamed else [event.cell.source])
            if "".join(pieces) != event.cell.source and self._held:
                pieces = [event.cell.source]
            for piece in pieces:
                yield from self._within(_code(event.cell.language), piece)
            yield from self.end()
            self._held, self._streamed = [], False
        elif event.kind == "approval" and isinstance(event.request, ApprovalRequest):
            code = {"type": "code", "format": event.request.language, "content": event.request.source}
            yield {"role": "computer", "type": "confirmation", "format": "execution", "content": code}
        elif event.kind == "started":
            yield from self._begin({"role": "computer", "type": "console"})
        elif event.kind == "output" and event.output is not None:
            yield from self._output(event.output)
        elif event.kind == "cell" and event.cell is not None and event.cell.status not in ("declined", "not run"):
            yield {"role": "computer", "type": "console", "format": "active_line", "content": None}
            yield from self.end()
        elif event.kind == "end":
            yield from self.end()

    def end(self) -> Iterator[Chunk]:
        """Closes the message that is open."""
        if self._open is not None:
            yield {**self._open, "end": True}
            self._open = None

    def _begin(self, head: Chunk) -> Iterator[Chunk]:
        if self._open != head:
            yield from self.end()
            self._open = head
            yield {**head, "start": True}

    def _within(self, head: Chunk, content: str) -> Iterator[Chunk]:
        yield from self._begin(head)
        yield {**head, "content": content}

    def _output(self, output: Output) -> Iterator[Chunk]:
        console = {"role": "computer", "type": "console"}
        for chunk in output_chunks(output):
            if chunk["type"] == "console":
                yield from self._begin(console)
                yield chunk
            else:
                head = {name: value for name, value in chunk.items() if name != "content"}
                yield from self._within(head, chunk["content"])
                yield from self.end()


def output_chunks(output: Output) -> Iterator[Chunk]:
    """An output without `start` and `end`."""
    for mime in PICTURES[:2]:
        if isinstance(output.data.get(mime), str):
            picture = {"role": "computer", "type": "image", "format": f"base64.{mime.split('/')[1]}"}
            yield {**picture, "content": "".join(output.data[mime].split())}
            return
    plain = output.plain
    if not plain and isinstance(output.data.get("text/html"), str):
        yield {"role": "computer", "type": "code", "format": "html", "content": output.data["text/html"]}
    elif plain:
        yield {"role": "computer", "type": "console", "format": "output", "content": plain}


def add(messages: list[Message], chunk: Chunk) -> None:
    """Lays a chunk of a stream onto the messages, as a program would that shows them."""
    if chunk.get("format") == "active_line" or chunk["type"] == "confirmation" or chunk.get("end"):
        return
    head = {name: value for name, value in chunk.items() if name not in ("start", "content")}
    if chunk["type"] == "console":
        head["format"] = "output"
    if chunk.get("start"):
        messages.append({**head, "content": ""})
    elif messages and {name: value for name, value in messages[-1].items() if name != "content"} == head:
        messages[-1]["content"] += chunk["content"]
    else:
        messages.append({**head, "content": chunk["content"]})


def user_message(message: Any) -> Message:
    """What a caller says, as a message."""
    if isinstance(message, dict):
        return {"role": "user", "type": "message", **message}
    return {"role": "user", "type": "message", "content": str(message)}


def words_of(message: Message) -> str:
    """What a message of the user says to the model."""
    content = message.get("content", message.get("message", ""))
    if message.get("type") in ("image", "file") and message.get("format", "path") == "path":
        return f"Look at the file {content!r}."
    return str(content)


def notebook_of(messages: Iterable[Message]) -> str:
    """A notebook from which a session goes on as if it had had this conversation."""
    cells: list[dict[str, Any]] = []
    step = 0
    speaker = ""
    for message in messages:
        role, kind = message.get("role"), message.get("type", "message")
        content = words_of(message)
        if role == "assistant" and speaker != "assistant":
            step += 1
        speaker = str(role)
        if role == "computer":
            if cells and cells[-1]["cell_type"] == "code":
                output = _kept_output(message)
                cells[-1]["outputs"] += [output] if output else []
            continue
        cell: dict[str, Any] = {"id": uuid.uuid4().hex[:8], "metadata": {"sponde": {"role": str(role)}}, "source": content}
        if role == "assistant":
            cell["metadata"]["sponde"]["step"] = step
        if kind == "code" and role == "assistant":
            marks = {"call_id": f"call_{cell['id']}", "status": "ok"}
            cell["metadata"]["sponde"].update(marks)
            cells.append({**cell, "cell_type": "code", "outputs": [], "execution_count": len(cells) + 1})
            if message.get("format") not in (None, "python", "py"):
                cell["metadata"]["sponde"]["language"] = message["format"]
        else:
            cells.append({**cell, "cell_type": "markdown"})
    metadata: dict[str, Any] = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "sponde": {"version": "0.1.0"},
    }
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _kept_output(message: Message) -> dict[str, Any] | None:
    kind, content = message.get("type"), str(message.get("content", ""))
    if kind == "console" and message.get("format", "output") == "output" and content:
        return {"output_type": "stream", "name": "stdout", "text": content}
    if kind == "image" and str(message.get("format", "")).startswith("base64"):
        mime = "image/jpeg" if message["format"].endswith("jpeg") else "image/png"
        return {"output_type": "display_data", "data": {mime: content}, "metadata": {}}
    return None


def _code(language: str) -> Chunk:
    return {"role": "assistant", "type": "code", "format": language.lower()}
