"""Redaction of texts: secrets are replaced, other text stays, it is idempotent, and takes linear time."""

import json
import logging
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.redaction import Redaction, policy
from ctxwrap.redaction.redactor import Redactor
from ctxwrap.redaction.secrets import KINDS
from ctxwrap.turn.records import TurnRedactor
from tests.growth import grows_too_fast
from tests.redaction.corpus import POSITIVE, TOKENS
from tests.redaction.secrets import HARMLESS, JWT, PEM, SAID_OF, SECRETS
from tests.support import examples

ALL = Redaction()
EVERY = [(word, secret) for word, secrets in SECRETS.items() for secret in secrets]
AROUND = [("", ""), ("so: ", ", yes"), ("(", ")"), ("«", "»"), ("\n", "\n"), ('{"a": "', '"}'), ("one\\n", "\\n")]


@pytest.mark.parametrize(("word", "secret"), EVERY)
@pytest.mark.parametrize(("before", "after"), AROUND)
def test_only_the_secret_is_replaced(word: str, secret: str, before: str, after: str) -> None:
    assert ALL.redacted(f"{before}{secret}{after}") == (f"{before}[redacted:{word}]{after}", ((word, 1),))


@pytest.mark.parametrize("secret", [secret for _, secret in EVERY])
def test_secret_in_a_query_string_is_replaced(secret: str) -> None:
    assert secret not in ALL.redacted(f"https://example.org/?a=%20{secret}&b=1").text


@pytest.mark.parametrize(("text", "secret"), SAID_OF.items())
def test_words_around_a_secret_stay(text: str, secret: str) -> None:
    assert ALL.redacted(text.format(secret)).text == text.format("[redacted:key]")


@pytest.mark.parametrize("text", HARMLESS)
def test_lookalikes_stay(text: str) -> None:
    assert ALL.redacted(text) == (text, ())


def test_every_kind_of_secret_is_a_policy() -> None:
    assert tuple(kind.policy for kind in KINDS) == policy.POLICIES


def test_only_named_kinds_are_replaced() -> None:
    text = "ada@example.com pays with 4111111111111111"
    assert Redaction(patterns=("cards",)).redacted(text).text == "ada@example.com pays with [redacted:card]"


def test_truncated_private_key_is_replaced() -> None:
    for length in range(len("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIB"), len(PEM)):
        assert ALL.redacted(f"see {PEM[:length]}").text == "see [redacted:key]"


def test_secret_with_json_escapes_is_replaced() -> None:
    text = '{"to": "ada\\u0040example.com", "tel": "\\u002B14155552671", "q": "\\u0022", "é": "\\u00e9"}'
    redacted = ALL.redacted(text)
    assert dict(redacted.found) == {"email": 1, "phone": 1}
    assert json.loads(redacted.text) == {"to": "[redacted:email]", "tel": "[redacted:phone]", "q": '"', "é": "é"}
    assert ALL.redacted('"{\\"to\\": \\"ada\\\\u0040example.com\\"}"').text == '"{\\"to\\": \\"[redacted:email]\\"}"'
    assert ALL.redacted("\\u0041 caf\\u00e9").text == "\\u0041 caf\\u00e9"


def test_adjacent_secrets_are_all_replaced() -> None:
    text = "+14155552671AKIAIOSFODNN7EXAMPLE+14155552671AKIAIOSFODNN7EXAMPLE"
    assert ALL.redacted(text).text == "[redacted:phone][redacted:key]" * 2


PIECES = [secret for _, secret in EVERY] + [text.format(secret) for text, secret in SAID_OF.items()]
PIECES += [
    "[redacted:key]",
    "[redacted:",
    "]",
    "@",
    "://",
    "a:",
    "+1",
    "4111",
    "password=",
    "\\n",
    " ",
    "sk-",
    ".",
    "-",
]
PIECES += ["\\u0040", "\\u002B1", "\\u00", "\\u0075", "\\"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=8).map("".join)


@given(TEXTS)
@examples(500)
def test_redaction_is_idempotent(text: str) -> None:
    once = Redaction().redacted(text)
    assert Redaction().redacted(once.text) == (once.text, ())


@given(st.lists(st.sampled_from(EVERY) | st.text(alphabet="xyz ,;\n", max_size=9), max_size=8))
@examples(300)
def test_secrets_between_others_are_replaced(pieces: list[Any]) -> None:
    text = " ".join(piece if isinstance(piece, str) else piece[1] for piece in pieces)
    redacted = Redaction().redacted(text).text
    assert not [piece for piece in pieces if not isinstance(piece, str) and piece[1] in redacted]


LINES = (
    [sample.text for sample in POSITIVE] + [piece for piece in PIECES if "PRIVATE KEY" not in piece] + ["curl", "login"]
)


