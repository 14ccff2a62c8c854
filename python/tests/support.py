"""What the tests share."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
import urllib.request
from typing import Any

import sponde

MODEL = "demo"


def sent_to_model() -> list[dict[str, Any]]:
    """The bodies of the requests that the mock of the model got."""
    base = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
    with urllib.request.urlopen(f"{base}/__aimock/journal") as answer:
        return [it["body"] for it in json.load(answer) if it.get("body")]


class WithDirectory(unittest.TestCase):
    """Each test works in a directory of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = folder.name

    def session(self, **options: Any) -> sponde.Session:
        """A session there, ended with the test."""
        options.setdefault("directory", self.directory)
        session = sponde.Session(options.pop("model", MODEL), **options)
        self.addCleanup(session.close)
        return session
