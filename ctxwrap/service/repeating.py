"""Whether a context document repeats a summary: it may grow from raw entries only, so that no error feeds itself."""

from collections.abc import Iterable, Iterator
from itertools import islice

from ctxwrap.entries.sentences import sentences_in
from ctxwrap.errors import InvalidInput
from ctxwrap.service.forms import Entry
from ctxwrap.service.paging import is_entry, page_before
from ctxwrap.service.showing import entries_of
from ctxwrap.session import Session

_SHORTEST = 40
"""From that length on, words that are the same are no accident."""

_NEWEST = 200
"""The summaries of so many of the newest entries are looked at in any case."""

_LINES, _HITS = 40, 5
"""So many new lines are looked for among all entries, with so many of the likeliest for each."""


def refuse_summaries(session: Session, content: str, before: str) -> None:
    """An InvalidInput if what `content` has beyond the version `before` repeats the summary of an entry."""
    known = set(before.splitlines())
    new = [line for line in content.splitlines() if len(line) >= _SHORTEST and line not in known]
    told = _plain("\n".join(line for line in content.splitlines() if line not in known))
    if len(told) < _SHORTEST:
        return
    for entry in _likely(session, new):
        repeated = _repeated(entry, told)
        if repeated:
            raise InvalidInput(
                f"the context repeats the summary of entry {entry.entryId} ({repeated[:60]!r}…): it may be made of "
                "what entries say themselves (rawEntry) only, never of their summaries"
            )


def _likely(session: Session, lines: Iterable[str]) -> Iterator[Entry]:
    newest = page_before(session, None, _NEWEST).records
    yield from entries_of(session, newest)
    if len(newest) < _NEWEST:
        return
    seen = {number for number, _ in newest}
    for line in islice(lines, _LINES):
        numbers = {each.number for each in session.search(line, _HITS)} - seen
        seen |= numbers
        found = session.log.pick("messages", numbers) if numbers else {}
        yield from entries_of(
            session, [(number, session.whole(each)) for number, each in found.items() if is_entry(each)]
        )


def _repeated(entry: Entry, told: str) -> str:
    """The first piece of a summary that is told again and not in the words of the entry itself."""
    raw = _plain(entry.rawEntry)
    pieces = (_plain(piece).strip(" .…") for piece in (entry.summary, *sentences_in(entry.summary)))
    return next((each for each in pieces if len(each) >= _SHORTEST and each in told and each not in raw), "")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
