"""Counters: exact with an encoding, otherwise an estimate with a margin; shared by threads; no errors."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxwrap.tokens import counter_for
from ctxwrap.tokens import counting as encodings_module
from ctxwrap.tokens.counting import (
    CACHE_SIZE,
    LONGEST_KEY,
    PIECE,
    Counter,
    by_characters,
    count_with,
    encoding,
    forget_counters,
    pieces,
)
from ctxwrap.tokens.measure import measure_for
from ctxwrap.tokens.models import UNKNOWN, Family, family_of, litellm_directory
from tests.tokens.texts import SAMPLES

TOKENS = {
    "english": (20, 20, 20),
    "german": (25, 23, 31),
    "russian": (40, 27, 92),
    "greek": (70, 29, 83),
    "arabic": (51, 26, 71),
    "hindi": (78, 27, 109),
    "thai": (72, 35, 150),
    "chinese": (48, 34, 89),
    "japanese": (46, 34, 55),
    "korean": (52, 32, 110),
    "python": (28, 28, 35),
    "json": (38, 39, 42),
    "emoji": (38, 30, 38),
}
"""What tiktoken itself gave for each sample in cl100k_base, o200k_base and p50k_base."""

EXACT = {
    "gpt-4o": "o200k_base",
    "openai/gpt-4o-mini": "o200k_base",
    "azure/gpt-4o-2024-08-06": "o200k_base",
    "azure/prod-gpt-4o": "o200k_base",
    "ft:gpt-4o-mini-2024-07-18:acme::x1": "o200k_base",
    "gpt-5": "o200k_base",
    "gpt-5.2-codex": "o200k_base",
    "openrouter/openai/gpt-5-mini": "o200k_base",
    "gpt-4.1-nano": "o200k_base",
    "o1-preview": "o200k_base",
    "o3": "o200k_base",
    "azure/o3-mini": "o200k_base",
    "o4-mini-2025-04-16": "o200k_base",
    "groq/openai/gpt-oss-120b": "o200k_base",
    "gpt-4": "cl100k_base",
    "GPT-4-Turbo": "cl100k_base",
    "gpt-4-1106-preview": "cl100k_base",
    "gpt-3.5-turbo-0125": "cl100k_base",
    "azure/gpt-35-turbo": "cl100k_base",
    "text-davinci-003": "p50k_base",
}
ESTIMATED = {
    "claude-3-5-sonnet-20241022": 1.2,
    "claude-sonnet-4-5": 1.2,
    "bedrock/us.anthropic.claude-3-haiku-20240307-v1:0": 1.2,
    "vertex_ai/claude-opus-4@20250514": 1.2,
    "claude-opus-4-7": 1.65,
    "openrouter/anthropic/claude-opus-4.7": 1.65,
    "anthropic/claude-opus-5": 1.65,
    "gemini/gemini-2.5-pro": 1.05,
    "ollama/llama3.2": 1.05,
    "meta.llama3-1-70b-instruct-v1:0": 1.05,
    "meta-llama/Llama-2-7b-chat-hf": 1.15,
    "mistral/mistral-small-latest": 1.15,
    "deepseek/deepseek-chat": 1.05,
    "openrouter/qwen/qwen3-coder": 1.05,
    "github_copilot/gpt-41-copilot": 1.0,
    "my-o3": 1.15,
    "some-model": 1.15,
    "": 1.15,
}
MODELS = ("gpt-4", "gpt-4o", "claude-sonnet-4-5", "gemini/gemini-2.5-pro", "mixtral-8x7b", "some-model")
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=300) | st.text(
    "a1 \n<|>.é漢😀", max_size=300
)


@pytest.mark.parametrize("sample", SAMPLES)
def test_counts_equal_the_encodings(sample: str) -> None:
    counters = [counter_for(model) for model in ("gpt-4", "gpt-4o", "text-davinci-003")]
    assert tuple(counter.count(SAMPLES[sample]) for counter in counters) == TOKENS[sample]


def test_special_tokens_and_odd_texts_count_as_text() -> None:
    count = counter_for("gpt-4o").count
    assert count("") == 0
    assert count("tiktoken is great!") == 6
    assert count("<|endoftext|>") == 7
    assert count("\ud800") == 1
    assert count("a\x00b\ufffe") > 0


@pytest.mark.parametrize(("model", "name"), EXACT.items())
def test_openai_models_are_counted_exactly(model: str, name: str) -> None:
    counter = counter_for(model)
    assert (counter.name, counter.exact, counter.margin) == (name, True, 0)
    assert counter.at_most(1000) == 1000


@pytest.mark.parametrize(("model", "latin"), ESTIMATED.items())
def test_other_models_are_estimated_with_a_margin(model: str, latin: float) -> None:
    counter, family = counter_for(model), family_of(model)
    assert isinstance(family, Family)
    assert family.latin == latin
    assert (counter.name, counter.exact) == ("estimate", False)
    assert 0.15 <= counter.margin <= 0.25
    assert counter.at_most(1000) == 1000 + round(1000 * counter.margin)


def test_encoding_names_agree_with_tiktoken() -> None:
    from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING

    same = {"o200k_harmony": "o200k_base"}
    for model, name in (MODEL_TO_ENCODING | MODEL_PREFIX_TO_ENCODING).items():
        family = family_of(model + "x" if model.endswith("-") else model)
        assert isinstance(family, Family) or family == same.get(name, name), model


def test_models_of_a_family_share_a_counter() -> None:
    assert counter_for("gpt-4o") is counter_for("azure/gpt-5")
    assert counter_for("claude-3-opus") is counter_for("claude-sonnet-4")
    assert counter_for("claude-3-opus") is not counter_for("claude-opus-4-8")


@given(texts)
def test_counts_are_not_negative_and_cached_unchanged(text: str) -> None:
    for model in MODELS:
        counter = counter_for(model)
        fresh = counter._counting(text)
        assert counter.count(text) == counter.count(text) == fresh
        assert (fresh == 0) == (text == "")
        assert fresh <= 4 * len(text.encode("utf-8", "surrogatepass"))


@given(texts, texts)
def test_parts_of_a_text_have_about_as_many_tokens_as_the_whole(left: str, right: str) -> None:
    for model in MODELS:
        count = counter_for(model).count
        apart = count(left) + count(right)
        assert count(left + right) <= apart * 1.5 + 8
        assert apart <= count(left + right) * 1.5 + 8


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from([" ", "\n", "\t", "word", "Wort's", "漢字", "12345", "!?", "_", "\r\n", "é"]), min_size=1)
)
def test_pieces_join_to_the_text_and_keep_its_tokens(words: list[str]) -> None:
    text = " ".join("".join(words) for _ in range(2 * PIECE // len("".join(words)) + 1))
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert all(0 < len(piece) <= PIECE for piece in cut)
    uncertain = sum(before[-1].isspace() or not after.startswith((" ", "\n")) for before, after in pairwise(cut))
    for name in ("cl100k_base", "o200k_base", "p50k_base"):
        encode = encoding(name)
        assert encode is not None
        assert abs(count_with(encode, text) - len(encode(text))) <= 3 * uncertain


@pytest.mark.parametrize("unit", ["a", " ", "\n", "-", "漢", "aB1", "\u0301", "A\u02b0", "\ud800"])
def test_long_runs_take_linear_time(unit: str) -> None:
    count = counter_for("gpt-4o")._counting
    short, long = unit * (2 * PIECE // len(unit)), unit * (16 * PIECE // len(unit))
    times = {text: min(_time_of(count, text) for _ in range(3)) for text in (short, long)}
    assert times[long] < 30 * times[short] + 0.05
    assert abs(count(long) - 8 * count(short)) <= 0.01 * count(long) + 16


def _time_of(count: Callable[[str], int], text: str) -> float:
    started = process_time()
    count(text)
    return process_time() - started


def test_text_that_makes_tiktoken_panic_is_counted() -> None:
    assert counter_for("gpt-4o").count(" " * 1_000_000) == pytest.approx(7813, rel=0.01)


def test_count_cache_is_bounded() -> None:
    asked: list[str] = []
    counter = Counter("test", 0, lambda text: asked.append(text) or len(text))  # type: ignore[func-returns-value]
    long = "x" * (LONGEST_KEY + 1)
    for text in ("a", "a", long, "x" * (LONGEST_KEY + 1), "a"):
        counter.count(text)
    assert asked == ["a", long]
    assert long not in counter._recent, "a long text is not kept"
    for number in range(CACHE_SIZE - 1):
        counter.count(str(number))
        counter.count("a")
    counter.count(long)
    assert asked[-1] == long, "the one that was not asked for in the meantime is forgotten"
    assert asked.count("a") == 1
    assert len(counter._recent) + len(counter._older) <= CACHE_SIZE


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o"])
def test_character_estimates_are_near_the_encodings(model: str) -> None:
    counter = counter_for(model)
    for name, text in SAMPLES.items():
        assert 0.75 < by_characters(text, counter.name) / counter.count(text) < 1.35, name


def test_claude_since_opus_4_7_has_more_tokens_for_latin_script() -> None:
    old, new = counter_for("claude-opus-4-6").count, counter_for("claude-opus-4-7").count
    assert new(SAMPLES["english"]) / old(SAMPLES["english"]) == pytest.approx(1.375, rel=0.05)
    assert new(SAMPLES["chinese"]) == old(SAMPLES["chinese"])


def test_single_digit_families_count_every_digit() -> None:
    assert counter_for("gemini-2.5-pro").count("1234567890") == 10 + 1
    assert counter_for("deepseek-chat").count("1234567890") == 5


def test_threads_share_one_loaded_encoding(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = encodings_module._load
    monkeypatch.setattr(encodings_module, "_load", lambda name: loads.append(name) or load(name))  # type: ignore[func-returns-value]
    jobs = [(model, text) for text in SAMPLES.values() for model in MODELS] * 8
    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(lambda job: counter_for(job[0]).count(job[1]), jobs))
    assert sorted(loads) == ["cl100k_base", "o200k_base"]
    assert counts == [counter_for(model)._counting(text) for model, text in jobs]


def _all_are_estimates() -> None:
    for model in (*EXACT, *ESTIMATED):
        counter = counter_for(model)
        assert (counter.name, counter.exact, counter.margin) == ("estimate", False, 0.25)
    for name, text in SAMPLES.items():
        assert 0.75 < counter_for("gpt-4o").count(text) / TOKENS[name][1] < 1.4
        assert 0.75 < counter_for("gpt-4").count(text) / TOKENS[name][0] < 1.4
    assert counter_for("gpt-4o").count("") == 0
    assert counter_for("gpt-4o").count("\ud800") > 0


def test_counts_are_estimates_without_the_files(litellm_at: Callable[[Path | None], None], tmp_path: Path) -> None:
    litellm_at(tmp_path)
    _all_are_estimates()


def test_counts_are_estimates_without_litellm(litellm_at: Callable[[Path | None], None]) -> None:
    litellm_at(None)
    _all_are_estimates()


def test_damaged_encoding_file_is_left_alone(litellm_at: Callable[[Path | None], None], tmp_path: Path) -> None:
    directory = tmp_path / "litellm_core_utils" / "tokenizers"
    directory.mkdir(parents=True)
    for file, _ in encodings_module._FILES.values():
        (directory / file).write_bytes(b"IQ== 0\n")
    litellm_at(tmp_path)
    _all_are_estimates()
    assert len(list(directory.iterdir())) == 3


def test_counts_are_estimates_if_tiktoken_fails(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert counter_for("gpt-4o").name == "estimate"


def test_users_tiktoken_cache_is_preferred_and_kept(
    litellm_at: Callable[[Path | None], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    litellm = litellm_directory()
    assert litellm is not None
    file, _ = encodings_module._FILES["p50k_base"]
    (tmp_path / file).write_bytes((litellm / "litellm_core_utils" / "tokenizers" / file).read_bytes())
    litellm_at(None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert counter_for("text-davinci-003").exact
    assert not counter_for("gpt-4o").exact
    assert os.environ["TIKTOKEN_CACHE_DIR"] == str(tmp_path)


@pytest.mark.parametrize("value", [None, "", "/nowhere"])
def test_environment_is_restored(afresh: None, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    else:
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", value)
    assert counter_for("gpt-4o").exact
    assert os.environ.get("TIKTOKEN_CACHE_DIR") == value


def test_heavy_modules_are_imported_on_demand() -> None:
    code = (
        "import sys, ctxwrap, ctxwrap.tokens as tokens\n"
        "heavy = {'tiktoken', 'litellm', 'requests', 'regex', 'openai', 'asyncio'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert tokens.counter_for('gpt-4o').exact and tokens.window_of('gpt-4o').known\n"
        "assert 'litellm' not in sys.modules and 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "ctxwrap.tokens" not in _modules_after("import ctxwrap")


def _modules_after(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_forget_counters_makes_new_counters() -> None:
    before, measure = counter_for("some-model"), measure_for("some-model")
    assert measure_for("some-model") is measure
    forget_counters()
    assert counter_for("some-model") is not before
    assert measure_for("some-model") is not measure
    assert family_of("some-model") == UNKNOWN
