"""Whatever happens to the bytes of acknowledged records is reported, costs no other record, and is never cut away."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ctxwrap.stores.files.store import FileLog, FileStore
from tests.stores.faults import Seam, installed
from tests.stores.work import KEY, complaints, entry, ids

CHANGES: dict[str, Callable[[int], int]] = {
    "one bit": lambda byte: byte ^ 1,
    "its case": lambda byte: byte ^ 0x20,
    "its highest bit": lambda byte: byte ^ 0x80,
    "all bits": lambda byte: byte ^ 0xFF,
    "to zero": lambda byte: 0,
}

SECTOR = 512


@pytest.fixture
def log(quick_path: Path) -> Iterator[FileLog]:
    with installed(Seam()):
        yield FileStore(quick_path).open(KEY)


def write(log: FileLog, lasting: bool) -> list[str]:
    """Single records, a batch, and one that looks as if it held the ends of others; their ids."""
    sealed = {"a": {"b": 1, "c": "0123456789abcdef"}}
    strange = {**entry("s", 120), "text": 'x","c":"0123456789abcdef"}}' * 2, "extra": sealed}
    for batch in ([entry("a")], [entry("b"), entry("c")], [strange], [entry("d")], [entry("e")]):
        with log.locked():
            log.append({"messages": batch}, lasting=lasting)
            wait = log.unsynced()
        wait()
    return ["a", "b", "c", "s", "d", "e"]


class Damaged:
    """A log after its file was changed behind its back: what it served, reported and did next."""

    def __init__(self, log: FileLog, data: bytes) -> None:
        path = log.directory / "messages.jsonl"
        path.write_bytes(data)
        (log.directory / ".redo").unlink(missing_ok=True)  # it would restore the newest records
        fresh = FileStore(log.directory.parents[5]).open(KEY)
        with complaints() as self.told:
            self.served = ids(fresh.read("messages")[0])
        self.faults = [line.fault for line in fresh.lines("messages") if line.fault]
        with complaints(), fresh.locked():
            fresh.append({"messages": [entry("next")]}, lasting=True)
            fresh.unsynced()()
        self.after = path.read_bytes()
        self.torn = b"".join(torn.read_bytes() for torn in log.directory.glob("*.torn-*"))
        for torn in log.directory.glob("*.torn-*"):
            torn.unlink()
        with complaints():
            self.served_next = ids(FileStore(log.directory.parents[5]).open(KEY).read("messages")[0])
        self.data = data

    def assert_reported(self, others: Sequence[str]) -> None:
        assert self.told
        assert self.faults
        assert self.torn == b""
        assert self.after.startswith(self.data)
        assert set(self.served) >= set(others)
        assert self.served_next == [*self.served, "next"]


def looks_torn(data: bytes, at: int, starts: Sequence[int]) -> bool:
    """Whether a zero there is all that a sector holds of one of the last two batches: a power cut leaves just that."""
    start = max(begin for begin in starts if begin <= at)
    first, last = at // SECTOR * SECTOR, at // SECTOR * SECTOR + SECTOR
    return at in (start, first) and at + 1 in (data.find(b"\n", at) + 1, last) and start in starts[-2:]


@pytest.mark.parametrize(
    ("change", "lasting"), [*((change, True) for change in CHANGES), ("all bits", False), ("to zero", False)]
)
def test_changed_byte_is_reported_and_loses_no_other_record(log: FileLog, change: str, lasting: bool) -> None:
    written = write(log, lasting)
    whole = (log.directory / "messages.jsonl").read_bytes()
    assert len(whole) > SECTOR
    ends = [line.end for line in log.lines("messages")]
    for at, byte in enumerate(whole):
        changed = CHANGES[change](byte)
        if changed == 0 and looks_torn(whole, at, [0, *ends]):
            continue
        hit = next(number for number, end in enumerate(ends) if at < end)
        damaged = Damaged(log, whole[:at] + bytes([changed]) + whole[at + 1 :])
        damaged.assert_reported([id for number, id in enumerate(written) if number != hit])
        assert len(damaged.served) <= len(written)


def lines_of(log: FileLog) -> list[bytes]:
    return (log.directory / "messages.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("lasting", [True, False])
def test_removed_line_is_reported_and_loses_no_other_record(log: FileLog, lasting: bool) -> None:
    written = write(log, lasting)
    lines = lines_of(log)
    for at in range(len(lines) - 1):
        damaged = Damaged(log, b"".join(lines[:at] + lines[at + 1 :]))
        damaged.assert_reported(written[:at] + written[at + 1 :])
        assert damaged.faults == ["the line before it is missing"]


@pytest.mark.parametrize("lasting", [True, False])
def test_duplicate_line_is_reported_and_counts_once(log: FileLog, lasting: bool) -> None:
    written = write(log, lasting)
    lines = lines_of(log)
    for at in range(len(lines)):
        for behind in range(at, len(lines)):
            damaged = Damaged(log, b"".join([*lines[: behind + 1], lines[at], *lines[behind + 1 :]]))
            damaged.assert_reported(written)
            assert damaged.served == written
            assert damaged.faults == ["it is a duplicate"]


@pytest.mark.parametrize("lasting", [True, False])
def test_swapped_lines_are_reported_and_all_returned(log: FileLog, lasting: bool) -> None:
    written = write(log, lasting)
    lines = lines_of(log)
    for at in range(len(lines) - 1):
        damaged = Damaged(log, b"".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]))
        damaged.assert_reported(written)
        assert sorted(damaged.served) == sorted(written)


@pytest.mark.parametrize("lasting", [True, False])
def test_missing_newline_is_reported_or_loses_nothing(log: FileLog, lasting: bool) -> None:
    written = write(log, lasting)
    lines = lines_of(log)
    for at in range(len(lines)):
        damaged = Damaged(log, b"".join([*lines[:at], lines[at].rstrip(b"\n"), *lines[at + 1 :]]))
        assert damaged.served == written
        assert damaged.served_next == [*written, "next"]
        assert damaged.torn == b""


@pytest.mark.parametrize("lasting", [True, False])
def test_line_inserted_by_hand_is_read_as_unverified(log: FileLog, lasting: bool) -> None:
    written = write(log, lasting)
    lines = lines_of(log)
    for at in range(len(lines) + 1):
        path = log.directory / "messages.jsonl"
        path.write_bytes(b"".join([*lines[:at], b'{"role":"user","content":"by hand"}\n', *lines[at:]]))
        (log.directory / ".redo").unlink(missing_ok=True)  # of the last round
        fresh = FileStore(log.directory.parents[5]).open(KEY)
        with complaints() as told, fresh.locked():
            fresh.append({"messages": [entry("next")]}, lasting=lasting)
            fresh.append({"messages": [entry("last")]}, lasting=lasting)
        found = list(fresh.lines("messages"))
        assert told == []
        assert [line.fault for line in found if line.fault] == []
        assert [line.number for line in found if not line.checked] == [at + 1]
        assert ids([line.record for line in found if line.record and line.checked]) == [*written, "next", "last"]
        assert len(fresh.read("messages")[0]) == len(written) + 3


def test_zeros_before_a_later_sync_are_damage_and_are_kept(log: FileLog) -> None:
    """A block that the medium loses later is no power cut."""
    written = []
    for number in range(6):
        written.append(f"{number}")
        with log.locked():
            log.append({"messages": [entry(written[-1], 1200)]}, lasting=True)
            wait = log.unsynced()
        wait()
    whole = (log.directory / "messages.jsonl").read_bytes()
    for start in range(0, 3 * 1200, SECTOR):
        damaged = Damaged(log, whole[:start] + bytes(SECTOR) + whole[start + SECTOR :])
        damaged.assert_reported(written[4:])


def test_damaged_line_is_reported_once_and_never_blocks_writing(log: FileLog) -> None:
    write(log, lasting=False)
    path = log.directory / "messages.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"id":"b"', b'"id":"B"'))
    with complaints() as told:
        for number in range(3):
            log.read("messages")
            with log.locked():
                log.append({"messages": [entry(str(number))]})
    assert len(told) == 1
    assert "its checksum is wrong" in told[0]


def test_replaced_log_is_scanned_again(log: FileLog) -> None:
    """Even if the system gives it the number that the other had."""
    write(log, lasting=True)
    path = log.directory / "messages.jsonl"
    other = FileStore(log.directory.parents[5] / "other").open(KEY)
    for number in range(40):
        with other.locked():
            other.append({"messages": [entry(f"other-{number}", 30 * number)]})
    path.write_bytes((other.directory / "messages.jsonl").read_bytes())
    with complaints() as told, log.locked():
        log.append({"messages": [entry("next")]}, lasting=True)
    assert told == []
    assert [line.fault for line in log.lines("messages") if line.fault] == []
    assert len(ids(log.read("messages")[0])) == 41


def test_batch_shortened_by_a_banned_text_is_no_torn_end(log: FileLog) -> None:
    with log.locked():
        log.append({"messages": [entry("a"), entry("b"), entry("c")]})
    path = log.directory / "messages.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"id":"c"', b'"id":"secret"'))
    with complaints(), log.locked():
        log.rewrite("messages", lambda line: line, banned=["secret"])
        log.append({"messages": [entry("d")]})
    assert ids(log.read("messages")[0]) == ["a", "b", "d"]
    assert list(log.directory.glob("*.torn-*")) == []


def test_line_read_before_its_newline_is_no_damage(log: FileLog) -> None:
    write(log, lasting=True)
    path = log.directory / "messages.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    reader = FileStore(log.directory.parents[5]).open(KEY)
    _, position = reader.read("messages")
    with complaints() as told:
        with log.locked():
            log.append({"messages": [entry("next")]})
        assert ids(reader.read("messages", position)[0]) == ["next"]
    assert told == []


def test_every_code_unit_round_trips(log: FileLog) -> None:
    """Downwards, since a high surrogate before a low one is the character that they spell together."""
    texts = ["".join(map(chr, range((1 << 16) - 1, -1, -1))), *map(chr, range(0xD7F0, 0xE010)), "\ude00\ud83d"]
    with log.locked():
        log.append({"messages": [{**entry("text"), "content": text, text: text} for text in texts]}, lasting=True)
    log.unsynced()()
    found = FileStore(log.directory.parents[5]).open(KEY).read("messages")[0]
    assert [(line["content"], line[text]) for line, text in zip(found, texts, strict=True)] == [(t, t) for t in texts]
    assert [line.fault for line in log.lines("messages") if line.fault] == []
