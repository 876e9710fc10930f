"""Renderings that nothing was tuned to: written after the readers, to tell how they do on what nobody listed."""

import base64
import html
import json
import quopri
import random
import re
from typing import Any
from urllib.parse import quote

from tests.protocol.damage import TIERS
from tests.protocol.renderings import NOT_BARE, State, Table, rendering, written

HELD_OUT: Table = {}


def unseen(harmful: str = "", typed: bool = True) -> Any:
    return rendering(harmful, typed=typed, table=HELD_OUT)


def text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@unseen()
def ruby_hash(state: State, rng: random.Random) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f":{key} => {write(item)}" for key, item in value.items()) + " }"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return "nil" if value is None else text_of(value)

    return write(state)


@unseen()
def lua_table(state: State, rng: random.Random) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f'["{key}"] = {write(item)}' for key, item in value.items()) + " }"
        if isinstance(value, list):
            return "{" + ", ".join(map(write, value)) + "}"
        return "nil" if value is None else text_of(value)

    return "return " + write(state)


@unseen()
def php_array(state: State, rng: random.Random) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "[" + ", ".join(f"'{key}' => {write(item)}" for key, item in value.items()) + ",]"
        if isinstance(value, list):
            return "array(" + ", ".join(map(write, value)) + ")"
        return "NULL" if value is None else text_of(value)

    return f"$state = {write(state)};"


@unseen()
def assignments_by_path(state: State, rng: random.Random) -> str:
    def write(value: Any, path: str) -> list[str]:
        if isinstance(value, dict) and value:
            return [line for key, item in value.items() for line in write(item, f"{path}.{key}")]
        if isinstance(value, list) and value:
            return [line for at, item in enumerate(value) for line in write(item, f"{path}[{at}]")]
        return [f"{path} = {text_of(value)};"]

    return "\n".join(write(state, "json"))


@unseen()
def one_object_per_line(state: State, rng: random.Random) -> str:
    head = {key: value for key, value in state.items() if key != "memory"}
    return "\n".join(
        [text_of(head), *(text_of({"tier": tier, **item}) for tier in TIERS for item in state["memory"][tier])]
    )


@unseen()
def keyword_maps(state: State, rng: random.Random) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + " ".join(f":{key} {write(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + " ".join(map(write, value)) + "]"
        return "nil" if value is None else text_of(value)

    return write(state)


@unseen(r"[\n\r\t]|^\s|\s$", typed=False)
def html_tables(state: State, rng: random.Random) -> str:
    lines = [f"<p>version: 2.2</p><p>active_task: {html.escape(state['active_task'])}</p>"]
    lines.append(
        "<h2>capabilities</h2><table><tr><th>name</th><th>scope</th></tr>"
        + "".join(f"<tr><td>{entry['name']}</td><td>{entry['scope']}</td></tr>" for entry in state["capabilities"])
        + "</table>"
    )
    for tier in TIERS:
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(str(', '.join(v) if isinstance(v, list) else v))}</td>" for v in item.values())
            + "</tr>"
            for item in state["memory"][tier]
        )
        lines.append(
            f"<h2>{tier}</h2><table><tr>"
            + "".join(f"<th>{k}</th>" for k in state["memory"][tier][0])
            + f"</tr>{rows}</table>"
        )
    return "\n".join(lines)


@unseen(r"[\x00-\x1f]|^\s|\s$", typed=False)
def xml_attributes(state: State, rng: random.Random) -> str:
    def attributes(value: dict[str, Any]) -> str:
        return "".join(
            f' {key}="{html.escape(str(", ".join(v) if isinstance(v, list) else v))}"' for key, v in value.items()
        )

    memory = "".join(
        f"<{tier}>" + "".join(f"<item{attributes(item)}/>" for item in state["memory"][tier]) + f"</{tier}>"
        for tier in TIERS
    )
    abilities = "".join(f"<capability{attributes(entry)}/>" for entry in state["capabilities"])
    task = html.escape(state["active_task"])
    return (
        f'<context version="2.2"><runtime{attributes(state["runtime"])}/><memory>{memory}</memory>'
        f"<capabilities>{abilities}</capabilities><active_task>{task}</active_task></context>"
    )


@unseen(typed=False)
def columns(state: State, rng: random.Random) -> str:
    state["memory"] = {
        tier: {key: [item[key] for item in items] for key in items[0]} for tier, items in state["memory"].items()
    }
    return written(state, rng)