@given(
    st.lists(
        st.sampled_from([line for line in LINES if "\n" not in line and "\\u" not in line]), min_size=1, max_size=5
    )
)
@examples(300)
def test_lines_are_redacted_like_the_whole_text(lines: list[str]) -> None:
    """But for private keys and escapes: what of an answer in flight is written down is how its log begins."""
    policy, screen, text = Redaction(), TurnRedactor(Redaction()), "\n".join(lines)
    so_far = [screen.lines(text[:end]) for end in range(1, len(text) + 1, 7)] + [screen.lines(f"{text}\n")]
    assert so_far[-1] == policy.redacted(f"{text}\n").text
    assert all(so_far[-1].startswith(each) for each in so_far)


HOSTILE = [
    "1",
    "1 ",
    "a@",
    "a@a.",
    "a",
    "ask-",
    "sk-",
    "-eyJ",
    "eyJaaaaaaaaaa.",
    "://a:",
    "a:",
    "password=",
    "+1",
    "+1(((",
]
HOSTILE += [
    "password=aaaaaaaa",
    "bearer ",
    "4111 ",
    "4111111111111111",
    "415-",
    "ghp_",
    "-----BEGIN ",
    "ya29.",
    "\\n",
    "%20",
]
HOSTILE += ["-----BEGIN PRIVATE KEY-----\n", "+14155552671AKIAIOSFODNN7EXAMPLE", "secret : ", "@a-", "(415) ", "\u00a0"]


