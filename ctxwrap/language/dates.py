"""Finds the days and months that a text names."""

import re
from datetime import UTC, date, datetime
from typing import NamedTuple

from ctxwrap.language.patterns import lazy_pattern

_NAMES = (
    ("january", "jan", "januar", "janvier", "enero", "gennaio", "janeiro"),
    ("february", "feb", "februar", "février", "febrero", "febbraio", "fevereiro"),
    ("march", "mar", "märz", "mars", "marzo", "março"),
    ("april", "apr", "avril", "abril", "aprile"),
    ("may", "mai", "mayo", "maggio", "maio"),
    ("june", "jun", "juni", "juin", "junio", "giugno", "junho"),
    ("july", "jul", "juli", "juillet", "julio", "luglio", "julho"),
    ("august", "aug", "août", "agosto"),
    ("september", "sep", "sept", "septembre", "septiembre", "settembre", "setembro"),
    ("october", "oct", "oktober", "octobre", "octubre", "ottobre", "outubro"),
    ("november", "nov", "novembre", "noviembre", "novembro"),
    ("december", "dec", "dezember", "décembre", "diciembre", "dicembre", "dezembro"),
)
_MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names}
_AMBIGUOUS = {"may", "march", "mar", "jun", "mars", "mai", "sep"}
"""These count as months only when capitalised."""

_WORD = lazy_pattern(r"[^\W\d_]{3,12}|\d{1,4}")
_ISO = lazy_pattern(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_CJK_MONTH = lazy_pattern(r"(\d{1,2})\s?月(?:\s?(\d{1,2})\s?[日号])?")
_DAY = 86_400

_DAYS = lazy_pattern(
    r"(?<!\d)(?:"
    r"(?P<iso>\d{4}-\d{2}-\d{2})(?!\d)"
    r"|(?P<dotted>\d{1,2}\.\d{1,2}\.\d{4})(?!\d)"
    r"|(?P<cjk>(?:\d{4}\s?年\s?)?\d{1,2}\s?月\s?\d{1,2}\s?[日号])"
    r"|(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|º)?\s(?:(?:of|de)\s)?(?P<month>[^\W\d_]{3,12})\b\.?(?:,?\s(?:de\s)?(?P<year>\d{4})(?!\d))?"
    r")"
    r"|\b(?P<month_first>[A-Z][a-z]{2,9})\.?\s(?P<day_after>\d{1,2})(?:st|nd|rd|th)?(?!\d)(?:,?\s(?P<year_after>\d{4})(?!\d))?"
)
_DIGITS = lazy_pattern(r"\d+")


class Dates(NamedTuple):
    """The months, days and years that a question names."""

    months: frozenset[int]
    days: frozenset[tuple[int, int]]
    years: frozenset[int]

    def nearness(self, time: int) -> tuple[float, float]:
        """Score a moment: 1 if it is in one of the months, else 0, and its nearness to one of the days from 0 to 1."""
        if not self.months:
            return 0.0, 0.0
        moment = datetime.fromtimestamp(time, UTC)
        if self.years and moment.year not in self.years:
            return 0.0, 0.0
        return float(moment.month in self.months), max((_near(moment, *day) for day in self.days), default=0.0)


def _near(moment: datetime, month: int, day: int) -> float:
    best = 0.0
    for year in (moment.year - 1, moment.year, moment.year + 1):
        try:
            apart = abs((moment.date() - datetime(year, month, day, tzinfo=UTC).date()).days)
        except ValueError:
            continue
        best = max(best, 2.0 ** (-apart / 4)) if apart <= 30 else best
    return best


class Day(NamedTuple):
    """A day named in a text, with its position."""

    start: int
    end: int
    name: str
    """YYYY-MM-DD, or --MM-DD without a year."""


def days_in(text: str) -> list[Day]:
    """Return the unambiguous days in order; 3/4/2025 is ambiguous and left out."""
    return [Day(found.start(), found.end(), name) for found in _DAYS.finditer(text) if (name := _named(found))]


def _named(found: re.Match[str]) -> str:
    numbers = [int(number) for number in _DIGITS.findall(found[0])]
    if found["iso"]:
        return _as_day(*numbers)
    if found["dotted"]:
        return _as_day(*reversed(numbers))
    if found["cjk"]:
        return _as_day(*([0, *numbers][-3:]))
    year = int(found["year"] or found["year_after"] or 0)
    word = found["month"] or found["month_first"]
    month = _MONTHS.get(word.lower(), 0) if year else _month(word)  # next to a year even an ambiguous word is a month
    return _as_day(year, month, int(found["day"] or found["day_after"])) if month else ""


def _as_day(year: int, month: int, day: int) -> str:
    try:
        date(year or 2000, month, day)
    except ValueError:
        return ""
    return f"{year:04}-{month:02}-{day:02}" if year else f"--{month:02}-{day:02}"


def dates_in(text: str) -> Dates:
    """Return the dates in the text; a year counts only next to a month."""
    small = text.lower()
    if not any(map(small.__contains__, (*_MONTHS, "月"))) and not _ISO.search(text):
        return Dates(frozenset(), frozenset(), frozenset())
    months: set[int] = set()
    days: set[tuple[int, int]] = set()
    years: set[int] = set()
    for year, month, day in _ISO.findall(text):
        years.add(int(year))
        _add_day(months, days, int(month), day)
    for month, day in _CJK_MONTH.findall(text):
        _add_day(months, days, int(month), day)
    words = _WORD.findall(text)
    for at in [at for at, word in enumerate(words) if word.lower() in _MONTHS]:
        if month_named := _month(words[at]):
            months.add(month_named)
            days |= {(month_named, int(near)) for near in _numbers_beside(words, at) if 0 < int(near) < 32}
    years |= {int(word) for word in words if len(word) == 4 and word.isdigit() and word.isascii() and _is_year(word)}
    return Dates(frozenset(months), frozenset(days), frozenset(years))


def _is_year(word: str) -> bool:
    return 1900 <= int(word) <= 2100


def _add_day(months: set[int], days: set[tuple[int, int]], month: int, day: str) -> None:
    if 1 <= month <= 12:
        months.add(month)
        if day:
            days.add((month, int(day)))


def _month(word: str) -> int:
    small = word.lower()
    return 0 if small in _AMBIGUOUS and not word[0].isupper() else _MONTHS.get(small, 0)


def _numbers_beside(words: list[str], at: int) -> list[str]:
    """Return the numbers next to a month, as in `3 May` and `May 3`."""
    return [word for word in words[max(0, at - 1) : at] + words[at + 1 : at + 2] if word.isascii() and word.isdigit()]
