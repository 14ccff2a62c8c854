"""In the place of Open Interpreter 0.4: `from sponde.interpreter import interpreter`.

What programs written for it use is here: `chat`, its stream of LMC chunks, `messages`, `auto_run`, `system_message`,
`custom_instructions`, `llm`, `computer.run`. The code runs in Jupyter kernels in Sponde's sandbox. A setting without a
meaning here warns instead of doing nothing in silence. `install()` makes `from interpreter import interpreter` work too.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import runpy
import sys
import threading
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ._computer import Computer
from ._decisions import ApprovalRequest
from ._errors import SpondeError
from ._llm import Llm
from ._lmc import Chunk, Chunks, Message, add, notebook_of, user_message, words_of
from ._program import Server
from ._settings import Settings, SpondeWarning
from ._terminal import Display, interact, may_run
from .session import Session

__all__ = ["OpenInterpreter", "SpondeWarning", "install", "interpreter"]

#: Conversations that stay open, with their variables, after `messages` was set to something else.
KEPT_SESSIONS = 4
#: How often `loop` asks the model to go on.
MOST_LOOPS = 20

SYSTEM_MESSAGE = (
    "You are Sponde, which answers questions by writing and running code on this machine. "
    "(Sponde's own prompt comes first; what is added to this text or put in its place is added to that.)"
)


class _Conversation(NamedTuple):
    """A session that stays open, though `messages` is another conversation now."""

    messages: list[Message]
    #: What the last `chat` returned: the messages behind the question.
    answer: list[Message]
    session: Session


class _ServerSettings(NamedTuple):
    """What cannot change while the server runs."""

    model: str | None
    variables: tuple[tuple[str, str], ...]
    supports_functions: bool | None
    max_budget: float | None
    sandbox: str | None
    directory: str | None
    profile: str | None


class OpenInterpreter(Settings):
    """A conversation as Open Interpreter has it. Its server starts with the first question or code."""

    _called = "interpreter"
    _missing = {
        "os": (False, "Sponde does not see or move the screen"),
        "speak_messages": (False, "Sponde does not speak"),
        "contribute_conversation": (False, "Sponde sends conversations to nobody but the model"),
        "max_output": (2800, "how much of an output the model sees is as in docs/limits.md; it can read more by itself"),
        "import_skills": (False, "put functions in a module in the working directory"),
        "skills_path": (None, "put functions in a module in the working directory"),
        "code_output_template": (None, "outputs reach the model as results of its calls"),
        "empty_code_output_template": (None, "outputs reach the model as results of its calls"),
        "code_output_sender": ("user", "outputs reach the model as results of its calls"),
    }

    def __init__(self, messages: list[Message] | None = None, **settings: Any) -> None:
        self.llm = Llm()
        self.computer = Computer(self)
        self.messages: list[Message] = list(messages or [])
        self.auto_run = False
        self.system_message = SYSTEM_MESSAGE
        self.custom_instructions = ""
        self.user_message_template = "{content}"
        self.always_apply_user_message_template = False
        self.loop = False
        self.loop_message = (
            "Go on until the whole task is done. If it is, say exactly 'The task is done.' If it cannot be "
            "done, say exactly 'The task is impossible.' If you need to know something, say exactly 'Please provide "
            "more information.'"
        )
        self.loop_breakers = ["The task is done.", "The task is impossible.", "Please provide more information."]
        self.conversation_filename: str | None = None
        self.conversation_history_path: str | None = None
        self.responding = False
        self.last_messages_count = 0
        self.max_budget: float | None = None
        # Sponde's own: what code may do, where it works, which kernel and which profile (docs/configuration.md).
        self.sandbox: str | None = None
        self.directory: str | None = None
        self.kernel: str | None = None
        self.profile: str | None = None
        # Taken, and without effect here: they ask for what is so anyway, or are a matter of looks.
        self.offline = False
        self.verbose = False
        self.debug = False
        self.safe_mode = "off"
        self.disable_telemetry = True
        self.anonymous_telemetry = False
        self.anonymized_telemetry = False
        self.in_terminal_interface = False
        self.multi_line = True
        self.plain_text_display = False
        self.highlight_active_line = True
        self.shrink_images = True
        self.sync_computer = False
        self.conversation_history = True

        self._session: Session | None = None
        self._session_messages: list[Message] = []
        self._session_answer: list[Message] = []
        self._other_conversations: list[_Conversation] = []
        self._server: Server | None = None
        self._server_settings: _ServerSettings | None = None
        self._session_instructions: str | None = None
        self._notebooks: list[Path] = []
        self._thread: threading.Thread | None = None
        self._seal()
        for name, value in settings.items():
            setattr(self, name, value)

    def _complaint(self, name: str, value: Any) -> str | None:
        if name == "safe_mode" and value not in ("off", "ask", "auto"):
            return f"`{value}` is no safe mode; Sponde always checks code"
        if name == "conversation_history" and not value:
            return "Sponde keeps every session; `sponde sessions rm` removes one"
        return super()._complaint(name, value)

    # The conversation.

    def chat(
        self, message: Any = None, display: bool = True, stream: bool = False, blocking: bool = True
    ) -> list[Message] | Iterator[Chunk] | None:
        """Asks, and returns the new messages, or with `stream` an iterator of chunks. Without a message it is a
        conversation at the terminal. `blocking=False` works in a thread; `wait()` waits for it.
        """
        if message is None and not stream:
            return interact(self)
        if stream:
            return self._stream(message, display)
        if not blocking:
            self._thread = threading.Thread(target=self._finish, args=(message, display), daemon=True)
            self._thread.start()
            return None
        return self._finish(message, display)

    def wait(self) -> list[Message]:
        """Waits for a `chat(blocking=False)`, and returns its messages."""
        if self._thread is not None:
            self._thread.join()
        return self.messages[self.last_messages_count :]

    def reset(self) -> None:
        """Forgets the conversation and ends its kernels."""
        self._close_sessions()
        self.messages = []
        self.last_messages_count = 0

    def close(self) -> None:
        """Ends the server. The next question starts another one."""
        self._close_sessions()
        if self._server is not None:
            self._server.close()
        self.llm.close()
        for file in self._notebooks:
            file.unlink(missing_ok=True)
        self._server, self._server_settings, self._notebooks = None, None, []

    def _finish(self, message: Any, display: bool) -> list[Message]:
        for _ in self._stream(message, display):
            pass
        return self.messages[self.last_messages_count :]

    def _stream(self, message: Any, display: bool) -> Iterator[Chunk]:
        if isinstance(message, list):
            self.messages = [*message]
        elif message is not None:
            self.messages.append(user_message(message))
        self.last_messages_count = len(self.messages)
        question = self._questions()
        shown = Display() if display else None
        self.responding = True
        try:
            session = self._session_for(self.messages[: len(self.messages) - len(question)])
            text = "\n".join(words_of(it) for it in question)
            yield from self._turn(session, self._templated(text), shown)
            for _ in range(MOST_LOOPS if self.loop else 0):
                last = self.messages[-1].get("content", "") if self.messages else ""
                if any(words in str(last) for words in self.loop_breakers):
                    break
                yield from self._turn(session, self.loop_message, shown)
        finally:
            self.responding = False
            self._session_messages = copy.deepcopy(self.messages)
            self._session_answer = self._session_messages[self.last_messages_count :]
            self._save()

    def _questions(self) -> list[Message]:
        """The messages at the end that the model has not answered: those of the user."""
        count = 0
        while count < len(self.messages) and self.messages[-1 - count].get("role") == "user":
            count += 1
        if count == 0:
            raise SpondeError("the last message is not the user's, and there is nothing to answer", "add a question")
        return self.messages[len(self.messages) - count :]

    def _turn(self, session: Session, question: str, shown: Display | None) -> Iterator[Chunk]:
        chunks = Chunks(len(session.state["kernels"]))
        session.approve = None
        for event in session.ask(question, stream=True):
            for chunk in chunks.of(event):
                add(self.messages, chunk)
                if shown is not None:
                    shown.show(chunk)
                yield chunk
            # A caller that goes on behind the confirmation wants it to run; one that breaks out does not.
            request = event.request
            if isinstance(request, ApprovalRequest) and request.decision is None:
                if shown is None or may_run(request):
                    request.run()
                else:
                    request.decline()

    def _templated(self, text: str) -> str:
        return self.user_message_template.replace("{content}", text)

    # Its session.

    def _session_for(self, history: list[Message]) -> Session:
        """The session that has had exactly these messages: the one at hand, one from before, or a new one."""
        self._check_server()
        if self._session is not None and self._session_messages != history:
            others = [*self._other_conversations, _Conversation(self._session_messages, self._session_answer, self._session)]
            self._session = None
            for index, other in enumerate(others):
                # What `chat` returned begins behind the question, and Open Interpreter's README restores just that.
                if history in (other.messages, other.answer):
                    self._session = others.pop(index).session
                    break
            for other in others[:-KEPT_SESSIONS]:
                other.session.close()
            self._other_conversations = others[-KEPT_SESSIONS:]
        if self._session is None:
            self._session = self._open(history)
        self._session_messages = list(history)
        wanted = "never" if self.auto_run else "always"
        if self._session.approval != wanted:
            self._session.approval = wanted
        return self._session

    def _current(self) -> Session:
        """The session that code of the caller runs in."""
        if self._session is not None:
            self._check_server()
        return self._session if self._session is not None else self._session_for(self.messages)

    def _open(self, history: list[Message]) -> Session:
        server = self._server_running()
        model, _ = self.llm.resolve()
        notebook = None
        if history:
            # The session goes on from a notebook, which has to be below the server's directory.
            file = server.root / f".sponde-{uuid.uuid4().hex[:8]}.ipynb"
            file.write_text(notebook_of(history))
            self._notebooks.append(file)
            notebook = file.name
        approval: Literal["never", "always"] = "never" if self.auto_run else "always"
        return Session(
            model, self.kernel, server=server, approval=approval, notebook=notebook, instructions=self._instructions()
        )

    def _instructions(self) -> str | None:
        own = self.system_message
        own = own.removeprefix(SYSTEM_MESSAGE)
        parts = [own.strip(), self.custom_instructions.strip()]
        return "\n\n".join(part for part in parts if part) or None

    def _wanted_server(self) -> _ServerSettings:
        model, variables = self.llm.resolve()
        budget = self.max_budget if self.max_budget is not None else self.llm.max_budget
        functions = self.llm.supports_functions
        if self.llm.completions is not None and functions is None:
            functions = False
        return _ServerSettings(
            model, tuple(variables.items()), functions, budget, self.sandbox, self.directory, self.profile
        )

    def _check_server(self) -> None:
        """Settings that changed since the start of the server: a new one goes on with the same messages."""
        if self._server is None:
            return
        if self._server_settings != self._wanted_server():
            self.close()
        elif self._session_instructions != self._instructions():
            # A prompt is a session's own, so that a new session begins, with the conversation but a new kernel.
            self._close_sessions()
            self._session_instructions = self._instructions()

    def _server_running(self) -> Server:
        if self._server is None:
            wanted = self._wanted_server()
            # Each session says whether it asks; the server lets it change.
            options = ["--yes"]
            if wanted.supports_functions is not None:
                options += ["--code-mode", "tools" if wanted.supports_functions else "fenced"]
            options += ["--max-cost", str(wanted.max_budget)] if wanted.max_budget else []
            options += ["--sandbox", wanted.sandbox] if wanted.sandbox else []
            options += ["--profile", wanted.profile] if wanted.profile else []
            self._server = Server(wanted.directory, options, dict(wanted.variables))
            self._server_settings = wanted
            self._session_instructions = self._instructions()
        return self._server

    def _close_sessions(self) -> None:
        for session in [self._session, *(other.session for other in self._other_conversations)]:
            if session is not None:
                session.close()
        self._session, self._session_messages, self._other_conversations = None, [], []

    def _save(self) -> None:
        if self.conversation_filename is None and self.conversation_history_path is None:
            return
        folder = Path(self.conversation_history_path or ".")
        folder.mkdir(parents=True, exist_ok=True)
        session = self._session.id if self._session is not None else "conversation"
        path = folder / (self.conversation_filename or f"{session}.json")
        written = path.with_suffix(path.suffix + ".new")
        written.write_text(json.dumps(self.messages))
        written.replace(path)

    # The rest.

    def display_message(self, markdown: str) -> None:
        """Prints it."""
        print(markdown)

    def get_oi_dir(self) -> str:
        """Where sessions are kept."""
        home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
        return os.environ.get("SPONDE_DATA_DIR") or str(Path(home) / "sponde")

    def local_setup(self) -> None:
        """Local models are set up in the terminal."""
        raise SpondeError("local models are not set up from Python", "`sponde models pull` gets one (docs/models.md)")

    def load_profile(self, profile: str | os.PathLike[str] | dict[str, Any]) -> None:
        """Takes Open Interpreter's profile: a dict, or a file of Python, JSON, TOML or YAML (which needs PyYAML)."""
        if isinstance(profile, dict):
            self._apply(profile)
            return
        path = Path(profile)
        if path.suffix == ".py":
            with _imported_as_interpreter(self):
                runpy.run_path(str(path))
            return
        self._apply(_parsed(path))

    def _apply(self, settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            if name in ("version", "wtf"):
                continue
            part = getattr(self, name, None) if name in ("llm", "computer") else None
            if part is not None and isinstance(value, dict):
                for inner, setting in value.items():
                    setattr(part, inner, setting)
            else:
                setattr(self, name, value)


def _parsed(path: Path) -> dict[str, Any]:
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix == ".toml":
        try:
            import tomllib
        except ImportError as error:
            raise SpondeError(f"`{path}` is TOML, which this Python cannot read", "use Python 3.11, or JSON") from error
        return tomllib.loads(text)
    try:
        import yaml
    except ImportError as error:
        raise SpondeError(f"`{path}` is YAML, and PyYAML is not here", "pip install pyyaml") from error
    return yaml.safe_load(text) or {}


interpreter = OpenInterpreter()


class AsyncInterpreter:
    """Open Interpreter's server, which Sponde has as a program."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise SpondeError(
            "Sponde has no `AsyncInterpreter`",
            "`sponde serve` is a server with sessions and events over HTTP (docs/server.md)",
        )


@contextlib.contextmanager
def _imported_as_interpreter(instance: OpenInterpreter) -> Iterator[None]:
    """Lets a program that runs meanwhile import `instance` as Open Interpreter's module."""
    before = sys.modules.get("interpreter")
    sys.modules["interpreter"] = _as_module(instance)
    try:
        yield
    finally:
        if before is None:
            sys.modules.pop("interpreter", None)
        else:
            sys.modules["interpreter"] = before


def _as_module(instance: OpenInterpreter) -> types.ModuleType:
    module = types.ModuleType("interpreter", "Open Interpreter's names, by Sponde.")
    names = {
        "interpreter": instance,
        "OpenInterpreter": OpenInterpreter,
        "AsyncInterpreter": AsyncInterpreter,
        "computer": instance.computer,
        "chat": instance.chat,
    }
    for name, value in names.items():
        setattr(module, name, value)
    return module


def install() -> None:
    """Makes `from interpreter import interpreter` mean this, in this process."""
    sys.modules["interpreter"] = _as_module(interpreter)
