"""Decides whether a snapshot is the model's own or copied from a text it was shown.

The turn's runtime, with microseconds, does not occur in foreign text.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.extent import ObjectEnd
from ctxwrap.protocol.grammar import OWN_KEY
from ctxwrap.protocol.instructions import DELTA_TEXT, PROTOCOL_TEXT
from ctxwrap.protocol.lookalikes import has_imitation, unescaped_forms
from ctxwrap.protocol.repair.strict import strict_prefix

COPIED = "the trailer is a copy of text in the request"
_MIN_NONCE = 16
_MIN_COPY = 20
_FREE_CHARACTERS, _MIN_COST = 64 * 1024, 64
"""Budget for parsing beyond twice the text's length, and the minimum cost of an attempt."""
_MAX_CACHED = 16 * 1024
"""Maximum characters of a text whose analysis is cached."""
_OBJECT = lazy_pattern(r"\{(?=\s{0,64}\")")
_MICROSECONDS = lazy_pattern(r":\d\d[.,](\d{6})")
_JOINER = "\N{ZERO WIDTH JOINER}"


def nonce_of(runtime: Mapping[str, Any] | None) -> str:
    """Return what proves that a snapshot was written for this turn, or ""."""
    datetime = (runtime or {}).get("datetime")
    return datetime if isinstance(datetime, str) and len(datetime) >= _MIN_NONCE else ""


class ShownTexts:
    """The texts shown in a request, analysed once and on demand."""

    def __init__(self, texts: Sequence[str] = (), block: str = "") -> None:
        self._texts = texts
        self._block = block
        """The block on the newest message: the state, which a snapshot may repeat, and further texts."""

    def holds(self, tail: str) -> bool:
        """Whether the object in `tail` was shown, in any layout and key order."""
        object_ = tail[tail.find("{") : tail.rfind("}") + 1]
        if len(object_) <= _MIN_COPY:
            return False
        if any(object_ in text for text in self._texts):
            return True
        packed = "".join(object_.split())
        if any(packed in text for text in self._packed):
            return True
        try:
            data, _ = strict_prefix(object_)
        except ValueError:
            return False
        return _without_runtime(data) in self._objects

    def quotes(self, text: str) -> bool:
        """Whether `text` was shown verbatim."""
        return any(text in each for each in (*self._texts, self._block))

    @cached_property
    def has_lookalike(self) -> bool:
        """Whether a shown text could be the source of a snapshot."""
        ours = (PROTOCOL_TEXT, DELTA_TEXT)
        texts = (text.replace(_JOINER, "") for text in (*self._texts, self._block))
        return any(has_imitation(text) for text in texts if text not in ours)

    @cached_property
    def _with_keys(self) -> list[str]:
        return [text for text in self._texts if "{" in text and OWN_KEY.search(text)]

    @cached_property
    def _packed(self) -> list[str]:
        return [_packed(text) if len(text) <= _MAX_CACHED else "".join(text.split()) for text in self._with_keys]

    @cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return [data for text in self._with_keys for data in _snapshots_in(text)]


@lru_cache(maxsize=128)
def _packed(text: str) -> str:
    return "".join(text.split())


def foreign_fault(tail: str, returned: Any, injected: Mapping[str, Any], shown: ShownTexts) -> str:
    """Return why the snapshot in `tail` with the runtime `returned` is not this turn's; "" if it may be."""
    nonce = nonce_of(injected)
    given = returned if isinstance(returned, dict) else {}
    is_exact = nonce in tail
    if not nonce or (is_exact and given.get("round", injected.get("round")) == injected.get("round")):
        return ""
    datetime = given.get("datetime")
    if not is_exact and isinstance(datetime, str) and _is_other_moment(datetime, nonce):
        return f"foreign: its datetime is {datetime[:40]!r}, which is another turn's"
    if not shown.has_lookalike:
        return ""
    differs = "round" if is_exact else "datetime" if datetime else "runtime"
    return f"foreign: its {differs} is not this turn's, and the request holds a text that it may come from"


def _is_other_moment(datetime: str, nonce: str) -> bool:
    """Whether it states other microseconds, which no model invents."""
    then, now = _MICROSECONDS.search(datetime), _MICROSECONDS.search(nonce)
    return then is not None and int(then[1]) > 0 and (now is None or then[1] != now[1])


def _without_runtime(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "runtime"}


def _snapshots_in(text: str) -> Sequence[dict[str, Any]]:
    """Return the objects in a text, in any spelling, without their runtime."""
    return _known_snapshots_in(text) if len(text) <= _MAX_CACHED else _all_snapshots_in(text)


def _all_snapshots_in(text: str) -> Sequence[dict[str, Any]]:
    return [_without_runtime(data) for each in unescaped_forms(text) for data in _objects_in(each)]


_known_snapshots_in = lru_cache(maxsize=128)(_all_snapshots_in)
"""Most texts with such keys are ours and recur in many requests."""


def _objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost strict JSON objects in `text`, within the parsing budget."""
    left, done = 2 * len(text) + _FREE_CHARACTERS, 0
    for brace in _OBJECT.finditer(text):
        at = brace.start()
        if at < done or left <= 0:
            continue
        finder = ObjectEnd()
        end = finder.feed(text, at)
        left -= max(finder.at - at, _MIN_COST)
        if end >= 0:
            try:
                data, _ = strict_prefix(text[at:end])
            except ValueError:
                continue
            done = end
            yield data
