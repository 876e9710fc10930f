"""A seeded corpus of replies: what a model meant, and how it came, damaged in the ways models damage a trailer."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.protocol.damage import (
    ALONE,
    ENCODINGS,
    PLAIN,
    SEPARATOR,
    TABLES,
    TIERS,
    TRUNCATIONS,
    Draft,
    Style,
    Token,
    Unfit,
    apply,
    layout,
)

DAMAGES = {damage.__name__: damage for table in TABLES for damage in table}
CLASSES = ("clean", *DAMAGES)
TRUNCATED = frozenset(damage.__name__ for damage in TRUNCATIONS)
FUZZ = ("fuzz_delete", "fuzz_duplicate", "fuzz_replace", "fuzz_insert")

CONTENTS = (
    *PLAIN,
    "Docs: https://docs.example.org/v2/#intro // the slashes stay",
    "Issue #52, colour #ff8800, and /* legacy */ notes",
    "Return None, not NaN; True and False are words here, null too",
    "Lists such as [1, 2, ] or {k: v,} are refused",
    'Log: {"level": "warn", "code": [4, 2]} was seen twice',
    '{\\"a\\": \\"b\\"} is how it was escaped',
    "Regex ^\\s*(\\d{2,4})$ and path D:\\srv\\new\\table",
    "if (a && b) { return x[0]; } else { y = '}' }",
    "def f(x):\n    return {'k': [x, \"]\"]}  # fine\n",
    "Tom & Jerry &lt;tag&gt; &quot;q&quot; &#39;",
    "全角：『』、；【注】（备注）“引”，。｛｝",
    "zero\u200bwidth, join\u200der, no\u00a0break and \ufeffmark",
    "rock 'n' roll, it's Mia's, 'quoted', or so",
    'Er sagte „Morgen" und ging',
    f"Close with {SEPARATOR} and nothing else",
    f"First line\n{SEPARATOR}\n" + '{"version": "2.2", "memory": {}}',
    "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> main",
    'cat <<< "$X" | wc -l',
    '```json\n{"a": 1}\n```',
    "`a` and ``b``, \\`c\\`",
    "tab\there\r\nand CRLF",
    'The key "id": "core-042" is an example, "round": 9 too',
    "]}]} {[{ ,,, :::",
    "and so on ... [...] …",
    'join "a" + "b" with a plus; x = 1; y => 2',
    "\\u0041 is an escape, \\x41 is none",
    " space before and behind ",
    "</s> and <|im_end|> are words",
    "null",
    "3.14",
    "50 % of 1,5 Mio €; ½ cup; 3×4; a<b>c",
    "rainbow 🏳️‍🌈 and heart ❤️‍🔥\n",
)
TAGS = ("ui", "工作", "v2.2", "C++", "naïve", "new/old", "to do", "ops", "预算", "リリース", "null")
TYPES = ("fact", "rule", "identity", "preference", "task", "plan", "decision", "note", "hint")
TASKS = ("Book the train to Porto", "整理会议记录，发给全组", "Compare offers, then decide", "Fix build #88 🛠️", "")
CAPABILITIES = (("memory", "write_once"), ("search", "read"), ("mail", "read/write"))

PARAGRAPHS = (
    "Here are three options, the cheapest one first.",
    "行程已经排好了：周五出发，周日回来。",
    "できました！ご確認ください。",
    "Booked 🎈 — one ticket for the whole family 👩‍👩‍👦.",
    "1. Boil water\n2. Wait\n3. Add `salt`, not #sugar",
    "| a | b |\n|---|---|\n| 1 | {2} |",
    "> That is what she said.\n\nAnd he agreed: it’s “fine”.",
    "Compare `a << 3` with `b >> 1`; a `Dict<K, List<V>>` is fine, x < 3 && y > 5 as well.",
    'Feed it with `cat <<< "$X"`:\n\n```sh\nwc -l <<< "$LINES"  # <<<\n```',
    "First solve the conflict:\n\n```\n<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> topic\n```",
    'The old format was\n\n```json\n{"version": "1.4", "memory": {"core": [], "notes": [1, 2, ]}}\n```\n\nand is gone.',
    "See https://example.net/a//b?c=d#e (50 % off).",
    "In CONTEXT this is **clear**.",
)
LOUD = (
    f"The mark `{SEPARATOR}` belongs on a line of its own.",
    f"Some write {SEPARATOR} in the middle of a line.",
    f'A reply ends like this:\n\n```\nBye!\n{SEPARATOR}\n{{"version": "2.2", "memory": {{}}}}\n```\n\nNothing follows.',
    f"Others write\n\n{SEPARATOR}\n\nand forget the rest.",
)
"""Paragraphs that name the separator itself."""


@dataclass(frozen=True, slots=True)
class Case:
    """One reply and what is to be read out of it."""

    name: str
    damage: tuple[str, ...]
    reply: str
    visible: str
    snapshot: dict[str, Any]
    lossless: bool
    """Everything that was meant can still be told from the reply and the state before it."""
    policy: bool
    """The expected snapshot is a choice among sound ones."""
    runtime: dict[str, Any]
    previous: dict[str, Any] | None

    @property
    def truncated(self) -> bool:
        return any(name.startswith("truncated") for name in self.damage)

    def to_json(self) -> str:
        """One line of a corpus file."""
        row = {_COLUMNS.get(name, name): value for name, value in asdict(self).items()}
        return json.dumps(row, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Case":
        row = json.loads(line)
        fields = {name: row[_COLUMNS.get(name, name)] for name in cls.__slots__}
        return cls(**{**fields, "damage": tuple(fields["damage"])})


_COLUMNS = {"name": "class", "damage": "corruptions", "previous": "prev"}


def cases(seed: int, count: int) -> list[Case]:
    """`count` replies: every fourth with two or three damages, the others with each class in turn."""
    return [_case(f"{seed}:{at}", *_choice(seed, at)) for at in range(count)]


def of_class(name: str, seed: int, count: int) -> list[Case]:
    """`count` replies with this damage only."""
    return [_case(f"{seed}:{name}:{at}", name) for at in range(count)]


def fuzz(seed: int, count: int) -> list[Case]:
    """`count` replies with one random edit of a structural character or of a string's delimiter."""
    return [_fuzzed(random.Random(f"fuzz:{seed}:{at}"), FUZZ[at % len(FUZZ)]) for at in range(count)]