@unseen(typed=False)
def rows_below_a_header(state: State, rng: random.Random) -> str:
    state["memory"] = {
        tier: [list(items[0]), *(list(item.values()) for item in items)] for tier, items in state["memory"].items()
    }
    return written(state, rng)


@unseen()
def pairs_as_objects(state: State, rng: random.Random) -> str:
    return written([{"key": key, "value": value} for key, value in state.items()], rng)


@unseen()
def quotes_as_codes(state: State, rng: random.Random) -> str:
    return json.dumps(written(state, rng), ensure_ascii=False)[1:-1].replace('\\"', "\\u0022")


@unseen()
def entities_below_a_prefix(state: State, rng: random.Random) -> str:
    lines = html.escape(json.dumps(state, ensure_ascii=False, indent=2)).split("\n")
    return "\n".join("# " + line for line in lines)


@unseen()
def escaped_in_a_fence(state: State, rng: random.Random) -> str:
    return "```json\n" + json.dumps(text_of(state), ensure_ascii=False)[1:-1] + "\n```"


@unseen()
def labelled_base64(state: State, rng: random.Random) -> str:
    data = base64.b64encode(text_of(state).encode()).decode()
    return rng.choice(("data:application/json;base64,{}", "```\n{}\n```", "base64: {}", "{}\n(base64)")).format(data)


@unseen()
def lines_continued(state: State, rng: random.Random) -> str:
    return " \\\n".join(json.dumps(state, ensure_ascii=False, indent=2).split("\n"))


@unseen()
def added_lines(state: State, rng: random.Random) -> str:
    return "\n".join("+" + line for line in json.dumps(state, ensure_ascii=False, indent=2).split("\n"))


@unseen()
def logged_lines(state: State, rng: random.Random) -> str:
    lines = json.dumps(state, ensure_ascii=False, indent=2).split("\n")
    return "\n".join(f"2026-03-02T10:00:{at % 60:02}Z INFO {line}" for at, line in enumerate(lines))


@unseen()
def flat_without_commas(state: State, rng: random.Random) -> str:
    flat = [{"tier": tier, **item} for tier in TIERS for item in state["memory"][tier]]
    return re.sub(r"\}, \{", "} {", text_of({**state, "memory": flat}), count=2)


@unseen(r"\}\]")
def root_tiers_with_a_comma_too_many(state: State, rng: random.Random) -> str:
    memory = state.pop("memory")
    return text_of({**memory, **state}).replace("}]", "},]")


@unseen("[“”]")
def other_names_in_smart_quotes(state: State, rng: random.Random) -> str:
    state["memory"] = dict(zip(("noyau", "travail", "éphémère"), state["memory"].values(), strict=True))
    return re.sub(r'"((?:[^"\\]|\\.)*)"', "“\\1”", text_of(state))


@unseen()
def quoted_printable(state: State, rng: random.Random) -> str:
    return quopri.encodestring(text_of(state).encode()).decode()


@unseen(NOT_BARE, typed=False)
def one_line_per_item(state: State, rng: random.Random) -> str:
    lines = ["version=2.2", f"active_task={state['active_task']}"]
    for tier in TIERS:
        lines.append(f"# {tier}")
        for item in state["memory"][tier]:
            pairs = {**item, "tags": ",".join(item["tags"])}
            lines.append(" ".join(f"{key}={value}" for key, value in pairs.items()))
    lines += ["# capabilities", *(f"name={entry['name']} scope={entry['scope']}" for entry in state["capabilities"])]
    return "\n".join(lines)


@unseen(NOT_BARE, typed=False)
def headings_by_id(state: State, rng: random.Random) -> str:
    lines = ["# Context", "", "- version: 2.2", f"- active_task: {state['active_task']}"]
    for tier in TIERS:
        lines += ["", f"## {tier.title()}"]
        for item in state["memory"][tier]:
            lines += ["", f"### {item['id']}"]
            lines += [
                f"- **{key}**: {', '.join(value) if isinstance(value, list) else value}"
                for key, value in item.items()
                if key != "id"
            ]
    lines += ["", "## Capabilities", ""]
    for entry in state["capabilities"]:
        lines += [f"- **name**: {entry['name']}", f"- **scope**: {entry['scope']}"]
    return "\n".join(lines)


