"""Cost of the memory service with many entries, and relevance of its search.

    python benchmarks/service.py [--part cost] [--part relevance] [--sizes 1000,100000]

cost: milliseconds to add an entry and to search, median and 95th percentile, wall and CPU time, for memories of several
sizes, alternating between them; and the ratio to the first size. Entries have 10 to 60 generated words and a summary of
ten; a query has 5 to 15 words, half of them from one entry. Each search is followed by an add, so that the next one has
a new entry to index. Nothing waits for the disk.

relevance: sixty sentences on two topics with 36 questions. Recall is the mean share of answering sentences among the
first five hits; MRR is the mean reciprocal rank of the first one. Plain BM25 is run for comparison.
"""

import argparse
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import log

from recall import Babble, percentile, table
from two_topics import QUESTIONS, SENTENCES

from ctxwrap.service.memories import Memories

TIMES = 200
FIRST = 5


class Spent:
    """Durations of repeated work, in milliseconds."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.cpu: list[float] = []

    def on(self, work: Callable[[], object]) -> None:
        clock, cpu = time.perf_counter(), time.process_time()
        work()
        self.cpu.append((time.process_time() - cpu) * 1e3)
        self.clock.append((time.perf_counter() - clock) * 1e3)


class Subject:
    """A memory of `size` entries."""

    def __init__(self, memories: Memories, size: int, babble: Babble) -> None:
        self.size, self._memories, self._babble = size, memories, babble
        self._id = memories.create_memory(f"{size} entries").memoryId
        self._some: list[str] = []
        self.adding, self.searching = Spent(), Spent()
        for number in range(size):
            text = self.add()
            if number % 100 == 0:
                self._some.append(text)
            if number % 500 == 499:  # keeps the index close to the log
                self.search()

    def add(self) -> str:
        text = self._babble.text(10, 60)
        self._memories.add_entry(self._id, text, summary=" ".join(text.split()[:10]))
        return text

    def search(self) -> None:
        self._memories.search_memories(self._id, self._babble.question(self._babble.random.choice(self._some)))

    def measure(self) -> None:
        self.searching.on(self.search)
        self.adding.on(self.add)


def cost(sizes: Sequence[int]) -> None:
    babble = Babble()
    with tempfile.TemporaryDirectory() as home:
        memories = Memories(home, tenant="bench")
        subjects = [Subject(memories, size, babble) for size in sizes]
        for _ in range(TIMES):
            for subject in subjects:
                subject.measure()
    rows = [["", "entries", "wall, ms", "p95", "CPU, ms", "p95", "ratio of CPU"]]
    for name in ("adding", "searching"):
        first = statistics.median(getattr(subjects[0], name).cpu)
        rows += [row(name, subject.size, getattr(subject, name), first) for subject in subjects]
    table(rows)


def row(name: str, size: int, spent: Spent, first: float) -> list[str]:
    told = [
        f"{value:.2f}"
        for times in (spent.clock, spent.cpu)
        for value in (statistics.median(times), percentile(times, 95))
    ]
    return [name, str(size), *told, f"{statistics.median(spent.cpu) / first:.2f}"]


class BM25:
    """Textbook BM25: unstemmed words, k1 = 1.2, b = 0.75."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(re.findall(r"\w+", text.lower())) for text in texts]
        self._having = Counter(word for counts in self._counts for word in counts)
        self._average = sum(map(Counter.total, self._counts)) / len(texts)

    def found(self, query: str) -> list[int]:
        words = set(re.findall(r"\w+", query.lower()))
        scores = [sum(self._score(word, counts) for word in words) for counts in self._counts]
        return sorted((at for at, score in enumerate(scores) if score), key=lambda at: -scores[at])

    def _score(self, word: str, counts: Counter[str]) -> float:
        rarity = log(1 + (len(self._counts) - self._having[word] + 0.5) / (self._having[word] + 0.5))
        norm = 1.2 * (0.25 + 0.75 * counts.total() / self._average)
        return rarity * counts[word] * 2.2 / (counts[word] + norm)


def relevance() -> None:
    with tempfile.TemporaryDirectory() as home:
        memories = Memories(home, tenant="bench")
        id = memories.create_memory("Two topics").memoryId
        places = {memories.add_entry(id, text).id: at for at, text in enumerate(SENTENCES)}

        def by_service(query: str) -> list[int]:
            return [places[hit.entry.entryId] for hit in memories.search_memories(id, query, top_k=20).entries]

        rows = [["search", f"recall@{FIRST}", "MRR"]]
        rows += [[name, *scores(found)] for name, found in (("ctxwrap", by_service), ("BM25", BM25(SENTENCES).found))]
    table(rows)


def scores(found: Callable[[str], list[int]]) -> tuple[str, str]:
    recalls, ranks = [], []
    for question, beginnings in QUESTIONS:
        answers = {at for at, text in enumerate(SENTENCES) if text.startswith(tuple(beginnings))}
        assert len(answers) == len(beginnings), question
        hits = found(question)
        recalls.append(len(answers & set(hits[:FIRST])) / len(answers))
        ranks.append(next((1 / place for place, at in enumerate(hits, 1) if at in answers), 0.0))
    return f"{statistics.mean(recalls):.3f}", f"{statistics.mean(ranks):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=["cost", "relevance"])
    parser.add_argument("--sizes", default="1000,100000")
    options = parser.parse_args()
    parts = options.part or ["relevance", "cost"]
    if "relevance" in parts:
        relevance()
    if "cost" in parts:
        cost([int(size) for size in options.sizes.split(",")])


if __name__ == "__main__":
    main()
