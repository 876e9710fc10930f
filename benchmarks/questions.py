"""Generated conversations with questions whose evidence is known, in several kinds and languages.

A kind is a table of facts, each told in one way and asked for in others, and of chatter about the same things. A fact
occurs several times with other values, so a question has wrong answers that share most of its words. All text is our
own and depends on the seed only. `conversations` returns data in the format that `recall.py --data` reads.
"""

import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import question_texts as texts

_START = datetime(2024, 1, 8, 9, 30, tzinfo=UTC)
_SLOT = re.compile(r"\{(\w+?)\}")
_BEFORE_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


def _listed(written: str) -> list[str]:
    return [each.strip() for each in written.replace("\n", "|").split("|") if each.strip()]


class Fact(NamedTuple):
    """What tells a fact, as turns that follow each other (`>`) or on a later day (`>>`), and how it is asked for."""

    told: list[list[str]]
    asked: list[str]


def _facts(written: str) -> list[Fact]:
    lines = iter(written.strip("\n").splitlines())
    return [
        Fact([[_unfolded(turn) for turn in part.split(" > ")] for part in told.split(" >> ")], _listed(asked))
        for told, asked in zip(lines, lines, strict=True)
    ]


def _unfolded(line: str) -> str:
    return line.strip().replace("\\n", "\n")


class Kind:
    """A table of facts and chatter; `words` is the longest message of either side, 0 for one or two sentences."""

    def __init__(
        self,
        written: str,
        *,
        budgets: tuple[int, ...] = (500, 1000, 2000, 4000),
        turns: int = 14,
        repeats: int = 5,
        roles: tuple[str, str] = ("user", "user"),
        words: tuple[int, int] = (0, 0),
    ) -> None:
        slots, facts, chatter = written.split("---\n")
        self.slots = {
            name: _listed(rest) for name, _, rest in (line.partition(": ") for line in slots.strip().splitlines())
        }
        self.facts, self.chatter = _facts(facts), [_unfolded(each) for each in chatter.strip().splitlines()]
        self.budgets, self.turns, self.repeats, self.roles, self.words = budgets, turns, repeats, roles, words


_LONG = (1000, 2000, 4000, 8000)
_MODEL = ("user", "assistant")
KINDS = {
    "small talk": Kind(texts.SMALL_TALK),
    "technical": Kind(texts.TECHNICAL, budgets=_LONG, turns=6, repeats=6, roles=_MODEL, words=(700, 900)),
    "tickets": Kind(texts.TICKETS, roles=_MODEL, words=(120, 90)),
    "code and logs": Kind(texts.CODE, budgets=_LONG, turns=10, repeats=7, roles=("user", "tool"), words=(25, 220)),
    "German": Kind(texts.GERMAN, words=(40, 30)),
    "Spanish": Kind(texts.SPANISH, words=(30, 30)),
    "Chinese": Kind(texts.CHINESE),
}
_DAYS = 40


