"""Reading takes time in proportion to the text, whatever stands in it."""

import json
from collections.abc import Callable

import pytest

from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.protocol.recovery import recover
from ctxwrap.protocol.repair.steps import MAX_DAMAGED
from ctxwrap.protocol.reply import ReplyStream, read_reply
from tests.growth import grows_too_fast

ITEM = '{"id":"a","type":"fact","decay":0.5,"round":1,"tags":["x"],"content":"c"}'
HEAD = '{"version":"2.2","runtime":{"round":1,"datetime":"","startup_at":""},"memory":{"core":['
END = '],"working":[],"ephemeral":[]},"capabilities":[],"active_task":""}'
LINES = "## core\n" + "id: a\ncontent: b\n" * 6


def repeated(part: str, before: str = HEAD, after: str = "") -> Callable[[int], str]:
    return lambda size: before + part * (size // len(part)) + after


def numbered(part: str, before: str = HEAD, after: str = "") -> Callable[[int], str]:
    return lambda size: before + "".join(part.replace("#", str(at)) for at in range(size // len(part))) + after


FAMILIES: dict[str, Callable[[int], str]] = {
    "escaped quotes": repeated('\\"'),
    "escaped quotes alone": repeated('\\"', ""),
    "escaped keys": repeated('\\"id\\"', ""),
    "quotes": repeated('"'),
    "backslashes": repeated("\\", HEAD + '{"id":"'),
    "braces": repeated("{", ""),
    "brackets": repeated("["),
    "blanks": repeated(" ", '{"version"', "x"),
    "quotes and blanks": repeated('" '),
    "comments that never end": repeated("/*"),
    "comments": repeated("#\n"),
    "items cut off": repeated('{"id":"a"},'),
    "items with a word too many": repeated('{"id":"a",x},'),
    "items with half a key": repeated(ITEM.replace('"type"', 'type"') + ",", HEAD, END),
    "one wrong mark": repeated(ITEM + ",", HEAD, ITEM + ",]" + END),
    "inner quotes": repeated('x", y: ', HEAD + '{"id":"a","content":"', '"}'),
    "words without quotes": repeated('x" ', HEAD + '{"id":'),
    "triple quotes": repeated('""" ', HEAD + '{"content":"""'),
    "questions": repeated('"x", "missing": {'),
    "equal ids": numbered(ITEM.replace('"c"', '"#"') + ",", HEAD, ITEM + END),
    "entities": repeated("&amp;", "{&quot;id&quot;&"),
    "percent signs": repeated("%25", "%22id%22"),
    "base64": repeated("A", "eyJ"),
    "doubled quotes": repeated('"', '""id""'),
    "prefixes": repeated("> {\n", ""),
    "colours": repeated("\x1b[", ""),
    "YAML": repeated("  - id: a\n    content: b\n", "version: 2.2\nmemory:\n core:\n"),
    "elements": repeated("<core>", "<memory>"),
    "comments of markup": repeated("<!--", "<memory>"),
    "attributes": repeated('a="b" ', "<memory><core "),
    "sections": repeated('[[memory.core]]\nid = "a"\ncontent = "b"\n', "[memory]\n"),
    "paths": numbered('memory.core.#.id = "a"\n', ""),
    "cells": repeated("| a | b |\n", "## core\n| id | content |\n|--|--|\n"),
    "emphasis": repeated("*", LINES),
    "calls": repeated("S(", ""),
    "single quotes": repeated("{'id': 'a', 'content': 'b'}, ", "{'memory': {'core': ["),
    "numbers": repeated("1,", HEAD + '{"id":"a","decay":'),
    "wrappings": repeated('{"memory":', ""),
    "objects in a row": repeated('{"b":1},', '{"a":' * 20),
    "several objects": repeated('{"tier":"core","id":"a"}\n', ""),
    "zeros": repeated("0", "<<<\n", "}"),
    "lines that are empty behind an object": repeated("\n", "{" + ITEM + "}", "x"),
    "lines of a prefix behind an object": repeated("```\n-", "{" + ITEM + "}", "a.b@}" * 20),
    "values without quotes": repeated("memory:\n", "{" + ITEM),
    "escaped quotes in a string without an end": repeated(
        '\\"', "<<<CONTEXT>>>\n" + HEAD, END + "<<<CONTEXT>>>\n" + HEAD
    ),
    "letters": repeated("x", "<<<\n", "}"),
    "soft line ends": repeated("=22=\n", ""),
}
SIZE = 12_000


@pytest.mark.parametrize("name", FAMILIES)
def test_reading_time_grows_linearly_with_the_text(name: str) -> None:
    recover("{'memory': 1}", None, None)  # what is imported on demand is imported now
    assert not grows_too_fast(lambda text: recover(text, None, None), FAMILIES[name], SIZE)


def test_damaged_text_beyond_its_limit_is_rejected_at_once() -> None:
    text = HEAD + (ITEM + ",") * (2 * MAX_DAMAGED // len(ITEM))
    read = recover(text, None, None)
    assert read.status == "rejected"
    assert read.violations == ("unreadable: it is damaged, and too long to be mended",)


def test_thousands_of_equal_ids_become_unique() -> None:
    items = [{"id": "a-1", "type": "t", "decay": 0.5, "round": 1, "tags": [], "content": str(at)} for at in range(700)]
    state = {"version": "2.2", "memory": {"core": items, "working": [], "ephemeral": []}}
    read = recover(json.dumps(state), None, None)
    assert read.snapshot is not None
    assert [item["id"] for item in read.snapshot["memory"]["core"]] == [f"a-{at}" for at in range(1, 701)]


DEAR = HEAD + '{"id":"a",content: x, ' * 2_500


def test_repair_stops_at_its_work_limit() -> None:
    read = recover(DEAR, None, None)
    assert read.status == "rejected"
    assert read.violations == ("unreadable: it is damaged, and mending it takes too long",)


def test_snapshots_of_a_reply_share_one_repair_limit_and_valid_ones_use_none() -> None:
    sound = f"{SEPARATOR}\n{HEAD}{ITEM}{END}"
    damaged = f"{SEPARATOR}\n{DEAR}\n\n"
    assert read_reply(damaged * 4 + sound).status == "clean"
    small = f'{SEPARATOR}\n{{"version":"2.2","memory":{{"core":[{ITEM},]}}}}\n\nHi.\n\n'
    assert read_reply(small).status == "repaired"
    stream = ReplyStream()
    stream.feed("\n")
    assert stream._snapshots is not None
    stream._snapshots._effort.left = 0
    stream.feed(small)
    assert stream.reading.status == "rejected"
