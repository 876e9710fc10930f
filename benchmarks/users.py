"""Memory of users across sessions: how many facts of earlier sessions are in a request, and what `user=` costs.

    python benchmarks/users.py [--users 20] [--seed 1]     facts of five sessions per user, asked about in a sixth
    python benchmarks/users.py --cost [--turns 200]        CPU time per turn with and without user=, alternating

A generated user tells eight facts in each of five sessions, among small talk; some are told twice and some change. The
model notes every fact as a core item, as a good model does. Then a question about each fact is asked in a new session,
and the fact counts as known if the newest value is in the request. The costs are medians of the process's CPU time with
40 facts in memory: those of the user, or of the session itself; and with none. The provider runs in its own process.
"""

import argparse
import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from openai import OpenAI

import ctxwrap
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, strip_injected
from ctxwrap.testing.practice import Answer, Ask, Provider

SESSIONS, PER_SESSION = 5, 8

SUBJECTS = {
    "lives in": ("In which city do I live?", ("Lisbon", "Oslo", "Quito", "Hanoi", "Tartu", "Dakar")),
    "works as": ("What do I work as?", ("a nurse", "a pilot", "a baker", "a judge", "a glazier", "a tutor")),
    "has a dog called": ("What is my dog called?", ("Rex", "Luna", "Pixel", "Bruno", "Kiwi", "Momo")),
    "drives": ("Which car do I drive?", ("a Volvo", "a Fiat", "a Dacia", "a Honda", "a Mini", "a Skoda")),
    "plays the": ("Which instrument do I play?", ("cello", "banjo", "oboe", "harp", "tuba", "lute")),
    "supports": ("Which team do I support?", ("Benfica", "Ajax", "Celtic", "Porto", "Lazio", "Betis")),
}
"""What a person has one of, so that a newer value replaces the older one."""

_THINGS = (
    "aunt brother butcher cousin dentist doctor editor florist gardener grandmother grocer landlord lawyer lodger "
    "manager mechanic mentor nephew neighbour niece optician painter partner plumber printer publisher sister "
    "tailor teacher tenant trainer uncle vet waiter"
)
THINGS = _THINGS.split()
_NAMES = (
    "Abena Bao Chidi Dagny Emeka Farid Greta Hamza Ines Jarek Kofi Liv Magda Nadia Omar Petra Quim Rosa Sven "
    "Tariq Uma Vito Wanda Xenia Yusuf Zora Anouk Bela Cyril Daria Elif Fadil Goran Hilda"
)
NAMES = _NAMES.split()
SMALL_TALK = ("How are you today?", "What a day.", "Tell me a joke.", "Is it going to rain?", "Thanks for that.")


class Fact(NamedTuple):
    told: str
    """As the user says it."""
    noted: str
    """As the model notes it."""
    question: str


def facts_of(user: random.Random) -> list[list[Fact]]:
    """What one user tells, by session; a later fact with the same question replaces an earlier one."""
    people = user.sample(THINGS, SESSIONS * PER_SESSION - len(SUBJECTS) - 6)
    facts = [_person(thing, user.choice(NAMES)) for thing in people]
    facts += [_single(verb, user.choice(values)) for verb, (_, values) in SUBJECTS.items()]
    user.shuffle(facts)
    changed = [_single(verb, user.choice(SUBJECTS[verb][1])) for verb in user.sample(sorted(SUBJECTS), 3)]
    facts += [*changed, *user.sample(facts, 3)]
    return [facts[start : start + PER_SESSION] for start in range(0, len(facts), PER_SESSION)]


def _person(thing: str, name: str) -> Fact:
    return Fact(f"My {thing} is called {name}.", f"The user's {thing} is called {name}", f"What is my {thing} called?")


def _single(verb: str, value: str) -> Fact:
    first = {"lives in": "live in", "works as": "work as", "has a dog called": "have a dog called"}
    said = first.get(verb, verb.removesuffix("s") if " " not in verb else verb.replace("plays", "play"))
    return Fact(f"I {said} {value}.", f"The user {verb} {value}", SUBJECTS[verb][0])


