"""The state in other renderings: encoded as a whole, in other notations, and with its memory arranged otherwise.

Each function gives the text that follows the separator. A class names what its notation cannot carry, and such contents
are replaced before.
"""

import base64
import copy
import html
import json
import random
import re
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from tests.protocol.corpus import _state
from tests.protocol.damage import PLAIN, TIERS

State = dict[str, Any]
Render = Callable[[State, random.Random], str]


class Rendering(NamedTuple):
    """A way to write the state."""

    render: Render
    harmful: str = ""
    """The contents that it cannot carry, as a regular expression."""
    planted: Sequence[str] = ()
    """Contents of which one memory gets one."""
    typed: bool = True
    """It tells numbers and texts apart, so that unknown fields keep their types."""


Table = dict[str, Rendering]
CLASSES: Table = {}


def rendering(
    harmful: str = "", planted: Sequence[str] = (), typed: bool = True, table: Table = CLASSES
) -> Callable[[Render], Render]:
    def add(render: Render) -> Render:
        table[render.__name__] = Rendering(render, harmful, planted, typed)
        return render

    return add


def rendered(name: str, seed: int, table: Table = CLASSES) -> tuple[State, str]:
    """A state, and how it came."""
    rng = random.Random(f"{name}:{seed}")
    kind = table[name]
    state = _state(rng)
    for item in items_of(state):
        if kind.harmful and re.search(kind.harmful, item["content"]):
            item["content"] = rng.choice([text for text in PLAIN if not re.search(kind.harmful, text)])
        if not kind.typed:
            for key in ("source", "pinned", "expires"):
                item.pop(key, None)
    if kind.planted:
        rng.choice(items_of(state))["content"] = rng.choice(kind.planted)
    return state, kind.render(copy.deepcopy(state), rng)


def items_of(state: State) -> list[dict[str, Any]]:
    return [item for tier in TIERS for item in state["memory"][tier]]


def written(state: Any, rng: random.Random) -> str:
    return json.dumps(state, ensure_ascii=rng.random() < 0.2, indent=rng.choice((None, None, 2, 4)))


# the whole is encoded


@rendering()
def escaped_once(state: State, rng: random.Random) -> str:
    return json.dumps(written(state, rng), ensure_ascii=False)[1:-1]


@rendering()
def escaped_twice(state: State, rng: random.Random) -> str:
    return json.dumps(escaped_once(state, rng), ensure_ascii=False)[1:-1]


@rendering(r"\\")
def quotes_escaped_only(state: State, rng: random.Random) -> str:
    return written(state, rng).replace('"', '\\"')


@rendering()
def json_string(state: State, rng: random.Random) -> str:
    return json.dumps(written(state, rng), ensure_ascii=rng.random() < 0.5)


@rendering()
def json_string_twice(state: State, rng: random.Random) -> str:
    return json.dumps(json_string(state, rng))


@rendering()
def python_string(state: State, rng: random.Random) -> str:
    return repr(written(state, rng))


@rendering()
def csv_doubled(state: State, rng: random.Random) -> str:
    text = written(state, rng).replace('"', '""')
    return f'"{text}"' if rng.random() < 0.5 else text


@rendering()
def entities(state: State, rng: random.Random) -> str:
    return html.escape(written(state, rng))


@rendering()
def entities_twice(state: State, rng: random.Random) -> str:
    return html.escape(html.escape(written(state, rng)))


@rendering("&")
def entities_of_quotes(state: State, rng: random.Random) -> str:
    return written(state, rng).replace('"', rng.choice(("&quot;", "&#34;", "&#x22;", "&QUOT;")))


@rendering()
def percent_encoded(state: State, rng: random.Random) -> str:
    encode = rng.choice((urllib.parse.quote, urllib.parse.quote_plus))
    return encode(written(state, rng))


@rendering()
def base64_encoded(state: State, rng: random.Random) -> str:
    data = written(state, rng).encode()
    if rng.random() < 0.3:
        return base64.encodebytes(data).decode()
    return rng.choice((base64.b64encode, base64.urlsafe_b64encode))(data).decode()


@rendering()
def line_prefix(state: State, rng: random.Random) -> str:
    lines = json.dumps(state, ensure_ascii=False, indent=2).split("\n")
    prefix = rng.choice(("> ", "| ", "// ", "# ", "* ", "-- ", "; ", "[log] ", ">> ", "  |"))
    return "\n".join(prefix + line for line in lines)


