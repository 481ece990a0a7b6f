// Ask: a request by one to three recipes side by side, what each score is made of, and why another one did not come.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { may, request } from "../http.js";
import { Loaded, useGet, useLoad, useSettled, Words } from "../parts.js";
import { setQuery, useWanted } from "../place.js";
import { Answer, Legend, legsOf } from "./ask_answer.js";
import { Elsewhere } from "./ask_code.js";
import { formOf, isCostly, readRequest } from "./ask_request.js";
import { Why } from "./ask_why.js";

/** @typedef {import("./ask_request.js").Form} Form */
/** @typedef {import("./ask_request.js").Request} Request */

const SETTLED_MS = 150;
const MAX_QUERY_CHARS = 4000; // A longer text stays out of the address.
const MAX_RECIPES = 3;
const KINDS = ["mcp_server", "a2a_agent", "skill", "openapi", "custom"];
const FORMS = /** @type {[Form, string][]} */ ([["words", "a request"], ["steps", "steps, one a line"], ["conversation", "a conversation"]]);
const FILTERS = ["tag", "kind", "agent", "reachable", "within", "toolset", "strict"];

/** @param {{query: URLSearchParams}} props */
export default function Ask({ query }) {
  const [text, setText, settled] = useTyped(query.get("q") || "");
  const form = /** @type {Form} */ (query.get("as") || formOf(settled));
  const asked = readRequest(settled, form);
  const agents = query.get("for") !== "tools";
  const recipes = query.getAll("recipe").length ? query.getAll("recipe").slice(0, MAX_RECIPES) : ["hybrid"];
  const isAsked = Boolean(asked.text || asked.steps.length);
  const bodies = recipes.map((recipe) => bodyOf(asked, query, recipe));
  if (!may("route")) return html`<h1>Ask</h1><p>To ask needs the scope route, which you do not have.</p>`;
  return html`<h1>Ask</h1>
    <form class="card" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>What is to be done?
        <textarea rows=${Math.min(10, Math.max(2, text.split("\n").length))} autofocus placeholder="book a table for four, a step a line, or a pasted conversation (user: … assistant: … call: tool failed)" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
      </label>
      <${Choices} query=${query} form=${form} agents=${agents} />
      <${Recipes} chosen=${recipes} />
      <${Filters} query=${query} />
    </form>
    ${form === "conversation" && settled.trim() && html`<${Conversation} asked=${asked} />`}
    ${isAsked ? html`<${Answers} bodies=${bodies} agents=${agents} text=${asked.text} query=${query} />` : html`<${Beginning} />`}`;
}

/** What is typed, and that once it has settled, which the address keeps; another address brings another text. @param {string} given @returns {[string, (text: string) => void, string]} */
function useTyped(given) {
  const [text, setText] = useState(given);
  const settled = useSettled(text, SETTLED_MS);
  const written = useRef(given);
  useEffect(() => {
    written.current = settled.length <= MAX_QUERY_CHARS ? settled : "";
    setQuery({ q: written.current });
  }, [settled]);
  useEffect(() => {
    if (given === written.current) return;
    written.current = given;
    setText(given);
  }, [given]);
  return [text, setText, settled];
}

/** The body of a request as the service takes it; what is empty is left out. @param {Request} asked @param {URLSearchParams} query @param {string} recipe */
function bodyOf(asked, query, recipe) {
  const filters = {
    tags: listOf(query.get("tag")),
    kinds: query.getAll("kind"),
    agent_ids: listOf(query.get("agent")),
    reachable: query.has("reachable"),
    within: query.get("within") || "",
    toolset: query.get("toolset") || "",
  };
  const given = Object.entries(filters).filter(([, value]) => (Array.isArray(value) ? value.length : value));
  const limit = Number(query.get("limit")) || 5;
  return {
    ...(asked.text && { text: asked.text }),
    ...(asked.steps.length && { steps: asked.steps }),
    limit,
    recipe,
    ...(given.length && { filters: Object.fromEntries(given) }),
    ...(query.has("strict") && { strict: true }),
    ...(asked.history.length && { history: asked.history }),
    explain: true,
  };
}

