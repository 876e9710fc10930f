// The views: each has a title and `show(key, rest)`, which returns its element.

import { get, path, post } from "./app.js";
import { colour, h, lineChart, number, percent, row, stackedBar, svg, table, time, visible, virtualList } from "./dom.js";

const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);
const tokens = (value) => `${number(value)} tokens`;
const empty = (text) => h("p", { class: "empty" }, text);

async function sessions() {
  const list = h("div", {});
  const input = h("input", { id: "search", type: "search", placeholder: "tenant, agent or session", autocomplete: "off" });
  let offset = 0, asked = 0;
  async function load() {
    const turn = ++asked;
    const found = await get("sessions", { search: input.value, offset });
    if (turn !== asked) return;
    const rows = found.sessions.map((each) => row([
      h("a", { href: path(each) }, each.session), each.tenant, each.agent, each.user ?? "–", badge(each.state || "new", each.state),
      number(each.rounds), number(each.messages),
      each.tokens_in === null ? "–" : `${number(each.tokens_in)} / ${number(each.tokens_out)}`, each.size === null ? "–" : `${number(Math.ceil(each.size / 1024))} KB`,
      each.missing_share ? badge(`${percent(each.missing_share)} missing`, "warn") : "all", time(each.updated_at)]));
    const next = offset + found.sessions.length;
    list.replaceChildren(
      found.total ? table(`${number(found.total)} sessions, newest first`, ["Session", "Tenant", "Agent", "User", "State", "Rounds", "Messages", "Tokens in / out", "Size", "Snapshots", "Last activity"], rows)
        : empty(input.value ? "No session matches." : "There are no sessions yet. Run `ctxwrap chat` or `ctxwrap demo`, or wrap a client."),
      h("p", { class: "pages" },
        offset > 0 ? h("button", { type: "button", onclick: () => { offset = Math.max(0, offset - found.sessions.length); load(); } }, "Newer") : null,
        next < found.total ? h("button", { type: "button", onclick: () => { offset = next; load(); } }, "Older") : null));
  }
  input.addEventListener("input", () => { offset = 0; load(); });
  await load();
  return { element: h("section", {}, h("h1", {}, "Sessions"), h("p", {}, h("label", { for: "search" }, "Search "), input), list) };
}

const ROW = 76;

async function turns(key) {
  const first = await get("turns", key);
  let before = first.before;
  let at = -1;
  const list = virtualList("Turns, newest first", ROW, (each) => turnRow(key, each), async () => {
    if (!before) return null;
    const page = await get("turns", { ...key, before });
    before = page.before;
    return page.turns;
  });
  list.rows.push(...first.turns);
  list.view.move = (by) => {
    const focused = document.activeElement?.closest("li")?.dataset.at;
    at = Math.min(Math.max((focused === undefined ? at : Number(focused)) + by, 0), list.rows.length - 1);
    list.scrollTo(at);
  };
  const totals = h("p", {}, "…");
  get("cost", key).then((cost) => totals.replaceWith(costTable(cost)), (error) => totals.replaceChildren(error.message));
  return {
    element: h("section", {}, h("h1", {}, key.session),
      Object.entries(first.owners).map(([kind, name]) => badge(`${kind} ${name}`)), first.turns.length ? list.view : empty("This session has no turn yet."),
      h("details", {}, h("summary", {}, "Cost, beside sending everything or the last 20 messages"), totals)),
    ready: () => list.render(),
    changed: async () => {
      const newest = await get("turns", key);
      const known = new Set(list.rows.map((each) => each.id));
      newest.turns.filter((each) => known.has(each.id)).slice(0, 3).forEach((each) => {
        const place = list.rows.findIndex((other) => other.id === each.id);
        list.rows[place] = each;
      });
      list.prepend(newest.turns.filter((each) => !known.has(each.id)));
    },
  };
}

