// What a session did to its workspace's files, as a diff where one was recorded.

const CHANGES = { added: "A", modified: "M", deleted: "D" };
const OPEN_LINES = 400;

function diffTable(patch) {
  const lines = patch.replace(/\n$/, "").split("\n");
  let [before, after] = [0, 0];
  const rowsOf = lines.map((line) => {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      return h("tr", { class: "hunk" }, h("td", { class: "number" }), h("td", { class: "number" }), h("td", {}, line));
    }
    const sign = line[0];
    if (sign === "\\") return h("tr", { class: "hunk" }, h("td", { class: "number" }), h("td", { class: "number" }), h("td", {}, line));
    const isOld = sign === "-";
    const isNew = sign === "+";
    return h("tr", { class: isOld ? "removed" : isNew ? "added" : "" },
      h("td", { class: "number" }, isNew ? "" : before++),
      h("td", { class: "number" }, isOld ? "" : after++),
      h("td", { class: "line" }, h("span", { class: "sign" }, sign || " "), line.slice(1)));
  });
  return h("div", { class: "diff" }, h("table", {}, h("tbody", {}, rowsOf)));
}

function fileChange(path, change, diff, isOpen) {
  const patch = diff?.patch;
  const count = (sign) => (patch.match(new RegExp(`^\\${sign}`, "gm")) || []).length;
  const label = [
    h("span", { class: `change ${change}`, role: "img", "aria-label": change, title: change }, CHANGES[change]),
    h("code", { class: "path" }, path),
    patch && h("span", { class: "lines-added" }, `+${count("+")}`),
    patch && h("span", { class: "lines-removed" }, `−${count("-")}`),
    diff?.note && h("span", { class: "quiet-text" }, diff.note),
  ];
  if (!patch) return h("li", {}, h("div", { class: "file-line" }, label));
  const element = h("details", { class: "file-change" }, h("summary", {}, label));
  const fill = () => { if (!element.dataset.filled) { element.dataset.filled = "yes"; element.append(diffTable(patch)); } };
  element.addEventListener("toggle", fill, { once: true });
  element.fill = fill;
  if (isOpen) { fill(); element.open = true; }
  return h("li", {}, element);
}

function workspaceChanges(trial, transcript) {
  const changes = trial.workspace_changes;
  if (!changes) return null;
  const files = Object.keys(CHANGES).flatMap((change) => (changes[change] || []).map((path) => ({ path, change })));
  if (!files.length) return h("section", { class: "block" }, h("div", { class: "block-head" }, h("h3", {}, "Workspace"), h("span", { class: "quiet-text" }, "nothing changed")));
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  const diffs = new Map((transcript?.workspace_diff || []).map((diff) => [diff.path, diff]));
  let lines = 0;
  const list = files.map(({ path, change }) => {
    const diff = diffs.get(path);
    if (diff?.patch) lines += diff.patch.split("\n").length;
    return fileChange(path, change, diff, lines <= OPEN_LINES);
  });
  return h("section", { class: "block" },
    h("div", { class: "block-head" }, h("h3", {}, "Workspace"), h("span", { class: "quiet-text" }, `${plural(files.length, "file")} changed`)),
    h("ul", { class: "file-changes" }, list));
}
