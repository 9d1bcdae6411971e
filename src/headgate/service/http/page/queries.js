// Queries: register, explain, pause, resume, remove; their results with a chart; publish them as a source.

import { call, may } from "./api.js";
import { make, number, put, seconds } from "./dom.js";
import { button, chart, draw, form, range, table } from "./parts.js";

const SHOWN = 100;
const EXAMPLE = "SELECT city, avg(temp) AS temp FROM weather GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')";
const state = { chosen: null, cursor: null, rows: [], delays: [], column: "", explained: null, pages: [-1], list: [] };
const places = {};

export const view = { name: "queries", title: "Queries", build, refresh };

function build() {
  for (const name of ["list", "detail", "results", "publish"]) places[name] = make("div", { id: `query-${name}` });
  const add = form("", [
    { name: "sql", label: "SQL", kind: "area", rows: 4, hold: EXAMPLE, hint: "Several statements are separated by semicolons." },
    { name: "name", label: "Name", hold: "optional" },
  ], register, { send: "Register", id: "add" });
  const text = form("Explain a text without registering it", [{ name: "sql", label: "SQL", kind: "area", rows: 3, keep: true, hold: EXAMPLE }],
    async ({ sql }) => explanation(await call("POST /explain", {}, { sql: sql || EXAMPLE })), { send: "Explain" });
  return [
    make("section", {}, make("h2", {}, "Queries"), ...(may("writer") ? [add] : []), text, make("div", { class: "scroll" }, places.list)),
    make("section", {}, places.detail, places.results, places.publish),
  ];
}

