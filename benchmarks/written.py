"""Bytes and rows that chats write to a store, and database round trips, per turn."""

import contextlib
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import openai
from chats import Attentive, Said, Talk, small_talk

import ctxwrap
from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.turn.document_updates import finish_documents
from tests.stores.postgres_proxy import Proxy
from tests.stores.postgres_server import PostgresServer

Table = list[list[str]]

FACTS = 0.2
"""Share of the messages that state a fact."""

TURNS_A_DAY, PEAK = 20, 5
"""Turns per user and day, and the load of the busiest hour relative to the mean."""

SIZES = """
SELECT relname, pg_total_relation_size(relid), n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables
WHERE relname LIKE 'ctxwrap%' ORDER BY relname
"""


class Model:
    """A model that answers in 40 to 120 words and follows the memory protocol."""

    def __init__(self) -> None:
        self._attentive = Attentive(Talk(2))
        self.told = Said("")
        self.bytes = 0
        """Bytes of its answers."""

    def __call__(self, ask: Ask) -> Answer:
        answer = self._attentive(ask.body, self.told) if asks_for_trailer(ask.system) else "Well."
        self.bytes += len(answer.partition("<<<")[0].strip().encode())
        return Answer(answer)


class Chats:
    """`chats` chats of `turns` turns, each in its own session."""

    def __init__(self, chats: int, turns: int) -> None:
        self.chats, self.turns = chats, turns
        self._model = Model()
        self.bytes = 0
        """Bytes of all messages, per turn."""

    def take(self, store: object, **how: Any) -> None:
        said = 0
        with calling(self._model) as client:
            for chat in range(self.chats):
                wrapped = ctxwrap.wrap(client, store=store, session=f"chat-{chat}", **how)
                for each in small_talk(Talk(chat), self.turns, FACTS):
                    self._model.told = each
                    said += len(each.text.encode())
                    ask(wrapped, each.text)
            finish_documents()  # what happens at the end of a process
        self.bytes = (said + self._model.bytes) // (self.chats * self.turns)

    def by_turn(self, count: float) -> str:
        return f"{count / (self.chats * self.turns):,.1f}"

    def bytes_by_turn(self, count: float) -> str:
        return f"{count / (self.chats * self.turns):,.0f}"


@contextlib.contextmanager
def calling(answer: Callable[[Ask], Answer]) -> Iterator[openai.OpenAI]:
    with Provider(answer, record=False) as provider:
        yield openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)


def ask(client: Any, text: str) -> None:
    client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": text}])


# round trips


def trips(server: PostgresServer, turns: int) -> Table:
    """Round trips per turn, counted by a proxy; leases are not renewed meanwhile."""
    from ctxwrap.stores.postgres import PostgresStore

    rows = [["workers", "on_busy", "context document", "median", "mean", "most"]]
    cases = [(1, "wait", False), (1, "interleave", False), (2, "wait", False), (1, "wait", True)]
    with counting(server) as proxy, calling(Model()) as client:
        for at, (workers, on_busy, document) in enumerate(cases):
            how = {"session": f"trips-{at}", "on_busy": on_busy, "context_document": document}
            stores = [PostgresStore(proxy.url("trips"), lifetime=3600) for _ in range(workers)]
            counts = _counted(proxy, [ctxwrap.wrap(client, store=store, **how) for store in stores], turns)
            finish_documents()
            for store in stores:
                store.close()
            found = statistics.median(counts), statistics.mean(counts), max(counts)
            rows.append([str(workers), on_busy, "yes" if document else "no", *(f"{each:.1f}" for each in found)])
    return rows


@contextlib.contextmanager
def counting(server: PostgresServer) -> Iterator[Proxy]:
    server.create("trips")
    place = Path(tempfile.mkdtemp(prefix="cwpx-", dir="/tmp"))  # a socket path is limited to 107 bytes
    with Proxy(server.sockets, place) as proxy:
        yield proxy
    shutil.rmtree(place)


def _counted(proxy: Proxy, workers: Sequence[Any], turns: int) -> list[int]:
    """Round trips of each turn, the workers alternating, without the first six turns."""
    counts = []
    for turn, said in enumerate(small_talk(Talk(1), turns + 6, 0)):
        before = proxy.trips
        ask(workers[turn % len(workers)], said.text)
        counts.append(proxy.trips - before)
    return counts[6:]


# bytes and rows


