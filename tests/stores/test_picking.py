"""Single records are found by their numbers whatever stands around them, and nothing else is taken for them."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxwrap.stores.files.store import FileLog, FileStore
from ctxwrap.testing import KEY, numbered_record
from ctxwrap.types import Record

LENGTHS = st.sampled_from([0, 10, 300, 3000])
LARGE = LENGTHS | st.just(40_000)
STEPS = st.one_of(
    st.tuples(st.just("numbered"), st.integers(1, 40), LENGTHS),
    st.tuples(st.just("gap"), st.integers(1, 500), LARGE),
    st.tuples(st.just("by hand"), st.integers(1, 20), LENGTHS),
    st.tuples(st.just("hostile"), st.integers(1, 2000), LARGE),
    st.tuples(st.just("rewritten"), st.integers(1, 5), LENGTHS),
    st.tuples(st.just("asked"), st.integers(1, 60), LENGTHS),
)


def opened(root: Path) -> FileLog:
    return FileStore(root).open(KEY)


class Stream:
    def __init__(self, root: Path) -> None:
        self.root, self.log, self.last = root, opened(root), 0

    def step(self, kind: str, count: int, length: int) -> None:
        with self.log.locked():
            getattr(self, kind.replace(" ", "_"))(count, length)

    def numbered(self, count: int, length: int) -> None:
        self.log.append(
            {"messages": [numbered_record(self.last + at, "x" * length * (at % 3)) for at in range(1, count + 1)]}
        )
        self.last += count

    def gap(self, count: int, length: int) -> None:
        self.last += count
        self.numbered(1, length)

    def by_hand(self, count: int, length: int) -> None:
        with open(self.log.directory / "messages.jsonl", "ab") as file:
            file.write(b"\n".join([json.dumps({"content": "x" * length}).encode()] * count) + b"\n")
        self.log.read("messages")

    def hostile(self, number: int, length: int) -> None:
        """It says a number, too, where it means nothing."""
        self.last += 1
        record: Record = {"content": '"seq":1,', "extra": {"ctx": {"v": 1, "seq": number}}, "filler": "y" * length}
        self.log.append({"messages": [{**record, "ctx": {"v": 1, "seq": self.last}}]})

    def rewritten(self, every: int, length: int) -> None:
        self.log.rewrite(
            "messages", lambda line: {**line, "filler": "z" * length} if self.number(line) % every == 0 else line
        )

    def asked(self, count: int, length: int) -> None:
        self.log.pick("messages", range(1, self.last + 1, count))

    @staticmethod
    def number(line: Record) -> int:
        return int((line.get("ctx") or {}).get("seq", 0))

    def compare(self) -> None:
        wanted = {self.number(line): line for line in self.log.read("messages")[0] if self.number(line)}
        for log in (self.log, opened(self.root)):
            assert log.pick("messages", range(self.last + 3)) == wanted
            for number in range(self.last + 1, 0, -1 - self.last // 15):
                assert log.pick("messages", [number]) == {at: line for at, line in wanted.items() if at == number}


@given(st.lists(STEPS, max_size=9))
@example([("numbered", 1, 0), ("gap", 1, 0), ("by hand", 1, 0), ("numbered", 1, 0)])
def test_picked_records_equal_read_records(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        stream = Stream(Path(root))
        for step in steps:
            stream.step(*step)
        stream.compare()


@pytest.mark.parametrize("damage", [(b"number", b"nimber"), (b'"seq":', b'"seq":9'), (b'"seq":', b'"sec":')])
@pytest.mark.parametrize("at", [0, 1, 57, 98, 99])
def test_a_damaged_record_is_not_picked_and_hides_no_other(
    tmp_path: Path, at: int, damage: tuple[bytes, bytes]
) -> None:
    log = opened(tmp_path)
    with log.locked():
        log.append({"messages": [numbered_record(number, "x" * 500) for number in range(1, 101)]})
    path = log.directory / "messages.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[at] = lines[at].replace(*damage)
    path.write_bytes(b"".join(lines))
    assert opened(tmp_path).pick("messages", range(1, 101)).keys() == set(range(1, 101)) - {at + 1}


def test_pick_detects_a_replaced_file_with_the_same_inode(tmp_path: Path) -> None:
    log = opened(tmp_path)
    with log.locked():
        log.append({"messages": [numbered_record(number, "x" * 900) for number in range(1, 201)]})
    assert len(log.pick("messages", range(1, 201, 3))) == 67
    path = log.directory / "messages.jsonl"
    shorter = [line.replace(b"x" * 900, b"x") for line in path.read_bytes().splitlines(keepends=True)]
    other = opened(tmp_path / "other")
    with other.locked():
        other.append({"messages": [numbered_record(number, "x") for number in range(1, 201)]})
    with open(path, "r+b") as file:  # in its place, so that it keeps its number
        data = (other.directory / "messages.jsonl").read_bytes()
        assert len(data) < sum(map(len, shorter)) * 2
        file.write(data)
        file.truncate()
    assert log.pick("messages", range(1, 201)).keys() == set(range(1, 201))


def test_picking_one_record_reads_few_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    with log.locked():
        for first in range(1, 20_000, 1000):
            log.append(
                {"messages": [numbered_record(at, "x" * (at * 7919 % 700)) for at in range(first, first + 1000)]}
            )
    reads: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, size, at: reads.append(size) or pread(handle, size, at))
    for number in range(17, 20_000, 1999):
        fresh = opened(tmp_path)
        reads.clear()
        assert fresh.pick("messages", [number]).keys() == {number}
        assert sum(reads) < 100_000


def test_picking_from_lines_without_numbers_reads_the_file_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(tmp_path)
    stream.step("by hand", 4000, 300)
    stream.last = 4000
    stream.step("numbered", 3, 10)
    reads: list[int] = []
    pread = os.pread
    monkeypatch.setattr(
        os, "pread", lambda handle, size, at: reads.append(len(data := pread(handle, size, at))) or data
    )
    log = opened(tmp_path)
    for first in range(1, 4000, 100):
        assert log.pick("messages", [*range(first, first + 100), 4002]).keys() == {4002}
    assert sum(reads) < 12 * (stream.log.directory / "messages.jsonl").stat().st_size