@unseen()
def chinese_field_names(state: State, rng: random.Random) -> str:
    names = {"id": "编号", "type": "类型", "decay": "衰减", "round": "轮次", "tags": "标签", "content": "内容"}
    for tier in TIERS:
        state["memory"][tier] = [{names.get(k, k): v for k, v in item.items()} for item in state["memory"][tier]]
    return written(state, rng)


@unseen('": ')
def shouted_keys(state: State, rng: random.Random) -> str:
    known = "version|runtime|memory|core|working|ephemeral|id|type|decay|round|tags|content|capabilities|active_task"
    return re.sub(rf'"({known})": ', lambda key: f'"{key[1].upper().replace("_", " ")}": ', text_of(state))


@unseen()
def broken_lines_in_html(state: State, rng: random.Random) -> str:
    lines = html.escape(json.dumps(state, ensure_ascii=False, indent=2)).split("\n")
    return "<br>\n".join(re.sub("^ +", lambda gap: "&nbsp;" * len(gap[0]), line) for line in lines)


@unseen()
def brackets_of_another_kind(state: State, rng: random.Random) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "(" + "; ".join(f"{key}: {write(item)}" for key, item in value.items()) + ")"
        if isinstance(value, list):
            return "[" + "; ".join(map(write, value)) + "]"
        return text_of(value)

    return write(state)


LATER: Table = {}
"""Written when the readers knew the others, and never looked at since."""


def later(harmful: str = "", typed: bool = True) -> Any:
    return rendering(harmful, typed=typed, table=LATER)


@later()
def escaped_below_a_prefix(state: State, rng: random.Random) -> str:
    lines = json.dumps(state, ensure_ascii=False, indent=2).replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return "\n".join("* " + line for line in lines)


@later()
def doubly_percent_encoded(state: State, rng: random.Random) -> str:
    return quote(quote(text_of(state)))


@later()
def named_tuples(state: State, rng: random.Random) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "dict(" + ", ".join(f"{key}={write(item)}" for key, item in value.items()) + ")"
        if isinstance(value, list):
            return "(" + "".join(f"{write(item)}, " for item in value) + ")"
        return repr(value)

    return "state = " + write(state)


@later()
def swift_dictionary(state: State, rng: random.Random) -> str:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "[" + ", ".join(f'"{key}": {write(item)}' for key, item in value.items()) + "]"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return "nil" if value is None else text_of(value)

    return "let state = " + write(state)


@later()
def tiers_as_pairs(state: State, rng: random.Random) -> str:
    state["memory"] = [[tier, items] for tier, items in state["memory"].items()]
    return written(state, rng)


@later()
def memory_in_a_string(state: State, rng: random.Random) -> str:
    state["memory"] = text_of(state["memory"])
    return written(state, rng)


@later()
def tiers_in_strings(state: State, rng: random.Random) -> str:
    state["memory"] = {tier: text_of(items) for tier, items in state["memory"].items()}
    return written(state, rng)


@later()
def items_in_strings(state: State, rng: random.Random) -> str:
    state["memory"] = {tier: [text_of(item) for item in items] for tier, items in state["memory"].items()}
    return written(state, rng)


@later()
def prefixed_keys(state: State, rng: random.Random) -> str:
    state["memory"] = {f"memory_{tier}": items for tier, items in state["memory"].items()}
    return written(state, rng)


@later()
def hidden_in_a_comment(state: State, rng: random.Random) -> str:
    return f"<!-- {written(state, rng)} -->"


