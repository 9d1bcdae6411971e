// The audit log: who did what.

import { account, call } from "./api.js";
import { make } from "./dom.js";
import { button, draw, form, table } from "./parts.js";

const state = { of: "", pages: [null] };
const places = {};

export const view = { name: "audit", title: "Audit", build, refresh };

function build() {
  places.entries = make("div", { id: "audit-entries" });
  state.pages = [null];
  const filter = form("", [{ name: "of", label: "Tenant", hold: "all", keep: true }], async ({ of }) => { Object.assign(state, { of, pages: [null] }); await refresh(); }, { send: "Show" });
  return [make("section", {}, make("h2", {}, "Audit"), ...(account.role === "admin" ? [filter] : []), places.entries)];
}

async function refresh() {
  const { entries } = await call("GET /audit", { of: state.of, before: state.pages[state.pages.length - 1], limit: 100 });
  const columns = [
    ["at", "tight soft", (one) => one.at.slice(0, 19).replace("T", " ")],
    ["tenant", "tight", (one) => one.tenant || "–"],
    ["token", "tight soft", (one) => one.token || "–"],
    ["action", "", (one) => one.action],
    ["about", "", (one) => one.object || "–"],
    ["answer", "number", (one) => one.outcome || "–"],
    ["from", "tight soft", (one) => one.address || "–"],
    ["times", "number", (one) => one.count],
  ];
  const pager = make("p");
  if (state.pages.length > 1) pager.append(button("newer", () => { state.pages.pop(); return refresh(); }), " ");
  if (entries.length === 100) pager.append(button("older", () => { state.pages.push(entries[99].n); return refresh(); }));
  draw(places.entries, table(entries, columns, { empty: "Nothing yet." }), pager);
}
