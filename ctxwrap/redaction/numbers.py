"""Search for personal numbers: payment cards, phone numbers, bank accounts, social security numbers."""

import re
from collections.abc import Callable, Iterable, Iterator

from ctxwrap.language.patterns import lazy_pattern

TextSpan = tuple[int, int]
FindSpans = Callable[[str], Iterable[TextSpan]]

FREE = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
"""A position where a secret may begin: not inside a word, but possibly after an escape such as `\\n`."""

_FREE = lazy_pattern(FREE)


def is_free(text: str, at: int) -> bool:
    return _FREE.match(text, at) is not None


def places(text: str, *words: str) -> Iterator[int]:
    """The positions of some lower-case words, ignoring case; not in the order of the text."""
    lower = text.lower() if text.isascii() else text.replace("İ", "I").lower()  # keeps the length
    for word in words:
        at = lower.find(word)
        while at >= 0:
            yield at
            at = lower.find(word, at + len(word))


def in_order(spans: Iterable[TextSpan], text: str = "") -> Iterator[TextSpan]:
    """Spans in order, without those that begin inside another; a span cut at `CUT` is extended to the value's end."""
    done = 0
    for first, last in sorted(spans):
        if first >= done:
            rest = _REST.match(text, last) if last - first >= CUT else None
            done = rest.end() if rest else last
            yield first, done


CUT = 255
"""The number of characters of a value that are examined."""
_REST = lazy_pattern(r"[\w+/=.~%-]*+")


_ODD = lazy_pattern("[\u00a0\u2000-\u200a\u2010-\u2015\u202f\u2212\u3000\uff01-\uff5e]")
_FOLDED = {
    **dict.fromkeys((0xA0, 0x202F, 0x3000, *range(0x2000, 0x200B)), " "),
    **dict.fromkeys((0x2212, *range(0x2010, 0x2016)), "-"),
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
}


def folded(text: str) -> str:
    """A text of the same length with spaces, hyphens and full-width characters in ASCII."""
    return text if text.isascii() else _ODD.sub(lambda odd: _FOLDED[ord(odd[0])], text)


def payment_cards(text: str) -> Iterator[TextSpan]:
    for found in _CARD.finditer(text):
        if is_free(text, found.start()):
            for end in (found.end(), found.end("grouped")):
                if end > 0 and is_card(text[found.start() : end]):
                    yield found.start(), end
                    break


_CARD = lazy_pattern(
    r"[2-6](?:(?<![0-9%].)(?<![0-9][.].)|(?<=%[0-9A-F]{2}.))(?:[0-9]{12,18}+"
    r"|(?P<grouped>[0-9]{3}([ .-])[0-9]{4}\2[0-9]{4}\2[0-9]{4})(?:\2[0-9]{3}(?![0-9]))?+"
    r"|[0-9]{3}([ .-])[0-9]{6}\3[0-9]{4,5})(?![0-9A-Za-z]|[.][0-9])"
)


def is_card(number: str) -> bool:
    """Whether the digits in a text pass the Luhn check of payment cards."""
    digits = [int(each) for each in number if "0" <= each <= "9"]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def phone_numbers(text: str) -> Iterator[TextSpan]:
    """Numbers that begin with +, grouped numbers that begin with 0, North American and labelled numbers."""
    return in_order((*_international(text), *_trunk(text), *_north_american(text), *_labelled(text)))


def _international(text: str) -> Iterator[TextSpan]:
    for found in _INTERNATIONAL.finditer(text) if "+" in text else ():
        digits = _digits(found[0])
        is_round = digits.endswith(digits[-1] * 6)
        if (
            9 <= len(digits) <= 15
            and not is_round
            and not _DECIMAL.fullmatch(found[0])
            and is_free(text, found.start())
        ):
            yield found.span()


_DECIMAL = lazy_pattern(r"\+[0-9]{1,3}[.][0-9]++")
_INTERNATIONAL = lazy_pattern(r"\+(?:1(?=[ .(/-]{0,2}[2-9])|[2-9])(?:[ .()/-]{0,2}+[0-9]){8,14}+(?![0-9])")


def _trunk(text: str) -> Iterator[TextSpan]:
    for found in _TRUNK.finditer(text):
        if is_free(text, found.start()) and 9 <= len(_digits(found[0])) <= (17 if found[0].startswith("00") else 12):
            yield found.span()


