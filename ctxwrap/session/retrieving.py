"""What the log of a session holds about a question: an index that follows the log, and the texts of what it finds.

The index lags behind: it holds the messages before the highest `below` that was asked for, since newer ones are sent
anyway and would only stand in the way of what they resemble. It is loaded with the first question, and what the log
has beyond it is added with every one, some at a time if there is much. It is the same for the same messages, whoever
made it; messages that the conversation left are in it and are passed over when it is asked.

What messages mean follows the log in the same way, if there is a model for it; nothing depends on that.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.packing import Packed, choose
from ctxwrap.retrieval.passages import passages
from ctxwrap.retrieval.ranking import Hit, Ranking
from ctxwrap.session import indexed
from ctxwrap.session.branch import Ranges
from ctxwrap.session.following import Following, Pick, text_of
from ctxwrap.session.meanings import Embedding, Meanings, no_model
from ctxwrap.stages.surface import Found, Passage
from ctxwrap.storage import Log
from ctxwrap.types import Record

if TYPE_CHECKING:
    from ctxwrap.retrieval.vectors import Vectors

_QUERY = 4000
"""So many characters of a question are looked for, half of them from its end."""

_RELEVANT = 0.35
"""What has less than so much for it, beside the best, is not worth its tokens: a question has few answers.

On conversations that people ask about, a pack of 2000 tokens is a third smaller so, and holds 1.5 % less of them.
"""

_TRIED = 32
"""So many of the best hits are tried: with those that say the same as another, about what a pack holds."""

_AT_A_TIME = 24
"""The texts of so many hits are read at once."""

_SECONDS = 86_400
"""Of a day."""

_KEPT = 500_000
"""Texts of so many characters are kept at hand."""


class Retriever:
    """Use it inside the session's lock, and another one after every rewriting of the log."""

    def __init__(self, log: Log, embedding: Embedding = no_model, pick: Pick | None = None) -> None:
        """`pick` gives messages of the log, if somebody has some at hand."""
        self._log, self._pick = log, pick or partial(log.pick, "messages")
        self._index: tuple[Index, Following] | None = None
        self._meanings = Meanings(log, embedding, self._pick)
        self._texts = _Texts(log, self._pick)

    def find(self, query: str, below: int, budget: int, count: Callable[[str], int], left: Ranges) -> Found:
        """What messages of lower numbers than `below` say, but for those that are `left`."""
        if below <= 1:
            return Found()
        index, end = self._fed(below)
        if not len(index):
            return Found()
        query, vectors = _shortened(query), self._meanings.of_all_before(end)
        if vectors is None and not _is_specific(index, query):
            return Found()
        ranking = self._ranking(index, query, vectors)
        ranking.leave_out(below, left)
        ranking.hits = ranking.relevant(_RELEVANT, _TRIED)
        texts = self._texts
        texts.expect(ranking.hits)
        chosen, missed = choose(index, ranking, texts.passage, budget, count)
        places = {(hit.number, hit.part): hit.place for hit in ranking.hits}

        def passage(each: Packed) -> Passage:
            place = places[each.number, each.part]
            text = (texts.passage(each.number, each.part) or "").strip()
            told = _heading(index, place), index.speaker(place)
            return Passage(each.number, each.part, text, *told, each.score, each.reasons)

        return Found(tuple(map(passage, chosen)), tuple(map(passage, missed)))

    def search(self, query: str, below: int, limit: int, left: Ranges) -> list[Passage]:
        """The messages that say the most, all before `below` being known; each once, with the best of its passages."""
        index, end = self._fed(below)
        while end < below:
            index, end = self._fed(below)
        if not len(index):
            return []
        ranking = self._ranking(index, _shortened(query), self._meanings.of_all_before(end))
        ranking.leave_out(below, left)
        best: dict[int, Hit] = {}
        for hit in ranking.relevant(0.0):
            best.setdefault(hit.number, hit)
        hits = list(best.values())[:limit]
        self._texts.expect(hits)
        return [self._told(index, hit, ranking.reasons(hit)) for hit in hits]

    def save(self, least: int = 1) -> None:
        """Write down what was indexed since the last time, inside the session's lock, if it is that many messages.

        A question does so only when very much is new: a segment is written whole, so that few messages hardly pay.
        """
        if self._index is not None:
            self._index[1].save(least)
        self._meanings.save(least)

    def _told(self, index: Index, hit: Hit, reasons: tuple[str, ...]) -> Passage:
        text = (self._texts.passage(hit.number, hit.part) or "").strip()
        heading, speaker = _heading(index, hit.place), index.speaker(hit.place)
        return Passage(hit.number, hit.part, text, heading, speaker, hit.score, reasons)

    def _fed(self, below: int) -> tuple[Index, int]:
        """The index, and the first message that is not in it yet."""
        if self._index is None:
            index = indexed.load(self._log, indexed.WORDS, Index.from_segments)
            self._index = index, Following(self._log, self._pick, indexed.WORDS, index, partial(_add, index))
        index, following = self._index
        following.go_on(below)
        return index, following.next

    def _ranking(self, index: Index, query: str, vectors: "Vectors | None") -> Ranking:
        if vectors is not None:
            try:
                return Ranking(index, query, vectors=vectors)
            except Exception as error:
                self._meanings.give_up(error)
        return Ranking(index, query)


