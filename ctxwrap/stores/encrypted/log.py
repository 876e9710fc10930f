"""One session's streams with encrypted records; the store below sees only numbers and sizes."""

import base64
import binascii
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ctxwrap.encoding import encode_json
from ctxwrap.errors import StoreError
from ctxwrap.stores.base import Checkpoint, Log, RecordChange, StreamLine
from ctxwrap.stores.encrypted.files import EncryptedFiles
from ctxwrap.stores.encrypted.keys import Cipher, SessionKeys
from ctxwrap.stores.log_format import number_in, numbered
from ctxwrap.types import Record


class OpenedRecord(NamedTuple):
    record: Record | None
    fault: str = ""
    """Why there is no record."""


class RecordDecrypter:
    """Decrypts the records of a stream in order, starting after a number."""

    def __init__(self, cipher: Cipher, stream: str, number: int = 0) -> None:
        self._cipher = cipher
        self.stream = stream
        self.number = number
        """The number of the last record."""

    def open(self, record: Record) -> OpenedRecord:
        number = number_of(record)
        if "sealed" not in record:
            return OpenedRecord(None, "it is not encrypted")
        found = open_json(self._cipher, record["sealed"], self.stream, number)
        if not isinstance(found, dict):
            return OpenedRecord(None, "it does not decrypt: it was changed, or belongs to another place")
        if number is not None:
            if number <= self.number:
                return OpenedRecord(None, f"it has the number {number} behind number {self.number}")
            self.number = number
        return OpenedRecord(found)


def seal_record(cipher: Cipher, stream: str, record: Record, number: int | None) -> Record:
    control: Record = {"v": 1} if number is None else {"v": 1, "seq": number}
    return {"sealed": seal_json(cipher, record, stream, number), "ctx": control}


def seal_batch(cipher: Cipher, stream: str, records: Iterable[Record]) -> list[Record]:
    """The records of one batch; a number not above those before it is left out."""
    batch, highest = [], 0
    for record in records:
        number = number_of(record)
        number = number if number is not None and number > highest else None
        batch.append(seal_record(cipher, stream, record, number))
        highest = number or highest
    return batch


def number_of(record: Record) -> int | None:
    number = number_in(record)
    return number if number is not None and number is not True and number > 0 else None


def seal_json(cipher: Cipher, value: Record, *place: str | int | None) -> str:
    return base64.b64encode(cipher.seal(encode_json(value), *place)).decode()