function turnRow(key, turn) {
  return h("a", { class: "turn", href: path(key, "turn", turn.id, turn.event) },
    h("span", { class: "round" }, `#${turn.round}`),
    h("span", { class: "said" }, h("b", {}, turn.said || "(nothing new)"), h("span", {}, turn.answer || `(${turn.status})`)),
    h("span", { class: "facts" }, badge(turn.mode, turn.mode), turn.status === "ok" ? null : badge(turn.status, "warn"),
      turn.repairs ? badge(`${turn.repairs} repairs`, "warn") : null, turn.violations ? badge(`${turn.violations} violations`, "warn") : null,
      turn.reasks ? badge("asked again", "warn") : null),
    h("span", { class: "numbers" }, `${number(turn.tokens_in)} in · ${number(turn.tokens_out)} out`,
      h("br"), turn.seconds === null ? "open" : `${turn.seconds} s`, turn.stable === null || turn.stable === undefined ? "" : ` · prefix ${percent(turn.stable)}`));
}

function costTable(cost) {
  const money = (value) => (value === null || value === undefined ? "–" : `$${value.toFixed(4)}`);
  const ways = { sent: "ctxwrap", everything: "whole conversation each time", last_20: "last 20 messages" };
  return table("Cost of the session", ["Way", "Tokens in", "of these cached", "Tokens out", "Price", "Tokens in, last turn"],
    Object.entries(ways).filter(([name]) => cost[name]).map(([name, title]) => {
      const { total, last } = cost[name];
      return row([title, number(total.tokens_in), number(total.cached), number(total.tokens_out), money(total.money), number(last.tokens_in)]);
    }));
}

async function turn(key, [id, event]) {
  const found = await get("turn", { ...key, turn: id, event });
  return {
    element: h("section", {}, h("h1", {}, `Round ${found.round}`),
      h("p", { class: "facts" }, badge(found.mode, found.mode), badge(found.status, found.status === "ok" ? "" : "warn"), ` ${found.model} · ${time(found.started_at)} · `,
        found.seconds === null ? "still open" : `${found.seconds} s`, ` · ${tokens(found.tokens_in)} in`, found.cached ? `, ${number(found.cached)} cached` : "", `, ${number(found.tokens_out)} out`,
        " · ", h("a", { href: path(key, "compare", "previous", found.id) }, "compare with the turn before")),
      h("div", { class: "columns" },
        h("div", {}, h("h2", {}, "Conversation"), h("div", { class: "talk" }, found.messages.map(message)), snapshots(found), changes(found.changes)),
        h("div", {}, h("h2", {}, "Pack"), found.pack ? pack(found.pack) : empty("This turn sent no pack.")))),
  };
}

function message(each) {
  const content = typeof each.content === "string" ? each.content : each.content === null || each.content === undefined ? "" : JSON.stringify(each.content, null, 1);
  const calls = (each.tool_calls ?? []).map((call) => h("pre", {}, `${call.name ?? call.function?.name}(${call.arguments ?? call.function?.arguments ?? ""})`));
  return h("article", { class: `message ${each.role}`, id: `message-${each.number}` },
    h("h3", {}, `${each.role} · message ${each.number}`), h("div", { class: "text" }, each.purged ? "(purged)" : content), calls);
}

function snapshots(found) {
  if (!found.snapshots.length) return found.mode === "enabled" && found.status === "ok" ? h("p", { class: "note" }, "The reply had no snapshot.") : null;
  return h("div", {}, h("h2", {}, "Snapshot"), found.snapshots.map((each) => {
    const cut = each.fault === null ? each.trailer.length : each.fault;
    return h("div", {}, h("p", {}, badge(each.status, each.status === "clean" ? "" : "warn")),
      notes("Violations", each.violations), notes("Repairs", each.repairs),
      h("details", { open: each.fault !== null }, h("summary", {}, "As the model wrote it"),
        h("pre", {}, each.trailer.slice(0, cut), cut < each.trailer.length ? h("mark", { title: "damaged from here on" }, each.trailer.slice(cut)) : null)));
  }));
}

const notes = (title, texts) => (texts.length ? h("div", {}, h("h3", {}, title), h("ul", {}, texts.map((text) => h("li", {}, text)))) : null);

