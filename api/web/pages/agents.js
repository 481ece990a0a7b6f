// The agents that who looks may see: a list that is searched while one types; `agent.js` shows one.
import { html } from "../vendor/preact.js";
import { Form } from "../fields.js";
import { may, request } from "../http.js";
import { AgentLink, Badge, counted, Described, KINDS, kindOf, Loaded, More, Path, Standing, Table, ToolTable, Twin, useGet, useLoad, useParts, useTyped, Words } from "../parts.js";
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
  const rows = list.items.map((/** @type {any} */ agent) => [
    html`<${Named} agent=${agent} />`,
    kindOf(agent.kind),
    agent.tools,
    sources.filter(({ agents }) => agents.includes(agent.id)).map(({ title }) => html`<div><${Path} text=${title} /></div>`),
    html`<${State} agent=${agent} />`,
  ]);
  return html`<p role="status" class="quiet">${counted({ agents: list.items.length }) || "No agents"}${list.following && " and more"}</p>
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

/** @param {{query: URLSearchParams, sources: {name: string, title: string}[], agents: any[]}} props */
function Filters({ query, sources, agents }) {
  const tags = [...new Set([...agents.flatMap((agent) => agent.tags), ...query.getAll("tag")])].sort();
  const field = (/** @type {string} */ name, /** @type {any} */ more) => ({ value: query.get(name) || "", set: (/** @type {string} */ value) => setQuery({ [name]: value }), ...more });
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options) => {
    const now = query.get(name) || "", isKnown = !now || options.some(([value]) => value === now);
    return field(name, { as: "choice", label, options: [["", "any"], ...(isKnown ? [] : [now]), ...options] });
  };
  return html`<${Form} class="row" role="search" fields=${[
    useSearch(query, "Search"),
    choice("kind", "Kind", KINDS.map((kind) => [kind, kindOf(kind)])),
    choice("state", "State", Object.entries(STATES)),
    choice("source", "Source", sources.map(({ name, title }) => [name, title])),
    choice("tag", "Tag", tags.map((tag) => [tag, tag])),
    field("least_tools", { label: "Tools, at least", as: "number", min: 0, max: 1000000, late: true }),
  ]} />`;
}

/** A field whose text stands in the query once nobody types any more. @param {URLSearchParams} query @param {string} label */
export function useSearch(query, label) {
  const [value, set] = useTyped(query, "text", SETTLED_MS);
  return { label, as: "search", value, set };
}

/** What a search for tools finds, the best first. @param {{text: string, limit: number}} props */
export function ToolsThatFit({ text, limit }) {
  const state = useLoad((ending) => request("/v1/tools/search", { body: { text, limit }, signal: ending }), [text]);
  return html`<h2>Tools that fit</h2>
    <${Loaded} state=${state}>
      ${(/** @type {any} */ route) => html`<${ToolTable} tools=${route.matches.map((/** @type {any} */ match) => match.tool)} caption="Tools that fit" empty=${route.reason || "No tool fits."} />`}
    <//>`;
}
