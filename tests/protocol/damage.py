"""What models do to a trailer, one small function per class of damage, and the draft that they work on.

A reply is built in steps; each table holds the damages of one step, in the order in which they are applied. Two damages
of one table touch the same thing, so a composition takes at most one of each.
"""

import copy
import html
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

SEPARATOR = "<<<CONTEXT>>>"
TIERS = ("core", "working", "ephemeral")
PLAIN = (
    "Ana works from Lisbon on Tuesdays",
    "Invoice 4471 is paid, no reminder needed",
    "The kitchen light is a 7 W bulb (E27)",
    "部署前先跑一遍冒烟测试，结果写进周报",
    "ドキュメントは毎週木曜に更新する",
    "회의는 오전 10시, 장소는 3층",
    "Отчёт готов: ждём правок до среды",
    "الاجتماع غدا في العاشرة",
    "Étienne préfère le courrier; pas d'appel avant neuf heures",
    "Wave 👋🏾, then the family 👨‍👩‍👧‍👦 enters",
)
"""Contents that no way of quoting can harm."""

T = TypeVar("T")
Path = tuple[str | int, ...]


class Unfit(Exception):
    """The draft has nothing for this damage to work on."""


@dataclass
class Token:
    """One token of the JSON: its kind, how it is written, and where it belongs."""

    kind: str
    text: str
    path: Path
    value: Any = None
    touched: bool = False

    def write(self, text: str) -> None:
        self.text, self.touched = text, True


@dataclass
class Style:
    """How the JSON is laid out and how its strings are written."""

    indent: int | None = None
    spaced: bool = True
    ascii: bool = False
    flat_tags: bool = False
    space: str = " "
    newline: str = "\n"
    quotes: tuple[str, str] = ('"', '"')
    escape: Callable[[str], str] = str


@dataclass
class Draft:
    """A reply in the making."""

    rng: random.Random
    visible: str
    state: dict[str, Any]
    """What the reply means: the expected snapshot."""
    calm: str
    """A visible text without any separator, for damages that would make one ambiguous."""
    style: Style = field(default_factory=Style)
    data: Any = None
    """What the reply says, before it is written down."""
    previous: dict[str, Any] | None = None
    literals: dict[str, str] = field(default_factory=dict)
    """Contents that are not written as JSON would have it."""
    tokens: list[Token] = field(default_factory=list)
    encode: Callable[[str], str] = str
    text: str = ""
    lead: str = "\n\n"
    separator: str = SEPARATOR
    gap: str = "\n"
    before: str = ""
    after: str = ""
    rest: str = ""
    """What the answer says behind the JSON."""
    unclosed: bool = False
    lossless: bool = True
    policy: bool = False

    def items(self) -> list[dict[str, Any]]:
        return [item for tier in TIERS for item in self.state["memory"][tier]]

    def soothe(self, harmful: str) -> None:
        """Replace the texts that match `harmful`."""
        for item in self.items():
            if re.search(harmful, item["content"]):
                item["content"] = self.rng.choice([text for text in PLAIN if not re.search(harmful, text)])

    def plant(self, contents: Sequence[str], write: Callable[[str], str]) -> None:
        """Give up to four memories one of `contents`, written as `write` has it."""
        for item in some(self, self.items()):
            item["content"] = self.rng.choice(contents)
            self.literals[item["content"]] = write(item["content"])

    def wrap(self, before: str, after: str) -> None:
        if self.unclosed:
            raise Unfit("nothing shows where the JSON ends")
        self.before, self.after = before + self.before, self.after + after

    def quote(self, text: str) -> str:
        body = json.dumps(text, ensure_ascii=self.style.ascii)[1:-1]
        return self.style.quotes[0] + self.style.escape(body) + self.style.quotes[1]

    def tokenise(self) -> None:
        self.tokens = list(_tokens(self, self.data, ()))

    @property
    def reply(self) -> str:
        return f"{self.visible}{self.lead}{self.separator}{self.gap}{self.before}{self.text}{self.after}{self.rest}"


Damage = Callable[[Draft], None]
STRINGS: list[Damage] = []
ENCODINGS: list[Damage] = []
SCHEMA: list[Damage] = []
STRUCTURE: list[Damage] = []
VALUES: list[Damage] = []
NOISE: list[Damage] = []
TRUNCATIONS: list[Damage] = []
WRAPS: list[Damage] = []
SEPARATORS: list[Damage] = []

BEFORE_DATA = (STRINGS, ENCODINGS)
BEFORE_TOKENS = (SCHEMA,)
BEFORE_TEXT = (STRUCTURE, VALUES, NOISE, TRUNCATIONS)
BEFORE_REPLY = (WRAPS, SEPARATORS)
TABLES = (*BEFORE_DATA, *BEFORE_TOKENS, *BEFORE_TEXT, *BEFORE_REPLY)

