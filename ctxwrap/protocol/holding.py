"""Holding back of a stream no more than what may turn out to be a trailer."""

from ctxwrap.protocol.separator import SPACE, Scan


class HoldBack:
    """Takes text as it comes, and gives it back as soon as nothing that may follow can make it part of a trailer."""

    def __init__(self) -> None:
        self._text = "\n"
        """What still has to be looked at, and what decides whether it begins a line."""
        self._shown = len(self._text)
        self._scan = Scan(at=len(self._text))
        self._held: list[str] = []
        """What is held back, but need not be looked at again."""
        self._in_trailer = False

    def feed(self, chunk: str) -> str:
        if self._in_trailer:
            return ""
        text = self._text + chunk
        until = self._scan.run(text, more=True)
        if self._scan.places:
            place = self._scan.places[0]
            until, self._in_trailer = max(place.start, 0), not place.in_block
        until = len(text[:until].rstrip(SPACE))
        shown = ""
        if until > self._shown:
            shown = "".join([*self._held, text[self._shown : until]])
            self._held.clear()
            self._shown = until
        self._drop(text, self._scan.at - 1)
        return shown

    def _drop(self, text: str, seen: int) -> None:
        """Keep of `text` what comes after the first `seen` characters."""
        if seen > self._shown:
            self._held.append(text[self._shown : seen])
            self._shown = seen
        self._text = text[seen:]
        self._shown -= seen
        self._scan.forget(seen)
