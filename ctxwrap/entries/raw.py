"""Raw messages and summaries of them: two kinds of text that must not be taken for each other."""

from typing import NamedTuple


class Summary(str):
    """One message in short, for finding it again; nothing may be learnt from it."""

    __slots__ = ()


class Raw(NamedTuple):
    """One message as it was said: what a context document grows from, beside memory."""

    number: int
    role: str
    text: str
    time: str = ""
    """When it was said, as ISO 8601 has it."""
    speaker: str = ""
    """The name of who said it, if it has one beside the role."""

    @property
    def day(self) -> str:
        """When it was said, as YYYY-MM-DD, or nothing."""
        year, month, day = self.time[:4], self.time[5:7], self.time[8:10]
        return f"{year}-{month}-{day}" if len(day) == 2 and (year + month + day).isdecimal() else ""


class Remembered(NamedTuple):
    """An item of memory, in the words of whoever wrote it: the model, the user or a rule."""

    type: str
    """Such as fact, preference, decision, task or deadline."""
    content: str


def must_be_raw(entry: object) -> Raw:
    """The entry itself; `TypeError` if it is, or is made of, a summary: nothing may grow from those."""
    if isinstance(entry, Summary) or (isinstance(entry, Raw) and isinstance(entry.text, Summary)):
        raise TypeError("a summary stands where a raw message is wanted: documents grow from raw messages only")
    if not isinstance(entry, Raw):
        raise TypeError(f"a Raw is wanted, not a {type(entry).__name__}")
    return entry
