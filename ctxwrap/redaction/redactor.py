"""Redaction of JSON and of ctxwrap's own values: requests, messages, records.

Every text and every object key is redacted, unless it is known to be structure.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from typing import Any

from ctxwrap.redaction.policy import ERROR, Redaction
from ctxwrap.redaction.structure import SHARED_FIELDS, FieldNames

_OURS = frozenset({"run", "ctx", "runtime", "sha256", "prefix", "wire"})
"""Fields of an event that hold only ids, hashes, times and numbers of ctxwrap."""

_OUR_FIELDS = frozenset({"runtime", "before", "parent", "writer", "turn"})
"""The same fields of ctxwrap's own values."""

_TRANSPORT = re.compile(
    r"api_(?:key|base|version|type)|base_url|(?:extra_)?headers|extra_query|organization|tenant_id|client_(?:id|secret)"
    r"|(?:aws|azure|vertex|watsonx|oci|databricks)_\w{1,64}"
)
"""Request fields that say how to send it. They are not redacted, and not logged."""

_SECRET_NAME = re.compile("pass|pwd|secret|token|key|senha|contrase|ssn|social|phone|tel|mobil|cell|fax", re.IGNORECASE)
"""Field names that say what kind of secret a value is."""

_NAME, _WORD = re.compile(r"[A-Za-z_$][\w$-]{0,63}"), re.compile(r"[\w.:/-]{1,128}")
_BASE64 = re.compile(r"(?:data:[\w.+-]{1,64}/[\w.+-]{1,64}(?:;[\w=.-]{1,64}){0,4},)?[A-Za-z0-9+/_-]{256,}+={0,2}")
_LARGEST = 10**19


