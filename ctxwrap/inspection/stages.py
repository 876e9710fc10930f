"""The events of the stages of a call, made of the records that a log has."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ctxwrap.inspection.reading import Numbered, control_in, round_in, text_in
from ctxwrap.records import turn_in
from ctxwrap.stages.events import SENDING, STAGES, Ids, session_stages_of, stages_of
from ctxwrap.types import Record


class Stages:
    """Goes through the events of a session in their order; records that have such events beside them get no others."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._turns: dict[str, tuple[Ids, bool]] = {}
        """The ids of each turn's last request, and whether its mode sends one."""

    def among(self, events: Iterable[Numbered]) -> Iterator[Numbered]:
        """The events and, where a log with `evidence="log"` has them, those of the stages; whole batches of a log."""
        for _, batch in groupby(events, _batch):
            yield from self._with_stages(list(batch))

    def _with_stages(self, batch: list[Numbered]) -> Iterator[Numbered]:
        records = [record for _, record in batch]
        try:
            told = self._told(records)
        except (AttributeError, LookupError, TypeError, ValueError):  # a log may come from anybody
            told = []
        if not told or any(record.get("type") in STAGES for record in records):
            yield from batch
            return
        at = next((at for at, record in enumerate(records) if _follows(record)), len(batch))
        control = {"turn": turn_in(records[0]), "time": text_in(control_in(records[0]), "time")}
        yield from batch[:at]
        yield from (Numbered(batch[max(0, at - 1)].number, {**event, "ctx": control}) for event in told)
        yield from batch[at:]

    def _told(self, records: Sequence[Record]) -> list[Record]:
        for record in records:
            if record.get("type") in ("start", "repack"):
                self._take_request(record)
        turn = turn_in(records[0])
        ids, sends = self._turns.get(turn, (Ids(self._session, turn, attempt=1), True))
        return [*stages_of(records, ids, sends=sends), *session_stages_of(records, self._session)]

    def _take_request(self, event: Record) -> None:
        run = text_in(event, "run")
        known, sends = self._turns.get(run, (Ids(self._session, run, round_in(event)), event.get("mode") in SENDING))
        self._turns[run] = known._replace(attempt=known.attempt + 1), sends


def _batch(event: Numbered) -> tuple[str, str]:
    """What the records have in common that were written together."""
    control = control_in(event.record)
    return text_in(control, "id").rpartition("e")[0], text_in(control, "time")


def _follows(record: Record) -> bool:
    """Whether the events of the stages stand before it."""
    return record.get("type") == "done" or str(record.get("type")).startswith("context.missing.")
