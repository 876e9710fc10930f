"""Recovery of snapshots from damaged replies, compared with json_repair and strict JSON, and its cost.

    python benchmarks/recovery.py [--corpus FILE] [--seed N] [--count N] [--fuzz] [--failures K] [--by-class]

exact: the snapshot was accepted and equals the expected one; silent: it was accepted without a warning and differs. The
results of the other systems are normalised like ours. They get the text after the last exact separator or, as `+split`,
the correctly split text. Systems that are not installed are skipped.
"""

import argparse
import json
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from ctxwrap.protocol import ReplyStream, read_reply  # noqa: E402
from ctxwrap.protocol.instructions import SEPARATOR  # noqa: E402
from ctxwrap.protocol.repair.strict import Unreadable  # noqa: E402
from ctxwrap.protocol.snapshot import normalise  # noqa: E402
from tests.protocol.corpus import Case, cases, fuzz, of_class  # noqa: E402

MEGABYTE = 1_000_000
PATIENCE = 60.0
"""Largest hostile inputs are skipped if quadratic growth would exceed this many seconds."""


class Read(NamedTuple):
    """The result of one system for one reply."""

    visible: str
    snapshot: Any
    status: str

    @property
    def applied(self) -> bool:
        return self.status in ("clean", "repaired", "partial")

    @property
    def sure(self) -> bool:
        return self.status in ("clean", "repaired")


System = Callable[[Case], Read]


def ours(case: Case) -> Read:
    reading = read_reply(case.reply, case.runtime, case.previous)
    return Read(reading.visible, reading.snapshot, reading.status)


def peer(parse: Callable[[str], Any], split: Callable[[Case], tuple[str, str]]) -> System:
    def read(case: Case) -> Read:
        visible, tail = split(case)
        try:
            found = json.loads(json.dumps(parse(tail)))  # some return their own dictionary types
        except Exception:
            return Read(visible, None, "rejected")
        try:
            read = normalise(found, case.runtime, case.previous or {})
        except (Unreadable, AttributeError):
            return Read(visible, None, "rejected")
        return Read(visible, read.snapshot, "repaired" if read.whole else "partial")

    return read


def at_last_separator(case: Case) -> tuple[str, str]:
    visible, separator, tail = case.reply.rpartition(SEPARATOR)
    return (visible.rstrip(), tail.strip()) if separator else (case.reply, "")


def at_known_text(case: Case) -> tuple[str, str]:
    tail = case.reply.removeprefix(case.visible)
    mark = r"""(?is)\A\s*(?:```\w*\s*)?(?:-+\s*)?[^\w\n"{]{0,40}(?:(?:amp;)?(?:lt;|#60;)&?)*\W{0,6}context"""
    mark += r"""(?:>?`\{=html\})?(?:&(?:amp;)?(?:gt;|#62;))*[^\w\n"'{\[“＂`]*"""
    return case.visible, re.sub(mark, "", tail, count=1).strip()


PEERS = ("json_repair", "jsonmend", "repairjson", "fast_json_repair", "dirtyjson", "json")


def systems() -> dict[str, System]:
    found: dict[str, System] = {"ctxwrap": ours}
    for name in PEERS:
        try:
            loads = import_module(name).loads
        except ImportError:
            continue
        found[f"{name}+split"] = peer(loads, at_known_text)
        if name in ("json_repair", "json"):
            found[name] = peer(loads, at_last_separator)
    return found


class Outcome(NamedTuple):
    """One reply, the result of a system, and the time in microseconds."""

    case: Case
    read: Read
    micros: float

    @property
    def exact(self) -> bool:
        return self.read.applied and self.read.snapshot == self.case.snapshot

    @property
    def silent(self) -> bool:
        return self.read.sure and self.read.snapshot != self.case.snapshot

    @property
    def seen(self) -> bool:
        return self.read.visible == self.case.visible


def run(system: System, corpus: Sequence[Case]) -> list[Outcome]:
    for case in corpus[:20]:
        system(case)
    return [timed(system, case) for case in corpus]


def timed(system: System, case: Case) -> Outcome:
    start = time.perf_counter()
    read = system(case)
    return Outcome(case, read, (time.perf_counter() - start) * 1e6)


def rate(hits: Iterable[bool]) -> str:
    every = list(hits)
    return f"{100 * sum(every) / len(every):.1f} %" if every else "–"