/** @param {string | null} text */
function listOf(text) {
  return (text || "").split(",").map((each) => each.trim()).filter(Boolean);
}

/** @param {any} event */
const valueOf = (event) => event.target.value;

/** What is typed, what is looked for, and how much of it. @param {{query: URLSearchParams, form: Form, agents: boolean}} props */
function Choices({ query, form, agents }) {
  return html`<div class="row">
    <label class="beside">It is <select value=${form} onChange=${(/** @type {any} */ event) => setQuery({ as: valueOf(event) })}>${FORMS.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select></label>
    <label class="beside">Find <select value=${agents ? "agents" : "tools"} onChange=${(/** @type {any} */ event) => setQuery({ for: valueOf(event) === "tools" ? "tools" : null })}><option>agents</option><option>tools</option></select></label>
    <label class="beside">at most <input type="number" min="1" max="1000" value=${query.get("limit") || "5"} onChange=${(/** @type {any} */ event) => setQuery({ limit: valueOf(event) === "5" ? null : valueOf(event) })} /></label>
    <label class="beside">Bars by <select value=${query.get("by") || "leg"} onChange=${(/** @type {any} */ event) => setQuery({ by: valueOf(event) === "leg" ? null : valueOf(event) })}><option value="leg">part of the search</option><option value="entity">agent and tool</option></select></label>
  </div>`;
}

/** One to three, in the order of the service. @param {{chosen: string[]}} props */
function Recipes({ chosen }) {
  const { value } = useGet("/v1/recipes");
  const known = /** @type {{name: string, purpose: string}[]} */ (value?.recipes || chosen.map((name) => ({ name, purpose: "" })));
  const turn = (/** @type {string} */ name) => {
    const wanted = chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name];
    setQuery({ recipe: wanted.length === 1 && wanted[0] === "hybrid" ? null : wanted });
  };
  return html`<fieldset><legend>Recipes, up to ${MAX_RECIPES} side by side</legend>
    ${known.map(({ name, purpose }) => html`<label key=${name} class="beside" title=${purpose}><input type="checkbox" checked=${chosen.includes(name)} disabled=${chosen.includes(name) ? chosen.length === 1 : chosen.length >= MAX_RECIPES} onChange=${() => turn(name)} /> ${name}</label>`)}
  </fieldset>`;
}

/** @param {{query: URLSearchParams}} props */
function Filters({ query }) {
  const count = FILTERS.filter((name) => query.has(name)).length;
  const field = (/** @type {string} */ name, /** @type {string} */ label, list = "") =>
    html`<label>${label} <input list=${list || undefined} value=${query.get(name) || ""} onChange=${(/** @type {any} */ event) => setQuery({ [name]: valueOf(event).trim() })} /></label>`;
  const check = (/** @type {string} */ name, /** @type {string} */ label) =>
    html`<label class="beside"><input type="checkbox" checked=${query.has(name)} onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.target.checked ? "1" : null })} /> ${label}</label>`;
  const turnKind = (/** @type {string} */ kind) => setQuery({ kind: KINDS.filter((each) => query.getAll("kind").includes(each) !== (each === kind)) });
  return html`<details open=${count > 0}><summary>Filters${count > 0 && ` (${count})`}</summary>
    <div class="row">${field("tag", "Any of these tags, with commas")} ${field("agent", "Only these agents, with commas")} ${field("within", "Within a category")} ${field("toolset", "In a toolset", "toolsets")}</div>
    ${may("read") && html`<${Toolsets} />`}
    <fieldset><legend>Any of these kinds</legend>${KINDS.map((kind) => html`<label key=${kind} class="beside"><input type="checkbox" checked=${query.getAll("kind").includes(kind)} onChange=${() => turnKind(kind)} /> ${kind}</label>`)}</fieldset>
    ${check("reachable", "only those that can be reached")} ${check("strict", "withhold an answer that may not fit")}
    ${count > 0 && html`<button type="button" class="plain" onClick=${() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, null])))}>Without filters</button>`}
  </details>`;
}

