// A transcript as the conversation that it was.

const MESSAGES_AT_ONCE = 100;

function textBlock(text, className) {
  return h("pre", { class: className || "text" }, String(text).replaceAll("\r\n", "\n"));
}

// Prose, with what stands between fences set apart.
function prose(text) {
  const parts = String(text).replaceAll("\r\n", "\n").split(/^(?:```|~~~)[^\n`]*$\n?/m);
  return parts.map((part, at) => {
    if (!part.trim()) return null;
    return at % 2 ? h("pre", { class: "code" }, part.replace(/\n$/, "")) : h("div", { class: "prose" }, part.trim());
  });
}

function contentNodes(content) {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return prose(content);
  if (Array.isArray(content) && content.length && content.every((part) => part && typeof part === "object" && typeof part.type === "string")) {
    return content.map((part) => {
      if (part.type === "text") return prose(part.value ?? part.text ?? "");
      if (part.type === "file" && typeof part.value === "string") return h("p", { class: "file-part" }, "File: ", h("code", {}, part.value));
      return textBlock(asText(part), "code");
    });
  }
  return [textBlock(asText(content), "code")];
}

const TELLING = ["file_path", "command", "pattern", "query", "path", "url", "description", "skill", "prompt"];

function briefInput(input) {
  if (input === null || input === undefined) return "";
  if (typeof input !== "object") return String(input);
  const key = TELLING.find((name) => typeof input[name] === "string");
  const text = key ? input[key] : asText(input).replace(/\s+/g, " ");
  return text.split("\n")[0].slice(0, 200);
}

function inputNodes(call) {
  const input = call.input;
  if (input === null || input === undefined) return [];
  if (typeof input !== "object" || Array.isArray(input)) return [textBlock(asText(input), "code")];
  return Object.entries(input).map(([name, value]) => {
    const isOld = /^old_(string|str|text)$/.test(name);
    const isNew = /^new_(string|str|text)$/.test(name);
    return h("div", { class: "parameter" }, h("span", { class: "key" }, name),
      textBlock(asText(value), isOld ? "code removed" : isNew ? "code added" : "code"));
  });
}

function toolCall(call, isDenied) {
  const isError = Boolean(call.is_error);
  const element = h("details", { class: `call${isError ? " is-error" : ""}${call.parent_id ? " of-subagent" : ""}` },
    h("summary", {},
      h("span", { class: "tool" }, call.tool || "(no name)"),
      h("span", { class: "brief" }, briefInput(call.input)),
      isError && badge("failed", "error"),
      isDenied && badge("errored", "denied"),
      call.parent_id && h("span", { class: "tag" }, "subagent"),
      typeof call.duration_ms === "number" && h("span", { class: "took" }, duration(call.duration_ms))));
  // Filled when it is opened: a session may have thousands.
  element.addEventListener("toggle", () => fillCall(element, call), { once: true });
  element.fill = () => fillCall(element, call);
  return element;
}

function fillCall(element, call) {
  if (element.dataset.filled) return;
  element.dataset.filled = "yes";
  const output = call.output;
  const hasOutput = output !== null && output !== undefined && output !== "";
  element.append(h("div", { class: "call-body" },
    h("h5", {}, "Input"), inputNodes(call),
    h("h5", {}, call.is_error ? "Output (an error)" : "Output"),
    hasOutput ? textBlock(typeof output === "string" ? output : contentText(output), call.is_error ? "code failed-output" : "code")
      : h("p", { class: "quiet-text" }, "none")));
}

function contentText(value) {
  if (Array.isArray(value) && value.every((part) => part && part.type === "text" && typeof (part.text ?? part.value) === "string")) {
    return value.map((part) => part.text ?? part.value).join("\n");
  }
  return asText(value);
}

const ROLES = { user: "User", assistant: "Agent", system: "System", tool: "Tool", farm: "Left out" };

function messageElement(message, isFinal, denied) {
  const role = ROLES[message.role] ? message.role : "other";
  const content = contentNodes(message.content);
  const calls = (message.tool_calls || []).map((call) => toolCall(call, call.id && denied.has(call.id)));
  return h("li", { class: `message ${role}` },
    (content.flat().some(Boolean) || !calls.length) && h("div", { class: "said" },
      h("div", { class: "who" }, h("b", {}, ROLES[message.role] || message.role || "?"), message.name && h("span", {}, message.name),
        isFinal && h("span", { class: "tag" }, "final answer"),
        message.timestamp && h("span", { class: "took" }, when(message.timestamp))),
      content.flat().some(Boolean) ? content : h("p", { class: "quiet-text" }, "(nothing)")),
    calls);
}

// The deprecated form, for recordings that have no messages.
function messagesOfTrace(events) {
  const results = new Map(events.filter((event) => event.type === "tool_result" && event.id).map((event) => [event.id, event]));
  return events.flatMap((event) => {
    if (event.type === "tool_call") {
      const output = event.output ?? results.get(event.id)?.output;
      return [{ role: "assistant", tool_calls: [{ tool: event.name, input: event.input, output, id: event.id }] }];
    }
    if (event.type === "tool_result") return results.get(event.id) === event ? [] : [{ role: "tool", name: event.name, content: event.output ?? event.text }];
    if (event.type === "error") return [{ role: "system", name: "error", content: event.text ?? event.output }];
    return event.text ? [{ role: event.name === "user" ? "user" : "assistant", content: event.text, timestamp: event.timestamp }] : [];
  });
}

function conversation(transcript) {
  const said = transcript.output_messages || messagesOfTrace(transcript.trace || []);
  const messages = [...(transcript.input_messages || []), ...said].filter((message) => message && typeof message === "object");
  const denied = new Set((transcript.permission_denials || []).map((denial) => denial.id).filter(Boolean));
  const final = messages.findLast((message) => message.role === "assistant" && contentText(message.content ?? "") === transcript.final_text && transcript.final_text);
  const list = h("ol", { class: "conversation" });
  const more = h("button", { type: "button", class: "more" });
  let at = 0;
  const showMore = () => {
    const next = messages.slice(at, at + MESSAGES_AT_ONCE);
    at += next.length;
    list.append(...next.map((message) => messageElement(message, message === final, denied)));
    more.hidden = at >= messages.length;
    more.textContent = `Show ${Math.min(MESSAGES_AT_ONCE, messages.length - at)} more of ${messages.length - at} messages`;
  };
  more.addEventListener("click", showMore);
  showMore();
  const calls = messages.reduce((sum, message) => sum + (message.tool_calls || []).length, 0);
  const toggle = calls > 0 && h("button", { type: "button", class: "quiet" }, "Open all tool calls");
  if (toggle) {
    toggle.addEventListener("click", () => {
      const all = [...list.querySelectorAll("details.call")];
      const opens = all.some((call) => !call.open);
      for (const call of all) { call.fill(); call.open = opens; }
      toggle.textContent = opens ? "Close all tool calls" : "Open all tool calls";
    });
  }
  const hasAnswer = Boolean(final) || !transcript.final_text;
  return h("section", { class: "block" },
    h("div", { class: "block-head" }, h("h3", {}, "Conversation"),
      h("span", { class: "quiet-text" }, `${plural(messages.length, "message")}, ${plural(calls, "tool call")}`), toggle),
    messages.length ? list : h("p", { class: "quiet-text" }, "The session left no messages."), more,
    !hasAnswer && h("div", { class: "said alone" }, h("div", { class: "who" }, h("b", {}, "Agent"), h("span", { class: "tag" }, "final answer")), prose(transcript.final_text)));
}
