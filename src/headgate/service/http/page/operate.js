// Servers, the time and traffic of batches, and whether the service is ready.

import { account, call } from "./api.js";
import { make, milliseconds, size } from "./dom.js";
import { bar, button, chart, draw, range, table } from "./parts.js";

const places = {};

export const view = { name: "operate", title: "Servers", build, refresh };

function build() {
  for (const name of ["ready", "servers", "time", "replication", "traffic"]) places[name] = make("div", { id: `operate-${name}` });
  return [
    make("section", {}, places.ready, make("h2", { class: "next" }, "Servers"), places.servers),
    make("section", {}, places.time, places.replication, places.traffic),
  ];
}

async function refresh() {
  const [{ servers }, { batches }, ready] = await Promise.all([call("GET /servers"), call("GET /traffic", { last: 200 }), readiness()]);
  draw(places.ready, ...ready);
  const admin = account.role === "admin";
  const columns = [
    ["server", "tight", (s) => s.server],
    ["load of its limit", "wide", (s) => bar(s.limit ? s.load / s.limit : 0, `${s.load} of ${s.limit}`)],
    ["computations", "number", (s) => s.computations],
    ["sources", "number", (s) => make("span", { title: s.first_sources.join(", ") }, String(s.sources))],
    ["busy", "number", (s) => (s.busy_ms == null ? "–" : milliseconds(s.busy_ms))],
    ["", "tight", (s) => (admin ? button("remove", async () => { await call("DELETE /servers/{number}", { number: s.server }); await refresh(); }, { sure: "its queries move: sure?" }) : [])],
  ];
  const add = admin ? [make("p", {}, button("add a server", async () => { await call("POST /servers"); await refresh(); }))] : [];
  draw(places.servers, table(servers, columns), ...add);
  if (batches.length) charts(batches);
}

async function readiness() {
  try {
    const found = await call("GET /ready");
    return [make("h2", {}, "Ready"), make("p", { class: "soft" }, found.failed?.count ? `${found.failed.count} queries have failed.` : "No query has failed.")];
  } catch (error) {
    return [make("h2", { class: "bad" }, "Not ready"), make("p", { class: "bad" }, error.message)];
  }
}

function charts(batches) {
  const last = batches[batches.length - 1], first = `batch ${batches[0].batch}`, newest = `batch ${last.batch}`;
  const part = (place, title, words, series, low, extent) => draw(place, make("h2", { class: "next" }, `${title} `, make("span", { class: "soft" }, words)),
    chart(series, { low, name: `${title}, batch by batch` }), range(first, extent, newest));
  const times = batches.map((b) => b.wall_ms), sent = batches.map((b) => b.sent_bytes), factors = batches.map((b) => b.replication);
  part(places.time, "Time of a batch", milliseconds(last.wall_ms), [{ points: times }], 0, `from 0 to ${milliseconds(Math.max(...times))}`);
  part(places.replication, "Replication factor", last.replication.toFixed(2), [{ points: factors }], 1, `from ${Math.min(...factors).toFixed(2)} to ${Math.max(...factors).toFixed(2)}`);
  part(places.traffic, "Traffic of a batch", `measured ${size(last.sent_bytes)}, predicted ${last.predicted_bytes == null ? "–" : size(last.predicted_bytes)}`,
    [{ points: sent }, { points: batches.map((b) => b.predicted_bytes), kind: "line dashed" }], 0, `from 0 to ${size(Math.max(...sent))}; dashed: predicted`);
}