function changes(list) {
  if (!list.length) return h("p", { class: "note" }, "Memory did not change.");
  return h("div", {}, h("h2", {}, "Changes to memory"), h("ul", { class: "changes" }, list.map((each) =>
    h("li", {}, badge(each.kind, each.kind), h("b", {}, ` ${each.id} `), each.content ?? "", each.reason ? h("small", {}, ` ${each.reason}`) : null,
      each.fields.length && each.kind !== "add" ? h("dl", { class: "fields" }, each.fields.map((field) => [h("dt", {}, field.name),
        h("dd", {}, h("del", {}, text(field.before)), " → ", h("ins", {}, text(field.after)))])) : null))));
}

const text = (value) => (value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(", ") : value);

export function pack(view) {
  const { budget, items } = view;
  const kinds = new Map();
  for (const item of items) if (item.included) kinds.set(item.kind, (kinds.get(item.kind) ?? 0) + item.tokens);
  const parts = [...kinds].map(([name, count]) => ({ name, tokens: count }));
  const used = parts.reduce((sum, part) => sum + part.tokens, 0);
  const limited = budget.limit && budget.set_by !== "nothing";
  const listed = (included) => items.filter((item) => item.included === included).map((item) => row([
    h("span", {}, h("span", { class: `dot ${colour(item.kind)}`, "aria-hidden": "true" }), item.kind), place(item), number(item.tokens), item.origin, item.reason]));
  const left = listed(false);
  return h("div", { class: "pack" },
    h("p", {}, h("strong", { id: "used" }, tokens(used)), limited ? ` of ${number(budget.limit)} ` : " ", budget.exact === false ? "(estimated)" : ""),
    limited ? h("progress", { max: budget.limit, value: used, "aria-label": "Part of the budget that is used" }) : null,
    stackedBar(parts, 0, `Tokens by kind: ${parts.map((part) => `${part.name} ${part.tokens}`).join(", ")}`),
    notes("Notes", view.notes),
    table("What was sent", ["Kind", "Source", "Tokens", "Origin", "Why"], listed(true)),
    left.length ? table("What was left out", ["Kind", "Source", "Tokens", "Origin", "Why"], left) : h("p", { class: "note" }, "Nothing was left out."),
    h("details", {}, h("summary", {}, "The exact text, in the order in which the model reads it"), view.blocks.map((block) =>
      h("article", { class: "block" }, h("h3", {}, `${block.role} · ${block.name} · ${number(block.tokens)} tokens`, h("small", {}, ` ${block.source}`)), h("pre", {}, block.text)))));
}

const place = (item) => h("span", {}, item.source, item.refs.length ? h("small", {}, ` ${item.refs.join(", ")}`) : null);

async function memory(key) {
  let state = await get("memory", key);
  const newest = state.newest;
  const slider = h("input", { id: "round", type: "range", min: 1, max: Math.max(newest, 1), value: newest });
  const label = h("output", { for: "round" }, `round ${newest}`);
  const body = h("div", {}), plot = h("figure", {}, empty("…"));
  let curves = [];
  const draw = (round) => {
    body.replaceChildren(tiers(key, state));
    if (!curves.length) return plot.replaceChildren(empty("No item was ever in memory."));
    const lines = curves.map((curve) => ({ name: curve.id, title: `${visible(curve.id)}: ${visible(curve.content)}`, points: curve.points.map(([at, , decay]) => [at, 1 - decay]) }));
    const marks = Object.entries(state.thresholds).map(([tier, value]) => ({ name: `leaves ${tier}`, value: 1 - value }));
    plot.replaceChildren(lineChart(lines, { label: "Strength of memory items by round", from: 1, to: Math.max(newest, 2), marks, at: round }),
      h("figcaption", {}, "Strength (1 − decay) of every item by round; the dashed lines are the thresholds of the tiers."));
  };
  const change = async () => {
    const round = Number(slider.value);
    label.textContent = `round ${round}`;
    state = await get("memory", { ...key, round });
    if (round === Number(slider.value)) draw(round);
  };
  slider.addEventListener("input", change);
  get("curves", key).then((found) => { curves = found.curves; draw(Number(slider.value)); }, () => draw(newest));
  draw(newest);
  return {
    element: h("section", {}, h("h1", {}, "Memory"), h("p", {}, h("label", { for: "round" }, "As of "), slider, label), plot, body),
    changed: async (counts) => { if (Number(slider.value) === Number(slider.max)) { slider.max = slider.value = counts.round; await change(); } else slider.max = counts.round; },
  };
}

