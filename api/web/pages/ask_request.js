// What a person typed, as a request: plain words, steps, or a conversation with its turns before the last words.

/** @typedef {"words" | "steps" | "conversation"} Form */
/** @typedef {{role: "user" | "assistant" | "call", text?: string, tool?: string, outcome?: "ok" | "failed", result?: string}} Turn */
/** @typedef {{text: string, steps: string[], history: Turn[]}} Request */

const COSTLY = ["taxonomy"];
const ROLE = /^\s*(user|human|assistant|ai|call|tool|system)\s*:\s*/i;
const ROLES = /** @type {Record<string, string>} */ ({ human: "user", ai: "assistant", tool: "call" });
const FAILED = /^\W*(error|failed|failure|exception)\b/i;
const RESULT_CHARS = 200;

/** Whether a language model is called for a request of this recipe. @param {string} recipe */
export function isCostly(recipe) {
  return COSTLY.includes(recipe);
}

/** What a text looks like. @param {string} text @returns {Form} */
export function formOf(text) {
  if (messagesOf(text)) return "conversation";
  return text.split("\n").filter((line) => ROLE.test(line)).length > 1 ? "conversation" : "words";
}

/** @param {string} text @param {Form} form @returns {Request} */
export function readRequest(text, form) {
  if (form === "steps") return { text: "", steps: text.split("\n").map((line) => line.trim()).filter(Boolean), history: [] };
  if (form === "words") return { text: text.trim(), steps: [], history: [] };
  return splitTurns((messagesOf(text) || linesOf(text)).filter((turn) => turn.text?.trim() || turn.tool));
}

/** The last words of the user are the request; calls behind them were made for it, so the words stay among the turns. @param {Turn[]} turns */
function splitTurns(turns) {
  const last = turns.map((turn) => turn.role).lastIndexOf("user");
  if (last < 0) return { text: "", steps: [], history: turns };
  const isLast = last === turns.length - 1;
  return { text: (turns[last].text || "").trim(), steps: [], history: isLast ? turns.slice(0, -1) : turns };
}

/** Lines `user: …`, `assistant: …`, `call: tool failed`; a line without a role goes on with the one before. @param {string} text @returns {Turn[]} */
function linesOf(text) {
  /** @type {{role: string, text: string}[]} */
  const parts = [];
  for (const line of text.split("\n")) {
    const found = ROLE.exec(line);
    const last = parts[parts.length - 1];
    if (found || !last) {
      const role = found ? found[1].toLowerCase() : "user";
      parts.push({ role: ROLES[role] || role, text: found ? line.slice(found[0].length) : line });
    } else last.text += `\n${line}`;
  }
  return parts.flatMap(({ role, text: said }) => {
    if (role === "system") return [];
    return [role === "call" ? callOf(said.trim()) : /** @type {Turn} */ ({ role, text: said.trim() })];
  });
}

/** A tool's name, and how its call ended, if that is said. @param {string} text @returns {Turn} */
function callOf(text) {
  const [tool, ...rest] = text.split(/\s+/);
  return { role: "call", tool, outcome: FAILED.test(rest.join(" ")) ? "failed" : "ok" };
}

/** Messages in OpenAI's forms, or this registry's own turns; null for what is neither. @param {string} text @returns {Turn[] | null} */
function messagesOf(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    const value = JSON.parse(text);
    const list = Array.isArray(value) ? value : value.messages || value.input || value.history;
    const isList = Array.isArray(list) && list.length > 0 && list.every((each) => each && (each.role || each.type));
    return isList ? list.flatMap((each) => turnsOf(each, resultsOf(list))) : null;
  } catch {
    return null;
  }
}

/** By the id of a call, what it gave. @param {any[]} list @returns {Map<string, string>} */
function resultsOf(list) {
  const results = list.filter((each) => each.tool_call_id || each.type === "function_call_output");
  return new Map(results.map((each) => [each.tool_call_id || each.call_id, wordsOf(each.content ?? each.output)]));
}

/** @param {any} message @param {Map<string, string>} results @returns {Turn[]} */
function turnsOf(message, results) {
  if (message.role === "call") return [{ role: "call", tool: String(message.tool || ""), outcome: message.outcome === "failed" ? "failed" : "ok" }];
  if (message.type === "function_call") return [madeCall(message.name, results.get(message.call_id))];
  if (message.role !== "user" && message.role !== "assistant") return [];
  const said = wordsOf(message.content ?? message.text);
  const calls = (message.tool_calls || []).map((/** @type {any} */ each) => madeCall(each.function?.name, results.get(each.id)));
  return [...(said ? [/** @type {Turn} */ ({ role: message.role, text: said })] : []), ...calls];
}

/** @param {unknown} tool @param {string} [result] @returns {Turn} */
function madeCall(tool, result = "") {
  const outcome = FAILED.test(result) ? "failed" : "ok";
  return { role: "call", tool: String(tool || ""), outcome, ...(result && { result: result.slice(0, RESULT_CHARS) }) };
}

/** The text of a content: a text, or parts of which some are. @param {any} content @returns {string} */
function wordsOf(content) {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((part) => part?.text || "").filter(Boolean).join("\n") : "";
}
