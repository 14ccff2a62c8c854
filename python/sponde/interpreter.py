"""In the place of Open Interpreter 0.4: `from sponde.interpreter import interpreter`.

What programs written for it use is here: `chat`, its stream of LMC chunks, `messages`, `auto_run`, `system_message`,
`custom_instructions`, `llm`, `computer.run`. The code runs in Jupyter kernels in Sponde's sandbox. A setting without a
meaning here warns instead of doing nothing in silence. `install()` makes `from interpreter import interpreter` work too.
"""

from __future__ import annotations

import copy
import json
import os
import runpy
import sys
import threading
import types
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from ._computer import Computer
from ._decisions import ApprovalRequest
from ._errors import SpondeError
from ._lmc import Chunk, Chunks, Message, add, notebook_of, user_message, words_of
from ._program import Server
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

#: Settings that are taken and change nothing, for what they ask for is so here anyway or is a matter of looks.
HARMLESS = {
    "offline": False,
    "verbose": False,
    "debug": False,
    "safe_mode": "off",
    "disable_telemetry": True,
    "anonymous_telemetry": False,
    "in_terminal_interface": False,
    "multi_line": True,
    "plain_text_display": False,
    "highlight_active_line": True,
    "shrink_images": True,
    "sync_computer": False,
    "conversation_history": True,
}
#: Settings that ask for something that is not here, with the value that asks for nothing, and what to do.
MISSING: dict[str, tuple[Any, str]] = {
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
MISSING_LLM: dict[str, tuple[Any, str]] = {
    "temperature": (0, "Sponde leaves it to the model's server"),
    "context_window": (None, "Sponde asks the server; set it in a provider of config.toml (docs/models.md)"),
    "max_tokens": (None, "Sponde leaves it to the model's server; `max_budget` bounds what a session costs"),
    "api_version": (None, "name the server by `api_base`"),
    "supports_vision": (None, "Sponde knows of each model whether it sees (docs/models.md)"),
    "vision_renderer": (None, "models that do not see get plots in words"),
    "execution_instructions": (None, "Sponde says by itself how code is run (docs/modes.md)"),
    "completions": (None, "serve it on OpenAI's wire, and set `llm.api_base` to that"),
}


class SpondeWarning(UserWarning):
    """A setting of Open Interpreter has no effect here."""


class Llm:
    """Which model answers, and where it is."""

    model: str
    api_base: str | None
    api_key: str | None
    supports_functions: bool | None
    max_budget: float | None

    def __init__(self, owner: OpenInterpreter) -> None:
        self.__dict__.update(_owner=owner, model="", api_base=None, api_key=None, supports_functions=None, max_budget=None)
        self.__dict__.update({name: value for name, (value, _) in MISSING_LLM.items()})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in MISSING_LLM:
            _warn_missing(f"interpreter.llm.{name}", value, *MISSING_LLM[name])
        elif name not in self.__dict__:
            _warn_unknown(f"interpreter.llm.{name}")
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(f"interpreter.llm.{name}"))

    def load(self) -> None:
        """Open Interpreter's local models are loaded by this; servers of models do that by themselves."""

    @property
    def place(self) -> tuple[str | None, dict[str, str]]:
        """The model's name for Sponde, and the variables that say where it is and with which key."""
        name = self.model.strip()
        provider, slash, rest = name.partition("/")
        if self.api_base:
            env = {"OPENAI_BASE_URL": self.api_base, "OPENAI_API_KEY": self.api_key or "none"}
            return (rest if slash and provider in ("openai", "custom_openai", "litellm_proxy") else name) or None, env
        if name and not slash:
            starts = {"gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic"}
            starts["gemini"] = "gemini"
            known = next((vendor for start, vendor in starts.items() if name.startswith(start)), None)
            if known and not os.environ.get("OPENAI_BASE_URL"):
                provider, name = known, f"{known}/{name}"
        env = {f"{provider.upper().replace('-', '_')}_API_KEY": self.api_key} if self.api_key and provider else {}
        return name or None, env