@later()
def table_of_all_tiers(state: State, rng: random.Random) -> str:
    lines = [
        "version: 2.2",
        f"active_task: {state['active_task']}",
        "",
        "| tier | id | type | decay | round | tags | content |",
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for tier in TIERS:
        for item in state["memory"][tier]:
            cells = [tier, *(str(", ".join(v) if isinstance(v, list) else v) for v in item.values())]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## capabilities", *(f"- name: {e['name']}, scope: {e['scope']}" for e in state["capabilities"])]
    return "\n".join(lines)


LATER["table_of_all_tiers"] = LATER["table_of_all_tiers"]._replace(harmful=NOT_BARE, typed=False)


@later()
def yaml_in_a_fence(state: State, rng: random.Random) -> str:
    lines = ["```yaml", 'version: "2.2"', f"active_task: {text_of(state['active_task'])}", "runtime:"]
    lines += [f"  {key}: {text_of(value)}" for key, value in state["runtime"].items()]
    lines.append("memory:")
    for tier in TIERS:
        lines.append(f"  {tier}:")
        for item in state["memory"][tier]:
            first, *rest = (f"{key}: {text_of(value)}" for key, value in item.items())
            lines += [f"    - {first}", *(f"      {line}" for line in rest)]
    lines.append("capabilities:")
    lines += [
        f"  - {{name: {text_of(entry['name'])}, scope: {text_of(entry['scope'])}}}" for entry in state["capabilities"]
    ]
    return "\n".join([*lines, "```"])


@later()
def marks_around_keys(state: State, rng: random.Random) -> str:
    return re.sub(r'(?m)^(\s*)"([a-z_]+)":', r'\1**"\2"**:', json.dumps(state, ensure_ascii=False, indent=2))


@later()
def two_halves(state: State, rng: random.Random) -> str:
    memory = state.pop("memory")
    return f"{written({'memory': memory}, rng)}\n\n{written(state, rng)}"


@later()
def guillemets(state: State, rng: random.Random) -> str:
    return re.sub(r'"((?:[^"\\]|\\.)*)"', "«\\1»", text_of(state))


@later(r"'|\s$")
def a_letter_before_strings(state: State, rng: random.Random) -> str:
    return re.sub(r"(?<=[ \[{(])'", "u'", repr(state))


LAST: Table = {}
"""Written last of all."""


def last(harmful: str = "", typed: bool = True) -> Any:
    return rendering(harmful, typed=typed, table=LAST)


@last()
def brackets_in_quotes(state: State, rng: random.Random) -> str:
    return "“" + text_of(state) + "”"


@last()
def a_bar_on_both_sides(state: State, rng: random.Random) -> str:
    return "\n".join(f"| {line} |" for line in json.dumps(state, ensure_ascii=False, indent=2).split("\n"))


@last()
def quoted_line_by_line(state: State, rng: random.Random) -> str:
    lines = json.dumps(state, ensure_ascii=False, indent=2).split("\n")
    return " +\n".join(json.dumps(line + "\n", ensure_ascii=False) for line in lines)


@last()
def single_quotes_doubled(state: State, rng: random.Random) -> str:
    return "'" + text_of(state).replace("'", "''") + "'"


@last('": ')
def keys_and_values_on_lines(state: State, rng: random.Random) -> str:
    return re.sub(r'": (?=["\d\[{tfn])', '":\n', json.dumps(state, ensure_ascii=False, indent=1))


@last()
def tiers_by_number(state: State, rng: random.Random) -> str:
    state["memory"] = {str(at): items for at, items in enumerate(state["memory"].values(), 1)}
    return written(state, rng)


@last()
def hungarian_names(state: State, rng: random.Random) -> str:
    state["memory"] = dict(zip(("mag", "munka", "átmeneti"), state["memory"].values(), strict=True))
    return written(state, rng)


@last()
def wrapped_in_a_tool_call(state: State, rng: random.Random) -> str:
    return written({"name": "save_context", "arguments": text_of(state)}, rng)


@last()
def wrapped_in_a_message(state: State, rng: random.Random) -> str:
    return written({"role": "assistant", "content": state}, rng)


@last()
def list_of_named_sections(state: State, rng: random.Random) -> str:
    return written([{"section": key, "data": value} for key, value in state.items()], rng)


@last()
def camel_case(state: State, rng: random.Random) -> str:
    state["activeTask"] = state.pop("active_task")
    state["memory"] = {f"{tier}Memory": items for tier, items in state["memory"].items()}
    return written(state, rng)


@last()
def tabs_escaped(state: State, rng: random.Random) -> str:
    return json.dumps(state, ensure_ascii=False, indent=2).replace("\n", "\\n").replace("  ", "\\t")


@last()
def items_with_their_keys_as_lists(state: State, rng: random.Random) -> str:
    state["memory"] = {
        tier: [[[key, value] for key, value in item.items()] for item in items]
        for tier, items in state["memory"].items()
    }
    return written(state, rng)


@last()
def xml_around_json(state: State, rng: random.Random) -> str:
    memory = "".join(f"<{tier}>{html.escape(text_of(items))}</{tier}>" for tier, items in state["memory"].items())
    rest = "".join(f"<{key}>{html.escape(text_of(state[key]))}</{key}>" for key in ("runtime", "capabilities"))
    task = html.escape(state["active_task"])
    return f"<state><version>2.2</version>{rest}<memory>{memory}</memory><active_task>{task}</active_task></state>"
