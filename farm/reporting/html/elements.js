// Make elements out of text. Nothing here, or anywhere in the page, reads text as HTML.

const byId = (id) => document.getElementById(id);

// Control characters (line breaks and tabs are none), what turns the direction of text, what can't be seen,
// and halves of characters. Joiners stay: emoji are made with them.
const UNSEEN = /(?![\n\t\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
const UNSEEN_PARTS = /((?:(?![\n\t\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}])+)/u;

function escaped(text) {
  return Array.from(text, (char) => {
    const code = char.codePointAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  }).join("");
}

// Text with what can't be seen made visible, in one line of characters.
function plain(text) {
  return UNSEEN.test(text) ? text.split(UNSEEN_PARTS).map((part, at) => (at % 2 ? escaped(part) : part)).join("") : text;
}

// The same as nodes, the escapes marked as such.
function shown(text) {
  text = String(text ?? "");
  if (!UNSEEN.test(text)) return document.createTextNode(text);
  const nodes = document.createDocumentFragment();
  text.split(UNSEEN_PARTS).forEach((part, at) => {
    if (at % 2) nodes.append(h("span", { class: "escape", title: "not a character that can be seen" }, escaped(part)));
    else if (part) nodes.append(part);
  });
  return nodes;
}

// h("p", {class: "x", onclick: f}, "text", node, …): attributes are a fixed few, text is text.
const ATTRIBUTES = new Set([
  "class", "id", "type", "title", "role", "tabindex", "href", "for", "value", "placeholder", "open", "hidden",
  "lang", "scope", "datetime", "disabled", "selected", "target", "rel", "autocomplete", "spellcheck",
]);

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") || name.startsWith("data-") || ATTRIBUTES.has(name)) {
      element.setAttribute(name, value === true ? "" : String(value));
    } else throw new Error(`no attribute of ours: ${name}`);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : shown(child));
  }
  return element;
}

const OUTCOMES = ["failed", "errored", "cancelled", "passed", "skipped"];
const MARKS = { passed: "✓", failed: "✕", errored: "!", skipped: "–", cancelled: "⊘" };

function mark(outcome, label) {
  const known = MARKS[outcome] ? outcome : "skipped";
  return h("span", { class: `mark ${known}`, role: "img", "aria-label": label || known, title: label || known }, MARKS[known]);
}

function badge(outcome, text) {
  return h("span", { class: `badge ${MARKS[outcome] || outcome === "flaky" ? outcome : "skipped"}` }, text || outcome);
}

const counted = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function plural(count, word) {
  return `${counted.format(count)} ${word}${count === 1 ? "" : "s"}`;
}

function duration(ms) {
  if (typeof ms !== "number") return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function cost(usd) {
  if (typeof usd !== "number") return "–";
  return usd === 0 ? "$0" : `$${usd < 1 ? usd.toFixed(4) : usd.toFixed(2)}`;
}

function tokens(count) {
  return typeof count === "number" ? (count < 10000 ? counted.format(count) : compact.format(count)) : "–";
}

// Rounded down: 0.999 must not look like 1.
function score(value) {
  return typeof value === "number" ? (Math.floor(value * 100 + 1e-9) / 100).toFixed(2) : "–";
}

function when(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return shown(text);
  const local = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return h("time", { datetime: moment.toISOString(), title: `${moment.toISOString()} (UTC)` }, local);
}

function asText(value) {
  if (typeof value === "string") return value;
  try {
    return JSON.stringify(value, null, 2) ?? "";
  } catch {
    return "(nested too deeply to be shown)";
  }
}

function copyButton(text, name, label) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": label, title: label }, name);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = name; }, 1500);
  });
  return button;
}
