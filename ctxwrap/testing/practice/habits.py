"""Habits: variants of the practice model that write their snapshot in other ways, by name.

Each habit understands the conversation as the practice model does, and differs in what it writes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from ctxwrap.errors import unknown_name
from ctxwrap.memory.items import TIERS
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, parse_block
from ctxwrap.testing.practice.answer import JSON
from ctxwrap.testing.practice.conversation import converse
from ctxwrap.testing.practice.memory import PracticeMemory
from ctxwrap.testing.practice.replies import (
    Hidden,
    ReplyContext,
    ReplyParts,
    as_json,
    change_items,
    items,
    read_context,
    reply,
    tiers,
    trailer,
)
from ctxwrap.testing.practice.requests import Ask

SILENT_FROM = 9
"""The first round in which `falls_silent` writes no snapshot."""
DROPS_AT = 20
"""The round in which `drops_everything_once` drops everything."""
CUT_EVERY = 4
"""`cuts_off` is cut off once in this many rounds."""
AFTERWORD = "Is there anything else?"


class HabitRequest(Protocol):
    """An object with a request to a model, such as `ctxwrap.testing.Request`."""

    @property
    def ask(self) -> Ask: ...


Write = Callable[[ReplyContext], ReplyParts]


@dataclass(frozen=True, slots=True)
class Habit:
    """A model that writes its snapshot in its own way; answers requests of a practice or scripted provider.

    The same request gets the same reply, whose `visible` is the part that the user may see.
    """

    name: str
    description: str
    write: Write

    def __call__(self, asked: Ask | HabitRequest) -> ReplyParts:
        ask = asked if isinstance(asked, Ask) else asked.ask
        context = read_context(ask)
        return self.write(context) if asks_for_trailer(ask.system) else reply(context.answer)


_known: dict[str, Habit] = {}

HABITS: Mapping[str, Habit] = MappingProxyType(_known)
"""Habits by name."""


def habit_of(name: str | Habit) -> Habit:
    """Return a habit by name, or the habit itself."""
    if isinstance(name, Habit):
        return name
    if name not in HABITS:
        raise unknown_name("habit", name, tuple(HABITS))
    return HABITS[name]


def _habit(write: Write) -> Write:
    _known[write.__name__] = Habit(write.__name__, (write.__doc__ or "").strip(), write)
    return write


# Position of the snapshot


@_habit
def obedient(context: ReplyContext) -> ReplyParts:
    """Writes what the protocol asks for, in the form it asks for."""
    return reply(context.answer, trailer(context.requested))


@_habit
def snapshot_first(context: ReplyContext) -> ReplyParts:
    """Writes its state first and answers behind it."""
    return reply(trailer(context.requested), context.answer)


@_habit
def snapshot_between(context: ReplyContext) -> ReplyParts:
    """Goes on with its answer behind the state."""
    return reply(context.answer, trailer(context.requested), AFTERWORD)


@_habit
def two_snapshots(context: ReplyContext) -> ReplyParts:
    """Writes its state as it was shown, some more of the answer, and its state once more."""
    return reply(context.answer, trailer(context.received), AFTERWORD, trailer(context.requested))


@_habit
def silent(context: ReplyContext) -> ReplyParts:
    """Never writes a state."""
    return reply(context.answer)


@_habit
def falls_silent(context: ReplyContext) -> ReplyParts:
    """Writes its state in the first rounds of a conversation, and none later."""
    return obedient(context) if context.round < SILENT_FROM else silent(context)


@_habit
def mentions_memory(context: ReplyContext) -> ReplyParts:
    """Tells the user about its memory."""
    return reply(context.answer, "I have updated my memory.", trailer(context.requested))


@_habit
def cuts_off(context: ReplyContext) -> ReplyParts:
    """Comes to the end of its tokens within the state now and then."""
    written = trailer(context.full_state)
    if context.round % CUT_EVERY:
        return reply(context.answer, written)
    return reply(context.answer, Hidden(written[: len(written) * 2 // 3]), finish="length")


# Format of the snapshot


@_habit
def fenced_json(context: ReplyContext) -> ReplyParts:
    """Puts the JSON into a code fence."""
    return reply(context.answer, trailer(context.requested, "{mark}\n```json\n{state}\n```"))


@_habit
def fenced_trailer(context: ReplyContext) -> ReplyParts:
    """Puts separator and JSON into one code fence."""
    return reply(context.answer, trailer(context.requested, "```\n{mark}\n{state}\n```"))


@_habit
def bold_separator(context: ReplyContext) -> ReplyParts:
    """Sets the separator in bold type."""
    return reply(context.answer, trailer(context.requested, "**{mark}**\n{state}"))


@_habit
def indents(context: ReplyContext) -> ReplyParts:
    """Writes JSON over many lines."""
    return reply(context.answer, trailer(as_json(context.requested, indent=2)))


@_habit
def writes_python(context: ReplyContext) -> ReplyParts:
    """Writes a Python dictionary instead of JSON."""
    return reply(context.answer, trailer(repr(context.requested)))


@_habit
def escapes_json(context: ReplyContext) -> ReplyParts:
    """Writes the JSON as a JSON string."""
    return reply(context.answer, trailer(as_json(as_json(context.requested))))


@_habit
def wraps_object(context: ReplyContext) -> ReplyParts:
    """Puts the state into an object around it."""
    return reply(context.answer, trailer({"context": context.requested}))


@_habit
def narrates(context: ReplyContext) -> ReplyParts:
    """Tells its state in prose instead of JSON."""
    return reply(context.answer, trailer(" ".join(context.memory.contents) or "Nothing is known yet."))


@_habit
def copies_example(context: ReplyContext) -> ReplyParts:
    """Copies the form from the protocol's text as it stands."""
    form = context.ask.system.partition(f"\n{SEPARATOR}\n")[2].partition("\n")[0]
    return reply(context.answer, trailer(form))


