"""Search in a session's log: an index of words, and of vectors if a model is installed, that follows the log."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from math import inf
from typing import TYPE_CHECKING, Any

from ctxwrap.pack.selection import Retrieved
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.passages import passages
from ctxwrap.retrieval.selection import Lines, Passage, choose_passages, day_name, heading_of
from ctxwrap.session import index_files
from ctxwrap.session.blobs import beginning_of
from ctxwrap.session.branch import Ranges
from ctxwrap.session.clock import Clock, utc_now
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Log
from ctxwrap.stores.log_format import message_in
from ctxwrap.types import Record

if TYPE_CHECKING:
    from ctxwrap.retrieval.ranking import RankedPassage, Ranking
    from ctxwrap.retrieval.vectors import Embedder, Numbers, Vectors


logger = logging.getLogger("ctxwrap")

_INDEXED = {"user": 32_000, "assistant": 32_000, "tool": 3_600}
"""The roles that are indexed, and the characters of each message: about eight passages of a tool output."""

_AT_ONCE = 512
"""The most messages indexed per query; the rest waits for the next."""

_RECORDS_AT_A_TIME = 32
"""Messages per read."""

_UNSAVED = 256
"""After this many new messages a query saves the index itself."""

_LONG = 1000
"""A message counts once more for each so many characters: to index it again takes that much longer."""

_MEANINGS_EVERY = 32
"""Vectors are saved after this many new messages at the latest: they take longer to make than an index of words."""

Add = Callable[[int, Record, str], None]
"""Adds a message: its number and the text to index."""

Pick = Callable[[Iterable[int]], Mapping[int, Record]]
"""Reads messages by number."""


class IncrementalIndexer:
    """Indexes new messages of a log; use it inside the session's lock."""

    def __init__(
        self,
        log: Log,
        pick: Pick,
        kind: index_files.IndexKind,
        whole: index_files.Segmented,
        add: Add,
        most: float = inf,
    ) -> None:
        """`add` extends `whole` by messages of about `most` characters per query."""
        self._log, self._pick, self._kind, self._whole = log, pick, kind, whole
        self._add, self._most = add, most
        self.next = max(1, whole.highest + 1)
        """The first message that is not indexed."""
        self._unsaved = 0

    def go_on(self, below: int, end: int) -> None:
        """If a message before `below` is missing, index all that are there before `end`, up to the limit per query.

        A query needs no newer ones, but few at a time cost more, and what is kept about an index ends when it grows.
        """
        if self.next >= below:
            return
        end, left = min(end, self.next + _AT_ONCE), self._most
        while self.next < end and left > 0:
            first, self.next = self.next, min(end, self.next + _RECORDS_AT_A_TIME)
            for number, record in sorted(self._pick(range(first, self.next)).items()):
                left -= self._take(number, record)
        self.save(_UNSAVED)

    def upcoming(self, below: int, most: int) -> list[tuple[int, str]]:
        """The next messages with their texts, up to about `most` characters."""
        found: list[tuple[int, str]] = []
        for first in range(self.next, below, _RECORDS_AT_A_TIME):
            records = self._pick(range(first, min(below, first + _RECORDS_AT_A_TIME)))
            for number, record in sorted(records.items()):
                text = text_of(record, self._log)
                if most <= 0:
                    return found
                most -= len(text) + 1
                found.append((number, text))
        return found

    def skip_to(self, number: int, added: int) -> None:
        """Go on at that message; `added` messages before it were added by the caller."""
        self.next, self._unsaved = max(self.next, number), self._unsaved + added

    def save(self, least: int = 1) -> None:
        """Save the index if at least this many messages are new."""
        if self._unsaved >= least:
            self._unsaved = 0
            index_files.save(self._log, self._kind, self._whole)

    def _take(self, number: int, record: Record) -> int:
        """The length of a message."""
        self._unsaved += 1
        try:
            text = text_of(record, self._log)
            self._unsaved += len(text) // _LONG
            if text.strip():
                self._add(number, record, text)
            return len(text)
        except Exception as error:
            logger.debug("could not index message %d: %r", number, error)
            return 0


