"""`sponde.Session`: questions, code, variables, files, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas
import sponde

from .support import MODEL, WithDirectory


class Running(WithDirectory):
    """Code of the caller's own."""

    def test_code_runs_and_keeps_its_variables(self) -> None:
        session = self.session()
        self.assertEqual(session.run("x = 6\nprint('set')").text, "set")
        result = session.run("x * 7")
        self.assertEqual((result.text, result.status, result.ok, result.error), ("42", "ok", True, None))
        self.assertEqual(result.data, {"text/plain": "42"})
        self.assertEqual([(it.name, it.type) for it in session.variables()], [("x", "int")])

    def test_streams_are_told_apart_and_a_plot_is_bytes(self) -> None:
        session = self.session()
        code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nimport matplotlib.pyplot as p\np.plot([1])\np.show()"
        result = session.run(code)
        self.assertEqual((result.stdout, result.stderr), ("out\n", "err\n"))
        self.assertEqual([plot[:8] for plot in result.plots], [b"\x89PNG\r\n\x1a\n"])

    def test_a_picture_too_large_for_the_stream_is_fetched(self) -> None:
        code = (
            "import base64, os\nfrom IPython.display import display\n"
            "display({'image/png': base64.b64encode(b'PNG' + bytes(200_000)).decode()}, raw=True)"
        )
        self.assertEqual([len(plot) for plot in self.session().run(code).plots], [200_003])

    def test_displays_are_updated_and_cleared(self) -> None:
        code = (
            "from IPython.display import display, clear_output\nprint('gone')\nclear_output()\n"
            "handle = display('first', display_id=True)\nhandle.update('second')"
        )
        self.assertEqual(self.session().run(code).text, "'second'")

    def test_an_exception_is_the_results_error(self) -> None:
        result = self.session().run("1 / 0")
        self.assertEqual(result.status, "error")
        with self.assertRaises(sponde.CellError) as raised:
            result.check()
        self.assertEqual((raised.exception.name, raised.exception.value), ("ZeroDivisionError", "division by zero"))
        self.assertIn("1 / 0", raised.exception.traceback)

    def test_events_come_while_the_code_runs(self) -> None:
        session = self.session()
        events = session.run("print('now')\nimport time\ntime.sleep(600)", stream=True)
        first = next(event for event in events if event.kind == "output")
        self.assertEqual(first.output and first.output.text, "now\n")
        session.interrupt()
        *_, cell, _ = events
        self.assertEqual(cell.cell and cell.cell.error and cell.cell.error.name, "KeyboardInterrupt")
        self.assertEqual(session.run("1 + 1").text, "2")

    def test_code_is_interrupted_when_its_time_is_up(self) -> None:
        session = self.session()
        self.assertEqual(session.run("import time\ntime.sleep(600)", timeout=0.5).status, "timed out")
        self.assertEqual(session.run("1 + 1", timeout=60).text, "2")

    def test_input_is_a_callback(self) -> None:
        asked = []

        def answer(prompt: str, password: bool) -> str:
            asked.append((prompt, password))
            return "Ada"

        session = self.session(input=answer)
        self.assertIn("Hello Ada", session.run("print('Hello', input('name? '))").stdout)
        self.assertEqual(asked, [("name? ", False)])
        session.input = None
        self.assertEqual(session.run("input('nobody? ')").status, "error")

    def test_two_at_a_time_are_refused(self) -> None:
        session = self.session()
        events = session.run("import time\nprint(1)\ntime.sleep(600)", stream=True)
        next(events)
        with self.assertRaises(sponde.BusyError):
            session.run("2")
        events.close()  # type: ignore[attr-defined]
        self.assertEqual(session.run("2").text, "2")


