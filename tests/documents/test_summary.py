"""Summaries: short enough whatever is said, in the third person where that is certain, with the facts in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.documents.sentences import MessageSummary, RawMessage, facts_in
from ctxwrap.documents.summary import MAX_SUMMARY, fit_summary, summarise_message
from tests.documents.messages import MESSAGES

texts = st.text(max_size=1500) | st.lists(
    st.sampled_from(
        ["Hello! ", "We met Maria on 3 May 2025. ", "It was nice and rather long. ", "Order A-77 costs 12 EUR. "]
    )
    | st.text(max_size=30),
    max_size=80,
).map("".join)
raws = st.builds(
    RawMessage, st.integers(), st.sampled_from(["user", "assistant", "tool", "x"]), texts, speaker=st.text(max_size=90)
)


def said(text: str, role: str = "user", **more: str) -> str:
    return summarise_message(RawMessage(1, role, text, **more))


@given(raws, st.text(max_size=200))
def test_summary_is_deterministic_nonempty_and_no_longer_than_its_message(raw: RawMessage, document: str) -> None:
    summary = summarise_message(raw, document)
    assert len(summary) <= min(MAX_SUMMARY, len(raw.text))
    assert bool(summary) == bool(raw.text)
    assert isinstance(summary, MessageSummary)
    assert summary == summarise_message(raw, document)
    assert "\n" not in summary


@given(texts)
def test_fitted_summary_is_within_the_limit_and_stable(text: str) -> None:
    short = fit_summary(text)
    assert len(short) <= MAX_SUMMARY
    assert fit_summary(short) == short
    if len(text) <= MAX_SUMMARY:
        assert short == text
    else:
        same = " ".join(text.split()) == short
        assert same or short.endswith("…")


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
def test_the_ellipsis_stands_for_what_was_removed_only(telling: int, dull: int, filler: int) -> None:
    told = [f"Paul left Rome on 3 May 20{n:02}." for n in range(telling)]
    told += [f"It was all {'rather ' * n}boring then." for n in range(dull)]
    text = " ".join(["Hm, well."] * filler + told)
    assert fit_summary(text).endswith("…") == (len(text) > MAX_SUMMARY)
    summary = said(text)
    assert summary.endswith("…") == any(sentence not in summary for sentence in told)
    if len(" ".join(told)) <= MAX_SUMMARY - 20:
        assert not summary.endswith("…"), "greetings and filler do not count"


def test_uninformative_sentences_are_removed_first() -> None:
    dull = "It was a long day and nobody knew what to make of it. " * 9
    short = fit_summary(f"Hello there! {dull}Maria Jansen signed contract A-4471 on 17 Aug 2025. {dull}")
    assert "Maria Jansen signed contract A-4471 on 17 Aug 2025" in short
    assert "Hello" not in short
    assert short.endswith("…")


def test_a_statement_and_a_request_to_somebody_are_reported_as_in_the_example() -> None:
    """Who asks whom is worth more than the length of the message: so has it the example that this form follows."""
    text = "Hi Sam, our Q3 launch date moved to 17 Aug 2025. Please update the tracker."
    summary = "User stated the Q3 launch date moved to 17 Aug 2025 and asked Sam to update the tracker."
    assert said(text) == summary
    assert (
        said("Hi Sam, our lease ends soon. Please tell me more.") == "User: Our lease ends soon. Please tell me more."
    )


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("Hello! I'm vegan. Thanks!", "User is vegan."),
        ("Thanks a lot! My cat is called Biscuit.", "User's cat is called Biscuit."),
        ("I was born in Ghent in 1984.", "I was born in Ghent in 1984."),
        ("Could you please send me the report?", "Could you please send me the report?"),
        ("Hello! When does my train leave?", "User: When does my train leave?"),
        ("Yes.", "Yes."),
        ("Thanks!", "Thanks!"),
        ("👍", "👍"),
        ("\x00", "…"),
        ("", ""),
        ("Hallo! Unser Start ist am 3. Mai.", "User: Unser Start ist am 3. Mai."),
        ("你好！我叫小明。", "我叫小明。"),
        ("I hate Mondays. I hate Mondays. I hate Mondays.", "User hates Mondays."),
    ],
)
def test_summary_leaves_out_filler(text: str, summary: str) -> None:
    assert said(text) == summary


@pytest.mark.parametrize(
    "text",
    [
        "I told them that they were late.",
        'He wrote "I am late" to me.',
        "I was named after her sister.",
        "World War I began before I was born and was long.",
        "I think we should go.",
        "I live in Ghent and work in Aalst.",
    ],
)
def test_summary_does_not_resolve_ambiguous_references(text: str) -> None:
    assert said(f"Hello there, everyone! {text}") == f"User: {text}"


def test_speaker_and_day_are_named_if_they_fit() -> None:
    text = "Hello! Thank you so much! I live in Ghent."
    assert said(text, speaker="Maria") == "Maria lives in Ghent."
    assert said(text, speaker="Maria", time="2025-03-01T10:00:00Z") == "2025-03-01: Maria lives in Ghent."
    assert summarise_message(RawMessage(1, "user", text), "# Participants\n- Maria – user") == "Maria lives in Ghent."
    assert said("Great question! Your flight leaves at 9:40.", "assistant") == "Assistant: Your flight leaves at 9:40."
    assert said('{"ok": true}', "tool") == '{"ok": true}'


def test_only_raw_messages_can_be_summarised() -> None:
    summary = said("I live in Ghent.")
    with pytest.raises(TypeError, match="summary"):
        summarise_message(summary)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="summary"):
        summarise_message(RawMessage(1, "user", summary))
    with pytest.raises(TypeError, match="str"):
        summarise_message("I live in Ghent.")  # type: ignore[arg-type]


def test_summary_keeps_names_dates_and_numbers() -> None:
    """Of all that the messages about two topics name, by a list made by hand, 95 % are in their summaries."""
    wanted = [(name, said(text)) for text, names in MESSAGES for name in names]
    lost = [(name, summary) for name, summary in wanted if name not in summary]
    assert len(MESSAGES) == 60
    assert len(lost) <= len(wanted) * 0.05, lost
    assert sum(len(facts_in(text)) for text, _ in MESSAGES) > len(MESSAGES), "the messages name things"
