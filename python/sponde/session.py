"""A session: questions to a model and code, in kernels that keep their variables.

One thread works with a session at a time; `interrupt` may be called from any. What the model and the code do is followed
on the server's stream of events, and a turn that the caller abandons is interrupted.
"""

from __future__ import annotations

import contextlib
import copy
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import quote

from . import _frames
from ._decisions import ApprovalRequest, Decision, Decline, InputRequest, PauseRequest, as_json, decision_of
from ._errors import (
    ApprovalRequiredError,
    BudgetSpentError,
    BusyError,
    KernelError,
    ModelError,
    RequestError,
    SpondeError,
    UndoError,
)
from ._http import Connection
from ._program import Server
from ._results import Answer, Result, Variable
from ._turn import Event, Turn

if TYPE_CHECKING:
    import pandas

__all__ = ["Event", "Files", "Session"]

Approve = Callable[[ApprovalRequest], bool | str | Decision | None]
Ask = Callable[[str, bool], str | None]
GoOn = Callable[[PauseRequest], bool]

#: Reasons why an answer comes too late: another client gave one, or the turn is over.
LATE = ("already_answered", "not_waiting", "ended")
#: Seconds that an abandoned turn may take to end. Code that ignores interrupts goes on, and the session stays busy.
ABANDON_WITHIN = 30.0
NOTEBOOKS = ("ipynb", "html", "md", "py")


