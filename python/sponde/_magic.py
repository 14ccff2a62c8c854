"""`%%ask` in notebooks: a question to a session beside the notebook's kernel, with the notebook's variables.

    %load_ext sponde
    %%ask
    How does the price depend on the mileage in cars?

Variables that the question names (`cars`) are handed over if they are tables or plain values, and what the code made is
fetched with `%sponde get NAME`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Iterator
from typing import Any

from ._decisions import ApprovalRequest, Change, Decision, Decline, Run
from ._errors import SpondeError
from ._frames import _parquet
from ._results import PICTURES, Output
from .session import Event, Session

WORD = re.compile(r"[^\W\d]\w*")
#: Values of such names are handed over only with `-v`: a question may have the word in it by chance.
SECRET = re.compile("key|token|secret|passw|pwd|credential|auth|dsn", re.IGNORECASE)
PLAIN = (bool, int, float, str, list, dict, tuple)
#: Things of a value's text that is handed over without being asked for.
MOST_PLAIN = 10_000
HELP = """%sponde get NAME [AS]   fetch a variable of the session
%sponde put NAME        hand a variable over
%sponde run CODE        run code in the session
%sponde restart         start the session's kernel anew
%sponde close           end the session; the next %%ask begins another one"""

_session: Session | None = None


def load(shell: Any) -> None:
    """Adds the magics."""
    shell.register_magic_function(_ask, "line_cell", "ask")
    shell.register_magic_function(_sponde, "line", "sponde")


def unload(_: Any) -> None:
    """Ends the session."""
    global _session
    if _session is not None:
        _session.close()
        _session = None


def _shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()


def _display() -> Any:
    # Its functions have no types.
    from IPython import display

    return display


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="%%ask", add_help=False, exit_on_error=False)
    parser.add_argument("-m", "--model", help="the model, for a session that begins")
    parser.add_argument("-k", "--kernel", help="its kernel")
    parser.add_argument("-y", "--yes", action="store_true", help="run code without asking")
    parser.add_argument("-v", "--variables", default="", help="variables to hand over, with commas between")
    parser.add_argument("words", nargs="*")
    return parser


def _ask(line: str, cell: str | None = None) -> None:
    """%%ask [-m MODEL] [-k KERNEL] [-y] [-v NAME,..], and the question below it (or behind it)."""
    try:
        wanted = _parser().parse_args(shlex.split(line) if cell is not None else _options_first(line))
    except (argparse.ArgumentError, ValueError) as error:
        print(f"error: {error}")
        return
    question = (cell if cell is not None else " ".join(wanted.words)).strip()
    if not question:
        print(_parser().format_usage())
        return
    try:
        session = _begun(wanted)
        _hand_over(session, question, [it for it in wanted.variables.split(",") if it])
        _show(session, session.ask(question, stream=True))
    except SpondeError as error:
        print(f"error: {error}")


def _options_first(line: str) -> list[str]:
    """Of `%ask -y Who's there?` only the options are split as a shell does: a question has apostrophes."""
    words = line.split()
    options: list[str] = []
    while words and words[0].startswith("-"):
        option = words.pop(0)
        options.append(option)
        if option not in ("-y", "--yes") and words:
            options.append(words.pop(0))
    return [*options, "--", " ".join(words)]


def _begun(wanted: argparse.Namespace) -> Session:
    global _session
    if _session is None:
        _session = Session(wanted.model, wanted.kernel, approval="never" if wanted.yes else None, approve=_approve)
        for notice in _session.notices:
            print(notice)
    elif wanted.model and wanted.model != _session.model:
        _session.model = wanted.model
    if wanted.yes:
        _session.approve = lambda _: True
    else:
        _session.approve = _approve
    return _session


def _approve(request: ApprovalRequest) -> Decision:
    """Asks below the cell."""
    try:
        answer = input(f"Run this code? ({request.reason}) y, n, or other code: ")
    except Exception as error:  # A frontend without stdin raises its own.
        return Decline(f"nobody could be asked: {error}")
    if answer.strip().lower() in ("y", "yes"):
        return Run()
    return Decline() if answer.strip().lower() in ("", "n", "no") else Change(answer)


def _hand_over(session: Session, question: str, named: list[str]) -> None:
    """Puts the variables that are named, and those that the question names as they are."""
    namespace = _shell().user_ns
    for name in named:
        if name not in namespace:
            raise SpondeError(f"there is no variable `{name}`")
        session.put(name, namespace[name])
    for name in dict.fromkeys(WORD.findall(question)):
        if name in named or name.startswith("_") or name not in namespace or SECRET.search(name):
            continue
        value = namespace[name]
        is_plain = type(value) in PLAIN and len(repr(value)) <= MOST_PLAIN
        if is_plain or type(value).__name__ in ("DataFrame", "Series", "Table"):
            # What cannot be handed over is not, and the model says what it lacks.
            with contextlib.suppress(SpondeError):
                if is_plain or _parquet(value) is not None:
                    session.put(name, value)


def _show(session: Session, events: Iterator[Event]) -> None:
    """Text, code and outputs below the cell, in order."""
    ipython = _display()
    words: list[str] = []

    def flush() -> None:
        text = "".join(words).strip()
        words.clear()
        if text:
            ipython.display(ipython.Markdown(text))

    for event in events:
        if event.kind == "text":
            words.append(event.text)
            continue
        if event.kind in ("code", "end", "approval"):
            flush()
        if event.kind == "code" and event.cell is not None:
            fence = "`" * (3 + max((len(it) for it in re.findall("`+", event.cell.source)), default=0))
            ipython.display(ipython.Markdown(f"{fence}{event.cell.language}\n{event.cell.source}\n{fence}"))
        elif event.kind == "output" and event.output is not None and event.output.kind in ("stream", "error"):
            _print(event.output)
        elif event.kind == "cell" and event.cell is not None:
            for index, output in enumerate(event.cell.outputs):
                if output.kind in ("display", "result"):
                    _show_rich(session, event.cell.cell, index, output)
        elif event.kind == "notice":
            print(event.text)


def _print(output: Output) -> None:
    print(output.text, end="" if output.text.endswith("\n") else "\n")


def _show_rich(session: Session, cell: str, index: int, output: Output) -> None:
    """Shows a picture, a table or a value. The code is a model's: no script of it reaches the notebook's page."""
    data = {mime: it for mime, it in output.data.items() if mime in ("text/plain", "text/markdown", *PICTURES)}
    if "text/html" in output.data and not any(mime in data for mime in PICTURES):
        with contextlib.suppress(SpondeError):
            if html := session.safe_html(cell, index):
                data["text/html"] = html
    if data:
        _display().display(data, raw=True)


def _sponde(line: str) -> Any:
    """%sponde get|put|run|restart|close"""
    word, _, rest = line.strip().partition(" ")
    names = rest.split()
    if word not in ("get", "put", "run", "restart", "close") or (word in ("get", "put") and not names):
        print(HELP)
        return None
    if word == "close":
        unload(_shell())
        return None
    try:
        session = _begun(_parser().parse_args([]))
        if word == "get":
            value = session.get(names[0])
            _shell().user_ns[names[-1]] = value
            return value
        if word == "put":
            _hand_over(session, "", names)
        elif word == "restart":
            session.restart()
        else:
            _show(session, session.run(rest, stream=True))
    except SpondeError as error:
        print(f"error: {error}")
    return None
