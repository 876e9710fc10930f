"""Sharing: who may see each thing of a pack, and what is kept at hand for others than the model."""

from collections.abc import Iterable, Mapping

from ctxwrap.types import Candidate, PackItem, Resource, Text
from ctxwrap.visibility import ALONE, FILES, Rules, Target, seen_by


class Sharing:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._declared: Mapping[str, tuple[str, ...]] = {}
        """Whom files say that they are for."""
        self.resources: list[Resource] = []

    def declare(self, visibility: Mapping[str, tuple[str, ...]]) -> None:
        """Take note of whom the files of a working set say that they are for."""
        self._declared = visibility

    def seen_by(self, kind: str, source: str) -> tuple[Target, ...]:
        """Who may see something, as the caller and the source say."""
        own = self._declared.get(source) if kind in FILES else None
        return seen_by(self._rules, kind, source, own)

    def offer(self, kind: str, texts: Iterable[Text]) -> None:
        """Keep at hand what others than the model may see."""
        offered = (Resource(kind, text.source, text.text, self.seen_by(kind, text.source)) for text in texts)
        self.resources += [each for each in offered if each.visibility not in ((), ALONE)]

    def marked(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Candidates with those who may see them."""
        return [each._replace(visibility=self.seen_by(each.kind, each.source)) for each in candidates]

    def told(self, items: tuple[PackItem, ...]) -> tuple[PackItem, ...]:
        """All items of a pack with those who may see them."""
        if not self._rules and not self._declared:
            return items
        return tuple(item._replace(visibility=self.seen_by(item.kind, item.source)) for item in items)
