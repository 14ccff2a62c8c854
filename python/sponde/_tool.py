"""What the adapters for agent libraries share: code in, words for a model out."""

from __future__ import annotations

import threading

from ._results import PICTURES, Result
from .session import Session

DESCRIPTION = (
    "Runs Python code in a Jupyter kernel and returns what it prints and the value of its last expression. Variables, "
    "imports and files stay for the next call."
)
#: Characters of an output that a model gets: the beginning and the end.
LONGEST = 20_000
#: Pictures of one call that a model gets.
MOST_PICTURES = 8


class Runner:
    """Runs code of an agent in a session, which it starts if it was given none."""

    def __init__(self, session: Session | None, timeout: float | None) -> None:
        self._given, self._own, self._timeout = session, None, timeout
        self._lock = threading.Lock()

    _own: Session | None

    @property
    def session(self) -> Session:
        """The session."""
        if self._given is not None:
            return self._given
        if self._own is None:
            # The code is a model's: it is confined as such.
            self._own = Session(sandbox="workspace")
        return self._own

    def run(self, code: str, language: str | None = None) -> Result:
        """Runs code; calls of several threads one after the other."""
        with self._lock:
            return self.session.run(code, language, timeout=self._timeout)

    @staticmethod
    def words(result: Result) -> str:
        """The result as a model reads it."""
        text = result.text or ("(no output)" if result.ok else "")
        if not result.ok and not any(it.kind == "error" for it in result.outputs):
            text = f"{text}\n(the code ended as `{result.status}`)".strip()
        if len(text) > LONGEST:
            half = LONGEST // 2
            text = f"{text[:half]}\n... {len(text) - LONGEST} characters left out ...\n{text[-half:]}"
        return text

    @staticmethod
    def pictures(result: Result) -> list[str]:
        """The pictures that a model can look at, as data URLs."""
        urls = []
        for output in result.outputs:
            mime = next((it for it in PICTURES if it in output.data), None)
            if mime is not None and mime != "image/svg+xml":
                urls.append(f"data:{mime};base64,{output.data[mime].strip()}")
        return urls[:MOST_PICTURES]

    def close(self) -> None:
        """Ends a session of its own."""
        if self._own is not None:
            self._own.close()
            self._own = None
