"""Cost of memory: decay and turns with 10 000 items against 400, and delta trailers against full ones.

    python benchmarks/memory.py [--rounds 200] [--turns 20] [--only time|tokens]

time: CPU milliseconds, alternating between the sizes. Capacities are raised so that every item stays in memory, and
items that fall to swap are put back between rounds. `each item` is the cost of a round that visits every item. A turn
is shown all items, changes one, drops one and adds two; `said 100 kB` is a turn with a user message of that size.

tokens: the same scripted chat with the practice model, once with full snapshots and once with delta. Counted are the
tokens of the trailer.
"""

import argparse
import importlib.util
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import openai

import ctxwrap
from ctxwrap.memory.decay import advance, demotion_point
from ctxwrap.memory.items import TIERS, MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.operations import Circumstances, compare
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.session.session import Session
from ctxwrap.settings import MemoryRules, PerTier
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask, PracticeModel, Provider
from ctxwrap.tokens.measure import estimate_tokens
from ctxwrap.types import Operation, SessionKey

SIZES = (400, 10_000)
START = 100
RULES = MemoryRules(capacity=PerTier(*[2 * SIZES[-1]] * 3))
SETTINGS = ("full", "delta")
PARTS = 4
_WORDS = """
amber anchor apple autumn basket bridge candle carpet cellar cherry copper corner cotton dinner engine feather garden
granite hammer harbour hollow island jacket kettle ladder lantern letter marble meadow mirror morning needle orchard
paper pepper pillow pocket river saddle season shadow silver spring stable summer ticket timber tunnel velvet village
violin walnut water willow window winter yellow
"""
WORDS = _WORDS.split()


def content(draw: random.Random) -> str:
    """A sentence of the usual length of a memory item."""
    return f"The user's {' '.join(draw.choices(WORDS, k=draw.randint(3, 9)))} is {draw.choice(WORDS)}."


def some_item(number: int, draw: random.Random) -> MemoryItem:
    """An item that is in memory in round START, of any tier, age and number of touches."""
    while True:
        last = draw.randint(0, START)
        fields = {
            "id": f"fact-{number}",
            "type": "fact",
            "content": content(draw),
            "tags": ("fact", draw.choice(WORDS)),
            "tier": draw.choice(TIERS),
            "decay": draw.random() * 0.7,
            "anchor": last,
            "first": draw.randint(0, last),
            "last": last,
            "touches": 1 + draw.random() ** 3 * 20,
        }
        item = MemoryItem.from_json(fields)
        if (demotion_point(item, RULES) or 0) > START:
            return item


class Subject:
    """A memory of `size` items."""

    def __init__(self, size: int) -> None:
        self.draw = random.Random(size)
        self.memory = Memory(RULES)
        items = [some_item(number, self.draw) for number in range(size)]
        self.memory.apply([Operation("add", item.id, item.tier, item.as_json()) for item in items], START)
        assert len(self.memory.items) == size
        self.moves = 0

    def age(self) -> None:
        self.moves += len(self.memory.advance(self.memory.round + 1))

    def put_back(self) -> None:
        """Bring items in swap back, with low decay."""
        memory, now = self.memory, self.memory.round
        fresh = [
            item._replace(tier=self.draw.choice(TIERS), decay=self.draw.random() / 2, anchor=now, last=now)
            for item in memory.swap.values()
        ]
        memory.apply([Operation("update", item.id, item.tier, item.as_json()) for item in fresh], now)

    def age_each(self) -> None:
        for item in self.memory.items.values():
            advance(item, self.memory.round + 1, RULES)

    def shown(self) -> dict[str, Any]:
        return self.memory.at(self.memory.round + 1)[0]


