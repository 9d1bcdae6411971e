// Asks the server for what is new, and draws it. Everything that is computed is computed by the server (headgate.watch.model).

import { $, legend, make, many, milliseconds, moment, number, pairs, percent, put, seconds, size, svg, whole } from "./dom.js";
import { channelBars, lines, mark, timeline } from "./charts.js";

const EVERY = 1000;
const WORDS = { done: "carried out", refused: "refused", advised: "advised" };
const ASK = new URLSearchParams(location.search);
let data = null, tag = "", chosen = Number(ASK.get("stage") ?? 0), drawn = "", replayed = null;

document.body.classList.toggle("small", ASK.has("small"));

async function poll() {
  try {
    const answer = await fetch("data", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (answer.status === 200) {
      tag = answer.headers.get("ETag") ?? "";
      data = await answer.json();
      draw();
    }
    say(answer.ok || answer.status === 304 ? data?.problem ?? "" : `the server answers ${answer.status}`);
  } catch {
    say("This page has lost its server: the query's process, or headgate watch, has ended.");
  }
  age();
  setTimeout(poll, EVERY);
}

function say(words) {
  $("problem").textContent = words;
  $("problem").hidden = !words;
}

const stage = () => data?.stages[chosen];

function age() {
  const one = stage();
  const ago = one?.committed_at ? Date.now() / 1000 - one.committed_at : null;
  const last = ago === null ? "" : `last batch ${seconds(Math.max(0, Math.round(ago)))} ago`;
  $("state").textContent = [data?.state, last].filter(Boolean).join(", ");
  $("state").className = data?.state === "failed" ? "failed" : data?.state === "running" || (ago !== null && ago < 30) ? "fresh" : "";
}

function draw() {
  if (!data) return;
  const one = stage();
  $("name").textContent = data.name;
  document.title = `headgate: ${data.name}`;
  tabs();
  $("operator").textContent = one ? `${one.operator} by ${one.key.join(", ")}` : "";
  const begun = one !== undefined && one.batch !== null;
  $("main").hidden = !begun;
  $("nothing").hidden = begun;
  if (!begun) return;
  const now = `${chosen}/${one.batch}`;
  document.body.dataset.batch = one.batch;
  figures(one);
  channels(one);
  timeline($("timeline"), one.timeline, data.steps);
  const steps = Object.keys(data.steps).filter((name) => one.timeline.some((batch) => batch.steps[name] > 0));
  legend($("steps-legend"), [
    ...steps.map((name) => [`fill-${name === "rest" ? "rest-step" : name}`, data.steps[name]]),
    ...["done", "refused", "advised"].filter((kind) => one.timeline.some((batch) => batch.decision === kind)).map((kind) => [mark(5, 5, kind), `a plan was ${WORDS[kind]}`]),
  ]);
  keys(one);
  if (now !== drawn) decisions(one);
  clock(one);
  memory(one);
  policies();
  if (replayed && replayed.stage === chosen) beside(replayed.answer);
  drawn = now;
}

function tabs() {
  $("stages").hidden = data.stages.length < 2;
  put($("stages"), ...data.stages.map((one, number) => {
    const button = make("button", { type: "button", "aria-pressed": String(number === chosen) }, `stage ${number}: by ${one.key.join(", ")}`);
    button.onclick = () => { chosen = number; replayed = null; $("beside").hidden = $("totals").hidden = true; draw(); age(); };
    return button;
  }));
}

function figures(one) {
  const waiting = one.timeline.at(-1).waiting;
  pairs($("figures"), [
    ["batch", whole(one.batch)],
    ["rows", whole(one.rows)],
    ["rows a second", one.rows_per_s === null ? "–" : whole(one.rows_per_s)],
    ["batch time", milliseconds(one.timeline.at(-1).ms)],
    ["busiest / mean", `${number(one.load.imbalance)}×`, `rows ${number(one.load.row_imbalance)}×, at best ${number(one.load.row_bound)}×`],
    ["channels, bins", `${whole(one.channels)}, ${whole(one.bins)}`],
    ["rows waiting", whole(waiting)],
    ["routing table", `${whole(one.table)}`],
  ], true);
}

function channels(one) {
  $("channels-words").textContent = one.load.unit === "ms" ? "busy time in the last batch, and the bins in it" : "rows in the last batch, and the bins in it";
  const kinds = channelBars($("bars"), one.load, (words) => { $("picked").textContent = words; });
  legend($("bars-legend"), [
    ["fill-bin", "bins (tap one to see it)"], ["fill-rest", "small bins together"], ["fill-came", "just moved here"],
    ["fill-goes", "moves after this batch"], ["fill-pinned", "a key of its own"], ["fill-disk", "on disk"],
  ].filter(([kind]) => kinds.has(kind)));
  const chips = [["came", one.load.came], ["goes", one.load.goes]].flatMap(([kind, moves]) => moves.map((move) =>
    make("li", { class: kind, "data-bin": move.bin }, `bin ${move.bin}: ${move.from ?? "new"} → ${move.to}`, ` (${many(move.rows, "row")}, ${size(move.state_bytes)})`)));
  put($("moves"), ...chips);
}

function keys(one) {
  const most = Math.max(...one.hot_keys.map((key) => key.share), 0.0001);
  const shown = one.hot_keys.map((key) => {
    const bar = svg("svg", { preserveAspectRatio: "none", viewBox: "0 0 100 1", "aria-hidden": "true" },
      svg("rect", { width: (100 * key.share) / most, height: 1, class: key.pinned ? "fill-pinned" : "fill-blue" }));
    const where = `${many(key.rows, "row")}, ${key.bins.length > 1 ? `${key.bins.length} bins` : `bin ${key.bins[0]}`}, channel ${key.channels.join(", ")}${key.pinned ? ", a bin of its own" : ""}`;
    return make("div", { class: "key" }, make("span", {}, key.label), make("b", {}, percent(key.share)), bar, make("small", {}, where));
  });
  put($("hot"), ...(shown.length ? shown : [make("p", { class: "soft" }, "No key stands out.")]));
}

function decisions(one) {
  const shown = one.decisions.map((decision) => {
    const why = [decision.reason, decision.refusal && `${decision.refusal.replaceAll("_", " ")}: ${decision.detail}`].filter(Boolean).join("; ");
    const what = [
      decision.moves.length && many(decision.moves.length, "move"), decision.pins.length && many(decision.pins.length, "pin"),
      decision.unpins.length && many(decision.unpins.length, "unpin"), decision.channels !== null && `${decision.channels} channels`,
      decision.gain > 0 && `gain ${percent(decision.gain)}`,
    ].filter(Boolean).join(", ");
    const summary = make("summary", {}, `batch ${whole(decision.batch)} `, make("span", { class: `kind ${decision.kind}` }, WORDS[decision.kind]),
      what ? ` ${what}` : "", make("br"), make("span", { class: "soft" }, why));
    return make("li", { "data-batch": decision.batch, "data-kind": decision.kind }, make("details", {}, summary, make("pre", {}, [...decision.text, decision.remedy && !decision.text.some((line) => line.includes(decision.remedy)) ? decision.remedy : ""].filter(Boolean).join("\n"))));
  });
  put($("decided"), ...(shown.length ? shown : [make("li", { class: "soft" }, one.mode === "observe" ? "None: this stage only observes." : "None yet: nothing had to be changed.")]));
}

function clock(one) {
  const time = one.event_time;
  $("lag").toggleAttribute("hidden", !time || time.history.length < 2 || time.history.some(([, , lag]) => lag === null));
  if (!time) {
    pairs($("clock"), [["watermark", "this stage has no event time"]]);
    return;
  }
  const behind = time.watermark === null ? null : Date.now() / 1000 - time.watermark;
  pairs($("clock"), [
    ["watermark", time.complete ? "the input is complete" : time.watermark === null ? "none yet" : moment(time.watermark)],
    ["newest event", time.newest === null ? "none yet" : moment(time.newest)],
    ["lag: behind the clock", behind === null ? "–" : seconds(behind)],
    ...Object.entries(time.counts).map(([reason, count]) => [`rows ${reason}`, whole(count)]),
  ]);
  if (!$("lag").hasAttribute("hidden")) {
    lines($("lag"), [{ name: "lag", colour: "violet", area: true, values: time.history.map(([, , lag]) => lag) }],
      { unit: seconds, label: "lag at each commit", first: `batch ${whole(time.history[0][0])}`, last: whole(time.history.at(-1)[0]) });
  }
}

function memory(one) {
  const last = one.timeline.at(-1), ends = { first: `batch ${whole(one.timeline[0].batch)}`, last: whole(last.batch) };
  pairs($("held"), [
    ["rows waiting", whole(last.waiting)],
    ["state", size(last.state_bytes)],
    ["on disk", size(last.disk_bytes)],
    ["memory limit", last.memory_limit ? size(last.memory_limit) : "none"],
  ]);
  $("waiting").toggleAttribute("hidden", !one.timeline.some((batch) => batch.waiting));
  if (!$("waiting").hasAttribute("hidden")) lines($("waiting"), [{ name: "waiting", colour: "red", area: true, values: one.timeline.map((batch) => batch.waiting) }], { unit: number, label: "rows that wait", ...ends });
  lines($("state-bytes"), [
    { name: "state", colour: "blue", area: true, values: one.timeline.map((batch) => batch.state_bytes) },
    ...(last.disk_bytes ? [{ name: "disk", colour: "soft", values: one.timeline.map((batch) => batch.disk_bytes) }] : []),
  ], { unit: size, label: last.disk_bytes ? "state, and below it what is on disk" : "state", ...ends });
}

function policies() {
  if ($("policy").options.length) return;
  put($("policy"), ...data.policies.map((name) => make("option", { value: name }, name)));
  $("policy").value = stage().decisions.length ? "static" : "flux-load";
}

$("ask").onsubmit = async (event) => {
  event.preventDefault();
  $("refusal").textContent = "";
  const policy = $("policy").value;
  try {
    const answer = await fetch(`whatif?stage=${chosen}&policy=${encodeURIComponent(policy)}`, { cache: "no-store" });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.message);
    replayed = { stage: chosen, answer: found };
    beside(found);
  } catch (error) {
    $("refusal").textContent = error.message;
  }
};

