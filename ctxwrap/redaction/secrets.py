"""The kinds of secrets that a policy can name, and the searches for each."""

from collections.abc import Iterator
from typing import NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.redaction import numbers
from ctxwrap.redaction.numbers import FREE, FindSpans, TextSpan, in_order, is_free, places


def passwords_in_addresses(text: str) -> Iterator[TextSpan]:
    """Passwords in `scheme://user:password@host`."""
    for found in _PASSWORD_IN_ADDRESS.finditer(text) if "://" in text else ():
        if not _IN_TEMPLATE.match(found[1]) and "[redacted:" not in found[1]:
            yield found.span(1)


_PASSWORD_IN_ADDRESS = lazy_pattern(r"://[^\s:/@\"'<>\\]{0,256}+:([^\s/\"'<>]{1,256})@")
_IN_TEMPLATE = lazy_pattern(r"[$%]?[{(\[]|\$|(?i:pass(?:word|wd)?|pwd|secret|x+|\*+)\Z")


def secrets_in_addresses(text: str) -> Iterator[TextSpan]:
    """Secrets of webhook URLs, and signatures in query strings."""
    at_each = places(text, "hooks.slack.com/", "/webhooks/", "sig=", "signature=") if "/" in text else ()
    found = (_IN_ADDRESS.match(text, at) for at in at_each)
    return in_order((each.span(1) for each in found if each), text)


_IN_ADDRESS = lazy_pattern(
    r"(?i:hooks\.slack\.com/(?:services|workflows|triggers)/(?:[A-Z0-9]{1,20}/){1,3}"
    r"|/webhooks/[0-9]{15,22}/|sig(?:nature)?=)"
    r"(?=[A-Za-z_/%+-]{0,64}[0-9])([A-Za-z0-9_%+/=-]{20,255})"
)


def credentials(text: str) -> Iterator[TextSpan]:
    """Values after `Bearer` or `Basic`, and credentials in curl commands."""
    found = [_SCHEME.match(text, at) for at in places(text, "bearer ", "basic ") if is_free(text, at)]
    found += [_SIGN_IN.match(text, at) for at in places(text, "-u", "--user") if "curl" in _before(text, at, 200)]
    return in_order((each.span(1) for each in found if each), text)


def _before(text: str, at: int, most: int) -> str:
    """The text before a position in its line; a streamed reply is searched line by line."""
    return text[max(0, at - most) : at].rpartition("\n")[2].lower()


_SCHEME = lazy_pattern(r"[A-Za-z]{5,6} {1,4}+(?=[^\s0-9]{0,64}[0-9])([\w.~+/=-]{16,255}+)")
_SIGN_IN = lazy_pattern(r"(?:-u|--user)[ =]?[\"']?[^\s:\"'$]{1,64}:(?![0-9]+\b)([^\s:\"'$][^\s\"'$]{2,127})")


def secrets_by_name(text: str) -> Iterator[TextSpan]:
    """Values that the text calls a password, secret, key or token."""
    return in_order(filter(None, (_value_at(text, at) for at in places(text, *_ANCHORS))), text)


