"""`interpreter.computer`: code of the caller, in the kernels that the model uses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

from ._errors import SpondeError
from ._lmc import Chunk, Chunks, Message, add
from ._settings import Settings, SpondeWarning
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


class Language:
    """A language that code can be in."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<Language {self.name}>"


class Computer(Settings):
    """Runs code. Variables of the main kernel are the model's too."""

    _called = "interpreter.computer"
    _missing = {
        "import_computer_api": (False, "Sponde has no API for mouse, screen and mail"),
        "import_skills": (False, "put functions in a module in the working directory"),
        "save_skills": (False, "put functions in a module in the working directory"),
        "api_base": (False, "nothing is asked of Open Interpreter's server"),
        "system_message": (False, "use `interpreter.custom_instructions`"),
    }

    def __init__(self, owner: OpenInterpreter) -> None:
        self._owner = owner
        self._own_languages: dict[str, Any] = {}
        # Taken, and without effect here, for they ask for what is so anyway or is a matter of looks.
        self.offline = False
        self.verbose = False
        self.debug = False
        self.emit_images = True
        self.max_output = 2800
        self._seal()

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
        own = [type(it) for it in self._own_languages.values()]
        return [*own, *(Language(name) for name in names if name not in self._own_languages)]

    @languages.setter
    def languages(self, languages: list[Any]) -> None:
        own = [it for it in languages if not isinstance(it, Language) and hasattr(it, "run")]
        self._own_languages = {it.name.lower(): it() if isinstance(it, type) else it for it in own}
        if own:
            message = "languages of your own work in `computer.run`; the model's code runs in Sponde's kernels"
            warnings.warn(message, SpondeWarning, stacklevel=3)

    def _chunks(self, language: str, code: str, display: bool) -> Iterator[Chunk]:
        own = self._own_languages.get(language.lower())
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