class Noting:
    """A model that notes what it is told as core items."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        """What to note, by what the user says."""
        self.requests: list[str] = []

    def __call__(self, ask: Ask) -> Answer:
        said = strip_injected(next(text for role, text in reversed(ask.messages) if role == "user")).strip()
        self.requests.append(json.dumps(ask.body, ensure_ascii=False))
        if not asks_for_trailer(ask.system):
            return Answer("I see.")
        noted = self.notes.get(said)
        item = {"id": f"note-{len(self.requests)}", "type": "fact", "decay": 0.1, "round": 1, "tags": []}
        memory = {"core": [{**item, "content": noted}] if noted else [], "working": [], "ephemeral": []}
        state = {"version": "2.2", "runtime": {}, "memory": memory, "capabilities": [], "active_task": ""}
        return Answer(f"I see.\n\n{SEPARATOR}\n{json.dumps(state)}")


def recall(users: int, seed: int, home: Path | str, **settings: Any) -> tuple[int, int]:
    """How many of the facts that generated users told are in the request of a new session, and how many there are."""
    model, known, asked = Noting(), 0, 0
    with Provider(model, record=False) as provider, OpenAI(api_key="x", base_url=f"{provider.url}/v1") as client:
        wrapped = ctxwrap.wrap(client, store=str(home), **settings)
        for number in range(users):
            user = random.Random(seed * 10_007 + number)
            newest: dict[str, Fact] = {}
            for session, facts in enumerate(facts_of(user)):
                for fact in facts:
                    newest.pop(fact.question, None)
                    newest[fact.question] = fact
                    model.notes[fact.told] = fact.noted
                    for text in (fact.told, user.choice(SMALL_TALK)):
                        _say(wrapped, text, f"user-{number}", f"user-{number}-{session}")
            for fact in newest.values():
                _say(wrapped, fact.question, f"user-{number}", f"user-{number}-new")
                known, asked = known + (fact.noted in model.requests[-1]), asked + 1
    return known, asked


def _say(client: Any, text: str, user: str, session: str) -> None:
    messages = [{"role": "user", "content": text}]
    client.chat.completions.create(model="practice", messages=messages, session=session, for_user=user)


def serve(pipe: Connection) -> None:
    model = Noting()
    model.notes = {fact.told: fact.noted for fact in _forty()}
    with Provider(model, record=False) as provider:
        pipe.send(provider.url)
        while pipe.poll(None) and pipe.recv() is not None:
            model.requests.clear()


def _forty() -> list[Fact]:
    return [_person(thing, NAMES[at]) for at, thing in enumerate(THINGS)] + [
        _single(verb, values[0]) for verb, (_, values) in SUBJECTS.items()
    ]


def costs(turns: int, url: str, home: str) -> Iterator[tuple[str, float, float]]:
    """For memories of 40 facts and of none: the CPU time of a turn without and with `user=`, in ms."""
    with OpenAI(api_key="x", base_url=f"{url}/v1") as client:
        for name, facts in (("40 facts", _forty()), ("no facts", [])):
            chats = {
                "without": ctxwrap.wrap(client, store=home, session=f"without {name}"),
                "with": ctxwrap.wrap(client, store=home, session=f"with {name}", user=name),
            }
            for fact in facts:
                for chat in chats.values():
                    _tell(chat, fact.told)
            took: dict[str, list[float]] = {which: [] for which in chats}
            for turn in range(turns):
                for which, chat in chats.items() if turn % 2 else reversed(chats.items()):
                    begun = time.process_time()
                    _tell(chat, f"What about thing {turn} of the list, as we said before?")
                    ctxwrap.flush()
                    took[which].append(1000 * (time.process_time() - begun))
            yield name, *(statistics.median(took[which][turns // 10 :]) for which in ("without", "with"))


def _tell(client: Any, text: str) -> None:
    client.chat.completions.create(model="practice", messages=[{"role": "user", "content": text}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        if not options.cost:
            known, asked = recall(options.users, options.seed, home)
            ctxwrap.flush()
            print(f"{known} of {asked} facts of earlier sessions in the request: {known / asked:.1%}")
            return
        pipe, other = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(other,), daemon=True)
        server.start()
        print("| memory | without user= | with user= | ratio |\n| --- | --- | --- | --- |")
        for name, without, with_user in costs(options.turns, pipe.recv(), home):
            print(f"| {name} | {without:.2f} ms | {with_user:.2f} ms | {with_user / without:.2f} |")
        pipe.send(None)


if __name__ == "__main__":
    main()