def open_json(cipher: Cipher, text: object, *place: str | int | None) -> Any:
    """The JSON value that was sealed for this place; None if there is none."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        is_ours = base64.b64encode(data).decode() == text  # base64 has several spellings of the same bytes
        opened = cipher.open(data, *place) if is_ours else None
        return None if opened is None else json.loads(opened)
    except (binascii.Error, ValueError, RecursionError):
        return None


logger = logging.getLogger("ctxwrap")

_MAX_POSITIONS = 64


class EncryptedLog:
    def __init__(self, log: Log, keys: SessionKeys) -> None:
        self._log = log
        self._keys = keys
        self.files = EncryptedFiles(log.files, lambda: keys.cipher, keys.session.session)
        self._numbers: dict[str, dict[int, int]] = defaultdict(dict)
        """By stream and position, the last number before it, for positions that were returned."""
        self._reported: set[tuple[str, int | None, str]] = set()

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        try:
            with self._log.locked(redoable=redoable):
                self._keys.create()
                yield
        except StoreError:
            self._keys.forget()  # a key created here may not be stored
            self._numbers.clear()
            raise

    @property
    def place(self) -> Hashable:
        return self._log.place

    def edition(self) -> int:
        return self._log.edition()

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        cipher = self._keys.cipher
        if cipher is None:
            return [], 0
        records, position = self._log.read(stream, after)
        decrypter = RecordDecrypter(cipher, stream, self._numbers[stream].get(after, 0))
        found = [opened for record in records if (opened := self._open(decrypter, record)) is not None]
        self._remember(stream, position, decrypter.number)
        return found, position

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        cipher = self._keys.cipher
        if cipher is None:
            return []
        records = self._log.between(stream, first, last)
        if [number_of(record) for record in records] == list(range(first, last + 1)):
            decrypter = RecordDecrypter(cipher, stream, first - 1)
            found = [self._open(decrypter, record) for record in records]
            if None not in found:
                return [record for record in found if record is not None]
        return [record for number, record in numbered(self.read(stream)[0]) if first <= number <= last]

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        cipher = self._keys.cipher
        if cipher is None:
            return {}
        found = self._log.pick(stream, numbers).items()
        opened = {number: self._open(RecordDecrypter(cipher, stream, number - 1), record) for number, record in found}
        return {number: record for number, record in opened.items() if record is not None}

    def lines(self, stream: str) -> Iterator[StreamLine]:
        cipher = self._keys.cipher
        if cipher is None:
            return
        decrypter = RecordDecrypter(cipher, stream)
        for line in self._log.lines(stream):
            if line.record is None:
                yield line
            else:
                record, fault = decrypter.open(line.record)
                yield line._replace(record=record, fault=fault or line.fault, checked=True)

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        cipher = self._keys.cipher_in_lock
        batch = {stream: seal_batch(cipher, stream, records) for stream, records in batches.items()}
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
        cipher = self._keys.cipher_in_lock

        def changed(record: Record) -> Record:
            known, _ = RecordDecrypter(cipher, stream, (number_of(record) or 1) - 1).open(record)
            if known is None:
                return _without_content(record) if _contains(record, banned) else record
            after = change(known)
            return record if after == known else seal_record(cipher, stream, after, number_of(record))

        self._log.rewrite(stream, changed, seal_batch(cipher, stream, new), banned)
        self._numbers.clear()

    def load_checkpoint(self) -> Checkpoint | None:
        cipher, found = self._keys.cipher, self._log.load_checkpoint()
        if cipher is None or found is None:
            return None
        known = open_json(cipher, found.known.get("sealed"), "checkpoint", _position_text(found.positions))
        if not isinstance(known, dict):
            logger.debug("session %r: its checkpoint does not decrypt", self._keys.session.session)
            return None
        for stream, number in known["numbers"].items():
            self._remember(stream, found.positions[stream], number)
        return Checkpoint(found.positions, known["known"])

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        positions = checkpoint.positions
        numbers = {stream: self._numbers[stream].get(at, 0) for stream, at in positions.items()}
        known = {"known": checkpoint.known, "numbers": numbers}
        text = seal_json(self._keys.cipher_in_lock, known, "checkpoint", _position_text(positions))
        self._log.save_checkpoint(Checkpoint(positions, {"sealed": text}))

    def _open(self, decrypter: RecordDecrypter, record: Record) -> Record | None:
        opened, fault = decrypter.open(record)
        if fault:
            self._report(decrypter.stream, number_of(record), fault)
        return opened

    def _report(self, stream: str, number: int | None, fault: str) -> None:
        if (stream, number, fault) not in self._reported:
            self._reported.add((stream, number, fault))
            named = "a record" if number is None else f"record {number}"
            logger.error("session %r: %s of %s is skipped: %s", self._keys.session.session, named, stream, fault)

    def _remember(self, stream: str, position: int, number: int) -> None:
        known = self._numbers[stream]
        known.pop(position, None)
        known[position] = number
        if len(known) > _MAX_POSITIONS:
            known.pop(next(iter(known)))


def _position_text(positions: Mapping[str, int]) -> str:
    return json.dumps(sorted(positions.items()))


def _contains(record: Record, banned: Sequence[str]) -> bool:
    """Whether a record in plaintext contains a banned text."""
    text = json.dumps(record, default=str)
    return any(json.dumps(each)[1:-1] in text for each in banned)


def _without_content(record: Record) -> Record:
    return {"ctx": {"seq": number_of(record)}}
