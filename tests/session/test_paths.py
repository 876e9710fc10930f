"""Paths that a text names: rather none than a wrong one."""

import pytest

from ctxwrap.session.extract import paths_in

TEXTS = {
    "The draft is /work/DESIGN.md, please look at it.": ["/work/DESIGN.md"],
    "LAB/DESIGN.md: current design draft": ["LAB/DESIGN.md"],
    "See (docs/x.rst) and `./src/a.py`.": ["docs/x.rst", "src/a.py"],
    "Read https://example.com/spec.html!": ["https://example.com/spec.html"],
    "DESIGN.md is an index": ["DESIGN.md"],
    "It is in /etc/hosts": ["/etc/hosts"],
    "and/or, 1/2, he/she, e.g. version 1.2 of example.com": [],
    "../../etc/passwd and /a/../b.py and ./.": [],
    "/help": [],
    "": [],
}


@pytest.mark.parametrize("text", TEXTS)
def test_paths_are_found_in_a_text(text: str) -> None:
    assert list(paths_in(text)) == TEXTS[text]
