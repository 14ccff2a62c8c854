"""`interpreter.llm.completions`: a function of the program as the model. Sponde asks it over HTTP on this machine."""

from __future__ import annotations

import hmac
import inspect
import itertools
import json
import secrets
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Takes `messages`, `model`, `stream` and what else it names, and yields OpenAI's chunks: `{"choices": [{"delta": ..}]}`.
Completions = Callable[..., Iterable[Any]]

#: Bytes of a request.
MOST_BYTES = 256 << 20
#: What the program's settings may add to a request.
Extra = Callable[[], dict[str, Any]]


class CompletionsServer:
    """Answers OpenAI's chat completions with a function, to those who know the key."""

    def __init__(self, function: Completions, extra: Extra) -> None:
        self.function = function
        self.key = secrets.token_urlsafe(32)
        self._http = _Http(("127.0.0.1", 0), _handler(self, extra))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, name="sponde-completions", daemon=True).start()

    def close(self) -> None:
        """Stops it."""
        self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is not an error of the program."""


def _handler(server: CompletionsServer, extra: Extra) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), server.key.encode()):
                return self._error(401, "this is not the key")
            length = int(self.headers.get("Content-Length") or 0)
            if self.path != "/v1/chat/completions" or not 0 < length <= MOST_BYTES:
                return self._error(404, "only chat completions are here")
            request = json.loads(self.rfile.read(length))
            try:
                chunks = iter(server.function(**_arguments(server.function, request, extra())))
                # What fails at once is an error that Sponde shows, and not half an answer.
                first = list(itertools.islice(chunks, 1))
            except Exception as error:
                return self._error(400, _failure(error))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for chunk in itertools.chain(first, chunks):
                    self._choice(_choice(chunk), request)
            except OSError:
                return None
            except Exception as error:
                self._event({"error": {"message": _failure(error), "type": "invalid_request_error"}})
                return None
            self._choice({"delta": {}, "finish_reason": "stop"}, request)
            self.wfile.write(b"data: [DONE]\n\n")
            return None

        def do_GET(self) -> None:
            self._error(404, "only chat completions are here")

        def _choice(self, choice: dict[str, Any], request: dict[str, Any]) -> None:
            head = {"id": "completions", "object": "chat.completion.chunk", "created": 0, "model": request.get("model")}
            self._event({**head, "choices": [{"index": 0, "finish_reason": None, **choice}]})

        def _event(self, event: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

        def _error(self, status: int, message: str) -> None:
            body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: stderr is the program's."""

    return Handler


def _arguments(function: Completions, request: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """What the function takes of the request and the settings; what it names and nobody set is `None`."""
    messages = [{**it, "content": _plain(it.get("content"))} for it in request.get("messages", [])]
    known = {"messages": messages, "model": request.get("model"), "stream": True, **extra}
    parameters = inspect.signature(function).parameters.values()
    if any(it.kind is it.VAR_KEYWORD for it in parameters):
        return {name: it for name, it in known.items() if it is not None}
    return {it.name: known.get(it.name) for it in parameters if it.name in known or it.default is it.empty}


def _failure(error: Exception) -> str:
    return f"the function of `interpreter.llm.completions` failed: {type(error).__name__}: {error}"


def _plain(content: Any) -> Any:
    """Text in parts as one text, as Open Interpreter gives it."""
    if isinstance(content, list) and all(isinstance(it, dict) and it.get("type") == "text" for it in content):
        return "\n".join(it["text"] for it in content)
    return content


def _choice(chunk: Any) -> dict[str, Any]:
    """The first choice of a chunk: of a dict, or of an object as OpenAI's and LiteLLM's libraries have them."""
    if hasattr(chunk, "model_dump"):
        chunk = chunk.model_dump(exclude_none=True)
    choices = chunk.get("choices") or [{"delta": {}}]
    choice = choices[0]
    return {"delta": choice.get("delta") or {}}
