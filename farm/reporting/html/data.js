// What the page was given: the run and its rows at once, a case's details when it is opened.

const run = JSON.parse(byId("run").textContent);

const rows = JSON.parse(byId("rows").textContent).map((cells, index) => {
  const [id, name, file, tags, agent, model, outcome, flaky, points, trials, durationMs, costUsd, tokenCount, reason, part, line] = cells;
  return { index, id, name, file, tags, agent, model, outcome, flaky, score: points, trials, durationMs, costUsd, tokens: tokenCount, reason, part, line, words: null };
});

const rowById = new Map(rows.map((row) => [row.id, row]));

function wordsOf(row) {
  row.words ??= [row.id, row.name, row.file, row.agent, row.model, row.reason, ...row.tags].join("\n").toLowerCase();
  return row.words;
}

// The parts that were unpacked last: walking from case to case stays quick, and memory stays small.
const unpacked = new Map();

function unpack(part) {
  if (!unpacked.has(part)) {
    if (unpacked.size > 7) unpacked.delete(unpacked.keys().next().value);
    unpacked.set(part, inflate(byId(`part-${part}`).textContent));
  }
  return unpacked.get(part);
}

async function inflate(base64) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old to unpack what a case has; its row, and all files beside the report, are there");
  }
  const packed = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return (await new Response(stream).text()).split("\n");
}

// Give a case as report.json has it, and a transcript, or null, for each of its trials.
async function detailsOf(row) {
  if (row.part < 0) return null;
  const lines = await unpack(row.part);
  const details = JSON.parse(lines[row.line]);
  const transcripts = (details.trials || []).map((_, at) => parsed(lines[row.line + 1 + at]));
  return { details, transcripts };
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return { left_out: "it can't be read" };
  }
}