def text_of(record: Record, log: Log) -> str:
    """The text of a message to index; empty if it was purged."""
    control, length = record.get("ctx") or {}, _INDEXED.get(record.get("role", "user"), 0)
    if not length or "purged" in control:
        return ""
    if (blob := control.get("blob")) is not None:
        return beginning_of(blob, log.files, length)
    content = record.get("content")
    if not isinstance(content, str) or record.get("tool_calls"):  # most messages are plain, and need no check
        content = message_in(record).text
    return content[:length]


_MEANT_AT_ONCE = 400_000
"""About this many characters are embedded per query, which takes half a second."""

_NOT_YET_EMBEDDED = 64
"""So many of the newest messages may lack vectors of a remote model: they are in the request anyway."""

Embedding = Callable[[], "Embedder | None"]
"""Loads the model on first use; None if there is none."""


def embedding_for(settings: Settings) -> Embedding:
    if (given := settings.embedder) is not None:
        return partial(_model_of_the_caller, given)
    return _model_of_the_extra if settings.embeddings else no_model


@lru_cache(16)
def _model_of_the_caller(given: Hashable) -> "Embedder":
    """One for all sessions: it keeps the vectors of questions."""
    from ctxwrap.retrieval.embedder import as_embedder

    return as_embedder(given)


def no_model() -> None:
    return None


def _model_of_the_extra() -> "Embedder | None":
    # an application without embeddings does not wait for the import
    from ctxwrap.retrieval.wordllama import load_wordllama

    return load_wordllama()


class Meanings:
    """The vectors of a log; none without a model, or after any error."""

    def __init__(self, log: Log, embedding: Embedding, pick: Pick) -> None:
        self._log, self._pick = log, pick
        self._embedding = embedding
        self._vectors: tuple[Vectors, IncrementalIndexer] | None = None

    def of_all_before(self, number: int, end: int) -> "Vectors | None":
        """None until nearly all these messages are embedded: a part alone would outrank the others.

        There are messages up to `end`.
        """
        if self._embedding is no_model:
            return None
        try:
            self._vectors = self._vectors or self._loaded()
            if self._vectors is None:
                return None
            vectors, following = self._vectors
            if not vectors.is_remote:
                following.go_on(number, end)
            return vectors if following.next >= number - _NOT_YET_EMBEDDED * vectors.is_remote else None
        except Exception as error:
            self.give_up(error)
            return None

    def pending(self, below: int) -> "tuple[int, Vectors, list[tuple[int, str]]] | None":
        """The edition of the log, the vectors of a remote model, and the next messages without one; None if all have.

        Call it inside the session's lock.
        """
        try:
            self._vectors = self._vectors or self._loaded()
        except Exception as error:
            self.give_up(error)
        if self._vectors is None or not self._vectors[0].is_remote:
            return None
        vectors, following = self._vectors
        waiting = following.upcoming(below, _MEANT_AT_ONCE)
        return (self._log.edition(), vectors, waiting) if waiting else None

    def take(self, edition: int, rows: Sequence[tuple[int, "Numbers"]], below: int) -> None:
        """Add vectors made outside of the lock; call it inside.

        Of a log that was rewritten meanwhile, a message may be purged.
        """
        if self._log.edition() != edition:
            self._embedding, self._vectors = no_model, None
        if self._vectors is not None:
            vectors, following = self._vectors
            for number, made in rows:
                if number > vectors.highest:
                    vectors.put(number, made)
            following.skip_to(below, len(rows))
            following.save()

    def save(self, least: int = 1) -> None:
        """Save the index if at least this many messages are new."""
        if self._vectors is not None:
            self._vectors[1].save(least)

    def give_up(self, error: Exception) -> None:
        logger.warning("embeddings failed, earlier messages are found by words only: %r", error)
        self._embedding, self._vectors = no_model, None

    def _loaded(self) -> "tuple[Vectors, IncrementalIndexer] | None":
        embedder = self._embedding()
        if embedder is None:
            return None
        from ctxwrap.retrieval.vectors import Vectors

        kind = index_files.meanings(embedder.name)
        vectors = index_files.load(self._log, kind, partial(Vectors.from_segments, embedder))

        def add(number: int, _: Record, text: str) -> None:
            vectors.add(number, text)

        return vectors, IncrementalIndexer(self._log, self._pick, kind, vectors, add, _MEANT_AT_ONCE)


