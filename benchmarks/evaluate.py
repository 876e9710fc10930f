"""Evaluation on LoCoMo, LongMemEval and BEAM files of yours, without a model or with one of yours.

    python benchmarks/evaluate.py FILE ... --out FOLDER [--limit 100]
    python benchmarks/evaluate.py FILE ... --out FOLDER --model gpt-4o-mini [--judge gpt-4o] [--limit 100]

Without a model: the share of a question's evidence in the request, and the request's tokens, through a wrapped client
and a scripted provider. With a model: also its answers, judged by another model or by rules, what they cost, the share
of tokens read from the provider's cache, and the time. Results are appended to FOLDER/results.jsonl as they come; the
same command goes on where the last one ended. FOLDER/summary.json has what is needed to compare two runs.
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
from conversations import Conversation, Data, DataError, Question, read
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from ways import Call, Model, Way, named

from ctxwrap.retrieval.passages import passages
from ctxwrap.testing import Answer, ScriptedProvider

WAYS = "ctxwrap:2000,ctxwrap,last:20,everything"
TOKENIZER = "gpt-4o"
"""The model by whose rule tokens are counted if none is given."""
_SHORTEST = 24
"""Letters; a shorter part of a message may be in a request by accident."""
_REFUSED = (400, 413, 422)
Record = dict[str, Any]


def letters(text: str) -> str:
    """Letters and digits only: passages are sent as JSON."""
    return re.sub(r"\\[nrt]|\W+", "", text)


def evidence_in(body: Record, question: Question, conversation: Conversation) -> Record:
    """The shares of the question's evidence messages that are in a request: a passage of them, and as a whole."""
    sent = letters("\n".join(_texts(body)))
    texts = [conversation.said[at].text for at in question.evidence]
    found = [any(part in sent for part in _parts(text)) for text in texts]
    whole = [letters(text) in sent for text in texts]
    return {"found": statistics.mean(found), "whole": statistics.mean(whole)}


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, (dict, list)):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _texts(each)


def _parts(text: str) -> Iterable[str]:
    parts = [letters(part) for part in passages(text)]
    return [part for part in parts if len(part) >= _SHORTEST] or [letters(text)]


_UNKNOWN = re.compile(
    r"\b(?:\w+n't|cannot|not|never|no) (?:\w+ )?"
    r"(?:know|known|information|mention\w*|say|said|told|discuss\w*|record|find|answer\w*|specified|available)\b"
)
_EMPTY = frozenset(["a", "an", "the", "of", "to", "in", "on", "at", "and", "is", "was", "were", "are", "be", "it"])
_BEFORE_POINT = re.compile(r"^LLM response should [a-z ]+: ")


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in _EMPTY]


def judged_by_rules(question: Question, reply: str) -> bool:
    """Whether a reply holds the expected answer, or half of the points to make; or that there is no answer."""
    if not question.answerable:
        return bool(_UNKNOWN.search(reply.lower().replace("’", "'")))
    given, points = words(reply), [words(_BEFORE_POINT.sub("", each)) for each in question.expected]
    met = [_holds(given, point, is_whole=len(points) == 1) for point in points]
    return bool(met) and sum(met) * 2 >= len(met)


def _holds(given: Sequence[str], expected: Sequence[str], *, is_whole: bool) -> bool:
    """Whether the words are there in their order; else an answer needs an F1 of 1/2, a point 2/3 of its words."""
    if f" {' '.join(expected)} " in f" {' '.join(given)} ":
        return True
    shared = (Counter(expected) & Counter(given)).total()
    return 4 * shared >= len(expected) + len(given) if is_whole else 3 * shared >= 2 * len(expected)


_JUDGE = """A model was asked about a long conversation. Judge its reply; answer with one word, yes or no.

Question: {question}
{right}
Reply: {reply}"""
_RIGHT = """Does the reply say the following, or meet what it describes? It may say more, and in other words. A number \
of days, weeks or months may be off by one. A part of it is not enough.
"""
_UNANSWERABLE = "The conversation does not tell. Does the reply say that this was not said, or is not known?"


