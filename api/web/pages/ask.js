// Ask: one box and the answer under it; what compares ways to rank, and what narrows the question, stands behind it.
import { html, useEffect, useState } from "../vendor/preact.js";
import { Field, Form, namesIn } from "../fields.js";
import { may, request, session } from "../http.js";
import { Fold, KINDS, kindOf, Loaded, Nothing, useLoad, useTyped, waits, Words } from "../parts.js";
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
    <${Form} role="search" fields=${[{ label: "What is to be done?", as: "area", class: "box", rows: Math.min(10, text.split("\n").length), autofocus: true, placeholder: "book a table for four", value: text, set: setText }]} />
    ${form === "conversation" && settled.trim() && html`<${Conversation} asked=${asked} />`}
    ${asked.text || asked.steps.length ? html`<${Answers} bodies=${bodies} agents=${agents} text=${asked.text} query=${query} />` : html`<${Beginning} />`}
    <${Fold} title="Compare" open=${recipes.length > 1}>${() => html`<${Compare} chosen=${recipes} agents=${agents} />`}<//>
    <${Fold} title=${`Narrow${count ? ` (${count})` : ""}`} open=${count > 0}>${() => html`<${Narrow} query=${query} form=${form} />`}<//>
    ${(asked.text || asked.steps.length > 0) && html`<${Elsewhere} body=${bodies[0]} agents=${agents} />`}`;
}

/** The body of a request as the service takes it; what is empty is left out. @param {Request} asked @param {URLSearchParams} query @param {string} recipe */
function bodyOf(asked, query, recipe) {
  const filters = {
    tags: namesIn(query.get("tag")),
    kinds: query.getAll("kind"),
    agent_ids: namesIn(query.get("agent")),
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

/** All recipes, where somebody wants others than the usual one. @param {boolean} isWanted @returns {{name: string, purpose: string, hindrance: string}[]} */
function useRecipes(isWanted) {
  return useLoad(async (ending) => (isWanted ? (await request("/v1/recipes", { signal: ending })).recipes : []), [isWanted]).value || [];
}

/** One to three recipes, in the order of the service; those that cannot answer here with the reason. @param {{chosen: string[], agents: boolean}} props */
function Compare({ chosen, agents }) {
  const choose = (/** @type {string[]} */ wanted) => setQuery({ recipe: wanted.length === 1 && wanted[0] === "hybrid" ? null : wanted });
  const isOff = (/** @type {string} */ name, /** @type {string} */ hindrance) => (chosen.includes(name) ? chosen.length === 1 : chosen.length >= MAX_RECIPES || Boolean(hindrance));
  return html`<${Field} as="choice" label="Find" beside value=${agents ? "agents" : "tools"} options=${["agents", "tools"]} set=${(/** @type {string} */ kind) => setQuery({ for: kind === "tools" ? kind : null })} />
    <${Field} as="some" label=${`Recipes, up to ${MAX_RECIPES} side by side`} value=${chosen} set=${choose} options=${useRecipes(true).map(({ name, purpose, hindrance }) => [name, name, { note: hindrance || purpose, disabled: isOff(name, hindrance) }])} />`;
}

/** What is typed, how much of it is shown, and who may answer. @param {{query: URLSearchParams, form: Form}} props */
function Narrow({ query, form }) {
  const toolsets = useLoad(async (ending) => (may("read") ? (await request("/v1/toolsets", { signal: ending })).toolsets : []), []).value || [];
  const text = (/** @type {string} */ name, /** @type {string} */ label, /** @type {any} */ more = {}) => ({ label, late: true, value: query.get(name) || "", set: (/** @type {string} */ value) => setQuery({ [name]: value.trim() }), ...more });
  const check = (/** @type {string} */ name, /** @type {string} */ label) => ({ label, as: "check", value: query.has(name), set: (/** @type {boolean} */ on) => setQuery({ [name]: on ? "1" : null }) });
  return html`<${Form} class="row" fields=${[
      { label: "It is", as: "choice", beside: true, value: form, options: FORMS, set: (/** @type {string} */ value) => setQuery({ as: value }) },
      text("limit", "at most", { as: "number", beside: true, min: 1, max: 1000, value: query.get("limit") || "5", set: (/** @type {string} */ value) => setQuery({ limit: value === "5" ? null : value }) }),
      text("tag", "Any of these tags, with commas"),
      text("agent", "Only these agents, with commas"),
      text("within", "Within a category"),
      text("toolset", "In a toolset", { known: toolsets.map((/** @type {any} */ each) => [each.name]) }),
      { label: "Any of these kinds", as: "some", value: query.getAll("kind"), options: KINDS.map((kind) => [kind, kindOf(kind)]), set: (/** @type {string[]} */ kinds) => setQuery({ kind: kinds }) },
      check("reachable", "only those that can be reached"),
      check("strict", "withhold an answer that may not fit"),
    ]} />
    <button type="button" class="plain" onClick=${() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, null])))}>Without filters</button>`;
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
