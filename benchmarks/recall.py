"""Recall of retrieval: how much of a question's evidence is in a pack of a given size, and what retrieval costs.

    python benchmarks/recall.py [--kinds "technical,German"] [--data FILE] [--conversations 3] [--embeddings]
                                [--no-cost] [--sizes 100,1000,10000,100000]

Conversations of several kinds are generated (`questions.py`); FILE holds your own, as a list of {"sessions":
[{"date_time", "turns": [{"id", "speaker", "text", "role"?}]}], "questions": [{"question", "evidence": [ids],
"category"}], "asked_at"?}. Recall is the mean over questions of the share of evidence turns in the pack. The pack is
filled greedily, and its rendered text is counted in cl100k tokens. Questions without evidence are skipped. For
comparison, the newest turns and plain BM25 are packed in the same way, and with --embeddings (needs the extra) also the
combination of words and vectors. Times are CPU times.
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

from questions import KINDS, conversations

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from ctxwrap.language.vocabulary import STOP  # noqa: E402
from ctxwrap.language.words import terms_of  # noqa: E402
from ctxwrap.retrieval.index import Index  # noqa: E402
from ctxwrap.retrieval.passages import passages  # noqa: E402
from ctxwrap.retrieval.ranking import RankedPassage, Ranking, hits_for  # noqa: E402
from ctxwrap.retrieval.selection import Lines, choose_passages, select_passages  # noqa: E402
from ctxwrap.retrieval.vectors import Embedder, Vectors  # noqa: E402
from ctxwrap.session.search import tried  # noqa: E402

CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open", 5: "adversarial"}
_ID = re.compile(r"D\d+:\d+")


def counter() -> Callable[[str], int]:
    """A counter of cl100k tokens that uses litellm's file, so that nothing is downloaded."""
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

    def __init__(self, data: dict[str, Any], embedder: Embedder | None = None) -> None:
        self.index = Index()
        self.vectors = Vectors(embedder) if embedder else None
        self.pieces: list[list[str]] = []
        self.spent = self.embedding = 0.0
        self.now = seconds(data.get("asked_at") or data["sessions"][-1]["date_time"])
        numbers: dict[str, int] = {}
        for session in data["sessions"]:
            about = {"group": session["date_time"], "time": seconds(session["date_time"])}
            for turn in session["turns"]:
                number, text = len(self.pieces), turn["text"]
                numbers[turn["id"]] = number
                about |= {"role": turn.get("role", "user"), "speaker": turn["speaker"]}
                self.spent += took(self.index.add, number, text, **about)
                if self.vectors:
                    self.embedding += took(self.vectors.add, number, text)
                self.pieces.append(passages(text))
        self.questions = list(self._questions(data["questions"], numbers))

    def text_of(self, number: int, part: int) -> str:
        return self.pieces[number][part]

    def _questions(self, asked: Sequence[dict[str, Any]], numbers: dict[str, int]) -> Iterator[Question]:
        for each in asked:
            named = [id for written in each["evidence"] for id in _ID.findall(written)]
            evidence = frozenset(numbers[id] for id in named if id in numbers)
            if evidence:
                category = CATEGORIES.get(each["category"], str(each["category"]))
                yield Question(each["question"], evidence, category)