class OpenInterpreter:
    """A conversation as Open Interpreter has it. Its server starts with the first question or code."""

    messages: list[Message]
    auto_run: bool
    system_message: str
    custom_instructions: str
    user_message_template: str
    always_apply_user_message_template: bool
    loop: bool
    loop_message: str
    loop_breakers: list[str]
    conversation_filename: str | None
    conversation_history_path: str | None
    responding: bool
    last_messages_count: int
    #: Of Sponde: what code may do, where it works, which kernel and which profile (docs/configuration.md).
    sandbox: str | None
    directory: str | None
    kernel: str | None
    profile: str | None

    def __init__(self, messages: list[Message] | None = None, **settings: Any) -> None:
        self.__dict__.update(
            llm=Llm(self),
            computer=Computer(self),
            messages=list(messages or []),
            auto_run=False,
            system_message=SYSTEM_MESSAGE,
            custom_instructions="",
            user_message_template="{content}",
            always_apply_user_message_template=False,
            loop=False,
            loop_message="Go on until the whole task is done. If it is, say exactly 'The task is done.' If it cannot be "
            "done, say exactly 'The task is impossible.' If you need to know something, say exactly 'Please provide "
            "more information.'",
            loop_breakers=["The task is done.", "The task is impossible.", "Please provide more information."],
            conversation_filename=None,
            conversation_history_path=None,
            responding=False,
            last_messages_count=0,
            max_budget=None,
            sandbox=None,
            directory=None,
            kernel=None,
            profile=None,
            **HARMLESS,
            **{name: value for name, (value, _) in MISSING.items()},
        )
        self.__dict__.update(_session=None, _server=None, _started=None, _of_session=[], _returned=[], _kept=[])
        self.__dict__.update(_thread=None, _files=[])
        for name, value in settings.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in MISSING:
            _warn_missing(f"interpreter.{name}", value, *MISSING[name])
        elif name == "safe_mode" and value not in ("off", "ask", "auto"):
            warnings.warn(f"`{value}` is no safe mode; Sponde always checks code", SpondeWarning, stacklevel=2)
        elif name == "conversation_history" and not value:
            message = "Sponde keeps every session; `sponde sessions rm` removes one"
            warnings.warn(message, SpondeWarning, stacklevel=2)
        elif name not in self.__dict__:
            _warn_unknown(f"interpreter.{name}")
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(f"interpreter.{name}"))

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
            self.__dict__["_thread"] = threading.Thread(target=self._finish, args=(message, display), daemon=True)
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
        self.__dict__.update(messages=[], last_messages_count=0)

    def close(self) -> None:
        """Ends the server. The next question starts another one."""
        self._close_sessions()
        if self._server is not None:
            self._server.close()
        for file in self._files:
            file.unlink(missing_ok=True)
        self.__dict__.update(_server=None, _started=None, _files=[])

    def _finish(self, message: Any, display: bool) -> list[Message]:
        for _ in self._stream(message, display):
            pass
        return self.messages[self.last_messages_count :]

    def _stream(self, message: Any, display: bool) -> Iterator[Chunk]:
        if isinstance(message, list):
            self.__dict__["messages"] = [*message]
        elif message is not None:
            self.messages.append(user_message(message))
        self.__dict__["last_messages_count"] = len(self.messages)
        question = self._questions()
        shown = Display() if display else None
        self.__dict__["responding"] = True
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
            self.__dict__["responding"] = False
            self.__dict__["_of_session"] = copy.deepcopy(self.messages)
            self.__dict__["_returned"] = self._of_session[self.last_messages_count :]
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
        if self._session is not None and self._of_session != history:
            kept = [*self._kept, (self._of_session, self._returned, self._session)]
            self.__dict__.update(_session=None, _of_session=[])
            for index, (messages, returned, session) in enumerate(kept):
                # What `chat` returned begins behind the question, and Open Interpreter's README restores just that.
                if history in (messages, returned):
                    kept.pop(index)
                    self.__dict__.update(_session=session, _of_session=list(history))
                    break
            for _, _, old in kept[:-KEPT_SESSIONS]:
                old.close()
            self.__dict__["_kept"] = kept[-KEPT_SESSIONS:]
        if self._session is None:
            self.__dict__["_session"] = self._open(history)
            self.__dict__["_of_session"] = list(history)
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
        model, _ = self.llm.place
        notebook = None
        if history:
            # The session goes on from a notebook, which has to be below the server's directory.
            file = server.root / f".sponde-{uuid.uuid4().hex[:8]}.ipynb"
            file.write_text(notebook_of(history))
            self._files.append(file)
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

    def _settings(self) -> tuple[Any, ...]:
        """What cannot change while the server runs."""
        model, env = self.llm.place
        budget = self.max_budget if self.max_budget is not None else self.llm.max_budget
        return (
            model,
            tuple(env.items()),
            self.llm.supports_functions,
            budget,
            self.sandbox,
            self.directory,
            self.profile,
        )

    def _check_server(self) -> None:
        """Settings that changed since the start of the server: a new one goes on with the same messages."""
        if self._started is not None and self._started[0] != self._settings():
            self.close()
        elif self._started is not None and self._started[1] != self._instructions():
            # A prompt is a session's own, so that a new session begins, with the conversation but a new kernel.
            self._close_sessions()
            self.__dict__["_started"] = (self._settings(), self._instructions())

    def _server_running(self) -> Server:
        if self._server is None:
            _, env, functions, budget, sandbox, directory, profile = self._settings()
            # Each session says whether it asks; the server lets it change.
            options = ["--yes"]
            options += ["--code-mode", "tools" if functions else "fenced"] if functions is not None else []
            options += ["--max-cost", str(budget)] if budget else []
            options += ["--sandbox", sandbox] if sandbox else []
            options += ["--profile", profile] if profile else []
            self.__dict__["_server"] = Server(directory, options, dict(env))
            self.__dict__["_started"] = (self._settings(), self._instructions())
        return self._server

    def _close_sessions(self) -> None:
        for session in [self._session, *(session for _, _, session in self._kept)]:
            if session is not None:
                session.close()
        self.__dict__.update(_session=None, _of_session=[], _kept=[])

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
            with _module(self):
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


