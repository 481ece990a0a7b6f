// Lines that people copy into a shell (bash or zsh), or another terminal.
import { session } from "./http.js";

/** What a terminal acts on when it is pasted, or shows as something else. */
const ACTS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const ESCAPED = new RegExp(`${ACTS.source}|['\\\\!]`, "gu");

/** One word of a shell, whatever it holds. No word can hold U+0000, so that is left out. @param {string} text */
export function quote(text) {
  if (/^[\w@%+:,./][\w@%+=:,./-]*$/.test(text)) return text;
  return text.search(ACTS) < 0 ? `'${text.replaceAll("'", "'\\''")}'` : `$'${text.replace(ESCAPED, escaped)}'`;
}

/** @param {string} character */
function escaped(character) {
  if (character === "\0") return "";
  if (character === "\n") return "\\n";
  return Array.from(new TextEncoder().encode(character), (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
}

/** The request as one does it by curl. @param {string} path @param {unknown} body */
export function curl(path, body) {
  const key = session.value?.asks ? ` \\\n  -H "Authorization: Bearer $WAYGRAPH_API_KEY"` : "";
  return `curl -s ${quote(location.origin + path)} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quote(JSON.stringify(body))}`;
}
