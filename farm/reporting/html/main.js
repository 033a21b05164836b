// The page as a whole: the overview, the address, the keyboard, the colours.

const STATES = { complete: null, cancelled: "cancelled before its end", over_budget: "stopped by its budget", running: "still running", aggregating: "still running" };

// #case=ID&trial=2&q=…&outcome=failed&sort=…: a place that can be bookmarked, and sent to others.
function addressOf(row, trial) {
  const parts = new URLSearchParams();
  if (row) parts.set("case", row.id);
  if (trial) parts.set("trial", trial);
  if (view.q) parts.set("q", view.q);
  if (view.outcomes.size) parts.set("outcome", [...view.outcomes].join(","));
  if (view.flaky) parts.set("flaky", "1");
  for (const key of ["tag", "file", "agent"]) if (view[key]) parts.set(key, view[key]);
  if (view.sort !== "outcome" || view.down) parts.set("sort", (view.down ? "-" : "") + view.sort);
  const text = parts.toString();
  return text && `#${text}`;
}

function hrefOf(row) {
  return addressOf(row);
}

function readAddress() {
  const text = location.hash.slice(1);
  if (text && !text.includes("=")) {
    try {
      return { row: rowById.get(decodeURIComponent(text)), trial: 0 };
    } catch {
      return { row: undefined, trial: 0 };
    }
  }
  const parts = new URLSearchParams(text);
  const sort = parts.get("sort") || "outcome";
  Object.assign(view, {
    q: parts.get("q") || "",
    outcomes: new Set((parts.get("outcome") || "").split(",").filter((outcome) => OUTCOMES.includes(outcome))),
    flaky: parts.has("flaky"),
    tag: parts.get("tag") || "",
    file: parts.get("file") || "",
    agent: parts.get("agent") || "",
    sort: sort.replace(/^-/, ""),
    down: sort.startsWith("-"),
  });
  return { row: rowById.get(parts.get("case")), trial: Number(parts.get("trial") || 0) };
}

let listScroll = 0;

function route() {
  const { row, trial } = readAddress();
  const before = openRow;
  if (row && !before) listScroll = window.scrollY;
  openRow = row || null;
  document.body.classList.toggle("has-case", Boolean(row));
  byId("case").hidden = !row;
  byId("overview").hidden = Boolean(row);
  refresh();
  if (row) {
    if (row !== before) window.scrollTo(0, 0);
    document.title = `${plain(row.id)} – ${plain(run.suite)}`;
    showCase(row, trial);
    scrollToRow(row);
    byId("case-title").focus({ preventScroll: true });
  } else {
    document.title = `${plain(run.suite)}: ${headline()}`;
    opening++;
    byId("case").replaceChildren();
    if (before) {
      window.scrollTo(0, listScroll);
      draw(true);
      body.querySelector(`[data-case="${before.index}"]`)?.focus({ preventScroll: true });
    }
  }
}

function headline() {
  const { passed, cases } = run.totals;
  return `${counted.format(passed)} of ${counted.format(cases)} passed`;
}

function outcomeBar() {
  const total = run.totals.cases || 1;
  const order = ["passed", "failed", "errored", "cancelled", "skipped"].filter((outcome) => run.totals[outcome]);
  return h("div", { class: "bar", role: "img", "aria-label": order.map((outcome) => `${run.totals[outcome]} ${outcome}`).join(", ") },
    order.map((outcome) => {
      const part = h("span", { class: outcome, title: `${run.totals[outcome]} ${outcome}` });
      part.style.flexGrow = String(Math.max(run.totals[outcome] / total, 0.004));
      return part;
    }));
}