// Semicolons inside of quotes separate nothing.
export function statements(text) {
  return (text.match(/(?:'[^']*'|"[^"]*"|[^;'"])+/g) || []).map((one) => one.trim()).filter(Boolean);
}

async function register({ sql, name }) {
  const texts = statements(sql);
  if (texts.length <= 1) {
    const made = await call("POST /queries", {}, { sql: texts[0] || sql, name });
    choose(made.id);
    return "";
  }
  const queries = texts.map((one, i) => ({ sql: one, name: name ? `${name} ${i + 1}` : "" }));
  const { results, registered } = await call("POST /queries/bulk", {}, { queries });
  list();
  const refused = results.flatMap((one, i) => (one.message ? [make("li", { class: "bad" }, `statement ${i + 1}: ${one.message}`)] : []));
  return [`${registered} of ${texts.length} registered.`, make("ul", {}, ...refused)];
}

async function list() {
  const after = state.pages[state.pages.length - 1];
  const { queries, count } = await call("GET /queries", { after, limit: 200 });
  state.list = queries;
  const columns = [
    ["id", "tight", (q) => q.id],
    ["query", "", (q) => [make("div", { class: "sql" }, q.sql), ...(q.name && q.name !== `q${q.id}` ? [make("small", { class: "soft" }, q.name)] : [])]],
    ["state", "tight", (q) => make("span", { class: q.state === "failed" ? "bad" : "soft", title: q.why }, q.state)],
    ["", "tight", (q) => (may("writer") ? actions(q) : [])],
  ];
  const pager = make("p", { class: "soft" }, `${count.toLocaleString("en-US")} in all `);
  if (state.pages.length > 1) pager.append(button("back", () => { state.pages.pop(); return list(); }));
  if (queries.length === 200) pager.append(button("more", () => { state.pages.push(queries[199].id); return list(); }));
  draw(places.list, table(queries, columns, {
    empty: "No query yet.", chosen: (q) => q.id === state.chosen, choose: (q) => choose(q.id),
  }), pager);
}

function actions(q) {
  const active = q.state === "active";
  const turn = active
    ? button("pause", async () => { await call("POST /queries/{number}/pause", { number: q.id }); choose(state.chosen); }, { title: "It costs nothing until it is resumed; its results so far are gone." })
    : button("resume", async () => { await call("POST /queries/{number}/resume", { number: q.id }); choose(state.chosen); }, { title: "It starts afresh with the next batch." });
  const remove = button("remove", async () => {
    await call("DELETE /queries/{number}", { number: q.id });
    choose(state.chosen === q.id ? null : state.chosen);
  }, { sure: "really?" });
  return [turn, " ", remove];
}

function choose(id) {
  Object.assign(state, { chosen: id, cursor: null, rows: [], delays: [], explained: null });
  refresh();
}

async function results() {
  if (state.chosen === null) return;
  const of = state.chosen, answer = await call("GET /queries/{number}/results", { number: of, limit: 1000, cursor: state.cursor });
  if (of !== state.chosen) return;
  if (state.cursor !== null) {
    const ends = answer.results.map((row) => moment(row.window ? row.window.end : row.time)).filter((at) => !Number.isNaN(at));
    state.delays = [...state.delays, ...ends.map((at) => (Date.now() - at) / 1000)].slice(-200);
  }
  state.cursor = answer.cursor;
  state.rows = [...answer.results.reverse(), ...state.rows].slice(0, SHOWN);
}

const moment = (text) => Date.parse(/[Z+]/.test(text.slice(10)) ? text : `${text}Z`);
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

async function detail() {
  if (state.chosen === null) {
    draw(places.detail, make("h2", {}, "Results"), make("p", { class: "soft" }, "Choose a query on the left."));
    put(places.results);
    put(places.publish).dataset.of = "";
    return;
  }
  const query = state.list.find((one) => one.id === state.chosen) || (await call("GET /queries/{number}", { number: state.chosen }));
  const parts = [make("h2", {}, `Query ${query.id} `, make("span", { class: "soft" }, query.state))];
  if (query.why) parts.push(make("p", { class: "bad" }, query.why));
  parts.push(make("p", {}, button(state.explained ? "hide the explanation" : "explain", async () => {
    state.explained = state.explained ? null : await call("GET /queries/{number}/explain", { number: query.id });
    await detail();
  })));
  if (state.explained) parts.push(explanation(state.explained));
  if (state.delays.length) {
    parts.push(make("p", { class: "soft" }, `latency ${seconds(median(state.delays))}: from an event, or the end of its window, to this page; median of ${state.delays.length} results`));
  }
  draw(places.detail, ...parts);
  if (may("writer") && places.publish.dataset.of !== String(query.id)) publishing(query.id);
  draw(places.results, ...shown());
}

function publishing(number) {
  put(places.publish, form("Publish its results as a source", [
    { name: "name", label: "Name of the source" },
    { name: "delay_s", label: "Rows may be late by (s)", kind: "number", hint: "Empty: as late as those of the query's sources." },
  ], async ({ name, delay_s }) => {
    const made = await call("POST /queries/{number}/publish", { number }, { name, ...(delay_s === null ? {} : { delay_s }) });
    return `Source ${made.name}: ${Object.entries(made.columns).map(([column, type]) => `${column} ${type}`).join(", ")}`;
  }, { send: "Publish" })).dataset.of = String(number);
}

function explanation(found) {
  const lines = Object.entries(found).flatMap(([name, value]) => [
    make("dt", {}, name.replaceAll("_", " ")),
    make("dd", {}, Array.isArray(value) ? value.join(name === "placement" ? "\n" : ", ") : String(value)),
  ]);
  return make("dl", { class: "facts" }, ...lines);
}

function shown() {
  const { rows } = state;
  if (!rows.length) return [make("p", { class: "soft", id: "waiting" }, "Nothing yet: results come with the next batches.")];
  const names = Object.keys(rows[0].values);
  const columns = [
    [rows[0].window ? "window" : "time", "soft", (row) => (row.window ? row.window.start : row.time).slice(0, 19).replace("T", " ")],
    ...names.map((name) => [name, "", (row) => plain(row.values[name])]),
  ];
  return [...drawn(names), make("div", { class: "scroll" }, table(rows, columns))];
}

const plain = (v) => (v === null ? "–" : typeof v === "number" ? (Number.isInteger(v) ? v : v.toFixed(3)) : String(v));

function drawn(names) {
  const numeric = names.filter((name) => state.rows.some((row) => typeof row.values[name] === "number"));
  if (!numeric.length || state.rows.length < 2) return [];
  if (!numeric.includes(state.column)) state.column = numeric[0];
  const select = make("select", { "aria-label": "column of the chart" }, ...numeric.map((name) => make("option", name === state.column ? { selected: "" } : {}, name)));
  select.onchange = () => { state.column = select.value; select.blur(); draw(places.results, ...shown()); };
  const points = state.rows.map((row) => row.values[state.column]).reverse().map((v) => (typeof v === "number" ? v : null));
  const known = points.filter((v) => v !== null);
  return [
    make("label", { class: "soft" }, "chart of ", select),
    chart([{ points }], { name: `${state.column} of the latest results, oldest first` }),
    range("oldest", `from ${number(Math.min(...known))} to ${number(Math.max(...known))}`, "newest"),
  ];
}

async function refresh() {
  await Promise.all([list(), results()]);
  await detail();
}
