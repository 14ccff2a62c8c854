"""What `interpreter.chat` shows at a terminal, and the conversation there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ._decisions import ApprovalRequest
from ._errors import SpondeError
from ._lmc import Chunk, Message

if TYPE_CHECKING:
    from .interpreter import OpenInterpreter

HELP = """%reset   forget the conversation
%undo    take the last question back, with its variables
%help    this
exit     leave"""


class Display:
    """Prints chunks as they come. Control characters of outputs are not passed on."""

    def show(self, chunk: Chunk) -> None:
        """Prints one."""
        kind = chunk["type"]
        if chunk.get("start"):
            print(f"\n```{chunk.get('format', '')}" if kind == "code" else "", end="\n" if kind == "code" else "")
        elif chunk.get("end"):
            print("\n```" if kind == "code" else "")
        elif kind == "image":
            print("[picture]")
        elif kind in ("message", "code") or chunk.get("format") == "output":
            text = chunk.get("content", "")
            print("".join(it for it in str(text) if it.isprintable() or it in "\n\t"), end="")
        sys.stdout.flush()


def may_run(request: ApprovalRequest) -> bool:
    """Asks at the terminal. Where nobody is there the code does not run."""
    if not sys.stdin.isatty():
        print(f"\nNot run: {request.reason}, and nobody is at the terminal. Set interpreter.auto_run = True.")
        return False
    return input(f"\nRun this code? ({request.reason}) [y/N] ").strip().lower() in ("y", "yes")


def interact(interpreter: OpenInterpreter) -> list[Message]:
    """Questions from the terminal until `exit` or the end of stdin."""
    begin = len(interpreter.messages)
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            break
        if line in ("exit", "exit()", "quit"):
            break
        if not line:
            continue
        try:
            if line.startswith("%"):
                _command(interpreter, line)
            else:
                interpreter.chat(line)
        except SpondeError as error:
            print(f"error: {error}")
        except KeyboardInterrupt:
            print("\ninterrupted")
    return interpreter.messages[begin:]


def _command(interpreter: OpenInterpreter, line: str) -> None:
    word = line.split()[0]
    if word == "%reset":
        interpreter.reset()
    elif word == "%undo":
        messages, session = interpreter.messages, interpreter._session
        if session is None:
            print("there is nothing to undo")
            return
        session.undo()
        while messages and messages[-1].get("role") != "user":
            messages.pop()
        del messages[-1:]
        interpreter._session_messages = [dict(it) for it in messages]
    else:
        print(HELP)