def _add(index: Index, number: int, record: Record, text: str) -> None:
    time, role = _time_of(record), str(record.get("role", "user"))
    index.add(number, text, role=role, speaker=_name_in(record), group=_day(time), time=time)


class _Texts:
    """The passages of messages, some read ahead; they never change, so that they are kept for later questions."""

    def __init__(self, log: Log, pick: Pick) -> None:
        self._log, self._pick = log, pick
        self._known: dict[int, list[str]] = {}
        self._size = 0
        self._ahead: list[int] = []

    def expect(self, hits: Iterable[Hit]) -> None:
        """These will be asked for, about in this order."""
        if self._size > _KEPT:
            self._known, self._size = {}, 0
        self._ahead = [number for number in dict.fromkeys(hit.number for hit in hits) if number not in self._known]

    def passage(self, number: int, part: int) -> str | None:
        if number not in self._known:
            ahead, self._ahead = self._ahead[:_AT_A_TIME], self._ahead[_AT_A_TIME:]
            self._read({number, *ahead} - self._known.keys())
        pieces = self._known[number]
        return pieces[part] if part < len(pieces) else None

    def _read(self, numbers: Iterable[int]) -> None:
        found = self._pick(numbers)
        for number in numbers:
            text = text_of(found[number], self._log) if number in found else ""
            self._known[number] = passages(text)
            self._size += len(text) + 1


def _is_specific(index: Index, query: str) -> bool:
    # numpy takes a tenth of a second to import: whoever never searches does not wait for it
    from ctxwrap.retrieval.evidence import is_specific

    return is_specific(index, query)


def _name_in(record: Record) -> str:
    name = record.get("name")
    return " ".join(name.split())[:64] if isinstance(name, str) else ""


def _time_of(record: Record) -> int:
    """In seconds since 1970, 0 if it is not known."""
    try:
        moment = datetime.fromisoformat(record["ctx"]["time"])
    except (LookupError, TypeError, ValueError):
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _day(time: int) -> str:
    return _day_of(time // _SECONDS) if time else ""


@lru_cache(maxsize=4096)
def _day_of(number: int) -> str:
    return f"{datetime.fromtimestamp(number * _SECONDS, UTC):%Y-%m-%d}"


def _heading(index: Index, place: int) -> str:
    return _day(index.times[place]) or index.groups[index.group_of(place)]


def _shortened(query: str) -> str:
    return query if len(query) <= _QUERY else f"{query[: _QUERY // 2]}\n{query[-_QUERY // 2 :]}"