ALONE = {
    "single_quotes_naive",
    "wrapped_root",
    "ellipsis_placeholder",
    "missing_closer_mid",
    "sep_bracket_variant",
    "sep_inside_fence",
    "sep_missing",
    "draft_then_final",
}
"""Beside the encodings and truncations, what leaves no sound reading when something else is broken, too."""


def apply(draft: Draft, damages: Sequence[Damage]) -> None:
    """Take `draft` through all steps, with `damages` in theirs."""

    def step(*tables: list[Damage]) -> None:
        for damage in (each for table in tables for each in table if each in damages):
            damage(draft)

    step(*BEFORE_DATA)
    draft.data = copy.deepcopy(draft.state)
    step(*BEFORE_TOKENS)
    draft.tokenise()
    step(*BEFORE_TEXT)
    draft.text = draft.encode(layout(draft.tokens, draft.style))
    step(*BEFORE_REPLY)


def _tokens(draft: Draft, value: Any, path: Path) -> Iterator[Token]:
    if isinstance(value, (dict, list)):
        opener, closer = "{}" if isinstance(value, dict) else "[]"
        yield Token(opener, opener, path)
        for at, key in enumerate(value if isinstance(value, dict) else range(len(value))):
            if at:
                yield Token(",", ",", path)
            if isinstance(value, dict):
                yield Token("key", draft.quote(key), (*path, key), key)
                yield Token(":", ":", path)
            yield from _tokens(draft, value[key], (*path, key))
        yield Token(closer, closer, path)
    elif isinstance(value, str):
        planted = value in draft.literals and path[-1:] == ("content",)
        yield Token("string", draft.literals[value] if planted else draft.quote(value), path, value, planted)
    else:
        kind = "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else "literal"
        yield Token(kind, json.dumps(value), path, value)


def layout(tokens: Sequence[Token], style: Style) -> str:
    """The tokens as one text, with the white space of `style` between them."""
    following: list[Token | None] = [*tokens[1:], None]
    return "".join(token.text + _gap(token, after, style) for token, after in zip(tokens, following, strict=True))


def _gap(token: Token, after: Token | None, style: Style) -> str:
    opens, closes = token.kind in "{[", after is not None and after.kind in "}]"
    if after is None or (opens and closes):
        return ""
    if token.kind == ":":
        return style.space if style.spaced else ""
    if not opens and not closes and token.kind != ",":
        return ""
    path = after.path if closes else token.path
    if style.indent is None or (style.flat_tags and path[-1:] == ("tags",)):
        return style.space if token.kind == "," and style.spaced else ""
    return style.newline + style.space * (style.indent * (len(path) + (not closes)))


def spots(draft: Draft, *kinds: str, where: Callable[[Token], bool] = lambda token: True) -> list[Token]:
    """The tokens of `kinds` around which nothing is damaged yet."""
    tokens = draft.tokens
    found = [
        token
        for at, token in enumerate(tokens)
        if token.kind in kinds and where(token) and not any(near.touched for near in tokens[max(0, at - 2) : at + 3])
    ]
    if not found:
        raise Unfit(f"no {kinds}")
    return found


def some(draft: Draft, things: Sequence[T], most: int = 4) -> list[T]:
    """One to `most` of `things`, in their order."""
    if not things:
        raise Unfit("nothing to choose from")
    count = draft.rng.randint(1, min(most, len(things)))
    return [things[at] for at in sorted(draft.rng.sample(range(len(things)), count))]


# how strings are written


@STRINGS.append
def single_quotes_naive(draft: Draft) -> None:
    draft.soothe(r"""["\\\n\r\t]|^'|'$|'\s*[}\]:]|',\s*['"{\[]""")
    draft.style.quotes, draft.style.ascii = ("'", "'"), False


@STRINGS.append
def single_quotes_escaped(draft: Draft) -> None:
    draft.style.quotes, draft.style.escape = ("'", "'"), lambda body: body.replace('\\"', '"').replace("'", "\\'")


@STRINGS.append
def smart_quotes(draft: Draft) -> None:
    draft.soothe("[“”]")
    draft.style.quotes = "“", "”"


@STRINGS.append
def fullwidth_quotes(draft: Draft) -> None:
    draft.soothe("＂")
    draft.style.quotes = "＂", "＂"


def _without(*marks: str) -> Callable[[str], str]:
    """As JSON, but with `marks` as they are."""

    def write(text: str) -> str:
        literal = json.dumps(text, ensure_ascii=False)[1:-1]
        for mark in marks:
            literal = literal.replace(json.dumps(mark)[1:-1], mark)
        return f'"{literal}"'

    return write


