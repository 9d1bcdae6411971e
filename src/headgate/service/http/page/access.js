// Access: the tokens of a tenant, and for admins the tenants themselves.

import { account, call } from "./api.js";
import { make } from "./dom.js";
import { button, draw, form, secret, table } from "./parts.js";

const ROLES = ["reader", "writer", "admin"];
const state = { tenant: "" };
const places = {};

export const view = { name: "access", title: "Access", build, refresh };

function build() {
  for (const name of ["tenants", "tokens", "shown"]) places[name] = make("div", { id: `access-${name}` });
  state.tenant ||= account.tenant;
  const admin = account.role === "admin";
  const add = form("Add a tenant", [
    { name: "name", label: "Name" },
    { name: "role", label: "Role", kind: "choice", choices: ROLES, value: "writer" },
  ], async (tenant) => {
    const { token } = await call("POST /tenants", {}, tenant);
    await refresh();
    return secret(`The token of ${tenant.name}, which is shown only here:`, token);
  }, { send: "Add" });
  const create = form("Create a token", [
    { name: "label", label: "Label", hold: "what it is for" },
    { name: "role", label: "Role", kind: "choice", choices: ROLES, value: "reader" },
    { name: "expires_s", label: "Expires after (s)", kind: "number", hint: "Empty: it never expires." },
  ], async (token) => {
    const made = await call("POST /tenants/{name}/tokens", { name: state.tenant }, token);
    await refresh();
    return secret(`Token ${made.id}, which is shown only here:`, made.token);
  }, { send: "Create" });
  return [
    ...(admin ? [make("section", {}, make("h2", {}, "Tenants"), add, make("div", { class: "scroll" }, places.tenants))] : []),
    make("section", {}, make("h2", {}, "Tokens"), create, places.shown, places.tokens),
  ];
}

async function refresh() {
  if (account.role === "admin") await tenants();
  await tokens();
}

async function tenants() {
  const { tenants: found } = await call("GET /tenants", { limit: 1000 });
  const columns = [
    ["tenant", "", (one) => one.name],
    ["role", "tight", (one) => one.role],
    ["state", "tight soft", (one) => one.state],
    ["queries", "number", (one) => one.queries],
    ["sources", "number", (one) => one.sources],
    ["", "tight", (one) => (one.name === account.tenant || one.state === "removed" ? [] : changes(one))],
  ];
  draw(places.tenants, table(found, columns, {
    chosen: (one) => one.name === state.tenant, choose: (one) => { state.tenant = one.name; places.shown.replaceChildren(); refresh(); },
  }));
}

function changes({ name, state: now }) {
  const turn = now === "active"
    ? button("disable", async () => { await call("POST /tenants/{name}/disable", { name }); await refresh(); }, { sure: "pause its queries?" })
    : button("enable", async () => { await call("POST /tenants/{name}/enable", { name }); await refresh(); });
  const remove = button("remove", async () => { await call("DELETE /tenants/{name}", { name }); state.tenant = account.tenant; await refresh(); }, { sure: "for good?" });
  return [turn, " ", remove];
}

async function tokens() {
  const name = state.tenant;
  const [{ tokens: found }, about] = await Promise.all([call("GET /tenants/{name}/tokens", { name }), call("GET /tenants/{name}", { name })]);
  if (name !== state.tenant) return;
  const when = (text) => (text ? text.slice(0, 16).replace("T", " ") : "–");
  const columns = [
    ["id", "tight", (one) => make("code", {}, one.id)],
    ["label", "", (one) => one.label || "–"],
    ["role", "tight", (one) => one.role],
    ["state", "tight soft", (one) => one.state],
    ["expires", "tight soft", (one) => when(one.expires)],
    ["last used", "tight soft", (one) => when(one.used)],
    ["", "tight", (one) => (one.state === "active" ? renew(name, one) : [])],
  ];
  draw(places.tokens, make("p", { class: "soft" }, `of ${name}, whose role is ${about.role}`), make("div", { class: "scroll" }, table(found, columns)));
}

function renew(name, { id }) {
  const rotate = button("rotate", async () => {
    const made = await call("POST /tenants/{name}/tokens/{token_id}/rotate", { name, token_id: id }, { grace_s: 3600 });
    places.shown.replaceChildren(make("p", {}, ...secret(`The new token ${made.id}, which is shown only here. The old one is valid for an hour:`, made.token)));
    await refresh();
  }, { title: "A new token takes its place, and it stays valid for an hour." });
  const revoke = button("revoke", async () => { await call("DELETE /tenants/{name}/tokens/{token_id}", { name, token_id: id }); await refresh(); }, { sure: "at once?" });
  return [rotate, " ", revoke];
}