class Asking(WithDirectory):
    """Questions to a model."""

    def test_an_answer_has_text_cells_and_cost(self) -> None:
        answer = self.session(approval="never").ask("What is 6 times 7?")
        self.assertEqual((answer.text, answer.end), ("The answer is **42**.", "done"))
        self.assertEqual(answer.said, "I compute.\n\nThe answer is **42**.")
        self.assertEqual([(it.source, it.text) for it in answer.cells], [("print('hey')\nanswer = 6 * 7\nanswer", "hey\n42")])
        self.assertIsNotNone(answer.cost)
        self.assertGreater(answer.input_tokens, 0)

    def test_plots_of_an_answer_are_bytes(self) -> None:
        answer = self.session(approval="never").ask("Plot it")
        self.assertEqual([plot[:4] for plot in answer.plots], [b"\x89PNG"])

    def test_events_come_as_they_happen(self) -> None:
        kinds = []
        for event in self.session(approval="never").ask("What is 6 times 7?", stream=True):
            if not kinds or kinds[-1] != event.kind:
                kinds.append(event.kind)
        self.assertEqual(kinds, ["text", "code_delta", "code", "started", "output", "cell", "text", "end"])

    def test_approval_is_a_callback(self) -> None:
        seen = []

        def approve(request: sponde.ApprovalRequest) -> sponde.Decline | sponde.Change:
            seen.append((request.source, request.language, request.reason))
            return sponde.Change("'changed'")

        session = self.session(approval="always", approve=approve)
        answer = session.ask("What is 6 times 7?")
        self.assertEqual([(it.source, it.text) for it in answer.cells], [("'changed'", "'changed'")])
        self.assertEqual(seen, [("print('hey')\nanswer = 6 * 7\nanswer", "python", "every cell is asked about")])
        session.approve = lambda _: False
        answer = session.ask("What is 6 times 7?")
        self.assertEqual((answer.end, answer.cells[0].status), ("declined", "declined"))

    def test_code_that_nobody_approves_is_an_error(self) -> None:
        session = self.session(approval="always")
        with self.assertRaisesRegex(sponde.ApprovalRequiredError, "hint: give the session `approve=`"):
            session.ask("What is 6 times 7?")
        self.assertEqual(session.ask("Hi").text, "Hello there.")

    def test_a_request_can_be_answered_in_the_stream(self) -> None:
        session = self.session(approval="always")
        for event in session.ask("What is 6 times 7?", stream=True):
            if isinstance(event.request, sponde.ApprovalRequest):
                event.request.run()
        self.assertEqual(event.answer and event.answer.text, "The answer is **42**.")

    def test_a_stream_that_is_left_is_stopped(self) -> None:
        session = self.session(approval="never")
        for event in session.ask("Wait", stream=True):
            if event.kind == "output":
                break
        del event
        self.assertEqual(session.ask("Hi").text, "Hello there.")

    def test_interrupt_ends_a_question_of_another_thread(self) -> None:
        session = self.session(approval="never")
        ends = []
        thread = threading.Thread(target=lambda: ends.append(session.ask("Wait").end))
        thread.start()
        while session.state["turn"] != "executing":
            time.sleep(0.05)
        session.interrupt()
        thread.join(60)
        self.assertEqual(ends, ["interrupted"])

    def test_a_model_that_refuses_is_an_error(self) -> None:
        with self.assertRaisesRegex(sponde.ModelError, "Incorrect API key"):
            self.session().ask("Refuse me")