function beside(found) {
  $("beside").removeAttribute("hidden");
  lines($("beside"), ["recorded", "replayed"].map((run) => ({ name: run, colour: run === "recorded" ? "soft" : "green", values: found.batches.map((batch) => batch[run].busiest_ms) })),
    { height: 170, unit: milliseconds, label: "busiest channel of each batch", first: `batch ${whole(found.batches[0].batch)}`, last: whole(found.batches.at(-1).batch) });
  legend($("beside-legend"), [["fill-soft", `recorded: ${found.recorded}`], ["fill-green", `replayed: ${found.policy}`]]);
  const rows = [
    ["", "recorded", "replayed"],
    ["busiest channels, sum", ...both(found, (run) => milliseconds(run.busiest_ms))],
    ["busiest / mean, on average", ...both(found, (run) => number(run.mean_imbalance))],
    ["bins moved", ...both(found, (run) => whole(run.moves))],
    ["keys pinned", ...both(found, (run) => whole(run.pins))],
    ["state moved", ...both(found, (run) => size(run.moved_bytes))],
  ];
  put($("totals"), ...rows.map((row, at) => make("tr", {}, ...row.map((cell, column) => make(at && column ? "td" : "th", {}, cell)))));
  $("totals").hidden = false;
  $("about").textContent = `${many(found.count, "batch", "batches")}. ${found.about}.`;
}

const both = (found, shown) => [shown(found.summary.recorded), shown(found.summary.replayed)];

let width = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth !== width) {
    width = document.body.clientWidth;
    draw();
  }
}).observe(document.body);

poll();
