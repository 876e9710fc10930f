"""What secrets look like: for each kind, where in a text they stand.

Every search is linear in the length of the text, whatever that is: what it runs over it runs over once, and no pattern
has two ways to read the same characters.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

Span = tuple[int, int]
Find = Callable[[str], Iterator[Span]]


class Kind(NamedTuple):
    """One kind of secret: its name in a policy, the word that takes its place, and the searches for it in order."""

    policy: str
    word: str
    finds: tuple[Find, ...]


def is_free(text: str, at: int) -> bool:
    """Whether something may begin here: not within a word, though an escape such as `\\n` may stand before it."""
    before = text[max(0, at - 3) : at]
    if not before or not (before[-1].isascii() and before[-1].isalnum()):
        return True
    return bool(_ESCAPED.search(before))


_ESCAPED = re.compile(r"\\[bfnrt]\Z|%[0-9A-Fa-f]{2}\Z")


class _Token:
    """A token that begins with a prefix of its own and goes on with at least so many characters of an alphabet."""

    def __init__(self, prefix: str, alphabet: str, least: int, *, needs_digit: bool = False) -> None:
        self._prefix, self._least, self._needs_digit = prefix, least, needs_digit
        self._run = re.compile(f"[{alphabet}]*+")

    def __call__(self, text: str) -> Iterator[Span]:
        prefix, at = self._prefix, text.find(self._prefix)
        while at >= 0:
            goes_on = at + 1
            if is_free(text, at):
                end = self._end(text, at)
                if self._is_token(text, at, end):
                    yield at, end
                    goes_on = end
                elif end - at - len(prefix) >= self._least:
                    goes_on = max(goes_on, end - len(prefix))  # what begins within says no more than the whole
            at = text.find(prefix, goes_on)

    def _end(self, text: str, at: int) -> int:
        run = self._run.match(text, at + len(self._prefix))
        return run.end() if run else at

    def _is_token(self, text: str, at: int, end: int) -> bool:
        start = at + len(self._prefix)
        return end - start >= self._least and not (self._needs_digit and _DIGIT.search(text, start, end) is None)


_DIGIT = re.compile("[0-9]")
_WORD, _LETTERS = "A-Za-z0-9_-", "A-Za-z0-9"

_TOKENS = (
    _Token("sk-", _WORD, 16, needs_digit=True),
    *(_Token(f"{kind}_{mode}_", _LETTERS, 16) for kind in ("sk", "rk") for mode in ("live", "test")),
    *(_Token(f"gh{kind}_", _LETTERS, 20) for kind in "pousr"),
    _Token("github_pat_", "A-Za-z0-9_", 22),
    _Token("glpat-", _WORD, 16),
    *(_Token(f"{kind}IA", "A-Z0-9", 16) for kind in ("AK", "AS")),
    *(_Token(f"xox{kind}-", "A-Za-z0-9-", 10) for kind in "abeoprs"),
    _Token("xapp-", "A-Za-z0-9-", 16),
    _Token("AIza", _WORD, 30),
    _Token("ya29.", "A-Za-z0-9._-", 20),
    _Token("SG.", "A-Za-z0-9._-", 40),
    *(_Token(prefix, _LETTERS, 20, needs_digit=True) for prefix in ("hf_", "npm_", "gsk_", "r8_", "xai-", "pplx-")),
    *(_Token(prefix, _WORD, 20, needs_digit=True) for prefix in ("pypi-", "nvapi-", "whsec_", "shpat_", "dop_v1_")),
    _Token("AGE-SECRET-KEY-1", "A-Z0-9", 40),
)


def _json_web_tokens(text: str) -> Iterator[Span]:
    at = text.find("eyJ")
    while at >= 0:
        goes_on = at + 1
        if is_free(text, at):
            run = _BASE64URL.match(text, at)
            goes_on = end = run.end() if run else at + 1
            if end - at >= 10 and (rest := _SIGNED.match(text, end)):
                yield at, rest.end()
                goes_on = rest.end()
        at = text.find("eyJ", goes_on)


_BASE64URL = re.compile(f"[{_WORD}]++")
_SIGNED = re.compile(rf"(?:\.[{_WORD}]{{4,}}+)(?:\.[{_WORD}]*+){{0,3}}+")


def _private_keys(text: str) -> Iterator[Span]:
    """A key in PEM to its end, or as far as a key may go if that was cut off."""
    done = 0
    for begin in _PEM.finditer(text) if "PRIVATE KEY" in text else ():
        if begin.start() >= done:
            limit = min(len(text), begin.end() + _LONGEST_KEY)
            end = _PEM_END.search(text, begin.end(), limit)
            done = end.end() if end else limit
            yield begin.start(), done


_LONGEST_KEY = 16_384
_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?=(?:\s|\\[nr]){0,8}(?:[A-Za-z0-9+/=]{8}|[A-Z][A-Za-z-]{2,20}: |\Z))"
)
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")


def _said_after(words: tuple[str, ...], pattern: str) -> Find:
    """What the first group of a pattern holds, which is only looked for where one of its words is."""
    compiled = re.compile(pattern, re.IGNORECASE)

    def find(text: str) -> Iterator[Span]:
        lower = text.lower()
        if any(word in lower for word in words):
            for found in compiled.finditer(text):
                if "[redacted:" not in found[1]:
                    yield found.span(1)

    return find


_NAMES = ("passw", "pwd", "secret", "api", "access", "auth", "account", "private")

_SECRETS_BY_NAME = (
    _said_after(("://",), r"://[^\s:/@\"'<>\\]{0,256}+:([^\s/\"'<>]{1,256})@"),
    _said_after(
        ("bearer", "basic", "token"), r"\b(?:bearer|basic|token) {1,4}+(?=[^\s0-9]{0,64}[0-9])([\w.~+/=-]{16,}+)"
    ),
    _said_after(
        _NAMES,
        r"(?:passw(?:or)?d|passwd|pwd|secret|(?:api|access|account|auth|private|secret|shared)[_-]?(?:access[_-]?)?"
        r"(?:key|token|secret))\\?[\"']? {0,2}+[=:] {0,2}+\\?[\"']?(?=[^\s0-9]{0,64}[0-9])([\w+/=.~!@#%^*-]{8,}+)",
    ),
)


def _email_addresses(text: str) -> Iterator[Span]:
    done = 0
    for domain in _DOMAIN.finditer(text) if "@" in text else ():
        first = _local_part(text, max(done, domain.start() - 64), domain.start())
        if first < domain.start():
            done = domain.end()
            yield first, done


_DOMAIN = re.compile(r"@(?:[^\W_](?:[^\W_]|-){0,62}+\.){1,8}[^\W\d_]{2,24}+")


def _local_part(text: str, first: int, end: int) -> int:
    """Where the part before the @ begins; the letter of an escape such as `\\n` is none of it."""
    start = end
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "._%+-"):
        start -= 1
    return start + 1 if start and text[start - 1] == "\\" and text[start : start + 1] in tuple("bfnrt") else start


def _payment_cards(text: str) -> Iterator[Span]:
    for found in _CARD.finditer(text):
        if is_free(text, found.start()):
            for end in (found.end(), found.end("grouped")):
                if end > 0 and is_card(text[found.start() : end]):
                    yield found.start(), end
                    break


_CARD = re.compile(
    r"(?:(?<![0-9%])(?<![0-9]\.)|(?<=%[0-9A-F]{2}))(?:[2-6][0-9]{12,18}+"
    r"|(?P<grouped>[2-6][0-9]{3}(?:[ \u00a0-][0-9]{4}){3})(?:[ \u00a0-][0-9]{3})?+"
    r"|3[0-9]{3}[ \u00a0-][0-9]{6}[ \u00a0-][0-9]{4,5})(?![0-9A-Za-z])"
)


def is_card(number: str) -> bool:
    """Whether the digits in a text are those of a payment card, by the check of Luhn."""
    digits = [int(each) for each in number if "0" <= each <= "9"]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _phone_numbers(text: str) -> Iterator[Span]:
    for found in _INTERNATIONAL.finditer(text) if "+" in text else ():
        if is_free(text, found.start()) and 9 <= len(re.sub("[^0-9]", "", found[0])) <= 15:
            yield found.span()


_INTERNATIONAL = re.compile(r"\+[1-9](?:[ \u00a0.()/-]{0,2}+[0-9]){8,14}+(?![0-9])")
_NORTH_AMERICAN = re.compile(
    r"(?:\([2-9][0-9]{2}\) ?|(?:(?<![0-9.%-])|(?<=%[0-9A-F]{2}))[2-9][0-9]{2}([.-]))"
    r"[2-9][0-9]{2}(?:\1|-)[0-9]{4}(?![0-9.-]?[0-9])"
)


def _national_numbers(text: str) -> Iterator[Span]:
    return (found.span() for found in _NORTH_AMERICAN.finditer(text) if is_free(text, found.start()))


KINDS = (
    Kind("keys", "key", (_private_keys, *_SECRETS_BY_NAME, _json_web_tokens, *_TOKENS)),
    Kind("emails", "email", (_email_addresses,)),
    Kind("cards", "card", (_payment_cards,)),
    Kind("phones", "phone", (_phone_numbers, _national_numbers)),
)
POLICIES = tuple(kind.policy for kind in KINDS)
