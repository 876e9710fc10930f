"""Where texts come from: which lines repeat a memory item, and what was derived from one message."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

from ctxwrap.memory.memory import Memory
from ctxwrap.memory.similarity import codes, content_words, fingerprints, key_of
from ctxwrap.stores.log_format import message_in, message_range, turn_in
from ctxwrap.types import Message, Record


def repeated_in(
    contents: Sequence[str], memory: Memory, query: str | None = None, ids: Sequence[str] = ()
) -> Callable[[str], bool]:
    """Whether a line repeats one of these contents, or contains all words of the query; `ids` are their items."""
    others = (
        each.content
        for each in (*memory.items.values(), *memory.swap.values())
        if each.id not in ids and each.content not in contents
    )
    own_codes = _all_codes(contents) - _all_codes(others)
    asked = set(key_of(query or "").split())
    return partial(_repeats, list(map(content_words, contents)), own_codes, asked)


def _all_codes(texts: Iterable[str]) -> set[str]:
    return {code for text in texts for code in codes(text)}


def _repeats(contents: Sequence[set[str]], own_codes: Set[str], asked: Set[str], line: str) -> bool:
    """Whether a line has most words or a code of a forgotten item, or all words of the query."""
    words = content_words(line)
    if (asked and asked <= set(key_of(line).split())) or own_codes & codes(line):
        return True
    return any(len(words & content) > _MOST * len(content) for content in contents)


_MOST = 0.6


class PurgedMessage:
    """Decides what was derived from one message rather than from others."""

    def __init__(self, messages: Sequence[Record], purged: Record) -> None:
        self._seq: int = purged["ctx"]["seq"]
        self._turn = turn_in(purged)
        self._words = {
            record["ctx"]["seq"]: (turn_in(record), content_words("\n".join(texts_of(record))))
            for record in messages
            if (record.get("ctx") or {}).get("seq")
        }
        self.texts = texts_of(purged)
        self._marks = _marks_of(purged)
        for record in messages:
            if (record.get("ctx") or {}).get("seq") != self._seq:
                self._marks -= _marks_of(record)

    def made(self, source: str, content: str) -> bool:
        """Whether a memory item with this source and content was derived from the message."""
        first, last = message_range(source)
        others = [words for seq, (_, words) in self._words.items() if first <= seq <= last and seq != self._seq]
        return first <= self._seq <= last and self._came_from(content, others)

    def made_task(self, task: str) -> bool:
        others = [words for seq, (turn, words) in self._words.items() if turn == self._turn and seq != self._seq]
        return self._came_from(task, others)

    def made_line(self, line: str) -> bool:
        """Whether a line of any text repeats what only this message contains."""
        if self._marks & fingerprints(line):
            return True
        wanted = content_words(line)
        own = wanted & self._words[self._seq][1]
        others = (words for seq, (_, words) in self._words.items() if seq != self._seq)
        return len(own) >= 2 and 2 * len(own) >= len(wanted) and not any(own <= words for words in others)

    def _came_from(self, content: str, others: Sequence[set[str]]) -> bool:
        """True unless another message contains the same words of the content, and more of them."""
        wanted = content_words(content)
        own = wanted & self._words[self._seq][1]
        return not any(own < wanted & words for words in others)


def texts_of(record: Record) -> list[str]:
    """Return all texts of a message: its text, the strings in its parts, and tool arguments."""
    versions = (record, record["said"]) if isinstance(record.get("said"), dict) else (record,)
    try:
        return [text for each in versions for text in _strings_of(message_in(each)) if text.strip()]
    except ValueError:
        return []


def _marks_of(record: Record) -> set[str]:
    return {mark for text in texts_of(record) for mark in fingerprints(text)}


def _strings_of(message: Message) -> Iterator[str]:
    if isinstance(message.content, str):
        yield message.content
    else:
        for part in message.content:
            yield from strings_in({name: value for name, value in part.items() if name != "type"})
    for call in message.tool_calls:
        yield str(call["arguments"])
    yield from strings_in(message.extra)


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from strings_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings_in(each)
