// The pictures: each takes an <svg>, the data as the server prepared it, and draws in real pixels.

import { milliseconds, number, put, size, svg, whole } from "./dom.js";

const widthOf = (picture) => Math.max(260, picture.getBoundingClientRect().width || 600);

function sized(picture, height) {
  const width = widthOf(picture);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("height", height);
  return width;
}

function text(x, y, words, attributes = {}) {
  return svg("text", { x, y, ...attributes }, words);
}

// -- channels

export function channelBars(picture, load, onPick) {
  const count = load.bars.length;
  const row = count <= 12 ? 30 : count <= 40 ? 18 : 9;
  const bar = row * 0.66;
  const left = row > 9 ? 34 : 4, right = row > 9 ? 112 : 4, top = 18;
  const width = sized(picture, top + row * count + 4);
  const most = Math.max(load.mean, ...load.bars.map((one) => one.value)) || 1;
  const scale = (width - left - right) / most;
  const came = new Map(load.came.map((move) => [move.bin, move]));
  const goes = new Map(load.goes.map((move) => [move.bin, move]));
  const bins = picture.bins ??= new Map();
  const seen = new Set(), back = [], front = [], kinds = new Set();

  load.bars.forEach((one, place) => {
    const y = top + row * place;
    const total = one.segments.reduce((sum, part) => sum + part.rows, 0);
    let x = left;
    one.segments.forEach((part, at) => {
      const name = part.bin === null ? `rest ${one.channel}` : `bin ${part.bin}`;
      const long = total ? (part.rows / total) * one.value * scale : 0;
      const kind = kindOf(part, came, goes, at);
      kinds.add(kind);
      const rect = bins.get(name) ?? svg("rect", { width: 1, height: 1, class: "bin" });
      bins.set(name, rect);
      seen.add(name);
      rect.setAttribute("class", `bin ${kind}`);
      rect.dataset.bin = part.bin ?? "";
      rect.dataset.channel = one.channel;
      rect.style.transform = `translate(${x}px, ${y}px) scale(${Math.max(long, 0)}, ${bar})`;
      put(rect, svg("title", {}, told(part, one, came, goes)));
      rect.onclick = () => onPick(told(part, one, came, goes));
      x += long;
    });
    if (row > 9) {
      const busiest = one.value >= Math.max(...load.bars.map((other) => other.value));
      back.push(text(left - 8, y + bar * 0.78, String(one.channel), { "text-anchor": "end" }));
      const words = `${shownValue(one.value, load.unit)} · ${one.of_mean.toFixed(2)}×`;
      front.push(text(width, y + bar * 0.78, words, { "text-anchor": "end", class: busiest ? "strong value" : "value", "data-channel": one.channel }));
    }
  });
  for (const [name, rect] of bins) {
    if (!seen.has(name)) { rect.remove(); bins.delete(name); }
  }
  const at = left + load.mean * scale;
  front.push(svg("line", { x1: at, x2: at, y1: top - 4, y2: top + row * count, class: "mean" }));
  const end = at > width - 80 ? "end" : at < 60 ? "start" : "middle";
  front.push(text(at, 11, `mean ${shownValue(load.mean, load.unit)}`, { "text-anchor": end, class: "mean-label" }));
  const layer = picture.layer ??= svg("g");
  for (const rect of bins.values()) if (rect.parentNode !== layer) layer.append(rect);
  put(picture, ...back, layer, ...front);
  return kinds;
}

const shownValue = (value, unit) => {
  if (unit !== "ms") return `${whole(value)} rows`;
  return value < 100 ? `${value.toFixed(1)} ms` : milliseconds(value);
};

function kindOf(part, came, goes, at) {
  if (part.bin === null) return "fill-rest";
  if (goes.has(part.bin)) return "fill-goes";
  if (came.has(part.bin)) return "fill-came";
  if (part.on_disk) return "fill-disk";
  if (part.pinned) return "fill-pinned";
  return at % 2 ? "fill-odd" : "fill-bin";
}

function told(part, one, came, goes) {
  if (part.bin === null) return `channel ${one.channel}: ${whole(part.bins)} small bins, ${whole(part.rows)} rows, ${size(part.state_bytes)} of state`;
  const from = came.get(part.bin), to = goes.get(part.bin);
  return [
    `bin ${part.bin} on channel ${one.channel}: ${whole(part.rows)} rows, ${whole(part.keys)} keys, ${size(part.state_bytes)} of state`,
    part.label ? `hottest key ${part.label}` : "",
    part.on_disk ? "on disk" : "",
    from && from.from !== null ? `came from channel ${from.from}` : "",
    to ? `moves to channel ${to.to}` : "",
  ].filter(Boolean).join("; ");
}

// -- batches over time

