"""Long chats: how much of each request a provider can cache, and whether early facts are still in the request.

    python benchmarks/long_chats.py [--seed 1] [--set snapshot=delta] [--set shares.recent=0.3]

Each strategy sends the same chat of 200 turns with scripted replies; tokens are counted exactly. A quarter of the
messages states a fact. 30 facts of the first 50 turns are asked for 150 turns later: `facts` is how often the key word
is in the request, and the second table says where. `known` is the share of input tokens in the prefix that a request
has in common with the one before, which is what providers cache. The model writes its memory after each answer as the
protocol asks, in full or as a delta.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os.path import commonprefix
from pathlib import Path
from typing import Any, NamedTuple

from chats import MODEL, Attentive, Chat, Forgetful, Planted, Said, Taken, Talk, planted, request, small_talk, texts_in
from recall import table

from ctxwrap.language.words import terms_of
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.settings import Settings
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.messages import PER_MESSAGE
from ctxwrap.types import Body

LEAST_STABLE = 80.0
LONG = 200
"""Chats shorter than this cut and retrieve too little for the stable share to mean much."""


class Counted:
    """Counts the tokens of requests, and of the prefix each shares with the one before."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._before: list[str] = []
        self.tokens: list[int] = []
        self.stable: list[int] = []
        """Tokens of the prefix that each request shares with the one before."""

    def take(self, body: Body) -> None:
        texts = texts_in(body)
        self.tokens.append(self._measure.body(CHAT.request_tokens, body))
        self.stable.append(self._same(texts))
        self._before = texts

    def _same(self, texts: Sequence[str]) -> int:
        tokens = 0
        for before, text in zip(self._before, texts, strict=False):
            same = text if before == text else commonprefix((before, text))  # noqa: RUF071  # no paths
            tokens += PER_MESSAGE - 1 + self._measure.text(same)
            if before != text:
                break
        return tokens


def share(part: float, whole: float) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def chats(home: Path, turns: int, seed: int) -> None:
    print(f"{turns} turns, replies scripted; goal: {LEAST_STABLE:g} % stable by the records of all turns\n")
    rows = [["tokens", "a turn", "last turn", "new a turn", "stable, bodies", "stable, records", "goal"]]
    causes = [["new, of all tokens", *CAUSES]]
    for name, sends_all in (("ctxwrap, newest sent", False), ("ctxwrap, all sent", True)):
        chat = Chat(home, name, Attentive(Talk(seed + 1)), sends_all=sends_all)
        ours, last, whole = (Counted(Measure(MODEL)) for _ in range(3))
        taken: list[Taken] = []
        for said in small_talk(Talk(seed), turns, 0.25):
            taken.append(chat.take(said))
            ours.take(taken[-1].body)
            last.take(request(chat.said[:-1][-20:]))
            whole.take(request(chat.said[:-1]))
        rows.append([*_row(name, ours), *_recorded(taken)])
        causes.append([name, *_causes(ours, taken, chat.said)])
    table([*rows, [*_row("last 20", last), "", ""], [*_row("everything", whole), "", ""]])
    table(causes)


def _row(name: str, counted: Counted) -> list[str]:
    tokens, stable, turns = sum(counted.tokens), sum(counted.stable), len(counted.tokens)
    means = [f"{tokens / turns:.0f}", f"{counted.tokens[-1]}", f"{(tokens - stable) / turns:.0f}"]
    return [name, *means, share(stable, tokens)]


def _recorded(taken: Sequence[Taken]) -> list[str]:
    """The stable share according to the turns' own reports."""
    reports = [each.record.report for each in taken]
    sizes = [report.budget["fixed"] + report.budget["used"] for report in reports]
    percent = 100 * sum(size * report.stable for size, report in zip(sizes, reports, strict=True)) / sum(sizes)
    met = "met" if percent >= LEAST_STABLE else "missed"
    return [f"{percent:.1f} %", met if len(taken) >= LONG else "too short"]


CAUSES = ("newest", "found", "state", "epochs", "cuts", "both", "neither")
"""Why tokens are not stable: they are new, or something before them changed."""


