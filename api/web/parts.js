// What several pages show in the same way.
// Texts come from strangers: they are only ever children or attributes of elements, never markup.
import { html, signal, useEffect, useRef, useState } from "./vendor/preact.js";
import { may, queryOf, request, session } from "./http.js";
import { HOME, setQuery } from "./place.js";

const MAX_QUERY_CHARS = 4000; // A longer text stays out of the address.

// -- loading ----------------------------------------------------------------------------------------------------------

/**
 * What `load` gives, and again whenever one of `inputs` changes; the former request is ended.
 * @template T
 * @param {(ending: AbortSignal) => Promise<T>} load @param {unknown[]} inputs
 * @returns {{value: T | null, error: Error | null, busy: boolean, again: () => void}}
 */
export function useLoad(load, inputs) {
  const [state, setState] = useState(/** @type {{value: any, error: Error | null, busy: boolean}} */ ({ value: null, error: null, busy: true }));
  const [round, setRound] = useState(0);
  useEffect(() => {
    const ending = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    load(ending.signal).then(
      (value) => ending.signal.aborted || setState({ value, error: null, busy: false }),
      (error) => ending.signal.aborted || setState({ value: null, error, busy: false }),
    );
    return () => ending.abort();
  }, [...inputs, round]);
  return { ...state, again: () => setRound((count) => count + 1) };
}

/**
 * `useLoad` of one GET.
 * @param {string} path @param {Record<string, unknown>} [params]
 */
export function useGet(path, params = {}) {
  const address = path + queryOf(params);
  return useLoad((ending) => request(address, { signal: ending }), [address]);
}

/**
 * What is typed, and that once it has settled, which the address keeps under `name`; another address brings another text.
 * @param {URLSearchParams} query @param {string} name @param {number} delayMs @returns {[string, (text: string) => void, string]}
 */
export function useTyped(query, name, delayMs) {
  const there = query.get(name) || "";
  const [text, setText] = useState(there);
  const settled = useSettled(text, delayMs), written = useRef(there);
  useEffect(() => {
    written.current = settled.length <= MAX_QUERY_CHARS ? settled : "";
    setQuery({ [name]: written.current });
  }, [settled]);
  useEffect(() => {
    if (there === written.current) return;
    written.current = there; // by a link, or the way back
    setText(there);
  }, [there]);
  return [text, setText, settled];
}

/** A value that follows another one when that has not changed for so long. @template T @param {T} value @param {number} delayMs @returns {T} */
export function useSettled(value, delayMs) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delayMs);
    return () => clearTimeout(timer);
  }, [value, delayMs]);
  return settled;
}

/** While `state` loads, what failed, or what `children` makes of its value. @param {{state: any, children: (value: any) => any}} props */
export function Loaded({ state, children }) {
  if (state.error) return html`<${Fault} error=${state.error} again=${state.again} />`;
  if (state.value === null) return html`<p class="quiet" aria-busy="true">Loading …</p>`;
  return html`<div aria-busy=${state.busy}>${children(state.value)}</div>`;
}

/** @param {{error: any, again?: () => void}} props */
export function Fault({ error, again }) {
  return html`<div class="fault" role="alert">
    <p>${error.message}</p>
    ${again && html`<button onClick=${again}>Try again</button>`}
  </div>`;
}

// -- what is said once --------------------------------------------------------------------------------------------------

/** @type {import("./vendor/preact.js").Signal<{id: number, text: string, kind: string}[]>} */
const notices = signal([]);
let lastNotice = 0;

/** Says it at the edge of the page for a while. @param {string} text @param {"done" | "fault"} [kind] */
export function notify(text, kind = "done") {
  const id = ++lastNotice;
  notices.value = [...notices.value, { id, text, kind }];
  setTimeout(() => (notices.value = notices.value.filter((each) => each.id !== id)), kind === "fault" ? 12000 : 5000);
}

export function Notices() {
  return html`<div class="notices" role="status">${notices.value.map((each) => html`<p key=${each.id} class=${each.kind}>${each.text}</p>`)}</div>`;
}

/** Does it, and says what fails. @param {() => unknown} act @param {(busy: boolean) => void} setBusy Whether it is under way. */
export async function attempt(act, setBusy) {
  setBusy(true);
  try {
    await act();
  } catch (error) {
    notify(/** @type {Error} */ (error).message, "fault");
  } finally {
    setBusy(false);
  }
}