class Keeping(WithDirectory):
    """Variables, files, notebooks, what goes on later."""

    def test_tables_go_there_and_back(self) -> None:
        session = self.session()
        frames = {
            "plain": pandas.DataFrame({"n": [1, 2], "word": ["a", None]}),
            "named": pandas.DataFrame({"n": [1.5, 2.5]}, index=pandas.Index(["x", "y"], name="key")),
            "unnamed": pandas.DataFrame({"n": [1, 2]}, index=["x", "y"]),
            "days": pandas.DataFrame({"day": pandas.to_datetime(["2026-11-23", "2026-11-24"])}),
        }
        for name, frame in frames.items():
            session.put(name, frame)
            pandas.testing.assert_frame_equal(session.get(name), frame)
        session.put("series", frames["plain"]["n"])
        self.assertEqual(session.run("series.sum(), type(series).__name__").text, "(np.int64(3), 'Series')")
        self.assertTrue((Path(self.directory) / "sponde-data/plain.parquet").is_file())

    def test_plain_values_go_there_and_back(self) -> None:
        session = self.session()
        value = {"words": ["a", "b\n'\""], "n": 1.5, "none": None, "true": True}
        session.put("value", value)
        self.assertEqual(session.get("value"), value)
        with self.assertRaisesRegex(sponde.SpondeError, "neither a table nor a plain value"):
            session.put("thing", object())
        session.run("thing = object()")
        with self.assertRaisesRegex(sponde.SpondeError, "neither a table nor a plain value"):
            session.get("thing")
        with self.assertRaisesRegex(sponde.SpondeError, "not the name of a variable"):
            session.put("x = 1; y", 2)
        with self.assertRaises(sponde.RequestError) as refused:
            session.get("missing")
        self.assertEqual(refused.exception.reason, "no_variable")

    def test_files_are_listed_sent_and_fetched(self) -> None:
        session = self.session()
        self.assertEqual(session.files.upload(b"a,b\n1,2\n", "data/täg 100%.csv"), "data/täg 100%.csv")
        self.assertEqual([it["name"] for it in session.files.list("data")], ["täg 100%.csv"])
        self.assertEqual(session.files.download("data/täg 100%.csv"), b"a,b\n1,2\n")
        session.files.delete("data/täg 100%.csv")
        self.assertEqual(session.files.list("data"), [])
        with self.assertRaises(sponde.RequestError):
            session.files.download("../../etc/passwd")

    def test_the_conversation_is_a_notebook(self) -> None:
        session = self.session(approval="never")
        session.ask("What is 6 times 7?")
        notebook = json.loads(session.notebook())
        self.assertEqual(notebook["nbformat"], 4)
        self.assertIn("answer = 6 * 7", session.notebook("py"))
        self.assertIn("<!doctype html>", session.notebook("html").lower())
        with self.assertRaisesRegex(sponde.SpondeError, "there are ipynb, html, md, py"):
            session.notebook("pdf")

    def test_turns_are_taken_back(self) -> None:
        session = self.session()
        session.run("x = 1")
        session.run("x = 2")
        self.assertEqual(session.undo()["cells"], 1)
        self.assertEqual(session.get("x"), 1)
        session.undo()
        with self.assertRaises(sponde.UndoError):
            session.undo(5)

    def test_a_restarted_kernel_has_no_variables(self) -> None:
        session = self.session()
        session.run("x = 1")
        session.restart()
        self.assertEqual(session.run("'x' in dir()").text, "False")

    def test_a_session_is_resumed_and_forked(self) -> None:
        with sponde.Session(MODEL, directory=self.directory) as session:
            session.run("x = 21")
            fork = session.fork()
            self.assertNotEqual(fork.id, session.id)
            self.assertEqual(fork.run("1 + 1").text, "2")
            fork.close()
        with self.assertRaisesRegex(sponde.SpondeError, "the session is closed"):
            session.run("1")
        resumed = self.session(resume=session.id, replay=True)
        self.assertEqual(resumed.run("x * 2").text, "42")

    def test_instructions_are_the_clients(self) -> None:
        session = self.session(instructions="Answer in verse.")
        session.run("1")
        self.assertEqual(session.state["instructions"], ["the client"])


def is_running(pid: str) -> bool:
    """Who adopts orphans may never ask for their ends: a zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Servers(WithDirectory):
    """The server that is started, and one that runs already."""

    def test_one_that_runs_already_is_reached_by_url_and_token(self) -> None:
        command = [sponde.find_program(), "serve", "--listen", "127.0.0.1:0", "--root", self.directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            base, token = url.split("/#token=")
            with sponde.Session(url=base, token=token) as session:
                self.assertEqual(session.run("6 * 7").text, "42")
            with sponde.Session(url=url) as session:
                self.assertEqual(session.run("6 * 7").text, "42")
            with self.assertRaisesRegex(sponde.RequestError, "token"):
                sponde.Session(url=base, token="wrong")
            with self.assertRaisesRegex(sponde.SpondeError, "`sandbox` is a matter of the server"):
                sponde.Session(url=base, sandbox="full")
            server.send_signal(signal.SIGTERM)

    def test_it_ends_with_the_process_that_started_it(self) -> None:
        code = f"import sponde, time\nsponde.Session(directory={self.directory!r}).run('1')\nprint('there', flush=True)\ntime.sleep(600)"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            self.assertEqual(parent.stdout.readline(), "there\n")
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            parent.kill()
        self.assertEqual(len(children), 1)
        deadline = time.monotonic() + 60
        while is_running(children[0]) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(is_running(children[0]), "the server goes on")

    def test_what_goes_wrong_says_what_to_do(self) -> None:
        with self.assertRaisesRegex(sponde.RequestError, "there is no kernel `nosuch`"):
            self.session(kernel="nosuch")
        with self.assertRaisesRegex(sponde.ServerError, "invalid value 'nosuch' for '--sandbox"):
            self.session(sandbox="nosuch")
        with self.assertRaisesRegex(sponde.ConnectionLostError, "check that `sponde serve` runs there"):
            sponde.Session(url="http://127.0.0.1:1", token="x")
        with self.assertRaisesRegex(sponde.SpondeError, "not the address of a server"):
            sponde.Session(url="nonsense")

    def test_keys_do_not_reach_the_code(self) -> None:
        session = self.session(env={"ANTHROPIC_API_KEY": "sk-hunter3"})
        self.assertEqual(session.run("import os\nos.environ.get('ANTHROPIC_API_KEY')").text, "")
        self.assertNotIn("ANTHROPIC_API_KEY", os.environ)
