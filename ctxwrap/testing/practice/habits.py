"""The habits of models: how they write the state that they are asked for, by name.

Each habit understands the conversation as the practice model does; it differs in what it writes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from ctxwrap.errors import unknown_name
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, unframe
from ctxwrap.testing.practice.answer import JSON
from ctxwrap.testing.practice.conversation import converse
from ctxwrap.testing.practice.moment import (
    Hidden,
    ReplyMoment,
    ReplyParts,
    as_json,
    changed,
    items,
    moment,
    reply,
    tiers,
    trailer,
)
from ctxwrap.testing.practice.notebook import TIERS, Notebook
from ctxwrap.testing.practice.requests import Ask

SILENT_FROM = 9
"""The round from which on `falls_silent` writes no state."""
DROPS_AT = 20
"""The round in which `drops_everything_once` does."""
CUT_EVERY = 4
"""`cuts_off` comes to the end of its tokens once in so many rounds."""
AFTERWORD = "Is there anything else?"


class HabitRequest(Protocol):
    """What holds a request to a model, as `ctxwrap.testing.Request` does."""

    @property
    def ask(self) -> Ask: ...


Write = Callable[[ReplyMoment], ReplyParts]


@dataclass(frozen=True, slots=True)
class Habit:
    """How a model writes its state; answers a request of the practice provider's or of a scripted one.

    The same request gets the same reply, whose `visible` is the part that the user is meant to see.
    """

    name: str
    description: str
    write: Write

    def __call__(self, asked: Ask | HabitRequest) -> ReplyParts:
        ask = asked if isinstance(asked, Ask) else asked.ask
        now = moment(ask)
        return self.write(now) if asks_for_trailer(ask.system) else reply(now.answer)


_known: dict[str, Habit] = {}

HABITS: Mapping[str, Habit] = MappingProxyType(_known)
"""Every habit by its name."""


def habit_of(name: str | Habit) -> Habit:
    """The habit of that name, or the habit itself."""
    if isinstance(name, Habit):
        return name
    if name not in HABITS:
        raise unknown_name("habit", name, tuple(HABITS))
    return HABITS[name]


def _habit(write: Write) -> Write:
    _known[write.__name__] = Habit(write.__name__, (write.__doc__ or "").strip(), write)
    return write


# Where the state stands


@_habit
def obedient(now: ReplyMoment) -> ReplyParts:
    """Writes what the protocol asks for, in the form it asks for."""
    return reply(now.answer, trailer(now.wanted))


@_habit
def snapshot_first(now: ReplyMoment) -> ReplyParts:
    """Writes its state first and answers behind it."""
    return reply(trailer(now.wanted), now.answer)


@_habit
def snapshot_between(now: ReplyMoment) -> ReplyParts:
    """Goes on with its answer behind the state."""
    return reply(now.answer, trailer(now.wanted), AFTERWORD)


@_habit
def two_snapshots(now: ReplyMoment) -> ReplyParts:
    """Writes its state as it was shown, some more of the answer, and its state once more."""
    return reply(now.answer, trailer(now.shown), AFTERWORD, trailer(now.wanted))


@_habit
def silent(now: ReplyMoment) -> ReplyParts:
    """Never writes a state."""
    return reply(now.answer)


@_habit
def falls_silent(now: ReplyMoment) -> ReplyParts:
    """Writes its state in the first rounds of a conversation, and none later."""
    return obedient(now) if now.round < SILENT_FROM else silent(now)


@_habit
def mentions_memory(now: ReplyMoment) -> ReplyParts:
    """Tells the user about its memory."""
    return reply(now.answer, "I have updated my memory.", trailer(now.wanted))


@_habit
def cuts_off(now: ReplyMoment) -> ReplyParts:
    """Comes to the end of its tokens within the state now and then."""
    written = trailer(now.whole)
    if now.round % CUT_EVERY:
        return reply(now.answer, written)
    return reply(now.answer, Hidden(written[: len(written) * 2 // 3]), finish="length")


# How it is spelled


@_habit
def fenced_json(now: ReplyMoment) -> ReplyParts:
    """Puts the JSON into a code fence."""
    return reply(now.answer, trailer(now.wanted, "{mark}\n```json\n{state}\n```"))


@_habit
def fenced_trailer(now: ReplyMoment) -> ReplyParts:
    """Puts separator and JSON into one code fence."""
    return reply(now.answer, trailer(now.wanted, "```\n{mark}\n{state}\n```"))


@_habit
def bold_separator(now: ReplyMoment) -> ReplyParts:
    """Sets the separator in bold type."""
    return reply(now.answer, trailer(now.wanted, "**{mark}**\n{state}"))


@_habit
def indents(now: ReplyMoment) -> ReplyParts:
    """Writes JSON over many lines."""
    return reply(now.answer, trailer(as_json(now.wanted, indent=2)))


@_habit
def writes_python(now: ReplyMoment) -> ReplyParts:
    """Writes a Python dictionary instead of JSON."""
    return reply(now.answer, trailer(repr(now.wanted)))


@_habit
def escapes_json(now: ReplyMoment) -> ReplyParts:
    """Writes the JSON as a JSON string."""
    return reply(now.answer, trailer(as_json(as_json(now.wanted))))


@_habit
def wraps_object(now: ReplyMoment) -> ReplyParts:
    """Puts the state into an object around it."""
    return reply(now.answer, trailer({"context": now.wanted}))


@_habit
def narrates(now: ReplyMoment) -> ReplyParts:
    """Tells its state in prose instead of JSON."""
    return reply(now.answer, trailer(" ".join(now.notebook.contents) or "Nothing is known yet."))


@_habit
def copies_example(now: ReplyMoment) -> ReplyParts:
    """Copies the form from the protocol's text as it stands."""
    form = now.ask.system.partition(f"\n{SEPARATOR}\n")[2].partition("\n")[0]
    return reply(now.answer, trailer(form))


