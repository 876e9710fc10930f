"""Summaries: one message in at most 512 characters, by rules and without a model."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ctxwrap.entries.persons import reported
from ctxwrap.entries.raw import Raw, Summary, must_be_raw
from ctxwrap.entries.requests import asked_elsewhere, asked_to, greeted, names_in, without_opener
from ctxwrap.entries.sentences import ELLIPSIS, HEAD, TAIL, cut, readable, sentences_in
from ctxwrap.entries.telling import facts_in, is_filler, is_question, tells, worth
from ctxwrap.entries.vocabulary import FINITE, NO_NAMES, STARTS
from ctxwrap.language.vocabulary import STOP

LONGEST = 512

_VERBS = {"user": "stated", "assistant": "answered", "tool": "returned"}
_OTHER = {"user": "the assistant", "assistant": "the user"}
_STARTS = frozenset(STARTS.split())
_FINITE = frozenset(FINITE.split())
_NO_NAMES = frozenset(NO_NAMES.split())
_SUBJECTS = frozenset({"they", "he", "she"})
_STOP = frozenset(STOP.split()) | {"nobody", "everybody", "somebody", "yesterday", "today", "tomorrow", "next"}
_WORD = re.compile(r"[\w'’]+")


class Piece(NamedTuple):
    """One sentence on its way into a summary."""

    text: str
    kind: str
    """What it is: `told`, `asked` (a question) or `wanted` (a request)."""


def summary_of(raw: Raw, document: str = "") -> Summary:
    """What somebody said, in the third person and past tense where that is certain, with what it names first to stay.

    `document` is what is known already: the name of who speaks, if the message has none.
    """
    raw = must_be_raw(raw)
    addressee, text = greeted(raw.text)
    sentences = list(dict.fromkeys(without_opener(sentence) for sentence in sentences_in(text)))
    telling = [sentence for sentence in sentences if not is_filler(sentence)]
    if not sentences:
        return Summary(f"{_who(raw, document)} sent a message without words.")
    pieces = [_piece(sentence, raw.role) for sentence in telling or sentences[:1]]
    return _fitting(pieces, raw, addressee, _who(raw, document), len(raw.text) > HEAD + TAIL)


def fitted(text: str) -> Summary:
    """A summary that somebody wrote: as it is, or without the sentences that tell the least, and with `…`."""
    if len(text) <= LONGEST:
        return Summary(text)
    if len(line := " ".join(text.split())) <= LONGEST:
        return Summary(line)
    sentences = sentences_in(text) or [" ".join(readable(text).split())]
    kept = most_telling(sentences, LONGEST - len(ELLIPSIS))
    return Summary(_ended(" ".join(kept), LONGEST))


def most_telling(sentences: Sequence[str], room: int) -> list[str]:
    """Those that tell the most for their length and fit, in their order; the beginning of the best if none fits."""
    order = sorted(range(len(sentences)), key=lambda at: (-_density(sentences[at]), at))
    taken: set[int] = set()
    known: set[str] = set()
    for fresh in (True, False):  # first what adds to the facts, then what there is room for
        for at in order:
            size = len(sentences[at]) + 1
            adds = bool(facts_in(sentences[at]) - known) or not fresh
            if at not in taken and size <= room + 1 and adds and worth(sentences[at]):
                taken.add(at)
                known |= facts_in(sentences[at])
                room -= size
    kept = [sentences[at] for at in sorted(taken)]
    return kept or [cut(sentences[order[0]], room + 1).removesuffix(ELLIPSIS)]


def _density(sentence: str) -> float:
    return worth(sentence) / (len(sentence) + 40)


def _ended(text: str, limit: int) -> str:
    """The text with the mark that something was left out."""
    return cut(text.rstrip(".。 …") + ELLIPSIS, limit)


def _who(raw: Raw, document: str) -> str:
    name = raw.speaker.strip() or names_in(document).get(raw.role, "")
    role = raw.role.strip().capitalize() or "Somebody"
    return cut(" ".join(readable(name).split()), 60) or cut(" ".join(readable(role).split()), 30)


def _piece(sentence: str, role: str) -> Piece:
    if role in _OTHER and (request := asked_to(sentence)):
        return Piece(request, "wanted")
    return Piece(sentence, "asked" if is_question(sentence) or asked_elsewhere(sentence) else "told")


def _fitting(pieces: list[Piece], raw: Raw, addressee: str, who: str, unread: bool) -> Summary:
    """As many pieces as fit, those that tell the most."""
    whole = _rendered(pieces, raw, addressee, who)
    if len(whole) <= LONGEST and not unread:
        return Summary(whole)
    texts = [piece.text for piece in pieces if tells(piece.text)] or [piece.text for piece in pieces]
    room = LONGEST - len(who) - len(addressee) - 30
    while room > 0:
        kept = most_telling(texts, room)
        short = _ended(_rendered(_those(pieces, kept), raw, addressee, who), LONGEST + 1)
        if len(short) <= LONGEST:
            return Summary(short)
        room -= max(20, len(short) - LONGEST)
    return Summary(_ended(whole, LONGEST))


def _those(pieces: list[Piece], texts: list[str]) -> list[Piece]:
    """The pieces of these texts, in their order; the only text may be the beginning of one."""
    kept = []
    rest = iter(pieces)
    for text in texts:
        piece = next((piece for piece in rest if piece.text == text), None) or next(
            piece for piece in pieces if piece.text.startswith(text)
        )
        kept.append(piece._replace(text=text))
    return kept


def _rendered(pieces: list[Piece], raw: Raw, addressee: str, who: str) -> str:
    """Statements first named as such, then the others as they come, each behind who said or asked it."""
    told = [piece.text for piece in pieces if piece.kind == "told"]
    third = [_in_third_person(text, raw) for text in told]
    certain = [text for text in third if text is not None] if all(text is not None for text in third) else told
    statements = iter(certain)
    indirect = certain is not told
    parts: list[str] = []
    last = ""
    for piece in pieces:
        if piece.kind == "told":
            text = next(statements)
            parts.append(_sentence(text) if last == "told" else _stated(text, raw.role, who, addressee, indirect))
        else:
            _ask(parts, piece, who, addressee or (_OTHER[raw.role] if not raw.speaker else ""), last)
        last = piece.kind
    return " ".join(map(_closed, parts))


def _closed(text: str) -> str:
    """With a full stop, if it ends in a letter or the like of a script that has one."""
    return f"{text}." if (text[-1:].isalnum() and text[-1] < "\u2e80") or text.endswith((")", "]", "%", "€")) else text


def _in_third_person(sentence: str, raw: Raw) -> str | None:
    return reported(sentence, _OTHER.get(raw.role, "") if not raw.speaker else "")


def _stated(text: str, role: str, who: str, addressee: str, indirect: bool) -> str:
    verb = f"told {addressee}" if addressee else "said" if is_filler(text) else _VERBS.get(role, "said")
    if indirect and role in _OTHER and _can_follow_that(text):
        return f"{who} {verb} that {_small(text)}"
    return f"{who} {verb}: {_sentence(text) if indirect else text}"


def _can_follow_that(text: str) -> bool:
    """Whether it is a whole sentence, as far as a few words tell."""
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text[:200].partition(": ")[0])]
    if len(words) < 3 or text.partition(" ")[0].endswith(","):
        return False
    if words[0] in _SUBJECTS:
        return True
    if words[0] in _STARTS:
        return any(word in _FINITE or (word.endswith("ed") and len(word) > 4) for word in words[:12])
    named = words[0] not in _FINITE and words[0] not in _NO_NAMES and words[1] not in _STARTS
    return named and not _FINITE.isdisjoint(words[1:3])


def _small(text: str) -> str:
    first = _WORD.match(text)
    word = first[0].lower().replace("’", "'") if first else ""
    return text[0].lower() + text[1:] if word in _STARTS or word in _STOP else text


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _ask(parts: list[str], piece: Piece, who: str, addressee: str, last: str) -> None:
    """Add a question or a request, in the sentence before it if that names who speaks."""
    verb = f"asked: {piece.text}" if piece.kind == "asked" else f"asked {addressee} {piece.text}.".replace("  ", " ")
    if parts and parts[-1].startswith(f"{who} ") and ":" not in parts[-1] and last != "asked":
        again = piece.kind == last == "wanted"
        parts[-1] = f"{parts[-1].rstrip('.!。 ')} and {f'{piece.text}.' if again else verb}"
    else:
        parts.append(f"{who} {verb}")