function tiers(key, state) {
  const groups = { ...state.owned, ...state.memory, swap: state.swap };
  return h("div", {}, state.active_task ? h("p", {}, h("b", {}, "Active task: "), state.active_task) : null,
    Object.entries(groups).map(([tier, items]) => h("section", { class: "tier" }, h("h2", {}, `${tier} (${items.length})`),
      items.length ? table(`Items of ${tier}`, ["Item", "Content", "Strength", "Origin", "Learned from", "Since"], items.map((item) => row([
        h("span", {}, item.id, item.pinned ? badge("pinned") : null, item.successor ? h("small", {}, ` replaced by ${item.successor}`) : null),
        item.content, strength(1 - item.decay), item.origin, source(key, item.source), `round ${item.first}`])))
        : empty("empty"))));
}

function strength(value) {
  return h("span", { class: "strength" }, svg("svg", { viewBox: "0 0 60 10", width: 60, height: 10, "aria-hidden": "true" },
    svg("rect", { width: 60, height: 10, class: "ground" }), svg("rect", { width: 60 * value, height: 10, class: "fill" })), ` ${value.toFixed(2)}`);
}

function source(key, name) {
  const found = /^messages:(\d+)/.exec(name ?? "");
  return found ? h("a", { href: path(key, "message", found[1]) }, name) : name || "–";
}

// The turn of a message is found page by page, newest first.
async function messageTurn(key, [wanted]) {
  for (let before = null; before !== 0;) {
    const page = await get("turns", { ...key, before });
    const found = page.turns.find(({ numbers }) => numbers && numbers[0] <= Number(wanted) && Number(wanted) <= numbers[1]);
    if (found) {
      location.replace(path(key, "turn", found.id, found.event));
      return { element: empty("…") };
    }
    before = page.before;
  }
  return { element: empty(`No turn of this session has message ${wanted}.`) };
}

async function cache(key) {
  const { turns: newest } = await get("turns", key);
  const known = newest.filter((each) => each.stable !== null && each.stable !== undefined).reverse();
  const width = 930 / Math.max(known.length, 1);
  const chart = svg("svg", { viewBox: "0 0 1000 130", class: "chart", role: "img", "aria-label": "Share of the prefix that stayed the same, by turn" },
    known.map((each, at) => svg("rect", { x: 40 + at * width, width: Math.max(width - 1, 0.5), y: 110 - 100 * each.stable, height: 100 * each.stable, class: each.changed ? "broken" : "fill" },
      svg("title", {}, `round ${each.round}: ${percent(each.stable)}`))));
  return { element: h("section", {}, h("h1", {}, "Prompt cache"),
    h("p", {}, "Providers cache the beginning of a request that is the same as before. This is the share of each request that was."),
    known.length ? h("figure", {}, chart) : empty("No turn has sent a pack yet."),
    table("Requests, newest first", ["Round", "Same prefix", "First difference", "Tokens in", "Cached by the provider"], known.slice().reverse().map((each) => row([
      h("a", { href: path(key, "turn", each.id, each.event) }, each.round), percent(each.stable), each.changed || "–", number(each.tokens_in), number(each.cached)])))) };
}