_TRUNK = lazy_pattern(
    r"0(?<![0-9][ .].)(?:(?<![A-Za-z0-9.,/_:%-].)|(?<=%20.)|(?<=[:] .))(?:"
    r"[1-9](?:([ .-])[0-9]{2}(?:\1[0-9]{2}){3})"
    r"|[1-9][0-9]{0,4}[ /-][0-9]{3,8}(?:[ -][0-9]{3,8}){0,2}(?:-[0-9]{1,4})?"
    r"|0[1-9][0-9]{0,2} [0-9]{1,5}(?:[ /-][0-9]{2,8}){1,4}"
    r")(?![ ./_-]?[0-9])(?![A-Za-z_])"
)


def _north_american(text: str) -> Iterator[TextSpan]:
    return (found.span() for found in _NORTH_AMERICAN.finditer(text) if is_free(text, found.start()))


_NORTH_AMERICAN = lazy_pattern(
    r"[(1-9](?:(?<![0-9.%-].)|(?<=%[0-9A-F]{2}.))"
    r"(?:(?<=\()[2-9][0-9]{2}\) ?|(?:(?<=1)[.-][2-9]|(?<=[2-9]))[0-9]{2}[.-])"
    r"[2-9][0-9]{2}[.-][0-9]{4}(?![.-]?[0-9])"
)


def _labelled(text: str) -> Iterator[TextSpan]:
    """Numbers after a label such as `phone:`."""
    for at in places(text, "phone", "tel", "mobil", "cell", "fax", "whatsapp", "handy"):
        found = _LABELLED.match(text, at) if is_free(text, at) or text[at - 4 : at].lower() == "tele" else None
        if found and 7 <= len(_digits(found[1])) <= 15 and not _DATE.match(found[1]):
            yield found.span(1)


_LABELLED = lazy_pattern(
    r"(?i:phone|tel(?:efon|éfono|ephone)?|mobile?|cell|fax|whatsapp|handy)"
    r"(?i:[ _-]?(?:phone|number|nummer|no|nr)\b)?[.]?"
    r"\\?[\"']?(?: ?[:=#]| (?i:is|at))? {0,2}\\?[\"']?(\(?[0-9](?:[ ().-]{0,2}[0-9]){6,14})(?![0-9A-Za-z]|[.:][0-9])"
)
_DATE = lazy_pattern(r"[12][0-9]{3}[ .-][0-9]{2}[ .-][0-9]{2}(?![0-9])|[0-9]{2}[.-][0-9]{2}[.-][12][0-9]{3}(?![0-9])")


def _digits(text: str) -> str:
    return _NO_DIGITS.sub("", text)


_NO_DIGITS = lazy_pattern("[^0-9]++")


def bank_accounts(text: str) -> Iterator[TextSpan]:
    """IBANs with a valid checksum, in one piece or in groups of four."""
    for found in _IBAN.finditer(text):
        length = _LENGTHS.get(found[0][:2], 0)
        signs = [at for at in range(found.start(), found.end()) if text[at] != " "][:length]
        if length and len(signs) == length and not text[signs[-1] + 1 : signs[-1] + 2].isalnum():
            number = "".join(text[at] for at in signs)
            if is_free(text, found.start()) and _is_iban(number):
                yield found.start(), signs[-1] + 1


_IBAN = lazy_pattern(r"[A-Z](?<![A-Z0-9].)[A-Z][0-9]{2}(?: ?[A-Z0-9]){11,30}+")
_LENGTHS = {
    country: int(length)
    for country, length in re.findall(
        "([A-Z]{2})([0-9]{2})",
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 "
        "FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 "
        "LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 "
        "SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20",
    )
}


def _is_iban(number: str) -> bool:
    return int("".join(str(int(sign, 36)) for sign in number[4:] + number[:4])) % 97 == 1


def social_security_numbers(text: str) -> Iterator[TextSpan]:
    """US numbers after a label such as `SSN`."""
    found = (_SOCIAL_SECURITY.match(text, at) for at in places(text, "ssn", "social security", "social_security"))
    return in_order(each.span(1) for each in found if each)


_SOCIAL_SECURITY = lazy_pattern(
    r"(?i:ssn|social[ _]security)[^\n0-9]{0,30}?"
    r"((?!000|666|9)[0-9]{3}([ -]?)(?!00)[0-9]{2}\2(?!0000)[0-9]{4})(?![0-9-])"
)