def share(hits: Iterable[bool]) -> str:
    every = list(hits)
    return f"{sum(every)}/{len(every)}"


def percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def summary(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    lossless = [each for each in outcomes if each.case.lossless]
    cut = [each for each in outcomes if each.case.truncated]
    micros = [each.micros for each in outcomes]
    return [
        name,
        rate(each.exact for each in lossless if len(each.case.damage) == 1),
        rate(each.exact for each in lossless if len(each.case.damage) > 1),
        rate(each.silent for each in lossless),
        rate(each.exact for each in outcomes if not each.case.lossless and not each.case.truncated),
        rate(each.seen for each in outcomes),
        rate(each.exact for each in cut),
        share(each.silent for each in cut),
        f"{statistics.median(micros):.0f}",
        f"{percentile(micros, 99):.0f}",
    ]


HEADER = ["", "exact 1", "exact 2+", "silent", "by policy", "visible", "cut exact", "cut silent", "µs p50", "µs p99"]


def table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (f"{cell:{'<' if not at else '>'}{widths[at]}}" for at, cell in enumerate(row))
        print("  ".join([first, *rest]).rstrip())
    print()


def by_class(results: dict[str, list[Outcome]]) -> None:
    groups: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for system, outcomes in results.items():
        for each in outcomes:
            groups[each.case.name if len(each.case.damage) == 1 else "(composed)"][system].append(each)
    rival = "json_repair+split"
    rows = [["class", "n", "exact", "silent", "visible", "statuses", f"{rival} exact", "silent"]]
    for name in sorted(groups):
        mine, theirs = groups[name]["ctxwrap"], groups[name].get(rival, [])
        statuses = Counter(each.read.status for each in mine)
        rows.append(
            [
                name,
                str(len(mine)),
                rate(each.exact for each in mine),
                rate(each.silent for each in mine),
                rate(each.seen for each in mine),
                " ".join(f"{status}:{count}" for status, count in statuses.most_common()),
                rate(each.exact for each in theirs),
                rate(each.silent for each in theirs),
            ]
        )
    table(rows)


def failures(outcomes: Sequence[Outcome], count: int) -> None:
    """Print the first `count` failures, silent ones first."""
    failed = [each for each in outcomes if not each.exact or not each.seen]
    failed.sort(key=lambda each: (not each.silent, not each.case.lossless))
    for each in failed[:count]:
        kind = "SILENT" if each.silent else each.read.status
        where = difference(each.case.snapshot, each.read.snapshot) if not each.exact else "snapshot is right"
        print(f"{each.case.name}  [{kind}]  {where}")
        if not each.seen:
            print(f"    visible: {difference(each.case.visible, each.read.visible)}")
    print(f"{len(failed)} of {len(outcomes)} failed\n")


def difference(wanted: Any, found: Any, path: str = "$") -> str:
    """The first difference between two values."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if key not in wanted or key not in found:
                return f"{path}.{key} is {'missing' if key in wanted else 'unexpected'}"
            if wanted[key] != found[key]:
                return difference(wanted[key], found[key], f"{path}.{key}")
    if isinstance(wanted, list) and isinstance(found, list):
        for at, (one, other) in enumerate(zip(wanted, found, strict=False)):
            if one != other:
                return difference(one, other, f"{path}[{at}]")
        return f"{path} has {len(found)} instead of {len(wanted)} items"
    if isinstance(wanted, str) and isinstance(found, str):
        at = next((at for at, pair in enumerate(zip(wanted, found, strict=False)) if len(set(pair)) > 1), -1)
        at = at if at >= 0 else min(len(wanted), len(found))
        start = max(0, at - 15)
        return f"{path} at {at}: {found[start : at + 25]!r} instead of {wanted[start : at + 25]!r}"
    return f"{path}: {str(found)[:60]!r} instead of {str(wanted)[:60]!r}"


def best(work: Callable[[], object], rounds: int = 7) -> float:
    """Seconds of the fastest round."""
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def clean_cost(seed: int) -> None:
    clean = [case for case in of_class("clean", seed, 200) if len(case.reply) > 3000]
    tails = [case.reply.removeprefix(case.visible).strip().removeprefix(SEPARATOR) for case in clean]
    size = sum(map(len, tails)) // len(tails)
    ours_took = json_took = float("inf")
    for _ in range(10):  # alternating, so that noise affects both
        ours_took = min(ours_took, best(lambda: [read_reply(case.reply, case.runtime) for case in clean], 2))
        json_took = min(json_took, best(lambda: [json.loads(tail) for tail in tails], 2))
    each = ours_took / len(clean) * 1e6
    print(f"a clean reply with {size} characters of JSON: {each:.0f} µs, {ours_took / json_took:.1f} × json.loads")


class Bare:
    """A stream that passes everything through."""

    def feed(self, chunk: str) -> str:
        return chunk


def stream_cost(seed: int) -> None:
    replies = [pieces(case.reply, 4) for case in of_class("clean", seed, 50)]
    chunks = sum(map(len, replies))

    def through(stream: Callable[[], Any]) -> float:
        return best(lambda: [[feed(chunk) for chunk in reply] for reply in replies for feed in [stream().feed]])

    mine, bare = through(ReplyStream), through(Bare)
    print(f"a streamed chunk of 4 characters: {mine / chunks * 1e6:.2f} µs, {mine / bare:.1f} × a bare pass-through\n")


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


HOSTILE = {
    "<": ("", "<"),
    "{": ("", "{"),
    "separator prefixes": ("", "<<<CONTEX"),
    "separators": ("", f"{SEPARATOR}\n"),
    "separators with {": ("", f"\n{SEPARATOR}\n{{"),
    "trailer of {": (f"{SEPARATOR}\n", "{"),
    "trailer of [": (f"{SEPARATOR}\n{{", "["),
    "deep objects": (f"{SEPARATOR}\n", '{"a":'),
    "open strings": (f'{SEPARATOR}\n{{"memory": {{"core": [', '{"id": "'),
    "quotes": (f'{SEPARATOR}\n{{"memory": "', '"'),
    "backslashes": (f'{SEPARATOR}\n{{"memory": "', "\\"),
    "blank": (f"Hi.\n{SEPARATOR}", " \n"),
    "blank text": ("", " "),
}


def hostile() -> None:
    """Print seconds per megabyte of hostile inputs; larger ones are skipped if they would take too long."""
    rows = [["hostile input, s per MB", "0.1 MB", "1 MB", "10 MB", "streamed 0.1 MB", "1 MB", "10 MB"]]
    for name, (start, unit) in HOSTILE.items():
        whole = list(growing(start, unit, read_reply))
        rows.append([name, *whole, *growing(start, unit, streamed)])
    table(rows)


def growing(start: str, unit: str, work: Callable[[str], object]) -> Iterator[str]:
    took = 0.0
    for size in (MEGABYTE // 10, MEGABYTE, 10 * MEGABYTE):
        if took * 100 > PATIENCE:
            yield "–"
            continue
        text = start + unit * ((size - len(start)) // len(unit))
        took = best(lambda text=text: work(text), rounds=1)  # type: ignore[misc]
        yield f"{took / (size / MEGABYTE):.3f}"


def streamed(text: str) -> None:
    stream = ReplyStream()
    for chunk in pieces(text, 1000):
        stream.feed(chunk)
    stream.close()


def load(options: argparse.Namespace) -> list[Case]:
    if options.corpus:
        with Path(options.corpus).open(encoding="utf-8") as lines:
            return [Case.from_json(line) for line in lines][: options.count]
    return (fuzz if options.fuzz else cases)(options.seed, options.count or 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="a file of cases, one JSON object per line, instead of generated ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="number of cases; default: 1000, or all of the file")
    parser.add_argument("--fuzz", action="store_true", help="one random edit per case instead of known damage")
    parser.add_argument("--failures", type=int, default=0, metavar="K", help="show K failures")
    parser.add_argument("--by-class", action="store_true")
    parser.add_argument("--no-cost", action="store_true", help="skip the cost of clean, streamed and hostile inputs")
    options = parser.parse_args()
    corpus = load(options)
    results = {name: run(system, corpus) for name, system in systems().items()}
    lossless, cut = sum(case.lossless for case in corpus), sum(case.truncated for case in corpus)
    print(f"{len(corpus)} replies, {lossless} lossless, {cut} truncated\n")
    table([HEADER, *(summary(name, outcomes) for name, outcomes in results.items())])
    if options.by_class:
        by_class(results)
    if options.failures:
        failures(results["ctxwrap"], options.failures)
    if not options.no_cost:
        clean_cost(options.seed)
        stream_cost(options.seed)
        hostile()


if __name__ == "__main__":
    main()
