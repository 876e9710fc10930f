"""Searching a memory: entries by the session's own index, and the version of the context that says the most of it."""

from collections.abc import Sequence

from ctxwrap.language.words import terms_of
from ctxwrap.service.forms import ContextDocument, Findings, Hit
from ctxwrap.service.showing import entries_of, newest, sendable, versions
from ctxwrap.session import Session


def found(session: Session, query: str, top_k: int) -> Findings:
    hits = _hits(session, query, top_k)
    best, score = best_of(versions(session), query)
    return Findings(
        entries=tuple(hits),
        count=len(hits),
        bestContext=best,
        bestContextScore=round(score, 4),
        latestContext=newest(session.past.documents),
    )


def _hits(session: Session, query: str, top_k: int) -> list[Hit]:
    passages = {each.number: each for each in session.search(query, top_k)}
    records = session.log.pick("messages", passages)
    there = [(number, session.whole(records[number])) for number in passages if number in records]
    return [
        Hit(entry=entry, score=round(told.score, 4), passage=sendable(told.text), reasons=told.reasons)
        for entry in entries_of(session, there)
        if (told := passages[int(entry.entryId)])
    ]


def best_of(documents: Sequence[ContextDocument], query: str) -> tuple[ContextDocument | None, float]:
    """The version with the largest share of a query's words, of equals the newest; none if none has any."""
    words = set(terms_of(query))
    best: tuple[ContextDocument | None, float] = None, 0.0
    for each in documents:
        share = len(words & set(terms_of(each.content))) / len(words) if words else 0.0
        if share > best[1]:
            best = each, share
    return best
