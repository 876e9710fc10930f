"""Where a snapshot comes from: from the model in this turn, or from a text that it was shown.

The runtime of a turn, to its microsecond, is what no text of others can hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.extent import ObjectEnd
from ctxwrap.protocol.grammar import OWN_KEY
from ctxwrap.protocol.instructions import DELTA_TEXT, PROTOCOL_TEXT
from ctxwrap.protocol.lookalikes import poses, spelled_out
from ctxwrap.protocol.repair.strict import strict_prefix

COPIED = "the trailer is a copy of text in the request"
_LEAST_NONCE = 16
_LEAST_COPY = 20
_FREE, _LOOK = 64 * 1024, 64
"""How many characters more than twice all of them are looked at for JSON, and what a look counts at least."""
_SHORT = 16 * 1024
"""Up to how many characters a text is remembered with what it holds."""
_OBJECT = lazy_pattern(r"\{(?=\s{0,64}\")")
_MICROSECONDS = lazy_pattern(r":\d\d[.,](\d{6})")
_JOINER = "\N{ZERO WIDTH JOINER}"


def nonce_of(runtime: Mapping[str, Any] | None) -> str:
    """What shows that a snapshot was written for this turn; empty if there is nothing of the kind."""
    datetime = (runtime or {}).get("datetime")
    return datetime if isinstance(datetime, str) and len(datetime) >= _LEAST_NONCE else ""


class ShownTexts:
    """The texts that a request showed the model; what they hold is found out once, and only when asked for."""

    def __init__(self, texts: Sequence[str] = (), block: str = "") -> None:
        self._texts = texts
        self._block = block
        """What rides on the newest message: the state, which a snapshot may repeat, and texts in it."""

    def holds(self, tail: str) -> bool:
        """Whether the object in `tail` stands in what the model was given, in whatever layout and order of keys."""
        object_ = tail[tail.find("{") : tail.rfind("}") + 1]
        if len(object_) <= _LEAST_COPY:
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
        """Whether `text` stands in what the model was given, word for word."""
        return any(text in each for each in (*self._texts, self._block))

    @cached_property
    def has_lookalike(self) -> bool:
        """Whether anything in these texts could be the source of a snapshot."""
        ours = (PROTOCOL_TEXT, DELTA_TEXT)
        texts = (text.replace(_JOINER, "") for text in (*self._texts, self._block))
        return any(poses(text) for text in texts if text not in ours)

    @cached_property
    def _with_keys(self) -> list[str]:
        return [text for text in self._texts if "{" in text and OWN_KEY.search(text)]

    @cached_property
    def _packed(self) -> list[str]:
        return [_packed(text) if len(text) <= _SHORT else "".join(text.split()) for text in self._with_keys]

    @cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return [data for text in self._with_keys for data in _snapshots_in(text)]


@lru_cache(maxsize=128)
def _packed(text: str) -> str:
    return "".join(text.split())


def foreign_fault(tail: str, returned: Any, injected: Mapping[str, Any], shown: ShownTexts) -> str:
    """Why the snapshot in `tail`, which gave `returned` for the runtime, is not this turn's; empty if it may be."""
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
    """Whether it tells another microsecond, which nobody makes up."""
    then, now = _MICROSECONDS.search(datetime), _MICROSECONDS.search(nonce)
    return then is not None and int(then[1]) > 0 and (now is None or then[1] != now[1])


def _without_runtime(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "runtime"}


def _snapshots_in(text: str) -> Sequence[dict[str, Any]]:
    """The objects in a text, in any spelling, without their runtime."""
    return _known_snapshots_in(text) if len(text) <= _SHORT else _all_snapshots_in(text)


def _all_snapshots_in(text: str) -> Sequence[dict[str, Any]]:
    return [_without_runtime(data) for each in spelled_out(text) for data in _objects_in(each)]


_known_snapshots_in = lru_cache(maxsize=128)(_all_snapshots_in)
"""Most texts with such keys are ours, and the same in many requests."""


def _objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The outermost objects of strict JSON in `text` that read as a snapshot might, as far as the looking goes."""
    left, done = 2 * len(text) + _FREE, 0
    for brace in _OBJECT.finditer(text):
        at = brace.start()
        if at < done or left <= 0:
            continue
        finder = ObjectEnd()
        end = finder.feed(text, at)
        left -= max(finder.at - at, _LOOK)
        if end >= 0:
            try:
                data, _ = strict_prefix(text[at:end])
            except ValueError:
                continue
            done = end
            yield data
