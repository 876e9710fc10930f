"""The start of a turn: the caller's messages are aligned with the log, and the runtime fields are set."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from itertools import compress
from operator import attrgetter
from typing import Any

from ctxwrap.callers_list import values_of
from ctxwrap.memory.decay import TierMove
from ctxwrap.memory.epoch import known_epoch
from ctxwrap.memory.items import MemoryItem, is_foreign
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.operations import Circumstances, recall, recall_items
from ctxwrap.memory.owned import owner_of
from ctxwrap.memory.similarity import mentions, subjects
from ctxwrap.retrieval.selection import Passage
from ctxwrap.session.branch import Alignment, Digest, align, digest
from ctxwrap.session.compression import SUMMARY
from ctxwrap.session.documents import DOCUMENT
from ctxwrap.session.inputs import Inputs
from ctxwrap.session.missing import questions_as_json, questions_shown
from ctxwrap.session.state import SessionState
from ctxwrap.stores.base import Log
from ctxwrap.stores.log_format import message_range
from ctxwrap.types import (
    NOTHING_FOREIGN,
    ForeignOrigins,
    LoggedMessage,
    Message,
    Operation,
    Record,
    Request,
    SourcedText,
    TurnInputs,
)

_ROLE = attrgetter("role")

_PER_MESSAGE, _LEAST_HISTORY = 4, 40
"""With a limit on messages, this many times the limit are offered as candidates."""


def opening_of(
    past: SessionState,
    log: Log,
    inputs: Inputs,
    rules: Record | None,
    request: Request,
    now: datetime,
    budget_messages: int,
) -> TurnInputs:
    """The inputs of a turn; `rules` are new memory rules that the log does not have yet."""
    spoken: Sequence[Message] = request.messages
    given, roles, system = values_of(spoken, digest), values_of(spoken, _ROLE), list[Message]()
    if "system" in roles:
        is_spoken = [role != "system" for role in roles]
        system = [message for message in spoken if message.role == "system"]
        spoken, given, roles = (list(compress(each, is_spoken)) for each in (spoken, given, roles))
    branch = past.branch
    alignment = _aligned(past, roles, given)
    new, branches = spoken[alignment.new :], alignment.keep < len(branch.digests)
    rounds = rounds_of(past, new)
    number = rounds[-1] if rounds else max(1, past.round + (branches or past.answered))
    recalled = _recalled(past, new, number) if past.memory.swap else ()
    state, moves = _state(past, recalled, number)
    changed_system = _changed_system(past, system) if system else ()
    first_message = past.sequence["messages"] + 1
    numbers = _numbers(past, alignment, len(spoken), first_message + len(changed_system))
    most = max(_PER_MESSAGE * budget_messages, _LEAST_HISTORY) if budget_messages else None
    history = branch.history(len(branch.digests) - alignment.before, most)
    texts: dict[str, tuple[SourcedText, ...]] = {}
    for kind, read in TEXT_SOURCES.items():
        texts[kind] = tuple(read(past, log, inputs))
    return TurnInputs(
        runtime=past.next_runtime(number, now),
        state=state,
        new=(*[(message, number) for message in changed_system], *zip(new, rounds, strict=True)),
        history=history,
        parent=branch.id_of(alignment.keep) if branches else "",
        first_message=first_message,
        moves=tuple([move._asdict() for move in (*past.moves, *moves)]) if past.moves or moves else (),
        recalled=recalled,
        rules=rules,
        writer=log.writer,
        numbers=_with_system(request.messages, numbers) if system else tuple(numbers),
        began=numbers[0] if numbers and numbers[0] else _began(past, alignment),
        system=_system_numbers(past, len(changed_system)) if system else (),
        epoch=past.epoch,
        before=past.prefix,
        limit=inputs.limit,
        texts=texts,
        outputs=past.outputs,
        missing=past.missing,
        misses=past.compliance.in_a_row,
        foreign=_foreign_origins(past, history, numbers, first_message, state),
    )


def _summaries(past: SessionState, log: Log, inputs: Inputs) -> list[SourcedText]:
    """The context document, if somebody wrote one, and the newest summary that a model wrote."""
    document, summary = past.documents, past.summaries
    found: list[SourcedText] = []
    if document.authored:
        found.append(SourcedText(DOCUMENT, document.text, document.origin))
    if summary.text:
        found.append(SourcedText(SUMMARY, summary.text, summary.origin))
    return found


TEXT_SOURCES: dict[str, Callable[[SessionState, Log, Inputs], Iterable[SourcedText]]] = {
    "pinned": lambda past, log, inputs: inputs.pinned,
    "summary": _summaries,
    "children": lambda past, log, inputs: past.children.results(log.files),
}
"""The texts of a session, by kind of pack item."""


def _foreign_origins(
    past: SessionState,
    history: Sequence[LoggedMessage],
    numbers: Sequence[int],
    first_message: int,
    state: dict[str, Any],
) -> ForeignOrigins:
    memory, frozen = past.memory, known_epoch(past.epoch).places if past.epoch else {}
    said = past.state_origin if is_foreign(past.state_origin) and _says_more(state) else ""
    foreign = memory.foreign
    if not said and not foreign and not past.origins.least and frozen.keys() <= memory.items.keys():
        return NOTHING_FOREIGN
    messages = _foreign_messages(past, history, numbers, first_message)
    return ForeignOrigins(messages, _foreign_items(memory, foreign, frozen, state), said)


def _foreign_messages(
    past: SessionState, history: Sequence[LoggedMessage], numbers: Sequence[int], first_message: int
) -> dict[int, str]:
    """The foreign origins by message. A new model message counts as derived from the whole log."""
    least = past.origins.least
    if least is None:
        return {}
    every = (*(kept.number for kept in history), *numbers)
    known = ((number, least if number >= first_message else past.origins.of(number)) for number in every)
    return {0: least, **{number: origin for number, origin in known if origin}}


def _foreign_items(
    memory: Memory, foreign: Mapping[str, str], frozen: Mapping[str, object], state: dict[str, Any]
) -> dict[str, str]:
    """The foreign origins by item that may be shown; `frozen`, the epoch, may hold items that memory no longer has."""
    gone = [id for id in frozen if id not in memory.items and id not in memory.swap]
    if foreign:
        shown = {item["id"] for items in state["memory"].values() for item in items} | frozen.keys()
        foreign = {id: origin for id, origin in foreign.items() if id in shown}
    unknown = {id: "tool" for id in gone if id not in memory.forgotten and not owner_of(id)}  # owners' are trusted
    return {**unknown, **foreign}


def _says_more(state: dict[str, Any]) -> bool:
    return any(value for name, value in state.items() if name != "memory")


def rounds_of(past: SessionState, new: Sequence[Message]) -> list[int]:
    """The round of each new message: a user message begins a round, a tool result stays in it."""
    current, rounds, before = past.round, [], ""
    for message in new:
        current += (message.role == "user" and before != "user") or not current
        rounds.append(current)
        before = message.role
    return rounds


def _aligned(past: SessionState, roles: Sequence[str], given: Sequence[Digest]) -> Alignment:
    branch = past.branch
    answered = _last_answer(roles) if len(roles) >= _LEAST_ANSWERED else -1
    return align(branch.digests, given, answered=answered, began=branch.place_of(past.began), cut=branch.is_cut)


_LEAST_ANSWERED = 3
"""A question, its answer and what follows."""


def _last_answer(roles: Sequence[str]) -> int:
    """The position of the last model answer before the newest turn, or -1; a greeting or a prefill is not an answer."""
    if "user" not in roles:
        return -1
    asked, last = roles.index("user"), len(roles) - 1
    while roles[last] == "assistant":
        last -= 1
    return next((at for at in range(last - 1, asked, -1) if roles[at] == "assistant"), -1)


def _began(past: SessionState, alignment: Alignment) -> int:
    """The number of the original of the caller's first message, which was edited; 0 if that is not known."""
    return past.began if alignment.before else 0


