"""Patterns that are compiled late: all can be, and they do what compiled ones do."""

import gc
import re
from importlib import import_module
from pathlib import Path

import ctxwrap
from ctxwrap.language.patterns import _Lazy, lazy_pattern

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