@_habit
def own_keys(now: ReplyMoment) -> ReplyParts:
    """Spells keys and tiers its own way, such as `activeTask`, `long_term` and `text`."""
    names = dict(zip(TIERS, ("long_term", "tasks", "temporary"), strict=True))
    state = changed(now.wanted, lambda note: {("text" if key == "content" else key): note[key] for key in note})
    memory = {names[tier]: notes for tier, notes in state["memory"].items()}
    rest = {key: state[key] for key in state if key not in ("memory", "active_task")}
    return reply(now.answer, trailer(rest | {"memory": memory, "activeTask": state["active_task"]}))


@_habit
def translates(now: ReplyMoment) -> ReplyParts:
    """Translates types and tags into the language of its own, anew in every round."""
    words = {"identity": "Identität", "fact": "Fakt", "preference": "Vorliebe", "task": "Aufgabe", "hint": "Hinweis"}

    def translated(note: JSON) -> JSON:
        kind = words.get(str(note.get("type")), str(note.get("type")))
        return note | {"type": kind, "tags": [kind.lower()]}

    return reply(now.answer, trailer(changed(now.whole, translated)))


@_habit
def translates_keys(now: ReplyMoment) -> ReplyParts:
    """Translates the keys as well, so that nobody can know what they mean."""
    names = dict(zip(TIERS, ("kern", "arbeit", "flüchtig"), strict=True))
    state = changed(now.whole, lambda note: {"inhalt": note.get("content")})
    notes = {names[tier]: each for tier, each in state["memory"].items()}
    return reply(now.answer, trailer({"fassung": "2.2", "laufzeit": {}, "gedächtnis": notes}))


# What belongs to the system


@_habit
def forgets_runtime(now: ReplyMoment) -> ReplyParts:
    """Leaves `runtime` out."""
    return reply(now.answer, trailer({key: value for key, value in now.wanted.items() if key != "runtime"}))


@_habit
def counts_rounds(now: ReplyMoment) -> ReplyParts:
    """Counts the round on by itself."""
    state = now.wanted
    return reply(now.answer, trailer(state | {"runtime": state["runtime"] | {"round": now.round + 1}}))


@_habit
def own_clock(now: ReplyMoment) -> ReplyParts:
    """Writes a time of its own into `runtime`."""
    state = now.wanted
    return reply(now.answer, trailer(state | {"runtime": state["runtime"] | {"datetime": "2024-05-01T12:00:00Z"}}))


@_habit
def stamps_round(now: ReplyMoment) -> ReplyParts:
    """Repeats everything, with the present round on every item."""
    return reply(now.answer, trailer(changed(now.whole, lambda note: note | {"round": now.round})))


# How much it writes


@_habit
def literal_editor(now: ReplyMoment) -> ReplyParts:
    """Edits the JSON of the last state block, reads nothing else, and returns it whole."""
    notebook = Notebook(unframe(now.newest))
    converse([now.said], notebook)
    return reply(now.answer, trailer(notebook.state()))


@_habit
def repeats_everything(now: ReplyMoment) -> ReplyParts:
    """Repeats its whole state in every round, whatever it is asked for."""
    return reply(now.answer, trailer(now.whole))


@_habit
def only_new(now: ReplyMoment) -> ReplyParts:
    """Writes what is new or other and nothing else, whatever it is asked for."""
    return reply(now.answer, trailer({key: value for key, value in now.changes.items() if key != "dropped"}))