@STRINGS.append
def german_quote_ascii_close(draft: Draft) -> None:
    draft.plant(
        ('Die Chefin meinte „Passt, danke" und ging', '经理说„没问题"之后挂断', 'Ewa rzekła „dobrze" i wyszła'),
        _without('"'),
    )


@STRINGS.append
def unescaped_quote_mid(draft: Draft) -> None:
    texts = 'A 27" screen for the desk', 'Lea calls it "the attic" by now', '她回复"收到"后离线'
    draft.plant((*texts, 'marks "draft" and "final" with colours'), _without('"'))


@STRINGS.append
def unescaped_embedded_json(draft: Draft) -> None:
    texts = 'sent {"state": "on"}', 'got {"ok": true, "rows": [1, 2]} after a retry', 'sees ["x", "y"] in the log'
    draft.plant((*texts, 'body {"user": {"nick": "Bo"}, "n": 3} stays as it is'), _without('"'))


@STRINGS.append
def unescaped_html_attr(draft: Draft) -> None:
    texts = '<a class="btn" href="/go?x=1,2">Go</a>', 'shows <img alt="sun, sea" src="a.png"> twice'
    draft.plant((*texts, '<p lang="de">Hallo, "Welt"!</p>'), _without('"'))


@STRINGS.append
def unescaped_newline(draft: Draft) -> None:
    draft.plant(
        ("shopping:\n- milk\n- bread", "erst A\r\ndann B", "第一步\n\n第二步：检查", "a\tb\nc"),
        _without("\n", "\r", "\t"),
    )


@STRINGS.append
def invalid_escape_apostrophe(draft: Draft) -> None:
    texts = "it's Mia's turn, isn't it", "don't call before nine", "the 'old' key"
    draft.plant(texts, lambda text: '"' + text.replace("'", "\\'") + '"')


@STRINGS.append
def unescaped_backslash(draft: Draft) -> None:
    texts = r"D:\Music\Queen", r"pattern \d+\s*\w, then \.", r"\alpha and \sigma", r"C:\Apps\Mail\log.csv"
    draft.plant(texts, _without("\\"))


@STRINGS.append
def hex_brace_escape(draft: Draft) -> None:
    def write(text: str) -> str:
        return '"' + re.sub(r"[^\x00-\xff]", brace, re.sub(r"[\x80-\xff]", lambda c: f"\\x{ord(c[0]):02x}", text)) + '"'

    def brace(char: re.Match[str]) -> str:
        return f"\\u{{{ord(char[0]):x}}}"

    draft.plant(("für Zoë: crème brûlée", "party 🥳 tonight", "naïve 中 mix"), write)


@STRINGS.append
def triple_quotes(draft: Draft) -> None:
    quotes = draft.rng.choice(('"""', "'''"))
    texts = 'def run():\n    return "ok, done"\n# end', "一行\n两行", 'say "hi", twice', "just one line"
    draft.plant(texts, lambda text: quotes + text + quotes)


@STRINGS.append
def backtick_string(draft: Draft) -> None:
    draft.plant(('alert("hey, you") on load', 'two\nlines "here"', "纯文本", "it's {fine}"), lambda text: f"`{text}`")


@STRINGS.append
def string_concat(draft: Draft) -> None:
    def write(text: str) -> str:
        at = draft.rng.randrange(1, len(text))
        joint = draft.rng.choice((" + ", "\n      + ", " +\n      "))
        return joint.join(json.dumps(part, ensure_ascii=False) for part in (text[:at], text[at:]))

    draft.plant((*PLAIN[:9], "a + b", "path C:\\new"), write)


@STRINGS.append
def separator_in_content(draft: Draft) -> None:
    texts = f"close with {SEPARATOR}", f"Hi!\n{SEPARATOR}\n" + '{"version": "2.2", "memory": {}}', SEPARATOR
    draft.plant(texts, draft.quote)


# how the whole JSON is written


@ENCODINGS.append
def double_encoded(draft: Draft) -> None:
    ascii_only = draft.rng.random() < 0.5
    draft.encode = lambda text: json.dumps(text, ensure_ascii=ascii_only)


@ENCODINGS.append
def html_escaped_json(draft: Draft) -> None:
    draft.encode = html.escape


@ENCODINGS.append
def markdown_escaped_json(draft: Draft) -> None:
    draft.soothe(r'["\\\n\r\t]')
    draft.style.ascii = False
    draft.encode = lambda text: re.sub(r"([_\[\]#*])", r"\\\1", text)


@ENCODINGS.append
def blockquote_lines(draft: Draft) -> None:
    draft.style.indent, draft.gap = draft.rng.choice((2, 4)), "\n"
    draft.encode = lambda text: re.sub("(?m)^", "> ", text)


