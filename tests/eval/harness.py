"""What stands between a model and its answer: Sponde, a shell, nothing but the words, or smolagents.

A harness takes the questions of one task in order and gives, for each, the words it ended with and what it cost. The
ones that are not Sponde speak to an endpoint of the OpenAI wire, so that all of them can have the same model.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
#: Characters of an output that a model reads.
SHOWN = 4000
#: Of all runs but the first, which has 0.
TEMPERATURE = 0.7
#: Files of a task that are named one by one.
MOST_FILES = 20
#: Seconds of one command.
COMMAND = 20


@dataclasses.dataclass
class Answer:
    words: str = ""
    #: Why there is no answer, or an empty text.
    failure: str = ""
    model: str = None
    requests: int = 0
    runs: int = 0
    failed: int = 0
    ran_well: bool = False
    plots: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = None
    seconds: float = 0.0


def run(options, questions, work):
    """The answers to `questions`, asked in order in the directory `work`."""
    return {"sponde": sponde, "bash": bash, "notools": notools, "smolagents": smolagents}[options.harness](options, questions, work)


# --- Sponde: what it was asked and what came of it is in its notebook.

def sponde(options, questions, work):
    # Of many files the folders are told.
    files = names if len(names := named(work)) <= MOST_FILES else sorted(path.name for path in work.iterdir())
    common = ["--yes", "--max-steps", str(options.max_steps), "--cell-timeout", str(COMMAND), "--notebook", "answer.ipynb"]
    for file in files:
        common += ["--file", file]
    for name in ["model", "code_mode"]:
        if value := getattr(options, name):
            common += [f"--{name.replace('_', '-')}", value]
    if options.seed:
        common += ["--profile", "eval-seed"]
    if len(questions) == 1:
        command, said = [str(options.sponde), "ask", questions[0], *common], None
    else:
        command, said = [str(options.sponde), *common], "".join(" ".join(it.split()) + "\n" for it in questions)
    # The person's configuration, with how the model is to be sampled.
    with sampled(options.seed) as environment:
        return asked(options, questions, work, command, said, environment)


def asked(options, questions, work, command, said, environment):
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=work, env=environment, stdin=subprocess.DEVNULL if said is None else subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    late = False
    try:
        _, err = process.communicate(said, timeout=options.limit * len(questions))
    except subprocess.TimeoutExpired:
        late = True
        # As Ctrl-C: kernel and server end in good order. What was said until then is still judged.
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            _, err = process.communicate()
    seconds = time.monotonic() - begin
    notebook = work / "answer.ipynb"
    answers = of_notebook(json.loads(notebook.read_text())) if notebook.exists() else []
    answers = answers[:len(questions)] + [Answer() for _ in questions[len(answers):]]
    last = (err.strip().splitlines() or ["?"])[-1]
    for answer in answers:
        answer.seconds = seconds / len(questions)
        if not answer.words:
            answer.failure = "out of time" if late else f"exit {process.returncode}: {last}" if process.returncode else "no answer"
    return answers


@contextlib.contextmanager
def sampled(seed):
    """The environment for one run: the first is as Sponde is, the others have a temperature and a seed."""
    if seed == 0:
        yield None
        return
    config = os.environ.get("SPONDE_CONFIG_DIR") or pathlib.Path(os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config") / "sponde"
    with tempfile.TemporaryDirectory(prefix="sponde-eval-") as copy:
        copy = pathlib.Path(copy)
        if pathlib.Path(config).is_dir():
            shutil.copytree(config, copy, dirs_exist_ok=True)
        (copy / "profiles").mkdir(exist_ok=True)
        (copy / "profiles/eval-seed.toml").write_text(f"temperature = {TEMPERATURE}\nseed = {seed}\n")
        yield dict(os.environ, SPONDE_CONFIG_DIR=str(copy))


def of_notebook(notebook):
    answers = []
    for cell in notebook["cells"]:
        ours = cell["metadata"].get("sponde", {})
        if ours.get("role") == "user":
            usage = ours.get("usage", {})
            answers.append(Answer(model=notebook["metadata"].get("sponde", {}).get("model"), requests=usage.get("requests", 0),
                                  input_tokens=usage.get("input_tokens", 0), output_tokens=usage.get("output_tokens", 0),
                                  cost=usage.get("cost_usd")))
        if not answers:
            continue
        answer = answers[-1]
        if cell["cell_type"] == "code":
            # Words before code are not the answer.
            answer.words = ""
            answer.runs += 1
            answer.failed += ours.get("status") == "error"
            answer.ran_well |= ours.get("status") == "ok"
            answer.plots += sum("image/png" in output.get("data", {}) for output in cell["outputs"])
        elif ours.get("role") == "assistant":
            answer.words += "".join(cell["source"]) + "\n"
    return answers


# --- The others: a conversation with an endpoint.

class Endpoint:
    def __init__(self, options):
        self.url, self.model = options.base_url.rstrip("/"), options.endpoint_model
        self.key, self.limit = os.environ.get(options.api_key_env, "none"), options.limit

    def ask(self, messages, answer, seed):
        body = {"model": self.model, "messages": messages, "temperature": TEMPERATURE if seed else 0, "seed": seed, "max_tokens": 1500}
        request = urllib.request.Request(self.url + "/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=self.limit) as response:
            reply = json.load(response)
        usage = reply.get("usage", {})
        answer.requests += 1
        answer.model = self.model
        answer.input_tokens += usage.get("prompt_tokens", 0)
        answer.output_tokens += usage.get("completion_tokens", 0)
        return reply["choices"][0]["message"]["content"] or ""


BASH = """You answer questions about the data files in the current directory by running shell commands.
To run commands, reply with one fenced block marked bash and nothing after it. It runs in a new shell, and you are told
what it printed. `python3` has pandas and numpy; use `python3 - <<'EOF'` for several lines. Print what you want to see.
When you know the answer, say it in plain words without a block."""


def bash(options, questions, work):
    """A loop with one tool, a shell that remembers nothing but files: what coding agents have."""
    endpoint, answers = Endpoint(options), []
    messages = [{"role": "system", "content": BASH}]
    names = ", ".join(named(work))
    environment = dict(os.environ, PATH=f"{options.python.parent}:{os.environ['PATH']}")
    for number, question in enumerate(questions):
        text = question if number else f"Files here: {names}\n\n{question}"
        messages.append({"role": "user", "content": text})
        answer = Answer()
        answers.append(answer)
        with timed(answer, options):
            for _ in range(options.max_steps):
                reply = endpoint.ask(messages, answer, options.seed)
                messages.append({"role": "assistant", "content": reply})
                block = re.search(r"```(?:bash|sh|shell)[^\n]*\n(.*?)```", reply, re.S)
                if block is None:
                    answer.words = reply
                    break
                code, printed = shell(block[1], work, environment)
                answer.runs += 1
                answer.failed += code != 0
                answer.ran_well |= code == 0
                messages.append({"role": "user", "content": f"exit code {code}\n{clipped(printed)}"})
            else:
                answer.failure = "no answer"
    return answers


def shell(code, work, environment):
    """One command in a process group of its own, which is ended with it."""
    process = subprocess.Popen(["bash", "-c", code], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=COMMAND)
        return process.returncode, printed
    except subprocess.TimeoutExpired:
        return 124, f"(stopped after {COMMAND} s)"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def clipped(text):
    return text if len(text) <= SHOWN else text[: SHOWN // 2] + "\n[...]\n" + text[-SHOWN // 2:]


NOTOOLS = "You answer questions about data files, whose first lines you are shown. Answer in plain words, with the number or name that is asked for."


def notools(options, questions, work):
    """Nothing but the model and the first lines of the files."""
    heads = []
    for name in named(work)[:MOST_FILES]:
        with (work / name).open(errors="replace") as file:
            heads.append(f"{name}:\n" + clipped("".join(file.readline() for _ in range(40))))
    endpoint, answers = Endpoint(options), []
    messages = [{"role": "system", "content": NOTOOLS}]
    for number, question in enumerate(questions):
        messages.append({"role": "user", "content": question if number else "\n\n".join([*heads, question])})
        answer = Answer(ran_well=True)
        answers.append(answer)
        with timed(answer, options):
            answer.words = endpoint.ask(messages, answer, options.seed)
            messages.append({"role": "assistant", "content": answer.words})
    return answers


def smolagents(options, questions, work):
    """smolagents' CodeAgent, in a Python that has the package (--python)."""
    order = {"questions": questions, "url": options.base_url, "model": options.endpoint_model, "steps": options.max_steps,
             "key": os.environ.get(options.api_key_env, "none"), "files": named(work), "temperature": TEMPERATURE if options.seed else 0,
             "seed": options.seed}
    try:
        done = subprocess.run([options.python, HERE / "smolagents_run.py"], cwd=work, input=json.dumps(order), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=options.limit * len(questions))
        told = [json.loads(line.removeprefix("ANSWER ")) for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
        failure = (done.stderr.strip().splitlines() or ["no answer"])[-1]
    except subprocess.TimeoutExpired:
        told, failure = [], "out of time"
    answers = [Answer(**it) for it in told]
    return answers + [Answer(failure=failure) for _ in questions[len(answers):]]


@contextlib.contextmanager
def timed(answer, options):
    begin = time.monotonic()
    try:
        yield
    except TimeoutError:
        answer.failure = "out of time"
    except OSError as error:
        answer.failure = f"{options.base_url}: {error}"
    answer.seconds = time.monotonic() - begin


@contextlib.contextmanager
def local_server(name, data, context=8192):
    """Serves the local model `name` from Sponde's data directory: its file, and llama.cpp of its environment."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.casefold()) if word]
    files = [path for path in sorted((data / "models").glob("*.gguf")) if all(word in path.name.casefold() for word in words)]
    python = data / "python/bin/python"
    if not files or not python.exists():
        raise SystemExit(f"error: no model `{name}` below {data}: `sponde models pull {name}` and `sponde kernels install python3`")
    serve = ("import sys, threading, xllamacpp\n"
             "p = xllamacpp.CommonParams()\n"
             "p.model.path, p.port, p.n_ctx, p.n_parallel, p.use_jinja = sys.argv[1], 0, int(sys.argv[2]), 1, True\n"
             "s = xllamacpp.Server(p)\n"
             "print('LISTENING', s.listening_address, flush=True)\n"
             "sys.stdin.read()\n"
             # Threads of the server would keep it.
             "__import__('os')._exit(0)\n")
    process = subprocess.Popen([python, "-I", "-c", serve, files[0], str(context)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in process.stdout:
            if line.startswith("LISTENING "):
                yield line.split()[1] + "/v1"
                break
        else:
            raise SystemExit("error: the model's server ended before it listened")
    finally:
        process.stdin.close()
        process.kill()
        process.wait()


def data_dir():
    if given := os.environ.get("SPONDE_DATA_DIR"):
        return pathlib.Path(given)
    base = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share"
    return pathlib.Path(base) / "sponde"


def prepare(task, work):
    """Copies the files of a task; below its root they keep their folders."""
    files = [below for file in task.files for below in (sorted(file.rglob("*")) if file.is_dir() else [file]) if below.is_file()]
    for file in files:
        there = work / (file.relative_to(task.root) if task.root else file.name)
        if there.exists() and task.root is None:
            raise SystemExit(f"error: two files are called {file.name}")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, there)


def named(work):
    """The files of a task, with the folders they are in."""
    return sorted(str(path.relative_to(work)) for path in work.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit("usage: scripts/eval --harness ..")