/**
 * A button for what takes a moment. What fails is said.
 * @param {{act: () => Promise<unknown>, children: any, class?: string, disabled?: boolean, label?: string}} props
 */
export function Act({ act, children, class: kind, disabled, label }) {
  const [busy, setBusy] = useState(false);
  return html`<button type="button" class=${kind} disabled=${disabled || busy} aria-busy=${busy} aria-label=${label} onClick=${() => attempt(act, setBusy)}>${children}</button>`;
}

// -- what waits ---------------------------------------------------------------------------------------------------------

/** @type {import("./vendor/preact.js").Signal<{items: any[], more: string, failing: number}>} What waits for approval, and how many sources or their servers fail. */
export const waits = signal({ items: [], more: "", failing: 0 });

/** Looks anew, where there is anything to see. */
export async function lookAtWaits() {
  if (!may("read") || !session.value?.holds) return;
  const [{ waiting, following }, { failures }] = await Promise.all([request("/v1/waiting", { params: { limit: 100 } }), request("/v1/status")]);
  waits.value = { items: waiting, more: following && "+", failing: failures.length };
}

// -- texts of strangers -------------------------------------------------------------------------------------------------

const MOST_MARKS = 40, MOST_PATH = 300;
const CODE_CHARS = 20000;
// Characters that are not seen, or change how others are read: controls, joiners, bidi, tags, variation selectors, strokes
// through letters; and what hides by its number: line breaks, blanks, marks upon one letter.
const UNSEEN = /(?:\r?\n[^\S\r\n]*){20,}| {100,}|[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}|([\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u0334-\u0338\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u20d2\u20d3\u20e5\u20e6\u20ea\u20eb\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\u{1bca0}-\u{1bca3}\u{1d159}\u{1d173}-\u{1d17a}\u{e0000}-\u{10ffff}])\1*/gu;

/** The notices of an answer, the gravest first. @param {{of: {code: string, text: string}[]}} props */
export function AnswerNotices({ of }) {
  return html`${of.map(({ code, text }) => html`<p class="notice" data-code=${code}><${Words} text=${text} max=${1000} /></p>`)}`;
}

/** A stranger's text. Unseen characters are shown by their numbers. @param {{text: string, max?: number}} props */
export function Words({ text, max }) {
  const [shown, more] = useCut(text, max);
  return html`<span class="words" dir="auto">${marked(shown)}</span>${more}`;
}

/** The text or its begin, and a button for the rest where there is any. @param {string} text @param {number} [max] @returns {[string, any]} */
export function useCut(text, max = Infinity) {
  const [whole, setWhole] = useState(false);
  const more = text.length > max && html` <button class="plain" onClick=${() => setWhole(!whole)}>${whole ? "less" : `… all ${text.length.toLocaleString("en")} characters`}</button>`;
  return [whole ? text : text.slice(0, max), more];
}

/**
 * A stranger's text in pieces: the first unseen characters are elements, so that they stand out, the rest are words.
 * @param {string} text @param {{marks: number}} [left] How many elements there may still be.
 */
export function marked(text, left = { marks: MOST_MARKS }) {
  const pieces = [];
  let end = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (isUsual(text, found)) continue;
    if (left.marks-- <= 0) break;
    pieces.push(text.slice(end, found.index), html`<mark class="unseen" title="a character that is not seen">${numberOf(found[0], found[1])}</mark>`);
    end = found.index + found[0].length;
  }
  return [...pieces, numbered(text.slice(end))];
}

/** The text with its unseen characters as words. @param {string} text */
export function numbered(text) {
  return text.replace(UNSEEN, (run, one, at) => (isUsual(text, { 0: run, 1: one, index: at }) ? run : `[${numberOf(run, one)}]`));
}

/** A space that does not break, one in Braille, a stroke through a sign, and the one selector that makes it a picture. @param {string} text @param {{0: string, 1?: string, index?: number}} found */
function isUsual(text, { 0: run, 1: one, index = 0 }) {
  const before = text.slice(Math.max(0, index - 2), index);
  if (run === "\ufe0f") return /\p{Extended_Pictographic}$/u.test(before);
  return one === "\u00a0" || (run === "\u2800" && /[\u2801-\u28ff]$/.test(before)) || (STROKE.test(one || "") && !/\p{L}$/u.test(before));
}