@ENCODINGS.append
def yaml_tail(draft: Draft) -> None:
    draft.gap, draft.encode = draft.rng.choice(("\n", "\n\n")), lambda text: "\n".join(_yaml(draft.data))


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """`value` as YAML in block style, line by line."""
    marks = ((f"{key}:", item) for key, item in value.items()) if isinstance(value, dict) else (("-", v) for v in value)
    for mark, item in marks:
        if not isinstance(item, (dict, list)) or not item:
            yield f"{indent}{mark} {_yaml_scalar(item)}"
        elif mark == "-":
            first, *rest = _yaml(item, indent + "  ")
            yield from (f"{indent}- {first.lstrip()}", *rest)
        else:
            yield f"{indent}{mark}"
            yield from _yaml(item, indent + "  " * isinstance(item, dict))


def _yaml_scalar(value: Any) -> str:
    if not isinstance(value, str) or re.search(r'[\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\ufeff\\"]', value):
        return json.dumps(value, ensure_ascii=False)
    if re.search(r"""^[\W_]|^$|\s$|:(\s|$)|\s#|^[\d.]+$|^(null|true|false|yes|no|on|off|none)$|^\d""", value, re.I):
        return "'" + value.replace("'", "''") + "'"
    return value


# what the JSON says


def _tier(draft: Draft, least: int = 1) -> str:
    fit = [tier for tier in TIERS if len(draft.state["memory"][tier]) >= least]
    if not fit:
        raise Unfit("too little memory")
    return draft.rng.choice(fit)


def _data_items(draft: Draft) -> list[dict[str, Any]]:
    return [item for tier in TIERS for item in draft.data["memory"][tier]]


@SCHEMA.append
def decay_out_of_range(draft: Draft) -> None:
    for said, meant in some(draft, list(zip(_data_items(draft), draft.items(), strict=True))):
        said["decay"] = draft.rng.choice((-0.2, -1, 1.05, 1.5, 2, 7))
        meant["decay"] = float(said["decay"] > 0)
    draft.lossless, draft.policy = False, True


@SCHEMA.append
def decay_string(draft: Draft) -> None:
    for item in some(draft, _data_items(draft)):
        item["decay"] = str(item["decay"])


@SCHEMA.append
def round_string(draft: Draft) -> None:
    for item in some(draft, _data_items(draft), 8):
        item["round"] = draft.rng.choice((str, float))(item["round"])


@SCHEMA.append
def tags_string(draft: Draft) -> None:
    for said, meant in some(draft, list(zip(_data_items(draft), draft.items(), strict=True))):
        meant["tags"] = meant["tags"][:1] or ["solo"]
        said["tags"] = meant["tags"][0]
    draft.policy = True


@SCHEMA.append
def runtime_changed(draft: Draft) -> None:
    runtime = draft.data["runtime"]
    changes = {"round": runtime["round"] + draft.rng.choice((-1, 1, 10)), "datetime": "2027-01-01T00:00:00Z"}
    for name in some(draft, list(runtime)):
        runtime[name] = changes.get(name, "1999-12-31T23:59:59Z")


@SCHEMA.append
def runtime_missing_or_typed(draft: Draft) -> None:
    wrong = draft.rng.choice((None, "gone", "unchanged", str(draft.data["runtime"]["round"])))
    if wrong == "gone":
        del draft.data["runtime"]
    elif wrong is None or wrong == "unchanged":
        draft.data["runtime"] = wrong
    else:
        draft.data["runtime"]["round"] = wrong


@SCHEMA.append
def unknown_tier(draft: Draft) -> None:
    aliases = {
        "core": ("Core", "CORE", "long_term"),
        "working": ("Working", "short_term", "task"),
        "ephemeral": ("Ephemeral", "temporary", "temp"),
    }
    tier = _tier(draft)
    alias = draft.rng.choice(aliases[tier])
    draft.data["memory"] = {alias if name == tier else name: items for name, items in draft.data["memory"].items()}


@SCHEMA.append
def tier_missing_or_null(draft: Draft) -> None:
    tier = draft.rng.choice(TIERS)
    draft.state["memory"][tier] = []
    draft.data["memory"][tier] = None
    if draft.rng.random() < 0.5:
        del draft.data["memory"][tier]


@SCHEMA.append
def tier_as_dict(draft: Draft) -> None:
    tier, keep_id = _tier(draft), draft.rng.random() < 0.5
    items = draft.data["memory"][tier]
    draft.data["memory"][tier] = {
        item["id"]: {key: value for key, value in item.items() if keep_id or key != "id"} for item in items
    }