class Turn:
    """A turn in which a model was shown the whole memory and returned it with changes."""

    def __init__(self, subject: Subject) -> None:
        self.memory, draw = subject.memory, subject.draw
        self.round = self.memory.round + 1
        self.shown = subject.shown()
        tiers = {tier: list(items) for tier, items in self.shown["memory"].items()}
        tiers["core"][-1] = {**tiers["core"][-1], "content": content(draw), "round": self.round}
        del tiers["working"][-1]
        tiers["core"] += [_new(f"new-{self.round}-{at}", content(draw), self.round) for at in range(2)]
        self.returned = {**self.shown, "memory": tiers}
        self.memory.advance(self.round)
        self.operations: tuple[Operation, ...] = ()

    def compare(self, said: str = "Where did I put the velvet jacket?") -> None:
        self.operations = compare(self.shown, self.returned, self.memory, Circumstances(self.round, said=said))

    def compare_long(self) -> None:
        self.compare(LONG)

    def apply(self) -> None:
        self.memory.apply(self.operations, self.round)


LONG = " ".join(random.Random(1).choices(WORDS, k=100_000 // 7))


def _new(id: str, content: str, round: int) -> dict[str, Any]:
    return {"id": id, "type": "fact", "decay": 0.3, "round": round, "tags": ["fact"], "content": content}


def cpu_of(work: Callable[[], object]) -> float:
    """CPU milliseconds."""
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


def percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def row(name: str, values: Sequence[float]) -> None:
    print(f"{name:34} {values[0]:9.3f} {values[1]:9.3f} {values[1] / values[0]:7.1f}", flush=True)


def print_times(rounds: int, turns: int) -> None:
    subjects = [Subject(size) for size in SIZES]
    print(f"{'CPU, ms':34} {SIZES[0]:>9} {SIZES[1]:>9} {'ratio':>7}")
    aged: list[list[float]] = [[] for _ in subjects]
    for _ in range(rounds):
        for subject, times in zip(subjects, aged, strict=True):
            times.append(cpu_of(subject.age))
            subject.put_back()
    row("evolution per round, mean", [statistics.mean(times) for times in aged])
    row("  p50", [statistics.median(times) for times in aged])
    row("  p99", [percentile(times, 99) for times in aged])
    row("  moves per round", [subject.moves / rounds for subject in subjects])
    each = [statistics.median(cpu_of(subject.age_each) for _ in range(5)) for subject in subjects]
    row("  each item", each)
    row("  each item / evolution", [one / statistics.mean(times) for one, times in zip(each, aged, strict=True)])
    row("shown (at), p50", [statistics.median(cpu_of(subject.shown) for _ in range(turns)) for subject in subjects])
    for name, spent in turn_times(subjects, turns).items():
        row(f"{name}, p50", [statistics.median(values) for values in spent])


def turn_times(subjects: Sequence[Subject], turns: int) -> dict[str, list[list[float]]]:
    """CPU time of the parts of a turn, by part and subject."""
    parts = {"said 100 kB, compared": Turn.compare_long, "turn compared": Turn.compare, "turn applied": Turn.apply}
    times: dict[str, list[list[float]]] = {name: [[] for _ in subjects] for name in parts}
    for _ in range(turns):
        for at, subject in enumerate(subjects):
            turn = Turn(subject)
            for name, part in parts.items():
                times[name][at].append(cpu_of(lambda part=part, turn=turn: part(turn)))  # type: ignore[misc]
    return times


def chat(rounds: int) -> Iterator[str]:
    """A long chat with occasional facts, changes, tasks and hints; otherwise questions."""
    draw, known = random.Random(3), list[str]()
    for number in range(rounds):
        match number % 10:
            case 0 | 4:
                known.append(" ".join(draw.sample(WORDS, 2)))
                yield f"My {known[-1]} is {draw.choice(WORDS)} {draw.choice(WORDS)}."
            case 2 if number % 20 == 2:
                yield f"I need to {draw.choice(WORDS)} the {draw.choice(WORDS)} by {number}."
            case 2:
                yield "I finished it."
            case 6 if number % 30 == 6:
                yield f"I like {draw.choice(WORDS)} {draw.choice(WORDS)}."
            case 7:
                yield f"My {draw.choice(known)} is {draw.choice(WORDS)} {number}."
            case 8 if number % 50 == 8:
                yield f"For now: use the {draw.choice(WORDS)}."
            case 9 if number % 70 == 69:
                yield f"Forget my {draw.choice(known)}."
            case _:
                yield f"What is my {draw.choice(known)}?"


class Listening:
    """The practice model, recording its trailers."""

    def __init__(self) -> None:
        self._model = PracticeModel()
        self.trailers: list[str] = []

    def __call__(self, ask: Ask) -> Answer:
        answer = self._model(ask)
        _, mark, trailer = answer.text.partition(SEPARATOR)
        self.trailers.append(mark + trailer)
        return answer


def trailers_of(said: Sequence[str], snapshot: str, home: str) -> tuple[list[str], Memory]:
    """The trailers of a chat, and the memory at its end."""
    model = Listening()
    with Provider(model, record=False) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url)
        client = ctxwrap.wrap(bare, store=home, snapshot=snapshot, history="caller", max_reasks=0)
        for text in said:
            messages: Any = [{"role": "user", "content": text}]
            with ctxwrap.using(session=snapshot):
                reply = client.chat.completions.create(model="practice", messages=messages)
            turn = ctxwrap.turn_of(reply)
            assert turn is not None
            assert turn.report.reading == "clean", turn.report
    return model.trailers, memory_in(home, snapshot)


def memory_in(home: str, session: str) -> Memory:
    key = SessionKey("default", "default", session)
    opened = Session(key, FileStore(home).open(key))
    opened.refresh()
    return opened.memory


def counting() -> tuple[str, Callable[[str], int]]:
    """An offline token counter and its name; litellm ships the tables that tiktoken would download."""
    litellm = importlib.util.find_spec("litellm")
    if litellm is not None and litellm.origin is not None:
        tables = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(tables))
    try:
        import tiktoken

        encode = tiktoken.get_encoding("o200k_base").encode_ordinary
    except Exception:
        return "estimated, four bytes each", estimate_tokens
    return "tiktoken, o200k_base", lambda text: len(encode(text))