_QUERY = 4000
"""The characters of a query that are used, half of them from its end."""


def tried(budget: int) -> int:
    """The number of best hits tried: with duplicates, about what the budget holds."""
    return max(32, budget // 20)


_AT_A_TIME = 24
"""Hits whose texts are read at once."""

_DAY = 86_400

_KEPT = 500_000
"""The size of the text cache, in characters."""


class Retriever:
    """Searches a session's log; use it inside the session's lock, and a new one after the log is rewritten."""

    def __init__(
        self, log: Log, embedding: Embedding = no_model, pick: Pick | None = None, clock: Clock = utc_now
    ) -> None:
        """`pick` reads messages of the log, possibly from a cache."""
        self._log, self._pick, self._clock = log, pick or partial(log.pick, "messages"), clock
        self._index: tuple[Index, IncrementalIndexer] | None = None
        self._meanings = Meanings(log, embedding, self._pick)
        self._texts = _Texts(log, self._pick)
        self._lines: Lines | None = None

    def find(
        self, query: str, below: int, budget: int, count: Callable[[str], int], left: Ranges, end: int = 0
    ) -> Retrieved:
        """Passages of messages before `below`, without abandoned (`left`) ones; the log has messages up to `end`."""
        if below <= 1:
            return Retrieved()
        index, indexed = self._fed(below, max(below, end))
        place = bisect_left(index.numbers, below)
        if not place:
            return Retrieved()
        query, vectors = _shortened(query), self._meanings.of_all_before(min(below, indexed), indexed)
        is_specific, hits_for, _ = _ranking_tools()
        if vectors is None and not is_specific(index, query, place):
            return Retrieved()
        ranking = self._ranking(index, query, vectors, hits_for(index, budget, place), place)
        ranking.leave_out(below, left)
        texts = self._texts
        texts.expect(partial(ranking.best_numbers, _AT_A_TIME))
        ranking.follow(texts.passage)
        hits = ranking.relevant(tried(budget))
        texts.expect(lambda: [hit.number for hit in hits])
        if self._lines is None or self._lines.count is not count:
            self._lines = Lines(index, texts.passage, count)
        return Retrieved(*choose_passages(self._lines, ranking, hits, budget))

    def search(self, query: str, below: int, limit: int, left: Ranges) -> list[Passage]:
        """The best messages before `below`, each once, with its best passage."""
        index, end = self._fed(below, below)
        while end < below:
            index, end = self._fed(below, below)
        if not len(index):
            return []
        vectors, place = self._meanings.of_all_before(end, end), bisect_left(index.numbers, below)
        ranking = self._ranking(index, _shortened(query), vectors, max(300, 4 * limit), place)
        ranking.leave_out(below, left)
        best: dict[int, RankedPassage] = {}
        for hit in ranking.related():
            best.setdefault(hit.number, hit)
        hits = list(best.values())[:limit]
        self._texts.expect(lambda: [hit.number for hit in hits])
        return [self._told(index, *each) for each in zip(hits, ranking.reasons(hits), strict=True)]

    def embed(self, below: int, transaction: Callable[[Callable[[], Any]], Any]) -> None:
        """Embed new messages with the caller's model; the session is locked only before and after, not meanwhile."""
        while batch := transaction(partial(self._meanings.pending, below)):
            edition, vectors, waiting = batch
            try:
                rows = vectors.embedded(waiting)
            except Exception as error:
                logger.warning("the embedder failed, new messages are found by words until it works: %r", error)
                return
            transaction(partial(self._meanings.take, edition, rows, waiting[-1][0] + 1))

    def save(self, least: int = 1) -> None:
        """Save the index if at least this many messages are new; call it inside the session's lock.

        A segment is written whole, so saving after few messages does not pay.
        """
        if self._index is not None:
            self._index[1].save(least)
        self._meanings.save(min(least, _MEANINGS_EVERY))

    def _told(self, index: Index, hit: "RankedPassage", reasons: tuple[str, ...]) -> Passage:
        text = (self._texts.passage(hit.number, hit.part) or "").strip()
        heading, speaker = heading_of(index, hit.place), index.speaker(hit.place)
        return Passage(hit.number, hit.part, text, heading, speaker, hit.score, reasons)

    def _fed(self, below: int, end: int) -> tuple[Index, int]:
        """The index of at least the messages before `below`, if not too many are new; and the first that it lacks."""
        if self._index is None:
            index = index_files.load(self._log, index_files.WORDS, Index.from_segments)
            self._index = (
                index,
                IncrementalIndexer(self._log, self._pick, index_files.WORDS, index, partial(_add, index, self._texts)),
            )
        index, following = self._index
        following.go_on(below, end)
        return index, following.next

    def _ranking(self, index: Index, query: str, vectors: "Vectors | None", limit: int, end: int) -> "Ranking":
        now, (_, _, ranking) = int(self._clock().timestamp()), _ranking_tools()
        if vectors is not None:
            try:
                return ranking(index, query, limit, vectors, now, end)
            except Exception as error:
                self._meanings.give_up(error)
        return ranking(index, query, limit, None, now, end)


def _add(index: Index, texts: "_Texts", number: int, record: Record, text: str) -> None:
    time, role = _time_of(record), str(record.get("role", "user"))
    day = day_name(time // _DAY) if time else ""
    pieces = index.add(number, text, role=role, speaker=_name_in(record), group=day, time=time)
    texts.keep(number, pieces, len(text))


class _Texts:
    """A cache of passages, read ahead; messages never change."""

    def __init__(self, log: Log, pick: Pick) -> None:
        self._log, self._pick = log, pick
        self._known: dict[int, list[str]] = {}
        self._size = 0
        self._expected: Callable[[], Iterable[int]] = tuple
        self._ahead: list[int] = []

    def keep(self, number: int, pieces: list[str], size: int) -> None:
        """Keep a message that is at hand, if there is room."""
        if self._size + size < _KEPT:
            self._known[number] = pieces
            self._size += size + 1

    def expect(self, numbers: Callable[[], Iterable[int]]) -> None:
        """Announce the messages to be read, about in this order; asked for when one is not known, which is rare."""
        if self._size > _KEPT:
            self._known, self._size = {}, 0
        self._expected, self._ahead = numbers, []

    def passage(self, number: int, part: int) -> str | None:
        if (pieces := self._known.get(number)) is None:
            self._ahead += [each for each in dict.fromkeys(self._expected()) if each not in self._known]
            self._expected = tuple
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


@cache
def _ranking_tools() -> "tuple[Callable[[Index, str, int], bool], Callable[[Index, int, int], int], type[Ranking]]":
    # numpy takes 0.1 s to import: load it with the first search
    from ctxwrap.retrieval.features import is_specific
    from ctxwrap.retrieval.ranking import Ranking, hits_for

    return is_specific, hits_for, Ranking


def _name_in(record: Record) -> str:
    name = record.get("name")
    return " ".join(name.split())[:64] if isinstance(name, str) else ""


def _time_of(record: Record) -> int:
    """Seconds since 1970; 0 if unknown."""
    try:
        moment = datetime.fromisoformat(record["ctx"]["time"])
    except (LookupError, TypeError, ValueError):
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _shortened(query: str) -> str:
    return query if len(query) <= _QUERY else f"{query[: _QUERY // 2]}\n{query[-_QUERY // 2 :]}"