@SCHEMA.append
def tier_single_object(draft: Draft) -> None:
    tier = _tier(draft)
    del draft.state["memory"][tier][1:]
    draft.data["memory"][tier] = draft.data["memory"][tier][0]


@SCHEMA.append
def dup_id_identical(draft: Draft) -> None:
    items = draft.data["memory"][_tier(draft)]
    items.append(copy.deepcopy(draft.rng.choice(items)))


@SCHEMA.append
def dup_id_conflict(draft: Draft) -> None:
    tier = _tier(draft)
    said, meant = draft.data["memory"][tier], draft.state["memory"][tier]
    other = {**copy.deepcopy(meant[-1]), "content": "Quite another matter / 另一件事"}
    prefix, _, number = meant[-1]["id"].rpartition("-")
    said.append({**other, "id": draft.rng.choice(meant)["id"]})
    meant.append({**other, "id": f"{prefix}-{int(number) + 1:03}"})
    draft.lossless, draft.policy = False, True


@SCHEMA.append
def wrapped_root(draft: Draft) -> None:
    name = draft.rng.choice(("", "context", "CONTEXT", "snapshot", "state"))
    draft.data = {name: draft.data} if name else [draft.data]


@SCHEMA.append
def key_case_alias(draft: Draft) -> None:
    aliases = {
        "version": ("Version", "version "),
        "memory": ("Memory", "MEMORY"),
        "capabilities": ("Capabilities", "capability"),
        "active_task": ("activeTask", "active-task", "ActiveTask", "Active_Task"),
    }
    renamed = {name: draft.rng.choice(aliases[name]) for name in some(draft, list(aliases))}
    draft.data = {renamed.get(name, name): value for name, value in draft.data.items()}


@SCHEMA.append
def version_number(draft: Draft) -> None:
    draft.data["version"] = float(draft.data["version"])


@SCHEMA.append
def missing_toplevel_prev(draft: Draft) -> None:
    draft.previous, draft.policy = copy.deepcopy(draft.state), True
    del draft.data[draft.rng.choice(("version", "capabilities", "active_task"))]


@SCHEMA.append
def field_missing_prev(draft: Draft) -> None:
    draft.previous, draft.policy = copy.deepcopy(draft.state), True
    for item in some(draft, _data_items(draft)):
        del item[draft.rng.choice(("type", "decay", "round", "tags", "content"))]


# the marks between the values


def _delete(draft: Draft, tokens: Sequence[Token], most: int = 4) -> None:
    for token in some(draft, tokens, most):
        token.write("")


@STRUCTURE.append
def missing_comma(draft: Draft) -> None:
    draft.style.spaced = True
    _delete(draft, spots(draft, ","))


@STRUCTURE.append
def trailing_comma(draft: Draft) -> None:
    empty = {id(after) for token, after in pairwise(draft.tokens) if token.kind in "{["}
    for token in some(draft, spots(draft, "}", "]", where=lambda token: id(token) not in empty)):
        token.write("," + token.text)


@STRUCTURE.append
def double_comma(draft: Draft) -> None:
    for token in some(draft, spots(draft, ",")):
        token.write(draft.rng.choice((",,", ", ,")))


@STRUCTURE.append
def semicolon_for_comma(draft: Draft) -> None:
    for token in some(draft, spots(draft, ","), 8):
        token.write(";")


@STRUCTURE.append
def missing_colon(draft: Draft) -> None:
    draft.style.spaced = True
    _delete(draft, spots(draft, ":"), 2)


@STRUCTURE.append
def equals_for_colon(draft: Draft) -> None:
    mark = draft.rng.choice(("=", " =", "=>", " =>"))
    for token in draft.tokens:
        if token.kind == ":":
            token.text = mark


@STRUCTURE.append
def unquoted_keys(draft: Draft) -> None:
    for token in draft.tokens:
        if token.kind == "key":
            if not token.value.isidentifier():
                raise Unfit("a key that must be quoted")
            token.text = token.value


def _words(draft: Draft, where: Callable[[Token], bool]) -> Iterator[Token]:
    """Up to three keys and strings, none close to another."""
    for _ in range(draft.rng.randint(1, 3)):
        yield draft.rng.choice(spots(draft, "key", "string", where=where))


@STRUCTURE.append
def missing_open_quote(draft: Draft) -> None:
    fit = re.compile(r"""(?!true|false|null)[^\W\d][^"\\'“”＂\x00-\x1f]*""")
    for token in _words(draft, lambda token: fit.fullmatch(token.value) is not None):
        token.write(token.text[1:])


@STRUCTURE.append
def missing_close_quote(draft: Draft) -> None:
    """Only of short words under names that the protocol knows: elsewhere, the quotes could belong to a content."""
    known = {"id", "type", "decay", "round", "tags"}
    draft.style.spaced = True
    for token in _words(
        draft, lambda token: bool(known & {*token.path[-2:]}) and token.value.replace("-", "").isalnum()
    ):
        token.write(token.text[:-1])


