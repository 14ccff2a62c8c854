"""HTTP to a server, over TCP or a unix socket: JSON in and out, and the stream of events."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

from ._errors import BusyError, ConnectionLostError, RequestError, SpondeError

#: Seconds that a request may take to be answered.
ANSWER_WITHIN = 120.0
#: Seconds without a sign of life on the stream: the server sends one every 15.
SILENCE = 50.0
#: Bytes of one line of the stream.
LONGEST_LINE = 256 << 20


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Connection:
    """Where a server is, and the token for it."""

    def __init__(self, url: str, token: str | None) -> None:
        self._unix = url.removeprefix("unix:") if url.startswith("unix:") else None
        parts = urllib.parse.urlsplit(url)
        if self._unix is None and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise SpondeError(
                f"`{url}` is not the address of a server",
                "give the line that `sponde serve` prints, such as http://127.0.0.1:8800, or unix:PATH",
            )
        # The page's address, as it is printed, has the token in it.
        self._token = token or dict(urllib.parse.parse_qsl(parts.fragment)).get("token")
        self._base = parts.path.rstrip("/") if self._unix is None else ""
        self._parts = parts
        self.shown = url.split("#")[0]

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        timeout: float = ANSWER_WITHIN,
    ) -> bytes:
        """Sends `body`, bytes as they are and anything else as JSON, and returns the bytes of the answer.

        `path` is quoted already.
        """
        connection, response = self._ask(method, path, body, query, timeout, {})
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        finally:
            connection.close()

    def json(self, method: str, path: str, **options: Any) -> Any:
        """The same for an answer that is JSON."""
        answer = self.request(method, path, **options)
        return json.loads(answer) if answer else None

    def events(self, path: str, after: str | None, within: float | None = None) -> Iterator[dict[str, Any]]:
        """Items of a stream, behind `after`. A connection that breaks is made again.

        After `within` seconds there are no more. The server's signs of life are when that is looked at.
        """
        failures = 0
        deadline = None if within is None else time.monotonic() + within
        while True:
            query = {"after": after} if after else {}
            try:
                connection, response = self._ask("GET", path, None, query, SILENCE, {"Accept": "text/event-stream"})
            except ConnectionLostError:
                failures += 1
                if failures > 2:
                    raise
                continue
            try:
                for name, value in _fields(response):
                    if deadline is not None and time.monotonic() > deadline:
                        return
                    if name == "id":
                        after = value
                    elif name == "data":
                        failures = 0
                        yield json.loads(value)
            except (OSError, http.client.HTTPException) as error:
                failures += 1
                if failures > 2:
                    raise self._lost(error) from error
            else:
                # The end of the stream: the session has ended, or the server cut a slow client.
                failures += 1
                if failures > 2:
                    raise self._lost("the stream of events ended")
            finally:
                connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        body: Any,
        query: dict[str, Any] | None,
        timeout: float,
        headers: dict[str, str],
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        address = self._base + path
        if query:
            address += "?" + urllib.parse.urlencode(query)
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection = self._connection(timeout)
        try:
            connection.request(method, address, body=body, headers=headers)
            response = connection.getresponse()
            if response.status < 400:
                return connection, response
            answer = response.read(1 << 20)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._lost(error) from error
        connection.close()
        raise refusal(response.status, answer, f"{method} {path}")

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._unix is not None:
            return _UnixConnection(self._unix, timeout)
        host = self._parts.hostname or ""
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, self._parts.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, self._parts.port, timeout=timeout)

    def _lost(self, error: object) -> ConnectionLostError:
        return ConnectionLostError(
            f"the server at {self.shown} does not answer: {error}",
            "check that `sponde serve` runs there; `Session(resume=ID)` goes on with the session",
        )


def refusal(status: int, answer: bytes, tried: str) -> RequestError:
    """The server's error as an exception."""
    try:
        error = json.loads(answer)["error"]
        message, hint, reason = error["message"], error.get("hint"), error.get("reason", "")
    except (ValueError, KeyError, TypeError):
        message, hint, reason = answer[:200].decode(errors="replace") or f"status {status}", None, ""
    if status == 401:
        hint = hint or "give the token that `sponde serve` shows, as `token=`"
    kind = BusyError if reason in ("busy", "restoring") else RequestError
    return kind(f"{tried}: {message}", hint, status=status, reason=reason)


def _fields(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """The fields of server-sent events, line by line; a comment has no name. Sponde sends each event's data in one line."""
    while True:
        line = response.readline(LONGEST_LINE)
        if not line:
            return
        if not line.endswith(b"\n"):
            raise http.client.HTTPException("a line of the stream is torn or too long")
        name, colon, value = line.rstrip(b"\r\n").partition(b":")
        if colon:
            yield name.decode(), value.removeprefix(b" ").decode()
