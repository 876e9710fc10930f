"""The working set as it follows a conversation: what is spoken of rises, large tool results come back as files."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import NamedTuple

from ctxwrap.types import Message, Older
from ctxwrap.workingset.manifest import WorkingFile
from ctxwrap.workingset.reading import FileText
from ctxwrap.workingset.tending import TendingRules, ToolOutput, Use, in_effect, with_outputs
from ctxwrap.workingset.watching import OUTPUT, Offered

_ROUNDS = 10
"""So many rounds are looked at for what they speak of."""
_LOOK = 32 * 1024
"""So many characters of them at most."""
_LARGE = 1000
"""A tool's result of so many characters is worth a file."""
_LONGEST = 64 * 1024
"""So many characters of a result are kept, the last ones."""
_LONGEST_NAME = 64
_SEEN = TendingRules().output_turns + 1
"""Results of so many turns ago are looked at: the last of them is too old, which is worth a word."""
_WORD = re.compile(r"[\w.-]+")
_NO_NAME = re.compile(r"[^\w.-]+")


class Told(NamedTuple):
    """A message of the conversation, by its place from the first one, and the round it belongs to."""

    at: int
    round: int
    message: Message


def backwards(messages: Sequence[Message], last: int) -> Iterator[Told]:
    """The messages of a conversation in round `last`, the newest first: a round begins with what a user says."""
    for at in range(len(messages) - 1, -1, -1):
        yield Told(at, last, messages[at])
        is_first = messages[at].role == "user" and (at == 0 or messages[at - 1].role != "user")
        last -= is_first


def followed(offered: Offered, messages: Sequence[Message], round: int) -> Offered:
    """With the priorities of this turn: moved by what the last rounds speak of, and by hints."""
    uses = uses_in(offered.manifest.files, messages, round)
    outcome = in_effect(offered.manifest, uses, round, offered.hints)
    return offered._replace(manifest=outcome.manifest, adjusted=outcome.decisions)


def uses_in(files: Iterable[WorkingFile], messages: Sequence[Message], round: int) -> dict[str, Use]:
    """In how many of the last rounds each file is spoken of, and when last; before the first of them is not known."""
    texts = dict(_texts_by_round(messages, round))
    words = {number: frozenset(each.rstrip(".-") for each in _WORD.findall(text)) for number, text in texts.items()}
    oldest = min(texts, default=round + 1)
    uses = {}
    for file in files:
        name = file.path.rpartition("/")[2]  # a path that is named names it, too
        said = words if _WORD.fullmatch(name) else texts
        spoken = [number for number in texts if name in said[number]]
        uses[file.path] = Use(len(spoken), max(spoken, default=max(oldest - 1, min(file.turn or 0, round))))
    return uses


def _texts_by_round(messages: Sequence[Message], last: int) -> Iterator[tuple[int, str]]:
    """What was said in the newest rounds that can be looked at as a whole; of the last one at least a part."""
    recent: list[str] = []
    left, current = _LOOK, last
    for told in backwards(messages, last):
        if left < 0:
            break
        if told.round != current:
            yield current, "\n".join(recent)
            recent, current = [], told.round
        if last - current >= _ROUNDS:
            return
        text = _words_of(told.message)
        recent.append(text[:left])
        left -= len(text)
    if recent and (left >= 0 or current == last):
        yield current, "\n".join(recent)


def _words_of(message: Message) -> str:
    return "\n".join([message.text, *(str(call.get("arguments", "")) for call in message.tool_calls)])


def with_results(
    offered: Offered, messages: Sequence[Message], unsent: Sequence[Older], round: int, before: Collection[str]
) -> Offered:
    """With the large results of tools that are not sent, the first of the messages, as files that nobody wrote.

    `before` are the paths of those that the last turn had; `outputs` of what comes back tells what came and went.
    """
    results: dict[str, tuple[int, Older]] = {}
    names: dict[str, str] = {}
    for told in reversed([*takewhile(lambda told: told.round >= round - _SEEN, backwards(messages, round))]):
        names |= {str(call.get("id")): str(call.get("name")) for call in told.message.tool_calls}
        if told.at < len(unsent) and _is_large_result(told.message):
            older = unsent[told.at]
            results[_path(older, names)] = told.round, older
    wanted = [ToolOutput(path, number) for path, (number, _) in reversed(results.items())]
    outcome = with_outputs(offered.manifest, wanted, round, before)
    contents = {
        file.path: _as_text(file.path, results[file.path][1]) for file in outcome.manifest.files if file.path in results
    }
    return offered._replace(
        manifest=outcome.manifest, contents={**offered.contents, **contents}, outputs=outcome.decisions
    )


def _is_large_result(message: Message) -> bool:
    return message.role == "tool" and len(message.text) >= _LARGE


def _path(older: Older, names: Mapping[str, str]) -> str:
    """A path that no file can have, since one of its parts is empty."""
    id = older.message.tool_call_id
    parts = (older.message.name or names.get(id) or "unknown", f"{older.number}-{id}" if id else str(older.number))
    return OUTPUT + "/".join(_NO_NAME.sub("_", part)[:_LONGEST_NAME] for part in parts) + ".txt"


def _as_text(path: str, older: Older) -> FileText:
    text = older.message.text[-_LONGEST:]
    return FileText(path, text, sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), older.tokens)