@STRUCTURE.append
def missing_closer_end(draft: Draft) -> None:
    memory = next(name for name in draft.data if name.lower() == "memory")
    draft.data[memory] = draft.data.pop(memory)
    draft.tokenise()
    for token in draft.tokens[: -1 - draft.rng.randint(1, 4) : -1]:
        if token.kind not in "}]":
            break
        token.write("")
    draft.unclosed = True


@STRUCTURE.append
def missing_closer_mid(draft: Draft) -> None:
    draft.rng.choice(spots(draft, "}", "]", where=lambda token: token.path != ())).write("")


@STRUCTURE.append
def extra_closer_mid(draft: Draft) -> None:
    token = draft.rng.choice(spots(draft, "}", "]", where=lambda token: "memory" in token.path[:-1]))
    token.write(token.text + draft.rng.choice("}]"))


@STRUCTURE.append
def extra_closer_end(draft: Draft) -> None:
    draft.after = draft.rng.choice(("}", "}}", "\n}", "}" * 12, "]}"))


@STRUCTURE.append
def fullwidth_structural(draft: Draft) -> None:
    marks = {",": "，", ":": "："} if draft.rng.random() < 0.8 else {"{": "｛", "}": "｝", "[": "［", "]": "］"}
    for token in some(draft, spots(draft, *marks), 60):
        token.text = marks[token.kind]


@STRUCTURE.append
def ellipsis_placeholder(draft: Draft) -> None:
    tier = _tier(draft, 2)
    kept = draft.rng.randrange(1, len(draft.state["memory"][tier]))
    draft.previous, draft.policy = copy.deepcopy(draft.state), True
    draft.style.indent, draft.style.spaced = 2, True
    del draft.data["memory"][tier][kept:]
    draft.tokenise()
    last = next(token for token in draft.tokens if token.kind == "}" and token.path == ("memory", tier, kept - 1))
    forms = ",\n      ...", ",\n      ... (the rest as before)", "\n      // ... unchanged", "\n      /* ... */"
    last.write("}" + draft.rng.choice((*forms, ',\n      "..."', ",\n      …")))


# numbers and words


def _rewrite(draft: Draft, kind: str, where: Callable[[Token], bool], *ways: Callable[[str], str]) -> None:
    for token in some(draft, spots(draft, kind, where=where), 12):
        token.write(draft.rng.choice(ways)(token.text))


def _is_decay(token: Token) -> bool:
    return token.path[-1] == "decay" and re.fullmatch(r"0\.\d+", token.text) is not None


@VALUES.append
def undefined_lit(draft: Draft) -> None:
    word = draft.rng.choice(("undefined", "nil", "Null", "NULL"))
    _rewrite(draft, "literal", lambda token: token.value is None, lambda text: word)


@VALUES.append
def python_literals(draft: Draft) -> None:
    _rewrite(draft, "literal", lambda token: True, lambda text: text.title().replace("Null", "None"))


@VALUES.append
def number_leading_dot_plus(draft: Draft) -> None:
    forms = "{0}", "+0{0}", "0{0}0", "00{0}", "0{0}f"
    _rewrite(draft, "number", _is_decay, *(lambda text, form=form: form.format(text[1:]) for form in forms))


@VALUES.append
def number_decimal_comma(draft: Draft) -> None:
    _rewrite(draft, "number", _is_decay, lambda text: text.replace(".", ","))


# what stands between the tokens


@NOISE.append
def line_comments(draft: Draft) -> None:
    draft.style.indent, draft.style.spaced, draft.style.flat_tags = draft.rng.choice((2, 4)), True, True
    notes = "kept from before", 'it\'s "old", see {id}', "今回: 追加", "0 = forever, 1 = gone"
    for token in some(draft, spots(draft, ",", "{", where=lambda token: token.path[-1:] != ("tags",))):
        token.write(token.text + draft.rng.choice((" // ", " # ")) + draft.rng.choice(notes))


@NOISE.append
def block_comments(draft: Draft) -> None:
    notes = "kept", "don't touch", '{"y": [1]}', "保留, 勿删"
    for token in some(draft, spots(draft, ",", "[", ":")):
        token.write(f"{token.text} /* {draft.rng.choice(notes)} */")


@NOISE.append
def zero_width_between(draft: Draft) -> None:
    for token in some(draft, spots(draft, ",", ":", "{", "["), 12):
        token.write(token.text + draft.rng.choice("\u200b\u200c\u2060\ufeff"))


