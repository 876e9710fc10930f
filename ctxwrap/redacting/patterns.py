"""The kinds of secrets that a policy can name, and the searches for each."""

from collections.abc import Iterator
from typing import NamedTuple

from ctxwrap.patterns import lazy_pattern
from ctxwrap.redacting import named, numbers, tokens
from ctxwrap.redacting.places import Find, Span, in_order


class Kind(NamedTuple):
    """One kind of secret: its name in a policy, the word that takes its place, and the searches for it in order."""

    policy: str
    word: str
    finds: tuple[Find, ...]


def email_addresses(text: str) -> Iterator[Span]:
    return in_order((*_addresses(text, "@"), *_addresses(text, "%40")))


def _addresses(text: str, sign: str) -> Iterator[Span]:
    done, at = 0, text.find(sign)
    while at >= 0:
        domain = _DOMAIN.match(text, at + len(sign))
        first = _local_part(text, max(done, at - 64), at) if domain else at
        is_user = text[first:at] == "git" or text.endswith("://", 0, first)  # of a host, as in ssh://ada@example.com
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
    """Whether what follows the @ is a version or a file, as in `icon@2x.png` or `lib@1.2.3.jar`."""
    *labels, last = domain.lower().split(".")
    return _FILE.fullmatch(last) is not None or sum(label.isdigit() for label in labels) > 1


def _local_part(text: str, first: int, end: int) -> int:
    """Where the part before the @ begins; the letter of an escape such as `\\n` is none of it."""
    start = end
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "._%+-"):
        start -= 1
    return start + 1 if start and text[start - 1] == "\\" and text[start : start + 1] in tuple("bfnrt") else start


_KEYS: tuple[Find, ...] = (
    tokens.private_keys,
    named.passwords_in_addresses,
    named.secrets_in_addresses,
    named.credentials,
    named.secrets_by_name,
    tokens.json_web_tokens,
    tokens.tokens,
)
KINDS = (
    Kind("keys", "key", _KEYS),
    Kind("emails", "email", (email_addresses,)),
    Kind("ibans", "iban", (numbers.bank_accounts,)),
    Kind("cards", "card", (numbers.payment_cards,)),
    Kind("ssns", "ssn", (numbers.social_security_numbers,)),
    Kind("phones", "phone", (numbers.phone_numbers,)),
)
POLICIES = tuple(kind.policy for kind in KINDS)