@rendering()
def line_numbers(state: State, rng: random.Random) -> str:
    lines = json.dumps(state, ensure_ascii=False, indent=2).split("\n")
    form = rng.choice(("{}: {}", "{:>4} {}", "{:03} | {}", "{}. {}", "{}\t{}", "L{}: {}", "{:>5}→{}"))
    first = rng.choice((1, 1, 12))
    return "\n".join(form.format(at, line) for at, line in enumerate(lines, first))


@rendering()
def ansi_colours(state: State, rng: random.Random) -> str:
    text = json.dumps(state, ensure_ascii=False, indent=2)
    return re.sub(r'(?m)^(\s*)("[a-z_]+")', "\\1\x1b[1;34m\\2\x1b[0m", text) + "\x1b[0m"


@rendering()
def text_around(state: State, rng: random.Random) -> str:
    before, after = rng.choice(
        (
            ("const state = ", ";"),
            ("state = ", ""),
            ("(", ")"),
            ("callback(", ");"),
            ("export default ", ";\n"),
            ("return ", ";"),
            ("=> ", " <="),
            ("<![CDATA[", "]]>"),
            ("Updated memory → ", " (end)"),
            ("/* state */ ", " /* end */"),
            ('<script type="application/json">', "</script>"),
            ("data: ", "\n\n"),
        )
    )
    return before + written(state, rng) + after


# what stands in it


def _with_decay(state: State, rng: random.Random, change: Callable[[str], str]) -> str:
    text = json.dumps(state, ensure_ascii=False)
    return re.sub(r'(?<="decay": )[\d.]+|(?<="round": )\d+', lambda match: change(match[0]), text)