async function compare(key, [before, after]) {
  const { turns: newest } = await get("turns", key);
  if (before === "previous") {
    const at = newest.findIndex((each) => each.id === after);
    before = newest[at + 1]?.id;
  }
  const choose = (chosen, change) => h("select", { onchange: (event) => change(event.target.value) },
    newest.map((each) => h("option", { value: each.id, selected: each.id === chosen }, `#${each.round} ${visible(each.said).slice(0, 60)}`)));
  after = after ?? newest[0]?.id;
  before = before ?? newest[1]?.id ?? after;
  const go = (one, other) => { location.hash = path(key, "compare", one, other); };
  const picks = h("p", {}, h("label", {}, "From ", choose(before, (value) => go(value, after))), h("label", {}, " to ", choose(after, (value) => go(before, value))));
  if (!before) return { element: h("section", {}, h("h1", {}, "Compare"), empty("There are no two turns yet.")) };
  const found = await get("compare", { ...key, before, after });
  const list = (title, items) => (items.length ? table(title, ["Kind", "What", "Tokens", "Why"], items.map((each) =>
    row([each.kind, `${each.uri.replace("session:", "")} ${each.part}`, number(each.tokens), each.reason]))) : h("p", { class: "note" }, `${title}: none.`));
  return { element: h("section", {}, h("h1", {}, `Turn ${found.before} and turn ${found.after}`), picks, list("Entered the request", found.entered), list("Left the request", found.left),
    found.operations.length ? table("Memory operations in between", ["Turn", "Operation", "Item", "Tier", "Why"], found.operations.map((each) =>
      row([each.turn, each.kind, each.id, each.tier ?? "", each.reason ?? ""]))) : h("p", { class: "note" }, "Memory did not change in between.")) };
}

async function missing(key) {
  const { missing: found } = await get("missing", key);
  return { element: h("section", {}, h("h1", {}, "Missing context"), found.length ? table("What the model lacked or asked for",
    ["Status", "Severity", "Question or source", "Why", "Remedy"], found.map((each) => row([badge(each.status, each.status === "open" ? "warn" : ""), each.severity,
      h("span", {}, each.question, h("small", {}, ` ${each.source}`)), each.reason || each.needed_for, each.resolution || each.remedy])))
    : empty("Nothing is missing.")) };
}

async function preview(key) {
  const said = h("textarea", { id: "said", rows: 3, placeholder: "What does the user say?" });
  const model = h("input", { id: "model", value: "gpt-4o", autocomplete: "off" });
  const budget = h("input", { id: "budget", type: "range", min: 1000, max: 64000, step: 500, value: 32000 });
  const shown = h("output", { for: "budget" }, tokens(32000));
  const result = h("div", { "aria-live": "polite" });
  let asked = 0;
  const ask = async () => {
    shown.textContent = tokens(budget.value);
    if (!said.value.trim()) return;
    const turn = ++asked;
    try {
      const found = await post("preview", { ...key, message: said.value, model: model.value, budget: Number(budget.value) });
      if (turn === asked) result.replaceChildren(pack(found));
    } catch (error) {
      if (turn === asked) result.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
  };
  let timer = 0;
  const later = () => { clearTimeout(timer); timer = setTimeout(ask, 150); };
  said.addEventListener("input", later);
  model.addEventListener("input", later);
  budget.addEventListener("input", later);
  return { element: h("section", {}, h("h1", {}, "What would this message send?"), h("p", {}, "Nothing is sent or written."),
    h("p", {}, h("label", { for: "said" }, "Message"), h("br"), said),
    h("p", {}, h("label", { for: "model" }, "Model "), model, " ", h("label", { for: "budget" }, "Budget "), budget, shown), result) };
}

export const VIEWS = {
  sessions: { title: "Sessions", show: sessions },
  turns: { title: "Turns", tab: true, show: turns },
  turn: { title: "Turn", show: turn },
  message: { title: "Message", show: messageTurn },
  memory: { title: "Memory", tab: true, show: memory },
  cache: { title: "Cache", tab: true, show: cache },
  compare: { title: "Compare", tab: true, show: compare },
  missing: { title: "Missing", tab: true, show: missing },
  preview: { title: "Preview", tab: true, show: preview },
};