def _recalled(past: SessionState, new: Sequence[Message], number: int) -> tuple[Operation, ...]:
    said = "\n".join([message.text for message in new if message.role == "user"])
    return recall(past.memory, Circumstances(number, said=said))


_TRUSTED = 3
"""The best passages that bring back what was learned from them."""

_STATED = 0.5
"""The share of an item's words that a passage must have to state it."""


def recalled_by(past: SessionState, found: Sequence[Passage], number: int) -> tuple[Operation, ...]:
    """The swap items that were learned from the best passages and are stated there."""
    memory = past.memory
    if not memory.evolves or not memory.swap or not found:
        return ()
    said = [(passage.number, subjects(passage.text)) for passage in found[:_TRUSTED]]
    near = memory.sharing_words(set().union(*(words for _, words in said)))
    shared = map(memory.swap.__getitem__, filter(near.__contains__, memory.swap))
    learned = [item for item in shared if _is_learned_from(item, said)]
    return recall_items(memory, Circumstances(number), learned, "the message was found")


def _is_learned_from(item: MemoryItem, passages: Sequence[tuple[int, Set[str]]]) -> bool:
    first, last = message_range(item.source)
    return not item.successor and any(
        first <= number <= last and mentions(said, item.content, _STATED) for number, said in passages
    )


def _state(
    past: SessionState, recalled: Sequence[Operation], number: int
) -> tuple[dict[str, Any], tuple[TierMove, ...]]:
    """The memory state shown in a round, including recalled items and open questions; and the moves up to then."""
    state, moves = past.memory.at(number)
    for operation in recalled:
        item = MemoryItem.from_json(operation.item or {})
        state["memory"][item.tier].append(item.shown(past.memory.faded(item, number)))
    if past.missing and (asked := questions_shown(past.missing, number)):
        state["missing"] = questions_as_json(asked)
    return state, moves


def _changed_system(past: SessionState, system: Sequence[Message]) -> tuple[Message, ...]:
    """The system messages, if they differ from the last ones in the log."""
    return tuple(system) if list(map(digest, system)) != past.system else ()


def _system_numbers(past: SessionState, changed: int) -> tuple[int, ...]:
    """The numbers of the system messages in the log, or their future numbers if they are new."""
    first = past.sequence["messages"] + 1
    return tuple(range(first, first + changed)) if changed else tuple(past.system_numbers)


def _with_system(messages: Sequence[Message], numbers: Sequence[int]) -> tuple[int, ...]:
    """The numbers of all messages, given those that are not system messages, which have 0."""
    spoken = iter(numbers)
    return tuple([0 if message.role == "system" else next(spoken) for message in messages])


def _numbers(past: SessionState, alignment: Alignment, count: int, next_number: int) -> list[int]:
    """The log numbers of the caller's messages; 0 for unknown ones."""
    known = past.branch.numbers(alignment.keep - alignment.covered, alignment.keep)
    new = range(next_number, next_number + count - alignment.new)
    return [*[0] * (alignment.new - len(known)), *known, *new]