def _causes(counted: Counted, taken: Sequence[Taken], said: Sequence[Body]) -> Iterator[str]:
    """For each cause its share of all tokens and, unless it occurs in every turn, how often it occurred."""
    measure, tokens, times = Measure(MODEL), dict.fromkeys(CAUSES, 0), dict.fromkeys(CAUSES, 0)
    for at, each in enumerate(taken):
        newest = texts_in(each.body)[-1]
        parts = {name: measure.text(part_of(newest, name)) for name in ("found", "context")}
        own = sum(measure.text(str(message["content"])) + 4 for message in said[max(0, 2 * at - 1) : 2 * at + 1])
        anew = counted.tokens[at] - counted.stable[at] - sum(parts.values()) - own
        for name, size in (("newest", own), ("found", parts["found"]), ("state", parts["context"])):
            tokens[name] += size
        if at:
            cause = _why(taken[at - 1], each)
            tokens[cause] += anew
            times[cause] += 1
    for name in CAUSES:
        yield (f"{times[name]}: " if times[name] else "") + share(tokens[name], sum(counted.tokens))


def _why(before: Taken, now: Taken) -> str:
    """The cause that made a request start differently from the one before."""
    firsts = [each.start["prefix"]["messages"].partition("-")[0] for each in (before, now)]
    begins, is_cut = "epoch" in now.start, firsts[0] != firsts[1]
    return "both" if begins and is_cut else "epochs" if begins else "cuts" if is_cut else "neither"


def part_of(text: str, name: str) -> str:
    """The block of that name with its tags; empty if there is none."""
    start, end = text.rfind(f"<ctxwrap-{name}>"), text.rfind(f"</ctxwrap-{name}>")
    return text[start:end] + f"</ctxwrap-{name}>" if 0 <= start < end else ""


TOLD_WITHIN, ASKED_AFTER = 50, 150


def asked_chat(talk: Talk, facts: Sequence[Planted], others: float = 0.0) -> list[Said]:
    """Facts stated at random turns, each asked for ASKED_AFTER turns later, with small talk and other facts between."""
    places = talk.draw.sample(range(TOLD_WITHIN), len(facts))
    chat = list(small_talk(talk, TOLD_WITHIN + ASKED_AFTER, others))
    for at, fact in zip(places, facts, strict=True):
        chat[at] = Said(talk.user(fact.told), fact.told)
        chat[at + ASKED_AFTER] = Said(talk.user(fact.asked))
    return chat


def check(facts: Sequence[Planted]) -> None:
    """Assert that each question shares half of its content words with its fact, but not the key word."""
    for fact in facts:
        told, asked = ({*terms_of(text)} for text in (fact.told, fact.asked))
        assert len(told & asked) >= len(asked) / 2, fact
        assert fact.key in fact.told, fact
        assert fact.key not in fact.asked, fact


class Places(NamedTuple):
    """Where in a request a word occurs."""

    anywhere: bool
    memory: bool
    found: bool
    history: bool


def places(body: Body, key: str) -> Places:
    first, *history, newest = texts_in(body)
    memory = key in part_of(first, "memory") or key in part_of(newest, "context")
    return Places(
        key in "\n".join((first, *history, newest)),
        memory,
        key in part_of(newest, "found"),
        key in "\n".join(history),
    )


def facts_found(home: Path, seeds: Sequence[int]) -> None:
    facts, measure = planted(), Measure(MODEL)
    check(facts)
    by_key: dict[str, list[Places]] = {}
    sizes: dict[str, list[int]] = {}
    for seed in seeds:
        for name, model in (("ctxwrap, memory kept", Attentive), ("ctxwrap, none written", Forgetful)):
            chat = Chat(home, f"{name} {seed}", model(Talk(seed + 1)))
            for said in asked_chat(Talk(seed), facts):
                body = chat.take(said).body
                fact = next((each for each in facts if each.asked in said.text), None)
                if fact is None:
                    continue
                others = {
                    name: body,
                    "last 20": request(chat.said[:-1][-20:]),
                    "newest, as many tokens": newest_in(
                        chat.said[:-1], measure.body(CHAT.request_tokens, body), measure
                    ),
                    "everything": request(chat.said[:-1]),
                }
                for method, sent in others.items():
                    by_key.setdefault(method, []).append(places(sent, fact.key))
                    sizes.setdefault(method, []).append(measure.body(CHAT.request_tokens, sent))
    print(f"{len(facts)} facts in each of {len(seeds)} chats, asked for {ASKED_AFTER} turns later\n")
    rows = [["in the request", *Places._fields, "tokens"]]
    for method in sorted(by_key, key=lambda name: not name.startswith("ctxwrap")):
        shares = [share(sum(column), len(column)) for column in zip(*by_key[method], strict=True)]
        rows.append([method, *shares, f"{statistics.mean(sizes[method]):.0f}"])
    table(rows)