def print_tokens(rounds: int) -> None:
    name, count = counting()
    said = list(chat(rounds))
    with tempfile.TemporaryDirectory() as home:
        (full, last_full), (delta, last_delta) = (trailers_of(said, snapshot, home) for snapshot in SETTINGS)
    print(f"\n{f'trailer tokens ({name})':34} {'full':>9} {'delta':>9} {'delta %':>7}")
    spent = [[count(trailer) for trailer in trailers] for trailers in (full, delta)]
    size = -(-rounds // PARTS)
    for start in range(0, rounds, size):
        share(
            f"rounds {start + 1} to {min(start + size, rounds)}", *(sum(each[start : start + size]) for each in spent)
        )
    share("all rounds", *map(sum, spent))
    share("largest trailer", *map(max, spent))
    share("items in memory at the end", len(last_full.items), len(last_delta.items))
    print(f"memory at the end: {difference(last_full, last_delta)}")


def share(name: str, full: int, delta: int) -> None:
    print(f"{name:34} {full:9} {delta:9} {100 * delta / full:7.1f}", flush=True)


def difference(one: Memory, other: Memory) -> str:
    """The items in which two memories differ."""
    sides = [{id: item for place in (side.items, side.swap) for id, item in place.items()} for side in (one, other)]
    lines = [
        f"\n  {id}: {' / '.join(_told(side.get(id)) for side in sides)}"
        for id in sorted(sides[0].keys() | sides[1].keys())
        if sides[0].get(id) != sides[1].get(id)
    ]
    return "".join(lines) or f"the same {len(sides[0])} items"


def _told(item: MemoryItem | None) -> str:
    return f"{item.tier} {item.decay:.3f} from {item.anchor:g}, {item.content!r}" if item else "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--turns", type=int, default=20, help="number of timed turns")
    parser.add_argument("--only", choices=("time", "tokens"))
    options = parser.parse_args()
    if options.only != "tokens":
        print_times(options.rounds, options.turns)
    if options.only != "time":
        print_tokens(options.rounds)


if __name__ == "__main__":
    main()
