"""Variables to and from the Python kernel: tables as Parquet, plain values as JSON."""

from __future__ import annotations

import base64
import io
import json
import keyword
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ._errors import RequestError, SpondeError

if TYPE_CHECKING:
    from .session import Session

#: Where tables that are put lie, in the session's directory.
FOLDER = "sponde-data"
#: Characters of a plain value in code.
LONGEST_VALUE = 256 << 10


def get(session: Session, name: str) -> Any:
    """A table as a DataFrame, a plain value as it is."""
    _check_name(name)
    path = f"{session._path}/frames/{quote(name)}/export"
    try:
        content = session._connection.request("GET", path, query={"format": "parquet"}, timeout=3600)
    except RequestError as error:
        if error.reason != "no_frame":
            raise
        return _plain(session, name)
    try:
        import pandas
    except ImportError as error:
        raise SpondeError(f"`{name}` is a table, and pandas is not here to hold it", "pip install pandas pyarrow") from error
    frame = pandas.read_parquet(io.BytesIO(content))
    return _with_index(frame, next((it.shape for it in session.variables() if it.name == name), None))


def _with_index(frame: Any, shape: str | None) -> Any:
    """The export has an index that says something as its first columns: the variable's own shape tells how many."""
    columns = (shape or "").rpartition(" x ")[2]
    levels = len(frame.columns) - int(columns) if columns.isdigit() else 0
    if levels <= 0:
        return frame
    names = list(frame.columns[:levels])
    frame = frame.set_index(names)
    unnamed = {"index", *(f"level_{level}" for level in range(levels))}
    frame.index.names = [None if name in unnamed else name for name in names]
    return frame


def _plain(session: Session, name: str) -> Any:
    mark = "sponde-value:"
    code = f"import json as _json; print({mark!r} + _json.dumps({name}))"
    result = session.run(code)
    lines = [line for line in result.stdout.splitlines() if line.startswith(mark)]
    if not lines:
        raise SpondeError(
            f"`{name}` is neither a table nor a plain value (numbers, text, lists, dicts)",
            "have code write it to a file, and fetch that with `session.files.download`",
        )
    return json.loads(lines[-1].removeprefix(mark))


def put(session: Session, name: str, value: Any) -> None:
    """Sets a variable."""
    _check_name(name)
    if session._language != "python":
        raise SpondeError(
            f"the main kernel is for {session._language}, and variables are put into Python",
            "upload a file with `session.files.upload`, and read it in code",
        )
    content = _parquet(value)
    if content is None:
        session.run(f"{name} = {_literal(name, value)}").check()
        return
    to = session.files.upload(content, f"{FOLDER}/{name}.parquet")
    reader, module = _reader(value)
    ending = '.squeeze("columns")' if type(value).__name__ == "Series" and module == "pandas" else ""
    session.run(f"import {module}\n{name} = {reader}({to!r}){ending}").check()


def _parquet(value: Any) -> bytes | None:
    """The table as a Parquet file; None for what is no table."""
    library, kind = type(value).__module__.split(".")[0], type(value).__name__
    buffer = io.BytesIO()
    if library == "pandas" and kind in ("DataFrame", "Series"):
        frame = value.to_frame(value.name if value.name is not None else "value") if kind == "Series" else value
        try:
            frame.to_parquet(buffer)
        except ImportError as error:
            raise SpondeError("a table is sent as Parquet, and pyarrow is not here", "pip install pyarrow") from error
    elif library == "polars" and kind == "DataFrame":
        value.write_parquet(buffer)
    elif library == "pyarrow" and kind == "Table":
        import pyarrow.parquet

        pyarrow.parquet.write_table(value, buffer)
    else:
        return None
    return buffer.getvalue()


def _reader(value: Any) -> tuple[str, str]:
    library = type(value).__module__.split(".")[0]
    readers = {"polars": "polars.read_parquet", "pyarrow": "pyarrow.parquet.read_table"}
    modules = {"polars": "polars", "pyarrow": "pyarrow.parquet"}
    return readers.get(library, "pandas.read_parquet"), modules.get(library, "pandas")


def _literal(name: str, value: Any) -> str:
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        plain = None
        same = False
    else:
        same = plain == value or (isinstance(value, tuple) and plain == list(value))
    text = repr(plain)
    if not same or len(text) > LONGEST_VALUE:
        why = "is too long for code" if same else "is neither a table nor a plain value (numbers, text, lists, dicts)"
        raise SpondeError(f"`{name}` {why}", "write it to a file, and send that with `session.files.upload`")
    return text


def _check_name(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SpondeError(f"`{name}` is not the name of a variable")


def as_in_notebook(mime: str, content: bytes) -> Any:
    """Bytes of an output as a notebook holds them."""
    if mime.endswith("json"):
        return json.loads(content)
    if mime.startswith("text/") or mime.endswith("xml") or mime == "application/javascript":
        return content.decode(errors="replace")
    return base64.b64encode(content).decode()
