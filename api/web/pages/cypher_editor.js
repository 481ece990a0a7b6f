// A text area that completes: labels, types and keys as this registry has them, and the language's own words.
import { html, useEffect, useId, useRef, useState } from "../vendor/preact.js";
import { Input } from "../fields.js";
import { request } from "../http.js";

/** @typedef {{word: string, kind: string}} Choice */
/** @typedef {{keys: Map<string, string[]>, types: string[]}} Schema Keys by label. */

const WORDS = "MATCH OPTIONAL WHERE RETURN WITH UNWIND AS ORDER BY DESC LIMIT SKIP DISTINCT AND OR NOT IN CONTAINS STARTS ENDS EXISTS CASE WHEN THEN ELSE END IS NULL UNION ALL CALL YIELD count( collect( size( keys( labels( type( toLower( split( coalesce( sum( avg( min( max( nodes( relationships( shortestPath(".split(" ");
const MOST = 12;

/**
 * @param {{value: string, onChange: (text: string) => void, onRun: () => void, caret: {at: number} | null}} props
 * `caret`: a new object leads there.
 */
export function Editor({ value, onChange, onRun, caret }) {
  const [schema, setSchema] = useState(/** @type {Schema | null} */ (null));
  const [trouble, setTrouble] = useState("");
  const [choices, setChoices] = useState(/** @type {Choice[]} */ ([]));
  const [place, setPlace] = useState(0);
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    if (!caret || !area.current) return;
    area.current.focus();
    area.current.setSelectionRange(caret.at, caret.at + 1);
  }, [caret]);
  const learn = () => schema || readSchema().then(setSchema, (error) => setTrouble(error.message));
  const offer = () => {
    const { value: text, selectionStart, selectionEnd } = /** @type {HTMLTextAreaElement} */ (area.current);
    setChoices(selectionStart === selectionEnd ? completions(text, selectionStart, schema) : []);
    setPlace(0);
  };
  useEffect(() => {
    if (schema && document.activeElement === area.current) offer(); // for what was typed meanwhile
  }, [schema]);
  const accept = (/** @type {Choice} */ choice) => {
    const element = /** @type {HTMLTextAreaElement} */ (area.current), end = element.selectionStart, start = end - wordBefore(value, end).length;
    element.setRangeText(choice.word, start, end, "end");
    onChange(element.value);
    setChoices([]);
    element.focus();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      setChoices([]);
      onRun();
    } else if (!choices.length) return;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") setPlace((place + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % choices.length);
    else if ((event.key === "Tab" && !event.shiftKey) || event.key === "Enter") accept(choices[place]);
    else if (event.key === "Escape") setChoices([]);
    else return;
    event.preventDefault();
  };
  const line = value.slice(0, area.current?.selectionStart || 0).split("\n").length;
  return html`<div class="editor">
    <label for=${id}>Statement</label>
    <${Input} as="area" id=${id} element=${area} spellcheck="false" autocapitalize="off" autocomplete="off" rows=${Math.min(20, Math.max(5, value.split("\n").length + 1))} value=${value} set=${(/** @type {string} */ text) => (onChange(text), offer())} aria-describedby=${`${id}-how`}
      aria-autocomplete="list" aria-controls=${choices.length ? `${id}-list` : undefined} aria-activedescendant=${choices.length ? `${id}-${place}` : undefined}
      onFocus=${learn} onKeyDown=${press} onClick=${() => setChoices([])} onBlur=${() => setTimeout(() => setChoices([]), 150)} />
    <span id=${`${id}-how`} class="hidden">Suggestions come as you type. Arrows choose, Tab or Enter take one, Escape closes them.</span>
    ${choices.length > 0 && html`<ul id=${`${id}-list`} role="listbox" aria-label="Suggestions" style=${{ top: `${Math.min(line, 20) * 1.35 + 2.4}rem` }}>
      ${choices.map((choice, number) => html`<li key=${choice.word} id=${`${id}-${number}`} role="option" aria-selected=${number === place} onMouseDown=${(/** @type {Event} */ event) => (event.preventDefault(), accept(choice))}><span>${choice.word}</span><span>${choice.kind}</span></li>`)}
    </ul>`}
    <span class="hidden" role="status">${choices.length ? `${choices.length} suggestions, ${choices[place].word}` : ""}</span>
    ${trouble && html`<p class="quiet">Completion does not know this registry: ${trouble}</p>`}
  </div>`;
}

/** @returns {Promise<Schema>} */
async function readSchema() {
  const ask = async (/** @type {string} */ statement) => (await request("/v1/cypher", { body: { statement } })).rows;
  const keys = new Map();
  for (const [label, key] of await ask("MATCH (n) UNWIND labels(n) AS label UNWIND keys(n) AS key RETURN DISTINCT label, key ORDER BY label, key")) {
    keys.set(label, [...(keys.get(label) || []), key]);
  }
  const types = (await ask("MATCH ()-[e]->() RETURN DISTINCT type(e) AS type ORDER BY type")).map((/** @type {any[]} */ row) => row[0]);
  return { keys, types };
}

/** @param {string} text @param {number} at */
function wordBefore(text, at) {
  return /[\w]*$/.exec(text.slice(0, at))?.[0] || "";
}

/** What may stand here. @param {string} text @param {number} at @param {Schema | null} schema @returns {Choice[]} */
export function completions(text, at, schema) {
  const word = wordBefore(text, at), before = text.slice(0, at - word.length);
  if (/'[^'\n]*$/.test(before.replace(/'[^'\n]*'/g, "")) || /\/\/[^\n]*$/.test(before)) return [];
  const all = schema ? ofRegistry(before, text, schema) : null;
  const choices = all || (word.length > 1 ? [...namesIn(text), ...WORDS.map((each) => ({ word: each, kind: "" }))] : []);
  const fits = choices.filter((choice) => choice.word.toLowerCase().startsWith(word.toLowerCase()) && choice.word !== word);
  return [...new Map(fits.map((choice) => [choice.word, choice])).values()].slice(0, MOST);
}

/** Behind a colon, a dot or a brace; null where none of its names may stand. @param {string} before @param {string} text @param {Schema} schema @returns {Choice[] | null} */
function ofRegistry(before, text, schema) {
  const opening = before.slice(Math.max(before.lastIndexOf("("), before.lastIndexOf("[")));
  if (/[:|]\s*$/.test(before) && !opening.includes("{")) {
    if (opening.startsWith("[")) return schema.types.map((word) => ({ word, kind: "edge" }));
    return [...schema.keys.keys()].map((word) => ({ word, kind: "node" }));
  }
  const owner = /(\w+)\.$/.exec(before)?.[1], inside = /:(\w+)\s*\{(?:[^{}]*,)?\s*$/.exec(before)?.[1];
  if (!owner && !inside) return null;
  const label = inside || new RegExp(`\\(\\s*${owner}\\s*:\\s*(\\w+)`).exec(text)?.[1] || "";
  const keys = schema.keys.get(label) || [...new Set([...schema.keys.values()].flat())].sort();
  return keys.map((word) => ({ word, kind: label }));
}

/** The variables of the statement. @param {string} text @returns {Choice[]} */
function namesIn(text) {
  return [...text.matchAll(/[([]\s*([a-z_]\w*)\s*[:)\]]|\bAS\s+(\w+)/gi)].map((found) => ({ word: found[1] || found[2], kind: "name" }));
}
