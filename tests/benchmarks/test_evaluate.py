"""The evaluation program, run as a whole against providers on the loopback interface."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import evaluate
import pytest
from conversations import read

from ctxwrap.testing import Answer, ScriptedProvider
from ctxwrap.testing import Request as Asked
from ctxwrap.tokens.models import price_of
from tests.benchmarks import samples
from tests.providers.loopback import Failure, Loopback, Received, Sent, Told

Json = dict[str, Any]
USAGE = {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 400}}


def chat(asked: Received, told: Told) -> Sent:
    message = {"role": "assistant", "content": told.text_for(asked)}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": USAGE}
    return Sent([json.dumps(body).encode()])


def knows_cats(asked: Received) -> Told:
    """A model that answers one question, and otherwise does not know."""
    newest = asked.body["messages"][-1]["content"]
    return Told("He is called Oskar." if samples.QUESTIONS["cat"] in newest else "I don't know.")


@pytest.fixture
def provider() -> Iterator[Loopback]:
    with Loopback(chat, knows_cats) as provider:
        yield provider


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return samples.write(tmp_path / "locomo.json", samples.locomo())


Run = Callable[..., Json]


@pytest.fixture
def run(tmp_path: Path, file: Path, provider: Loopback) -> Run:
    """Runs the program with the loopback's model, and returns its summary."""

    def run(*options: str, code: int = 0, model: str = "gpt-4o-mini") -> Json:
        out = tmp_path / "out"
        server = ("--model", model, "--base-url", f"{provider.url}/v1")
        assert evaluate.main([str(file), "--out", str(out), *server, *options]) == code
        return json.loads((out / "summary.json").read_text())

    return run


def records(tmp_path: Path) -> list[Json]:
    return [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]


