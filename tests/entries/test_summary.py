"""Summaries: short enough whatever is said, in the third person where that is certain, with the facts in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.entries.raw import Raw, Summary
from ctxwrap.entries.summary import LONGEST, fitted, summary_of
from ctxwrap.entries.telling import facts_in
from tests.entries.messages import MESSAGES

texts = st.text(max_size=1500) | st.lists(
    st.sampled_from(
        ["Hello! ", "We met Maria on 3 May 2025. ", "It was nice and rather long. ", "Order A-77 costs 12 EUR. "]
    )
    | st.text(max_size=30),
    max_size=80,
).map("".join)
raws = st.builds(
    Raw, st.integers(), st.sampled_from(["user", "assistant", "tool", "x"]), texts, speaker=st.text(max_size=90)
)


def said(text: str, role: str = "user", **more: str) -> str:
    return summary_of(Raw(1, role, text, **more))


@given(raws, st.text(max_size=200))
def test_no_summary_is_too_long_or_empty_or_different_the_next_time(raw: Raw, document: str) -> None:
    summary = summary_of(raw, document)
    assert 0 < len(summary) <= LONGEST
    assert isinstance(summary, Summary)
    assert summary == summary_of(raw, document)
    assert "\n" not in summary


@given(texts)
def test_what_fits_stays_and_what_is_fitted_fits(text: str) -> None:
    short = fitted(text)
    assert len(short) <= LONGEST
    assert fitted(short) == short
    if len(text) <= LONGEST:
        assert short == text
    else:
        same = " ".join(text.split()) == short
        assert same or short.endswith("…")


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
def test_the_ellipsis_stands_for_what_was_removed_only(telling: int, dull: int, filler: int) -> None:
    told = [f"Paul left Rome on 3 May 20{n:02}." for n in range(telling)]
    told += [f"It was all {'rather ' * n}boring then." for n in range(dull)]
    text = " ".join(["Hm, well."] * filler + told)
    assert fitted(text).endswith("…") == (len(text) > LONGEST)
    summary = said(text)
    assert summary.endswith("…") == any(sentence not in summary.replace("that it", "that It") for sentence in told)
    if len(" ".join(told)) <= LONGEST - 20:
        assert not summary.endswith("…"), "greetings and filler do not count"


def test_what_tells_little_goes_first() -> None:
    dull = "It was a long day and nobody knew what to make of it. " * 9
    short = fitted(f"Hello there! {dull}Maria Jansen signed contract A-4471 on 17 Aug 2025. {dull}")
    assert "Maria Jansen signed contract A-4471 on 17 Aug 2025" in short
    assert "Hello" not in short
    assert short.endswith("…")


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            "Hi Sam, our Q3 launch date moved to 17 Aug 2025. Please update the tracker.",
            "User told Sam that their Q3 launch date moved to 17 Aug 2025 and asked Sam to update the tracker.",
        ),
        ("Hello! I'm vegan. Thanks!", "User stated: They're vegan."),
        ("I was born in Ghent in 1984.", "User stated that they were born in Ghent in 1984."),
        ("Could you please send me the report?", "User asked the assistant to send them the report."),
        ("Please don't call my boss.", "User asked the assistant not to call their boss."),
        ("When does my train leave?", "User asked: When does my train leave?"),
        ("Yes.", "User stated: Yes."),
        ("Thanks!", "User said: Thanks!"),
        ("", "User sent a message without words."),
        ("Unser Start ist am 3. Mai.", "User stated: Unser Start ist am 3. Mai."),
        ("你好！我叫小明。", "User stated: 我叫小明。"),
    ],
)
def test_a_message_is_told_by_somebody_else(text: str, summary: str) -> None:
    assert said(text) == summary


@pytest.mark.parametrize(
    "text",
    [
        "I told them that they were late.",
        'He wrote "I am late" to me.',
        "World War I began before I was born and was long.",
        "I think we should go.",
    ],
)
def test_a_sentence_stays_as_it_is_where_they_could_be_somebody_else(text: str) -> None:
    assert said(text) == f"User stated: {text}"


def test_who_speaks_is_named() -> None:
    assert said("I live in Ghent.", speaker="Maria") == "Maria stated that they live in Ghent."
    assert summary_of(Raw(1, "user", "I live in Ghent."), "# Entities\n- Maria – user").startswith("Maria stated")
    assert (
        said("Your flight leaves at 9:40.", "assistant") == "Assistant answered that the user's flight leaves at 9:40."
    )
    assert said("You should go at 8.", "assistant") == "Assistant answered that the user should go at 8."
    assert said('{"ok": true}', "tool") == 'Tool returned: {"ok": true}'


def test_nothing_but_a_raw_message_has_a_summary() -> None:
    summary = said("I live in Ghent.")
    with pytest.raises(TypeError, match="summary"):
        summary_of(summary)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="summary"):
        summary_of(Raw(1, "user", summary))
    with pytest.raises(TypeError, match="str"):
        summary_of("I live in Ghent.")  # type: ignore[arg-type]


def test_names_dates_and_numbers_survive() -> None:
    """Of all that the messages about two topics name, by a list made by hand, 95 % are in their summaries."""
    wanted = [(name, said(text)) for text, names in MESSAGES for name in names]
    lost = [(name, summary) for name, summary in wanted if name not in summary]
    assert len(MESSAGES) == 60
    assert len(lost) <= len(wanted) * 0.05, lost
    assert sum(len(facts_in(text)) for text, _ in MESSAGES) > len(MESSAGES), "the messages name things"