class Redactor:
    """Applies a policy and counts what it finds."""

    def __init__(self, redaction: Redaction, names: FieldNames = SHARED_FIELDS) -> None:
        self.redaction = redaction
        self._names = names
        self.found = Counter[str]()

    def text(self, text: str) -> str:
        redacted = self.redaction.redacted(text)
        self.found.update(dict(redacted.found))
        return redacted.text

    def body(self, body: dict[str, Any], names: FieldNames = SHARED_FIELDS) -> dict[str, Any]:
        """A redacted request. Transport options and signed parts stay; a request without secrets is returned as is."""
        redactor = Redactor(self.redaction, names)
        redactor.found = self.found
        return redactor._without(body, _TRANSPORT.fullmatch, signed=True)

    def value(self, value: Any) -> Any:
        """JSON or a value of ctxwrap with all texts redacted; `value` itself if nothing changes."""
        return self._walk(value)

    def numbers_too(self, value: Any) -> Any:
        """The same for JSON that a model wrote: no field is structure, and an integer may be a card number."""
        return self._walk(value, free=True)

    def records(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Redacted events; the fields that ctxwrap fills itself stay."""
        return [self._without(event, _OURS.__contains__) for event in events]

    def _without(
        self, value: dict[str, Any], is_left: Callable[[str], object], *, signed: bool = False
    ) -> dict[str, Any]:
        """A redacted object; the fields that `is_left` names stay."""
        looked_at = {name: each for name, each in value.items() if not is_left(name)}
        changed = self._walk(looked_at, signed=signed)
        if changed is looked_at:
            return value
        fields = iter(changed.items())
        return dict(next(fields) if name in looked_at else (name, each) for name, each in value.items())

    def json_text(self, text: str) -> str:
        """A text that should be JSON: its values are redacted, however they are escaped."""
        if not text:
            return text
        try:
            value = json.loads(text, object_pairs_hook=_object)
            changed = self.numbers_too(value)
            return text if changed is value else json.dumps(changed, ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.text(text)

    def _walk(self, value: Any, name: str = "", kind: Any = None, *, free: bool = False, signed: bool = False) -> Any:
        """`name` is the field that holds the value, and `kind` the `type` of the object that has the field.

        One function, so that values can be nested as deep as Python's recursion limit allows; deeper ones are replaced.
        """
        if isinstance(value, str):
            return self._string(value, name, kind, free)
        if isinstance(value, Mapping):
            if signed and self._is_signed(value, name):
                return value
            changed, is_same, is_call = dict[Any, Any](), True, "name" in value
            for key, each in value.items():
                inner = free or key == "metadata" or (key == "input" and is_call)
                try:
                    new = self._walk(each, key, value.get("type"), free=inner, signed=signed)
                except RecursionError:
                    new = ERROR
                new_key = self._key(key, free)
                while new_key != key and (new_key in changed or new_key in value):
                    new_key += "'"
                changed[new_key] = new
                is_same = is_same and new is each and new_key == key
            return value if is_same else changed
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)) and not hasattr(value, "_fields"):
            items = []
            for each in value:
                try:
                    items.append(self._walk(each, name, kind, free=free, signed=signed))
                except RecursionError:
                    items.append(ERROR)
            return value if all(map(_is, items, value)) else (list if isinstance(value, list) else tuple)(items)
        if isinstance(value, int) and free and not isinstance(value, bool) and abs(value) < _LARGEST:
            digits = str(value)
            redacted = self._string(digits, name, kind, free)
            return value if redacted == digits else redacted
        if isinstance(value, tuple):
            return self._fields_of(value, value._fields, value._replace)  # type: ignore[attr-defined]
        if is_dataclass(value) and not isinstance(value, type):
            return self._fields_of(value, [field.name for field in fields(value)], lambda **new: replace(value, **new))
        return value

    def _fields_of(self, value: Any, names: Iterable[str], make: Callable[..., Any]) -> Any:
        """A named tuple or dataclass, field by field."""
        old = {name: getattr(value, name) for name in names if name not in _OUR_FIELDS}
        new = {name: self._walk(each, name) for name, each in old.items()}
        return value if all(new[name] is each for name, each in old.items()) else make(**new)

    def _string(self, text: str, name: str, kind: Any, free: bool) -> str:
        if free:
            return self._named_text(text, name)
        if name in ("arguments", "partial_json"):
            return self.json_text(text)
        if name in self._names.ids:
            return text if self._by_patterns(text) == text else _other_id(text)
        if name in self._names.words and _WORD.fullmatch(text):
            return self._by_patterns(text)
        if name in self._names.encoded and kind != "text" and _BASE64.fullmatch(text):
            return text
        return self._named_text(text, name)

    def _is_signed(self, part: Mapping[str, Any], name: str) -> bool:
        if self._names.signed.isdisjoint((str(part.get("type")), name)):
            return False
        signature = part.get("signature") or part.get("encrypted_content") or part.get("data")
        return isinstance(signature, str) and self._string(signature, "signature", None, free=False) == signature

    def _named_text(self, text: str, name: str) -> str:
        """A text under a field name, which may say that the text is a password."""
        redacted = self.text(text)
        if redacted != text or not isinstance(name, str) or not _SECRET_NAME.search(name):
            return redacted
        head = f'"{name}": "'
        line = self._by_patterns(f'{head}{text}"')
        return line[len(head) : -1] if line.startswith(head) and line.endswith('"') else text

    def _key(self, name: Any, free: bool) -> Any:
        if not isinstance(name, str):
            return name
        return self.text(name) if free or not _NAME.fullmatch(name) else self._by_patterns(name)

    def _by_patterns(self, text: str) -> str:
        """A text redacted by patterns, without `also`."""
        redacted = self.redaction.redacted(text, patterns_only=True)
        self.found.update(dict(redacted.found))
        return redacted.text


def _other_id(id: str) -> str:
    """A replacement that every provider accepts, the same for the same id."""
    return f"redacted_{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _is(new: Any, old: Any) -> bool:
    return new is old


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a ValueError if a key is repeated, since all but one of its values would be lost."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("repeated key")
    return made


def redaction_function(redaction: Redaction | None) -> Callable[[Any], Any]:
    """The function that applies a policy to a text or to JSON; the identity if there is no policy."""
    return Redactor(redaction).value if redaction else _same


def _same(value: Any) -> Any:
    return value
