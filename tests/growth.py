"""Growth: how much longer work takes on twice the text, and how long it takes by the pace of the machine."""

import random
import re
import time
from collections.abc import Callable

FLOOR = 0.012
"""Seconds below which a measurement says nothing."""
MOST = 2.5
"""What twice the text may take, as a multiple."""


def seconds(work: Callable[[], object], enough: float = FLOOR) -> float:
    """The CPU time of some work, the best of several runs, or the first that is good enough."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
        if best < enough:
            break
    return best


def grows_too_fast(work: Callable[[str], object], text: Callable[[int], str], size: int) -> bool:
    """Whether twice the text takes more than about twice the time; a doubtful measurement is repeated."""
    half, whole = text(size), text(2 * size)
    for _ in range(3):
        two = seconds(lambda: work(whole))
        if two <= MOST * FLOOR or two <= MOST * max(seconds(lambda: work(half)), FLOOR):
            return False
    return True


_WORK = 'word, "key": {1.5} ' * 1000
_SECONDS = 0.00275
"""What the fixed work takes on the machine on which the limits were set."""


def pace() -> float:
    """How many times longer than there anything takes here and now, by some fixed work."""
    return min(seconds(lambda: re.sub(r"\w+|\W", lambda token: token[0], _WORK), 0) for _ in range(2)) / _SECONDS


def is_too_dear(work: Callable[[], object], most: float) -> bool:
    """Whether it takes more seconds than that, by the machine's pace; a doubtful measurement is repeated."""
    return all(seconds(work, most) > most * pace() for _ in range(3))


_ITEM = '{"id":"a","type":"fact","decay":0.5,"round":1,"tags":["x"],"content":"c"}'
_HEAD = '{"version":"2.2","runtime":{"round":1,"datetime":"","startup_at":""},"memory":{"core":['
_END = '],"working":[],"ephemeral":[]},"capabilities":[],"active_task":""}'
_SEPARATOR = "<<<CONTEXT>>>\n"
_HEADS = ("", "{", _HEAD, "{" + _ITEM, _HEAD + _ITEM + ",", _SEPARATOR, _SEPARATOR + _HEAD)
_ENDS = ("", "}", _END, _ITEM + _END)
_PIECES = (
    *(
        "<",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        "'",
        "\\",
        "`",
        "=",
        "-",
        "+",
        ".",
        ",",
        ":",
        "#",
        "0",
        "1",
        "x",
        " ",
        "\n",
    ),
    *(
        '\\"',
        '""',
        "“",
        "”",
        "’",
        "＂",
        "…",
        "...",
        "//",
        "/*",
        "*/",
        "=>",
        "\r\n",
        "\\n",
        "\\u0022",
        "\u200b",
        "é",
        "🇦",
        "我",
    ),
    *(_ITEM, _ITEM[:-1], _ITEM + ",", _HEAD, _END, '"id":', '"a":1', '"content":"', '"tags":["x" "y",', '+ "b"'),
    *(
        '"working":[',
        '"active_task":"x"',
        '"missing":[',
        '"working_set":[',
        '"version":"2.2",',
        '"runtime":{"round":3},',
    ),
    *(
        '\\"id\\":',
        '""id""',
        "&quot;id&quot;",
        "%22id%22",
        "'id': 'a', ",
        "eyJ",
        "=22=\n",
        "\x1b[0m",
        "ｍｅｍｏｒｙ",
        "> ",
    ),
    *("id: a\n", "memory:\n", "## core\n", "| a ", "- a: ", "[[memory.core]]\n", 'memory.core.1.id = "a"\n', "S("),
    *(
        "<core>",
        "</core>",
        "<item id='a'>",
        "<context>{",
        "[[context]]{",
        "\nCONTEXT",
        "＜context＞",
        "&amp;lt;",
        "<!--",
    ),
    *(_SEPARATOR, "<<<CONTEXT", "```\n", "```json\n", "---\n", "\n\nHi.\n\n", '\n{"version":"2.2","memory":'),
)


def hostile(seed: int) -> Callable[[int], str]:
    """A family of texts, by their size, of pieces that are dear to read: up to three of them repeated, in blocks."""
    chance = random.Random(seed)
    head, end, blocks = chance.choice(_HEADS), chance.choice(_ENDS), chance.choice((1, 1, 2, 4, 8, 16, 64))
    units = ["".join(chance.choices(_PIECES, k=chance.choice((1, 1, 2, 3, 4)))) for _ in range(chance.randint(1, 3))]

    def text(size: int) -> str:
        each = max(size // blocks - len(head) - len(end), 1) // len(units)
        body = "".join(unit * max(each // len(unit), 1) for unit in units)
        return ((head + body + end) * blocks)[:size]

    return text
