// The agents that who looks may see: a list that is searched while one types; `agent.js` shows one.
import { html } from "../vendor/preact.js";
import { may, request } from "../http.js";
import { AgentLink, Badge, Described, KINDS, kindOf, Loaded, More, Path, Standing, Table, ToolTable, Twin, useGet, useLoad, useParts, useTyped, Words } from "../parts.js";
import { setQuery } from "../place.js";
import Agent from "./agent.js";

const STATES = {
  runs: "can run here",
  online: "online",
  waiting: "waiting for approval",
  failing: "failing",
  unreachable: "unreachable",
  hidden: "hidden",
  flagged: "flagged",
  pinned: "pinned",
};
const SETTLED_MS = 250;

/** @param {{path: string[], query: URLSearchParams}} props */
export default function Page({ path, query }) {
  return path[1] ? html`<${Agent} key=${path[1]} id=${path[1]} />` : html`<${Agents} query=${query} />`;
}

/** @param {{query: URLSearchParams}} props */
function Agents({ query }) {
  const params = {
    text: query.get("text") || "",
    ...Object.fromEntries(["kind", "state", "source", "tag"].map((name) => [name, query.getAll(name)])),
    least_tools: query.get("least_tools"),
  };
  const list = useParts("/v1/agents", "agents", params);
  const sources = useGet("/v1/sources");
  /** @type {{name: string, title: string, agents: string[]}[]} */
  const known = (sources.value?.sources || []).map((/** @type {any} */ each) => ({ ...each, title: sources.value.titles[each.name] }));
  return html`<div class="row between"><h1>Agents</h1><${Twin} path="/v1/agents" params=${params} /></div>
    <${Filters} query=${query} sources=${known} agents=${list.items} />
    <${Loaded} state=${list}>${() => html`<${Found} list=${list} sources=${known} />`}<//>
    ${params.text && may("route") && html`<${ToolsThatFit} text=${params.text} limit=${8} />`}`;
}

/** @param {{list: any, sources: {title: string, agents: string[]}[]}} props */
function Found({ list, sources }) {
  const claims = claimsOf(sources);
  const rows = list.items.map((/** @type {any} */ agent) => [
    html`<${Named} agent=${agent} />`,
    kindOf(agent.kind),
    agent.tools,
    (claims.get(agent.id) || []).map((title) => html`<div><${Path} text=${title} /></div>`),
    html`<${State} agent=${agent} />`,
  ]);
  return html`<p role="status" class="quiet">${list.items.length}${list.following ? " and more" : ""} agents</p>
    <${Table} caption="Agents" columns=${["Agent", "Kind", "Tools", "Sources", "State"]} rows=${rows} numeric=${[2]} empty="No agent fits." />
    <${More} list=${list} />`;
}

/** @param {{agent: any}} props */
function Named({ agent }) {
  const named = agent.name && agent.name !== agent.id;
  return html`<${AgentLink} id=${agent.id} /> ${named && html`<${Words} text=${agent.name} max=${80} />`}
    <div class="described quiet"><${Described} text=${agent.description} max=${200} /></div>
    ${agent.tags.length > 0 && html`<div>${agent.tags.slice(0, 8).map((/** @type {string} */ tag) => html`<${Badge}><${Words} text=${tag} max=${40} /><//> `)}</div>`}`;
}

/** @param {{agent: any}} props */
function State({ agent }) {
  return html`<${Standing} of=${agent} /> ${agent.cannot_run ? html`<span class="quiet">${agent.cannot_run}</span>` : html`<${Badge} kind="good">can run<//>`}`;
}

/** Agent's id → titles of the sources that claim it. @param {{title: string, agents: string[]}[]} sources */
function claimsOf(sources) {
  /** @type {Map<string, string[]>} */
  const claims = new Map();
  for (const { title, agents } of sources) for (const id of agents) claims.set(id, [...(claims.get(id) || []), title]);
  return claims;
}

/** @param {{query: URLSearchParams, sources: {name: string, title: string}[], agents: any[]}} props */
function Filters({ query, sources, agents }) {
  const tags = [...new Set([...agents.flatMap((agent) => agent.tags), ...query.getAll("tag")])].sort();
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value });
  return html`<form class="row" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <${Typed} query=${query} name="text" label="Search" />
    <${Choice} label="Kind" value=${query.get("kind")} options=${KINDS.map((kind) => [kind, kindOf(kind)])} onChange=${set("kind")} />
    <${Choice} label="State" value=${query.get("state")} options=${Object.entries(STATES)} onChange=${set("state")} />
    <${Choice} label="Source" value=${query.get("source")} options=${sources.map(({ name, title }) => [name, title])} onChange=${set("source")} />
    <${Choice} label="Tag" value=${query.get("tag")} options=${tags.map((tag) => [tag, tag])} onChange=${set("tag")} />
    <label>Tools, at least <input type="number" min="0" max="1000000" value=${query.get("least_tools") || ""} onChange=${set("least_tools")} /></label>
  </form>`;
}

/**
 * A text that stands in the query once nobody types any more.
 * @param {{query: URLSearchParams, name: string, label: string}} props
 */
export function Typed({ query, name, label }) {
  const [text, setText] = useTyped(query, name, SETTLED_MS);
  return html`<label>${label} <input type="search" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>`;
}

/** @param {{label: string, value: string | null, options: string[][], onChange: (event: any) => void}} props */
function Choice({ label, value, options, onChange }) {
  const known = !value || options.some(([each]) => each === value);
  return html`<label>${label} <select value=${value || ""} onChange=${onChange}>
    <option value="">any</option>
    ${(known ? options : [[value, value], ...options]).map(([each, name]) => html`<option value=${each} selected=${each === value}>${name}</option>`)}
  </select></label>`;
}

/** What a search for tools finds, the best first. @param {{text: string, limit: number}} props */
export function ToolsThatFit({ text, limit }) {
  const state = useLoad((ending) => request("/v1/tools/search", { body: { text, limit }, signal: ending }), [text]);
  return html`<h2>Tools that fit</h2>
    <${Loaded} state=${state}>
      ${(/** @type {any} */ route) => html`<${ToolTable} tools=${route.matches.map((/** @type {any} */ match) => match.tool)} caption="Tools that fit" empty=${route.reason || "No tool fits."} />`}
    <//>`;
}
