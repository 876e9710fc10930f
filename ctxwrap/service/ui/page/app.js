// Routes, data, live updates and keys.

import { h, visible } from "./dom.js";
import { VIEWS } from "./views.js";

const main = document.getElementById("main");
const tabs = document.getElementById("tabs");
const crumbs = document.getElementById("crumbs");
const live = document.getElementById("live");
let shown = 0;
let source = null;
let onChange = null;

export async function get(view, query = {}) {
  const known = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== null && value !== undefined));
  return read(await fetch(`api/${view}?${new URLSearchParams(known)}`));
}

export async function post(view, body) {
  const headers = { "content-type": "application/json" };
  return read(await fetch(`api/${view}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function read(response) {
  if (response.headers.get("content-type")?.startsWith("application/json")) {
    const found = await response.json();
    if (response.ok) return found;
    throw new Error(found.error);
  }
  throw new Error((await response.text()) || `the server answered ${response.status}`);
}

// #/ lists sessions; #/s/TENANT/AGENT/SESSION/VIEW/... shows one.
export function path(key, ...rest) {
  return `#/${["s", key.tenant, key.agent, key.session, ...rest].map(encodeURIComponent).join("/")}`;
}

function route() {
  const [, ...parts] = location.hash.split("/").map(decodeURIComponent);
  if (parts[0] !== "s" || parts.length < 4) return { view: "sessions", key: null, rest: [] };
  const [, tenant, agent, session, view = "turns", ...rest] = parts;
  return { view: view in VIEWS ? view : "turns", key: { tenant, agent, session }, rest };
}

async function show() {
  const current = ++shown;
  const { view, key, rest } = route();
  header(key, view, rest);
  follow(key);
  onChange = null;
  main.setAttribute("aria-busy", "true");
  try {
    const made = await VIEWS[view].show(key, rest);
    if (current !== shown) return;
    main.replaceChildren(made.element);
    onChange = made.changed ?? null;
    made.ready?.();
  } catch (error) {
    if (current === shown) main.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }
  main.removeAttribute("aria-busy");
  main.dataset.view = view;
}

function header(key, view, rest) {
  document.title = key ? `${visible(key.session)} · ${VIEWS[view].title}` : "ctxwrap";
  crumbs.replaceChildren(...(key ? [h("a", { href: "#/" }, "Sessions"), h("span", { "aria-hidden": "true" }, "/"),
    h("a", { href: path(key), "aria-current": view === "turns" ? "page" : null }, key.session),
    ...(rest.length ? [h("span", { "aria-hidden": "true" }, "/"), h("span", {}, VIEWS[view].title)] : [])] : []));
  tabs.hidden = !key;
  tabs.replaceChildren(...(key ? Object.entries(VIEWS).filter(([, each]) => each.tab).map(([name, each]) =>
    h("a", { href: path(key, name), "aria-current": name === view ? "page" : null }, each.title)) : []));
}

// The server says when the session's log has grown; a view decides what to do about it.
function follow(key) {
  const wanted = key ? `api/live?${new URLSearchParams(key)}` : null;
  if (source && source.wanted === wanted) return;
  source?.stream.close();
  source = null;
  live.textContent = "";
  if (!wanted) return;
  const stream = new EventSource(wanted);
  source = { wanted, stream };
  let known = null;
  stream.onmessage = (event) => {
    const counts = JSON.parse(event.data);
    live.textContent = `live · round ${counts.round}`;
    if (known !== null) onChange?.(counts, known);
    known = counts;
  };
  stream.onerror = () => { live.textContent = "not connected"; };
}

function move(by) {
  const list = main.querySelector(".virtual");
  if (list?.move) return list.move(by);
  const rows = [...main.querySelectorAll("tbody tr a, li a")].filter((each) => each.offsetParent);
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

const help = document.getElementById("help");
document.getElementById("keys").addEventListener("click", () => help.showModal());

const KEYS = {
  "/": () => { location.hash = "#/"; setTimeout(() => document.getElementById("search")?.focus(), 100); },
  j: () => move(1),
  k: () => move(-1),
  u: () => { const { key, rest } = route(); location.hash = key && rest.length ? path(key) : "#/"; },
  "?": () => help.showModal(),
};
for (const [sign, view] of Object.entries({ t: "turns", m: "memory", c: "cache", p: "preview" })) {
  KEYS[sign] = () => { const { key } = route(); if (key) location.hash = path(key, view); };
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog[open]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
window.addEventListener("hashchange", show);
show();
