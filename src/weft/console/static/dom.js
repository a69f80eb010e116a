// Elements are made here and nowhere else. Text of others becomes text nodes: there is no way from it to markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const tag = (text, kind = "") => el("span", { class: `tag ${kind}` }, text);

export const facts = (entries, plain = false) =>
  el("dl", { class: plain ? "facts plain" : "facts" },
    entries.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));

// The address of a page, with parameters that may hold anything.
export const to = (page, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
};

// A table whose rows stay the same elements while their figures change, so that focus and selection stay, too.
// A column: {title, num, text: row -> string} or {title, make: row -> element} (made once) with {renew: true} (made again).
export class Table {
  constructor(columns, keyOf, caption, empty) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.rows = new Map();
    this.body = el("tbody");
    const head = columns.map((column) =>
      el("th", { scope: "col", class: [column.num && "num", column.wide && "wide-only"].filter(Boolean).join(" ") }, column.title));
    this.table = el("table", { "aria-label": caption }, el("thead", {}, el("tr", {}, head)), this.body);
    this.empty = empty;
    this.nothing = el("p", { class: "empty" }, "…"); // until there is an answer, nobody knows whether it is empty
    this.element = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, this.table, this.nothing);
  }

  update(rows) {
    const seen = new Set();
    let before = null;
    for (const row of rows) {
      const key = this.keyOf(row);
      seen.add(key);
      let shown = this.rows.get(key);
      if (!shown) this.rows.set(key, (shown = this.make(row)));
      this.columns.forEach((column, at) => {
        if (column.text) setText(shown.cells[at], column.text(row));
        else if (column.renew) shown.cells[at].replaceChildren(column.make(row));
      });
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== shown.element) this.body.insertBefore(shown.element, next);
      before = shown.element;
    }
    for (const [key, shown] of this.rows) {
      if (!seen.has(key)) {
        shown.element.remove();
        this.rows.delete(key);
      }
    }
    setText(this.nothing, this.empty);
    this.table.hidden = rows.length === 0;
    this.nothing.hidden = rows.length !== 0;
  }

  make(row) {
    const cells = this.columns.map((column) =>
      el("td", { class: [column.num && "num", column.wide && "wide-only"].filter(Boolean).join(" ") }, column.make && !column.renew ? column.make(row) : null));
    return { element: el("tr", { class: "link" }, cells), cells };
  }
}

// A small line of the last values.
export function sparkline(values) {
  const width = 120, height = 28, top = Math.max(...values, 1e-9);
  const picture = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  if (values.length < 2) return picture;
  const at = (value, index) => `${((index * width) / (values.length - 1)).toFixed(1)},${(height - 3 - (value / top) * (height - 6)).toFixed(1)}`;
  const line = values.map(at).join(" L");
  picture.append(svg("path", { class: "area", d: `M0,${height} L${line} L${width},${height} Z` }), svg("path", { d: `M${line}` }));
  return picture;
}
