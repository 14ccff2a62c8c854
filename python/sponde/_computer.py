"""`interpreter.computer`: code of the caller, in the kernels that the model uses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

from ._errors import SpondeError
from ._lmc import Chunk, Chunks, Message, add
from .session import Session

if TYPE_CHECKING:
    from .interpreter import OpenInterpreter

ALIASES = {
    "py": "python",
    "python3": "python",
    "sh": "bash",
    "zsh": "bash",
    "shell": "bash",
    "batch": "bash",
    "bat": "bash",
    "js": "javascript",
    "node": "javascript",
    "r": "R",
}
#: How IPython runs another language where there is no kernel for it. Each such cell is a process of its own.
MAGICS = {"bash": "%%bash", "javascript": "%%script node", "ruby": "%%ruby", "perl": "%%perl"}

#: Settings, with the value that asks for nothing that is not here.
QUIET = {"offline": False, "verbose": False, "debug": False, "emit_images": True, "max_output": 2800}
MISSING = {
    "import_computer_api": "Sponde has no API for mouse, screen and mail",
    "import_skills": "put functions in a module in the working directory",
    "save_skills": "put functions in a module in the working directory",
    "api_base": "nothing is asked of Open Interpreter's server",
    "system_message": "use `interpreter.custom_instructions`",
}


class Language:
    """A language that code can be in."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<Language {self.name}>"


class Computer:
    """Runs code. Variables of the main kernel are the model's too."""

    def __init__(self, owner: OpenInterpreter) -> None:
        self.__dict__.update(_owner=owner, _own={}, **QUIET, **dict.fromkeys(MISSING, False))

    def __setattr__(self, name: str, value: Any) -> None:
        from .interpreter import SpondeWarning, _unknown

        if name == "languages":
            self._set_languages(value)
            return
        if name in MISSING:
            if value:
                message = f"`interpreter.computer.{name}` has no effect: {MISSING[name]}"
                warnings.warn(message, SpondeWarning, stacklevel=2)
        elif name not in self.__dict__:
            message = f"{_unknown(f'interpreter.computer.{name}')}: setting it does nothing"
            warnings.warn(message, SpondeWarning, stacklevel=2)
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        from .interpreter import _unknown

        raise AttributeError(_unknown(f"interpreter.computer.{name}"))

    @overload
    def run(self, language: str, code: str, stream: Literal[False] = False, display: bool = False) -> list[Message]: ...
    @overload
    def run(self, language: str, code: str, stream: Literal[True], display: bool = False) -> Iterator[Chunk]: ...
    def run(self, language: str, code: str, stream: bool = False, display: bool = False) -> list[Message] | Iterator[Chunk]:
        """Runs code, and returns what came out as messages, or with `stream` an iterator of chunks."""
        chunks = self._chunks(language, code, display)
        if stream:
            return chunks
        messages: list[Message] = []
        for chunk in chunks:
            add(messages, {"role": "computer", **chunk})
        return messages

    def exec(self, code: str) -> list[Message]:
        """Runs a shell command."""
        return self.run("shell", code)

    def stop(self) -> None:
        """Interrupts the code that runs."""
        if self._owner._session is not None:
            self._owner._session.interrupt()

    def terminate(self) -> None:
        """Starts the kernel anew: its variables are gone."""
        if self._owner._session is not None:
            self._owner._session.restart()

    @property
    def languages(self) -> list[Any]:
        """The languages that code can be in. Setting a class of one's own (`name`, `run`) lets `run` use it."""
        session = self._owner._current()
        names = dict.fromkeys(it["language"].lower() for it in session.state["kernels"])
        if "python" in names:
            names.update(dict.fromkeys(["shell"]))
        own = [type(it) for it in self._own.values()]
        return [*own, *(Language(name) for name in names if name not in self._own)]

    def _set_languages(self, languages: list[Any]) -> None:
        from .interpreter import SpondeWarning

        own = [it for it in languages if not isinstance(it, Language) and hasattr(it, "run")]
        self.__dict__["_own"] = {it.name.lower(): it() if isinstance(it, type) else it for it in own}
        if own:
            message = "languages of your own work in `computer.run`; the model's code runs in Sponde's kernels"
            warnings.warn(message, SpondeWarning, stacklevel=3)

    def _chunks(self, language: str, code: str, display: bool) -> Iterator[Chunk]:
        own = self._own.get(language.lower())
        if own is not None:
            for chunk in own.run(code):
                yield {"role": "computer", **chunk}
            return
        from ._terminal import Display

        shown = Display() if display else None
        session: Session = self._owner._current()
        wanted, source = self._placed(session, language, code)
        chunks = Chunks(1)
        for event in session.run(source, wanted, stream=True):
            for chunk in chunks.of(event):
                if shown is not None:
                    shown.show(chunk)
                yield chunk

    def _placed(self, session: Session, language: str, code: str) -> tuple[str | None, str]:
        """The kernel's language and the code for it."""
        kernels = [it["language"] for it in session.state["kernels"]]
        name = ALIASES.get(language.lower(), language)
        for kernel in kernels:
            if kernel.lower() == name.lower():
                return (None if kernel == kernels[0] else kernel), code
        if kernels and kernels[0] == "python" and name in MAGICS:
            return None, f"{MAGICS[name]}\n{code}"
        raise SpondeError(
            f"there is no kernel for {language}; there are {', '.join(kernels) or 'no kernels'}",
            "`sponde kernels install` installs one",
        )
