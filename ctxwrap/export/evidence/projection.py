"""Projects one request of a turn into the records of Agent Context, as one target may see them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctxwrap.export.evidence.delivery import (
    Delivery,
    DocumentItem,
    MaySee,
    ModelDelivery,
    build_deliveries,
    build_item,
    build_source,
    identify,
)
from ctxwrap.export.evidence.document import digest
from ctxwrap.export.evidence.history import LoggedTurn, RequestAttempt, SessionHistory
from ctxwrap.export.evidence.items import omission_of, read_records, trust_of
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

_HIGH_IMPACT = 1.0
"""Omitting an item of this priority may change the answer."""


@dataclass(slots=True)
class Projection:
    """The records of one request."""

    id: str
    items: list[Item] = field(default_factory=list)
    sources: list[SourceRef] = field(default_factory=list)
    surface: Surface | None = None
    selection: Selection | None = None
    budget: Budget | None = None
    window: Window | None = None
    assembly: Assembly | None = None
    injections: list[Injection] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    """Deliveries to targets other than the model."""
    contents: dict[str, str] = field(default_factory=dict)
    candidates: tuple[DocumentItem, ...] = ()

    @property
    def selections(self) -> list[Selection]:
        return [*([self.selection] if self.selection else []), *(each.selection for each in self.deliveries)]

    @property
    def assemblies(self) -> list[Assembly]:
        return [*([self.assembly] if self.assembly else []), *(each.assembly for each in self.deliveries)]

    @property
    def all_injections(self) -> list[Injection]:
        return [*self.injections, *(each.injection for each in self.deliveries)]

    @property
    def ids(self) -> Iterator[str]:
        """Ids of the records that events may have as subject."""
        yield from (self.surface.surface_id,) if self.surface else ()
        yield from (self.selection.selection_id,) if self.selection else ()
        yield from (self.budget.budget_id,) if self.budget else ()
        yield from (self.assembly.assembly_id,) if self.assembly else ()


def project(history: SessionHistory, turn: LoggedTurn, attempt: RequestAttempt, may_see: MaySee) -> Projection:
    return _Projector(history, turn, attempt, may_see).project()


class _Projector:
    def __init__(self, history: SessionHistory, turn: LoggedTurn, attempt: RequestAttempt, may_see: MaySee) -> None:
        self.history, self.turn, self.attempt, self.may_see = history, turn, attempt, may_see
        records = enumerate(read_records(history, attempt), 1)
        self.candidates = tuple(identify(attempt, number, record, may_see) for number, record in records)
        self.result = Projection(attempt.id, candidates=self.candidates)

    def project(self) -> Projection:
        result, view = self.result, self.attempt.view
        result.sources = list({each.source_id: build_source(each) for each in self.candidates}.values())
        result.items = [build_item(each, self._store_text) for each in self.candidates]
        result.surface = self._surface()
        if view is not None:
            result.selection = self._selection()
            result.budget, result.window = self._budget(), self._window()
            see_and_store = self.may_see, self._store_text
            delivery = ModelDelivery(self.turn, self.attempt, self._items_by_block(), *see_and_store)
            result.assembly = delivery.assembly(view.blocks)
            result.injections = list(delivery.injections(result.assembly))
            text = self.history.text
            result.deliveries = list(build_deliveries(self.turn, self.attempt, self.candidates, text, *see_and_store))
        return result

    def _items_by_block(self) -> dict[str, list[DocumentItem]]:
        items: dict[str, list[DocumentItem]] = {}
        for each in self.candidates:
            for key in each.record.blocks:
                items.setdefault(key, []).append(each)
        return items

    def _store_text(self, text: str) -> str:
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
            available_item_refs=tuple(each.id for each in self.candidates),
            created_at=self.attempt.time,
        )

    def _selection(self) -> Selection:
        selected = [each for each in self.candidates if each.record.item.included]
        return Selection(
            **VERSION,
            selection_id=f"selection-{self.attempt.id}",
            surface_id=f"surface-{self.attempt.id}",
            candidate_item_refs=tuple(each.id for each in self.candidates),
            selected_item_refs=tuple(each.id for each in selected),
            omitted_item_refs=tuple(_omission(each) for each in self.candidates if not each.record.item.included),
            ranking_signals={
                each.id: _signals(each) for each in self.candidates if kind_named(each.record.item.kind).evidence.ranked
            },
            selection_policy="claims in their order, each within its share of the budget",
            budget_ref=f"budget-{self.attempt.id}",
            model_ref=text_in(self.attempt.event, "model"),
            created_at=self.attempt.time,
        )

    def _budget(self) -> Budget:
        known = budget_in(self.attempt.event)
        fixed, used = count_in(known, "fixed"), count_in(known, "used")
        metadata: dict[str, Any] = {
            name: known[name] for name in ("set_by", "spent", "counter", "exact") if name in known
        }
        return Budget(
            **VERSION,
            budget_id=f"budget-{self.attempt.id}",
            target="model",
            max_tokens=count_in(known, "limit"),
            reserved_tokens=count_in(known, "reply"),
            actual_tokens=None if fixed is None or used is None else fixed + used,
            actual_items=sum(each.record.item.included for each in self.candidates),
            overflow_strategy="defer_to_retrieval",
            truncation_records=tuple(_truncations(self.candidates)),
            created_at=self.attempt.time,
            metadata=metadata,
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
        """Build one segment per included pack entry, with the entry's tokens."""
        entries: dict[int, list[DocumentItem]] = {}
        for each in self.candidates:
            if each.record.item.included:
                entries.setdefault(each.record.entry, []).append(each)
        for order, group in enumerate(entries.values()):
            entry = group[0].record.item
            yield Segment(
                segment_id=f"segment-{self.attempt.id}-{order + 1}",
                role=entry.kind,
                target="model",
                actual_tokens=entry.tokens,
                item_refs=tuple(each.id for each in group),
                order=order,
                truncation_records=tuple(_truncations(group)),
            )


def _omission(candidate: DocumentItem) -> Omission:
    item = candidate.record.item
    return Omission(
        item_ref=candidate.id,
        reason=omission_of(item.kind, item.reason),
        note=item.reason,
        high_impact=True if item.priority >= _HIGH_IMPACT else None,
    )


def _signals(candidate: DocumentItem) -> dict[Any, Any]:
    item = candidate.record.item
    known: dict[str, Any] = {
        "authority": trust_of(item.origin),
        "token_cost": candidate.record.tokens,
        "recency": item.freshness or None,
    }
    known |= kind_named(item.kind).evidence.signals
    return {name: value for name, value in known.items() if value is not None}


def _truncations(candidates: Sequence[DocumentItem]) -> Iterator[Truncation]:
    for each in candidates:
        if each.truncated is not None and each.record.item.included:
            yield Truncation(item_ref=each.id, original_tokens=each.truncated, tokens=each.record.item.tokens)