const STROKE = /^[\u0334-\u0338\u20d2\u20d3\u20e5\u20e6\u20ea\u20eb]$/;

/** @param {string} run Of one character, unless it hides by its number. @param {string} [one] */
function numberOf(run, one) {
  if (!one) return run.includes("\n") ? `${run.split("\n").length - 1} line breaks` : `${[...run].length} ${run[0] === " " ? "blanks" : "marks"}`;
  const count = run.length / one.length;
  return `U+${/** @type {number} */ (one.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}${count > 1 ? ` ×${count}` : ""}`;
}

/** A path, an address or a name, which may go on in the next line behind a sign. @param {{text: string}} props */
export function Path({ text }) {
  return html`<span class="words" dir="auto">${text.slice(0, MOST_PATH).split(/(?<=[/_.-])/).map((part) => [marked(part), html`<wbr />`])}</span>`;
}

/** A description, and whether it was made of the names of tools for want of one. @param {{text: string, max: number}} props */
export function Described({ text, max }) {
  const [first, rest] = text.split(/\n\n(.*)/s), isMade = text.startsWith("States no description: ");
  return isMade ? html`<span title="Its source has no description: this was made of its tools"><${Badge}>made<//></span> <${Words} text=${first.slice(first.indexOf(": ") + 2)} max=${max} />${rest && html` <${Words} text=${rest} max=${max} />`}` : html`<${Words} text=${text || "Its source describes it with no word."} max=${max} />`;
}

/** Counts in words, without those that are none. @param {Record<string, number>} numbers By noun, in the plural. */
export function counted(numbers) {
  return Object.entries(numbers).filter(([, count]) => count).map(([nouns, count]) => `${count.toLocaleString("en")} ${count === 1 ? nouns.replace(/(?<=sh)es$|s$/, "") : nouns}`).join(", ");
}

/** A link if it leads to http or https, else its text. @param {{href: string, children?: any}} props */
export function Outside({ href, children }) {
  const is_safe = /^https?:\/\//i.test(href);
  return is_safe ? html`<a href=${href} rel="noopener noreferrer nofollow" target="_blank">${children || href}</a>` : html`<span>${children || href}</span>`;
}

// -- nouns --------------------------------------------------------------------------------------------------------------

/** @param {string} id */
export function agentPlace(id) {
  return `${HOME}/agents/${encodeURIComponent(id)}`;
}

/** @param {string} id A tool's, agent/name. */
export function toolPlace(id) {
  const [agent, ...name] = id.split("/");
  return `${HOME}/tools/${encodeURIComponent(agent)}/${encodeURIComponent(name.join("/"))}`;
}

/** The address of a walk. @param {string} text @param {string} [mode] */
export function walkPlace(text, mode = "") {
  return `${HOME}/taxonomy${queryOf({ q: text, recipe: "taxonomy", mode })}`;
}

/** @param {{id: string}} props */
export function AgentLink({ id }) {
  return html`<a href=${agentPlace(id)}>${marked(id)}</a>`;
}

/** @type {import("./vendor/preact.js").Signal<Record<string, string>>} */
const titles = signal({});
const asked = new Set();
let isAsking = false;

/** A source by its title; by its name where that is all that the caller may see of it. @param {{name: string}} props */
export function SourceTitle({ name }) {
  useEffect(() => {
    if (name in titles.value || asked.has(name)) return;
    asked.add(name);
    if (isAsking) return; // one answer has them all
    isAsking = true;
    request("/v1/sources")
      .then((answer) => (titles.value = answer.titles), () => asked.clear())
      .finally(() => (isAsking = false));
  }, [name]);
  return html`<span title=${name}>${marked(titles.value[name] || name)}</span>`;
}

/** @param {{name: string}} props */
export function SourceLink({ name }) {
  return html`<a href=${`${HOME}/sources${queryOf({ source: name })}`}><${SourceTitle} name=${name} /></a>`;
}

/** @param {{id: string, short?: boolean}} props */
export function ToolLink({ id, short }) {
  return html`<a href=${toolPlace(id)}><${Path} text=${short ? id.slice(id.indexOf("/") + 1) : id} /></a>`;
}