def seconds(written: str) -> int:
    """Parse a time such as `1:56 pm on 8 May, 2023`."""
    return int(datetime.strptime(written, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp())


class Plain:
    """A baseline ranking by given scores."""

    def __init__(self, scores: Sequence[float], index: Index) -> None:
        order = sorted(range(len(scores)), key=lambda place: (-scores[place], -place))
        self.hits = [RankedPassage(place, index.numbers[place], index.parts[place], scores[place]) for place in order]

    def reasons(self, hits: Sequence[RankedPassage]) -> list[tuple[str, ...]]:
        return [() for _ in hits]


def newest(conversation: Conversation, _: str, __: int) -> Any:
    index = conversation.index
    return Plain([float(place) for place in range(len(index))], index)


def bm25(conversation: Conversation, text: str, _: int) -> Any:
    index = conversation.index
    scores, average = [0.0] * len(index), index.words / len(index)
    for term in set(terms_of(text)):  # without parts of identifiers, dates and forms
        postings = index.postings(term)
        having = sum(len(places) for _, (places, _) in postings)
        rarity = log(1 + (len(index) - having + 0.5) / (having + 0.5))
        for base, (places, counts) in postings:
            for place, count in zip(places, counts, strict=True):
                norm = 0.9 * (0.6 + 0.4 * index.lengths[base + place] / average)
                scores[base + place] += rarity * 1.9 * count / (count + norm)
    return Plain(scores, index)


def by_words(conversation: Conversation, text: str, budget: int, vectors: Vectors | None = None) -> Any:
    index = conversation.index
    ranking = Ranking(index, text, hits_for(index, budget), vectors, conversation.now)
    ranking.follow(conversation.text_of)
    return ranking


def by_meaning(conversation: Conversation, text: str, budget: int) -> Any:
    return by_words(conversation, text, budget, conversation.vectors)


METHODS: dict[str, Callable[[Conversation, str, int], Any]] = {"newest": newest, "BM25": bm25, "ctxwrap": by_words}


def recalls(
    kind: str, conversations: Sequence[Conversation], budgets: Sequence[int], count: Callable[[str], int]
) -> None:
    categories = sorted({question.category for each in conversations for question in each.questions})
    rows = [[kind, "tokens", "all", *categories]]
    spent: dict[str, list[float]] = defaultdict(list)
    methods = METHODS | ({"+ vectors": by_meaning} if conversations[0].vectors else {})
    for name, method in methods.items():
        shares: dict[tuple[int, str], list[float]] = defaultdict(list)
        for conversation in conversations:
            for question in conversation.questions:
                for budget in budgets:
                    start = time.thread_time()
                    ranking = method(conversation, question.text, budget)
                    spent[name].append((time.thread_time() - start) * 1e3)
                    made = select_passages(conversation.index, ranking, conversation.text_of, budget, count)
                    assert count(made.text) <= budget
                    got = {each.number for each in made.chosen} & question.evidence
                    for column in ("all", question.category):
                        shares[budget, column].append(len(got) / len(question.evidence))
        for budget in budgets:
            cells = [shares[budget, column] for column in ("all", *categories)]
            rows.append([name, str(budget), *(f"{100 * statistics.mean(cell):.1f}" if cell else "–" for cell in cells)])
    table(rows)
    turns = sum(len(conversation.pieces) for conversation in conversations)
    asked = sum(len(conversation.questions) for conversation in conversations)
    costs = [f"{asked} questions about {turns} turns"]
    costs.append(f"indexing {sum(each.spent for each in conversations) / turns * 1e3:.0f} µs per turn")
    if conversations[0].vectors:
        costs.append(f"vectors {sum(each.embedding for each in conversations) / turns * 1e3:.0f} µs per turn")
    costs += [f"{name} {statistics.median(times):.2f} ms per query" for name, times in spent.items()]
    print("; ".join(costs), end="\n\n")


def percentile(values: Sequence[float], share: int) -> float:
    return sorted(values)[len(values) * share // 100]


def table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (f"{cell:{'<' if not at else '>'}{widths[at]}}" for at, cell in enumerate(row))
        print("  ".join([first, *rest]).rstrip())
    print()


class Babble:
    """Generates messages with a natural word distribution: half stop words, few common words, many rare ones."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        syllables = [consonant + vowel for consonant in "bcdfghklmnprstvz" for vowel in "aeiou"]
        words = ["".join(self.random.choices(syllables, k=self.random.randint(2, 4))) for _ in range(30_000)]
        empty = STOP.split()[:150]
        shares = [1 / (rank + 3) for rank in range(len(empty))], [1 / (rank + 20) for rank in range(len(words))]
        weights = [share / sum(each) for each in shares for share in each]
        self.stream = self.random.choices(empty + words, weights, k=1_000_000)

    def text(self, fewest: int, most: int) -> str:
        at = self.random.randrange(len(self.stream) - most)
        return " ".join(self.stream[at : at + self.random.randint(fewest, most)])

    def question(self, about: str) -> str:
        """A query of 5 to 15 words, half of them from one message."""
        size = self.random.randint(5, 15)
        return " ".join(
            [*self.random.choices(about.split(), k=size // 2), self.text(size - size // 2, size - size // 2)]
        )


def costs(sizes: Sequence[int], count: Callable[[str], int]) -> None:
    """Print the cost of adding, ranking and packing 1000 tokens; token counts are cached, as in a session."""
    rows = [
        ["messages", "add, µs", "rank, ms", "p95", "and pack", "p95", "ratio", "saved, MB", "load, ms", "first, ms"]
    ]
    base = 0.0
    for size in sizes:
        babble, index = Babble(), Index()
        texts = [babble.text(4, 50) for _ in range(size)]
        start = time.process_time()
        for number, text in enumerate(texts):
            speaker = ("Ann", "Bob")[number % 2]
            index.add(number, text, speaker=speaker, group=str(number // 25), time=1_700_000_000 + 600 * number)
        adding = (time.process_time() - start) / size
        queries = [babble.question(babble.random.choice(texts)) for _ in range(200)]
        spent = [asked(index, texts, count, query) for _ in range(3) for query in queries][len(queries) :]
        ranking, whole = ([each[at] for each in spent] for at in (0, 1))
        median = statistics.median(whole)
        base = base or median
        saved = list(index.unsaved().values())
        loading = took(Index.from_segments, saved)
        first = took(Ranking, Index.from_segments(saved), queries[0])
        rows.append(
            [
                str(size),
                f"{adding * 1e6:.0f}",
                f"{statistics.median(ranking):.2f}",
                f"{percentile(ranking, 95):.2f}",
                f"{median:.2f}",
                f"{percentile(whole, 95):.2f}",
                f"{median / base:.1f}",
                f"{sum(map(len, saved)) / 1e6:.2f}",
                f"{loading:.1f}",
                f"{first:.1f}",
            ]
        )
    table(rows)


def asked(index: Index, texts: Sequence[str], count: Callable[[str], int], query: str) -> tuple[float, float]:
    """CPU milliseconds of ranking, and of ranking plus packing, as a session does it."""
    start = time.thread_time()
    ranking = Ranking(index, query, hits_for(index, 1000))
    ranking.follow(lambda number, _: texts[number])
    hits = ranking.relevant(tried(1000))
    ranked = time.thread_time()
    choose_passages(Lines(index, lambda number, _: texts[number], count), ranking, hits, 1000)
    return (ranked - start) * 1e3, (time.thread_time() - start) * 1e3


def took(work: Callable[..., object], *arguments: object, **named: Any) -> float:
    """CPU milliseconds."""
    start = time.thread_time()
    work(*arguments, **named)
    return (time.thread_time() - start) * 1e3


def embedding() -> Embedder:
    from ctxwrap.retrieval.wordllama import WordLlama

    return WordLlama()


def numbers(written: str) -> list[int]:
    return [int(each) for each in written.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of generated conversations; empty for none")
    parser.add_argument("--conversations", type=int, default=3, help="generated conversations of each kind")
    parser.add_argument("--data", type=Path, help="your own conversations with questions")
    parser.add_argument("--budgets", type=numbers, default=[500, 1000, 2000, 4000], help="tokens, for --data")
    parser.add_argument("--sizes", type=numbers, default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--embeddings", action="store_true", help="needs the extra `embeddings`")
    parser.add_argument("--no-cost", action="store_true")
    options = parser.parse_args()
    embedder, count = embedding() if options.embeddings else None, counter()
    for kind in filter(None, options.kinds.split(",")):
        made = [Conversation(data, embedder) for data in conversations(kind, options.conversations)]
        recalls(kind, made, KINDS[kind].budgets, count)
    if options.data:
        own = [Conversation(data, embedder) for data in json.loads(options.data.read_text())]
        recalls(options.data.stem, own, options.budgets, count)
    if not options.no_cost:
        costs(options.sizes, count)


if __name__ == "__main__":
    main()