@_habit
def own_keys(context: ReplyContext) -> ReplyParts:
    """Spells keys and tiers its own way, such as `activeTask`, `long_term` and `text`."""
    names = dict(zip(TIERS, ("long_term", "tasks", "temporary"), strict=True))
    state = change_items(
        context.requested, lambda item: {("text" if key == "content" else key): item[key] for key in item}
    )
    memory = {names[tier]: notes for tier, notes in state["memory"].items()}
    rest = {key: state[key] for key in state if key not in ("memory", "active_task")}
    return reply(context.answer, trailer(rest | {"memory": memory, "activeTask": state["active_task"]}))


@_habit
def translates(context: ReplyContext) -> ReplyParts:
    """Translates types and tags into the language of its own, anew in every round."""
    words = {"identity": "Identität", "fact": "Fakt", "preference": "Vorliebe", "task": "Aufgabe", "hint": "Hinweis"}

    def translated(item: JSON) -> JSON:
        kind = words.get(str(item.get("type")), str(item.get("type")))
        return item | {"type": kind, "tags": [kind.lower()]}

    return reply(context.answer, trailer(change_items(context.full_state, translated)))


@_habit
def translates_keys(context: ReplyContext) -> ReplyParts:
    """Translates the keys as well, so that nobody can know what they mean."""
    names = dict(zip(TIERS, ("kern", "arbeit", "flüchtig"), strict=True))
    state = change_items(context.full_state, lambda item: {"inhalt": item.get("content")})
    notes = {names[tier]: each for tier, each in state["memory"].items()}
    return reply(context.answer, trailer({"fassung": "2.2", "laufzeit": {}, "gedächtnis": notes}))


# Fields that belong to the system


@_habit
def forgets_runtime(context: ReplyContext) -> ReplyParts:
    """Leaves `runtime` out."""
    return reply(context.answer, trailer({key: value for key, value in context.requested.items() if key != "runtime"}))


@_habit
def counts_rounds(context: ReplyContext) -> ReplyParts:
    """Counts the round on by itself."""
    state = context.requested
    return reply(context.answer, trailer(state | {"runtime": state["runtime"] | {"round": context.round + 1}}))


@_habit
def own_clock(context: ReplyContext) -> ReplyParts:
    """Writes a time of its own into `runtime`."""
    state = context.requested
    return reply(context.answer, trailer(state | {"runtime": state["runtime"] | {"datetime": "2024-05-01T12:00:00Z"}}))


@_habit
def stamps_round(context: ReplyContext) -> ReplyParts:
    """Repeats everything, with the present round on every item."""
    return reply(
        context.answer, trailer(change_items(context.full_state, lambda item: item | {"round": context.round}))
    )


# Amount of memory in the snapshot


@_habit
def literal_editor(context: ReplyContext) -> ReplyParts:
    """Edits the JSON of the last state block, reads nothing else, and returns it whole."""
    memory = PracticeMemory(parse_block(context.raw_message))
    converse([context.message], memory)
    return reply(context.answer, trailer(memory.state()))


@_habit
def repeats_everything(context: ReplyContext) -> ReplyParts:
    """Repeats its whole state in every round, whatever it is asked for."""
    return reply(context.answer, trailer(context.full_state))


@_habit
def only_new(context: ReplyContext) -> ReplyParts:
    """Writes what is new or other and nothing else, whatever it is asked for."""
    return reply(
        context.answer, trailer({key: value for key, value in context.changed_state.items() if key != "dropped"})
    )


