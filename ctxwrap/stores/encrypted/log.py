"""One session's streams with every record encrypted; the wrapped store sees numbers and sizes only."""

import base64
import binascii
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ctxwrap.errors import StoreError
from ctxwrap.stores.base import Checkpoint, Log, RecordChange, StreamLine
from ctxwrap.stores.checksums import encoded
from ctxwrap.stores.encrypted.files import EncryptedFiles
from ctxwrap.stores.encrypted.keys import Cipher, SessionKeys
from ctxwrap.stores.log_format import number_in, numbered
from ctxwrap.types import Record


class Opened(NamedTuple):
    record: Record | None
    fault: str = ""
    """Why there is none."""


class RecordDecrypter:
    """Opens the records of a stream in their order, from behind the one of a number on."""

    def __init__(self, cipher: Cipher, stream: str, number: int = 0) -> None:
        self._cipher = cipher
        self.stream = stream
        self.number = number
        """The last one that was seen."""

    def open(self, record: Record) -> Opened:
        number = number_of(record)
        if "sealed" not in record:
            return Opened(None, "it is not encrypted")
        found = opened_json(self._cipher, record["sealed"], self.stream, number)
        if not isinstance(found, dict):
            return Opened(None, "it does not open: it was changed, or is of another place")
        if number is not None:
            if number <= self.number:
                return Opened(None, f"it has the number {number} behind number {self.number}")
            self.number = number
        return Opened(found)


def sealed(cipher: Cipher, stream: str, record: Record, number: int | None) -> Record:
    control: Record = {"v": 1} if number is None else {"v": 1, "seq": number}
    return {"sealed": sealed_json(cipher, record, stream, number), "ctx": control}


def sealed_all(cipher: Cipher, stream: str, records: Iterable[Record]) -> list[Record]:
    """The records of one batch; a number that is none above those before it says nothing about a record's place."""
    batch, highest = [], 0
    for record in records:
        number = number_of(record)
        number = number if number is not None and number > highest else None
        batch.append(sealed(cipher, stream, record, number))
        highest = number or highest
    return batch


def number_of(record: Record) -> int | None:
    number = number_in(record)
    return number if number is not None and number is not True and number > 0 else None


def sealed_json(cipher: Cipher, value: Record, *place: str | int | None) -> str:
    return base64.b64encode(cipher.seal(encoded(value), *place)).decode()


