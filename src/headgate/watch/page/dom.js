// Elements and numbers. Text is always set as text, never as HTML: keys and column names may be anything.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function put(node, ...children) {
  node.replaceChildren(...children);
  return node;
}

// Entries are [name, value], or [name, value, smaller words below the value].
export function pairs(node, entries, wrap = false) {
  const parts = entries.map(([name, value, note]) => [make("dt", {}, name), make("dd", {}, value, ...(note ? [make("small", {}, note)] : []))]);
  put(node, ...(wrap ? parts.map((both) => make("div", {}, ...both)) : parts.flat()));
}

// Entries are [class of a patch, words], or [an SVG element of 10 by 10, words].
export function legend(node, entries) {
  put(node, ...entries.map(([kind, words]) => {
    const patch = typeof kind === "string" ? svg("rect", { width: 10, height: 10, rx: 2, class: kind }) : kind;
    return make("span", {}, svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, patch), words);
  }));
}

export const whole = (value) => Math.round(value).toLocaleString("en-US");

export function number(value) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0 });
}

export const percent = (part) => `${(100 * part).toFixed(1)}%`;

export function size(bytes) {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= factor) return `${number(bytes / factor)} ${unit}`;
  }
  return `${whole(bytes)} B`;
}

export function milliseconds(value) {
  return value >= 10_000 ? `${number(value / 1000)} s` : `${number(value)} ms`;
}

export function seconds(value) {
  for (const [unit, factor] of [["years", 31_557_600], ["days", 86_400], ["h", 3600], ["min", 60]]) {
    if (Math.abs(value) >= 2 * factor) return `${number(value / factor)} ${unit}`;
  }
  return `${number(value)} s`;
}

export const moment = (at) => new Date(1000 * at).toISOString().replace("T", " ").replace(/\.?0*Z$/, "") + " UTC";

export const many = (count, one, several = `${one}s`) => `${whole(count)} ${count === 1 ? one : several}`;
