"""How much of what answers a question is in a pack of so many tokens, and what finding it costs.

    python benchmarks/recall.py [--data FILE] [--budgets 500,1000,2000,4000] [--no-cost] [--sizes 100,1000,10000,100000]

FILE holds conversations as a list of {"sessions": [{"date_time", "turns": [{"id", "speaker", "text"}]}], "questions":
[{"question", "evidence": [ids], "category"}]}. Recall is the mean over questions of the share of evidence turns in the
pack; the pack is filled greedily and counted as it is rendered, in cl100k tokens. Questions without evidence are left
out. The newest turns and plain BM25 are packed the same way in the same run. Times are CPU times.
"""

import argparse
import json
import os
import random
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from math import log
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from ctxwrap.retrieval.index import Index  # noqa: E402
from ctxwrap.retrieval.packing import pack  # noqa: E402
from ctxwrap.retrieval.ranking import Hit, Ranking  # noqa: E402
from ctxwrap.retrieval.words import terms_of  # noqa: E402

CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open", 5: "adversarial"}
_ID = re.compile(r"D\d+:\d+")


def counter() -> Callable[[str], int]:
    """Counts cl100k tokens with the file that litellm brings, so that nothing is downloaded."""
    import tiktoken

    found = find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(found.origin).parent / "litellm_core_utils" / "tokenizers")
    try:
        encoding = tiktoken.get_encoding("cl100k_base")
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
    known: dict[str, int] = {}

    def count(text: str) -> int:
        if text not in known:
            known[text] = len(encoding.encode_ordinary(text))
        return known[text]

    return count


class Question(NamedTuple):
    text: str
    evidence: frozenset[int]
    category: str


class Conversation:
    """One conversation, indexed turn by turn."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.index = Index()
        self.texts: list[str] = []
        self.spent = 0.0
        numbers: dict[str, int] = {}
        for session in data["sessions"]:
            moment = seconds(session["date_time"])
            for turn in session["turns"]:
                numbers[turn["id"]] = len(self.texts)
                start = time.process_time()
                self.index.add(
                    len(self.texts), turn["text"], speaker=turn["speaker"], group=session["date_time"], time=moment
                )
                self.spent += time.process_time() - start
                self.texts.append(turn["text"])
        self.questions = list(self._questions(data["questions"], numbers))

    def _questions(self, asked: Sequence[dict[str, Any]], numbers: dict[str, int]) -> Iterator[Question]:
        for each in asked:
            named = [id for written in each["evidence"] for id in _ID.findall(written)]
            evidence = frozenset(numbers[id] for id in named if id in numbers)
            if evidence:
                category = CATEGORIES.get(each["category"], str(each["category"]))
                yield Question(each["question"], evidence, category)


def seconds(written: str) -> int:
    """The moment of `1:56 pm on 8 May, 2023`."""
    return int(datetime.strptime(written, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp())


class Plain:
    """A ranking by something simpler."""

    def __init__(self, scores: Sequence[float], index: Index) -> None:
        order = sorted(range(len(scores)), key=lambda place: (-scores[place], -place))
        self.hits = [Hit(place, index.numbers[place], index.parts[place], scores[place]) for place in order]

    def reasons(self, hit: Hit) -> tuple[str, ...]:
        return ()


def newest(index: Index, _: str) -> Any:
    return Plain([float(place) for place in range(len(index))], index)


def bm25(index: Index, text: str) -> Any:
    scores, average = [0.0] * len(index), index.words / len(index)
    for term in set(terms_of(text)):
        postings = index.postings(term)
        having = sum(len(places) for _, (places, _) in postings)
        rarity = log(1 + (len(index) - having + 0.5) / (having + 0.5))
        for base, (places, counts) in postings:
            for place, count in zip(places, counts, strict=True):
                norm = 0.9 * (0.6 + 0.4 * index.lengths[base + place] / average)
                scores[base + place] += rarity * 1.9 * count / (count + norm)
    return Plain(scores, index)


METHODS: dict[str, Callable[[Index, str], Any]] = {"newest": newest, "BM25": bm25, "ctxwrap": Ranking}


def recalls(conversations: Sequence[Conversation], budgets: Sequence[int]) -> None:
    count = counter()
    rows = [["", "tokens", "all", *CATEGORIES.values()]]
    spent: dict[str, list[float]] = defaultdict(list)
    packing: list[float] = []
    for name, method in METHODS.items():
        shares: dict[tuple[int, str], list[float]] = defaultdict(list)
        for conversation in conversations:
            for question in conversation.questions:
                start = time.process_time()
                ranking = method(conversation.index, question.text)
                spent[name].append(time.process_time() - start)
                for budget in budgets:
                    start = time.process_time()
                    made = pack(conversation.index, ranking, lambda n, _, c=conversation: c.texts[n], budget, count)
                    packing.append(time.process_time() - start)
                    assert count(made.text) <= budget
                    got = {each.number for each in made.chosen} & question.evidence
                    for column in ("all", question.category):
                        shares[budget, column].append(len(got) / len(question.evidence))
        for budget in budgets:
            cells = [shares[budget, column] for column in ("all", *CATEGORIES.values())]
            rows.append([name, str(budget), *(f"{100 * statistics.mean(cell):.1f}" if cell else "–" for cell in cells)])
    table(rows)
    turns = sum(len(conversation.texts) for conversation in conversations)
    adding = sum(conversation.spent for conversation in conversations) / turns
    asked = sum(len(conversation.questions) for conversation in conversations)
    print(f"{asked} questions about {turns} turns; indexing {adding * 1e6:.0f} µs a turn")
    for name, times in spent.items():
        print(f"{name}: {statistics.median(times) * 1e3:.2f} ms a query, p95 {percentile(times, 95) * 1e3:.2f} ms")
    print(f"packing, all methods and budgets: {statistics.median(packing) * 1e3:.2f} ms\n")


def percentile(values: Sequence[float], share: int) -> float:
    return sorted(values)[len(values) * share // 100]


def table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (f"{cell:{'<' if not at else '>'}{widths[at]}}" for at, cell in enumerate(row))
        print("  ".join([first, *rest]).rstrip())
    print()


class Babble:
    """Messages of made-up words, a few of them common and most of them rare, as words are."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        syllables = [consonant + vowel for consonant in "bcdfghklmnprstvz" for vowel in "aeiou"]
        words = ["".join(self.random.choices(syllables, k=self.random.randint(2, 4))) for _ in range(20_000)]
        self.stream = self.random.choices(words, [1 / (rank + 8) for rank in range(len(words))], k=400_000)

    def text(self, fewest: int, most: int) -> str:
        at = self.random.randrange(len(self.stream) - most)
        return " ".join(self.stream[at : at + self.random.randint(fewest, most)])


