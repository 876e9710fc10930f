"""A turn as records: what its log says, told in the objects of Agent Context as one target may see them.

Nothing is measured, chosen or guessed here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctxwrap.export.evidence.delivery import (
    Delivery,
    PlacedRecord,
    Sees,
    Sending,
    deliveries_of,
    item_of,
    placed,
    source_of,
)
from ctxwrap.export.evidence.document import digest
from ctxwrap.export.evidence.history import LoggedTurn, RequestAttempt, SessionHistory
from ctxwrap.export.evidence.items import omission_of, records_of, trust_of
from ctxwrap.export.evidence.objects import (
    Assembly,
    Budget,
    Injection,
    Item,
    Omission,
    Segment,
    Selection,
    SourceRef,
    Surface,
    Truncation,
    Window,
)
from ctxwrap.export.evidence.vocabulary import VERSION
from ctxwrap.inspect.streams import text_in
from ctxwrap.kinds import kind_named
from ctxwrap.pack.receipt import budget_in
from ctxwrap.stores.log_format import count_in

_FULL = 1.0
"""The priority of what an answer should not be without."""


@dataclass(slots=True)
class Projection:
    """The records of one attempt."""

    id: str
    items: list[Item] = field(default_factory=list)
    sources: list[SourceRef] = field(default_factory=list)
    surface: Surface | None = None
    selection: Selection | None = None
    budget: Budget | None = None
    window: Window | None = None
    assembly: Assembly | None = None
    injections: list[Injection] = field(default_factory=list)
    handed: list[Delivery] = field(default_factory=list)
    """What others than the model were given."""
    contents: dict[str, str] = field(default_factory=dict)
    placed: tuple[PlacedRecord, ...] = ()

    @property
    def selections(self) -> list[Selection]:
        return [*([self.selection] if self.selection else []), *(each.selection for each in self.handed)]

    @property
    def assemblies(self) -> list[Assembly]:
        return [*([self.assembly] if self.assembly else []), *(each.assembly for each in self.handed)]

    @property
    def all_injections(self) -> list[Injection]:
        return [*self.injections, *(each.injection for each in self.handed)]

    @property
    def ids(self) -> Iterator[str]:
        """Of the records that an event may be about."""
        yield from (self.surface.surface_id,) if self.surface else ()
        yield from (self.selection.selection_id,) if self.selection else ()
        yield from (self.budget.budget_id,) if self.budget else ()
        yield from (self.assembly.assembly_id,) if self.assembly else ()


def projected(told: SessionHistory, turn: LoggedTurn, attempt: RequestAttempt, sees: Sees) -> Projection:
    """The records of an attempt: what could be sent, what was chosen, what it cost, what became of it."""
    return _Projecting(told, turn, attempt, sees).done()


class _Projecting:
    def __init__(self, told: SessionHistory, turn: LoggedTurn, attempt: RequestAttempt, sees: Sees) -> None:
        self.told, self.turn, self.attempt, self.sees = told, turn, attempt, sees
        things = enumerate(records_of(told, attempt), 1)
        self.placed = tuple(placed(attempt, at, thing, sees) for at, thing in things)
        self.result = Projection(attempt.id, placed=self.placed)

    def done(self) -> Projection:
        result, view = self.result, self.attempt.view
        result.sources = list({each.source: source_of(each) for each in self.placed}.values())
        result.items = [item_of(each, self._kept) for each in self.placed]
        result.surface = self._surface()
        if view is not None:
            result.selection = self._selection()
            result.budget, result.window = self._budget(), self._window()
            sending = Sending(self.turn, self.attempt, self._inside(), self.sees, self._kept)
            result.assembly = sending.assembly(view.blocks)
            result.injections = list(sending.injections(result.assembly))
            text = self.told.text
            result.handed = list(deliveries_of(self.turn, self.attempt, self.placed, text, self.sees, self._kept))
        return result

    def _inside(self) -> dict[str, list[PlacedRecord]]:
        inside: dict[str, list[PlacedRecord]] = {}
        for each in self.placed:
            for key in each.thing.blocks:
                inside.setdefault(key, []).append(each)
        return inside

    def _kept(self, text: str) -> str:
        name = digest(text)
        self.result.contents[name] = text
        return name

    def _surface(self) -> Surface:
        return Surface(
            **VERSION,
            surface_id=f"surface-{self.attempt.id}",
            scope="turn",
            surface_kind="turn_surface",
            producer="ctxwrap",
            available_source_refs=tuple(each.source_id for each in self.result.sources),
            available_item_refs=tuple(each.id for each in self.placed),
            created_at=self.attempt.time,
        )

    def _selection(self) -> Selection:
        selected = [each for each in self.placed if each.thing.item.included]
        return Selection(
            **VERSION,
            selection_id=f"selection-{self.attempt.id}",
            surface_id=f"surface-{self.attempt.id}",
            candidate_item_refs=tuple(each.id for each in self.placed),
            selected_item_refs=tuple(each.id for each in selected),
            omitted_item_refs=tuple(_omission(each) for each in self.placed if not each.thing.item.included),
            ranking_signals={
                each.id: _signals(each) for each in self.placed if kind_named(each.thing.item.kind).evidence.ranked
            },
            selection_policy="claims in their order, each within its share of the budget",
            budget_ref=f"budget-{self.attempt.id}",
            model_ref=text_in(self.attempt.event, "model"),
            created_at=self.attempt.time,
        )

    def _budget(self) -> Budget:
        known = budget_in(self.attempt.event)
        fixed, used = count_in(known, "fixed"), count_in(known, "used")
        told: dict[str, Any] = {name: known[name] for name in ("set_by", "spent", "counter", "exact") if name in known}
        return Budget(
            **VERSION,
            budget_id=f"budget-{self.attempt.id}",
            target="model",
            max_tokens=count_in(known, "limit"),
            reserved_tokens=count_in(known, "reply"),
            actual_tokens=None if fixed is None or used is None else fixed + used,
            actual_items=sum(each.thing.item.included for each in self.placed),
            overflow_strategy="defer_to_retrieval",
            truncation_records=tuple(_truncations(self.placed)),
            created_at=self.attempt.time,
            metadata=told,
        )

    def _window(self) -> Window:
        known = budget_in(self.attempt.event)
        return Window(
            **VERSION,
            window_id=f"window-{self.attempt.id}",
            target="model",
            budget_ref=f"budget-{self.attempt.id}",
            max_tokens=count_in(known, "limit") or 0,
            reserved_tokens=count_in(known, "reply") or 0,
            segments=tuple(self._segments()),
            created_at=self.attempt.time,
        )

    def _segments(self) -> Iterator[Segment]:
        """One for each entry of the pack that was sent, with the tokens that it takes altogether."""
        entries: dict[int, list[PlacedRecord]] = {}
        for each in self.placed:
            if each.thing.item.included:
                entries.setdefault(each.thing.entry, []).append(each)
        for order, group in enumerate(entries.values()):
            entry = group[0].thing.item
            yield Segment(
                segment_id=f"segment-{self.attempt.id}-{order + 1}",
                role=entry.kind,
                target="model",
                actual_tokens=entry.tokens,
                item_refs=tuple(each.id for each in group),
                order=order,
                truncation_records=tuple(_truncations(group)),
            )


def _omission(placed: PlacedRecord) -> Omission:
    item = placed.thing.item
    matters = True if item.priority >= _FULL else None
    return Omission(
        item_ref=placed.id, reason=omission_of(item.kind, item.reason), note=item.reason, high_impact=matters
    )


def _signals(placed: PlacedRecord) -> dict[Any, Any]:
    item = placed.thing.item
    known: dict[str, Any] = {
        "authority": trust_of(item.origin),
        "token_cost": placed.thing.tokens,
        "recency": item.freshness or None,
    }
    known |= kind_named(item.kind).evidence.signals
    return {name: value for name, value in known.items() if value is not None}


def _truncations(placed: Sequence[PlacedRecord]) -> Iterator[Truncation]:
    for each in placed:
        if each.truncated is not None and each.thing.item.included:
            yield Truncation(item_ref=each.id, original_tokens=each.truncated, tokens=each.thing.item.tokens)
