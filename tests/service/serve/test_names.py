"""Whose session a request belongs to: headers, fields, tokens, and the beginning of a conversation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ctxwrap.errors import SettingsError
from ctxwrap.redaction import Redaction
from ctxwrap.service.serve.access import Grants, new_token_line
from ctxwrap.stores.names import safe_name
from ctxwrap.testing.practice import Answer, Ask, Provider, ToolCall
from tests.clients.openai_cases import CHAT, HELLO, SAID
from tests.service.serve.conftest import Stage
from tests.service.serve.serving import Proxy, Reply, proxy, upstreams_of
from tests.support import Told, said

JSON_TYPE = {"content_type": "application/json"}
ACME, ACME_LINE = new_token_line("acme")
ADA, ADA_LINE = new_token_line("acme", ["ada"])
BOTH, BOTH_LINE = new_token_line("acme", ["ada", "bob"])
OTHER, OTHER_LINE = new_token_line("other")


def ask(at: Proxy, body: dict[str, Any] | None = None, path: str = "/v1/chat/completions", **headers: str) -> Reply:
    return at.ask("POST", path, json.dumps(body or CHAT).encode(), **JSON_TYPE, **headers)


# --- headers and fields -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "headers", "session"),
    [
        ({}, {"x_ctxwrap_session": "by-header"}, "by-header"),
        ({"metadata": {"session_id": "by-field"}}, {}, "by-field"),
        ({"metadata": {"session": "by-name"}, "user": "ada"}, {}, "ada/by-name"),
        ({"user": "eve"}, {"x_ctxwrap_session": "s", "x_ctxwrap_user": "a/b"}, "a%2Fb/s"),
        ({"metadata": {"user_id": "user_1_account_2_session_3"}}, {}, "user_1_account_2/3"),
        ({"metadata": {"user_id": '{"account_uuid": "u", "session_id": "code"}'}}, {}, "u/code"),
        ({"metadata": {"session_id": "less"}}, {"x_ctxwrap_session": "more"}, "more"),
    ],
)
def test_a_request_names_its_session(stage: Stage, body: dict[str, Any], headers: dict[str, str], session: str) -> None:
    reply = ask(stage.proxy, {**CHAT, **body}, **headers)
    assert session.endswith(reply.headers["x-ctxwrap-session"])
    assert said(stage.home, safe_name(session)) == HELLO
    assert all("ctxwrap" not in name for name in stage.provider.seen[-1].headers)


def test_a_conversation_of_the_provider_is_a_session(stage: Stage) -> None:
    body = {"model": "m", "input": SAID, "conversation": {"id": "conv_7"}}
    assert ask(stage.proxy, body, "/v1/responses").headers["x-ctxwrap-session"] == "conv_7"


def test_history_that_only_the_provider_has_starts_no_session(stage: Stage) -> None:
    body = {"model": "m", "input": SAID, "previous_response_id": "resp_1"}
    assert "x-ctxwrap-session" not in ask(stage.proxy, body, "/v1/responses").headers


# --- conversations ------------------------------------------------------------------------------------


class Chat:
    """A client that sends its whole history, as tools do, and names no session."""

    def __init__(self, at: Proxy, **headers: str) -> None:
        self.at, self.headers = at, headers
        self.history: list[dict[str, Any]] = []
        self.sessions: list[str] = []

    def say(self, text: str) -> str:
        self.history.append({"role": "user", "content": text})
        reply = ask(self.at, {"model": "m", "messages": self.history}, **self.headers)
        answer: str = json.loads(reply.body)["choices"][0]["message"]["content"]
        self.history.append({"role": "assistant", "content": answer})
        self.sessions.append(reply.headers["x-ctxwrap-session"])
        return answer


def counting(ask: Ask) -> Answer:
    """Every reply differs from those before."""
    counting.number = getattr(counting, "number", 0) + 1  # type: ignore[attr-defined]
    return Told(f"Reply {counting.number}.")(ask)  # type: ignore[attr-defined]


def test_the_same_history_continues_the_same_session(stage: Stage) -> None:
    stage.answer(counting)
    chat = Chat(stage.proxy)
    for text in ("Begin one.", "Go on.", "And on."):
        chat.say(text)
    assert len(set(chat.sessions)) == 1
    assert [role for role, _ in said(stage.home, chat.sessions[0])] == ["user", "assistant"] * 3


def test_conversations_that_begin_alike_are_sessions_of_their_own(stage: Stage) -> None:
    stage.answer(counting)
    chats = [Chat(stage.proxy) for _ in range(3)]
    for text in ("Hi.", "What now?", "And then?"):
        for chat in chats:
            chat.say(text)
    assert [len(set(chat.sessions)) for chat in chats] == [1, 1, 1]
    assert len({chat.sessions[0] for chat in chats}) == 3
    first = said(stage.home, chats[0].sessions[0])
    assert [text for _, text in first] == [message["content"] for message in chats[0].history]


def test_another_process_finds_the_session_of_a_conversation(stage: Stage) -> None:
    stage.answer(counting)
    chats = [Chat(stage.proxy) for _ in range(2)]
    for chat in chats:
        chat.say("Across processes.")
    with proxy(stage.home, *upstreams_of(stage.provider)) as another:
        for chat in chats:
            chat.at = another
            chat.say("Still there?")
    assert [len(set(chat.sessions)) for chat in chats] == [1, 1]
    assert chats[0].sessions[0] != chats[1].sessions[0]


def test_a_reply_that_the_client_changed_still_continues_the_only_conversation(stage: Stage) -> None:
    chat = Chat(stage.proxy)
    chat.say("Only one begins like this.")
    chat.history[-1]["content"] = "(shortened)"
    chat.say("Go on.")
    assert len(set(chat.sessions)) == 1


def test_tool_calls_tell_conversations_apart(stage: Stage) -> None:
    sessions = []
    for id in ("call_a", "call_b"):
        stage.answer(lambda ask, id=id: Answer(tool_calls=(ToolCall(id, "look", "{}"),)))
        first = ask(stage.proxy, {"model": "m", "messages": [{"role": "user", "content": "Use a tool."}]})
        sessions.append(first.headers["x-ctxwrap-session"])
    stage.answer(Told())
    for id, session in zip(("call_a", "call_b"), sessions, strict=True):
        call = {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        asked = [
            {"role": "user", "content": "Use a tool."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": "Seen."},
        ]
        assert ask(stage.proxy, {"model": "m", "messages": asked}).headers["x-ctxwrap-session"] == session


def test_a_retry_does_not_begin_another_conversation(stage: Stage) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Try this twice."}]}
    first = ask(stage.proxy, body, x_stainless_retry_count="0").headers["x-ctxwrap-session"]
    assert ask(stage.proxy, body, x_stainless_retry_count="1").headers["x-ctxwrap-session"] == first


def test_conversations_of_other_keys_and_users_are_apart(stage: Stage) -> None:
    stage.answer(lambda ask: Told("The same.")(ask))
    chats = [
        Chat(stage.proxy, authorization="Bearer one"),
        Chat(stage.proxy, authorization="Bearer two"),
        Chat(stage.proxy, authorization="Bearer one", x_ctxwrap_user="ada"),
    ]
    for text in ("The same beginning.", "The same again."):
        for chat in chats:
            chat.say(text)
    assert len({session for chat in chats for session in chat.sessions}) == 3


# --- tokens -------------------------------------------------------------------------------------------


class Guarded(NamedTuple):
    proxy: Proxy
    provider: Provider
    home: Path


@pytest.fixture(scope="module")
def shared_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    lines = "\n".join(["# tokens", ACME_LINE, ADA_LINE, BOTH_LINE, OTHER_LINE])
    with (
        Provider(Told()) as provider,
        proxy(
            home,
            *upstreams_of(provider),
            keys=("openai=KEY",),
            environment={"KEY": "sk-server"},
            tokens=lines,
        ) as at,
    ):
        yield Guarded(at, provider, home)


@pytest.fixture
def guarded(shared_guarded: Guarded) -> Guarded:
    shared_guarded.provider.seen.clear()
    return shared_guarded


def test_nobody_comes_in_without_a_token(guarded: Guarded) -> None:
    for headers in ({}, {"authorization": "Bearer sk-own"}, {"x_api_key": "ctx-wrong"}, {"x_ctxwrap_token": ""}):
        assert ask(guarded.proxy, **headers).status == 401
    assert guarded.provider.seen == []


def test_the_servers_key_replaces_the_token(guarded: Guarded) -> None:
    for headers in ({"authorization": f"Bearer {ACME}"}, {"x_api_key": ACME}):
        assert ask(guarded.proxy, x_ctxwrap_session="s", **headers).status == 200
    for seen in guarded.provider.seen:
        assert seen.headers["authorization"] == "Bearer sk-server"
        assert "x-api-key" not in seen.headers
        assert ACME not in str(seen.headers)


def test_a_clients_own_key_goes_to_an_upstream_without_one(guarded: Guarded) -> None:
    body, path = {"model": "m", "max_tokens": 9, "messages": CHAT["messages"]}, "/v1/messages"
    assert ask(guarded.proxy, body, path, x_api_key=ACME).status == 401
    assert ask(guarded.proxy, body, path, x_api_key="sk-own", x_ctxwrap_token=ACME).status == 200
    (seen,) = guarded.provider.seen
    assert seen.headers["x-api-key"] == "sk-own"


def test_a_token_decides_the_tenant(guarded: Guarded) -> None:
    for token, tenant in ((ACME, "acme"), (OTHER, "other")):
        ask(guarded.proxy, authorization=f"Bearer {token}", x_ctxwrap_session="same")
        assert said(guarded.home, "same", tenant=tenant)[:2] == HELLO


def test_a_token_speaks_for_its_users_only(guarded: Guarded) -> None:
    def status(token: str, **headers: str) -> int:
        return ask(guarded.proxy, authorization=f"Bearer {token}", x_ctxwrap_session="own", **headers).status

    assert status(ADA) == status(ADA, x_ctxwrap_user="ada") == status(BOTH, x_ctxwrap_user="bob") == 200
    assert status(ADA, x_ctxwrap_user="bob") == status(BOTH) == status(BOTH, x_ctxwrap_user="eve") == 403
    assert said(guarded.home, safe_name("ada/own"), tenant="acme")[:2] == HELLO
    assert said(guarded.home, "own", tenant="acme") == []


def test_conversations_are_never_shared_across_tokens(guarded: Guarded) -> None:
    chats = [Chat(guarded.proxy, authorization=f"Bearer {token}") for token in (ACME, ADA, OTHER)]
    for text in ("A common beginning.", "And a common question."):
        for chat in chats:
            chat.say(text)
    assert len({chat.sessions[0] for chat in chats}) == 3


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/responses/resp_1"), ("GET", "/v1/chat/completions"), ("GET", "/v1/files"), ("POST", "/v1/batches")],
)
def test_the_servers_key_shows_nothing_that_others_stored(guarded: Guarded, method: str, path: str) -> None:
    assert guarded.proxy.ask(method, path, authorization=f"Bearer {ACME}").status == 403
    assert guarded.proxy.ask("GET", "/v1/models", authorization=f"Bearer {ACME}").status == 200
    assert [seen.path for seen in guarded.provider.seen] == ["/v1/models"]


def test_tokens_are_read_again_when_their_file_changes(tmp_path: Path) -> None:
    file, now = tmp_path / "tokens", [0.0]
    file.touch(0o600)
    file.write_text(f"{ACME_LINE}\n")
    assert ACME not in file.read_text()
    grants = Grants(str(file), clock=lambda: now[0])
    assert grants.grant_of({"authorization": f"Bearer {ACME}"}) is not None
    file.write_text(f"{OTHER_LINE}\n{BOTH_LINE}\n")
    now[0] = 2.0
    assert grants.grant_of({"x-api-key": ACME}) is None
    found = grants.grant_of({"x-api-key": BOTH})
    assert found is not None
    assert (found.tenant, found.users) == ("acme", {"ada", "bob"})
    file.write_text("no token at all\n")
    now[0] = 4.0
    assert grants.grant_of({"x-api-key": BOTH}) == found


def test_a_token_file_of_others_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(ACME_LINE)
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        Grants(str(file))
    with pytest.raises(SettingsError, match="line 1 of"):
        Grants(None, f"{ACME} acme")


# --- other rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "headers", "session"),
    [
        ("user", {"x_ctxwrap_user": "ada"}, "ada/default"),
        ("user", {}, None),
        ("none", {}, None),
        ("=all", {}, "all"),
    ],
)
def test_a_rule_names_the_session_of_other_calls(
    tmp_path: Path, provider: Provider, rule: str, headers: dict[str, str], session: str | None
) -> None:
    with proxy(tmp_path, *upstreams_of(provider), session=rule) as at:
        assert ask(at, **headers).status == 200
    if session is None:
        assert b"ctxwrap" not in provider.seen[-1].body
    else:
        assert said(tmp_path, safe_name(session)) == HELLO


def test_a_call_without_a_session_is_redacted(tmp_path: Path, provider: Provider) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    settings = {"redaction": Redaction()}
    with proxy(tmp_path, *upstreams_of(provider), session="none", settings=settings) as at:
        ask(at, {"model": "m", "messages": [{"role": "user", "content": f"My key is {secret}"}]})
    assert secret not in provider.seen[-1].body.decode()
