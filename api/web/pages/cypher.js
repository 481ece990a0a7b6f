// Statements that only read, as one types them: with completion, kept by the browser, shared by their address.
import { html, useEffect, useState } from "../vendor/preact.js";
import { Field, Form } from "../fields.js";
import { request } from "../http.js";
import { Copied, Fault, notify, useLoad, Words } from "../parts.js";
import { go, HOME, useWanted } from "../place.js";
import { curl, quote } from "../shell.js";
import { Editor } from "./cypher_editor.js";
import { EXAMPLES } from "./cypher_examples.js";
import { Result } from "./cypher_result.js";

/** @typedef {{name: string, statement: string, params: string}} Saved */

const FIRST = "MATCH (a:Agent)-[owns:OWNS]->(t:Tool)\nRETURN a, owns, t LIMIT 25";
const KEPT = "cypher";

/** @param {{query: URLSearchParams}} props */
export default function Page({ query }) {
  const asked = query.get("statement") || "", given = query.get("params") || "";
  const [statement, setStatement] = useState(asked || FIRST);
  const [params, setParams] = useState(given);
  const [round, setRound] = useState(0);
  const [caret, setCaret] = useState(/** @type {{at: number} | null} */ (null));
  const [isWanted] = useWanted(placeOf(asked, given));
  const state = useLoad(async (ending) => (asked && isWanted ? request("/v1/cypher", { body: { statement: asked, params: readParams(given) }, signal: ending }) : null), [asked, given, round, isWanted]);
  useEffect(() => { // the way back leads to what was asked before
    if (!asked) return;
    setStatement(asked);
    setParams(given);
  }, [asked, given]);
  const run = () => {
    go(placeOf(statement, params));
    setRound(round + 1);
  };
  const take = (/** @type {Saved} */ saved) => {
    setStatement(saved.statement);
    setParams(saved.params);
    go(placeOf(saved.statement, saved.params));
  };
  return html`<h1>Cypher</h1>
    <${Editor} value=${statement} onChange=${setStatement} onRun=${run} caret=${caret} />
    <details open=${Boolean(params)}><summary>Parameters</summary><${Field} as="area" rows="2" spellcheck="false" label=${html`As JSON, such as <code>{"word": "invoice"}</code> for <code>$word</code>`} value=${params} set=${setParams} /></details>
    <p class="row"><button class="main" onClick=${run} disabled=${!statement.trim()}>Run</button> <span class="quiet">Control and Enter</span>
      <${Copied} text=${inShell(statement, params)} label="Copy for the command line" /> <${Copied} text=${curl("/v1/cypher", { statement, params: paramsOf(params) })} label="Copy as curl" /></p>
    ${asked && !isWanted && html`<p class="notice">A link brought this statement. Run it if it is what you want to ask.</p>`}
    <${Limits} />
    <div aria-busy=${state.busy}>
      ${state.error && html`<${Failure} error=${state.error} statement=${asked} onCaret=${(/** @type {number} */ at) => setCaret({ at })} />`}
      ${state.busy && asked && isWanted && html`<p class="quiet">Running …</p>`}
      ${state.value && !state.busy && html`<${Result} result=${state.value} />`}
    </div>
    <div class="columns"><${Kept} statement=${statement} params=${params} onTake=${take} /><${Examples} onTake=${take} /></div>`;
}

/** @param {string} statement @param {string} params */
function placeOf(statement, params) {
  return `${HOME}/cypher?${new URLSearchParams({ statement, ...(params.trim() && { params }) })}`;
}

/** Raises an Error for what is no JSON object. @param {string} text */
function readParams(text) {
  if (!text.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`The parameters are no JSON: ${/** @type {Error} */ (error).message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("The parameters are a JSON object.");
  return value;
}

/** Parameters that are no JSON are left out. @param {string} text @returns {Record<string, unknown>} */
function paramsOf(text) {
  try {
    return readParams(text);
  } catch {
    return {};
  }
}

/** @param {string} statement @param {string} params */
function inShell(statement, params) {
  const options = Object.entries(paramsOf(params)).map(([name, value]) => ` --param ${quote(`${name}=${JSON.stringify(value)}`)}`);
  return `waygraph cypher${options.join("")} -- ${quote(statement)}`;
}

function Limits() {
  return html`<details><summary>What a statement may do</summary><p>It only reads, of the last committed revision, the sources' words; what operators say stands in <code>Setting</code> nodes. Unless an operator chose otherwise (<code>WAYGRAPH_CYPHER_…</code>), it ends after 10 s or 1 GiB of memory, gives 1,000 rows and 16 MiB at most, has 20,000 characters at most, and two statements run at a time. Embeddings are shown as <code>${"<384 floats>"}</code>.</p></details>`;
}

/** @param {{error: any, statement: string, onCaret: (at: number) => void}} props */
function Failure({ error, statement, onCaret }) {
  const found = /line (\d+), column (\d+)/.exec(error.message);
  const at = found ? statement.split("\n").slice(0, Number(found[1]) - 1).reduce((sum, line) => sum + line.length + 1, 0) + Number(found[2]) - 1 : 0;
  return html`<${Fault} error=${error} />${found && html`<p><button onClick=${() => onCaret(Math.min(at, statement.length))}>Go to line ${found[1]}, column ${found[2]}</button></p>`}`;
}

// -- kept ---------------------------------------------------------------------------------------------

/** @returns {Saved[]} */
function readKept() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) || "[]");
    return Array.isArray(kept) ? kept.filter((each) => typeof each?.statement === "string" && typeof each.name === "string").map((each) => ({ ...each, params: String(each.params || "") })) : [];
  } catch {
    return [];
  }
}

/** @param {{statement: string, params: string, onTake: (saved: Saved) => void}} props */
function Kept({ statement, params, onTake }) {
  const [kept, setKept] = useState(readKept);
  const [round, setRound] = useState(0);
  const put = (/** @type {Saved[]} */ all) => {
    localStorage.setItem(KEPT, JSON.stringify(all));
    setKept(all);
  };
  const keep = async (/** @type {any} */ { name }) => {
    put([{ name, statement, params }, ...kept.filter((each) => each.name !== name)]);
    notify(`Kept as ${name}, in this browser.`);
    setRound(round + 1); // an empty form
  };
  return html`<section aria-labelledby="kept"><h2 id="kept">Kept in this browser</h2>
    <${Form} key=${round} class="row" act=${keep} isEdit button="Keep it" fields=${[{ name: "name", label: "Name", beside: true, maxlength: 80 }]} />
    <ul class="plain">${kept.map((saved) => html`<li key=${saved.name}><button class="plain" onClick=${() => onTake(saved)}><${Words} text=${saved.name} /></button> <button class="plain" aria-label=${`Forget ${saved.name}`} onClick=${() => put(kept.filter((each) => each !== saved))}>×</button></li>`)}</ul>
    ${!kept.length && html`<p class="quiet">Nothing yet.</p>`}</section>`;
}

/** @param {{onTake: (saved: Saved) => void}} props */
function Examples({ onTake }) {
  return html`<section aria-labelledby="examples"><h2 id="examples">Questions to begin with</h2>
    <ul class="plain">${EXAMPLES.map(([name, statement]) => html`<li key=${name}><button class="plain" onClick=${() => onTake({ name, statement, params: "" })}>${name}</button></li>`)}</ul></section>`;
}
