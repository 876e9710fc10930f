"""Finds the days and months that a text names."""

import re
from datetime import UTC, date, datetime
from typing import NamedTuple

from ctxwrap.language.patterns import Runs, lazy_pattern
from ctxwrap.language.words import WordHints

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

_LONGEST_NAME = 12
_WORD = lazy_pattern(rf"[^\W\d_]{{3,{_LONGEST_NAME}}}|\d{{1,4}}")
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
_NUMERIC_DAY = lazy_pattern(r"\d(?:[-.]\d|\s?[年月])")
_LETTERS = Runs(r"[^\W\d_]")


Span = tuple[int, int]
"""The first and the last day, counted from 1970."""


class Dates(NamedTuple):
    """The months, days and years that a question names, and the spans of days that it relates to its own time."""

    months: frozenset[int]
    days: frozenset[tuple[int, int]]
    years: frozenset[int]
    spans: tuple[Span, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.months or self.spans)

    def nearness(self, time: int) -> tuple[float, float]:
        """Score a moment: 1 if it is in one of the months, else 0, and its nearness to one of the days from 0 to 1."""
        near = max((_near_span(time // _DAY, *span) for span in self.spans), default=0.0)
        if not self.months:
            return near, near
        moment = datetime.fromtimestamp(time, UTC)
        if self.years and moment.year not in self.years:
            return near, near
        days = max((_near(moment, *day) for day in self.days), default=0.0)
        return max(near, float(moment.month in self.months)), max(near, days)


def _near_span(day: int, first: int, last: int) -> float:
    apart = max(first - day, day - last, 0)
    return 2.0 ** (-apart / 4) if apart <= 30 else 0.0


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
    if not _may_name_days(text):
        return []
    return [Day(found.start(), found.end(), name) for found in _DAYS.finditer(text) if (name := _named(found))]


def _may_name_days(text: str) -> bool:
    """Whether there is a number, and a month or numbers next to each other: a much faster test than `_DAYS`."""
    hints = _HINTS.of(text)
    if not hints & _HINTS_AT_NUMBER or hints & _HINTS_AT_MONTH:
        return bool(hints & _HINTS_AT_NUMBER)
    return ("-" in text or "." in text or not text.isascii()) and bool(_NUMERIC_DAY.search(text))


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


_NO_DATES = Dates(frozenset(), frozenset(), frozenset())


def dates_in(text: str, now: int = 0) -> Dates:
    """Return the dates in the text; a year counts only next to a month. `yesterday` is the day before `now`."""
    hints, is_plain = _HINTS.of(text), text.isascii()
    spans = tuple(relative_spans(text, now)) if now and (hints & _HINTS_AT_TODAY or not is_plain) else ()
    is_numeric = hints & _HINTS_AT_NUMBER and (("-" in text and _ISO.search(text)) or (not is_plain and "月" in text))
    if not hints & _HINTS_AT_MONTH and not is_numeric:
        return Dates(*_NO_DATES[:3], spans) if spans else _NO_DATES
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
    return Dates(frozenset(months), frozenset(days), frozenset(years), spans)


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


_SHIFTS = {
    word: days
    for days, words in {
        -2: "vorgestern anteayer 前天",
        -1: "yesterday gestern ayer ieri ontem 昨天 昨日",
        0: "today tonight heute hoy oggi hoje 今天 今日",
        1: "tomorrow domani 明天 明日",
        2: "übermorgen 后天",
    }.items()
    for word in words.split()
}
_WEEKDAYS = {
    name: at
    for names in (
        "monday tuesday wednesday thursday friday saturday sunday",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "lunes martes miércoles jueves viernes sábado domingo",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
    )
    for at, name in enumerate(names.split())
}
_UNITS = {
    word: days
    for days, words in {
        1: "day days tag tage tagen día días jour jours",
        7: "week weeks woche wochen semana semanas semaine semaines",
        30: "month months monat monate monaten mes meses mois",
        365: "year years jahr jahre jahren año años an ans",
    }.items()
    for word in words.split()
}
_NUMBERS = {
    word: at
    for words in (
        "a two three four five six seven eight nine ten eleven twelve",
        "one couple few",
        "einem zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "einer",
        "un deux trois quatre cinq six sept huit neuf dix onze douze",
        "una dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "一 二 三 四 五 六 七 八 九 十",
        "an 两",
    )
    for at, word in enumerate(words.split(), 1)
}
_LAST = frozenset(
    ("last", "past", "letzte", "letzten", "letzter", "letztes", "vorige", "vorigen", "vergangene", "vergangenen")
)
_LAST_AFTER = frozenset(("pasado", "pasada", "dernier", "dernière"))
_NEXT = frozenset(("next", "nächste", "nächsten", "nächster"))
_AGO = frozenset(("ago", "vor", "hace"))
_TRIGGERS = frozenset((*_SHIFTS, *_LAST, *_LAST_AFTER, *_NEXT, *_AGO, "y"))
_TOKEN = lazy_pattern(r"[^\W\d_]+|\d{1,3}(?!\d)")
_UNSPACED_SHIFT = lazy_pattern("前天|昨[天日]|今[天日]|明[天日]|后天|上(?:个)?(?:周|星期|月)|去年")
_UNSPACED_AGO = lazy_pattern(r"([一二两三四五六七八九十]|\d{1,2})\s?(天|周|个星期|星期|个月|年)前")
_UNSPACED_UNITS = {"天": 1, "周": 7, "星期": 7, "个星期": 7, "月": 30, "个月": 30, "年": 365}


def relative_spans(text: str, now: int) -> list[Span]:
    """Return the days that a text relates to the time `now`, such as `last Tuesday`, `two weeks ago`."""
    today = now // _DAY
    found = [] if text.isascii() else _unspaced_spans(text, today)
    if not _HINTS.of(text) & _HINTS_AT_TODAY:
        return found
    words: list[str] = _TOKEN.findall(text.lower())
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        if word in _SHIFTS:
            found.append((today + _SHIFTS[word], today + _SHIFTS[word]))
        elif word in _WEEKDAYS and (before in _LAST or after in _LAST_AFTER or before in _NEXT):
            back = (_weekday(today) - _WEEKDAYS[word] - 1) % 7 + 1
            day = today - back if before not in _NEXT else today + 7 - back % 7
            found.append((day, day))
        elif (size := _UNITS.get(word, 0)) > 1 and (before in _LAST or after in _LAST_AFTER):
            found.append(_unit_before(today, size))
        elif size and (count := _count(words, at)) and _is_ago(words, at):
            found.append(_around(today, count, size))
    return found


def _hints_of(word: str) -> int:
    small = word.lower()
    if small.isalpha() and len(small) <= _LONGEST_NAME:  # as most words are
        return _HINTS_AT_MONTH * (small in _MONTHS) | _HINTS_AT_TODAY * (small in _TRIGGERS)
    if small.isdecimal():
        return _HINTS_AT_NUMBER
    is_month = any(part.lower() in _MONTHS for part in _WORD.findall(word))
    is_related = not _TRIGGERS.isdisjoint(_LETTERS.findall(small))
    has_digit = _DIGITS.search(word) is not None
    return _HINTS_AT_MONTH * is_month | _HINTS_AT_NUMBER * has_digit | _HINTS_AT_TODAY * is_related


_HINTS_AT_MONTH, _HINTS_AT_NUMBER, _HINTS_AT_TODAY = 1, 2, 4
_HINTS = WordHints(_hints_of)


def _is_ago(words: list[str], at: int) -> bool:
    return (
        words[at + 1 : at + 2] == ["ago"]
        or not _AGO.isdisjoint(words[max(0, at - 2) : at])
        or (words[max(0, at - 3) : at - 1] == ["y", "a"])
    )


def _count(words: list[str], at: int) -> int:
    before = words[at - 1] if at else ""
    before = words[at - 2] if before == "of" and at > 1 else before
    return int(before) if before.isdecimal() else _NUMBERS.get(before, 0)


def _around(today: int, count: int, size: int) -> Span:
    """A count of weeks or months is approximate."""
    day, slack = today - count * size, 0 if size == 1 else size // 2
    return day - slack, day + slack


def _unit_before(today: int, size: int) -> Span:
    """The week, month or year before this one."""
    if size == 7:
        monday = today - _weekday(today)
        return monday - 7, monday - 1
    moment = date.fromordinal(today + _EPOCH)
    first = moment.replace(day=1) if size == 30 else moment.replace(month=1, day=1)
    before = date.fromordinal(first.toordinal() - 1)
    start = before.replace(day=1) if size == 30 else before.replace(month=1, day=1)
    return start.toordinal() - _EPOCH, before.toordinal() - _EPOCH


_EPOCH = date(1970, 1, 1).toordinal()


def _weekday(day: int) -> int:
    return (day + 3) % 7


def _unspaced_spans(text: str, today: int) -> list[Span]:
    found = [
        _around(today, int(count) if count.isdecimal() else _NUMBERS[count], _UNSPACED_UNITS[unit])
        for count, unit in _UNSPACED_AGO.findall(text)
    ]
    for word in _UNSPACED_SHIFT.findall(text):
        shift = _SHIFTS.get(word)
        size = 365 if word == "去年" else 30 if word.endswith("月") else 7
        found.append(_unit_before(today, size) if shift is None else (today + shift, today + shift))
    return found


def spoken_days(text: str, today: int) -> list[str]:
    """Return the days that a text names, or relates to the day it was written, as MM-DD; days count from 1970."""
    days, spans = days_in(text), relative_spans(text, today * _DAY)
    if not days and not spans:
        return []
    named = [day.name[-5:] for day in days]
    single = [first for first, last in spans if first == last != today]
    return list(dict.fromkeys([*named, *(f"{date.fromordinal(day + _EPOCH):%m-%d}" for day in single)]))