class _Writer:
    def __init__(self, kind: Kind, seed: str) -> None:
        self.kind, self.draw = kind, random.Random(seed)

    def values(self, *templates: str) -> dict[str, str]:
        names = dict.fromkeys(name for template in templates for name in _SLOT.findall(template))
        return {name: self._value(name.rstrip("0123456789")) for name in names}

    def _value(self, slot: str) -> str:
        if slot == "number":
            return str(self.draw.randint(3, 9000))
        if slot in ("camel", "snake"):
            first, *rest = [self.draw.choice(self.kind.slots[each]) for each in ("verb", "noun", "noun")]
            return "_".join([first, *rest]) if slot == "snake" else first + "".join(map(str.capitalize, rest))
        return self.draw.choice(self.kind.slots[slot]) if slot in self.kind.slots else ""

    def _sentence(self) -> str:
        template = self.draw.choice(self.kind.chatter)
        return _filled(template, self.values(template))

    def message(self, longest: int, own: str) -> str:
        """A message with the sentence `own` somewhere in it."""
        sentences: list[str] = []
        if longest:
            words, size = self.draw.randint(longest // 4, longest), len(own.split())
            while size < words:
                sentences.append(self._sentence())
                size += len(sentences[-1].split()) or 1
        elif not own or self.draw.random() < 0.5:
            sentences.append(self._sentence())
        if own:
            sentences.insert(self.draw.randint(0, len(sentences)), own)
        text = sentences[0] if sentences else self._sentence()
        for each in sentences[1:]:
            text += ("\n\n" if "\n" in each or "\n" in text[-40:] or self.draw.random() < 0.15 else " ") + each
        return text


def _filled(template: str, values: dict[str, str]) -> str:
    """Fill in the slots; `{name_apart}` is an identifier in plain words."""
    text = _SLOT.sub(
        lambda found: (
            values[found[1]]
            if found[1] in values
            else _BEFORE_CAPITAL.sub(" ", values[found[1].removesuffix("_apart")]).lower()
        ),
        template,
    )
    return text if text[:1] in "`[" or "\n" in text else text[:1].upper() + text[1:]


class _Instance(NamedTuple):
    fact: Fact
    values: dict[str, str]
    days: list[int]
    """The day of each part."""


def _instances(writer: _Writer) -> list[_Instance]:
    """Instances of all facts; the first slot is different in each."""
    made, facts = list[_Instance](), writer.kind.facts
    for fact in facts:
        known: set[str] = set()
        while len(known) < writer.kind.repeats:
            values = writer.values(*(turn for part in fact.told for turn in part))
            first = next(iter(values.values()))
            if first not in known:
                known.add(first)
                made.append(_Instance(fact, values, sorted(writer.draw.sample(range(_DAYS), len(fact.told)))))
    return made


def _moment(day: int) -> datetime:
    return _START + timedelta(days=2 * day, hours=day * 7 % 10)


def conversation(name: str, seed: int = 1) -> dict[str, Any]:
    """A conversation of one kind with its questions."""
    kind = KINDS[name]
    writer = _Writer(kind, f"{name} {seed}")
    instances, days = _instances(writer), [list[tuple[int, int]]() for _ in range(_DAYS)]
    for at, instance in enumerate(instances):
        for part, day in enumerate(instance.days):
            days[day].append((at, part))
    evidence: dict[int, list[str]] = {}
    sessions = []
    for day, due in enumerate(days):
        writer.draw.shuffle(due)
        plan: list[tuple[int, str]] = [(-1, "")] * writer.draw.randint(1, 4)
        for at, part in due:
            fact, values, _ = instances[at]
            if "past" in values:
                back = writer.draw.randint(1, 6)
                values["past"], values["date"] = _relative(_moment(day), back)
            plan += [(at if turn is fact.told[part][-1] else -1, _filled(turn, values)) for turn in fact.told[part]]
            plan += [(-1, "")] * writer.draw.randint(1, max(1, kind.turns // (len(due) + 1)))
        turns: list[dict[str, str]] = []
        for at, own in plan + [(-1, "")] * (kind.turns - len(plan)):
            # the other side only answers facts that take two turns, so a model's long answers tell nothing new
            if own and len(turns) % 2 and kind.roles[0] != kind.roles[1] and kind.roles[1] != "tool":
                turns.append(_turn(writer, day, turns, ""))
            if own and not len(turns) % 2 and kind.roles[1] == "tool":
                turns.append(_turn(writer, day, turns, ""))
            turns.append(_turn(writer, day, turns, own))
            if at >= 0:
                evidence.setdefault(at, []).append(turns[-1]["id"])
        sessions.append({"date_time": _written(_moment(day)), "turns": turns})
    now = _moment(_DAYS) + timedelta(days=1)
    questions = [
        {
            "question": _filled(asked, instance.values | {"ago": _ago((now - _moment(instance.days[0])).days)}),
            "evidence": evidence[at],
            "category": "by date"
            if "{ago}" in asked or "{date}" in asked
            else "two places"
            if len(instance.days) > 1
            else "one place",
        }
        for at, instance in enumerate(instances)
        for asked in [writer.draw.choice(instance.fact.asked)]
    ]
    return {"sample_id": f"{name} {seed}", "sessions": sessions, "questions": questions, "asked_at": _written(now)}


def _turn(writer: _Writer, day: int, turns: list[dict[str, str]], own: str) -> dict[str, str]:
    side = len(turns) % 2
    text, role = writer.message(writer.kind.words[side], own), writer.kind.roles[side]
    speaker = {"user": ("Ann", "Ben")[side]}.get(role, role) if writer.kind.roles == ("user", "user") else ""
    return {"id": f"D{day + 1}:{len(turns) + 1}", "speaker": speaker, "role": role, "text": text}


def _relative(moment: datetime, back: int) -> tuple[str, str]:
    day = moment - timedelta(days=back)
    spoken = "yesterday" if back == 1 else f"last {day:%A}" if back % 2 else f"{back} days ago"
    return spoken, f"{day.day} {day:%B}"


def _ago(days: int) -> str:
    """How one says that, in weeks from the second on."""
    weeks = round(days / 7)
    numbers = ("", "a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    if days < 7:
        return f"{days} days ago"
    return f"{numbers[weeks]} week{'s' if weeks > 1 else ''} ago"


def _written(moment: datetime) -> str:
    return f"{moment:%I:%M %p on %d %B, %Y}"


def conversations(name: str, count: int = 2, seed: int = 1) -> list[dict[str, Any]]:
    return [conversation(name, seed + each) for each in range(count)]