def test_without_a_model_it_finds_evidence_in_the_requests(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert evaluate.main([str(file), "--out", str(out), "--ways", "ctxwrap:4000,last:2,everything"]) == 0
    told = json.loads((out / "summary.json").read_text())
    ways = told["ways"]
    assert told["complete"]
    assert told["settings"]["data"][0]["sha256"] == read(file).sha256
    assert told["versions"].keys() >= {"python", "ctxwrap", "openai"}
    assert ways["everything"]["found"] == ways["ctxwrap:4000"]["found"] == 1.0
    assert ways["last:2"]["found"] == 0.0
    assert ways["last:2"]["tokens"] < ways["everything"]["tokens"]
    assert ways["everything"]["questions"] == 3  # none about what nobody said
    assert ways["everything"]["categories"].keys() == {"single-hop", "multi-hop", "temporal"}
    assert "accuracy" not in ways["everything"]
    assert "| last:2 | 3 | 0.0% |" in capsys.readouterr().out


@pytest.mark.parametrize("make", [samples.longmemeval, lambda: [samples.beam_row()]], ids=["LongMemEval", "BEAM"])
def test_every_format_runs_without_a_model(tmp_path: Path, make: Callable[[], object]) -> None:
    path, out = samples.write(tmp_path / "file.json", make()), tmp_path / "out"
    assert evaluate.main([str(path), "--out", str(out)]) == 0
    ways = json.loads((out / "summary.json").read_text())["ways"]
    assert {way: each["found"] for way, each in ways.items()} == dict.fromkeys(evaluate.WAYS.split(","), 1.0)


def test_a_part_of_a_long_message_is_found_but_not_whole(file: Path) -> None:
    talk = read(file).conversations[0]
    parts = [f"Paragraph {number} of the story speaks of {'nothing ' * 40}else.\n" for number in range(20)]
    talk.said[0] = talk.said[0]._replace(text="".join(parts))
    body = {"messages": [{"role": "user", "content": json.dumps({"found": "".join(parts[:12])})}]}
    assert evaluate.evidence_in(body, talk.questions[0], talk) == {"found": 1, "whole": 0}


def test_accuracy_cost_and_cache_share_come_from_the_answers(run: Run) -> None:
    ways = run("--ways", "ctxwrap,everything")["ways"]
    price = price_of("gpt-4o-mini")
    assert price is not None
    cost = 600 * price.input + 400 * price.cached + 50 * price.output
    for way in ("ctxwrap", "everything"):
        assert ways[way]["questions"] == 4
        assert ways[way]["correct"] == 2  # the cat, and that nobody spoke of a dog
        assert ways[way]["accuracy"] == 0.5
        assert ways[way]["cost"] == pytest.approx(4 * cost)
        assert ways[way]["cost_per_correct"] == pytest.approx(2 * cost)
        assert ways[way]["cached"] == 0.4
        assert ways[way]["tokens_out"] == 50
        assert ways[way]["seconds_median"] > 0
        assert ways[way]["categories"]["single-hop"]["accuracy"] == 1.0
        assert ways[way]["categories"]["adversarial"]["accuracy"] == 1.0
        assert ways[way]["categories"]["temporal"]["accuracy"] == 0.0


def test_requests_have_the_date_and_nothing_of_other_questions(run: Run, provider: Loopback) -> None:
    run("--ways", "ctxwrap,everything")
    wrapped, bare = ([asked.body["messages"] for asked in provider.seen[at : at + 4]] for at in (0, 4))
    for messages in (*wrapped, *bare):
        assert "Now it is Saturday, 03 June 2023" in messages[0]["content"]
        others = [text for text in samples.QUESTIONS.values() if text not in messages[-1]["content"]]
        assert not any(text in json.dumps(messages) for text in others)
    assert bare[0][1] == {"role": "user", "content": f"[2023-05-08 13:56] Ann: {samples.CAT}"}


def test_price_that_nobody_knows_leaves_the_cost_open(run: Run) -> None:
    told = run("--ways", "everything", model="a-model-of-my-own")["ways"]["everything"]
    assert (told["accuracy"], told["cost"], told["cost_per_correct"]) == (0.5, None, None)


def test_second_run_asks_nothing_twice(run: Run, provider: Loopback, tmp_path: Path) -> None:
    first = run("--ways", "ctxwrap,last:2")
    asked = len(provider.seen)
    assert asked == 8
    assert run("--ways", "ctxwrap,last:2")["ways"] == first["ways"]
    assert len(provider.seen) == asked
    run("--ways", "ctxwrap,last:2,everything")
    assert len(provider.seen) == asked + 4
    assert len(records(tmp_path)) == 12


def test_higher_limit_adds_to_the_questions_of_a_lower_one(run: Run, provider: Loopback) -> None:
    run("--ways", "last:2", "--limit", "1")
    assert run("--ways", "last:2", "--limit", "3")["ways"]["last:2"]["questions"] == 3
    assert len(provider.seen) == 3


@pytest.mark.parametrize(("broken", "code"), [("interrupted", 130), ("failed", 1)])
def test_stopped_run_keeps_what_is_done_and_goes_on(
    run: Run, provider: Loopback, tmp_path: Path, broken: str, code: int
) -> None:
    is_over = threading.Event()

    def until_the_third(asked: Received) -> Told | Failure:
        if len(provider.seen) < 3:
            return knows_cats(asked)
        if broken == "interrupted":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            is_over.wait(60)  # the interrupt, not the answer, ends the run
        return Failure(401, {"error": {"message": "no such key"}})

    provider.answer = until_the_third
    told = run("--ways", "everything", code=code)
    is_over.set()
    assert (told["complete"], told["ways"]["everything"]["questions"]) == (False, 2)
    with (tmp_path / "out" / "results.jsonl").open("a") as file:
        file.write('{"data": "half a li')
    provider.answer = knows_cats
    told = run("--ways", "everything")
    assert (told["complete"], told["ways"]["everything"]["accuracy"]) == (True, 0.5)
    assert len(records(tmp_path)) == 4
    assert len(provider.seen) == 5


def test_refused_request_counts_as_a_wrong_answer(run: Run, provider: Loopback) -> None:
    provider.answer = lambda asked: Failure(400, {"error": {"message": "too long"}})
    told = run("--ways", "everything")["ways"]["everything"]
    assert (told["errors"], told["accuracy"], told["cost"], told["cost_per_correct"]) == (4, 0.0, 0, None)


def test_folder_of_other_settings_is_refused(run: Run) -> None:
    run("--ways", "last:2")
    with pytest.raises(SystemExit, match="other settings \\(seed 1\\)"):
        run("--ways", "last:2", "--seed", "2")


def test_judge_decides_if_there_is_one(run: Run, provider: Loopback, tmp_path: Path) -> None:
    def verdict(asked: Asked) -> str:
        return "Yes." if "does not tell" in asked.text or "- Oskar\n" in asked.text else "No, it does not."

    with ScriptedProvider(verdict) as judge:
        server = ("--judge-api", "anthropic", "--judge-base-url", judge.anthropic_url)
        told = run("--ways", "everything", "--judge", "claude-opus-4-8", *server)["ways"]["everything"]
        assert told["correct"] == len(judge.requests) / 2 == 2
    assert told["cost"] == pytest.approx(sum(each["cost"] for each in records(tmp_path)))


def test_models_with_the_api_of_anthropic_answer(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ScriptedProvider(lambda _: Answer("Oskar")) as provider:
        server = ("--model", "claude-opus-4-8", "--api", "anthropic", "--base-url", provider.anthropic_url)
        assert evaluate.main([str(file), "--out", str(out), *server, "--ways", "ctxwrap,everything"]) == 0
        assert provider.last.ask.body["messages"][-2]["content"][0]["cache_control"] == {"type": "ephemeral"}
    ways = json.loads((out / "summary.json").read_text())["ways"]
    assert [ways[way]["categories"]["single-hop"]["accuracy"] for way in ("ctxwrap", "everything")] == [1.0, 1.0]


@pytest.mark.skipif(find_spec("mem0") is None, reason="mem0 is not installed")
def test_mem0_answers_and_its_extraction_counts_as_preparation(file: Path, tmp_path: Path) -> None:
    found = json.dumps({"memory": [{"id": "0", "text": "The cat is called Oskar.", "event": "ADD"}]})

    def reply(asked: Asked) -> str:
        if "response_format" in asked.ask.body:
            return found
        return "Oskar" if "The cat is called Oskar." in asked.system else "no idea"

    with ScriptedProvider(reply) as provider:
        options = ["--out", str(tmp_path / "out"), "--model", "gpt-4o-mini", "--base-url", provider.openai_url]
        for limit, asked in ((2, 4), (4, 6)):  # two days to extract from, then the questions; the second run goes on
            assert evaluate.main([str(file), *options, "--ways", "mem0", "--limit", str(limit)]) == 0
            assert len(provider.requests) == asked
    told = json.loads((tmp_path / "out" / "summary.json").read_text())["ways"]["mem0"]
    assert told["categories"]["single-hop"]["accuracy"] == 1.0
    assert told["found"] is None
    assert told["cost"] > told["preparation_cost"] > 0


@pytest.mark.parametrize(
    ("expected", "reply", "is_right"),
    [
        (("Oskar",), "The cat is called Oskar.", True),
        (("Oskar",), "The cat is called Oskarina.", False),
        (("7 May 2023",), "It was on the 7 May, 2023", True),
        (("a green bicycle from Lyon",), "bicycle, green", True),
        (("a green bicycle from Lyon",), "a red car", False),
        (("LLM response should state: 250ms",), "About 250ms.", True),
        (("LLM response should mention: x one", "LLM response should mention: y two"), "first y two, then z", True),
        ((), "anything", False),
    ],
)
def test_rules_judge_answers(expected: tuple[str, ...], reply: str, is_right: bool, file: Path) -> None:
    question = read(file).conversations[0].questions[0]._replace(expected=expected)
    assert evaluate.judged_by_rules(question, reply) is is_right


@pytest.mark.parametrize(
    ("reply", "is_right"),
    [
        ("I don't know.", True),
        ("That wasn’t mentioned in our conversation.", True),
        ("There is no information about a dog.", True),
        ("The dog is called Oskar.", False),
        ("", False),
    ],
)
def test_rules_judge_whether_a_reply_abstains(reply: str, is_right: bool, file: Path) -> None:
    assert evaluate.judged_by_rules(read(file).conversations[0].questions[3], reply) is is_right


def test_file_that_cannot_be_read_ends_the_program_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = samples.write(tmp_path / "file.json", [{"a": 1}])
    assert evaluate.main([str(path), "--out", str(tmp_path / "out")]) == 2
    assert "no known format" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("model", "variable"), [("gpt-5", "OPENAI_API_KEY"), ("claude-opus-4-8", "ANTHROPIC_API_KEY")])
def test_model_without_a_key_is_refused_before_anything_is_written(
    model: str, variable: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SystemExit, match=f"no variable {variable}"):
        evaluate.main([str(file), "--out", str(tmp_path / "out"), "--model", model])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ways", "ctxwrap,first:3"], "'first:3' is no way"),
        (["--ways", "last"], "'last' is no way"),
        (["--ways", "mem0"], "mem0 "),
    ],
)
def test_unknown_ways_are_refused(
    options: list[str], says: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        evaluate.main([str(file), "--out", str(tmp_path / "out"), *options])
    assert says in capsys.readouterr().err
