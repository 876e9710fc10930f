"""Cost of a pack in long sessions, its cacheable share in long chats, and whether it contains early facts.

    python benchmarks/pack.py [--quick] [--part cost] [--part chat] [--part facts] [--sizes 100,100000] [--profile]

cost: CPU milliseconds to build one request (open and pack the turn, write nothing) and to run a whole turn, in sessions
of several sizes, alternating between them, also as multiples of the first size. Messages are new, of 5 to 60 words,
half of them from an earlier message. Then one-time costs: loading the tokenizer and the ranking, opening a session from
its files, and rebuilding a lost index from the log, which happens over several packs.

chat: 200 turns with occasional facts and scripted replies; tokens are counted exactly. `stable` is the share of tokens
in the prefix that a request has in common with the one before, which is what providers cache: by the turns' own
records, and by the bodies sent. `last 20` and `everything` are what a caller would send without ctxwrap.

facts: 30 facts of the first 50 turns are asked for 150 turns later, paraphrased: how often the key word is in the
request, with a model that keeps a memory and with one that never writes any.
"""

import argparse
import cProfile
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chats import MODEL, close, completion, opened, request
from long_chats import chats, facts_found
from recall import ROOT, Babble, percentile, table

from ctxwrap.memory.items import MemoryItem
from ctxwrap.session.search import _AT_ONCE
from ctxwrap.session.session import Session
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record, timestamp
from ctxwrap.tokens.measure import Measure
from ctxwrap.turn.turn import Turn
from ctxwrap.types import Body, Message, Record, Runtime, SessionKey

START = datetime(2024, 1, 1, tzinfo=UTC)
REMEMBERED = 40
MOST_TIMES, MOST_P95 = 3.0, 5.0


def spent_in(work: Callable[[], object]) -> float:
    """CPU milliseconds of this thread."""
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