class Session:
    """A session on a server that this starts, or on the one at `url`.

    :param model: as for `sponde --model`; without one the usual one, and where none is set up only `run` works.
    :param kernel: a kernel's name or language.
    :param directory: where the code works; of a server at `url`, a directory below the server's.
    :param sandbox: `read-only`, `workspace` or `full`; the server at `url` has its own.
    :param approval: `always`, `on-risk` or `never`: when `approve` is asked before code of the model runs.
    :param approve: gets an `ApprovalRequest`; true runs the code, false ends the turn, words decline it with a reason.
    :param input: gets the prompt and whether it is for a password; the line for code that calls `input()`.
    :param go_on: gets a `PauseRequest` at a limit of the turn; true goes on.
    :param notebook: the notebook's file below the directory; one that is there goes on.
    :param files: files that the model is told about.
    :param instructions: added to the model's system prompt.
    :param resume: the id of a session that goes on, and `replay`, whether its code runs again first.
    :param network: `off`, `on` or `allow:HOST,..` for code in the sandbox.
    :param env: more variables for the server, such as keys of model providers. Code does not see those keys.
    :param options: more options of `sponde serve`.
    """

    def __init__(
        self,
        model: str | None = None,
        kernel: str | None = None,
        directory: str | os.PathLike[str] | None = None,
        sandbox: str | None = None,
        url: str | None = None,
        token: str | None = None,
        *,
        approval: Literal["always", "on-risk", "never"] | None = None,
        approve: Approve | None = None,
        input: Ask | None = None,
        go_on: GoOn | None = None,
        notebook: str | None = None,
        files: Sequence[str] = (),
        instructions: str | None = None,
        resume: str | None = None,
        replay: bool = False,
        network: str | None = None,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        server: Server | None = None,
    ) -> None:
        self.approve, self.input, self.go_on = approve, input, go_on
        self._server: Server | None = None
        self._origin: Session | None = None
        self._working = threading.Lock()
        self._name = f"python {os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._closed = False
        if url is not None:
            given = {"sandbox": sandbox, "network": network, "env": env, "options": options}
            if wrong := [name for name, value in given.items() if value]:
                raise SpondeError(
                    f"`{wrong[0]}` is a matter of the server at {url}",
                    "leave it out, or leave `url` out: then a server is started with it",
                )
            self._connection = Connection(url, token)
        elif server is not None:
            self._connection = server.connection
        else:
            flags = [*options]
            flags += ["--sandbox", sandbox] if sandbox else []
            flags += ["--network", network] if network else []
            flags += ["--yes"] if approval == "never" else []
            self._server = Server(directory, flags, env)
            self._connection = self._server.connection
            directory = None
        wanted = {
            "model": model,
            "kernel": kernel,
            "directory": os.fspath(directory) if directory is not None else None,
            "approval": approval,
            "notebook": notebook,
            "files": list(files),
            "instructions": instructions,
            "resume": resume,
        }
        try:
            body = {name: value for name, value in wanted.items() if value}
            created = self._connection.json("POST", "/api/sessions", body=body)
            #: The session's id, for `resume` and `sponde resume`.
            self.id: str = created["id"]
            #: What a person should know about the start.
            self.notices: list[str] = created["notices"]
            self._path = f"/api/sessions/{self.id}"
            self._is_ours = resume is None
            self._language = self._kernels()[0]["language"] if self._kernels() else "python"
            if resume is not None and replay:
                self._replay()
        except BaseException:
            self._closed = True
            if self._server is not None:
                self._server.close()
            raise
        self.files = Files(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sponde.Session {self.id} at {self._connection.shown}>"

    def close(self) -> None:
        """Ends the session; its notebook and its files stay. One that was resumed at a `url` goes on there."""
        if self._closed:
            return
        self._closed = True
        if self._server is not None:
            self._server.close()
        elif self._is_ours:
            with contextlib.suppress(SpondeError):
                self._connection.request("DELETE", self._path)

    # Questions and code.

    @overload
    def ask(self, question: str, stream: Literal[False] = False) -> Answer: ...
    @overload
    def ask(self, question: str, stream: Literal[True]) -> Iterator[Event]: ...
    @overload
    def ask(self, question: str, stream: bool) -> Answer | Iterator[Event]: ...
    def ask(self, question: str, stream: bool = False) -> Answer | Iterator[Event]:
        """Asks the model, which runs code as it needs. With `stream` the events come as they happen, the answer last.

        :raises ApprovalRequiredError: code needs approval, and there is no `approve`. With `stream` it is declined
            instead, unless the `approval` event's request was answered.
        :raises ModelError, KernelError, BudgetSpentError: there is no answer.
        """
        turn = Turn(f"{self._name} (web)", self._language, question=question)
        events = self._drive({"command": "submit", "text": question}, turn)
        if stream:
            return events
        unanswered: ApprovalRequest | None = None
        for event in events:
            if isinstance(event.request, ApprovalRequest) and event.request.decision is None:
                unanswered = event.request
        if unanswered is not None:
            raise ApprovalRequiredError(
                f"code of the model needs approval ({unanswered.reason}), and nobody was asked:\n{unanswered.source}",
                "give the session `approve=`, a function that gets the request, or `approval='never'`",
            )
        return turn.answer

    @overload
    def run(
        self, code: str, language: str | None = None, *, timeout: float | None = None, stream: Literal[False] = False
    ) -> Result: ...
    @overload
    def run(
        self, code: str, language: str | None = None, *, timeout: float | None = None, stream: Literal[True]
    ) -> Iterator[Event]: ...
    def run(
        self, code: str, language: str | None = None, *, timeout: float | None = None, stream: bool = False
    ) -> Result | Iterator[Event]:
        """Runs code of your own, in the main kernel or the one for `language`. After `timeout` seconds it is interrupted.

        An exception of the code is the result's `error`; `result.check()` raises it. With `stream` the events come as
        they happen; the `cell` event has the result.
        """
        turn = Turn(f"{self._name} (web)", language or self._language)
        command = {"command": "run", "code": code}
        if language is not None:
            command["language"] = language
        events = self._drive(command, turn, timeout)
        if stream:
            return events
        for _ in events:
            pass
        if turn.own is None or turn.own not in turn.cells:
            raise KernelError(turn.problem or "the code was not run", "`restart()` starts a new kernel")
        return turn.cells[turn.own]

    def interrupt(self) -> None:
        """Stops what goes on. Can be called from another thread."""
        self._command({"command": "interrupt"})

    def restart(self) -> None:
        """Starts the kernel anew. Its variables are lost."""
        with self._alone():
            after = self._command({"command": "restart_kernel"})
            for item in self._items(after):
                if item.get("event") == "kernel_ready":
                    return
                if item.get("event") == "kernel_failed":
                    raise KernelError(item["message"], item.get("log"))

    def undo(self, turns: int = 1, *, anyway: bool = False) -> dict[str, Any]:
        """Takes turns back: questions or cells with all that came of them, variables and files too.

        :raises UndoError: it cannot be done, or not exactly (`anyway` does it then). Nothing has changed.
        """
        with self._alone():
            after = self._command({"command": "undo", "to": {"turns": turns}, "anyway": anyway})
            for item in self._items(after):
                event = item.get("event")
                if event == "undone":
                    return {name: value for name, value in item.items() if name not in ("id", "type", "event")}
                if event == "undo_refused":
                    raise UndoError(item["message"])
                if event == "undo_asks":
                    words = "; ".join(map(str, item["inexact"]))
                    raise UndoError(f"this would not be as it was: {words}", "`anyway=True` does it", inexact=True)
        raise UndoError("the session ended meanwhile")

    # Variables and files.

    def variables(self, language: str | None = None) -> list[Variable]:
        """The variables of the main kernel, or of the one for `language`."""
        query = {"language": language} if language else None
        try:
            listed = self._connection.json("GET", f"{self._path}/variables", query=query)
        except RequestError as error:
            if error.reason == "no_kernel":
                return []
            raise
        return [Variable(**it) for it in listed]

    def get(self, name: str) -> Any:
        """A variable of the Python kernel: a table as a pandas DataFrame, plain values as they are."""
        return _frames.get(self, name)

    def put(self, name: str, value: pandas.DataFrame | Any) -> None:
        """Gives the Python kernel a variable: a table (pandas, polars, pyarrow) or a plain value.

        A table goes through the file `sponde-data/NAME.parquet`, which stays, so that the notebook can run again.
        """
        _frames.put(self, name, value)

    def notebook(self, format: str = "ipynb") -> str:
        """The conversation as a file: `ipynb`, `html`, `md` or `py`."""
        if format not in NOTEBOOKS:
            raise SpondeError(f"there is no format `{format}`", f"there are {', '.join(NOTEBOOKS)}")
        return self._connection.request("GET", f"{self._path}/notebook.{format}").decode()

    # The session.

    @property
    def state(self) -> dict[str, Any]:
        """What the session is doing: model, kernels, approval, pending questions (docs/events.md)."""
        return self._snapshot()["state"]

    @property
    def model(self) -> str | None:
        """Which model answers."""
        return self.state["model"]

    @model.setter
    def model(self, model: str) -> None:
        with self._alone():
            after = self._command({"command": "set_model", "model": model})
            for item in self._items(after):
                if item.get("event") == "model_changed":
                    return
                if item.get("event") == "model_unchanged":
                    raise ModelError(f"`{model}` cannot be had: {item['message']}", "`sponde models` lists models")

    @property
    def approval(self) -> str:
        """When somebody is asked before code of the model runs."""
        return self.state["approval"]

    @approval.setter
    def approval(self, approval: str) -> None:
        self._command({"command": "set_approval", "approval": approval})

    def fork(self, at: str | int | None = None) -> Session:
        """Another session that begins as this one, with all cells or up to `at`, a cell's id or number.

        Its kernel begins anew.
        """
        body = {"at": str(at)} if at is not None else {}
        created = self._connection.json("POST", f"{self._path}/fork", body=body)
        forked = copy.copy(self)
        forked.id, forked.notices = created["id"], created["notices"]
        forked._path = f"/api/sessions/{forked.id}"
        # The server goes on as long as one of both does.
        forked._origin = self
        forked._server, forked._is_ours, forked._working = None, True, threading.Lock()
        forked.files = Files(forked)
        if (approval := self.approval) != forked.approval:
            forked.approval = approval
        return forked

    # How it is done.

    def _drive(self, command: dict[str, Any], turn: Turn, timeout: float | None = None) -> Iterator[Event]:
        with self._alone():
            after = self._command(command)
            timer = _TimeLimit(timeout, self._interrupt_quietly) if timeout is not None else None
            try:
                for item in self._items(after):
                    for event in turn.take(item):
                        if event.kind == "end" and turn.own is None:
                            continue
                        if event.kind == "cell" and event.cell is not None:
                            self._complete(event.cell, timer)
                        if event.request is not None:
                            yield from self._answered(event)
                        else:
                            yield event
                    if turn.finished is not None and turn.own is not None:
                        break
            except BaseException:
                if turn.finished is None:
                    self._abandon(after)
                raise
            finally:
                if timer is not None:
                    timer.cancel()
        if turn.question is not None:
            _raise_for_end(turn)

    def _answered(self, event: Event) -> Iterator[Event]:
        """Yields the event; its request is answered by the callback, else by the caller, else as nobody would."""
        request = event.request
        if isinstance(request, ApprovalRequest):
            if self.approve is not None:
                request.decision = decision_of(self.approve(request))
            yield event
            decision = as_json(request.decision or Decline())
            self._reply({"command": "decide", "cell": request.cell, "decision": decision})
        elif isinstance(request, InputRequest):
            if self.input is not None:
                request.value = self.input(request.prompt, request.password)
            yield event
            if request.value is not None:
                self._reply({"command": "reply", "cell": request.cell, "value": request.value})
            else:
                reason = "nobody is there to answer"
                self._reply({"command": "refuse_input", "cell": request.cell, "reason": reason})
        elif isinstance(request, PauseRequest):
            if self.go_on is not None:
                request.go_on = bool(self.go_on(request))
            yield event
            self._reply({"command": "continue", "go_on": request.go_on})

    def _reply(self, command: dict[str, Any]) -> None:
        try:
            self._command(command)
        except RequestError as error:
            if error.reason not in LATE:
                raise

    def safe_html(self, cell: str, output: int) -> str | None:
        """An output's HTML without what could run in a page; None if it is drawn by scripts, or is not HTML."""
        shown = self._connection.json("GET", f"{self._path}/cells/{cell}/outputs/{output}/html")
        return shown.get("html")

    def _complete(self, cell: Result, timer: _TimeLimit | None) -> None:
        """Fetches what was too large for the stream."""
        if timer is not None and timer.is_over and cell.status == "interrupted":
            cell.status = "timed out"
        for index, output in enumerate(cell.outputs):
            for mime, data in output.data.items():
                if not (isinstance(data, dict) and set(data) == {"large"}):
                    continue
                path = f"{self._path}/cells/{cell.cell}/outputs/{index}/{quote(mime, safe='')}"
                try:
                    fetched = self._connection.request("GET", path)
                except RequestError:
                    cell.truncated = True
                    continue
                output.data[mime] = _frames.as_in_notebook(mime, fetched)

    def _abandon(self, after: str) -> None:
        """The caller goes away in the middle of a turn: it is stopped, so that the next one can begin."""
        with contextlib.suppress(SpondeError, OSError):
            self._command({"command": "interrupt"})
            for item in self._connection.events(f"{self._path}/events", after, within=ABANDON_WITHIN):
                if item.get("event") == "turn_finished" or item.get("type") == "snapshot":
                    return

    def _interrupt_quietly(self) -> None:
        with contextlib.suppress(SpondeError, OSError):
            self.interrupt()

    def _replay(self) -> None:
        """Has the code of a session that goes on run again, once its kernel is there."""
        for item in self._items(None):
            pending = item["snapshot"]["state"]["pending"] if item.get("type") == "snapshot" else []
            if item.get("event") == "kernel_failed":
                raise KernelError(item["message"], item.get("log"))
            if item.get("event") == "session_restored":
                return
            if item.get("event") == "session_resumed" or any(it["request"] == "restore" for it in pending):
                if item.get("memory") == "alive":
                    return
                self._reply({"command": "restore", "replay": True})

    def _snapshot(self) -> dict[str, Any]:
        return self._connection.json("GET", self._path)["snapshot"]

    def _kernels(self) -> list[dict[str, Any]]:
        return self._snapshot()["state"]["kernels"]

    def _items(self, after: str | None) -> Iterator[dict[str, Any]]:
        return self._connection.events(f"{self._path}/events", after)

    def _command(self, command: dict[str, Any]) -> str:
        body = {**command, "as": self._name, "key": uuid.uuid4().hex}
        return self._connection.json("POST", f"{self._path}/commands", body=body)["after"]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if self._closed:
            raise SpondeError("the session is closed", f"`Session(resume={self.id!r})` goes on with it")
        if not self._working.acquire(blocking=False):
            raise BusyError(
                "this session does something else",
                "wait for it, call `interrupt()`, or open another session",
                status=409,
                reason="busy",
            )
        try:
            yield
        finally:
            self._working.release()


class Files:
    """The files in the session's directory."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, path: str = "") -> list[dict[str, Any]]:
        """What is in a directory: each with `name`, `kind`, `bytes`, `modified`."""
        return self._session._connection.json("GET", f"{self._session._path}/files", query={"path": path})

    def upload(self, source: str | os.PathLike[str] | bytes, to: str | None = None) -> str:
        """Copies a local file, or bytes, to the session's directory, and returns its path there."""
        if isinstance(source, bytes):
            if to is None:
                raise SpondeError("bytes have no name", "say where they go with `to=`")
            content = source
        else:
            content = Path(source).read_bytes()
            to = to or Path(source).name
        path = f"{self._session._path}/files/{quote(to)}"
        return self._session._connection.json("PUT", path, body=content, timeout=3600)["path"]

    def download(self, path: str, to: str | os.PathLike[str] | None = None) -> bytes:
        """The bytes of a file there; `to` writes them to a local file too."""
        content = self._session._connection.request("GET", f"{self._session._path}/files/{quote(path)}", timeout=3600)
        if to is not None:
            Path(to).write_bytes(content)
        return content

    def delete(self, path: str) -> None:
        """Removes a file there."""
        self._session._connection.request("DELETE", f"{self._session._path}/files/{quote(path)}")


class _TimeLimit:
    """Calls `stop` once the time of a cell is up."""

    def __init__(self, seconds: float, stop: Callable[[], None]) -> None:
        self.is_over = False
        self._stop = stop
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.is_over = True
        self._stop()

    def cancel(self) -> None:
        """The cell is over."""
        self._timer.cancel()


def _raise_for_end(turn: Turn) -> None:
    """Turns that have no answer are errors."""
    finished = turn.finished or {}
    end, message = finished.get("end"), finished.get("message", "")
    if end == "model_failed":
        key = finished.get("key_variable")
        raise ModelError(f"the model did not answer: {message}", f"check the key in {key}" if key else None)
    if end == "kernel_failed":
        raise KernelError(message or turn.problem or "the kernel could not be started", "`sponde doctor` says why")
    if end == "budget":
        raise BudgetSpentError(message)