def costs(sizes: Sequence[int]) -> None:
    """Messages of made-up words, questions of 3 to 8 of them."""
    rows = [["messages", "add, µs", "query, ms", "p95", "ratio", "saved, MB", "load, ms", "first query, ms"]]
    base = 0.0
    for size in sizes:
        babble, index = Babble(), Index()
        texts = [babble.text(4, 40) for _ in range(size)]
        start = time.process_time()
        for number, text in enumerate(texts):
            speaker = ("Ann", "Bob")[number % 2]
            index.add(number, text, speaker=speaker, group=str(number // 25), time=1_700_000_000 + 600 * number)
        adding = (time.process_time() - start) / size
        queries = [babble.text(3, 8) for _ in range(100)]
        Ranking(index, queries[0])
        spent = [took(Ranking, index, text) for text in queries]
        median = statistics.median(spent)
        base = base or median
        saved = list(index.unsaved().values())
        loading = took(Index.from_segments, saved)
        first = took(Ranking, Index.from_segments(saved), queries[0])
        rows.append(
            [
                str(size),
                f"{adding * 1e6:.0f}",
                f"{median:.2f}",
                f"{percentile(spent, 95):.2f}",
                f"{median / base:.1f}",
                f"{sum(map(len, saved)) / 1e6:.2f}",
                f"{loading:.1f}",
                f"{first:.1f}",
            ]
        )
    table(rows)


def took(work: Callable[..., object], *arguments: object) -> float:
    """Milliseconds of CPU."""
    start = time.process_time()
    work(*arguments)
    return (time.process_time() - start) * 1e3


def numbers(written: str) -> list[int]:
    return [int(each) for each in written.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="conversations with questions; without it only costs are measured")
    parser.add_argument("--budgets", type=numbers, default=[500, 1000, 2000, 4000])
    parser.add_argument("--sizes", type=numbers, default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--no-cost", action="store_true")
    options = parser.parse_args()
    if options.data:
        recalls([Conversation(data) for data in json.loads(options.data.read_text())], options.budgets)
    if not options.no_cost:
        costs(options.sizes)


if __name__ == "__main__":
    main()