HOSTILE += ["\\", "\\u0040", "\\\\u00"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    small, large = (_cpu_seconds(piece * (size // len(piece))) for size in (125_000, 1_000_000))
    assert large < 6
    assert large < 30 * small + 0.3


@given(st.sampled_from([*HOSTILE, *PIECES]), st.lists(st.sampled_from([*HOSTILE, *PIECES]), min_size=1, max_size=3))
@examples(40)
def test_mixtures_of_hostile_texts_take_linear_time(head: str, pieces: list[str]) -> None:
    piece = "".join(pieces)
    assert _cpu_seconds(head + piece * (100_000 // len(piece) + 1)) < 2


NAMED = (
    "password=passw|password is |secret key |token token=a1|key:|apikey=a.|password=/a/b|pwd=a1|login password |sig=1a"
    "|curl -u a:|-u|/webhooks/|sig=|hooks.slack.com/services/|basic a1"
)
NUMBERS = (
    "tel 1|tel (|phone: 1 |0|01 |01 23 |030 |0049 1|00|1-415-|(|(415|ssn |ssn 07|social security |DE89 |DE89|A|AA11 A "
    "|%40|a%40a.|＠|a＠a.|\u2009"
)
PREFIXES = [token[:length] for _, token in TOKENS for length in (3, 6, 11)]


def test_every_pattern_takes_linear_time() -> None:
    slow = [
        piece
        for piece in dict.fromkeys((*NAMED.split("|"), *NUMBERS.split("|"), *PREFIXES))
        if grows_too_fast(_cpu_seconds, lambda size, piece=piece: piece * (size // len(piece)), 8_000)  # type: ignore[misc]
    ]
    assert not slow


def _cpu_seconds(text: str) -> float:
    policy, start = Redaction(), time.process_time()
    policy.redacted(text)
    return time.process_time() - start


def test_own_rule_runs_first_and_is_counted() -> None:
    policy = Redaction(also=lambda text: text.replace("Ada", "[name]"))
    assert policy.redacted("Ada <ada@example.com>") == ("[name] <[redacted:email]>", (("also", 1), ("email", 1)))
    assert Redaction(also=lambda _: None).redacted("Ada") == ("Ada", ())
    assert policy.names == ["keys", "emails", "ibans", "cards", "ssns", "phones", "also"]


def test_failing_rule_replaces_the_text_and_logs_none_of_it(caplog: pytest.LogCaptureFixture) -> None:
    def fail(text: str) -> str:
        raise ValueError(f"cannot read {text}")

    assert Redaction(also=fail).redacted("the secret plan") == ("[redacted:error]", (("error", 1),))
    assert Redaction(also=lambda _: 7).redacted("the secret plan").text == "[redacted:error]"  # type: ignore[arg-type,return-value]
    assert "ValueError" in caplog.text
    assert "plan" not in caplog.text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"patterns": ("emails", "card")}, "unknown pattern 'card': did you mean 'cards'"),
        ({"patterns": "emails"}, "some of keys, emails, ibans, cards, ssns, phones"),
        ({"log": "drop"}, "known are keep, redact"),
        ({"also": "Ada"}, "a function from text to text"),
        ({"request": 1}, "True or False"),
    ],
)
def test_invalid_policies_raise_settings_errors(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ctxwrap.SettingsError, match=message):
        Redaction(**wrong)


def test_settings_accept_only_a_policy() -> None:
    assert ctxwrap.Settings().redaction is None
    assert ctxwrap.Settings(redaction=ctxwrap.Redaction(patterns=["emails"])) == ctxwrap.Settings(  # type: ignore[arg-type]
        redaction=Redaction(patterns=("emails",))
    )
    with pytest.raises(ctxwrap.SettingsError, match="must be Redaction"):
        ctxwrap.Settings(redaction=True)  # type: ignore[arg-type]


def test_redacted_json_stays_json() -> None:
    redactor = Redactor(ALL)
    for text in (
        '{"to": "ada\\u0040example.com"}',
        '{"card": 4111111111111111, "n": 3}',
        '{"k": "x\\nghp_' + "a1" * 18 + '"}',
    ):
        redacted = redactor.json_text(text)
        assert "[redacted:" in json.dumps(json.loads(redacted))
        assert redactor.json_text(redacted) == redacted
    assert redactor.json_text('{"to": "ada\\u0040example.com", cut') == '{"to": "[redacted:email]", cut'
    assert redactor.json_text('{ "n":  3 }') == '{ "n":  3 }'


def test_request_texts_are_redacted_and_structure_stays() -> None:
    secret, pixels = "ada@example.com", "iVBORw0KGgo" * 40
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixels}"}}
    thought = {"type": "thinking", "thinking": secret, "signature": pixels}
    call = {"id": secret, "type": "function", "function": {"name": "f", "arguments": f'"{secret}"'}}
    body = {
        "api_key": "sk-abcdef1234567890abcdef",
        "model": "m",
        "user": secret,
        "metadata": {secret: secret},
        "system": f"data: {secret}",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": secret}, image]},
            {"role": "assistant", "content": [thought, {**thought, "signature": ""}], "tool_calls": [call]},
            {"role": "tool", "tool_call_id": secret, "content": secret},
            {"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": secret}}]},
            {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": pixels}}]},
            {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": JWT}}]},
        ],
    }
    before = json.dumps(body)
    redacted = Redactor(ALL).body(body, CHAT.field_names)
    assert json.dumps(body) == before
    assert list(redacted) == list(body)
    assert redacted["api_key"] == body["api_key"]
    assert redacted["metadata"] == {"[redacted:email]": "[redacted:email]"}
    assert redacted["system"] == "data: [redacted:email]"
    first, second, third, fourth, fifth, sixth = redacted["messages"]
    assert first["content"] == [{"type": "text", "text": "[redacted:email]"}, image]
    assert second["content"] == [thought, {"type": "thinking", "thinking": "[redacted:email]", "signature": ""}]
    assert second["tool_calls"][0]["function"]["arguments"] == '"[redacted:email]"'
    assert second["tool_calls"][0]["id"] == third["tool_call_id"] == redacted["user"]
    assert re.fullmatch("redacted_[0-9a-f]{16}", third["tool_call_id"])
    assert third["content"] == "[redacted:email]"
    assert fourth["content"][0]["source"]["data"] == "[redacted:email]"
    assert fifth is body["messages"][4]  # type: ignore[index]
    assert sixth["content"][0]["source"]["data"] == "[redacted:key]"


def test_redacted_keys_stay_distinct() -> None:
    given = {"ada@example.com": 1, "bob@example.com": 2, "[redacted:email]": 3, "eve@example.com": 4}
    redacted = Redactor(ALL).numbers_too(given)
    assert sorted(redacted.values()) == [1, 2, 3, 4]
    assert not [name for name in redacted if "example" in name]


def test_field_name_reveals_a_secret_value() -> None:
    given = {"password": "correcthorsebattery", "ssn": "078-05-1120", "phone": 4155552671, "n": 4155552671, "key": "a1"}
    redacted = {"password": "[redacted:key]", "ssn": "[redacted:ssn]", "phone": "[redacted:phone]"}
    assert Redactor(ALL).numbers_too(given) == {**given, **redacted}
    assert json.loads(Redactor(ALL).json_text(json.dumps(given))) == {**given, **redacted}


def test_repeated_keys_hide_nothing() -> None:
    assert "example" not in Redactor(ALL).json_text('{"to": "ada@example.com", "to": "me"}')


def test_values_nested_too_deep_are_replaced() -> None:
    value: Any = "ada@example.com"
    for _ in range(5_000):
        value = {"a": [value]}
    redacted, deepest = Redactor(ALL).value(value), 0
    while isinstance(redacted, dict | list):
        redacted, deepest = redacted["a"] if isinstance(redacted, dict) else redacted[0], deepest + 1
    assert redacted == "[redacted:error]"
    assert deepest > 100


def test_log_lines_and_tracebacks_are_redacted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("ctxwrap")
    monkeypatch.setattr(policy, "_lines", type(policy._lines)())
    monkeypatch.setattr(logger, "filters", [])
    for number in range(40):
        policy.redact_log_lines(Redaction(also=lambda text, number=number: text.replace(f"<{number}>", "")))  # type: ignore[misc]
    assert len(logger.filters) == 1
    try:
        raise ValueError("no such user: ada@example.com")
    except ValueError:
        logger.exception("it failed for %s", "bob@example.com")
    assert "it failed for [redacted:email]" in caplog.text
    assert "ValueError: no such user: [redacted:email]" in caplog.text
    assert "example.com" not in caplog.text
