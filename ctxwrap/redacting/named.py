"""Secrets that are known by what is said around them: passwords, keys and tokens by name, in addresses and headers."""

from collections.abc import Iterator

from ctxwrap.patterns import lazy_pattern
from ctxwrap.redacting.places import Span, in_order, is_free, places


def passwords_in_addresses(text: str) -> Iterator[Span]:
    """In `scheme://user:password@host`."""
    for found in _PASSWORD_IN_ADDRESS.finditer(text) if "://" in text else ():
        if not _IN_TEMPLATE.match(found[1]) and "[redacted:" not in found[1]:
            yield found.span(1)


_PASSWORD_IN_ADDRESS = lazy_pattern(r"://[^\s:/@\"'<>\\]{0,256}+:([^\s/\"'<>]{1,256})@")
_IN_TEMPLATE = lazy_pattern(r"[$%]?[{(\[]|\$|(?i:pass(?:word|wd)?|pwd|secret|x+|\*+)\Z")


def secrets_in_addresses(text: str) -> Iterator[Span]:
    """Of webhooks, and signatures in queries."""
    at_each = places(text, "hooks.slack.com/", "/webhooks/", "sig=", "signature=") if "/" in text else ()
    found = (_IN_ADDRESS.match(text, at) for at in at_each)
    return in_order((each.span(1) for each in found if each), text)


_IN_ADDRESS = lazy_pattern(
    r"(?i:hooks\.slack\.com/(?:services|workflows|triggers)/(?:[A-Z0-9]{1,20}/){1,3}"
    r"|/webhooks/[0-9]{15,22}/|sig(?:nature)?=)"
    r"(?=[A-Za-z_/%+-]{0,64}[0-9])([A-Za-z0-9_%+/=-]{20,255})"
)


def credentials(text: str) -> Iterator[Span]:
    """What follows `Bearer` or `Basic`, and what curl is told to sign in with."""
    found = [_SCHEME.match(text, at) for at in places(text, "bearer ", "basic ") if is_free(text, at)]
    found += [_SIGN_IN.match(text, at) for at in places(text, "-u", "--user") if "curl" in _before(text, at, 200)]
    return in_order((each.span(1) for each in found if each), text)


def _before(text: str, at: int, most: int) -> str:
    """What stands before a place in its line: an answer in flight is looked at line by line."""
    return text[max(0, at - most) : at].rpartition("\n")[2].lower()


_SCHEME = lazy_pattern(r"[A-Za-z]{5,6} {1,4}+(?=[^\s0-9]{0,64}[0-9])([\w.~+/=-]{16,255}+)")
_SIGN_IN = lazy_pattern(r"(?:-u|--user)[ =]?[\"']?[^\s:\"'$]{1,64}:(?![0-9]+\b)([^\s:\"'$][^\s\"'$]{2,127})")


def secrets_by_name(text: str) -> Iterator[Span]:
    """What is said to be a password, a secret, a key or a token."""
    return in_order(filter(None, (_said_at(text, at) for at in places(text, *_ANCHORS))), text)


_PASSWORDS = ("passw", "passphrase", "pwd", "contraseña", "mot de passe", "senha", "пароль", "密码")
_ANCHORS = (*_PASSWORDS, "secret", "token", "key")
_SAID = lazy_pattern(
    r"(?i:(?P<password>passw(?:or[dt]|d)|passphrase|pwd|contraseña|mot de passe|senha|пароль|密码)"
    r"|(?P<compound>secret[_ -]?(?:access[_ -]?)?(?:key|token))|secret|token|key)(?![A-Za-z])[0-9]{0,2}"
    r"(?:\\{0,3}[\"'`])?(?P<sign> {0,2}(?:=>|:=|[=:])(?P<space> {0,2})| (?i:is|was|ist):? | )"
    r"(?P<open>\\{0,3}[\"'`])?"
    r"(?P<value>[\w+/.~!@#^*][\w+/=.~!@#%^*?$-]{5,254})"
)
_BEFORE = lazy_pattern(
    r"(?i:api|access|account|auth|bearer|client|consumer|deploy|encryption|jwt|master|oauth|private|refresh|session"
    r"|shared|signing|storage|webhook|app)[_ -]?\Z"
)
_DIGIT, _LETTER = lazy_pattern("[0-9]"), lazy_pattern(r"[^\W\d_]")
_TURN, _CASE = lazy_pattern("(?<=[0-9])[A-Za-z]|(?<=[A-Za-z])[0-9]"), lazy_pattern("(?<=[a-z])[A-Z]|(?<=[A-Z])[a-z]")
_NAME = lazy_pattern(r"[A-Za-z_$][\w$]*+(?:\.[A-Za-z_][\w$]*+)++\Z|[.~]{0,2}(?:/[a-z0-9._-]++){2,}+\Z")
_PLAIN = lazy_pattern("[a-z0-9_.-]++|[A-Z0-9_-]++")
_PLACEHOLDERS = ("passw", "secret", "token", "key", "change", "your", "example", "string")


def _stands_for_one(value: str) -> bool:
    """Whether it is a name in code, a path or a placeholder, not a value."""
    is_plain = _PLAIN.fullmatch(value) is not None
    return _NAME.match(value) is not None or (is_plain and any(word in value.lower() for word in _PLACEHOLDERS))


def _said_at(text: str, at: int) -> Span | None:
    found = _SAID.match(text, at)
    if found is None:
        return None
    value, (start, end) = found["value"], found.span("value")
    if not found["open"] and text[end : end + 1] == "." and value.endswith("."):
        value, end = value[:-1], end - 1
    is_named = bool(found["password"] or found["compound"] or _BEFORE.search(text, max(0, at - 12), at))
    if not is_named and text[at : at + 3].lower() == "key":
        return None
    is_quoted = bool(found["open"]) and text.startswith(found["open"], end)
    is_call = not is_quoted and text[end : end + 1] in tuple("([") and not text.startswith("[redacted:", end)
    if is_call or _stands_for_one(value):
        return None
    if not found["sign"].strip():
        has_login = "login" in _before(text, at, 80)
        return (start, end) if is_mixed(value) or (has_login and _is_odd(value, 8)) else None
    if is_named or is_quoted or found["space"] == "":
        least = 6 if found["password"] else 8
        is_phrase = bool(found["password"]) and is_quoted and len(value) >= 12 and _LETTER.search(value)
        return (start, end) if _is_odd(value, least) or is_phrase else None
    return (start, end) if is_mixed(value) else None


def _is_odd(value: str, least: int) -> bool:
    return len(value) >= least and _DIGIT.search(value) is not None


def is_mixed(value: str) -> bool:
    """Whether letters and digits, or small and capital letters, change as often as in what nobody chose."""
    head = value[:64]
    if len(head) < 16 or not _DIGIT.search(head):
        return False
    return len(_TURN.findall(head)) >= max(2, len(head) // 12) or len(_CASE.findall(head)) >= max(8, len(head) // 4)
