// Sources: declare one or many, push events, grant and revoke.

import { account, call, may } from "./api.js";
import { make } from "./dom.js";
import { button, draw, form, table } from "./parts.js";

const state = { chosen: null, pages: [""] };
const places = {};

export const view = { name: "sources", title: "Sources", build, refresh };

function build() {
  for (const name of ["list", "detail"]) places[name] = make("div");
  const declare = form("Declare a source", [
    { name: "name", label: "Name", hold: "road" },
    { name: "columns", label: "Columns", hold: "speed double, lane bigint", hint: "Types: bigint, double, varchar, boolean, timestamp. Every source has time." },
    { name: "delay_s", label: "Rows may be late by (s)", kind: "number", value: 5 },
    { name: "rate", label: "Traffic, relative to other sources", kind: "number", value: 1 },
  ], async ({ name, columns, delay_s, rate }) => {
    const declared = Object.fromEntries(columns.split(",").map((one) => one.trim().split(/\s+/)));
    await call("POST /sources", {}, { name, columns: declared, delay_s, rate });
    await refresh();
    return `Source ${name} is declared.`;
  }, { send: "Declare" });
  const many = form("Declare many", [
    { name: "sources", label: "JSON", kind: "area", rows: 5, hold: '[{"name": "road", "columns": {"speed": "double"}}]', hint: "All of them are declared, or none." },
  ], async ({ sources }) => {
    const { declared } = await call("POST /sources/bulk", {}, { sources: JSON.parse(sources) });
    await refresh();
    return `${declared} declared.`;
  }, { send: "Declare all" });
  return [
    make("section", {}, make("h2", {}, "Sources"), ...(may("writer") ? [declare, many] : []), make("div", { class: "scroll" }, places.list)),
    make("section", {}, places.detail),
  ];
}

async function refresh() {
  const { sources, count } = await call("GET /sources", { after: state.pages[state.pages.length - 1], limit: 200 });
  const columns = [
    ["source", "", (one) => one.name],
    ["columns", "soft", (one) => Object.entries(one.columns).map(([name, type]) => `${name} ${type}`).join(", ")],
    ["owner", "tight soft", (one) => one.owner],
    ["late by", "number tight", (one) => `${one.delay_s} s`],
  ];
  const pager = make("p", { class: "soft" }, `${count.toLocaleString("en-US")} in all `);
  if (state.pages.length > 1) pager.append(button("back", () => { state.pages.pop(); return refresh(); }));
  if (sources.length === 200) pager.append(button("more", () => { state.pages.push(sources[199].name); return refresh(); }));
  draw(places.list, table(sources, columns, {
    empty: "No source yet.", chosen: (one) => one.name === state.chosen?.name, choose: (one) => { state.chosen = one; detail(); },
  }), pager);
  if (!state.chosen) draw(places.detail, make("h2", {}, "A source"), make("p", { class: "soft" }, "Choose a source on the left."));
}

async function detail() {
  const source = state.chosen, own = account.role === "admin" || source.owner === account.tenant;
  const parts = [make("h2", {}, source.name), make("p", { class: "soft" }, `owned by ${source.owner}`)];
  if (own && may("writer")) parts.push(pushing(source), await granting(source));
  places.detail.replaceChildren(...parts);
  refresh();
}

function pushing(source) {
  const example = { time: new Date().toISOString().slice(0, 19) + "Z" };
  for (const [name, type] of Object.entries(source.columns)) example[name] = { bigint: 1, double: 1.5, boolean: true, varchar: "text" }[type] ?? example.time;
  return form("Push events", [
    { name: "events", label: "JSON", kind: "area", rows: 4, keep: true, hold: JSON.stringify([example]) },
  ], async ({ events }) => {
    const { accepted } = await call("POST /sources/{name}/events", { name: source.name }, { events: JSON.parse(events || JSON.stringify([example])) });
    return `${accepted} accepted.`;
  }, { send: "Push", open: true });
}

async function granting(source) {
  const { grants } = await call("GET /sources/{name}/grants", { name: source.name });
  const columns = [
    ["may read it", "", (to) => (to === "*" ? "everyone (*)" : to)],
    ["", "tight", (to) => button("revoke", async () => { await call("DELETE /sources/{name}/grants/{reader}", { name: source.name, reader: to }); await detail(); }, { sure: "their queries stop: sure?" })],
  ];
  const grant = form("", [{ name: "to", label: "Tenant, or * for everyone" }], async ({ to }) => {
    await call("PUT /sources/{name}/grants/{reader}", { name: source.name, reader: to });
    await detail();
  }, { send: "Grant" });
  return make("div", {}, make("h2", { class: "next" }, "Grants"), table(grants, columns, { empty: "Only its owner and admins read it." }), grant);
}
