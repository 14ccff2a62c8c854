"""`%%ask` in a real notebook kernel, which another kernel works beside."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

from .support import MODEL, WithDirectory

PACKAGE = str(Path(__file__).parent.parent)


class Magic(WithDirectory):
    def setUp(self) -> None:
        super().setUp()
        # The kernel of this Python, whatever kernels the person has.
        self.manager, self.client = start_new_kernel(kernel_name="python3", startup_timeout=120, cwd=self.directory)
        self.addCleanup(self.manager.shutdown_kernel, now=True)
        self.addCleanup(self.client.stop_channels)
        self.ran(f"import sys\nsys.path.insert(0, {PACKAGE!r})\n%load_ext sponde")
        self.addCleanup(self.ran, "%unload_ext sponde")

    def ran(self, code: str, answer: str | None = None) -> list[dict[str, Any]]:
        """The outputs of a cell: what they show, without times and ids. `answer` is typed where it asks."""
        outputs: list[dict[str, Any]] = []

        def take(message: dict[str, Any]) -> None:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and outputs and outputs[-1].get(content["name"]) is not None:
                outputs[-1][content["name"]] += content["text"]
            elif kind == "stream":
                outputs.append({content["name"]: content["text"]})
            elif kind in ("display_data", "execute_result"):
                outputs.append(content["data"])
            elif kind == "error":
                outputs.append({"error": f"{content['ename']}: {content['evalue']}"})

        def asked(message: dict[str, Any]) -> None:
            outputs.append({"asked": message["content"]["prompt"]})
            self.client.input(answer or "")

        try:
            self.client.execute_interactive(
                code, allow_stdin=answer is not None, output_hook=take, stdin_hook=asked, timeout=120
            )
        except (TimeoutError, queue.Empty) as error:
            raise AssertionError(f"the cell did not end; so far: {outputs}") from error
        return outputs

    def test_a_question_has_the_notebooks_variables_and_gives_its_own(self) -> None:
        self.ran("import pandas\nsales = pandas.DataFrame({'price': [1, 2, 3]})\nother = object()")
        outputs = self.ran(f"%%ask -m {MODEL} -y\nHow many rows has sales, and what of other?")
        self.assertEqual(
            [it.get("text/markdown", it.get("text/plain")) for it in outputs],
            [
                "I count.",
                "```python\ndoubled = sales.assign(price=sales.price * 2)\nlen(sales)\n```",
                "3",
                "There are 3 rows.",
            ],
        )
        outputs = self.ran("%sponde get doubled mine\nint(mine.price.sum())")
        self.assertEqual(outputs[-1], {"text/plain": "12"})
        self.assertEqual(self.ran("%sponde run len(sales) + 1")[-1], {"text/plain": "4"})

    def test_what_sounds_secret_is_not_handed_over_by_chance(self) -> None:
        self.ran("api_key, size = 'hunter3', 7")
        self.ran(f"%ask -m {MODEL} Hi, api_key and size")
        self.assertEqual(self.ran("%sponde run size, 'api_key' in dir()"), [{"text/plain": "(7, False)"}])
        self.ran("%sponde put api_key")
        self.assertEqual(self.ran("%sponde get api_key again\nagain")[-1], {"text/plain": "'hunter3'"})

    def test_a_plot_and_a_table_are_shown_without_scripts(self) -> None:
        outputs = self.ran(f"%ask -m {MODEL} -y Plot what you'd like")
        self.assertEqual([sorted(it) for it in outputs if "image/png" in it], [["image/png", "text/plain"]])
        for html, is_shown in (("<b onclick='steal()'>bold</b>", True), ("<b>bold</b><script>steal()</script>", False)):
            shown = self.ran(f'%sponde run from IPython.display import display, HTML; display(HTML("{html}"))')
            self.assertEqual("bold" in shown[-1].get("text/html", ""), is_shown)
            self.assertNotIn("steal", str(shown))

    def test_code_is_asked_about_below_the_cell(self) -> None:
        self.ran("import sponde, sponde._magic as m\nm._session = sponde.Session('demo', approval='always')")
        outputs = self.ran("%ask What is 6 times 7?", answer="y")
        self.assertIn({"asked": "Run this code? (every cell is asked about) y, n, or other code: "}, outputs)
        self.assertEqual(outputs[-1]["text/markdown"], "The answer is **42**.")
        outputs = self.ran("%ask What is 6 times 7?", answer="n")
        self.assertNotIn("42", str(outputs[-1]))

    def test_what_goes_wrong_is_said_in_a_line(self) -> None:
        outputs = self.ran("%ask -m nosuch/model Hi")
        self.assertIn("error: ", str(outputs))
        self.assertIn("hint: ", str(outputs))
        self.assertIn("%sponde get NAME", str(self.ran("%sponde")))
        self.assertIn("error: ", str(self.ran("%sponde get missing")))