@_habit
def abbreviates(context: ReplyContext) -> ReplyParts:
    """Writes what is new and dots for the rest."""
    state, full_state = context.changed_state, tiers(context.full_state)
    memory = {
        tier: [*notes, *(["..."] if tier == "core" else ["[...]"] if len(full_state[tier]) > len(notes) else [])]
        for tier, notes in tiers(state).items()
    }
    return reply(context.answer, trailer({key: state[key] for key in state if key != "dropped"} | {"memory": memory}))


@_habit
def empties_tiers(context: ReplyContext) -> ReplyParts:
    """Returns empty tiers, unless something is new."""
    return reply(context.answer, trailer(context.requested | {"memory": tiers(context.changed_state)}))


@_habit
def drops_everything_once(context: ReplyContext) -> ReplyParts:
    """Drops all that it remembers in one round, by name."""
    if context.round != DROPS_AT:
        return obedient(context)
    ids = [item.get("id") for item in items(context.received)]
    return reply(context.answer, trailer(context.requested | {"memory": {tier: [] for tier in TIERS}, "dropped": ids}))


@_habit
def hoards(context: ReplyContext) -> ReplyParts:
    """Keeps every message of the user's as an item."""
    state = context.requested
    item = {"id": f"said-{context.round}", "type": "message", "decay": 0.5, "round": context.round, "tags": []}
    state["memory"]["working"] = [*state["memory"]["working"], item | {"content": context.message}]
    return reply(context.answer, trailer(state))


# Changes to memory items


@_habit
def renumbers(context: ReplyContext) -> ReplyParts:
    """Repeats everything under new ids in every round."""
    state = context.full_state
    ids = {id(item): f"m{context.round}-{at}" for at, item in enumerate(items(state), 1)}
    return reply(context.answer, trailer(change_items(state, lambda item: item | {"id": ids[id(item)]})))


@_habit
def numbers_places(context: ReplyContext) -> ReplyParts:
    """Repeats everything with its place in the list as its id, the newest first."""
    state = context.full_state
    state["memory"] = {tier: notes[::-1] for tier, notes in tiers(state).items()}
    ids = {id(item): str(at) for at, item in enumerate(items(state), 1)}
    return reply(context.answer, trailer(change_items(state, lambda item: item | {"id": ids[id(item)]})))


@_habit
def forgets_ids(context: ReplyContext) -> ReplyParts:
    """Repeats everything without ids."""
    state = change_items(context.full_state, lambda item: {key: value for key, value in item.items() if key != "id"})
    return reply(context.answer, trailer(state))


@_habit
def plain_strings(context: ReplyContext) -> ReplyParts:
    """Repeats everything as plain texts instead of items."""
    return reply(context.answer, trailer(change_items(context.full_state, lambda item: item.get("content"))))


@_habit
def resets_decay(context: ReplyContext) -> ReplyParts:
    """Repeats everything with its favourite decay."""
    return reply(context.answer, trailer(change_items(context.full_state, lambda item: item | {"decay": 0.1})))


@_habit
def rewords(context: ReplyContext) -> ReplyParts:
    """Repeats everything in slightly other words in every round."""
    forms = ("{0}.", "{0}", "{0}!", "{0} .")

    def reworded(item: JSON) -> JSON:
        bare = re.sub(r"^(?:the )?user", "User" if context.round % 2 else "The user", str(item["content"]), flags=re.I)
        return item | {"content": forms[context.round % len(forms)].format(bare.rstrip(" .!"))}

    return reply(context.answer, trailer(change_items(context.full_state, reworded)))


@_habit
def dates_contents(context: ReplyContext) -> ReplyParts:
    """Repeats everything with the present round in its words."""

    def dated(item: JSON) -> JSON:
        bare = str(item["content"]).partition(" (as of round ")[0]
        return item | {"content": f"{bare} (as of round {context.round})"}

    return reply(context.answer, trailer(change_items(context.full_state, dated)))


@_habit
def all_core(context: ReplyContext) -> ReplyParts:
    """Moves everything to core."""
    state = context.requested
    notes = items(state)
    return reply(context.answer, trailer(state | {"memory": {"core": notes, "working": [], "ephemeral": []}}))


@_habit
def two_tiers(context: ReplyContext) -> ReplyParts:
    """Repeats everything, each item in its tier and in the one below."""
    core, working, ephemeral = tiers(context.full_state).values()
    memory = {"core": core, "working": [*working, *core], "ephemeral": [*ephemeral, *working]}
    return reply(context.answer, trailer(context.full_state | {"memory": memory}))