@NOISE.append
def exotic_whitespace(draft: Draft) -> None:
    if any(token.touched and token.kind in ("key", "string", ":") for token in draft.tokens):
        raise Unfit("it could belong to a text")
    draft.style.spaced = True
    if draft.style.indent is not None and draft.rng.random() < 0.2:
        draft.style.newline = "\u2028"
    else:
        draft.style.space = draft.rng.choice("\u00a0\u2003\u3000\x0b\u202f")


@NOISE.append
def bom(draft: Draft) -> None:
    draft.before = "\ufeff"


# the end that never came


def _truncate(draft: Draft, token: Token, length: int) -> None:
    """End the JSON `length` characters into `token`: what came is taken, the rest is what it was."""
    at = next(at for at, each in enumerate(draft.tokens) if each is token)
    whole = draft.tokens[: at + (length == len(token.text) and token.kind not in ("number", "literal"))]
    token.text = token.text[:length]
    draft.tokens = draft.tokens[: at + 1]
    draft.previous = _older(draft)
    draft.state = _carried({(each.kind, each.path) for each in whole}, draft.state, draft.previous)
    draft.lossless, draft.policy, draft.unclosed = False, True, True


def _older(draft: Draft) -> dict[str, Any]:
    """A state that may have come before: less of everything, some of it unlike now."""
    older = copy.deepcopy(draft.state)
    older["runtime"]["round"] -= 1
    for items in older["memory"].values():
        del items[draft.rng.randint(1, 3) :]
    if draft.rng.random() < 0.5:
        older["active_task"] = "Something else entirely"
    return older


def _carried(seen: set[tuple[str, Path]], state: dict[str, Any], older: dict[str, Any]) -> dict[str, Any]:
    """What `state` comes to if only the `seen` closers and strings of it were reached."""
    memory = {}
    for tier in TIERS:
        came = [item for at, item in enumerate(state["memory"][tier]) if ("}", ("memory", tier, at)) in seen]
        ids = {item["id"] for item in came}
        left = [item for item in older["memory"][tier] if item["id"] not in ids]
        memory[tier] = came if ("]", ("memory", tier)) in seen else came + left
    return {
        **state,
        "memory": memory,
        "capabilities": (state if ("]", ("capabilities",)) in seen else older)["capabilities"],
        "active_task": (state if ("string", ("active_task",)) in seen else older)["active_task"],
    }


def _in_memory(token: Token) -> bool:
    return token.path[:1] == ("memory",) and len(token.path) > 2


@TRUNCATIONS.append
def truncated_any(draft: Draft) -> None:
    last = draft.tokens[-1]
    token = draft.rng.choice([token for token in draft.tokens if token.path[:1] != ("runtime",) and token is not last])
    _truncate(draft, token, draft.rng.randint(1, len(token.text)))


@TRUNCATIONS.append
def truncated_string(draft: Draft) -> None:
    token = draft.rng.choice(spots(draft, "string", where=lambda token: _in_memory(token) and len(token.text) > 4))
    _truncate(draft, token, draft.rng.randint(2, len(token.text) - 2))


@TRUNCATIONS.append
def truncated_number(draft: Draft) -> None:
    token = draft.rng.choice(spots(draft, "number", where=_in_memory))
    _truncate(draft, token, draft.rng.randint(1, len(token.text)))


@TRUNCATIONS.append
def truncated_escape(draft: Draft) -> None:
    token = draft.rng.choice(spots(draft, "string", where=lambda token: _in_memory(token) and "\\" in token.text))
    _truncate(draft, token, token.text.index("\\") + 1)


@TRUNCATIONS.append
def truncated_between(draft: Draft) -> None:
    token = draft.rng.choice(spots(draft, "}", ",", where=lambda token: token.path[:1] == ("memory",)))
    _truncate(draft, token, 1)


# what is put around the JSON

_AROUND = {
    "fence_json": (("```json\n", "\n```"), ("```JSON\n", "\n```"), ("```json5\n", "\n```")),
    "fence_plain": (("```\n", "\n```"),),
    "fence_tilde_or_long": (("~~~json\n", "\n~~~"), ("````json\n", "\n````"), ("~~~~\n", "\n~~~~")),
    "fence_close_only": (("", "\n```"),),
    "fence_open_only": (("```json\n", ""), ("```\n", "")),
    "xml_wrap": tuple((f"<{tag}>\n", f"\n</{tag}>") for tag in ("context", "CONTEXT", "json", "output", "state")),
    "prose_before": (
        ("Here is the state:\n", ""),
        ("{see: below}\n", ""),
        ("新しい状態[更新済み]：\n", ""),
        ('Memory (3 items, "core" first):\n', ""),
    ),
    "special_tokens_after": (("", "<|im_end|>"), ("", "</s>"), ("", "\n<｜end▁of▁sentence｜>"), ("", "<|eot_id|>")),
    "sep_close_tag_after": tuple(
        ("", f"\n{mark}") for mark in ("<<<END>>>", "<<<END CONTEXT>>>", "<<</CONTEXT>>>", SEPARATOR)
    ),
}