def judged_by_model(judge: Model, question: Question, reply: str) -> bool:
    right = _RIGHT + "\n".join(f"- {each}" for each in question.expected) if question.answerable else _UNANSWERABLE
    prompt = _JUDGE.format(question=question.text, right=right, reply=reply)
    return words(judge.answer("You judge answers.", [{"role": "user", "content": prompt}]))[:1] == ["yes"]


class Task(NamedTuple):
    data: Data
    conversation: Conversation
    questions: list[Question]


def chosen(files: Sequence[Data], limit: int | None, seed: int, *, with_evidence: bool) -> list[Task]:
    """Up to `limit` questions by chance, with their conversations; a higher limit adds to those of a lower one."""
    every = [
        (data, talk, question)
        for data in files
        for talk in data.conversations
        for question in talk.questions
        if question.evidence or not with_evidence
    ]
    order = list(range(len(every)))
    random.Random(seed).shuffle(order)
    groups = groupby((every[at] for at in sorted(order[:limit])), key=lambda each: id(each[1]))
    taken = [list(group) for _, group in groups]
    return [Task(group[0][0], group[0][1], [question for _, _, question in group]) for group in taken]


class Results:
    """The records of a folder, appended as they come; those of an earlier run are kept, if it had the same settings."""

    def __init__(self, folder: Path, settings: Record) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, known = folder / "results.jsonl", folder / "settings.json"
        earlier = json.loads(known.read_text()) if known.exists() else settings
        if other := [name for name in settings if settings[name] != earlier.get(name)]:
            was = ", ".join(f"{name} {earlier.get(name)!r}" for name in other)
            raise SystemExit(f"{folder} has results of other settings ({was}): choose another folder with --out")
        known.write_text(json.dumps(settings, indent=1))
        raw = self._path.read_bytes() if self._path.exists() else b""
        whole = raw[: raw.rfind(b"\n") + 1]  # a run that was killed may leave half a line
        self._path.write_bytes(whole)
        self.records: list[Record] = [json.loads(line) for line in whole.splitlines()]
        self._known = {self._key(each) for each in self.records}

    def has(self, record: Record) -> bool:
        return self._key(record) in self._known

    def add(self, record: Record) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.records.append(record)
        self._known.add(self._key(record))

    @staticmethod
    def _key(record: Record) -> tuple[str, ...]:
        return tuple(str(record[name]) for name in ("data", "conversation", "way", "question"))


def spent(calls: Sequence[Call]) -> Record:
    """Tokens and cost of some calls; the cost is None if one is unknown."""
    costs = [call.cost for call in calls]
    names = {"in": "tokens_in", "cached": "cached", "out": "tokens_out"}
    tokens = {name: sum(getattr(call.usage, field) or 0 for call in calls) for name, field in names.items()}
    return {"usage": tokens, "cost": None if None in costs else sum(cost for cost in costs if cost is not None)}


class Run:
    def __init__(self, results: Results, model: Model, judge: Model | None, folder: Path, *, answers: bool) -> None:
        self._results, self._model, self._folder, self._answers = results, model, folder, answers
        self._is_right = partial(judged_by_model, judge) if judge else judged_by_rules

    def ask_all(self, tasks: Sequence[Task], ways: Sequence[str]) -> None:
        columns = TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task("", total=len(ways) * sum(len(task.questions) for task in tasks))
            for task, spec in product(tasks, ways):
                progress.update(bar, description=f"{task.data.format} {task.conversation.id}, {spec}")
                for _ in self.ask(task, spec):
                    progress.advance(bar)

    def ask(self, task: Task, spec: str) -> Iterator[None]:
        """Ask the questions that have no result yet; yield for each question."""
        head = {"data": task.data.sha256[:16], "conversation": task.conversation.id, "way": spec}
        asked = [(each, {**head, "question": each.id, "category": each.category}) for each in task.questions]
        left = [(question, record) for question, record in asked if not self._results.has(record)]
        yield from [None] * (len(asked) - len(left))
        if not left:
            return
        number = task.conversation.id.partition(" ")[0]
        place = self._folder / "work" / f"{head['data']}-{number}-{spec.replace(':', '-')}"
        with closing(named(spec)(self._model, task.conversation, place)) as way:
            if calls := self._model.taken():
                self._results.add({**head, "question": None, **spent(calls)})
            for question, record in left:
                self._results.add(record | self._result(way, question, task.conversation))
                yield

    def _result(self, way: Way, question: Question, talk: Conversation) -> Record:
        ask = way.question(question)
        start, error, reply = time.perf_counter(), None, ""
        try:
            reply = ask()
        except Exception as problem:
            if getattr(problem, "status_code", 0) not in _REFUSED:  # such as a request that is too long
                raise
            error = f"{type(problem).__name__}: {problem}"[:300]
        seconds = round(time.perf_counter() - start, 3)
        calls = self._model.taken()
        body = next((call.body for call in calls if "messages" in call.body), None)
        result: Record = {"tokens": self._model.tokens(body) if body else None}
        if body and question.evidence and way.shows_messages:
            result |= evidence_in(body, question, talk)
        if self._answers:
            is_right = error is None and self._is_right(question, reply)
            result |= {"reply": reply, "correct": is_right, "error": error, "seconds": seconds, **spent(calls)}
        return result


def mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known else None


def summary(records: Sequence[Record]) -> Record:
    """What the records of one way say together."""
    asked = [each for each in records if each["question"] is not None]
    told: Record = {
        "questions": len(asked),
        **{name: mean(each.get(name) for each in asked) for name in ("found", "whole", "tokens")},
    }
    if not any("correct" in each for each in asked):
        return told
    costs = [each["cost"] for each in records]
    cost = None if None in costs else sum(costs)
    correct, taken = sum(each["correct"] for each in asked), sum(each["usage"]["in"] for each in asked)
    seconds = sorted(each["seconds"] for each in asked)
    return told | {
        "correct": correct,
        "accuracy": correct / len(asked),
        "errors": sum(each["error"] is not None for each in asked),
        "cost": cost,
        "preparation_cost": sum(each["cost"] or 0 for each in records if each["question"] is None),
        "cost_per_correct": cost / correct if cost is not None and correct else None,
        "cached": sum(each["usage"]["cached"] for each in asked) / taken if taken else None,
        "tokens_out": mean(each["usage"]["out"] for each in asked),
        "seconds_median": statistics.median(seconds),
        "seconds_p95": seconds[len(seconds) * 95 // 100],
    }


def report(records: Sequence[Record]) -> Record:
    """Summaries by way, in all and by category."""
    by_way: dict[str, list[Record]] = defaultdict(list)
    for each in records:
        by_way[each["way"]].append(each)
    told = {}
    for way, of_way in by_way.items():
        categories = sorted({each["category"] for each in of_way if each["question"] is not None})
        parts = {name: summary([each for each in of_way if each.get("category") == name]) for name in categories}
        told[way] = {**summary(of_way), "categories": parts}
    return told


_PERCENT, _COUNT, _MONEY, _SECONDS = "{:.1%}", "{:,.0f}", "${:.6f}", "{:.2f}"
_COLUMNS = {
    "questions": _COUNT, "found": _PERCENT, "whole": _PERCENT, "tokens": _COUNT, "accuracy": _PERCENT,
    "cost_per_correct": _MONEY, "cached": _PERCENT, "tokens_out": _COUNT, "seconds_median": _SECONDS, "errors": _COUNT,
}  # fmt: skip


def show(told: Record) -> None:
    """Print the summaries as tables."""
    columns = [name for name in _COLUMNS if any(each.get(name) is not None for each in told.values())]
    rows = [[way, *(_cell(each.get(name), _COLUMNS[name]) for name in columns)] for way, each in told.items()]
    _table(["sent", *(name.replace("_", " ") for name in columns)], rows)
    what = "accuracy" if "accuracy" in columns else "found"
    categories = sorted({name for each in told.values() for name in each["categories"]})
    of_way = {way: [each["categories"].get(name, {}) for name in categories] for way, each in told.items()}
    counts = [max(parts[at].get("questions", 0) for parts in of_way.values()) for at in range(len(categories))]
    heads = [f"{name} ({count})" for name, count in zip(categories, counts, strict=True)]
    rows = [[way, *(_cell(part.get(what), _PERCENT) for part in parts)] for way, parts in of_way.items()]
    _table([what, *heads], rows)


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for package in ("ctxwrap", "openai", "anthropic", "litellm", "mem0ai"):
        with suppress(PackageNotFoundError):
            yield package, version(package)


def options_in(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="files of LoCoMo, LongMemEval or BEAM, or folders of BEAM")
    parser.add_argument("--out", type=Path, required=True, help="the folder for results")
    parser.add_argument("--ways", default=WAYS, help=f"what to compare; also mem0, if it is installed ({WAYS})")
    parser.add_argument("--limit", type=int, help="questions, chosen by chance")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    for name, prefix, what in (("model", "", "answers"), ("judge", "judge-", "judges; without it, rules do")):
        parser.add_argument(f"--{name}", help=f"the model that {what}")
        parser.add_argument(f"--{prefix}api", choices=("openai", "anthropic"), help="by default from the model's name")
        parser.add_argument(f"--{prefix}base-url", help="a server of yours; it gets no key unless one is named")
        parser.add_argument(f"--{prefix}key-env", help="the variable that holds the key")
    parser.add_argument("--embedder", default="text-embedding-3-small", help="the embedding model of mem0")
    options = parser.parse_args(arguments)
    options.ways = options.ways.split(",")
    for name, prefix in (("model", ""), ("judge", "judge_")):
        given = vars(options)
        is_claude = "claude" in (given[name] or "") and not given[f"{prefix}base_url"]
        given[f"{prefix}api"] = given[f"{prefix}api"] or ("anthropic" if is_claude else "openai")
    try:
        for spec in options.ways:
            named(spec)
    except ValueError as error:
        parser.error(str(error))
    if "mem0" in options.ways and (options.model is None or options.api == "anthropic"):
        parser.error("mem0 needs a model with OpenAI's API, which also embeds")
    return options


_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


def model_in(options: argparse.Namespace, name: str = "model", prefix: str = "") -> Model | None:
    given = vars(options)
    if given[name] is None:
        return None
    api, base_url = given[f"{prefix}api"], given[f"{prefix}base_url"]
    variable = given[f"{prefix}key_env"] or ("" if base_url else _KEYS[api])
    if variable and variable not in os.environ:
        raise SystemExit(f"the environment has no variable {variable}, which should hold the key for {given[name]}")
    return Model(given[name], api, base_url, os.environ[variable] if variable else "none", options.embedder)


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_in(arguments)
    try:
        files = [read(path) for path in options.files]
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    tasks = chosen(files, options.limit, options.seed, with_evidence=options.model is None)
    fixed = ("model", "api", "judge", "judge_api", "embedder", "seed")
    settings = {"data": [each.about() for each in files], "ctxwrap": version("ctxwrap")}
    settings |= {name: vars(options)[name] for name in fixed}
    model, judge = model_in(options), model_in(options, "judge", "judge_")
    results, code = Results(options.out, settings), 0
    with ExitStack() as stack:
        if model is None:
            provider = stack.enter_context(ScriptedProvider(lambda _: Answer("I see.")))
            model = Model(TOKENIZER, "openai", provider.openai_url, "none")
        run = Run(results, model, judge, options.out, answers=options.model is not None)
        try:
            run.ask_all(tasks, options.ways)
        except (KeyboardInterrupt, openai.APIError, anthropic.APIError) as problem:
            code = 130 if isinstance(problem, KeyboardInterrupt) else 1
            print(f"stopped by {problem!r}; what is done is kept, and the same command goes on", file=sys.stderr)
    told = report(results.records)
    settings |= {"limit": options.limit, "base_url": options.base_url}
    about = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "versions": dict(versions())}
    whole = {**about, "complete": code == 0, "settings": settings, "ways": told}
    (options.out / "summary.json").write_text(json.dumps(whole, indent=1))
    show(told)
    return code


if __name__ == "__main__":
    sys.exit(main())
