"""The origin of a snapshot: written by the model in this turn, or repeated from a text that it was shown."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.extent import ObjectEnd
from ctxwrap.protocol.grammar import OWN_KEY
from ctxwrap.protocol.instructions import DELTA_TEXT, PROTOCOL_TEXT, sanitise
from ctxwrap.protocol.lookalikes import has_imitation, unescaped_forms
from ctxwrap.protocol.repair.strict import strict_prefix

COPIED = "the trailer is a copy of text in the request"
_MIN_NONCE = 16
_MIN_COPY = 20
_ENOUGH = 64
"""So many characters at its end tell an object from most others."""
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

    def __init__(self, texts: Sequence[str] = (), block: str = "", messages: Sequence[str] = ()) -> None:
        self._texts = texts
        """Texts that the model sees as they are."""
        self._block = block
        """The block on the newest message: the state, which a snapshot may repeat, and further texts."""
        self._messages = messages
        """Texts as they were written; the model sees `sanitise` of them."""
        self._shown: list[_ShownText] | None = None
        """The texts that may have an object."""
        self._has_lookalike: bool | None = None

    def holds(self, tail: str, value: dict[str, Any] | None = None) -> bool:
        """Whether the object in `tail` was shown, in any layout and key order; `value` is the object, if known."""
        object_ = tail[tail.find("{") : tail.rfind("}") + 1]
        if len(object_) <= _MIN_COPY:
            return False
        if self._shown is None:
            written = [text for text in self._messages if "{" in text]
            neutral = [plain for text in written if (plain := sanitise(text)) is not text] if written else []
            self._shown = [_analysed(text) for text in (*self._texts, *written, *neutral) if "{" in text]
        end = _packed(object_[-_ENOUGH:])
        keyed: list[_ShownText] = []
        for shown in self._shown:
            if not shown.packed:
                if object_ in shown.text:
                    return True
            elif end in shown.packed and _packed(object_) in shown.packed:
                return True
            else:
                keyed.append(shown)
        if value is None:
            try:
                value, _ = strict_prefix(object_)
            except ValueError:
                return False
        return _without_runtime(value) in chain.from_iterable(map(_objects_of, keyed))

    def quotes(self, text: str) -> bool:
        """Whether `text` was shown verbatim."""
        texts = (*self._texts, *self._messages, *map(sanitise, self._messages), self._block)
        return any(text in each for each in texts)

    @property
    def has_lookalike(self) -> bool:
        """Whether a shown text could be the source of a snapshot."""
        if self._has_lookalike is None:
            texts = [text for text in (*self._texts, *self._messages) if "x" in text or "X" in text]  # as the separator
            self._has_lookalike = _resembles_snapshot(self._block) or any(map(_is_lookalike, texts))
        return self._has_lookalike


class _ShownText:
    """A text with an object, analysed once and on demand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.packed = _packed(text) if OWN_KEY.search(text) else ""
        """Without white space, if an object in it may be a snapshot; else empty."""

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """The objects in it, in any spelling, without their runtime."""
        return [_without_runtime(data) for each in unescaped_forms(self.text) for data in _objects_in(each)]


_objects_of = attrgetter("objects")

# Our own texts and the history recur in many requests.
_analysed_short = lru_cache(maxsize=256)(_ShownText)


def _analysed(text: str) -> _ShownText:
    return _analysed_short(text) if len(text) <= _MAX_CACHED else _ShownText(text)


def _resembles_snapshot(text: str) -> bool:
    plain = text.replace(_JOINER, "")
    return plain not in (PROTOCOL_TEXT, DELTA_TEXT) and has_imitation(plain)


_short_resembles = lru_cache(maxsize=256)(_resembles_snapshot)


def _is_lookalike(text: str) -> bool:
    return _short_resembles(text) if len(text) <= _MAX_CACHED else _resembles_snapshot(text)


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
    bare = data.copy()
    bare.pop("runtime", None)
    return bare


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


SPACE = " \t\r\n"
_SPACE_OR_NOTHING = ("", *SPACE)


class _Space(NamedTuple):
    """White space and its position."""

    text: str = ""
    at: int = 0

    @property
    def height(self) -> tuple[int, int]:
        return self.text.count("\n"), len(self.text)


class CondensedText:
    """The remaining text, with reduced white space around removed parts."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._space: list[str] = []
        """White space directly before `at`."""
        self.at = 0
        """The number of source characters processed."""
        self._before = _Space()
        self._is_cut = False
        self._has_spoken = False
        self.follows_cut = False
        """Whether text follows a removed part."""
        self.spans: list[tuple[int, int]] = []
        """Source positions of the remaining text, in order."""

    def say(self, text: str) -> None:
        """Add text, holding back its final white space."""
        body = text.rstrip(SPACE)
        if body:
            words = body.lstrip(SPACE)
            self._pass(body[: len(body) - len(words)])
            for space in self._gap():
                self._give(space.text, space.at)
            self._give(words, self.at)
            self.at += len(words)
            self._space.clear()
            self.follows_cut |= self._is_cut
            self._is_cut, self._has_spoken = False, True
        self._pass(text[len(body) :])

    def passes(self, text: str) -> bool:
        """Add text if it passes unchanged; return whether it did."""
        if self._is_cut or self._space or text[-1:] in _SPACE_OR_NOTHING:
            return False
        at, spans = self.at, self.spans
        self.at = end = at + len(text)
        if spans and spans[-1][1] == at:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((at, end))
        self._has_spoken = True
        return True

    def cut(self, length: int) -> None:
        """Remove `length` characters here."""
        space = self._kept()
        if not self._is_cut or space.height > self._before.height:
            self._before = space
        self._space.clear()
        self.at += length
        self._is_cut = True

    def take(self) -> str:
        """Return the text added since the last call."""
        said = "".join(self._out)
        self._out.clear()
        return said

    def end(self) -> str:
        """Return the rest, including white space unless it follows a removed part."""
        if not self._is_cut:
            space = self._kept()
            self._give(space.text, space.at)
            self._space.clear()
        return self.take()

    def _pass(self, space: str) -> None:
        if space:
            self._space.append(space)
            self.at += len(space)

    def _kept(self) -> _Space:
        text = "".join(self._space)
        return _Space(text, self.at - len(text))

    def _give(self, text: str, at: int) -> None:
        if not text:
            return
        self._out.append(text)
        if self.spans and self.spans[-1][1] == at:
            self.spans[-1] = self.spans[-1][0], at + len(text)
        else:
            self.spans.append((at, at + len(text)))

    def _gap(self) -> tuple[_Space, ...]:
        """Return the white space between two words: that with more lines, and the second word's indentation."""
        before, after = self._before, self._kept()
        if not self._is_cut:
            return (after,)
        lines = after.text.rfind("\n") + 1
        indent = _Space(after.text[lines:], after.at + lines) if lines else _Space()
        if not self._has_spoken:
            return (indent,)
        if after.height >= before.height:
            return (after,)
        return before._replace(text=before.text[: before.text.rfind("\n") + 1] or before.text), indent