_WRITTEN = {
    "sep_fewer_chevrons": ("<<CONTEXT>>", "<CONTEXT>", "<<<CONTEXT>>", "<<CONTEXT>>>"),
    "sep_more_chevrons": ("<<<<CONTEXT>>>>", "<<<<<CONTEXT>>>>>", "<<<<CONTEXT>>>"),
    "sep_spaced": ("<<< CONTEXT >>>", "<<<CONTEXT >>>", "<<<  CONTEXT  >>>", "< < < CONTEXT > > >"),
    "sep_html_escaped": (
        "&lt;&lt;&lt;CONTEXT&gt;&gt;&gt;",
        "&#60;&#60;&#60;CONTEXT&#62;&#62;&#62;",
        "&amp;lt;&amp;lt;&amp;lt;CONTEXT&amp;gt;&amp;gt;&amp;gt;",
        "&lt;&lt;&lt;CONTEXT>>>",
    ),
    "sep_markdown_escaped": (r"\<\<\<CONTEXT\>\>\>", r"\<<<CONTEXT>>>", r"\<\<\<CONTEXT>>>"),
    "sep_pandoc_mangled": (r"\<\<`<CONTEXT>`{=html}\>\>",),
    "sep_decorated": ("**{}**", "*{}*", "### {}", "---\n{}", "`{}`", "{}:", "> {}", "__{}__"),
    "sep_case": ("<<<context>>>", "<<<Context>>>", "<<<CONTEXT:>>>"),
    "sep_fullwidth": ("＜＜＜CONTEXT＞＞＞", "《《《CONTEXT》》》", "〈〈〈CONTEXT〉〉〉", "«<CONTEXT>»"),
    "sep_zero_width": ("\u200b{}", "{}\u200b", "\ufeff{}", "<<<\u200bCONTEXT>>>", "<<<CONTEXT\u2060>>>"),
    "sep_bracket_variant": ("<<<CONTEXT", "CONTEXT>>>", "[[[CONTEXT]]]"),
    "sep_doubled": ("{0}\n{0}", "{0}\n\n{0}", "{0} {0}"),
}


def _around(name: str, pairs: Sequence[tuple[str, str]]) -> Damage:
    def damage(draft: Draft) -> None:
        draft.wrap(*draft.rng.choice(pairs))

    damage.__name__ = name
    return damage


def _written(name: str, marks: Sequence[str]) -> Damage:
    def damage(draft: Draft) -> None:
        mark = draft.rng.choice(marks)
        draft.separator = mark if "=html" in mark else mark.format(SEPARATOR)

    damage.__name__ = name
    return damage


WRAPS += [_around(name, pairs) for name, pairs in _AROUND.items()]
SEPARATORS += [_written(name, marks) for name, marks in _WRITTEN.items()]


@WRAPS.append
def inline_backtick(draft: Draft) -> None:
    if any(token.text.startswith("`") for token in draft.tokens):
        raise Unfit("the backticks would not match")
    draft.wrap("`", "`")


@WRAPS.append
def prose_after(draft: Draft) -> None:
    """The answer goes on behind the JSON."""
    if draft.unclosed:
        raise Unfit("nothing shows where the JSON ends")
    gap, draft.rest = draft.rng.choice(
        (
            ("\n\n", "That is all for now!"),
            ("\n", "以上。"),
            ("\n", "NB: {core} was kept [as asked]."),
            ("\n\n", 'Anything "else"?'),
        )
    )
    draft.after += gap


@WRAPS.append
def dup_object(draft: Draft) -> None:
    draft.wrap("", draft.rng.choice(("\n", "\n\n")) + draft.text)


@SEPARATORS.append
def sep_same_line(draft: Draft) -> None:
    draft.lead, draft.gap = draft.rng.choice(("", " ")), draft.rng.choice(("", " ", "\n"))


@SEPARATORS.append
def sep_inside_fence(draft: Draft) -> None:
    draft.lead = draft.rng.choice(("\n\n```\n", "\n\n```json\n"))
    draft.wrap("", "\n```")


@SEPARATORS.append
def sep_missing(draft: Draft) -> None:
    draft.visible, draft.separator, draft.gap = draft.calm, "", ""


@SEPARATORS.append
def draft_then_final(draft: Draft) -> None:
    older = json.dumps(_older(draft), ensure_ascii=False)
    draft.visible, draft.separator = draft.calm, f"{SEPARATOR}\n{older}\n\n{SEPARATOR}"
