// What the views are made of: tables, forms, buttons that ask first, and lines drawn as SVG.

import { make, put, svg } from "./dom.js";

export function cell(content, kind = "") {
  const node = make("td", kind ? { class: kind } : {});
  node.append(...[content].flat().map((one) => (one instanceof Node ? one : String(one ?? "–"))));
  return node;
}

// `columns` are [heading, class, value of a row]; a value is a text, a node, or a list of them.
export function table(rows, columns, { empty = "", chosen = null, choose = null } = {}) {
  const head = make("tr", {}, ...columns.map(([name, kind]) => make("th", kind ? { class: kind } : {}, name)));
  const lines = rows.map((row) => {
    const line = make("tr", {}, ...columns.map(([, kind, value]) => cell(value(row), kind)));
    if (choose) {
      line.className = chosen && chosen(row) ? "row chosen" : "row";
      line.tabIndex = 0;
      line.onclick = () => choose(row);
      line.onkeydown = (event) => { if (event.key === "Enter" && event.target === line) choose(row); };
    }
    return line;
  });
  if (!rows.length && empty) lines.push(make("tr", {}, make("td", { class: "soft", colspan: columns.length }, empty)));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines));
}

// Tables are drawn anew each second: not while somebody holds one of their buttons.
export function draw(place, ...nodes) {
  if (place.querySelector(".asking")) return;
  const active = document.activeElement;
  if (active && active !== document.body && place.contains(active) && active.matches("input, select, textarea")) return;
  const scrolls = [...place.querySelectorAll(".scroll")].map((one) => one.scrollTop);
  put(place, ...nodes);
  place.querySelectorAll(".scroll").forEach((one, i) => { one.scrollTop = scrolls[i] || 0; });
}

// A button. With `sure`, a first click asks and a second one acts.
export function button(words, act, { sure = "", title = "", kind = "" } = {}) {
  const node = make("button", { type: "button", ...(title ? { title } : {}), ...(kind ? { class: kind } : {}) }, words);
  node.onclick = async (event) => {
    event.stopPropagation();
    if (sure && !node.classList.contains("asking")) {
      node.classList.add("asking");
      node.textContent = sure;
      setTimeout(() => { node.classList.remove("asking"); node.textContent = words; }, 4000);
      return;
    }
    node.classList.remove("asking");
    node.disabled = true;
    try { await act(); } catch (error) { report(node, error); } finally { node.disabled = false; }
  };
  return node;
}

function report(node, error) {
  const place = node.closest("section") || document.body, old = place.querySelector(":scope > .refusal");
  if (old) old.remove();
  const words = make("p", { class: "bad refusal", role: "alert" }, error.message);
  place.append(words);
  setTimeout(() => words.remove(), 15_000);
}

// `fields` are {name, label, kind: text | area | number | check | choice, ...}. `act` gets the values; what it
// returns is shown until the next time: a text, or a node.
export function form(title, fields, act, { send = "Save", open = false, id = "" } = {}) {
  const inputs = Object.fromEntries(fields.map((field) => [field.name, input(field)]));
  const said = make("p", { role: "status", class: "said" });
  const node = make("form", { class: "fields", ...(id ? { id } : {}) });
  for (const field of fields) {
    node.append(make("label", { class: field.kind === "check" ? "check" : "" }, make("span", {}, field.label), inputs[field.name]));
    if (field.hint) node.append(make("small", { class: "soft" }, field.hint));
  }
  node.append(make("p", {}, make("button", { class: "main" }, send)), said);
  node.onsubmit = async (event) => {
    event.preventDefault();
    put(said);
    said.className = "said";
    try {
      const answer = await act(Object.fromEntries(fields.map((field) => [field.name, value(field, inputs[field.name])])));
      for (const field of fields) if (!field.keep) reset(field, inputs[field.name]);
      put(said, ...[answer ?? ""].flat());
    } catch (error) {
      said.className = "said bad";
      put(said, error.message);
    }
  };
  if (!title) return node;
  return make("details", open ? { open: "" } : {}, make("summary", {}, title), node);
}

function input({ name, kind = "text", label, choices = [], rows = 3, value: given, hold = "" }) {
  if (kind === "choice") {
    return make("select", { name }, ...choices.map((one) => make("option", one === given ? { value: one, selected: "" } : { value: one }, one || "–")));
  }
  if (kind === "area") return make("textarea", { name, rows, placeholder: hold, "aria-label": label, spellcheck: "false" });
  if (kind === "check") return make("input", { name, type: "checkbox", ...(given ? { checked: "" } : {}) });
  return make("input", { name, type: kind, placeholder: hold, value: given ?? "", autocomplete: "off", step: "any" });
}

function value({ kind }, node) {
  if (kind === "check") return node.checked;
  if (kind === "number") return node.value === "" ? null : Number(node.value);
  return node.value.trim();
}

function reset({ kind, value: given }, node) {
  if (kind === "check") node.checked = Boolean(given);
  else if (kind !== "choice") node.value = given ?? "";
}

// A text that is shown once, such as a token: it can be copied.
export function secret(words, text) {
  const shown = make("code", { class: "secret" }, text);
  return [words, make("br"), shown, " ", button("copy", () => navigator.clipboard.writeText(text))];
}

export function chart(series, { low = null, name }) {
  const width = 600, height = 150, all = series.flatMap((one) => one.points).filter((v) => v != null);
  const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": name });
  if (!all.length) return node;
  const bottom = Math.min(low ?? Infinity, ...all), top = Math.max(...all), span = top - bottom || 1;
  const y = (v) => height - 14 - ((v - bottom) / span) * (height - 30);
  for (const { points, kind } of series) {
    const step = (width - 4) / Math.max(points.length - 1, 1);
    const places = points.map((v, i) => (v == null ? "" : `${(2 + i * step).toFixed(1)},${y(v).toFixed(1)}`)).join(" ");
    node.append(svg("polyline", { points: places, class: kind || "line" }));
  }
  return node;
}

export function range(...words) {
  return make("div", { class: "range" }, ...words.map((one) => make("span", {}, one)));
}

export function bar(part, title) {
  const inner = make("i");
  inner.style.width = `${Math.min(100, 100 * part)}%`;
  return make("div", { class: part > 0.9 ? "bar full" : "bar", title }, inner);
}