export function timeline(picture, batches, steps) {
  const left = 56, right = 12, high = 150, strip = 22, low = 64, gap = 20;
  const width = sized(picture, high + strip + gap + low + 26);
  const room = width - left - right;
  const shown = batches.slice(-Math.max(10, Math.floor(room / 10)));
  const each = Math.min(48, room / shown.length);
  const most = nice(Math.max(...shown.map((one) => one.ms)) || 1);
  const parts = grid(left, width - right, 8, high, most, milliseconds);
  shown.forEach((one, place) => {
    const x = left + each * place;
    const column = svg("g", { class: "batch", "data-batch": one.batch }, svg("title", {}, toldBatch(one, steps)));
    let y = high;
    for (const [name, ms] of Object.entries(one.steps)) {
      const tall = (ms / most) * (high - 8);
      y -= tall;
      column.append(svg("rect", { x: x + 1, y, width: Math.max(1, each - 2), height: Math.max(0, tall), class: `fill-${name === "rest" ? "rest-step" : name}` }));
    }
    if (one.decision) column.append(mark(x + each / 2, high + 11, one.decision));
    parts.push(column);
  });
  const top = high + strip + gap;
  const worst = nice(Math.max(2, ...shown.map((one) => one.imbalance)), 1);
  const y = (value) => top + low - ((value - 1) / (worst - 1)) * low;
  parts.push(text(left, top - 7, "busiest / mean", { class: "soft" }));
  for (const value of [1, worst]) {
    parts.push(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }));
    parts.push(text(left - 8, y(value) + 4, number(value), { "text-anchor": "end" }));
  }
  const points = shown.map((one, place) => [left + each * (place + 0.5), y(one.imbalance)]);
  parts.push(path(points, "stroke-blue"));
  if (points.length < 40) parts.push(...points.map(([px, py]) => svg("circle", { cx: px, cy: py, r: 2.5, class: "fill-blue" })));
  const base = top + low + 18;
  parts.push(text(left, base, `batch ${whole(shown[0].batch)}`));
  if (shown.length > 1) parts.push(text(left + each * shown.length, base, whole(shown.at(-1).batch), { "text-anchor": "end" }));
  put(picture, ...parts);
}

export function mark(x, y, kind) {
  if (kind === "done") return svg("path", { d: `M${x - 4} ${y + 4}L${x} ${y - 4}L${x + 4} ${y + 4}Z`, class: "mark fill-done" });
  if (kind === "advised") return svg("circle", { cx: x, cy: y, r: 3.5, class: "mark fill-advised" });
  return svg("path", { d: `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`, class: "mark line stroke-red" });
}

function toldBatch(one, steps) {
  const parts = Object.entries(one.steps).map(([name, ms]) => `${milliseconds(ms)} ${steps[name]}`);
  return [`batch ${one.batch}: ${whole(one.rows)} rows in ${milliseconds(one.ms)}, busiest ${number(one.imbalance)} × the mean`, ...parts].join("\n");
}

// -- lines

export function lines(picture, series, { height = 110, unit = number, label = "", first = "", last = "" } = {}) {
  const left = 56, right = 12, top = label ? 20 : 8, base = height - 18;
  const width = sized(picture, height);
  const values = series.flatMap((one) => one.values).filter((value) => value !== null);
  const most = nice(Math.max(...values, 0) || 1);
  const parts = grid(left, width - right, top, base, most, unit);
  if (label) parts.push(text(left, 11, label));
  for (const one of series) {
    const step = (width - left - right) / Math.max(1, one.values.length - 1);
    const points = one.values.map((value, at) => [left + step * at, value === null ? null : base - (value / most) * (base - top)]).filter(([, y]) => y !== null);
    if (one.area && points.length > 1) parts.push(svg("path", { d: `${dOf(points)}L${points.at(-1)[0]} ${base}L${points[0][0]} ${base}Z`, class: `area fill-${one.colour}` }));
    parts.push(path(points, `stroke-${one.colour}`, one.name));
    if (points.length === 1) parts.push(svg("circle", { cx: points[0][0], cy: points[0][1], r: 3, class: `fill-${one.colour}` }));
  }
  parts.push(text(left, height - 3, first), text(width - right, height - 3, last, { "text-anchor": "end" }));
  put(picture, ...parts);
}

const dOf = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

const path = (points, kind, name = "") => svg("path", { d: dOf(points), class: `line ${kind}`, "data-name": name });

function grid(x1, x2, top, base, most, unit) {
  return [0, 0.5, 1].flatMap((part) => {
    const y = base - part * (base - top);
    return [svg("line", { x1, x2, y1: y, y2: y, class: "grid" }), text(x1 - 8, y + 4, unit(most * part), { "text-anchor": "end" })];
  });
}

export function nice(value, least = 0) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  const up = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value) * power;
  return Math.max(up, least);
}
