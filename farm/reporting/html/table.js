// The table of cases: search, filters, sorting, and of its rows only those that can be seen.

const COLUMNS = [
  { key: "outcome", label: "Outcome", of: (row) => OUTCOMES.indexOf(row.outcome) },
  { key: "id", label: "Case", of: (row) => row.index },
  { key: "agent", label: "Agent", of: (row) => row.agent + (row.model || "") },
  { key: "score", label: "Score", of: (row) => row.score, number: true },
  { key: "duration", label: "Duration", of: (row) => row.durationMs, number: true },
  { key: "tokens", label: "Tokens", of: (row) => row.tokens, number: true },
  { key: "cost", label: "Cost", of: (row) => row.costUsd, number: true },
].filter((column) => !["tokens", "cost"].includes(column.key) || rows.some((row) => column.of(row) !== null));

// All rows have the same height, so that what can be seen is a matter of arithmetic.
const ROW_HEIGHT = 58;
const ROWS_AROUND = 8;
const ROWS_ON_PAPER = 5000;

const view = { q: "", outcomes: new Set(), flaky: false, tag: "", file: "", agent: "", sort: "outcome", down: false };
let shownRows = rows;

function matches(row, words) {
  return (!view.outcomes.size || view.outcomes.has(row.outcome))
    && (!view.flaky || row.flaky)
    && (!view.tag || row.tags.includes(view.tag))
    && (!view.file || row.file === view.file)
    && (!view.agent || agentOf(row) === view.agent)
    && words.every((word) => wordsOf(row).includes(word));
}

function agentOf(row) {
  return row.model ? `${row.agent} · ${row.model}` : row.agent;
}

// What is not known comes last in either direction; equals stay in the order of their ids.
function sorted(found) {
  const column = COLUMNS.find((known) => known.key === view.sort) || COLUMNS[0];
  const sign = view.down ? -1 : 1;
  return found.sort((a, b) => {
    const [left, right] = [column.of(a), column.of(b)];
    if (left === right) return a.index - b.index;
    if (left === null) return 1;
    if (right === null) return -1;
    return sign * (left < right ? -1 : 1);
  });
}

function choice(label, key, values) {
  if (values.length < 2) return null;
  const select = h("select", { id: `filter-${key}`, "aria-label": label },
    h("option", { value: "" }, `${label}: all`), values.map((value) => h("option", { value }, value)));
  select.addEventListener("change", () => change({ [key]: select.value }));
  return select;
}

const unique = (values) => [...new Set(values)].sort();

const search = h("input", {
  type: "search", id: "search", placeholder: "Search cases, files, tags, reasons…", "aria-label": "Search cases",
  autocomplete: "off", spellcheck: "false",
});
search.addEventListener("input", () => change({ q: search.value }));

const chips = new Map(OUTCOMES.filter((outcome) => run.totals[outcome]).map((outcome) => {
  const chip = h("button", { type: "button", class: `chip ${outcome}`, "aria-pressed": "false" },
    h("span", { class: "dot", "aria-hidden": "true" }), outcome, h("b", {}, counted.format(run.totals[outcome])));
  chip.addEventListener("click", () => toggleOutcome(outcome));
  return [outcome, chip];
}));

const flakyChip = run.totals.flaky
  ? h("button", { type: "button", class: "chip flaky", "aria-pressed": "false", onclick: () => change({ flaky: !view.flaky }) },
    h("span", { class: "dot", "aria-hidden": "true" }), "flaky", h("b", {}, counted.format(run.totals.flaky)))
  : null;

const selects = {
  tag: choice("Tag", "tag", unique(rows.flatMap((row) => row.tags))),
  file: choice("File", "file", unique(rows.map((row) => row.file))),
  agent: choice("Agent", "agent", unique(rows.map(agentOf))),
};

const clear = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => change({ q: "", outcomes: new Set(), flaky: false, tag: "", file: "", agent: "" }) }, "Clear filters");
const countLine = h("p", { class: "count", role: "status", "aria-live": "polite" });

function toggleOutcome(outcome) {
  const outcomes = new Set(view.outcomes);
  if (!outcomes.delete(outcome)) outcomes.add(outcome);
  change({ outcomes });
}

const heads = COLUMNS.map((column) => {
  const button = h("button", { type: "button", onclick: () => change(
    view.sort === column.key ? { down: !view.down } : { sort: column.key, down: Boolean(column.number) },
  ) }, column.label, h("span", { class: "arrow", "aria-hidden": "true" }));
  return h("div", { role: "columnheader", class: `cell ${column.key}`, "data-column": column.key }, button);
});

const body = h("div", { role: "rowgroup", class: "rows" });
const nothing = h("p", { class: "nothing", hidden: true }, "No case matches. ");
const table = h("div", { role: "table", class: "table", "aria-label": "Cases" },
  h("div", { role: "rowgroup", class: "heads" }, h("div", { role: "row", class: "row" }, heads)), body, nothing);