@_habit
def abbreviates(now: ReplyMoment) -> ReplyParts:
    """Writes what is new and dots for the rest."""
    state, whole = now.changes, tiers(now.whole)
    memory = {
        tier: [*notes, *(["..."] if tier == "core" else ["[...]"] if len(whole[tier]) > len(notes) else [])]
        for tier, notes in tiers(state).items()
    }
    return reply(now.answer, trailer({key: state[key] for key in state if key != "dropped"} | {"memory": memory}))


@_habit
def empties_tiers(now: ReplyMoment) -> ReplyParts:
    """Returns empty tiers, unless something is new."""
    return reply(now.answer, trailer(now.wanted | {"memory": tiers(now.changes)}))


@_habit
def drops_everything_once(now: ReplyMoment) -> ReplyParts:
    """Drops all that it remembers in one round, by name."""
    if now.round != DROPS_AT:
        return obedient(now)
    ids = [note.get("id") for note in items(now.shown)]
    return reply(now.answer, trailer(now.wanted | {"memory": {tier: [] for tier in TIERS}, "dropped": ids}))


@_habit
def hoards(now: ReplyMoment) -> ReplyParts:
    """Keeps every message of the user's as an item."""
    state = now.wanted
    note = {"id": f"said-{now.round}", "type": "message", "decay": 0.5, "round": now.round, "tags": []}
    state["memory"]["working"] = [*state["memory"]["working"], note | {"content": now.said}]
    return reply(now.answer, trailer(state))


# What it makes of the items


@_habit
def renumbers(now: ReplyMoment) -> ReplyParts:
    """Repeats everything under new ids in every round."""
    state = now.whole
    ids = {id(note): f"m{now.round}-{at}" for at, note in enumerate(items(state), 1)}
    return reply(now.answer, trailer(changed(state, lambda note: note | {"id": ids[id(note)]})))


@_habit
def numbers_places(now: ReplyMoment) -> ReplyParts:
    """Repeats everything with its place in the list as its id, the newest first."""
    state = now.whole
    state["memory"] = {tier: notes[::-1] for tier, notes in tiers(state).items()}
    ids = {id(note): str(at) for at, note in enumerate(items(state), 1)}
    return reply(now.answer, trailer(changed(state, lambda note: note | {"id": ids[id(note)]})))


@_habit
def forgets_ids(now: ReplyMoment) -> ReplyParts:
    """Repeats everything without ids."""
    state = changed(now.whole, lambda note: {key: value for key, value in note.items() if key != "id"})
    return reply(now.answer, trailer(state))


@_habit
def plain_strings(now: ReplyMoment) -> ReplyParts:
    """Repeats everything as plain texts instead of items."""
    return reply(now.answer, trailer(changed(now.whole, lambda note: note.get("content"))))


@_habit
def resets_decay(now: ReplyMoment) -> ReplyParts:
    """Repeats everything with its favourite decay."""
    return reply(now.answer, trailer(changed(now.whole, lambda note: note | {"decay": 0.1})))


@_habit
def rewords(now: ReplyMoment) -> ReplyParts:
    """Repeats everything in slightly other words in every round."""
    forms = ("{0}.", "{0}", "{0}!", "{0} .")

    def reworded(note: JSON) -> JSON:
        bare = re.sub(r"^(?:the )?user", "User" if now.round % 2 else "The user", str(note["content"]), flags=re.I)
        return note | {"content": forms[now.round % len(forms)].format(bare.rstrip(" .!"))}

    return reply(now.answer, trailer(changed(now.whole, reworded)))


@_habit
def dates_contents(now: ReplyMoment) -> ReplyParts:
    """Repeats everything with the present round in its words."""

    def dated(note: JSON) -> JSON:
        bare = str(note["content"]).partition(" (as of round ")[0]
        return note | {"content": f"{bare} (as of round {now.round})"}

    return reply(now.answer, trailer(changed(now.whole, dated)))


@_habit
def all_core(now: ReplyMoment) -> ReplyParts:
    """Moves everything to core."""
    state = now.wanted
    notes = items(state)
    return reply(now.answer, trailer(state | {"memory": {"core": notes, "working": [], "ephemeral": []}}))


@_habit
def two_tiers(now: ReplyMoment) -> ReplyParts:
    """Repeats everything, each item in its tier and in the one below."""
    core, working, ephemeral = tiers(now.whole).values()
    memory = {"core": core, "working": [*working, *core], "ephemeral": [*ephemeral, *working]}
    return reply(now.answer, trailer(now.whole | {"memory": memory}))