_PASSWORDS = ("passw", "passphrase", "pwd", "contraseña", "mot de passe", "senha", "пароль", "密码")
_ANCHORS = (*_PASSWORDS, "secret", "token", "key")
_NAMED_VALUE = lazy_pattern(
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


def _is_placeholder(value: str) -> bool:
    """Whether a value is a name in code, a path or a placeholder."""
    is_plain = _PLAIN.fullmatch(value) is not None
    return _NAME.match(value) is not None or (is_plain and any(word in value.lower() for word in _PLACEHOLDERS))


def _value_at(text: str, at: int) -> TextSpan | None:
    found = _NAMED_VALUE.match(text, at)
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
    if is_call or _is_placeholder(value):
        return None
    if not found["sign"].strip():
        has_login = "login" in _before(text, at, 80)
        return (start, end) if is_mixed(value) or (has_login and _has_digit(value, 8)) else None
    if is_named or is_quoted or found["space"] == "":
        least = 6 if found["password"] else 8
        is_phrase = bool(found["password"]) and is_quoted and len(value) >= 12 and _LETTER.search(value)
        return (start, end) if _has_digit(value, least) or is_phrase else None
    return (start, end) if is_mixed(value) else None


def _has_digit(value: str, least: int) -> bool:
    return len(value) >= least and _DIGIT.search(value) is not None


def is_mixed(value: str) -> bool:
    """Whether letters and digits, or cases, alternate as often as in a random string."""
    head = value[:64]
    if len(head) < 16 or not _DIGIT.search(head):
        return False
    return len(_TURN.findall(head)) >= max(2, len(head) // 12) or len(_CASE.findall(head)) >= max(8, len(head) // 4)


_W, _A, _H = "[A-Za-z0-9_-]", "[A-Za-z0-9]", "[0-9a-f]"
_END = r"(?![A-Za-z0-9])"
_UUID = f"{_H}{{8}}-(?:{_H}{{4}}-){{3}}{_H}{{12}}"
_ANY_DIGIT = "(?=[A-Za-z_-]{0,64}[0-9])"

_TOKENS = (
    # models
    rf"sk-{_ANY_DIGIT}{_W}{{16,}}+",
    rf"(?:hf|gsk|r8|fw|ntn)_{_ANY_DIGIT}{_A}{{20,}}+",
    rf"(?:xai|pplx|tvly|fc)-{_ANY_DIGIT}(?:dev-|prod-)?{_A}{{20,}}+",
    rf"nvapi-{_ANY_DIGIT}{_W}{{20,}}+",
    rf"lsv2_(?:pt|sk)_{_H}{{32}}_{_H}{{10}}{_END}",
    # clouds
    rf"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_END}",
    rf"AIza{_W}{{30,}}+",
    r"ya29\.(?:[A-Za-z0-9._-]){20,}+",
    rf"GOCSPX-{_W}{{20,}}+",
    r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,}+",
    rf"do[opr]_v1_{_H}{{32,}}+",
    rf"LTAI{_ANY_DIGIT}{_A}{{16,20}}{_END}",
    rf"dapi{_H}{{32}}(?:-[0-9])?{_END}",
    rf"hv[sbr]\.{_ANY_DIGIT}{_W}{{20,}}+",
    rf"{_A}{{14}}\.atlasv1\.{_W}{{40,}}+",
    rf"pul-{_H}{{40}}{_END}",
    rf"(?:HRKU-|heroku_){_ANY_DIGIT}{_W}{{30,}}+",
    rf"(?:fo1|fm[12][ar]?|nfp|rnd|sbp|sgp|vcp|vck)_{_ANY_DIGIT}{_W}{{20,}}+",
    r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}+",
    rf"tskey-(?:auth|api|client|scim|webhook)-{_ANY_DIGIT}[A-Za-z0-9-]{{16,}}+",
    rf"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:{_W}{{1,40}}\.)?{_A}{{40,}}+",
    rf"dt0[a-z][0-9]{{2}}\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}}{_END}",
    # code and packages
    rf"gh[pousr]_{_A}{{20,}}+",
    r"github_pat_[A-Za-z0-9_]{22,}+",
    rf"gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas|ffct)-{_ANY_DIGIT}{_W}{{16,}}+",
    rf"npm_{_ANY_DIGIT}{_A}{{20,}}+",
    rf"pypi-AgE{_W}{{12,}}+",
    rf"rubygems_{_H}{{48}}{_END}",
    rf"dckr_(?:pat|oat)_{_W}{{20,}}+",
    rf"(?:ATATT3|ATCTT3){_W}{{20,}}+",
    rf"ATBB{_ANY_DIGIT}{_A}{{28,}}+",
    rf"CCIPAT_{_A}{{16,}}+_{_H}{{40}}{_END}",
    rf"bkua_{_H}{{40}}{_END}",
    rf"PMAK-{_H}{{24}}-{_H}{{34}}{_END}",
    rf"(?:NRAK|NRJS|NRII)-{_W}{{19,}}+",
    rf"gl(?:sa|c)_{_ANY_DIGIT}[A-Za-z0-9_+/=]{{32,}}+",
    rf"sntry[su]_{_ANY_DIGIT}[A-Za-z0-9_+/=]{{32,}}+",
    rf"lin_(?:api|oauth)_{_A}{{32,}}+",
    # mail, chat, shops, payment
    rf"xox[a-z](?:[.-][a-z])?-{_ANY_DIGIT}[A-Za-z0-9-]{{10,}}+",
    rf"xapp-{_ANY_DIGIT}[A-Za-z0-9-]{{16,}}+",
    rf"[0-9]{{8,10}}:AA{_W}{{30,38}}+{_END}",
    rf"[MNO]{_W}{{22,27}}\.{_W}{{6}}\.{_W}{{27,}}+",
    rf"SG\.{_W}{{16,32}}\.{_W}{{32,}}+",
    rf"SK{_H}{{32}}{_END}",
    rf"key-[0-9a-z]{{32}}{_END}",
    rf"{_H}{{32}}-us[0-9]{{1,2}}{_END}",
    rf"xkeysib-{_H}{{64}}-{_A}{{16}}{_END}",
    rf"[sr]k_(?:live|test|prod)_{_A}{{16,}}+",
    rf"rzp_(?:live|test)_{_A}{{14,}}+",
    rf"whsec_{_ANY_DIGIT}[A-Za-z0-9+/=_-]{{20,}}+",
    rf"shp(?:at|ca|pa|ss|tka)_{_H}{{32}}{_END}",
    rf"sq0[a-z]{{3}}-{_W}{{22,}}+",
    rf"FLWSECK(?:_TEST)?-{_A}{{12,}}+(?:-X)?",
    rf"secret_{_ANY_DIGIT}{_A}{{40,50}}+{_END}",
    rf"pat-(?:na|eu|ap)[0-9]-{_UUID}{_END}",
    rf"pat{_A}{{14}}\.{_H}{{64}}{_END}",
    rf"fig[dou]_{_ANY_DIGIT}{_W}{{32,}}+",
    rf"CFPAT-{_W}{{40,}}+",
    rf"EAA[A-Z]{_ANY_DIGIT}{_A}{{60,}}+",
    rf"sk\.eyJ{_W}{{20,}}+\.{_W}{{16,}}+",
    rf"ops_eyJ{_W}{{40,}}+",
    rf"sl\.{_ANY_DIGIT}{_W}{{100,}}+",
    r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+",
)
"""An unbounded run ends a token or cannot contain its prefix again, so matching takes linear time."""

