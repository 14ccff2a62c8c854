"""Questions with known answers: our own 25, our chains of follow-ups, and two public benchmarks in their own form.

A suite is a list of tasks. A task is a list of steps that one session is asked in order (mostly one), with the files
that its directory holds.
"""

import dataclasses
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@dataclasses.dataclass
class Step:
    id: str
    question: str
    #: What is right: a function of the final words that gives "" or what is wrong with them.
    judge: object
    plot: bool = False


@dataclasses.dataclass
class Task:
    files: list
    steps: list


def load(name, folder):
    return {"questions": questions, "followups": followups, "dabench": dabench, "krama": krama}[name](folder)


def questions(_):
    asked = json.loads((HERE / "questions.json").read_text())
    answers = json.loads((HERE / "answers.json").read_text())
    return [Task([table(file) for file in it["files"]],
                 [Step(it["id"], it["question"], of_parts(answers[it["id"]]), it.get("plot", False))]) for it in asked]


def followups(_):
    chains = json.loads((HERE / "followups.json").read_text())
    answers = json.loads((HERE / "followups-answers.json").read_text())
    return [Task([table(file) for file in chain["files"]],
                 [Step(it["id"], it["question"], of_parts(answers[it["id"]])) for it in chain["steps"]]) for chain in chains]


def dabench(folder):
    """InfiAgent-DABench: da-dev-questions.jsonl, da-dev-labels.jsonl, da-dev-tables/ (arXiv 2401.05507)."""
    folder = needed(folder, "da-dev-questions.jsonl")
    labels = {it["id"]: it["common_answers"] for it in lines(folder / "da-dev-labels.jsonl")}
    tasks = []
    for it in lines(folder / "da-dev-questions.jsonl"):
        question = "\n".join([it["question"], it["constraints"], "End your answer with a line in this form, names and "
                              "brackets as they are: " + it["format"]])
        file = folder / "da-dev-tables" / it["file_name"]
        tasks.append(Task([file], [Step(f"dabench-{it['id']}", question, of_labels(labels[it["id"]]))]))
    return tasks


def krama(folder):
    """KramaBench: workload/*.json and data/DOMAIN/input (arXiv 2506.06541). Tasks whose files are not there are left out."""
    folder = needed(folder, "workload")
    tasks = []
    for workload in sorted((folder / "workload").glob("*.json")):
        domain = workload.stem.split("-")[0]
        lake = folder / "data" / domain / "input"
        for it in json.loads(workload.read_text()):
            files = [path for name in it.get("data_sources", []) for path in sorted(lake.glob(name.removeprefix("./")))]
            if not files or len(files) < len(it.get("data_sources", [])):
                continue
            question = it["query"] + "\nEnd your answer with a line `ANSWER: ` and the answer alone."
            tasks.append(Task(files, [Step(it["id"], question, of_answer(it["answer"], it["answer_type"]))]))
    return tasks


def needed(folder, name):
    if folder is None or not (folder / name).exists():
        raise SystemExit(f"error: --data must name the benchmark's folder, which has {name} (nothing is fetched)")
    return folder


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def table(name):
    return next(path for path in [HERE / "data" / name, ROOT / "notebooks/data" / name] if path.exists())


# --- judging

def of_parts(parts):
    """Our own answers: every part must be in the words."""
    def judge(words):
        missing = [part for part in parts if not holds(words, part)]
        names = [str(part.get("number", part.get("words", ["?"])[0])) for part in missing]
        return "lacks " + ", ".join(names) if missing else ""
    return judge


def holds(text, part):
    if "words" in part:
        return any(word.casefold() in text.casefold() for word in part["words"])
    number, tolerance = part["number"], part["tolerance"]
    known = [(number, tolerance)] + [(other, abs(tolerance * other / number)) for other in part.get("or", [])]
    return any(abs(found - value) <= tolerance + 1e-9 for found in numbers(text) for value, tolerance in known)


def numbers(text):
    """The numbers in a text; 1,234.5 is one, and so is -13 with any kind of minus."""
    text = text.replace("\u2212", "-").replace("\u202f", "").replace("\u00a0", " ")
    for match in re.finditer(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", text):
        yield float(match.group().replace(",", ""))
    # A range or a date has dashes that are no minus.
    for match in re.finditer(r"(?<=[\d\w])-(\d+(?:\.\d+)?)", text):
        yield float(match.group(1))


def of_labels(labels):
    """DABench: each `@name[value]` as labelled; numbers may differ by 1e-6, as in its own evaluation."""
    def judge(words):
        given = dict(re.findall(r"@(\w+)\[(.*?)\]", words))
        wrong = [name for name, value in labels if not is_same(given.get(name, ""), value)]
        return "lacks " + ", ".join(f"@{name}" for name in wrong) if wrong else ""
    return judge


def is_same(given, label):
    if given.strip() == str(label).strip():
        return True
    try:
        return abs(float(given) - float(label)) < 1e-6
    except ValueError:
        return False


def of_answer(answer, kind):
    """KramaBench: exact kinds exactly, approximate numbers within 5 %, approximate words if one holds the other."""
    def judge(words):
        found = re.findall(r"ANSWER:\s*(.+)", words)
        given = found[-1].strip().strip("`*") if found else ""
        if kind.startswith("list"):
            parts = [part.strip().strip("'\"") for part in given.strip("[]").split(",")]
            fits = len(parts) == len(answer) and all(any(one(part, it, kind) for part in parts) for it in answer)
        else:
            fits = one(given, answer, kind)
        return "" if fits else f"lacks {answer}"
    return judge


def one(given, wanted, kind):
    if "string" in kind or not isinstance(wanted, (int, float)) and not list(numbers(str(wanted))):
        given, wanted = given.casefold().strip(), str(wanted).casefold().strip()
        return given == wanted or ("approximate" in kind and given and (given in wanted or wanted in given))
    found = list(numbers(given))
    near = 0.05 * abs(float(wanted)) if "approximate" in kind else 1e-6
    return bool(found) and abs(found[0] - float(wanted)) <= near
