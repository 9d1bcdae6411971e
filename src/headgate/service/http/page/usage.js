// Usage: what a tenant uses of its limits; for admins, that of everyone, and limits of single tenants.

import { account, call } from "./api.js";
import { make, number, size, whole } from "./dom.js";
import { bar, draw, form, table } from "./parts.js";

const LIMITED = [
  ["queries", whole],
  ["templates", whole],
  ["sources", whole],
  ["rows_s", number],
  ["state_bytes", size],
  ["result_bytes", size],
];
const places = {};
const titled = (name) => (name === "rows_s" ? "rows pushed a second" : name.replaceAll("_", " "));

export const view = { name: "usage", title: "Usage", build, refresh };

function build() {
  for (const name of ["own", "all"]) places[name] = make("div", { id: `usage-${name}` });
  const set = form("Set a limit of a tenant", [
    { name: "name", label: "Tenant" },
    { name: "limit", label: "Limit", kind: "choice", choices: [...LIMITED.map(([name]) => name), "tenant_seconds", "batch_part"] },
    { name: "value", label: "Value", kind: "number", hint: "Empty: the limit of everyone." },
  ], async ({ name, limit, value }) => {
    const found = await call("PUT /tenants/{name}/limits", { name }, { [limit]: value });
    await refresh();
    return `${name}: ${titled(limit)} ${found[limit] ?? ""}`;
  }, { send: "Set" });
  const everyone = account.role === "admin" ? [make("section", {}, make("h2", {}, "Everyone"), set, make("div", { class: "scroll" }, places.all))] : [];
  return [make("section", {}, make("h2", {}, "What you use"), places.own), ...everyone];
}

async function refresh() {
  const found = await call("GET /usage");
  draw(places.own, table(LIMITED.map(([name, shown]) => ({ name, shown, used: found[name], limit: found.limits[name] })), [
    ["", "tight", (one) => titled(one.name)],
    ["of the limit", "wide", (one) => bar(one.limit ? one.used / one.limit : 0, `${one.used} of ${one.limit}`)],
    ["used", "number", (one) => one.shown(one.used)],
    ["limit", "number soft", (one) => one.shown(one.limit)],
  ]), make("dl", { class: "facts" }, ...measured(found)));
  if (found.tenants) {
    draw(places.all, table(found.tenants, [
      ["tenant", "", (one) => one.tenant ?? "shared by several"],
      ["CPU s", "number", (one) => number(one.cpu_s)],
      ["rows", "number", (one) => whole(one.rows)],
      ["results", "number", (one) => whole(one.results)],
      ["waiting", "number", (one) => whole(one.waiting_rows)],
      ["state", "number", (one) => (one.state_bytes == null ? "–" : size(one.state_bytes))],
      ["kept", "number", (one) => (one.result_bytes == null ? "–" : size(one.result_bytes))],
    ]));
  }
}

function measured(found) {
  const facts = [
    [`CPU time of the last ${whole(found.batches)} batches`, `${number(found.cpu_s)} s`],
    ["rows read", whole(found.rows)],
    ["results", whole(found.results)],
    ["rows that wait for their turn", whole(found.waiting_rows)],
  ];
  return facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
}
