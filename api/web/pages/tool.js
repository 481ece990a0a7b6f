// One tool: what it says of itself, what operators changed, its arguments as a form, and a try.
import { html } from "../vendor/preact.js";
import { may, mayOperate, maySet, pathOf, queryOf, session } from "../http.js";
import { AgentLink, Badge, Described, Fold, heldBack, isRenamed, Json, Loaded, Standing, Twin, useGet, Words } from "../parts.js";
import { HOME } from "../place.js";
import { Listed } from "./agent.js";
import { ToolSettings } from "./tool_settings.js";
import { TryIt } from "./try_it.js";
import { ByTool } from "./use.js";

// As MCP names them: what is said where one is true, and where it is false.
const HINTS = {
  readOnlyHint: ["read-only", "writes"],
  destructiveHint: ["destructive", "not destructive"],
  idempotentHint: ["idempotent", "not idempotent"],
  openWorldHint: ["open world", "closed world"],
};

/** @param {{id: string, query: URLSearchParams}} props */
export default function Tool({ id, query }) {
  const agentId = id.slice(0, id.indexOf("/"));
  const path = `/v1/tools/${pathOf(id)}`;
  const state = useGet(path, { schema: true });
  const agent = useGet(`/v1/agents/${encodeURIComponent(agentId)}`);
  return html`<p><a href=${`${HOME}/agents`}>Agents</a> / <${AgentLink} id=${agentId} /></p>
    <div class="row between"><h1><${Words} text=${state.value?.name || id} max=${200} /></h1><${Twin} path=${path} params=${{ schema: true }} /></div>
    <${Loaded} state=${state}>${(/** @type {any} */ tool) => html`<${Facts} tool=${tool} agent=${agent.value} call=${query.get("call")} again=${state.again} />`}<//>`;
}

/** @param {{tool: any, agent: any, call: string | null, again: () => void}} props */
function Facts({ tool, agent, call, again }) {
  const cannot = whyNot(tool, agent);
  return html`<p><${Standing} of=${tool} /> <${Annotations} of=${tool.annotations} /></p>
    <p><${Described} text=${tool.description} max=${2000} /></p>
    <dl class="facts">
      <dt>Id</dt><dd><code><${Words} text=${tool.id} max=${300} /></code></dd>
      <dt>Hosts call it</dt><dd><code><${Words} text=${tool.call_name} max=${300} /></code></dd>
      <dt>Runs here</dt><dd>${cannot ? `No: ${cannot}.` : "A call can be tried."}${tool.pending && html` <a href=${`${HOME}/changes${queryOf({ text: tool.id })}`}>Look at it</a>`}</dd>
      <dt>Flags</dt><dd><${Listed} texts=${tool.flags} /></dd>
      ${tool.tags.length > 0 && html`<dt>Tags</dt><dd>${tool.tags.map((/** @type {string} */ tag) => html`<${Badge}><${Words} text=${tag} max=${60} /><//> `)}</dd>`}
      <dt>People ask</dt><dd><${Listed} texts=${tool.questions} /></dd>
    </dl>
    ${tool.source_form && html`<${Stated} tool=${tool} />`}
    ${!tool.source_form && isRenamed(tool) && html`<p class="notice">Operators gave it another name: its source calls it <${Words} text=${tool.id.slice(tool.agent_id.length + 1)} max=${200} />.</p>`}
    <${TryIt} key=${tool.content_hash} tool=${tool} kind=${agent?.agent.kind || ""} cannot=${offersCalls() ? cannot : NO_CALLS} shown=${call} />
    ${mayOperate() && html`<${ByTool} agent=${tool.agent_id} tool=${tool.id} />`}
    <h2>Schemas</h2>
    <${Fold} title="Of its arguments">${() => html`<${Json} value=${tool.input_schema} label="Schema of the arguments" />`}<//>
    ${tool.output_schema ? html`<${Fold} title="Of its result">${() => html`<${Json} value=${tool.output_schema} label="Schema of the result" />`}<//>` : html`<p class="quiet">It states none of its result.</p>`}
    ${maySet() && html`<${ToolSettings} key=${tool.content_hash} tool=${tool} again=${again} />`}`;
}

const NO_CALLS = "calls from these pages are off for you: the operator sets WAYGRAPH_EXPLORER_CALLS, and your key needs the scope use";

function offersCalls() {
  return may("use") && Boolean(session.value?.calls);
}

/** Why a call cannot be tried; empty: it can. @param {any} tool @param {any} agent */
function whyNot(tool, agent) {
  if (agent?.agent.pending) return `its agent ${heldBack(agent.agent)}`;
  return tool.pending ? `it ${heldBack(tool)}` : agent?.cannot_run || "";
}

/** @param {{of: Record<string, any> | null}} props */
function Annotations({ of: annotations }) {
  const said = annotations || {};
  return Object.entries(HINTS)
    .filter(([hint]) => typeof said[hint] === "boolean")
    .map(([hint, [yes, no]]) => html`<${Badge} kind=${hint === "destructiveHint" && said[hint] ? "bad" : ""}>${said[hint] ? yes : no}<//> `);
}

/** What operators changed, beside what the source states. @param {{tool: any}} props */
function Stated({ tool }) {
  const { description, setting, input_schema: schema } = tool.source_form;
  const changed = Object.entries(setting.parameters);
  return html`<section class="notice"><h2>Changed by operators</h2>
    <dl class="facts">
      ${setting.name && html`<dt>Its source calls it</dt><dd><${Words} text=${tool.id.slice(tool.agent_id.length + 1)} max=${200} /></dd>`}
      ${setting.description && html`<dt>Its source describes it</dt><dd><${Words} text=${description || "with no word"} max=${1000} /></dd>`}
      ${setting.questions?.length > 0 && html`<dt>Operators say that people ask</dt><dd><${Listed} texts=${setting.questions} /></dd>`}
      ${changed.map(([name, each]) => html`<dt>Parameter <${Words} text=${name} max=${100} /></dt><dd><${Change} setting=${each} /></dd>`)}
    </dl>
    <${Fold} title="Its arguments, as its source states them">${() => html`<${Json} value=${schema} label="The source's schema" />`}<//>
  </section>`;
}

/** @param {{setting: any}} props */
function Change({ setting }) {
  const pinned = "pin" in setting && html`always <code><${Words} text=${JSON.stringify(setting.pin)} max=${200} /></code>, and not shown `;
  return html`${pinned}${setting.hidden && !pinned && "not shown "}${setting.name && html`shown as <${Words} text=${setting.name} max=${100} /> `}
    ${setting.description && html`described: <${Words} text=${setting.description} max=${300} />`}`;
}
