"""Records as the store below has them: a number and a sealed text, which open only in their stream and their order."""

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ctxwrap.records import number_in
from ctxwrap.stores.encrypted.cipher import Cipher
from ctxwrap.stores.lines import encoded
from ctxwrap.types import Record


class Opened(NamedTuple):
    record: Record | None
    fault: str = ""
    """Why there is none."""


class Opening:
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