_TOKEN = lazy_pattern(f"{FREE}(?:{'|'.join(_TOKENS)})")
_RUN = lazy_pattern(r"[A-Za-z0-9_.:~+/=-]{19,}+")
"""A run of characters that may contain a token; most texts have few."""


def tokens(text: str) -> Iterator[TextSpan]:
    for run in _RUN.finditer(text):
        for found in _TOKEN.finditer(text, run.start(), run.end()):
            yield found.span()


def json_web_tokens(text: str) -> Iterator[TextSpan]:
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


_BASE64URL = lazy_pattern(f"{_W}++")
_SIGNED = lazy_pattern(rf"\.{_W}{{4,}}+(?:\.{_W}*+){{0,3}}+")


def private_keys(text: str) -> Iterator[TextSpan]:
    """A PEM key to its end or, if the end is missing, as far as a key can be long."""
    done = 0
    for begin in _PEM.finditer(text) if "PRIVATE KEY" in text else ():
        if begin.start() >= done:
            limit = min(len(text), begin.end() + _LONGEST_KEY)
            end = _PEM_END.search(text, begin.end(), limit)
            done = end.end() if end else limit
            yield begin.start(), done


_LONGEST_KEY = 16_384
_PEM = lazy_pattern(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?=(?:\s|\\[nr]){0,8}(?:[A-Za-z0-9+/=]{8}|[A-Z][A-Za-z-]{2,20}: |\Z))"
)
_PEM_END = lazy_pattern(r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")


class SecretKind(NamedTuple):
    """One kind of secret: its name in a policy, the word in its placeholder, and its searches in order."""

    policy: str
    word: str
    finds: tuple[FindSpans, ...]


def email_addresses(text: str) -> Iterator[TextSpan]:
    return in_order((*_addresses(text, "@"), *_addresses(text, "%40")))


def _addresses(text: str, sign: str) -> Iterator[TextSpan]:
    done, at = 0, text.find(sign)
    while at >= 0:
        domain = _DOMAIN.match(text, at + len(sign))
        first = _local_part(text, max(done, at - 64), at) if domain else at
        is_user = text[first:at] == "git" or text.endswith("://", 0, first)  # of a host: ssh://ada@example.com
        if domain and first < at and not is_user and not _is_file(domain[0]):
            done = domain.end()
            yield first, done
        at = text.find(sign, at + 1)


_DOMAIN = lazy_pattern(r"(?:[^\W_](?:[^\W_]|-){0,62}+\.){1,8}[^\W\d_]{2,24}+")
_FILE = lazy_pattern(
    "png|jpe?g|gif|svg|webp|avif|ico|s?css|[cm]?js|tsx?|jsx|json|ya?ml|toml|xml|html|txt|pdf|zip|tar|t?gz|xz|whl|[jwa]ar"
    "|deb|rpm|exe|dll|log|lock|service|socket|timer|mount|target|slice"
)


def _is_file(domain: str) -> bool:
    """Whether the text after the @ is a version or a file, as in `icon@2x.png` or `lib@1.2.3.jar`."""
    *labels, last = domain.lower().split(".")
    return _FILE.fullmatch(last) is not None or sum(label.isdigit() for label in labels) > 1


def _local_part(text: str, first: int, end: int) -> int:
    """The start of the part before the @, without the letter of an escape such as `\\n`."""
    start = end
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "._%+-"):
        start -= 1
    return start + 1 if start and text[start - 1] == "\\" and text[start : start + 1] in tuple("bfnrt") else start


_KEYS: tuple[FindSpans, ...] = (
    private_keys,
    passwords_in_addresses,
    secrets_in_addresses,
    credentials,
    secrets_by_name,
    json_web_tokens,
    tokens,
)
KINDS = (
    SecretKind("keys", "key", _KEYS),
    SecretKind("emails", "email", (email_addresses,)),
    SecretKind("ibans", "iban", (numbers.bank_accounts,)),
    SecretKind("cards", "card", (numbers.payment_cards,)),
    SecretKind("ssns", "ssn", (numbers.social_security_numbers,)),
    SecretKind("phones", "phone", (numbers.phone_numbers,)),
)