def newest_in(said: Sequence[Body], room: int, measure: Measure) -> Body:
    """The newest messages that fit into `room` tokens."""
    base, start = measure.body(CHAT.request_tokens, request([])), len(said)
    left = room - base
    while start and (left := left + base - measure.body(CHAT.request_tokens, request([said[start - 1]]))) >= 0:
        start -= 1
    return request(said[start:])


class Strategy:
    """One way to send a chat: the tokens it takes, and the facts it contains."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._requests = Counted(measure)
        self._answers = self._snapshots = 0
        self._found: list[Places] = []

    def take(self, body: Body, answer: str, snapshot: str, key: str = "") -> None:
        """Count one turn; `key` is the word that the question asks for, if any."""
        self._requests.take(body)
        self._answers += self._measure.text(answer)
        self._snapshots += self._measure.text(snapshot)
        if key:
            self._found.append(places(body, key))

    def row(self, name: str) -> list[str]:
        taken, turns = sum(self._requests.tokens), len(self._requests.tokens)
        given = self._answers + self._snapshots
        return [
            name,
            f"{taken:,}",
            f"{taken / turns:.0f}",
            f"{self._requests.tokens[-1]}",
            share(sum(self._requests.stable), taken),
            f"{given:,}",
            f"{given / turns:.0f}",
            f"{self._snapshots / turns:.0f}",
            f"{sum(found.anywhere for found in self._found)} of {len(self._found)}",
        ]

    def places_row(self, name: str) -> list[str]:
        """How many of the facts are in which place."""
        return [name, *(str(sum(column)) for column in zip(*self._found, strict=True))]


COLUMNS = ["sent", "tokens in", "a turn", "last turn", "known", "tokens out", "a turn", "memory", "facts"]


def compare(home: Path, seed: int, settings: Settings) -> None:
    """Print one table of all strategies for the same chat."""
    facts, measure = planted(), Measure(MODEL)
    check(facts)
    names = ("ctxwrap, newest sent", "ctxwrap, all sent", "last 20", "everything")
    ways = {name: Strategy(measure) for name in names}
    for name, sends_all in ((names[0], False), (names[1], True)):
        chat = Chat(home, name, Attentive(Talk(seed + 1)), sends_all=sends_all, settings=settings)
        for said in asked_chat(Talk(seed), facts, OTHER_FACTS):
            key = next((fact.key for fact in facts if fact.asked in said.text), "")
            taken = chat.take(said)
            answer, mark, snapshot = taken.written.partition(SEPARATOR)
            ways[name].take(taken.body, answer, mark + snapshot, key)
            if sends_all:
                ways["last 20"].take(request(chat.said[:-1][-20:]), answer, "", key)
                ways["everything"].take(request(chat.said[:-1]), answer, "", key)
    table([COLUMNS, *(way.row(name) for name, way in ways.items())])
    table([["facts in", *Places._fields], *(way.places_row(name) for name, way in ways.items())])


OTHER_FACTS = 0.25
"""Share of the other messages that also state a fact."""


def settings_with(changes: Sequence[str]) -> Settings:
    """The defaults with changes such as `snapshot=delta` or `shares.recent=0.3`."""
    settings = Settings()
    for change in changes:
        name, _, written = change.partition("=")
        value = _value(written)
        group, _, inner = name.partition(".")
        settings = replace(settings, **{group: replace(getattr(settings, group), **{inner: value}) if inner else value})
    return settings


def _value(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        compare(Path(place), given.seed, settings_with(given.set))


if __name__ == "__main__":
    main()
