"""docs/frameworks.md has a recipe and a row for each framework that tests/frameworks.py runs, and no other."""

import re

from tests.framework_recipes.conftest import PAGE, blocks
from tests.frameworks import FRAMEWORKS, ROOT, TESTS

HEADINGS = {framework.heading for framework in FRAMEWORKS}
GENERAL = {"Calls beside the conversation", "Calls that miss the wrapped client", "What was run"}


def test_every_recipe_has_a_test() -> None:
    assert set(re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)) == HEADINGS | GENERAL
    for framework in FRAMEWORKS:
        assert any(blocks(framework.heading, language) for language in ("python", "bash", "js")), framework.heading
        test = (ROOT / TESTS / framework.test).read_text()
        assert f'"{framework.heading}"' in test, framework.heading


def test_every_framework_has_its_row() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \| \d+ passed \| \d{4}-\d\d-\d\d \|$", PAGE.read_text(), re.MULTILINE
    )
    assert [heading for heading, _ in rows] == [framework.heading for framework in FRAMEWORKS]
    assert all(
        version.split()[0] == framework.package for (_, version), framework in zip(rows, FRAMEWORKS, strict=True)
    )
