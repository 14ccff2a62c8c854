"""`sponde.interpreter` in the place of Open Interpreter 0.4, used as its README and its documentation use that."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import sponde
from sponde.interpreter import OpenInterpreter, SpondeWarning, install

from .support import MODEL, WithDirectory, sent_to_model


class WithInterpreter(WithDirectory):
    def interpreter(self, **settings: Any) -> OpenInterpreter:
        made = OpenInterpreter(directory=self.directory, **settings)
        made.llm.model = MODEL
        self.addCleanup(made.close)
        return made


class Chatting(WithInterpreter):
    def test_chunks_are_open_interpreters(self) -> None:
        interpreter = self.interpreter(kernel="python3")
        chunks = list(interpreter.chat("What is 6 times 7?", display=False, stream=True))
        merged: list[dict[str, Any]] = []
        for chunk in chunks:
            head = {name: it for name, it in chunk.items() if name != "content"}
            if merged and isinstance(chunk.get("content"), str) and {**merged[-1], "content": 0} == {**head, "content": 0}:
                merged[-1]["content"] += chunk["content"]
            else:
                merged.append(dict(chunk))
        words = {"role": "assistant", "type": "message"}
        code = {"role": "assistant", "type": "code", "format": "python"}
        source = "print('hey')\nanswer = 6 * 7\nanswer"
        console = {"role": "computer", "type": "console"}
        self.assertEqual(
            merged,
            [
                {**words, "start": True},
                {**words, "content": "I compute."},
                {**words, "end": True},
                {**code, "start": True},
                {**code, "content": source},
                {**code, "end": True},
                {
                    "role": "computer",
                    "type": "confirmation",
                    "format": "execution",
                    "content": {"type": "code", "format": "python", "content": source},
                },
                {**console, "start": True},
                {**console, "format": "output", "content": "hey\n42"},
                {**console, "format": "active_line", "content": None},
                {**console, "end": True},
                {**words, "start": True},
                {**words, "content": "The answer is **42**."},
                {**words, "end": True},
            ],
        )
        self.assertGreater(len(chunks), len(merged))

    def test_messages_are_what_was_said_and_what_came_out(self) -> None:
        interpreter = self.interpreter(auto_run=True)
        returned = interpreter.chat("Hi! Can you print hello world?", display=False)
        self.assertEqual(
            interpreter.messages,
            [
                {"role": "user", "type": "message", "content": "Hi! Can you print hello world?"},
                {"role": "assistant", "type": "message", "content": "Sure!"},
                {"role": "assistant", "type": "code", "format": "python", "content": "print('Hello, World!')"},
                {"role": "computer", "type": "console", "format": "output", "content": "Hello, World!\n"},
                {"role": "assistant", "type": "message", "content": "Done."},
            ],
        )
        self.assertEqual(returned, interpreter.messages[1:])

    def test_pictures_are_messages(self) -> None:
        interpreter = self.interpreter(auto_run=True)
        interpreter.chat("Plot AAPL", display=False)
        pictures = [it for it in interpreter.messages if it["type"] == "image"]
        self.assertEqual([(it["role"], it["format"], it["content"][:5]) for it in pictures], [("computer", "base64.png", "iVBOR")])

    def test_who_breaks_out_at_the_confirmation_declines(self) -> None:
        interpreter = self.interpreter()
        for chunk in interpreter.chat("What is 6 times 7?", display=False, stream=True):
            if chunk["type"] == "confirmation":
                break
        self.assertEqual(interpreter.computer.run("python", "'answer' in dir()")[0]["content"], "False")

    def test_a_terminal_without_a_person_runs_nothing(self) -> None:
        interpreter = self.interpreter()
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), mock.patch("sys.stdin", io.StringIO("")):
            interpreter.chat("What is 6 times 7?")
        self.assertIn("Not run: every cell is asked about", shown.getvalue())
        self.assertNotIn("42", shown.getvalue())

    def test_a_conversation_at_the_terminal(self) -> None:
        interpreter = self.interpreter(auto_run=True)
        shown = io.StringIO()
        lines = io.StringIO("What is 6 times 7?\n%undo\n%help\nHi\nexit\n")
        with contextlib.redirect_stdout(shown), mock.patch("sys.stdin", lines):
            interpreter.chat()
        self.assertIn("The answer is **42**.", shown.getvalue())
        self.assertEqual([it["content"] for it in interpreter.messages], ["Hi", "Hello there."])

    def test_it_works_in_the_background(self) -> None:
        interpreter = self.interpreter(auto_run=True)
        self.assertIsNone(interpreter.chat("What is 6 times 7?", display=False, blocking=False))
        self.assertEqual(interpreter.wait()[-1]["content"], "The answer is **42**.")

    def test_loop_asks_until_the_task_is_done(self) -> None:
        interpreter = self.interpreter(loop=True)
        interpreter.chat("Hi", display=False)
        self.assertEqual([it["content"] for it in interpreter.messages[1:]], ["Hello there.", "The task is done."])


class Restoring(WithInterpreter):
    def test_saved_messages_bring_the_conversation_and_its_variables_back(self) -> None:
        interpreter = self.interpreter(auto_run=True)
        messages = interpreter.chat("What is 6 times 7?", display=False)
        interpreter.messages = []
        interpreter.chat("Hi", display=False)
        self.assertEqual(interpreter.computer.run("python", "'answer' in dir()")[0]["content"], "False")
        interpreter.messages = messages
        interpreter.chat("And now?", display=False)
        self.assertEqual(interpreter.computer.run("python", "answer")[0]["content"], "42")

    def test_messages_of_another_process_are_what_the_model_gets(self) -> None:
        messages = [
            {"role": "user", "type": "message", "content": "My name is Killian."},
            {"role": "assistant", "type": "message", "content": "Hello Killian."},
            {"role": "assistant", "type": "code", "format": "python", "content": "len('Killian')"},
            {"role": "computer", "type": "console", "format": "output", "content": "7"},
            {"role": "assistant", "type": "message", "content": "It has 7 letters."},
        ]
        interpreter = self.interpreter()
        interpreter.messages = json.loads(json.dumps(messages))
        interpreter.chat("What is my name?", display=False)
        sent = next(it for it in reversed(sent_to_model()) if "What is my name" in json.dumps(it["messages"][-1]))
        roles = [it["role"] for it in sent["messages"] if it["role"] != "system"]
        self.assertEqual([it for it in roles if it != "user"], ["assistant", "tool", "assistant"])
        for words in ("My name is Killian.", "Hello Killian.", "len('Killian')", "It has 7 letters."):
            self.assertIn(words, json.dumps(sent["messages"]).replace('\\"', '"'))
        self.assertEqual(len(interpreter.messages), 7)
        interpreter.close()
        self.assertEqual([it.name for it in Path(self.directory).iterdir() if it.name.startswith(".sponde")], [])

    def test_a_list_of_messages_can_be_asked(self) -> None:
        one, two = self.interpreter(), self.interpreter()
        said = one.chat([{"role": "user", "type": "message", "content": "Hello!"}], display=False)
        for message in said or []:
            message["role"] = "user"
        answer = two.chat(said, display=False)
        self.assertEqual(answer, [{"role": "assistant", "type": "message", "content": "Hello there."}])

    def test_a_reset_forgets_all(self) -> None:
        interpreter = self.interpreter()
        interpreter.computer.run("python", "x = 1")
        interpreter.reset()
        self.assertEqual(interpreter.messages, [])
        self.assertEqual(interpreter.computer.run("python", "'x' in dir()")[0]["content"], "False")

    def test_conversations_are_saved_where_it_is_said(self) -> None:
        folder = Path(self.directory) / "conversations"
        interpreter = self.interpreter(conversation_history_path=str(folder), conversation_filename="one.json")
        interpreter.chat("Hi", display=False)
        self.assertEqual(json.loads((folder / "one.json").read_text()), interpreter.messages)


class Settings(WithInterpreter):
    def test_the_computer_runs_code_beside_the_model(self) -> None:
        interpreter = self.interpreter(auto_run=True)
        hello = {"role": "computer", "type": "console", "format": "output", "content": "Hello World!\n"}
        self.assertEqual(interpreter.computer.run("python", "print('Hello World!')"), [hello])
        self.assertEqual(interpreter.computer.run("shell", "echo 'Hello World!'"), [hello])
        names = [it.name for it in interpreter.computer.languages]
        self.assertEqual(names[0], "python")
        self.assertIn("shell", names)
        chunks = list(interpreter.computer.run("py", "1 / 0", stream=True))
        self.assertEqual(chunks[0], {"role": "computer", "type": "console", "start": True})
        self.assertIn("ZeroDivisionError", chunks[1]["content"])
        with self.assertRaisesRegex(sponde.SpondeError, "there is no kernel for cobol"):
            interpreter.computer.run("cobol", "DISPLAY 1")

    def test_a_language_of_ones_own_runs(self) -> None:
        class Echo:
            name = "echo"

            def run(self, code: str) -> Any:
                yield {"type": "console", "format": "output", "content": code}

        interpreter = self.interpreter()
        with self.assertWarnsRegex(SpondeWarning, "the model's code runs in Sponde's kernels"):
            interpreter.computer.languages = [Echo]
        self.assertEqual(interpreter.computer.run("echo", "hi")[0]["content"], "hi")

    def test_the_system_message_is_added_to(self) -> None:
        interpreter = self.interpreter()
        interpreter.system_message += "\nRun shell commands with -y."
        interpreter.custom_instructions = "Replicate has already been imported."
        interpreter.chat("Hi", display=False)
        system = json.dumps(sent_to_model()[-1]["messages"][0])
        self.assertIn("Run shell commands with -y.", system)
        self.assertIn("Replicate has already been imported.", system)
        interpreter.custom_instructions = "Answer in verse."
        interpreter.chat("Hi", display=False)
        self.assertIn("Answer in verse.", json.dumps(sent_to_model()[-1]["messages"][0]))
        self.assertEqual(len(interpreter.messages), 4)

    def test_a_model_behind_a_base_is_asked_there(self) -> None:
        import os

        interpreter = self.interpreter()
        interpreter.offline = True
        interpreter.llm.model = "openai/x"
        interpreter.llm.api_key = "fake_key"
        interpreter.llm.api_base = os.environ["OPENAI_BASE_URL"]
        with mock.patch.dict(os.environ):
            del os.environ["OPENAI_BASE_URL"]
            del os.environ["OPENAI_API_KEY"]
            interpreter.chat("Hi", display=False)
        self.assertEqual(sent_to_model()[-1]["model"], "x")

    def test_names_of_models_are_understood(self) -> None:
        import os

        with mock.patch.dict(os.environ):
            del os.environ["OPENAI_BASE_URL"]
            for given, key, expected in (
                ("gpt-3.5-turbo", "k", ("openai/gpt-3.5-turbo", {"OPENAI_API_KEY": "k"})),
                ("claude-3-5-sonnet-20240620", None, ("anthropic/claude-3-5-sonnet-20240620", {})),
                ("ollama/llama3.1", None, ("ollama/llama3.1", {})),
                ("", None, (None, {})),
            ):
                llm = OpenInterpreter().llm
                llm.model, llm.api_key = given, key
                self.assertEqual(llm.resolve(), expected)

    def test_what_has_no_effect_warns(self) -> None:
        interpreter = self.interpreter()
        for set_it, words in (
            (lambda: setattr(interpreter, "os", True), "does not see or move the screen"),
            (lambda: setattr(interpreter, "no_such_thing", 1), "is not known here"),
            (lambda: setattr(interpreter.llm, "temperature", 0.7), "leaves it to the model's server"),
            (lambda: setattr(interpreter.computer, "import_computer_api", True), "no API for mouse"),
            (lambda: setattr(interpreter, "conversation_history", False), "`sponde sessions rm`"),
        ):
            with self.assertWarnsRegex(SpondeWarning, words):
                set_it()
        with self.assertRaisesRegex(AttributeError, "docs/python.md lists what there is"):
            _ = interpreter.no_such_method
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            interpreter.verbose, interpreter.offline, interpreter.safe_mode = True, True, "ask"
            interpreter.llm.temperature, interpreter.llm.supports_functions = 0, False
            interpreter.computer.emit_images, interpreter.computer.import_computer_api = False, False

    def test_profiles_are_read(self) -> None:
        folder = Path(self.directory)
        settings = {"llm": {"model": "demo", "supports_functions": True}, "auto_run": True, "custom_instructions": "Be brief."}
        (folder / "profile.json").write_text(json.dumps({**settings, "version": "0.2.5"}))
        (folder / "profile.py").write_text("from interpreter import interpreter\ninterpreter.auto_run = True\n")
        interpreter = self.interpreter()
        interpreter.load_profile(folder / "profile.py")
        self.assertTrue(interpreter.auto_run)
        self.assertNotIn("interpreter", sys.modules)
        other = self.interpreter()
        other.load_profile(folder / "profile.json")
        self.assertEqual((other.auto_run, other.llm.supports_functions, other.custom_instructions), (True, True, "Be brief."))

    def test_programs_import_it_by_its_old_name(self) -> None:
        code = (
            "import sponde.interpreter\nsponde.interpreter.install()\n"
            "from interpreter import interpreter, OpenInterpreter\n"
            f"interpreter.llm.model = {MODEL!r}\n"
            f"interpreter.directory = {self.directory!r}\n"
            "interpreter.auto_run = True\n"
            "print(interpreter.chat('What is 6 times 7?', display=False)[-1]['content'])\n"
        )
        ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual((ran.stdout, ran.stderr), ("The answer is **42**.\n", ""))

    def test_install_gives_this_process_the_old_name(self) -> None:
        with mock.patch.dict(sys.modules):
            install()
            import interpreter as old  # type: ignore[import-not-found]

            self.assertIs(old.OpenInterpreter, OpenInterpreter)
            with self.assertRaisesRegex(sponde.SpondeError, "`sponde serve` is a server"):
                old.AsyncInterpreter()
            with self.assertRaises(ImportError):
                from interpreter import nothing  # type: ignore[import-not-found]  # noqa: F401