def _choice(seed: int, at: int) -> tuple[str, ...]:
    if at % 4 < 3:
        return (CLASSES[(at - at // 4) % len(CLASSES)],)
    rng = random.Random(f"choice:{seed}:{at}")
    tables = [table for table in TABLES if table not in (ENCODINGS, TRUNCATIONS)]
    while True:
        names = [rng.choice(table).__name__ for table in rng.sample(tables, rng.choice((2, 2, 3)))]
        if not ALONE.intersection(names) and _fits(seed, names):
            return tuple(names)


def _fits(seed: int, names: Sequence[str]) -> bool:
    """Whether these damages can meet in one reply at all."""
    try:
        _case(f"{seed}:{names}", *names)
    except Unfit:
        return False
    return True


def _case(seed: str, *names: str) -> Case:
    rng = random.Random(seed)
    damages = [DAMAGES[name] for name in names if name != "clean"]
    for _ in range(40):
        draft = _draft(rng)
        runtime = dict(draft.state["runtime"])
        try:
            apply(draft, damages)
        except Unfit:
            continue
        return _finished(
            draft, names, draft.reply + rng.choice(("", "", "\n")) * (not draft.unclosed and not draft.rest), runtime
        )
    raise Unfit(f"{names} cannot be combined")


def _finished(draft: Draft, names: Sequence[str], reply: str, runtime: dict[str, Any]) -> Case:
    return Case(
        name="+".join(names),
        damage=tuple(names),
        reply=reply,
        visible=_visible(draft),
        snapshot={**draft.state, "runtime": runtime},
        lossless=draft.lossless,
        policy=draft.policy,
        runtime=runtime,
        previous=draft.previous,
    )


def _visible(draft: Draft) -> str:
    """The text around the trailer, with the wider of the gaps around that."""
    if not draft.rest:
        return draft.visible
    lead, after = (gap[: len(gap) - len(gap.lstrip("\n"))] for gap in (draft.lead, draft.after[::-1]))
    return draft.visible + max(lead, after, key=len) + draft.rest


def _fuzzed(rng: random.Random, name: str) -> Case:
    while True:
        draft = _draft(rng)
        apply(draft, ())
        marks = [token for token in draft.tokens if token.kind not in ("number", "literal")]
        before = draft.text
        _edit(rng, rng.choice(marks), name)
        draft.text = layout(draft.tokens, draft.style)
        if draft.text != before:
            return _finished(draft, (name,), draft.reply, dict(draft.state["runtime"]))


def _edit(rng: random.Random, token: Token, name: str) -> None:
    at = rng.choice((0, len(token.text) - 1))
    head, mark, tail = token.text[:at], token.text[at], token.text[at + 1 :]
    other = rng.choice('{}[],:"')
    edits: dict[str, Callable[[], str]] = {
        "fuzz_delete": lambda: head + tail,
        "fuzz_duplicate": lambda: head + mark + mark + tail,
        "fuzz_replace": lambda: head + other + tail,
        "fuzz_insert": lambda: head + rng.choice((other + mark, mark + other)) + tail,
    }
    token.write(edits[name]())


def _draft(rng: random.Random) -> Draft:
    calm = rng.sample(PARAGRAPHS, rng.randint(1, 4))
    loud = list(calm)
    if rng.random() < 0.15:
        loud.insert(rng.randint(0, len(loud)), rng.choice(LOUD))
    style = Style(
        indent=rng.choice((None, None, 2, 4)),
        spaced=rng.random() < 0.7,
        ascii=rng.random() < 0.15,
        flat_tags=rng.random() < 0.5,
    )
    style.spaced |= style.indent is not None
    return Draft(
        rng=rng,
        visible="\n\n".join(loud),
        state=_state(rng),
        calm="\n\n".join(calm),
        style=style,
        gap=rng.choice(("\n", "\n", "\n\n", " ")),
    )


def _state(rng: random.Random) -> dict[str, Any]:
    now = rng.randint(2, 60)
    day, hour, minute, second = rng.randint(10, 28), rng.randint(0, 23), rng.randint(0, 59), rng.randint(0, 59)
    most = rng.choice((2, 4, 4, 8, 12))
    return {
        "version": "2.2",
        "runtime": {
            "round": now,
            "datetime": f"2026-03-{day}T{hour:02}:{minute:02}:{second:02}Z",
            "startup_at": "2026-03-01T06:00:00Z",
        },
        "memory": {tier: _items(rng, tier, now, rng.randint(1, most)) for tier in TIERS},
        "capabilities": [
            {"name": name, "scope": scope}
            for name, scope in rng.sample(CAPABILITIES, rng.randint(1, len(CAPABILITIES)))
        ],
        "active_task": rng.choice(TASKS),
    }


def _items(rng: random.Random, tier: str, now: int, count: int) -> list[dict[str, Any]]:
    prefix = {"core": "core", "working": "work", "ephemeral": "temp"}[tier]
    return [_item(rng, f"{prefix}-{at:03}", now) for at in range(1, count + 1)]


def _item(rng: random.Random, name: str, now: int) -> dict[str, Any]:
    item = {
        "id": name,
        "type": rng.choice(TYPES),
        "decay": rng.choice((0.0, 0.05, 0.1, 0.25, 0.4, 0.5, 0.8, 0.9, 1.0, round(rng.random(), 3))),
        "round": rng.randint(1, now),
        "tags": rng.sample(TAGS, rng.randint(1, 3)),
        "content": rng.choice(CONTENTS),
    }
    extras: tuple[tuple[str, Any], ...] = (("source", None), ("pinned", rng.random() < 0.5), ("expires", "2026-04-01"))
    return {**item, **{key: value for key, value in extras if rng.random() < 0.12}}
