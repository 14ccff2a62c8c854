"""Finds the program and runs its server, which ends with this process however that ends."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from ._errors import ProgramNotFoundError, ServerError
from ._http import Connection

#: Seconds that the server may take to listen, and to end its sessions.
START_WITHIN = 60.0
END_WITHIN = 40.0
#: How the line begins that says where it listens.
LISTENS = "serving "
TOKEN = re.compile(r"; the token is in (.+); Ctrl-C ends it")


def find_program() -> str:
    """The program: SPONDE_PROGRAM, else the one of this package's wheel, else `sponde` on PATH."""
    named = os.environ.get("SPONDE_PROGRAM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ProgramNotFoundError(f"SPONDE_PROGRAM is `{named}`, and there is no such program")
        return found
    scheme = "posix_user"
    folders = [sysconfig.get_path("scripts")]
    if scheme in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", scheme))
    for folder in folders:
        if folder and (found := shutil.which(str(Path(folder) / "sponde"))):
            return found
    if found := shutil.which("sponde"):
        return found
    raise ProgramNotFoundError(
        "the program `sponde` is not there: neither beside this Python nor on PATH",
        "install the wheel with the program (`pip install sponde`), or set SPONDE_PROGRAM to its path",
    )


class Server:
    """A server of our own, on a unix socket that only we know."""

    def __init__(
        self, directory: str | os.PathLike[str] | None, options: Sequence[str], env: Mapping[str, str] | None
    ) -> None:
        root = Path(directory or ".").resolve()
        if not root.is_dir():
            raise ServerError(f"the directory `{root}` is not there", "create it first")
        # The server makes the directory, and takes it away whatever becomes of us.
        address = _private_folder() / "s"
        command = [find_program(), "serve", "--listen", f"unix:{address}"]
        command += ["--end-with-stdin", "--root", str(root), *options]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, **(env or {})},
                cwd=root,
                # Ctrl-C at the terminal is for us; the server ends when its stdin does.
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(f"`{command[0]}` could not be started: {error}") from error
        self.root = root
        self._said: collections.deque[str] = collections.deque(maxlen=50)
        self._listens = threading.Event()
        # Neither of these may hold the server: it ends when nobody has it any more.
        reader = threading.Thread(
            target=_read, args=(self._process, self._said, self._listens), name="sponde-stderr", daemon=True
        )
        reader.start()
        self._ended = weakref.finalize(self, _end, self._process)
        # It is set by the end of the server's words too.
        self._listens.wait(START_WITHIN)
        told = next((line for line in [*self._said] if line.startswith(LISTENS)), "")
        token = TOKEN.search(told)
        if token is None:
            self.close()
            said = "\n".join(self._said).strip() or "it said nothing"
            raise ServerError(f"`sponde serve` did not start: {said}", f"it was started as: {' '.join(command)}")
        self.connection = Connection(f"unix:{address}", Path(token[1]).read_text().strip())

    @property
    def log(self) -> str:
        """The last lines that the server wrote."""
        return "\n".join(self._said)

    def close(self) -> None:
        """Ends it and its sessions."""
        self._ended()


def _private_folder() -> Path:
    # A socket's path has at most 107 bytes, so the usual directory may be too deep.
    for place in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if place and len(place) < 80 and os.access(place, os.W_OK):
            break
    else:
        place = tempfile.gettempdir()
    return Path(place) / f"sponde-py-{secrets.token_hex(8)}"


def _read(process: subprocess.Popen[bytes], said: collections.deque[str], listens: threading.Event) -> None:
    # Read to the end: a full pipe would stop the server.
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            said.append(text)
            if text.startswith(LISTENS):
                listens.set()
    listens.set()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
