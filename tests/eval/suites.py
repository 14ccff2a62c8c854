"""Questions with known answers: our own 25, our chains of follow-ups, and two public benchmarks in their own form.

A suite is a list of tasks. A task is a list of steps that one session is asked in order (mostly one), with the files
that its directory holds.
"""

import ast
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
    #: What the benchmark's own scoring gives the words, from 0 to 1, where it has one that needs no model.
    score: object = None


@dataclasses.dataclass
class Task:
    files: list
    steps: list
    #: The files keep their folders below this one.
    root: pathlib.Path = None


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
    """KramaBench: workload/DOMAIN.json and data/DOMAIN/input (arXiv 2506.06541). Tasks whose files are not there are left out,
    and so are the workloads that repeat tasks of others (`-tiny`, `_alternative`)."""
    folder = needed(folder, "workload")
    tasks = []
    for workload in sorted((folder / "workload").glob("*.json")):
        if "-" in workload.stem or "_" in workload.stem:
            continue
        lake = folder / "data" / workload.stem / "input"
        for it in json.loads(workload.read_text()):
            files = [path for name in it.get("data_sources", []) for path in sorted(lake.glob(name.removeprefix("./")))]
            if not files or len(files) < len(it.get("data_sources", [])):
                continue
            question = it["query"] + "\nEnd your answer with a line `ANSWER: ` and the answer alone."
            answers = [it["answer"], *it.get("accepted_answers", [])]
            step = Step(it["id"], question, of_answers(answers, it["answer_type"]), score=scored(answers, it["answer_type"]))
            tasks.append(Task(files, [step], lake))
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
    """The numbers in a text; 1,234.5 is one, and so are .5, 7.95e-13, 7.95 \u00d7 10^-13, and -13 with any kind of minus."""
    text = text.replace("\u2212", "-").replace("\u202f", "").replace("\u00a0", " ")
    text = re.sub("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b]+", lambda it: "^" + it[0].translate(SUPERSCRIPTS), text)
    text = re.sub(r"(?<=\d)\s*[x\u00d7\u00b7*]\s*10\s*(?:\^|\*\*)\s*[({]?([-+]?\d+)[)}]?", r"e\1", text)
    for match in re.finditer(r"(?<![\w.])-?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?", text):
        yield float(match.group().replace(",", ""))
    # A range or a date has dashes that are no minus.
    for match in re.finditer(r"(?<=[\d\w])(?<!\d[eE])-(\d+(?:\.\d+)?)", text):
        yield float(match.group(1))


SUPERSCRIPTS = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b", "0123456789-")


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


def of_answers(answers, kind):
    """KramaBench, judged right or wrong by rules of our own: exact kinds exactly (numbers within a millionth of themselves),
    approximate numbers within 5 % (within 1 % in a list), approximate words if one holds the other."""
    def judge(words):
        given = final(words)
        return "" if any(fits(given, answer, kind) for answer in answers) else f"lacks {answers[0]}"
    return judge


def fits(given, answer, kind):
    if kind.startswith("list"):
        parts = listed(given)
        return len(parts) == len(answer) and f1(parts, answer, kind) == 1
    return is_one(given, answer, kind, 0.05)


def scored(answers, kind):
    """The score that KramaBench's own evaluation adds up: 1 or 0 for what is exact, 1 / (1 + relative error) for approximate
    numbers, F1 for lists. Where it asks a model whether words say the same (`string_approximate`, words of a
    `list_approximate`), they do so here if one holds the other."""
    def score(words):
        given = final(words)
        return max(score_of(given, answer, kind) for answer in answers)
    return score


def score_of(given, answer, kind):
    if kind.startswith("list"):
        return f1(listed(given), answer, kind)
    if kind == "numeric_approximate":
        found = figures(given)
        return max((1 / (1 + abs(it - answer) / (abs(answer) or 1e-12)) for it in found), default=0.0)
    return float(is_one(given, answer, kind, 0.0))


def final(words):
    """What stands behind the last `ANSWER:`."""
    found = re.findall(r"ANSWER:\s*(.+)", words)
    return found[-1].strip().strip("`*") if found else ""


def listed(given):
    """The parts of a list, as Python or JSON writes it or with commas between."""
    try:
        value = ast.literal_eval(given)
        if isinstance(value, (list, tuple, set)):
            return [str(it) for it in value]
    except (ValueError, SyntaxError):
        pass
    return [part.strip().strip("'\"") for part in given.strip("[]").split(",") if part.strip()]


def f1(parts, answer, kind):
    hit = lambda part, it: is_one(part, it, kind, 0.01)
    recall = sum(any(hit(part, it) for part in parts) for it in answer) / max(len(answer), 1)
    precision = sum(any(hit(part, it) for it in answer) for part in parts) / max(len(parts), 1)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def is_one(given, wanted, kind, near):
    """Whether a word or a number is what is wanted; `near` is how far an approximate number may be off, as a share."""
    if isinstance(wanted, str) and ("string" in kind or not list(numbers(wanted))):
        given, wanted = given.casefold().strip(), wanted.casefold().strip()
        return given == wanted or ("approximate" in kind and given != "" and (given in wanted or wanted in given))
    wanted = float(next(numbers(str(wanted))))
    share = near if "approximate" in kind else 1e-6
    return any(abs(it - wanted) <= share * max(abs(wanted), 1e-12) for it in figures(given))


def figures(given):
    """The first number of an answer; with a per cent sign also as a share."""
    found = next(numbers(given), None)
    if found is None:
        return []
    return [found, found / 100] if "%" in given else [found]