def opened_json(cipher: Cipher, text: object, *place: str | int | None) -> Any:
    """What was sealed for this place; None if nothing was."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        is_ours = base64.b64encode(data).decode() == text  # one of several spellings of the same bytes
        opened = cipher.open(data, *place) if is_ours else None
        return None if opened is None else json.loads(opened)
    except (binascii.Error, ValueError, RecursionError):
        return None


logger = logging.getLogger("ctxwrap")

_REMEMBERED = 64


class EncryptedLog:
    def __init__(self, log: Log, door: SessionKeys) -> None:
        self._log = log
        self._door = door
        self.files = EncryptedFiles(log.files, lambda: door.cipher, door.session.session)
        self._numbers: dict[str, dict[int, int]] = defaultdict(dict)
        """By stream and position the last number before it, as far as it was given out."""
        self._reported: set[tuple[str, int | None, str]] = set()

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        try:
            with self._log.locked(redoable=redoable):
                self._door.begin()
                yield
        except StoreError:
            self._door.forget()  # a key that was made here may not be there
            self._numbers.clear()
            raise

    @property
    def place(self) -> Hashable:
        return self._log.place

    def edition(self) -> int:
        return self._log.edition()

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        cipher = self._door.cipher
        if cipher is None:
            return [], 0
        records, position = self._log.read(stream, after)
        opening = RecordDecrypter(cipher, stream, self._numbers[stream].get(after, 0))
        found = [opened for record in records if (opened := self._opened(opening, record)) is not None]
        self._remember(stream, position, opening.number)
        return found, position

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        cipher = self._door.cipher
        if cipher is None:
            return []
        records = self._log.between(stream, first, last)
        if [number_of(record) for record in records] == list(range(first, last + 1)):
            opening = RecordDecrypter(cipher, stream, first - 1)
            found = [self._opened(opening, record) for record in records]
            if None not in found:
                return [record for record in found if record is not None]
        return [record for number, record in numbered(self.read(stream)[0]) if first <= number <= last]

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        cipher = self._door.cipher
        if cipher is None:
            return {}
        found = self._log.pick(stream, numbers).items()
        opened = {number: self._opened(RecordDecrypter(cipher, stream, number - 1), record) for number, record in found}
        return {number: record for number, record in opened.items() if record is not None}

    def lines(self, stream: str) -> Iterator[StreamLine]:
        cipher = self._door.cipher
        if cipher is None:
            return
        opening = RecordDecrypter(cipher, stream)
        for line in self._log.lines(stream):
            if line.record is None:
                yield line
            else:
                record, fault = opening.open(line.record)
                yield line._replace(record=record, fault=fault or line.fault, checked=True)

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        cipher = self._door.begun
        batch = {stream: sealed_all(cipher, stream, records) for stream, records in batches.items()}
        positions = self._log.append(batch, lasting=lasting)
        for stream, position in positions.items():
            self._remember(stream, position, max(number_of(record) or 0 for record in batch[stream]))
        return positions

    def unsynced(self) -> Callable[[], None]:
        return self._log.unsynced()

    def settled(self) -> Callable[[], None]:
        return self._log.settled()

    def lease(self) -> Callable[[], None] | None:
        return self._log.lease()

    @property
    def writer(self) -> str:
        return self._log.writer

    def is_alive(self, writer: str) -> bool:
        return self._log.is_alive(writer)

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        cipher = self._door.begun

        def changed(record: Record) -> Record:
            known, _ = RecordDecrypter(cipher, stream, (number_of(record) or 1) - 1).open(record)
            if known is None:
                return _emptied(record) if _holds(record, banned) else record
            after = change(known)
            return record if after == known else sealed(cipher, stream, after, number_of(record))

        self._log.rewrite(stream, changed, sealed_all(cipher, stream, new), banned)
        self._numbers.clear()

    def load_checkpoint(self) -> Checkpoint | None:
        cipher, found = self._door.cipher, self._log.load_checkpoint()
        if cipher is None or found is None:
            return None
        known = opened_json(cipher, found.known.get("sealed"), "checkpoint", _spelled(found.positions))
        if not isinstance(known, dict):
            logger.debug("session %r: its checkpoint does not open", self._door.session.session)
            return None
        for stream, number in known["numbers"].items():
            self._remember(stream, found.positions[stream], number)
        return Checkpoint(found.positions, known["known"])

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        positions = checkpoint.positions
        numbers = {stream: self._numbers[stream].get(at, 0) for stream, at in positions.items()}
        known = {"known": checkpoint.known, "numbers": numbers}
        text = sealed_json(self._door.begun, known, "checkpoint", _spelled(positions))
        self._log.save_checkpoint(Checkpoint(positions, {"sealed": text}))

    def _opened(self, opening: RecordDecrypter, record: Record) -> Record | None:
        opened, fault = opening.open(record)
        if fault:
            self._report(opening.stream, number_of(record), fault)
        return opened

    def _report(self, stream: str, number: int | None, fault: str) -> None:
        if (stream, number, fault) not in self._reported:
            self._reported.add((stream, number, fault))
            named = "a record" if number is None else f"record {number}"
            logger.error("session %r: %s of %s is passed over: %s", self._door.session.session, named, stream, fault)

    def _remember(self, stream: str, position: int, number: int) -> None:
        known = self._numbers[stream]
        known.pop(position, None)
        known[position] = number
        if len(known) > _REMEMBERED:
            known.pop(next(iter(known)))


def _spelled(positions: Mapping[str, int]) -> str:
    return json.dumps(sorted(positions.items()))


def _holds(record: Record, banned: Sequence[str]) -> bool:
    """Whether a record that somebody wrote in the clear says what must not stay."""
    text = json.dumps(record, default=str)
    return any(json.dumps(each)[1:-1] in text for each in banned)


def _emptied(record: Record) -> Record:
    return {"ctx": {"seq": number_of(record)}}
