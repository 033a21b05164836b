// One case: its trials, and of each the verdicts, the conversation and the changes.

function fact(label, value, title) {
  return h("div", { class: "fact", title }, h("dt", {}, label), h("dd", {}, value));
}

function verdictElement(verdict) {
  const isOpen = verdict.outcome !== "passed";
  const hits = (verdict.hits || []).map((hit) => h("li", { class: "hit" }, hit));
  const misses = (verdict.misses || []).map((miss) => h("li", { class: "miss" }, miss));
  const details = verdict.details && Object.keys(verdict.details).length
    ? h("details", { class: "raw" }, h("summary", {}, "Details"), textBlock(asText(verdict.details), "code")) : null;
  const element = h("details", { class: `verdict ${verdict.outcome}`, open: isOpen },
    h("summary", {}, mark(verdict.outcome), h("span", { class: "verdict-name" }, verdict.name),
      verdict.required === false && h("span", { class: "tag" }, "advisory"),
      h("span", { class: "quiet-text" }, verdict.type),
      h("span", { class: "points" }, score(verdict.score), verdict.weight !== 1 && h("span", { class: "quiet-text" }, ` × ${verdict.weight}`))),
    h("div", { class: "verdict-body" },
      (misses.length || hits.length) ? h("ul", { class: "findings" }, misses, hits) : null,
      verdict.reasoning && h("div", { class: "reasoning" }, prose(verdict.reasoning)),
      details,
      !misses.length && !hits.length && !verdict.reasoning && !details && h("p", { class: "quiet-text" }, "Nothing more was said.")));
  return h("li", {}, element);
}

function verdicts(trial) {
  const list = (trial.verdicts || []).filter((verdict) => verdict.type && verdict.outcome);
  if (!list.length) return null;
  const inOrder = [...list].sort((a, b) => OUTCOMES.indexOf(a.outcome) - OUTCOMES.indexOf(b.outcome));
  const passed = list.filter((verdict) => verdict.outcome === "passed").length;
  return h("section", { class: "block" },
    h("div", { class: "block-head" }, h("h3", {}, "Verdicts"), h("span", { class: "quiet-text" }, `${passed} of ${list.length} passed`)),
    h("ul", { class: "verdicts" }, inOrder.map(verdictElement)));
}

function trialFacts(trial, transcript) {
  const input = trial.input_tokens;
  const judges = trial.judge_cost_usd;
  const known = typeof input === "number" || typeof trial.output_tokens === "number";
  const agent = transcript && [transcript.agent, transcript.agent_version].filter(Boolean).join(" ");
  return h("dl", { class: "facts" },
    fact("Score", score(trial.score)),
    fact("Duration", duration(trial.duration_ms)),
    typeof trial.cost_usd === "number" && fact(typeof judges === "number" ? "Cost, agent" : "Cost", cost(trial.cost_usd)),
    typeof judges === "number" && fact("Cost, judges", cost(judges)),
    known && fact("Tokens in / out", `${tokens(input)} / ${tokens(trial.output_tokens)}`),
    trial.attempt > 1 && fact("Attempt", String(trial.attempt), "earlier attempts ended in an error of the infrastructure"),
    transcript && typeof transcript.num_turns === "number" && fact("Turns", String(transcript.num_turns)),
    agent && fact("Agent", agent),
    transcript?.model && fact("Model", transcript.model),
    trial.worker && fact("Worker", trial.worker));
}

function fileLink(name) {
  // Only what lies beside the report, by the names that the farm gives.
  if (typeof name !== "string" || !/^transcripts\/[0-9A-Za-z._-]+\.jsonl?$/.test(name)) return null;
  return h("a", { href: name, target: "_blank", rel: "noopener noreferrer" }, name);
}

function transcriptLink(trial) {
  return fileLink(trial.transcript);
}

function logLinks(trial) {
  const links = (trial.logs || []).map(fileLink).filter(Boolean);
  if (!links.length) return null;
  return h("p", { class: "quiet-text source" }, "What the agent's program wrote down itself: ",
    links.map((link, at) => [at > 0 && ", ", link]));
}

function errorBox(trial) {
  if (!trial.error) return null;
  const tries = trial.attempt > 1 ? ` after ${plural(trial.attempt, "attempt")}` : "";
  return h("section", { class: "error-box", role: "note" },
    h("div", { class: "who" }, h("b", {}, `Could not be judged${tries}`), h("code", {}, trial.error.kind)),
    textBlock(trial.error.message, "text"));
}

function earlierAttempts(trial) {
  const errors = trial.earlier_errors || [];
  if (!errors.length) return null;
  return h("section", { class: "block earlier" },
    h("div", { class: "block-head" }, h("h3", {}, "Earlier attempts"), h("span", { class: "quiet-text" }, "they could not be judged, and were made again")),
    errors.filter((error) => error.kind).map((error) => h("div", { class: "error-box" },
      h("div", { class: "who" }, h("b", {}, `Attempt ${error.attempt}`), h("code", {}, error.kind),
        h("span", { class: "quiet-text" }, [typeof error.duration_ms === "number" && duration(error.duration_ms), error.worker].filter(Boolean).join(" · "))),
      textBlock(error.message, "text"))));
}