@rendering('"decay"|"round"')
def wide_digits(state: State, rng: random.Random) -> str:
    dot = rng.choice(".．")
    digits = rng.choice(("０１２３４５６７８９", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९"))
    return _with_decay(
        state, rng, lambda text: text.translate({48 + at: digit for at, digit in enumerate(digits)} | {46: dot})
    )


@rendering('"decay"|"round"')
def written_digits(state: State, rng: random.Random) -> str:
    zero = rng.choice("〇零")
    quote = rng.choice(('"', ""))

    def change(text: str) -> str:
        if "." in text:
            whole, _, rest = text.partition(".")
            return (
                quote
                + _hanzi(int(whole), zero)
                + "点"
                + "".join((zero + "一二三四五六七八九")[int(d)] for d in rest)
                + quote
            )
        return quote + _hanzi(int(text), zero) + quote

    return _with_decay(state, rng, change)


def _hanzi(number: int, zero: str) -> str:
    digits = zero + "一二三四五六七八九"
    tens, ones = divmod(number, 10)
    if not tens:
        return digits[ones]
    return (digits[tens] if tens > 1 else "") + "十" + (digits[ones] if ones else "")


@rendering()
def cjk_commas_in_tags(state: State, rng: random.Random) -> str:
    comma = rng.choice(("、", "，"))
    if rng.random() < 0.5:
        data: Any = copy.deepcopy(state)
        for item in items_of(data):
            item["tags"] = comma.join(item["tags"])
        return json.dumps(data, ensure_ascii=False)
    text = json.dumps(state, ensure_ascii=False)
    return re.sub(r'(?<="tags": \[)[^\]]+(?=\], "content")', lambda tags: tags[0].replace('", "', f'"{comma}"'), text)


CODE = (
    'print("hello, world")',
    'x = {"a": 1, "b": [2, 3]}; print(x["a"])',
    'curl -H "Accept: */*" -d \'{"q": "tea"}\' host',
    'SELECT "name", "age" FROM "users" WHERE "id" = 7;',
    'if (s == "}") { return "]"; }',
    "console.log(`${a}`, \"b\", 'c')",
    'grep -n "foo" *.py | sed "s/a/b/"',
    'f("a", key="b", other="c")',
    '<a href="x" title="y">z</a>',
    '["one", "two"].join(", ")',
    'd = dict(id="n1", type="t")',
    'say "yes", "no" or "maybe"',
)


@rendering(planted=CODE)
def code_with_quotes(state: State, rng: random.Random) -> str:
    text = json.dumps(state, ensure_ascii=False, indent=rng.choice((None, 2)))
    for code in CODE:
        text = text.replace(json.dumps(code), f'"{code}"')
    return text


# other notations


@rendering()
def python_repr(state: State, rng: random.Random) -> str:
    return repr(state)


@rendering()
def js_object(state: State, rng: random.Random) -> str:
    quote = rng.choice("'\"")

    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {write(item)}" for key, item in value.items()) + rng.choice((",", "")) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        if isinstance(value, str):
            body = json.dumps(value, ensure_ascii=False)[1:-1]
            return (
                f"'{body.replace(chr(92) + chr(34), chr(34)).replace(chr(39), chr(92) + chr(39))}'"
                if quote == "'"
                else f'"{body}"'
            )
        return json.dumps(value)

    return write(state)


@rendering()
def other_key_marks(state: State, rng: random.Random) -> str:
    mark = rng.choice((" = ", " => ", "=", " -> ", " := ", " ：", "=>"))
    key = rng.choice(("{}", '"{}"', "'{}'", ":{}" if "=>" in mark else "{}"))

    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key.format(name)}{mark}{write(item)}" for name, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return json.dumps(value, ensure_ascii=False)

    return write(state)


@rendering()
def class_repr(state: State, rng: random.Random) -> str:
    def write(value: Any, name: str) -> str:
        if isinstance(value, dict):
            return f"{name}(" + ", ".join(f"{key}={write(item, key.title())}" for key, item in value.items()) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(write(item, "Item") for item in value) + "]"
        return repr(value)

    return write(state, "Snapshot")


@rendering(r"[\x00-\x08\x0b-\x1f]|^\s|\s$|\r", typed=False)
def xml(state: State, rng: random.Random) -> str:
    def write(name: str, value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield f"<{name}>"
            for key, item in value.items():
                yield from write(key, item)
            yield f"</{name}>"
        elif isinstance(value, list):
            yield f"<{name}>"
            for item in value:
                yield from write("tag" if name == "tags" else "item", item)
            yield f"</{name}>"
        elif value is None:
            yield f"<{name}/>"
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            yield f"<{name}>{escape(text)}</{name}>"

    return rng.choice(("\n", "")).join(write("snapshot", state))


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@rendering()
def toml(state: State, rng: random.Random) -> str:
    lines = [f"version = {_toml(state['version'])}", f"active_task = {_toml(state['active_task'])}", "", "[runtime]"]
    lines += [f"{key} = {_toml(value)}" for key, value in state["runtime"].items()]
    for tier in TIERS:
        for item in state["memory"][tier]:
            lines += ["", f"[[memory.{tier}]]", *(f"{key} = {_toml(value)}" for key, value in item.items())]
    for entry in state["capabilities"]:
        lines += ["", "[[capabilities]]", *(f"{key} = {_toml(value)}" for key, value in entry.items())]
    return "\n".join(lines)


NOT_BARE = r"[\n\r\t\\\"'`#;|<>*&]|^\W|^\s|\s$|^[\d.]+$|^null$|…|\.\.\."


@rendering(NOT_BARE, typed=False)
def ini(state: State, rng: random.Random) -> str:
    mark = rng.choice((" = ", "=", ": "))
    lines = ["[context]", f"version{mark}2.2", f"active_task{mark}{state['active_task']}", "", "[runtime]"]
    lines += [f"{key}{mark}{value}" for key, value in state["runtime"].items()]
    for tier in TIERS:
        for item in state["memory"][tier]:
            pairs = {**item, "tags": ", ".join(item["tags"])}
            lines += [
                "",
                f"[memory.{tier}.{pairs.pop('id')}]",
                *(f"{key}{mark}{value}" for key, value in pairs.items()),
            ]
    for entry in state["capabilities"]:
        lines += ["", "[capabilities]", *(f"{key}{mark}{value}" for key, value in entry.items())]
    return "\n".join(lines)


@rendering(NOT_BARE, typed=False)
def markdown_table(state: State, rng: random.Random) -> str:
    lines = ["**version**: 2.2", "", "## runtime"]
    lines += [f"- {key}: {value}" for key, value in state["runtime"].items()]
    for tier in TIERS:
        lines += ["", f"## {tier}", "", "| id | type | decay | round | tags | content |", "|---|:--|--:|---|---|---|"]
        for item in state["memory"][tier]:
            lines.append(
                "| " + " | ".join(str(", ".join(v) if isinstance(v, list) else v) for v in item.values()) + " |"
            )
    lines += ["", "## capabilities", "", "| name | scope |", "|---|---|"]
    lines += [f"| {entry['name']} | {entry['scope']} |" for entry in state["capabilities"]]
    return "\n".join([*lines, "", f"**active_task**: {state['active_task']}"])


@rendering(NOT_BARE, typed=False)
def markdown_list(state: State, rng: random.Random) -> str:
    bold = rng.choice(("{}:", "**{}**:", "**{}:**", "`{}`:"))
    lines = [f"- {bold.format('version')} 2.2", f"- {bold.format('runtime')}"]
    lines += [f"  - {bold.format(key)} {value}" for key, value in state["runtime"].items()]
    lines.append(f"- {bold.format('memory')}")
    for tier in TIERS:
        lines.append(f"  - {bold.format(tier)}")
        for item in state["memory"][tier]:
            for at, (key, value) in enumerate(item.items()):
                shown = ", ".join(value) if isinstance(value, list) else value
                lines.append(f"{'    - ' if not at else '      - '}{bold.format(key)} {shown}")
    lines.append(f"- {bold.format('capabilities')}")
    for entry in state["capabilities"]:
        lines += [f"  - {bold.format('name')} {entry['name']}", f"    - {bold.format('scope')} {entry['scope']}"]
    return "\n".join([*lines, f"- {bold.format('active_task')} {state['active_task']}"])


# the memory is arranged otherwise


@rendering()
def flat_with_tier(state: State, rng: random.Random) -> str:
    key = rng.choice(("tier", "Tier", "level", "layer"))
    front = rng.random() < 0.5
    flat = [{key: tier, **item} if front else {**item, key: tier} for tier in TIERS for item in state["memory"][tier]]
    return written({**state, "memory": flat}, rng)


@rendering()
def flat_by_id(state: State, rng: random.Random) -> str:
    flat = {
        item["id"]: {"tier": tier, **{key: value for key, value in item.items() if key != "id"}}
        for tier in TIERS
        for item in state["memory"][tier]
    }
    return written({**state, "memory": flat}, rng)


@rendering()
def tiers_at_root(state: State, rng: random.Random) -> str:
    memory = state.pop("memory")
    return written({"version": state.pop("version"), **memory, **state}, rng)


@rendering()
def items_by_id(state: State, rng: random.Random) -> str:
    state["memory"] = {tier: {item["id"]: item for item in items} for tier, items in state["memory"].items()}
    return written(state, rng)


@rendering()
def tiers_below(state: State, rng: random.Random) -> str:
    name = rng.choice(("tiers", "memory", "memories", "levels", "data"))
    state["memory"] = {name: state["memory"]}
    return written(state, rng)


@rendering()
def items_below(state: State, rng: random.Random) -> str:
    name = rng.choice(("items", "memories", "entries"))
    state["memory"] = {tier: {name: items} for tier, items in state["memory"].items()}
    return written(state, rng)


@rendering()
def list_of_tiers(state: State, rng: random.Random) -> str:
    if rng.random() < 0.5:
        state["memory"] = [{"tier": tier, "items": items} for tier, items in state["memory"].items()]
    else:
        state["memory"] = [{tier: items} for tier, items in state["memory"].items()]
    return written(state, rng)


@rendering()
def nested_root(state: State, rng: random.Random) -> str:
    inner = {key: state.pop(key) for key in ("memory", "capabilities", "active_task")}
    return written({**state, rng.choice(("state", "context", "snapshot")): inner}, rng)


NAMES = (
    ("核心", "工作", "临时"),
    ("核心记忆", "工作记忆", "短暂记忆"),
    ("核心", "工作", "暫時"),
    ("コア", "作業", "一時"),
    ("핵심", "작업", "임시"),
    ("núcleo", "trabajo", "efímero"),
    ("noyau", "travail", "éphémère"),
    ("Kern", "Arbeit", "flüchtig"),
    ("основная", "рабочая", "временная"),
    ("núcleo", "trabalho", "efêmero"),
    ("nucleo", "lavoro", "effimero"),
    ("rdzeń", "robocza", "ulotna"),
    ("kern", "werk", "vluchtig"),
    ("çekirdek", "çalışma", "geçici"),
    ("أساسي", "عمل", "مؤقت"),
)


@rendering()
def tier_names(state: State, rng: random.Random) -> str:
    names = rng.choice(NAMES)
    state["memory"] = dict(zip(names, state["memory"].values(), strict=True))
    return written(state, rng)