/** @param {{kind?: string, children: any}} props */
export function Badge({ kind = "", children }) {
  return html`<span class=${`badge ${kind}`}>${children}</span>`;
}

export const KINDS = ["mcp_server", "a2a_agent", "skill", "openapi", "custom"];

/** As people read it. @param {string} kind */
export function kindOf(kind) {
  return { mcp_server: "MCP server", a2a_agent: "A2A agent", openapi: "OpenAPI service", skill: "skill", custom: "agent" }[kind] || kind;
}

/** How many notices, and the first agent or tool that has one. @param {{count: number, at: string}} props */
export function NoticeLine({ count, at }) {
  return html`${count === 1 ? "1 notice" : `${count} notices`}: <a href=${(at.includes("/") ? toolPlace : agentPlace)(at)}>${marked(at)}</a>`;
}

/** The flags but for notices. @param {string[] | undefined} flags */
export function suspicions(flags) {
  return (flags || []).filter((flag) => !flag.startsWith("notice: "));
}

/** How an agent or a tool stands, in badges. @param {{of: any}} props */
export function Standing({ of }) {
  const word = (of.status || "known").split(/[ :]/)[0];
  return html`<span class="standing">
    ${word !== "known" && html`<${Badge} kind=${word === "online" ? "good" : "bad"}>${word}<//>`}
    ${of.rejection ? html`<${Badge} kind="bad">rejected<//>` : of.pending && html`<${Badge} kind="warn">waiting<//>`} ${of.hidden && html`<${Badge}>hidden<//>`}
    ${of.pinned && html`<${Badge}>pinned<//>`} ${suspicions(of.flags).length > 0 && html`<${Badge} kind="warn">flagged<//>`}
  </span>`;
}

/** Why it is kept out of routing, behind its noun. @param {{rejection?: string}} of */
export function heldBack(of) {
  return of.rejection ? `was rejected: ${of.rejection}` : "waits for approval";
}

// -- tables, bars, code ---------------------------------------------------------------------------------------------------

/**
 * @param {{caption: string, columns: string[], rows: any[][], numeric?: number[], empty?: string}} props
 * `numeric`: numbers of columns that are set to the right.
 */
export function Table({ caption, columns, rows, numeric = [], empty = "Nothing." }) {
  if (!rows.length) return html`<p class="quiet">${empty}</p>`;
  const kind = (/** @type {number} */ place) => (numeric.includes(place) ? "number" : undefined);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table>
    <caption class="unseen-caption">${caption}</caption>
    <thead><tr>${columns.map((name, at) => (name ? html`<th scope="col" class=${kind(at)}>${name}</th>` : html`<td></td>`))}</tr></thead>
    <tbody>${rows.map((cells, row) => html`<tr key=${row}>${cells.map((cell, at) => html`<td class=${kind(at)} data-name=${columns[at]}>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/**
 * Shares of a whole, side by side in one bar.
 * @param {{parts: {name: string, value: number, kind: number}[], most: number, label: string}} props
 * `kind`: which colour, 0 to 7; `most`: what fills the bar.
 */
export function Bars({ parts, most, label }) {
  return html`<span class="bars" role="img" aria-label=${label}>
    ${parts.map((part) => html`<span class=${`bar bar-${part.kind % 8}`} style=${{ width: `${(100 * part.value) / (most || 1)}%` }} title=${`${part.name}: ${part.value.toPrecision(3)}`}></span>`)}
  </span>`;
}

/** @param {{text: string, label?: string}} props */
export function Copied({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="plain" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

/** @param {{text: string, label: string}} props */
export function Code({ text, label }) {
  const [shown, more] = useCut(text, CODE_CHARS);
  return html`<div class="code"><pre tabindex="0" role="region" aria-label=${label}><code>${marked(shown)}</code></pre>${more}<${Copied} text=${text} /></div>`;
}

/** @param {{value: unknown, label: string}} props */
export function Json({ value, label }) {
  return html`<${Code} text=${JSON.stringify(value, null, 2)} label=${label} />`;
}

/** What is drawn from when it is opened first. @param {{title: any, children: () => any, open?: boolean, onOpen?: () => void}} props */
export function Fold({ title, children, open = false, onOpen }) {
  const [isOpen, setOpen] = useState(open), isDrawn = useRef(open);
  isDrawn.current ||= isOpen;
  const toggle = (/** @type {any} */ event) => (setOpen(event.currentTarget.open), event.currentTarget.open && onOpen?.());
  return html`<details open=${isOpen} onToggle=${toggle}><summary>${title}</summary>${isDrawn.current && children()}</details>`;
}

/** Where the data of a view is as JSON. @param {{path: string, params?: Record<string, unknown>}} props */
export function Twin({ path, params }) {
  return html`<a class="twin" href=${path + queryOf(params)} target="_blank" rel="noopener">JSON</a>`;
}

/** Where the registry is not made yet, or is empty: how to begin. */
export function Nothing() {
  return html`<p>Nothing is here yet. Take in the servers of a host on this machine, or any file of agents:</p>
    <${Code} label="command that fills the registry" text="waygraph ingest mcp.json" />${may("write") && html`<p>Or <a href=${`${HOME}/sources`}>drop a file</a> under Sources.</p>`}`;
}

/**
 * A native dialog, open as long as it is there.
 * @param {{title: string, onClose: () => void, children: any}} props
 */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}>
    <h2>${title}</h2>${children}
  </dialog>`;
}

/**
 * Asks before something is removed for good. `path`: of what is removed; `done`: what is said of the answer.
 * @param {{title: string, path: string, done: (answer: any) => string, button?: string, onClose: () => void, onDone: () => void, children: any}} props
 */
export function Removal({ title, path, done, button = "Remove", onClose, onDone, children }) {
  const remove = async () => {
    notify(done(await request(path, { method: "DELETE" })));
    onClose();
    onDone();
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>${children}
    <p class="row"><${Act} class="danger" act=${remove}>${button}<//><button autofocus onClick=${onClose}>Keep it</button></p><//>`;
}

/**
 * The parts of a list, one after the other as they are asked for.
 * @param {string} path @param {string} key The list in the answer. @param {Record<string, unknown>} params
 */
export function useParts(path, key, params) {
  const [more, setMore] = useState(/** @type {{of: string, items: any[], following: string} | null} */ (null));
  const address = path + queryOf(params);
  const first = useGet(path, params);
  const extra = more?.of === address ? more : null;
  const items = [...(first.value?.[key] || []), ...(extra?.items || [])];
  const following = extra ? extra.following : first.value?.following || "";
  const next = async () => {
    const part = await request(path, { params: { ...params, cursor: following } });
    setMore({ of: address, items: [...(extra?.items || []), ...part[key]], following: part.following || "" });
  };
  const again = () => {
    setMore(null);
    first.again();
  };
  return { ...first, items, following, next, again };
}

/** @param {{list: {following: string, next: () => Promise<void>}}} props */
export function More({ list }) {
  return list.following ? html`<p><${Act} act=${list.next}>More<//></p>` : null;
}

/** A time as people read it. @param {{at: string}} props */
export function Time({ at }) {
  if (!at) return html`<span class="quiet">never</span>`;
  return html`<time datetime=${at} title=${at}>${ago(at)}</time>`;
}

/** @param {string} at */
function ago(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const units = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([["day", 86400], ["hour", 3600], ["minute", 60]]);
  for (const [unit, length] of units) if (Math.abs(seconds) >= length) return words.format(-Math.round(seconds / length), unit);
  return words.format(-Math.round(seconds), "second");
}

/** @param {{tools: any[], caption: string, empty?: string, short?: boolean}} props */
export function ToolTable({ tools, caption, empty = "It has no tools.", short }) {
  const rows = tools.map((tool) => [
    html`<${ToolLink} id=${tool.id} short=${short} />`,
    html`<div class="described">${isRenamed(tool) && html`<${Badge}>shown as ${tool.name}<//> `}<${Words} text=${tool.description} max=${240} /></div>`,
    html`<${Standing} of=${tool} />`,
  ]);
  return html`<${Table} caption=${caption} columns=${["Tool", "What it does", "State"]} rows=${rows} empty=${empty} />`;
}

/** Whether operators gave it another name than its source. @param {{id: string, agent_id: string, name: string}} tool */
export function isRenamed(tool) {
  return tool.id !== `${tool.agent_id}/${tool.name}`;
}
