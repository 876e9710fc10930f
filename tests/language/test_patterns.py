"""Patterns that are compiled late: all can be, and they do what compiled ones do."""

import gc
import re
from importlib import import_module
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.language import statements
from ctxwrap.language.patterns import _Lazy, folded, has_any, lazy_pattern

ROOT = Path(ctxwrap.__file__).parent


def test_every_pattern_can_be_compiled() -> None:
    for path in (*ROOT.glob("language/**/*.py"), *ROOT.glob("protocol/**/*.py"), ROOT / "tokens" / "too_long.py"):
        import_module(".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"))
    patterns = [each for each in gc.get_objects() if type(each) is _Lazy]
    assert len(patterns) > 200
    for pattern in patterns:
        re.compile(pattern.pattern, pattern._flags)


def test_a_lazy_pattern_behaves_like_a_compiled_one() -> None:
    late, compiled = lazy_pattern("(?P<word>b+)", re.IGNORECASE), re.compile("(?P<word>b+)", re.IGNORECASE)
    for text in ("aBb", "", "b"):
        assert str(late.search(text)) == str(compiled.search(text))
        assert late.sub("-", text) == compiled.sub("-", text)
    assert (late.pattern, late.groupindex) == (compiled.pattern, compiled.groupindex)


HINTED = (
    (statements._FICTION, statements._FICTION_HINTS, statements._FICTION_BIT),
    (statements._REWORK, statements._REWORK_HINTS, statements._REWORK_BIT),
    (statements._INVENTED, statements._INVENTED_HINTS, statements._INVENTED_BIT),
    (statements._INTRODUCED, statements._INTRODUCED_HINTS, statements._INTRODUCED_BIT),
)


@given(st.data())
def test_a_text_that_matches_a_pattern_has_one_of_its_hints(data: st.DataObject) -> None:
    late, hints, bit = data.draw(st.sampled_from(HINTED))
    pattern = re.compile(late.pattern, re.IGNORECASE)
    text = data.draw(st.text(max_size=5)) + data.draw(st.from_regex(pattern))
    for spelling in (text, text.replace("i", "\u0131"), text.replace("s", "\u017f"), text.upper()):
        if pattern.search(spelling):
            assert has_any(folded(spelling), hints)
            assert statements._HINTS.of(spelling) & bit, "a word of it hints at the pattern"


@given(
    st.lists(
        st.sampled_from(["You ARE", "let's say", "_", "-", "Jk", "x" * 40, "改成英文", " ", "ﬁx", "İ"]), max_size=9
    )
)
def test_a_hint_in_a_text_is_a_hint_of_one_of_its_words(pieces: list[str]) -> None:
    text = "".join(pieces)
    for _, hints, bit in HINTED:
        assert not has_any(folded(text), hints) or statements._HINTS.of(text) & bit


@given(st.from_regex(re.compile(statements._INTRODUCED.pattern, re.IGNORECASE), fullmatch=True))
def test_an_introduction_is_not_longer_than_what_is_read_before_a_colon(text: str) -> None:
    assert len(text) <= statements._LONGEST_INTRODUCTION


@given(st.lists(st.sampled_from(["write ", "a story", "x" * 30, ": ", "：", ":7", "写", ". ", "\n"]), max_size=12))
def test_a_text_is_invented_from_its_first_invention_or_introduction_on(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = (statements._INVENTED.search(text), statements._INTRODUCED.search(text))
    first = min((each.start() for each in found if each), default=None)
    assert statements._start_of_invention(text, folded(text), statements._HINTS.of(text)) == first


@given(st.text(max_size=5), st.from_regex(re.compile(statements._LETTER.pattern, re.IGNORECASE)), st.text(max_size=5))
def test_a_line_is_part_of_a_letter_only_from_its_beginning(before: str, letter: str, after: str) -> None:
    for line in (before + letter + after, letter, before):
        line = line.replace("\n", " ")
        assert bool(statements._LETTER.match(line)) == bool(statements._LETTER.search(line))