class Subject:
    """A session of `messages` messages, written as turns write them."""

    def __init__(self, store: FileStore, messages: int, babble: Babble) -> None:
        self.messages, self._babble, self._measure = messages, babble, Measure(MODEL)
        self.key = SessionKey("bench", "agent", f"with-{messages}")
        self.log = store.open(self.key)
        self._turns = messages // 2
        self._some: list[str] = []
        """A sample of the messages."""
        self._write()
        self.session = self.opened()
        self.indexing = [spent_in(self.pack) for _ in range(-(-messages // _AT_ONCE))]
        self.take_turn()

    def _write(self) -> None:
        """Append turn by turn, because an append is read as a whole."""
        with self.log.locked():
            for messages, events in self._past():
                self.log.append({"messages": messages, "events": events})

    def _past(self) -> Iterator[tuple[list[Record], list[Record]]]:
        for turn in range(1, self._turns + 1):
            id, said = f"019{turn:018x}", (("user", 20, 60), ("assistant", 40, 120))
            control = {"v": 1, "turn": id, "time": timestamp(self._at(turn))}
            messages = [Message(role, self._babble.text(*length)) for role, *length in said]  # type: ignore[arg-type]
            if turn % max(1, self._turns // 1000) == 0:
                self._some += [message.text for message in messages]
            yield (
                [
                    as_record(each, **control, seq=seq, id=f"{id}-{seq}", round=turn, tokens=self._tokens(each, turn))
                    for seq, each in enumerate(messages, 2 * turn - 1)
                ],
                [
                    {**event, "run": id, "ctx": {**control, "seq": seq, "id": f"{id}-e{seq}", "messages": 2 * turn}}
                    for seq, event in enumerate(_events(turn, control["time"]), 3 * turn - 2)  # type: ignore[arg-type]
                ],
            )

    def _tokens(self, message: Message, turn: int) -> dict[str, int] | None:
        """Token counts that a session would have stored, as far back as they matter."""
        return {self._measure.name: self._measure.counted(message)} if turn > self._turns - 200 else None

    def _at(self, turn: int) -> datetime:
        return START + timedelta(minutes=10 * turn)

    def opened(self) -> Session:
        session = Session(self.key, self.log)
        with session.locked():
            return session

    def question(self) -> Body:
        draw, babble = self._babble.random, self._babble
        about = draw.choice(self._some)
        text = babble.question(about)
        if draw.random() < 0.5:
            text += " " + babble.text(15, 45)
        return request([{"role": "user", "content": text}])

    def pack(self, session: Session | None = None) -> Turn:
        return opened(session or self.session, self.key, self.question(), self._at(self._turns + 1))

    def take_turn(self) -> None:
        self._turns += 1
        session, now, turn = self.session, self._at(self._turns), self.pack()
        with session.locked():
            session.append(turn.id, *turn.opening_records(session.packs.keep(turn.texts)), now, part="o")
        turn.reader.whole(completion(self._babble.text(40, 120)))
        close(session, turn, now)

    def first_pack(self) -> tuple[float, float]:
        """CPU milliseconds to open the session without caches, and of its first pack."""
        found: list[Session] = []
        return spent_in(lambda: found.append(self.opened())), spent_in(lambda: self.pack(found[0]))


def _events(turn: int, at: str) -> list[Record]:
    content = f"The user said something about matter {turn % REMEMBERED} in round {turn}."
    item = MemoryItem(
        id=f"core-{turn % REMEMBERED}",
        type="fact",
        content=content,
        tags=("said",),
        tier="core",
        decay=0.1,
        anchor=turn,
        first=turn,
        last=turn,
        since=turn,
        importance=0.1,
    )
    change = {"kind": "add", "id": item.id, "tier": item.tier, "item": item.as_json()}
    return [
        {"type": "start", "model": MODEL, "runtime": Runtime(turn, at, timestamp(START)).as_json()},
        {"type": "snapshot", "round": turn, "status": "clean", "operations": [change], "trailer": content},
        {"type": "done", "status": "ok"},
    ]


COUNTING = "from ctxwrap.tokens.measure import Measure; Measure('gpt-4o').text('word')"
RANKING = "import ctxwrap.retrieval.features"


def first_use(statement: str) -> float:
    """CPU milliseconds of a statement in a process that has only imported ctxwrap."""
    code = f"import ctxwrap, time; start = time.thread_time(); {statement}; print(time.thread_time() - start)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout) * 1e3


def costs(home: Path, sizes: Sequence[int], rounds: int, *, profiled: bool) -> None:
    counting, ranking = (first_use(each) for each in (COUNTING, RANKING))
    print(f"once per process: {counting:.0f} ms to load the tokenizer, {ranking:.0f} ms to load the ranking\n")
    store, babble = FileStore(home), Babble()
    subjects = [Subject(store, size, babble) for size in sizes]
    goals = f"p50 up to {MOST_TIMES:g} times", f"p95 up to {MOST_P95:g} ms"
    rows = [["CPU ms", "messages", "p50", "times", "p95", "times", *goals]]
    for name, works in (
        ("pack", [each.pack for each in subjects]),
        ("turn", [each.take_turn for each in subjects]),
    ):
        rows += list(_cost_rows(name, sizes, taken_in_turns(works, rounds)))
    table(rows)
    firsts(subjects)
    if profiled:
        profile(subjects[-1], rounds)


def _cost_rows(name: str, sizes: Sequence[int], spent: Sequence[Sequence[float]]) -> Iterator[list[str]]:
    base = [percentile(spent[0], share) for share in (50, 95)]
    for size, times in zip(sizes, spent, strict=True):
        middle, high = (percentile(times, share) for share in (50, 95))
        met = middle <= MOST_TIMES * base[0], high <= MOST_P95
        goals = ["met" if each else "missed" for each in met] if name == "pack" else ["", ""]
        row = [f"{middle:.2f}", f"{middle / base[0]:.2f}", f"{high:.2f}", f"{high / base[1]:.2f}", *goals]
        yield [name, f"{size:,}", *row]


def taken_in_turns(works: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """CPU milliseconds of each, alternating, without the first five rounds."""
    spent: list[list[float]] = [[] for _ in works]
    for _ in range(rounds + 5):
        for work, times in zip(works, spent, strict=True):
            times.append(spent_in(work))
    return [times[5:] for times in spent]


def firsts(subjects: Sequence[Subject]) -> None:
    rows = [["CPU ms, reopened", "messages", "session", "first pack", "index rebuilt", "by packs", "worst of them"]]
    for subject in subjects:
        opening, packing = (
            statistics.median(times) for times in zip(*(subject.first_pack() for _ in range(3)), strict=True)
        )
        anew = subject.indexing
        cells = [f"{opening:.1f}", f"{packing:.1f}", f"{sum(anew):.0f}", str(len(anew)), f"{max(anew):.0f}"]
        rows.append(["", f"{subject.messages:,}", *cells])
    table(rows)


def profile(subject: Subject, rounds: int) -> None:
    profiler = cProfile.Profile()
    questions = [subject.question() for _ in range(rounds)]
    for body in questions:
        profiler.runcall(opened, subject.session, subject.key, body, subject._at(subject._turns + 1))
    print(f"{rounds} packs after {subject.messages:,} messages")
    stats = pstats.Stats(profiler, stream=sys.stdout).strip_dirs()
    stats.sort_stats("cumulative").print_stats(45)
    stats.sort_stats("tottime").print_stats(25)


PARTS = ("cost", "chat", "facts")


def numbers(written: str) -> list[int]:
    return [int(each) for each in written.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="a part to run; default: all")
    parser.add_argument("--sizes", type=numbers, help="messages per session")
    parser.add_argument("--rounds", type=int, help="number of timed packs and turns per session")
    parser.add_argument("--turns", type=int, help="length of the chat")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="profile packs in the longest session")
    parser.add_argument("--quick", action="store_true", help="shorter sessions, fewer rounds and chats")
    given = parser.parse_args()
    parts, quick = given.part or PARTS, given.quick
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        if "cost" in parts:
            sizes = given.sizes or ([100, 1_000, 10_000] if quick else [100, 1_000, 10_000, 100_000])
            costs(home / "cost", sizes, given.rounds or (25 if quick else 200), profiled=given.profile)
        if "chat" in parts:
            chats(home / "chat", given.turns or (60 if quick else 200), given.seed)
        if "facts" in parts:
            facts_found(home / "facts", range(given.seed, given.seed + (1 if quick else 4)))


if __name__ == "__main__":
    main()