function buildOverview() {
  const totals = run.totals;
  const engine = run.engine;
  const judges = totals.judge_cost_usd;
  const hasTokens = typeof totals.input_tokens === "number" || typeof totals.output_tokens === "number";
  const worst = OUTCOMES.find((outcome) => outcome !== "skipped" && totals[outcome]) || "skipped";
  const state = STATES[run.state];
  byId("overview").append(
    h("div", { class: "hero" },
      h("div", { class: "hero-head" },
        h("h1", { class: worst }, headline(), state && h("span", { class: "badge cancelled" }, state)),
        h("p", { class: "run-line" },
          h("span", {}, "Run ", h("code", {}, run.run_id), copyButton(() => run.run_id, "Copy", "Copy the run's id")),
          h("span", {}, "started ", when(run.started_at)),
          run.finished_at && h("span", {}, "ended ", when(run.finished_at)),
          run.regraded_from && h("span", {}, "judged again from run ", h("code", {}, run.regraded_from)))),
      outcomeBar(),
      h("dl", { class: "facts" },
        fact("Score", score(totals.score), "the weighted mean of the cases"),
        fact("Duration", duration(run.duration_ms)),
        typeof judges === "number"
          ? [fact("Cost, agents", cost(totals.cost_usd)), fact("Cost, judges", cost(judges))]
          : fact("Cost", cost(totals.cost_usd)),
        hasTokens && fact("Tokens in / out", `${tokens(totals.input_tokens)} / ${tokens(totals.output_tokens)}`),
        fact("Workers", counted.format(engine.workers)),
        fact("Sessions", counted.format(engine.executions), engine.duplicate_executions ? `${engine.duplicate_executions} of them were not counted` : "that were run"),
        fact("Retries", counted.format(engine.retries), "attempts after an error of the infrastructure"))));
}

function buildTop() {
  byId("home").append(h("span", { class: "logo", "aria-hidden": "true" }), h("b", {}, run.suite || "Report"), h("code", {}, run.run_id));
  byId("home").setAttribute("title", "All cases");
  byId("top-counts").append(...OUTCOMES.filter((outcome) => run.totals[outcome]).map((outcome) =>
    h("span", { class: `top-count ${outcome}` }, mark(outcome), counted.format(run.totals[outcome]))));
  byId("foot").append(h("p", {}, h("kbd", {}, "/"), " search ", h("kbd", {}, "j"), " ", h("kbd", {}, "k"), " next and previous case ", h("kbd", {}, "Esc"), " all cases ", h("kbd", {}, "d"), " colours"));
}

const THEMES = ["system", "light", "dark"];
const GLYPHS = { system: "◐", light: "☀", dark: "☾" };

function kept(value) {
  try {
    if (value) localStorage.setItem("farm-theme", value);
    return localStorage.getItem("farm-theme");
  } catch {
    return value || null; // a page from a disk may not be allowed to keep anything
  }
}

let theme = "system";

function setTheme(next) {
  theme = THEMES.includes(next) ? next : "system";
  document.documentElement.dataset.theme = theme;
  const button = byId("theme");
  button.textContent = GLYPHS[theme];
  button.setAttribute("aria-label", theme === "system" ? "Colours: as the system" : `Colours: ${theme}`);
  button.title = button.getAttribute("aria-label");
}

function switchTheme() {
  setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  kept(theme);
}

function step(by) {
  const at = shownRows.indexOf(openRow);
  const next = openRow ? shownRows[at + by] : shownRows[0];
  if (next && next !== openRow) location.hash = hrefOf(next);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (isTyping) event.target.blur();
    else if (openRow) location.hash = addressOf(null);
    return;
  }
  if (isTyping) return;
  const actions = { "/": () => { if (openRow && !isWide()) location.hash = addressOf(null); search.focus(); search.select(); }, j: () => step(1), k: () => step(-1), d: switchTheme };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
}

function isWide() {
  return window.matchMedia("(min-width: 1100px)").matches;
}

function beforePrint() {
  printing = true;
  for (const element of document.querySelectorAll("#case details")) { element.fill?.(); element.open = true; }
  draw(true);
}

setTheme(kept());
buildTop();
buildOverview();
buildTable();
byId("theme").addEventListener("click", switchTheme);
byId("skip").addEventListener("click", (event) => { event.preventDefault(); search.focus(); });
window.addEventListener("hashchange", route);
window.addEventListener("keydown", onKey);
window.addEventListener("beforeprint", beforePrint);
window.addEventListener("afterprint", () => { printing = false; draw(true); });
route();
