// Elements, charts and lists. Texts become text nodes only: nothing from a session is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(visible(child)))));
  return element;
}

// Characters that change the direction or hide text are shown by their code.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function visible(value) {
  return String(value).replace(HIDDEN, (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

export const number = (value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en"));
export const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
export const time = (value) => {
  const date = new Date(value);
  return !value || Number.isNaN(date.valueOf()) ? "–" : date.toLocaleString("sv").replace("T", " ");
};

export function table(caption, heads, rows) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows)));
}

export const row = (cells, attributes = {}) => h("tr", attributes, cells.map((cell) => h("td", {}, cell)));

const COLOURS = 9;
const colours = new Map();
export function colour(kind) {
  if (!colours.has(kind)) colours.set(kind, colours.size % COLOURS);
  return `k${colours.get(kind)}`;
}

// One bar in parts; a legend beside it names them, so colour is never the only sign.
export function stackedBar(parts, total, label) {
  let at = 0;
  const shown = parts.filter((part) => part.tokens > 0);
  const whole = Math.max(total, shown.reduce((sum, part) => sum + part.tokens, 0), 1);
  const pieces = shown.map((part) => {
    const piece = svg("rect", { x: (1000 * at) / whole, y: 0, width: Math.max((1000 * part.tokens) / whole, 1.5), height: 28, class: colour(part.name) },
      svg("title", {}, `${part.name}: ${number(part.tokens)} tokens`));
    at += part.tokens;
    return piece;
  });
  return h("figure", { class: "bar" },
    svg("svg", { viewBox: "0 0 1000 28", preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("rect", { x: 0, y: 0, width: 1000, height: 28, class: "ground" }), pieces),
    h("figcaption", {}, h("ul", { class: "legend" }, shown.map((part) =>
      h("li", {}, h("span", { class: `dot ${colour(part.name)}`, "aria-hidden": "true" }), `${part.name} ${number(part.tokens)}`)))));
}

export function lineChart(lines, { label, from, to, marks = [], at = null }) {
  const x = (value) => 40 + (930 * (value - from)) / Math.max(to - from, 1);
  const y = (value) => 10 + 200 * (1 - value);
  return svg("svg", { viewBox: "0 0 1000 240", class: "chart", role: "img", "aria-label": label },
    [0, 0.5, 1].map((value) => [
      svg("line", { x1: 40, x2: 970, y1: y(value), y2: y(value), class: "grid" }),
      svg("text", { x: 34, y: y(value) + 4, "text-anchor": "end" }, value)]),
    marks.map((mark) => [
      svg("line", { x1: 40, x2: 970, y1: y(mark.value), y2: y(mark.value), class: "mark" }),
      svg("text", { x: 970, y: y(mark.value) - 4, "text-anchor": "end" }, mark.name)]),
    lines.map((line) => svg("polyline", { class: `line ${colour(line.name)}`, "data-id": line.name, points: line.points.map(([round, value]) => `${x(round)},${y(value)}`).join(" ") },
      svg("title", {}, line.title))),
    at === null ? null : svg("line", { x1: x(at), x2: x(at), y1: 10, y2: 210, class: "cursor" }),
    svg("text", { x: 40, y: 232 }, `round ${from}`),
    svg("text", { x: 970, y: 232, "text-anchor": "end" }, `round ${to}`));
}

// A list of rows of one height. Only the rows in view exist; `more` is asked for rows behind the last one.
export function virtualList(label, height, draw, more) {
  const rows = [];
  const list = h("ol", { "aria-label": label });
  const view = h("div", { class: "virtual", tabindex: 0, role: "region", "aria-label": label }, list);
  let ended = false, waiting = false, begun = -1, count = -1;
  function render() {
    list.style.height = `${rows.length * height}px`;
    const first = Math.max(0, Math.floor(view.scrollTop / height) - 5);
    const shown = Math.ceil((view.clientHeight || 600) / height) + 10;
    if (first !== begun || count !== rows.length) {
      const focused = document.activeElement?.closest?.("li")?.dataset.at;
      list.replaceChildren(...rows.slice(first, first + shown).map((each, at) => {
        const item = h("li", { "data-at": first + at, "aria-posinset": first + at + 1, "aria-setsize": ended ? rows.length : -1 }, draw(each));
        item.style.top = `${(first + at) * height}px`;
        item.style.height = `${height}px`;
        return item;
      }));
      [begun, count] = [first, rows.length];
      if (focused !== undefined) list.querySelector(`[data-at="${focused}"] a`)?.focus({ preventScroll: true });
    }
    if (!ended && !waiting && first + shown >= rows.length - 20) fetchMore();
  }
  async function fetchMore() {
    waiting = true;
    const found = await more();
    waiting = false;
    ended = found === null;
    if (found) rows.push(...found);
    count = -1;
    render();
  }
  view.addEventListener("scroll", () => requestAnimationFrame(render), { passive: true });
  return {
    view, rows, render,
    prepend(found) { rows.unshift(...found); count = -1; render(); },
    replaceFirst(each) { rows[0] = each; count = -1; render(); },
    scrollTo(at) {
      const top = at * height;
      if (top < view.scrollTop) view.scrollTop = top;
      else if (top + height > view.scrollTop + view.clientHeight) view.scrollTop = top + height - view.clientHeight;
      begun = -1;
      render();
      list.querySelector(`[data-at="${at}"] a`)?.focus({ preventScroll: true });
    },
  };
}
