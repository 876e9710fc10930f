"""A pack to look at: every block of the request with its tokens, and every candidate with its reason."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from ctxwrap.records import numbers_in
from ctxwrap.session.abi import source_issue
from ctxwrap.types import Body, Missing, PackItem, Record


class Block(NamedTuple):
    """One part of a request, in the order in which the model reads it."""

    name: str
    """What it is: protocol, boot, system, pinned, memory, background, message, found, offered or state."""
    role: str
    """Whose words it stands among: system, user, assistant or tool."""
    source: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class PackView:
    turn: str
    """The turn's id; empty for a call that was not made."""
    session: str
    agent: str
    round: int
    at: str
    model: str
    mode: str
    items: tuple[PackItem, ...]
    budget: Record
    blocks: tuple[Block, ...]
    sha256: str = ""
    """Of the whole request as JSON with sorted keys."""
    report: Record = field(default_factory=dict)
    """The `assembly_report` of the working set."""
    notes: tuple[str, ...] = ()
    """What cannot be shown any more, and why."""
    missing: tuple[Missing, ...] = ()
    """What the model should have had, and what it asked for, as far as that is open at the turn's end."""
    body: Body = field(default_factory=dict)
    """The whole request, for a call that was not made."""

    @property
    def included(self) -> tuple[PackItem, ...]:
        return tuple(item for item in self.items if item.included)

    @property
    def left_out(self) -> tuple[PackItem, ...]:
        return tuple(item for item in self.items if not item.included)

    @property
    def boot_header(self) -> str:
        """The few lines by which the model knows where it is; empty if there are none."""
        found = next((match for block in self.blocks if (match := _BOOT.search(block.text))), None)
        return found[0].strip("\n") + "\n" if found else ""

    def as_markdown(self) -> str:
        """The pack as `pack.md` holds it."""
        from ctxwrap.session.packs.markdown import markdown

        return markdown(self)

    def as_json(self) -> Record:
        """The pack as `pack.json` holds it: items name files of the session, or the log that has what they tell."""
        return {
            "session": self.session,
            "agent": self.agent,
            "budget_tokens": None if self.budget.get("set_by") == "nothing" else self.budget.get("limit"),
            "turn": self.turn,
            "round": self.round,
            "at": self.at,
            "model": self.model,
            "mode": self.mode,
            "sha256": self.sha256,
            "budget": self.budget,
            "items": [self._listed(item) for item in self.included],
            "left_out": [self._listed(item) for item in self.left_out],
            **({"missing": [each._asdict() for each in self.missing]} if self.missing else {}),
            "blocks": list(self._outline()),
            **({"assembly_report": self.report} if self.report else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def _listed(self, item: PackItem) -> Record:
        told = {**item.as_json(), "kind": KINDS.get(item.kind, item.kind)}
        if source_issue(item.source):
            told |= {"path": item.source, "source": "events.jsonl"}
        elif item.source == "messages.jsonl" and item.refs:
            told["range"] = self._range(item)
        return told

    def _range(self, item: PackItem) -> str:
        """`tail:40` for the last forty messages before those of the call itself, else the numbers."""
        if item.kind != "recent_messages" or not item.included:
            return ",".join(dict.fromkeys(ref.partition(".")[0] for ref in item.refs))
        (span,) = item.refs
        numbers = numbers_in(span)
        named = (block.source.partition("messages:")[2] for block in self.blocks)
        behind = min((int(number) for number in named if number.isdecimal() and int(number) > numbers[-1]), default=0)
        is_tail = numbers == list(range(numbers[0], numbers[-1] + 1)) and behind == numbers[-1] + 1
        return f"tail:{len(numbers)}" if is_tail else span

    def _outline(self) -> Iterator[Record]:
        """The blocks without their texts, messages in a row as one: `items` tells which they are."""
        for is_message, run in groupby(self.blocks, key=lambda block: block.name == "message"):
            blocks = list(run)
            if is_message:
                tokens = sum(block.tokens for block in blocks)
                yield {"name": "messages", "source": "messages.jsonl", "count": len(blocks), "tokens": tokens}
            else:
                names = ("name", "role", "source", "tokens")
                yield from ({name: getattr(block, name) for name in names} for block in blocks)


_BOOT = re.compile(r"^Root: .*?(?=\n\n|\n<)", re.MULTILINE | re.DOTALL)


KINDS = {"pinned": "system", "children": "child_result"}
"""What the document calls kinds that have another name in settings and reports."""
