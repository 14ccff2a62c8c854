"""`interpreter.llm`: which model answers, and where it is."""

from __future__ import annotations

import os
from typing import Any

from ._completions import Completions, CompletionsServer
from ._settings import Settings

#: How the names of models begin that need no vendor in front.
VENDORS = {
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
}
#: Vendors of LiteLLM that mean "a server with OpenAI's API, at `api_base`".
OPENAI_LIKE = ("openai", "custom_openai", "litellm_proxy")


class Llm(Settings):
    """Which model answers, and where it is."""

    _called = "interpreter.llm"
    _missing = {
        "temperature": (0, "Sponde leaves it to the model's server"),
        "context_window": (None, "Sponde asks the server; set it in a provider of config.toml (docs/models.md)"),
        "max_tokens": (None, "Sponde leaves it to the model's server; `max_budget` bounds what a session costs"),
        "max_output": (None, "how much of an output the model sees is as in docs/limits.md; it can read more by itself"),
        "api_version": (None, "name the server by `api_base`"),
        "supports_vision": (None, "Sponde knows of each model whether it sees (docs/models.md)"),
        "vision_renderer": (None, "models that do not see get plots in words"),
        "execution_instructions": (None, "Sponde says by itself how code is run (docs/modes.md)"),
    }

    def __init__(self) -> None:
        self.model: str = ""
        self.api_base: str | None = None
        self.api_key: str | None = None
        self.supports_functions: bool | None = None
        self.max_budget: float | None = None
        self.completions: Completions | None = None
        self._completions_server: CompletionsServer | None = None
        self._seal()

    def _complaint(self, name: str, value: Any) -> str | None:
        if self.completions is not None and name in ("max_tokens", "temperature"):
            return None
        return super()._complaint(name, value)

    def load(self) -> None:
        """Open Interpreter's local models are loaded by this; servers of models do that by themselves."""

    def resolve(self) -> tuple[str | None, dict[str, str]]:
        """The model's name for Sponde, and the variables that say where it is and with which key."""
        name = self.model.strip()
        if self.completions is not None:
            server = self._serve_completions(self.completions)
            return name.rpartition("/")[2] or "completions", {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}
        vendor, slash, rest = name.partition("/")
        if self.api_base:
            variables = {"OPENAI_BASE_URL": self.api_base, "OPENAI_API_KEY": self.api_key or "none"}
            return (rest if slash and vendor in OPENAI_LIKE else name) or None, variables
        if name and not slash:
            known = next((it for start, it in VENDORS.items() if name.startswith(start)), None)
            if known and not os.environ.get("OPENAI_BASE_URL"):
                vendor, name = known, f"{known}/{name}"
        key = f"{vendor.upper().replace('-', '_')}_API_KEY"
        return name or None, {key: self.api_key} if self.api_key and vendor else {}

    def close(self) -> None:
        """Stops what serves `completions`; the next question starts it again."""
        if self._completions_server is not None:
            self._completions_server.close()
            self._completions_server = None

    def _serve_completions(self, function: Completions) -> CompletionsServer:
        if self._completions_server is None or self._completions_server.function is not function:
            self.close()
            extra = ("max_tokens", "temperature")
            self._completions_server = CompletionsServer(function, lambda: {name: getattr(self, name) for name in extra})
        return self._completions_server
