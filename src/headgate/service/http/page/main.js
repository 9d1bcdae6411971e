// The page: a view at a time, refreshed each second, and the token at its gate.

import { account, call, enter } from "./api.js";
import { $, make, put } from "./dom.js";
import { view as access } from "./access.js";
import { view as audit } from "./audit.js";
import { view as deliveries } from "./deliveries.js";
import { view as operate } from "./operate.js";
import { view as queries } from "./queries.js";
import { view as sources } from "./sources.js";
import { view as usage } from "./usage.js";

const VIEWS = [queries, sources, deliveries, usage, operate, access, audit];
const EVERY_MS = 1000;
let current = null;

function show() {
  const wanted = VIEWS.find((view) => view.name === location.hash.slice(1)) || queries;
  for (const link of $("views").children) link.toggleAttribute("aria-current", link.dataset.view === wanted.name);
  if (wanted === current) return;
  current = wanted;
  put($("main"), ...wanted.build());
  refresh();
}

async function status() {
  const now = await call("GET /status");
  for (const name of ["queries", "computations", "sources", "batch"]) $(name).textContent = now[name].toLocaleString("en-US");
  $("problem").textContent = now.failure ? now.failure : "";
}

async function begin() {
  const { tenant, role } = await call("GET /me");
  Object.assign(account, { tenant, role });
  $("who").textContent = `${account.tenant} (${account.role})`;
  $("gate").hidden = true;
  for (const id of ["main", "views", "leave"]) $(id).hidden = false;
  put($("views"), ...VIEWS.map((view) => make("a", { href: `#${view.name}`, "data-view": view.name }, view.title)));
  show();
}

function close(why = "") {
  current = null;
  account.role = "";
  put($("main"));
  $("gate").hidden = false;
  for (const id of ["main", "views", "leave"]) $(id).hidden = true;
  $("who").textContent = "";
  $("denied").textContent = why;
}

async function refresh() {
  try {
    if (!account.role) await begin();
    const view = current;
    await Promise.all([status(), view?.refresh()]);
  } catch (error) {
    if (error.status === 401) close(account.token ? "this token is not known, or no longer valid" : "");
    else $("problem").textContent = error.status ? error.message : "the service does not answer";
  }
}

$("gate").onsubmit = (event) => {
  event.preventDefault();
  enter($("token").value.trim());
  $("token").value = "";
  refresh();
};
$("leave").onclick = () => { enter(""); close(); };
window.onhashchange = () => { if (account.role) show(); };

async function run() {
  for (;;) {
    if (!document.hidden && (account.role || account.token)) await refresh();
    else if (!account.token) close($("denied").textContent);
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
}
run();
