// One agent: what its source states, what operators set, and what of it runs here.
import { html, useState } from "../vendor/preact.js";
import { mayOperate, maySet, queryOf } from "../http.js";
import { Badge, Described, Fold, heldBack, Json, kindOf, Loaded, marked, Outside, SourceLink, Standing, Time, ToolTable, Twin, useGet, Words } from "../parts.js";
import { HOME } from "../place.js";
import { AgentSettings } from "./agent_settings.js";
import { ByTool } from "./use.js";

const TOOLS_AT_ONCE = 100;

/** @param {{id: string}} props */
export default function Agent({ id }) {
  const path = `/v1/agents/${encodeURIComponent(id)}`;
  const state = useGet(path);
  return html`<p><a href=${`${HOME}/agents`}>Agents</a></p>
    <div class="row between"><h1><${Words} text=${state.value?.agent.name || id} max=${200} /></h1><${Twin} path=${path} params=${{ schema: true }} /></div>
    <${Loaded} state=${state}>${(/** @type {any} */ facts) => html`<${Facts} facts=${facts} again=${state.again} />`}<//>`;
}

/** @param {{facts: any, again: () => void}} props */
function Facts({ facts, again }) {
  const { agent, settings } = facts;
  return html`<p><${Standing} of=${agent} /></p>
    <p><${Described} text=${agent.description} max=${2000} /></p>
    <dl class="facts">
      <dt>Id</dt><dd><code>${marked(agent.id)}</code></dd>
      <dt>Kind</dt><dd>${kindOf(agent.kind)}</dd>
      <dt>Version</dt><dd><${Words} text=${agent.version || "not stated"} max=${100} /></dd>
      <dt>Runs here</dt><dd>${agent.pending ? `No: it ${heldBack(agent)}.` : facts.cannot_run ? `No: ${facts.cannot_run}.` : "A call can be tried."}</dd>
      <dt>Status</dt><dd><${Status} status=${agent.status} /></dd>
      <dt>Flags</dt><dd><${Listed} texts=${agent.flags} /></dd>
      <dt>Tags</dt><dd><${Tags} tags=${agent.tags} ours=${settings?.tags || []} /></dd>
      <dt>Seen by</dt><dd><${Seers} agent=${agent} settings=${settings} /></dd>
      <dt>Sources</dt><dd>${facts.sources.map((/** @type {string} */ name, /** @type {number} */ at) => html`${at > 0 && ", "}<${SourceLink} name=${name} />`)}</dd>
      <dt>History</dt><dd><a href=${`${HOME}/changes${queryOf({ agent: agent.id })}`}>Changes of this agent</a>, <a href=${`${HOME}/map${queryOf({ around: `agent:${agent.id}` })}`}>its neighbours on the map</a></dd>
      <dt>Reached by</dt><dd><${Transport} transport=${agent.transport} /></dd>
    </dl>
    ${maySet() && html`<${AgentSettings} key=${agent.id} agent=${agent} settings=${settings} again=${again} />`}
    <h2>Tools</h2>
    <${Tools} tools=${facts.tools} />
    ${mayOperate() && html`<${ByTool} agent=${agent.id} />`}`;
}

/** @param {{status: string}} props */
function Status({ status }) {
  const outage = /^unreachable since (\S+): (.*)$/s.exec(status);
  if (outage) return html`unreachable since <${Time} at=${outage[1]} />: <${Words} text=${outage[2]} />`;
  return status === "known" ? html`known; never asked for its tools` : html`<${Words} text=${status} />`;
}

/** @param {{texts: string[]}} props */
export function Listed({ texts }) {
  if (!texts.length) return html`none`;
  return html`<ul class="plain">${texts.slice(0, 50).map((text) => html`<li><${Words} text=${text} max=${500} /></li>`)}</ul>`;
}

/** @param {{tags: string[], ours: string[]}} props */
function Tags({ tags, ours }) {
  if (!tags.length) return html`none`;
  return tags.map((tag) => html`<${Badge} kind=${ours.includes(tag) ? "good" : ""}><${Words} text=${tag} max=${60} />${ours.includes(tag) && " (operators)"}<//> `);
}

/** @param {{agent: any, settings: any}} props */
function Seers({ agent, settings }) {
  const groups = agent.visible_to.length ? html`only the groups <${Words} text=${agent.visible_to.join(", ")} max=${300} />` : html`everyone`;
  return html`${groups}, as ${settings?.visible_to ? "operators set it" : "its source says"}`;
}

/** @param {{transport: any}} props */
function Transport({ transport }) {
  if (!transport) return html`<span class="quiet">nothing that you may see</span>`;
  return html`${transport.url && html`<p><${Outside} href=${transport.url} /></p>`}
    <${Fold} title=${String(transport.type || transport.kind || "How it is reached")}>${() => html`<${Json} value=${transport} label="How it is reached" />`}<//>`;
}

/** @param {{tools: any[]}} props */
function Tools({ tools }) {
  const [most, setMost] = useState(TOOLS_AT_ONCE);
  return html`<${ToolTable} tools=${tools.slice(0, most)} caption="Tools of this agent" short />
    ${most < tools.length && html`<p><button onClick=${() => setMost(most + TOOLS_AT_ONCE)}>More</button> <span class="quiet">${most} of ${tools.length}</span></p>`}`;
}
