// Deliveries: results that go to a target by themselves.

import { call, may } from "./api.js";
import { make } from "./dom.js";
import { button, draw, form, secret, table } from "./parts.js";

const state = { chosen: null };
const places = {};

export const view = { name: "deliveries", title: "Deliveries", build, refresh };

function build() {
  for (const name of ["list", "detail", "targets", "shown"]) places[name] = make("div", { id: `delivery-${name}` });
  const add = form("Deliver results", [
    { name: "queries", label: "Queries", hold: "0, 1", hint: "Their numbers." },
    { name: "target", label: "Target", value: "webhook" },
    { name: "options", label: "Options, one on a line", kind: "area", rows: 2, hold: "url = ..." },
    { name: "start", label: "Begin with", kind: "choice", choices: ["kept", "new"], value: "kept", hint: "The results that are kept, or those that come." },
  ], async ({ queries, target, options, start }) => {
    const numbers = queries.split(/[\s,]+/).filter(Boolean).map(Number), lines = options.split("\n").filter((line) => line.includes("="));
    const named = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]));
    const made = await call("POST /deliveries", {}, { queries: numbers, target, options: named, start });
    await refresh();
    return made.secret ? secret("The secret that signs the requests, which is shown only here:", made.secret) : "Ordered.";
  }, { send: "Deliver" });
  return [
    make("section", {}, make("h2", {}, "Deliveries"), ...(may("writer") ? [add] : []), make("div", { class: "scroll" }, places.list)),
    make("section", {}, places.detail, places.shown, make("h2", { class: "next" }, "Targets"), places.targets),
  ];
}

async function refresh() {
  const [{ deliveries }, { targets }] = await Promise.all([call("GET /deliveries"), call("GET /targets")]);
  const columns = [
    ["id", "tight", (one) => one.id],
    ["query", "tight", (one) => one.query],
    ["target", "", (one) => one.target],
    ["state", "tight", (one) => make("span", { class: one.state === "stopped" ? "bad" : "soft", title: one.why }, one.state)],
    ["", "tight", (one) => (may("writer") ? actions(one) : [])],
  ];
  draw(places.list, table(deliveries, columns, {
    empty: "No delivery yet.", chosen: (one) => one.id === state.chosen, choose: (one) => { state.chosen = one.id; places.shown.replaceChildren(); refresh(); },
  }));
  draw(places.targets, table(targets, Object.keys(targets[0] || { target: "" }).map((name) => [name, "", (one) => one[name]]), { empty: "The operator allows none to you." }));
  await detail();
}

function actions({ id, state: now }) {
  const turn = now === "active"
    ? button("pause", async () => { await call("POST /deliveries/{number}/pause", { number: id }); await refresh(); })
    : button("resume", async () => { await call("POST /deliveries/{number}/resume", { number: id }); await refresh(); }, { title: "It goes on from where it stood." });
  const remove = button("remove", async () => { await call("DELETE /deliveries/{number}", { number: id }); state.chosen = null; await refresh(); }, { sure: "really?" });
  return [turn, " ", remove];
}

async function detail() {
  if (state.chosen === null) {
    draw(places.detail, make("h2", {}, "A delivery"), make("p", { class: "soft" }, "Choose a delivery on the left."));
    return;
  }
  const one = await call("GET /deliveries/{number}", { number: state.chosen });
  const facts = Object.entries(one).filter(([name]) => name !== "why").flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value))]);
  const skip = one.state === "stopped" && may("writer")
    ? [button("resume without what is lost", async () => { await call("POST /deliveries/{number}/resume", { number: one.id, skip: true }); await refresh(); }, { title: "Results that can no longer be read are not sent." })] : [];
  const rotate = one.target === "webhook" && may("writer")
    ? [button("rotate the secret", async () => {
      const made = await call("POST /deliveries/{number}/rotate", { number: one.id }, { grace_s: 3600 });
      places.shown.replaceChildren(make("p", {}, ...secret("The new secret, which is shown only here. The old one signs, too, for an hour:", made.secret)));
    }, { title: "Requests are signed with a new secret, and for an hour with the old one, too." })] : [];
  draw(places.detail, make("h2", {}, `Delivery ${one.id}`), ...(one.why ? [make("p", { class: "bad" }, one.why)] : []), make("dl", { class: "facts" }, ...facts), ...skip, " ", ...rotate);
}