function cellsOf(row) {
  const about = row.reason || [row.name, row.file].filter(Boolean).join(" · ");
  const cells = {
    outcome: () => [mark(row.outcome), row.trials.length > 1 && h("span", { class: "trials", title: row.trials.join(", ") },
      `${row.trials.filter((outcome) => outcome === "passed").length}/${row.trials.length}`)],
    id: () => [
      h("span", { class: "first" },
        h("a", { class: "name", href: hrefOf(row), "data-case": row.index, title: plain(row.id) }, row.id),
        row.flaky && badge("flaky", "flaky"),
        row.tags.slice(0, 3).map((tag) => h("span", { class: "tag" }, tag))),
      h("span", { class: `about ${row.reason ? row.outcome : ""}`, title: plain(about) }, about),
    ],
    agent: () => [h("span", {}, row.agent), row.model && h("span", { class: "about" }, row.model)],
    score: () => score(row.score),
    duration: () => duration(row.durationMs),
    tokens: () => tokens(row.tokens),
    cost: () => cost(row.costUsd),
  };
  return COLUMNS.map((column) => h("div", { role: "cell", class: `cell ${column.key}` }, cells[column.key]()));
}

function rowElement(row, position) {
  const element = h("div", {
    role: "row", class: `row ${row.outcome}`, "aria-rowindex": position + 2, "aria-current": row === openRow ? "true" : null,
  }, cellsOf(row));
  element.style.transform = `translateY(${position * ROW_HEIGHT}px)`;
  return element;
}

let openRow = null;
let printing = false;
let drawn = "";

function draw(force) {
  const outer = byId("cases").getBoundingClientRect();
  const inner = body.getBoundingClientRect();
  const top = Math.max(0, outer.top) - inner.top;
  let first = Math.max(0, Math.floor(top / ROW_HEIGHT) - ROWS_AROUND);
  let last = Math.min(shownRows.length, Math.ceil((top + window.innerHeight) / ROW_HEIGHT) + ROWS_AROUND);
  if (printing) [first, last] = [0, Math.min(shownRows.length, ROWS_ON_PAPER)];
  const now = `${first}-${last}`;
  if (!force && now === drawn) return;
  drawn = now;
  const focused = document.activeElement?.dataset?.case;
  body.style.height = `${shownRows.length * ROW_HEIGHT}px`;
  body.replaceChildren(...shownRows.slice(first, last).map((row, at) => rowElement(row, first + at)));
  if (focused) body.querySelector(`[data-case="${Number(focused)}"]`)?.focus({ preventScroll: true });
}

function refresh() {
  const words = view.q.toLowerCase().split(/\s+/);
  shownRows = sorted(rows.filter((row) => matches(row, words)));
  const isFiltered = shownRows.length !== rows.length || view.outcomes.size > 0;
  countLine.replaceChildren(shown(isFiltered ? `${counted.format(shownRows.length)} of ${plural(rows.length, "case")}` : plural(rows.length, "case")));
  clear.hidden = !(view.q || view.outcomes.size || view.flaky || view.tag || view.file || view.agent);
  nothing.hidden = shownRows.length > 0;
  table.setAttribute("aria-rowcount", String(shownRows.length + 1));
  if (search.value !== view.q) search.value = view.q;
  for (const [outcome, chip] of chips) chip.setAttribute("aria-pressed", String(view.outcomes.has(outcome)));
  flakyChip?.setAttribute("aria-pressed", String(view.flaky));
  for (const [key, select] of Object.entries(selects)) if (select) select.value = view[key];
  for (const head of heads) {
    const isSorted = head.dataset.column === view.sort;
    head.setAttribute("aria-sort", isSorted ? (view.down ? "descending" : "ascending") : "none");
  }
  draw(true);
}

// A change of the view goes into the address, without a step in the history: it can be shared, and kept.
function change(changes) {
  Object.assign(view, changes);
  history.replaceState(null, "", addressOf(openRow) || "#");
  refresh();
}

function scrollToRow(row) {
  const position = shownRows.indexOf(row);
  if (position < 0) return;
  const pane = byId("cases");
  const at = position * ROW_HEIGHT;
  if (pane.scrollHeight > pane.clientHeight + 1 && getComputedStyle(pane).overflowY === "auto") {
    const offset = body.offsetTop + at;
    if (offset < pane.scrollTop + 40 || offset > pane.scrollTop + pane.clientHeight - 2 * ROW_HEIGHT) pane.scrollTop = offset - pane.clientHeight / 3;
  }
  draw(true);
}

function buildTable() {
  byId("cases").append(
    h("div", { class: "toolbar" },
      h("div", { class: "search" }, search, h("kbd", { "aria-hidden": "true" }, "/")),
      h("div", { class: "chips", role: "group", "aria-label": "Outcomes" }, [...chips.values()], flakyChip),
      h("div", { class: "selects" }, Object.values(selects), clear)),
    countLine, table);
  document.addEventListener("scroll", () => draw(false), { capture: true, passive: true });
  window.addEventListener("resize", () => draw(true));
  body.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const index = event.target.dataset?.case;
    if (!step || index === undefined) return;
    event.preventDefault();
    const next = shownRows[shownRows.indexOf(rows[index]) + step];
    if (!next) return;
    const find = () => body.querySelector(`[data-case="${next.index}"]`);
    find()?.focus();
    find()?.scrollIntoView({ block: "nearest" });
  });
}