def written(
    server: PostgresServer | None, chats: int, turns: int, say: Callable[[str], None]
) -> Iterator[tuple[str, Table]]:
    """What a turn writes to files and to PostgreSQL, with `evidence` "log" and "project"."""
    both = (True, False)
    parts = []
    for evidence in both:
        say(f"bytes: files, evidence={'log' if evidence else 'project'}, {chats * turns} calls")
        parts.append(_in_files(Chats(chats, turns), evidence))
    heads = ["evidence", "said", "messages.jsonl", "events.jsonl", "raw", "context", "other", "all", "on disk"]
    yield f"Bytes of a turn in files, {chats} chats of {turns} turns", [heads, *parts]
    if server is None:
        return
    totals = [["evidence", "said", "kept, vacuumed", "grown, never vacuumed", "WAL", "transactions"]]
    found = []
    for evidence in both:
        say(f"bytes: PostgreSQL, evidence={'log' if evidence else 'project'}, {chats * turns} calls")
        rows, turn = _in_rows(server, Chats(chats, turns), evidence)
        found.append(turn)
        totals.append(
            ["log" if evidence else "project", *(f"{each:,.0f}" for each in turn[:-1]), f"{turn.transactions:.1f}"]
        )
        yield f"Rows and bytes of a turn in PostgreSQL, evidence={'log' if evidence else 'project'}", rows
    yield f"Bytes of a turn in PostgreSQL, {chats} chats of {turns} turns", totals
    yield (
        f"One database, {TURNS_A_DAY} turns per user and day, the busiest hour {PEAK} times the mean",
        model(found[0]),
    )


def _in_files(chats: Chats, evidence: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as home:
        chats.take(home, evidence=evidence)
        sizes, on_disk = Counter[str](), 0
        for path in Path(home).rglob("*"):
            if path.is_file():
                sizes[_part(path)] += path.stat().st_size
                on_disk += path.stat().st_blocks * 512
    parts = [sizes[name] for name in ("messages.jsonl", "events.jsonl", "raw", "context", "other")]
    row = [chats.bytes_by_turn(each) for each in (*parts, sum(parts), on_disk)]
    return ["log" if evidence else "project", f"{chats.bytes:,}", *row]


def _part(path: Path) -> str:
    names = ("messages.jsonl", "events.jsonl", "raw", "context")
    return next((name for name in names if name in path.parts), "other")


class InRows(NamedTuple):
    """What a turn writes to PostgreSQL."""

    said: float
    kept: float
    grown: float
    wal: float
    transactions: float


def _in_rows(server: PostgresServer, chats: Chats, evidence: bool) -> tuple[Table, InRows]:
    import psycopg

    from ctxwrap.stores.postgres import PostgresStore

    url = server.create(f"written-{evidence}".lower())
    with psycopg.connect(url, autocommit=True) as connection:
        store = PostgresStore(url)
        list(store.keys())  # creates the tables
        lsn, before = _position(connection)
        chats.take(store, evidence=evidence)
        store.close()
        _wait_for_counts(connection)
        end, after = _position(connection)
        grown = connection.execute(SIZES).fetchall()
        connection.execute("VACUUM FULL")
        kept = {name: size for name, size, *_ in connection.execute(SIZES).fetchall()}
    rows = [["table", "inserted", "updated", "deleted", "bytes kept, vacuumed", "bytes grown"]]
    for name, size, *counts in grown:
        amounts = [chats.bytes_by_turn(each) for each in (kept[name], size)]
        rows.append([name, *(chats.by_turn(each) for each in counts), *amounts])
    amounts = sum(kept.values()), sum(size for _, size, *_ in grown), end - lsn, after - before
    return rows, InRows(chats.bytes, *(each / (chats.chats * chats.turns) for each in amounts))


def _position(connection: Any) -> tuple[float, float]:
    """Bytes of WAL and number of commits so far."""
    logged = "pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::double precision"
    committed = "(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())"
    found: tuple[float, float] = connection.execute(f"SELECT {logged}, {committed}").fetchall()[0]
    return found


def model(turn: InRows) -> Table:
    """Load and size of one database by number of users."""
    rows = [
        ["users", "turns a day", "turns/s, peak", "transactions/s, peak", "WAL MB/s, peak", "GB a day", "TB a year"]
    ]
    for users in (10_000, 100_000, 1_000_000):
        turns = users * TURNS_A_DAY
        peak, day = turns / 86_400 * PEAK, turns * turn.kept
        amounts = peak, peak * turn.transactions, peak * turn.wal / 1e6, day / 1e9, day * 365 / 1e12
        rows.append(
            [f"{users:,}", f"{turns:,}", *(f"{each:,.0f}" if each >= 10 else f"{each:.1f}" for each in amounts)]
        )
    return rows


def _wait_for_counts(connection: Any) -> None:
    """Wait until all connections have ended, because statistics are reported then."""
    while connection.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = 'ctxwrap'").fetchall():
        time.sleep(0.05)
