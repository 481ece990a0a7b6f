// Ask: one box and the answer under it; what compares ways to rank, and what narrows the question, stands behind it.
import { html, useEffect, useState } from "../vendor/preact.js";
import { may, request, session } from "../http.js";
import { Fold, KINDS, kindOf, Loaded, Nothing, useGet, useLoad, useTyped, waits, Words } from "../parts.js";
import { HOME, setQuery, useWanted } from "../place.js";
import { Answer, digest, heldWords } from "./ask_answer.js";
import { Elsewhere } from "./ask_code.js";
import { formOf, isCostly, readRequest } from "./ask_request.js";

/** @typedef {import("./ask_request.js").Form} Form */
/** @typedef {import("./ask_request.js").Request} Request */

const MAX_RECIPES = 3;
const FORMS = /** @type {[Form, string][]} */ ([["words", "a request"], ["steps", "steps, one a line"], ["conversation", "a conversation"]]);
const FILTERS = ["tag", "kind", "agent", "reachable", "within", "toolset", "strict"];

/** @param {{query: URLSearchParams}} props */
export default function Ask({ query }) {
  const [text, setText, settled] = useTyped(query, "q", 150);
  const form = /** @type {Form} */ (query.get("as") || formOf(settled));
  const asked = readRequest(settled, form), count = FILTERS.filter((name) => query.has(name)).length;
  const agents = query.get("for") !== "tools";
  const chosen = query.getAll("recipe").slice(0, MAX_RECIPES), recipes = chosen.length ? chosen : ["hybrid"];
  const bodies = recipes.map((recipe) => bodyOf(asked, query, recipe));
  if (!session.value?.holds) return html`<h1>Ask</h1><${Nothing} />`;
  if (!may("route")) return html`<h1>Ask</h1><p>To ask needs the scope route, which you do not have.</p>`;
  return html`<h1 class="hidden">Ask</h1>
    <form role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>What is to be done?
        <textarea class="box" rows=${Math.min(10, text.split("\n").length)} autofocus placeholder="book a table for four" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
      </label>
    </form>
    ${form === "conversation" && settled.trim() && html`<${Conversation} asked=${asked} />`}
    ${asked.text || asked.steps.length ? html`<${Answers} bodies=${bodies} agents=${agents} text=${asked.text} query=${query} />` : html`<${Beginning} />`}
    <${Fold} title="Compare" open=${recipes.length > 1}>${() => html`<${Compare} chosen=${recipes} agents=${agents} />`}<//>
    <${Fold} title=${`Narrow${count ? ` (${count})` : ""}`} open=${count > 0}>${() => html`<${Narrow} query=${query} form=${form} />`}<//>
    ${(asked.text || asked.steps.length > 0) && html`<${Elsewhere} body=${bodies[0]} agents=${agents} />`}`;
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
  return {
    ...(asked.text && { text: asked.text }),
    ...(asked.steps.length && { steps: asked.steps }),
    limit: Number(query.get("limit")) || 5,
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

/** All recipes, where somebody wants others than the usual one. @param {boolean} isWanted @returns {{name: string, purpose: string, hindrance: string}[]} */
function useRecipes(isWanted) {
  return useLoad(async (ending) => (isWanted ? (await request("/v1/recipes", { signal: ending })).recipes : []), [isWanted]).value || [];
}

/** One to three recipes, in the order of the service; those that cannot answer here with the reason. @param {{chosen: string[], agents: boolean}} props */
function Compare({ chosen, agents }) {
  const turn = (/** @type {string} */ name) => {
    const wanted = chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name];
    setQuery({ recipe: wanted.length === 1 && wanted[0] === "hybrid" ? null : wanted });
  };
  const isFull = chosen.length >= MAX_RECIPES;
  return html`<label class="beside">Find <select value=${agents ? "agents" : "tools"} onChange=${(/** @type {any} */ event) => setQuery({ for: valueOf(event) === "tools" ? "tools" : null })}><option>agents</option><option>tools</option></select></label>
    <fieldset><legend>Recipes, up to ${MAX_RECIPES} side by side</legend>
    ${useRecipes(true).map(({ name, purpose, hindrance }) => html`<div key=${name}><label class="beside" title=${purpose}><input type="checkbox" checked=${chosen.includes(name)} disabled=${chosen.includes(name) ? chosen.length === 1 : isFull || hindrance} onChange=${() => turn(name)} /> ${name}</label>
      <span class="quiet">${hindrance || purpose}</span></div>`)}
  </fieldset>`;
}

/** What is typed, how much of it is shown, and who may answer. @param {{query: URLSearchParams, form: Form}} props */
function Narrow({ query, form }) {
  const field = (/** @type {string} */ name, /** @type {string} */ label, list = "") =>
    html`<label>${label} <input list=${list || undefined} value=${query.get(name) || ""} onChange=${(/** @type {any} */ event) => setQuery({ [name]: valueOf(event).trim() })} /></label>`;
  const check = (/** @type {string} */ name, /** @type {string} */ label) =>
    html`<label class="beside"><input type="checkbox" checked=${query.has(name)} onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.target.checked ? "1" : null })} /> ${label}</label>`;
  const turnKind = (/** @type {string} */ kind) => setQuery({ kind: KINDS.filter((each) => query.getAll("kind").includes(each) !== (each === kind)) });
  return html`<div class="row">
      <label class="beside">It is <select value=${form} onChange=${(/** @type {any} */ event) => setQuery({ as: valueOf(event) })}>${FORMS.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select></label>
      <label class="beside">at most <input type="number" min="1" max="1000" value=${query.get("limit") || "5"} onChange=${(/** @type {any} */ event) => setQuery({ limit: valueOf(event) === "5" ? null : valueOf(event) })} /></label>
    </div>
    <div class="row">${field("tag", "Any of these tags, with commas")} ${field("agent", "Only these agents, with commas")} ${field("within", "Within a category")} ${field("toolset", "In a toolset", "toolsets")}</div>
    ${may("read") && html`<${Toolsets} />`}
    <fieldset><legend>Any of these kinds</legend>${KINDS.map((kind) => html`<label key=${kind} class="beside"><input type="checkbox" checked=${query.getAll("kind").includes(kind)} onChange=${() => turnKind(kind)} /> ${kindOf(kind)}</label>`)}</fieldset>
    ${check("reachable", "only those that can be reached")} ${check("strict", "withhold an answer that may not fit")}
    <button type="button" class="plain" onClick=${() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, null])))}>Without filters</button>`;
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
  const [spoken, setSpoken] = useState("");
  return html`<section aria-label="The answer">
      <p class="hidden" role="status">${spoken}</p>
      <div class="columns">${bodies.map((body) => html`<${Column} key=${`${body.recipe} ${agents}`} body=${body} agents=${agents} text=${text} why=${query.get("why") || ""} titled=${bodies.length > 1 || body.recipe !== "hybrid"} tell=${body === bodies[0] ? setSpoken : undefined} />`)}</div>
    </section>
    <${Held} text=${text} />`;
}

/** What one recipe answers. The answer stays until the next one is there. @param {{body: any, agents: boolean, text: string, why: string, titled: boolean, tell?: (sentence: string) => void}} props */
function Column({ body, agents, text, why, titled, tell }) {
  const path = agents ? "/v1/route" : "/v1/tools/search", what = JSON.stringify([path, body]);
  const [isWanted, want] = useWanted(what), known = useRecipes(body.recipe !== "hybrid");
  const hindrance = known.find(({ name }) => name === body.recipe)?.hindrance;
  const runs = (isWanted || !isCostly(body.recipe)) && !hindrance && (body.recipe === "hybrid" || known.length > 0);
  const state = useLoad(async (ending) => (runs ? request(path, { body, signal: ending }) : null), [what, runs]);
  useEffect(() => state.value && tell?.(digest(state.value, text)), [state.value]);
  const title = html`<h2 class=${titled ? "" : "hidden"}>${body.recipe}</h2>`;
  if (hindrance) return html`<div class="answer">${title}<p class="notice">${hindrance}</p></div>`;
  if (!runs && isCostly(body.recipe)) return html`<div class="answer">${title}<p class="notice">A language model is called for each answer. <button onClick=${want}>Run</button></p></div>`;
  return html`<div class="answer">${title}
    <${Loaded} state=${state}>${(/** @type {any} */ answer) => html`<${Answer} answer=${answer} text=${text} of=${body.recipe} body=${body} path=${path} why=${why} again=${state.again} />`}<//>
  </div>`;
}

/** What waits for approval, and has most words of the request. @param {{text: string}} props */
function Held({ text }) {
  const fit = waits.value.items.filter((item) => !item.rejection && heldWords(text, [item.id, item.description]).length * 2 > heldWords(text, [text]).length);
  return fit.slice(0, 3).map(({ id }) => html`<p class="notice" key=${id}><b>${id}</b> has these words too, and waits for approval. <a class="button" href=${`${HOME}/changes?text=${encodeURIComponent(id)}`}>Look at it</a></p>`);
}

/** Before anything is asked: what there is to ask, or how to begin. */
function Beginning() {
  const status = useLoad(async (ending) => (may("read") ? request("/v1/status", { signal: ending }) : { agents: 1, tools: 0 }), []);
  return html`<${Loaded} state=${status}>${(/** @type {any} */ { agents, tools }) =>
    agents ? html`<p>This registry holds <strong>${agents.toLocaleString("en")}</strong> agents with <strong>${tools.toLocaleString("en")}</strong> tools. Type what is to be done: the answer follows as you type.</p>` : html`<${Nothing} />`}<//>`;
}