def _unknown(name: str) -> str:
    return f"`{name}` is not known here; docs/python.md lists what there is of Open Interpreter"


def _warn_unknown(name: str) -> None:
    warnings.warn(f"{_unknown(name)}: setting it does nothing", SpondeWarning, stacklevel=3)


def _warn_missing(name: str, value: Any, usual: Any, why: str) -> None:
    if value != usual and value is not None:
        warnings.warn(f"`{name} = {value!r}` has no effect: {why}", SpondeWarning, stacklevel=3)


interpreter = OpenInterpreter()


class _module:
    """The module `interpreter` of programs that were written for Open Interpreter, for a while."""

    def __init__(self, instance: OpenInterpreter) -> None:
        self._instance = instance

    def __enter__(self) -> None:
        self._before = sys.modules.get("interpreter")
        sys.modules["interpreter"] = _as_module(self._instance)

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            sys.modules.pop("interpreter", None)
        else:
            sys.modules["interpreter"] = self._before


def _as_module(instance: OpenInterpreter) -> types.ModuleType:
    module = types.ModuleType("interpreter", "Open Interpreter's names, by Sponde.")
    module.__dict__.update(
        interpreter=instance,
        OpenInterpreter=OpenInterpreter,
        computer=instance.computer,
        chat=instance.chat,
    )

    def missing(name: str) -> Callable[..., Any]:
        hints = {"AsyncInterpreter": "`sponde serve` is a server with events over HTTP (docs/server.md)"}
        raise AttributeError(f"`interpreter.{name}` is not here" + (f": {hints[name]}" if name in hints else ""))

    module.__dict__["__getattr__"] = missing
    return module


def install() -> None:
    """Makes `from interpreter import interpreter` mean this, in this process."""
    sys.modules["interpreter"] = _as_module(interpreter)