function trialElement(trial, transcript) {
  const leftOut = transcript?.left_out;
  const usable = transcript && !leftOut ? transcript : null;
  return h("div", { class: "trial" },
    trialFacts(trial, usable),
    errorBox(trial),
    earlierAttempts(trial),
    (trial.warnings || []).map((warning) => h("p", { class: "notice" }, warning)),
    verdicts(trial),
    usable ? conversation(usable) : trial.output ? h("section", { class: "block" }, h("div", { class: "block-head" }, h("h3", {}, "Answer")), h("div", { class: "said alone" }, prose(trial.output))) : null,
    leftOut && h("p", { class: "notice" }, "The transcript is not in this page: ", String(leftOut), ". ", transcriptLink(trial) && ["It lies beside the page: ", transcriptLink(trial)]),
    usable?.permission_denials?.length ? h("section", { class: "block" }, h("div", { class: "block-head" }, h("h3", {}, "Not permitted")),
      h("ul", { class: "findings" }, usable.permission_denials.map((denial) => h("li", { class: "miss" }, `${denial.tool}: ${briefInput(denial.input)}`)))) : null,
    workspaceChanges(trial, usable),
    usable && transcriptLink(trial) && h("p", { class: "quiet-text source" }, "The whole transcript: ", transcriptLink(trial)),
    logLinks(trial));
}

function trialTabs(trials, transcripts, chosen) {
  const panel = h("div", { role: trials.length > 1 ? "tabpanel" : null, id: "trial-panel" });
  if (trials.length === 1) {
    panel.append(trialElement(trials[0], transcripts[0]));
    return panel;
  }
  const tabs = trials.map((trial, at) => h("button", { type: "button", role: "tab", id: `tab-${at}`, "aria-controls": "trial-panel", onclick: () => choose(at) },
    mark(trial.outcome), `Trial ${trial.trial}`));
  const choose = (at, focuses) => {
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === at));
      tab.setAttribute("tabindex", index === at ? "0" : "-1");
    });
    panel.setAttribute("aria-labelledby", `tab-${at}`);
    panel.replaceChildren(trialElement(trials[at], transcripts[at]));
    if (focuses) tabs[at].focus();
  };
  const list = h("div", { role: "tablist", class: "tabs", "aria-label": "Trials" }, tabs);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const now = tabs.indexOf(document.activeElement);
    if (!step || now < 0) return;
    event.preventDefault();
    choose((now + step + tabs.length) % tabs.length, true);
  });
  // The first that shows what is wrong.
  const telling = trials.findIndex((trial) => trial.outcome === rowOutcome(trials));
  choose(chosen >= 0 && chosen < trials.length ? chosen : Math.max(0, telling));
  return h("div", {}, list, panel);
}

function rowOutcome(trials) {
  return OUTCOMES.find((outcome) => trials.some((trial) => trial.outcome === outcome));
}

function caseHead(row) {
  const position = shownRows.indexOf(row);
  const link = (label, key, other) => other
    ? h("a", { class: "button", href: hrefOf(other), title: key, "aria-label": `${label} case` }, label)
    : h("span", { class: "button disabled", "aria-hidden": "true" }, label);
  return h("header", { class: "case-head" },
    h("nav", { class: "case-nav", "aria-label": "Cases" },
      h("a", { class: "button back", href: addressOf(null) || "#" }, "← All cases"),
      h("span", { class: "quiet-text where" }, position < 0 ? "" : `${counted.format(position + 1)} of ${counted.format(shownRows.length)}`),
      link("Previous", "k", shownRows[position - 1]), link("Next", "j", position < 0 ? null : shownRows[position + 1])),
    h("div", { class: "case-title" }, badge(row.outcome), row.flaky && badge("flaky", "flaky"),
      h("h2", { tabindex: "-1", id: "case-title" }, row.id)),
    row.name && h("p", { class: "case-name" }, row.name),
    h("p", { class: "case-meta" }, h("code", {}, row.file), h("span", {}, agentOf(row)), row.tags.map((tag) => h("span", { class: "tag" }, tag)),
      copyButton(() => location.href, "Copy link", "Copy a link to this case")));
}

let opening = 0;

async function showCase(row, trial) {
  const mine = ++opening;
  const pane = byId("case");
  const waiting = h("p", { class: "quiet-text" }, "…");
  pane.replaceChildren(caseHead(row), waiting);
  let content;
  try {
    const found = await detailsOf(row);
    content = found && !found.details.left_out ? caseBody(row, found, trial) : h("p", { class: "notice" }, "The details of this case are not in this page, which is full. All of them are in report.json beside it.");
  } catch (error) {
    content = h("p", { class: "notice" }, `The details can't be shown: ${error.message}`);
  }
  if (mine === opening) waiting.replaceWith(content);
}

function caseBody(row, found, trial) {
  const { details, transcripts } = found;
  const skipped = details.skip_reason && h("p", { class: "notice" }, "Skipped: ", details.skip_reason);
  const trials = details.trials || [];
  if (!trials.length) return h("div", {}, skipped || h("p", { class: "notice" }, "It was not carried out."));
  return h("div", {}, skipped, trialTabs(trials, transcripts, trials.findIndex((one) => one.trial === trial)));
}