function Toolsets() {
  const { value } = useGet("/v1/toolsets");
  return html`<datalist id="toolsets">${(value?.toolsets || []).map((/** @type {any} */ each) => html`<option key=${each.name} value=${each.name}></option>`)}</datalist>`;
}

/** How a pasted conversation was read. @param {{asked: Request}} props */
function Conversation({ asked }) {
  return html`<details class="card conversation"><summary>Read as ${asked.history.length} ${asked.history.length === 1 ? "turn" : "turns"} before the request “<${Words} text=${asked.text || "none"} max=${200} />”</summary>
    <ol>${asked.history.map((turn, at) => html`<li key=${at}><strong>${turn.role}</strong> <${Words} text=${turn.tool ? `${turn.tool} (${turn.outcome})` : turn.text || ""} max=${300} /></li>`)}</ol>
  </details>`;
}

/** @param {{bodies: any[], agents: boolean, text: string, query: URLSearchParams}} props */
function Answers({ bodies, agents, text, query }) {
  const [legs, setLegs] = useState(/** @type {Record<string, string[]>} */ ({}));
  const shown = new Set(bodies.flatMap((body) => legs[body.recipe] || []));
  const grouping = query.get("by") === "entity" ? "entity" : "leg";
  const tell = (/** @type {string} */ recipe, /** @type {any} */ answer) => setLegs((before) => ({ ...before, [recipe]: legsOf(answer) }));
  return html`<section aria-labelledby="answers">
      <h2 id="answers">${agents ? "Agents" : "Tools"} that can do it</h2>
      ${grouping === "leg" && html`<${Legend} legs=${[...shown]} />`}
      <div class="columns">${bodies.map((body) => html`<${Column} key=${`${body.recipe} ${agents}`} body=${body} agents=${agents} text=${text} grouping=${grouping} tell=${tell} />`)}</div>
    </section>
    <${Why} bodies=${bodies} name=${query.get("why") || ""} choose=${(/** @type {string} */ why) => setQuery({ why })} />
    <${Elsewhere} body=${bodies[0]} agents=${agents} />`;
}

/** What one recipe answers. The answer stays until the next one is there. @param {{body: any, agents: boolean, text: string, grouping: import("./ask_answer.js").Grouping, tell: (recipe: string, answer: any) => void}} props */
function Column({ body, agents, text, grouping, tell }) {
  const path = agents ? "/v1/route" : "/v1/tools/search", what = JSON.stringify([path, body]);
  const [isWanted, want] = useWanted(what);
  const runs = isWanted || !isCostly(body.recipe);
  const state = useLoad(async (ending) => (runs ? request(path, { body, signal: ending }) : null), [what, runs]);
  useEffect(() => state.value && tell(body.recipe, state.value), [state.value]);
  if (!runs) return html`<div class="answer"><h3>${body.recipe}</h3><p class="notice">A language model is called for each answer. <button onClick=${want}>Run</button></p></div>`;
  return html`<div class="answer"><h3>${body.recipe}</h3>
    <${Loaded} state=${state}>${(/** @type {any} */ answer) => html`<${Answer} answer=${answer} text=${text} grouping=${grouping} of=${body.recipe} />`}<//>
  </div>`;
}

/** Before anything is asked: what there is to ask. */
function Beginning() {
  const status = useGet("/v1/status");
  if (!may("read")) return null;
  return html`<${Loaded} state=${status}>${(/** @type {any} */ value) =>
    html`<p>This registry holds <strong>${value.agents.toLocaleString("en")}</strong> agents with <strong>${value.tools.toLocaleString("en")}</strong> tools. Type what is to be done: the answer follows as you type.</p>`}<//>`;
}
