// What an operator looks after: the service, keys, toolsets, and one's own logins at servers.
import { html, useState } from "../vendor/preact.js";
import { Form, namesIn } from "../fields.js";
import { may, pathOf, request, session } from "../http.js";
import { HOME, place } from "../place.js";
import { quote } from "../shell.js";
import { Act, AgentLink, Badge, Code, Copied, Dialog, Loaded, notify, Removal, Table, Time, ToolLink, Twin, useGet, Words } from "../parts.js";

/** Second part of the path → its name and what it shows. @type {Record<string, {name: string, View: () => any}>} */
const VIEWS = {
  "": { name: "Service", View: Service },
  keys: { name: "Keys", View: Keys },
  toolsets: { name: "Toolsets", View: Toolsets },
  logins: { name: "Logins", View: Logins },
};

export default function Operate() {
  const [, now = ""] = place.value.path;
  const view = VIEWS[now];
  return html`<h1>Operate</h1>
    <nav class="tabs" aria-label="Operate">${Object.entries(VIEWS).map(
      ([path, { name }]) => html`<a href=${`${HOME}/operate${path && `/${path}`}`} aria-current=${path === now ? "page" : undefined}>${name}</a>`,
    )}</nav>
    ${view ? html`<${view.View} key=${now} />` : html`<p>There is no such view.</p>`}`;
}

// -- the service ----------------------------------------------------------------------------------------------------------

function Service() {
  const service = useGet("/v1/service");
  const status = useGet("/v1/status");
  return html`<section><h2>Findings</h2>
    <${Loaded} state=${service}>${(/** @type {any} */ { cautions }) =>
      cautions.length ? html`<ul>${cautions.map((/** @type {string} */ text) => html`<li class="notice"><${Words} text=${text} max=${400} /></li>`)}</ul>` : html`<p>Nothing needs your attention.</p>`}<//>
    <p class="quiet"><code>waygraph doctor</code> checks every record of the registry.</p>
    <h2>Registry</h2><${Loaded} state=${status}>${(/** @type {any} */ each) => html`<dl class="facts">
      <dt>Place</dt><dd><${Words} text=${each.location} max=${200} /></dd>
      <dt>Revision</dt><dd>${each.revision}</dd>
      <dt>Holds</dt><dd>${each.agents.toLocaleString("en")} agents, ${each.tools.toLocaleString("en")} tools, ${each.sources} sources</dd>
      <dt>Embedder</dt><dd>${each.embedder || "none"}</dd>
      <dt>Schema</dt><dd>version ${each.schema_version}</dd></dl><${Twin} path="/v1/status" />`}<//>
    <h2>Service</h2><${Loaded} state=${service}>${(/** @type {any} */ each) => html`<dl class="facts">
      <dt>Version</dt><dd>Waygraph ${each.version}, Python ${each.python}</dd>
      <dt>Memory</dt><dd>${each.memory_bytes ? `${Math.round(each.memory_bytes / 2 ** 20).toLocaleString("en")} MiB in the process that answers` : "not known"}</dd>
      <dt>Ready</dt><dd><${Badge} kind=${each.ready ? "good" : "bad"}>${each.ready ? "ready" : "not ready"}<//></dd>
      <dt>Who may call</dt><dd>${each.asks_who_calls ? "it asks who calls" : "whoever reaches it may do everything"}</dd></dl>
      <h3>Settings that differ from their default</h3>
      <${Table} caption="Settings that differ from their default" empty="None." columns=${["Setting", "Value"]}
        rows=${each.settings.map((/** @type {any} */ one) => [html`<code>${one.name}</code>`, one.value === "" ? html`<span class="quiet">not shown: it is a secret</span>` : html`<${Words} text=${one.value} max=${200} />`])} />
      <${Twin} path="/v1/service" />`}<//></section>`;
}

// -- keys -----------------------------------------------------------------------------------------------------------------

const SCOPES = /** @type {[string, string][]} */ ([
  ["route", "ask which agents and tools can do something"],
  ["read", "list agents, tools, sources and changes"],
  ["write", "change the registry"],
  ["use", "call tools"],
  ["cypher", "ask the graph"],
  ["admin", "operate: usage, keys, approvals"],
]);

function Keys() {
  const state = useGet("/v1/keys");
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [ending, setEnding] = useState(/** @type {any} */ (null));
  const rows = (/** @type {any[]} */ keys) => keys.map((key) => [
    html`<${Words} text=${key.name} max=${80} /> <code class="quiet">${key.id}</code>`,
    html`<${Badge} kind=${key.state === "active" ? "good" : "bad"}>${key.state}<//>`,
    key.scopes.join(", "),
    key.toolset ? html`toolset <${Words} text=${key.toolset} />` : key.everything ? "everything" : html`<${Words} text=${["what is public", ...key.groups].join(", ")} max=${120} />`,
    html`<${Time} at=${key.created_at} />`,
    html`<${Time} at=${key.expires_at} />`,
    key.state === "active" && html`<button class="danger" aria-label=${`Revoke ${key.name} ${key.id}`} onClick=${() => setEnding(key)}>Revoke</button>`,
  ]);
  return html`<section><h2>API keys</h2>
    ${session.value?.asks === false && html`<p class="notice">This service asks nobody who they are as it runs now. Once there is a key, it does from its next start on.</p>`}
    <${Loaded} state=${state}>${(/** @type {any} */ { keys }) => html`
      <${Table} caption="API keys" empty="There is no key." columns=${["Key", "State", "Scopes", "Sees", "Made", "Ends", ""]} rows=${rows(keys)} /><${Twin} path="/v1/keys" />`}<//>
    <${NewKey} onMade=${(/** @type {any} */ key) => (setMade(key), state.again())} />
    ${made && html`<${Dialog} title="Keep the key now" onClose=${() => setMade(null)}>
      <p>Only its hash is stored: it is not shown again.</p>
      <p class="once">${made.key} <${Copied} text=${made.key} /></p>
      <${Code} label="The key, tried with curl" text=${curlOf(made)} />
      <p><button class="main" onClick=${() => setMade(null)}>I have kept it</button></p><//>`}
    ${ending && html`<${Removal} title="Revoke this key?" button="Revoke" path=${`/v1/keys/${pathOf(ending.id)}`} done=${() => `The key ${ending.name} is revoked.`} onClose=${() => setEnding(null)} onDone=${state.again}>
      <p><${Words} text=${ending.name} max=${80} /> <code>${ending.id}</code> ends at once, everywhere. That cannot be taken back.</p><//>`}
  </section>`;
}

/** @param {any} key */
function curlOf({ key, scopes, toolset }) {
  const header = `-H ${quote(`Authorization: Bearer ${key}`)}`;
  if (toolset) return `# MCP over HTTP, for a host\n${location.origin}/${toolset}/mcp`;
  return scopes.includes("read") ? `curl ${header} ${quote(`${location.origin}/v1/agents`)}` : `curl ${header} ${quote(`${location.origin}/v1/route`)} --json '{"text": "book a table"}'`;
}

/** @param {{onMade: (key: any) => void}} props */
function NewKey({ onMade }) {
  const [round, setRound] = useState(0);
  const toolsets = useGet("/v1/toolsets"), names = (toolsets.value?.toolsets || []).map((/** @type {any} */ each) => each.name);
  const make = async (/** @type {any} */ { name, scopes, sees, groups, toolset = "", days }) => {
    const body = { name: name.trim(), scopes, groups: namesIn(groups), everything: sees === "everything", toolset, expires_in_days: days ? Number(days) : null };
    onMade(await request("/v1/keys", { body }));
    setRound(round + 1); // an empty form
  };
  const fields = (/** @type {any} */ { sees = "groups" }) => [
    { name: "name", label: "Who will hold it", required: true, maxlength: 200, autocomplete: "off" },
    { name: "scopes", label: "It may", as: "some", value: ["route", "read"], options: SCOPES.filter(([scope]) => may(scope)).map(([scope, meaning]) => [scope, scope, { note: meaning }]) },
    { name: "sees", label: "It sees", as: "choice", value: "groups", options: [["groups", "what is public, and what its groups may see"], ["everything", "everything, hidden agents too"], ["toolset", "the endpoint of one toolset alone (scopes route and use)"]] },
    ...(sees === "groups" ? [{ name: "groups", label: "Groups, with commas between", autocomplete: "off" }] : []),
    ...(sees === "toolset" ? [{ name: "toolset", label: "Toolset", as: "choice", required: true, value: names[0] || "", options: names }] : []),
    { name: "days", label: "It ends after so many days", as: "number", min: "0.01", step: "any", max: 36500, placeholder: "never" },
  ];
  return html`<details class="card"><summary>Make a key</summary><${Form} key=${round} fields=${fields} act=${make} button="Make the key" /></details>`;
}

// -- toolsets -------------------------------------------------------------------------------------------------------------

function Toolsets() {
  const state = useGet("/v1/toolsets");
  const [edited, setEdited] = useState(/** @type {any} */ (null));
  const [ending, setEnding] = useState(/** @type {any} */ (null));
  const rows = (/** @type {any[]} */ toolsets) => toolsets.map((each) => [
    html`<b><${Words} text=${each.name} max=${80} /></b><br /><span class="quiet"><${Words} text=${each.description} max=${200} /></span>`,
    html`<details><summary>${each.includes.length} tools</summary>${each.includes.map((/** @type {string} */ id) => html`<div><${ToolLink} id=${id} /></div>`)}</details>
      ${each.missing.length > 0 && html`<${Badge} kind="warn">${each.missing.length} not there<//>`}`,
    html`<${Words} text=${each.callers.join(", ") || "whoever sees any of it"} max=${120} />`,
    html`<code>/${each.name}/mcp</code> <${Copied} text=${`${location.origin}/${each.name}/mcp`} />`,
    may("write") && html`<button aria-label=${`Edit ${each.name}`} onClick=${() => setEdited({ ...each })}>Edit</button> <button class="danger" aria-label=${`Remove ${each.name}`} onClick=${() => setEnding(each)}>Remove</button>`,
  ]);
  return html`<section><h2>Toolsets</h2><p class="quiet">A named choice of tools: an endpoint of MCP, and a filter.</p>
    <${Loaded} state=${state}>${(/** @type {any} */ { toolsets }) => html`
      <${Table} caption="Toolsets" empty="There is no toolset." columns=${["Toolset", "Includes", "For", "Endpoint", ""]} rows=${rows(toolsets)} /><${Twin} path="/v1/toolsets" />`}<//>
    ${may("write") && html`<p><button onClick=${() => setEdited({})}>Make a toolset</button></p>`}
    ${edited && html`<${Dialog} title=${edited.name ? `The toolset ${edited.name}` : "A new toolset"} onClose=${() => setEdited(null)}>
      <${ToolsetForm} of=${edited} onDone=${() => (setEdited(null), state.again())} /><//>`}
    ${ending && html`<${Removal} title="Remove this toolset?" path=${`/v1/toolsets/${pathOf(ending.name)}`} done=${() => `The toolset ${ending.name} is removed.`} onClose=${() => setEnding(null)} onDone=${state.again}>
      <p>The endpoint <code>/${ending.name}/mcp</code> is no more; its tools stay.</p><//>`}</section>`;
}

/** @param {{of: any, onDone: () => void}} props */
function ToolsetForm({ of, onDone }) {
  const lists = [["tools", "Tools, agent/tool, one a line"], ["agents", "Agents, with all their tools"], ["tags", "Agents with any of these tags"], ["callers", "Only for these groups"]];
  const set = async (/** @type {any} */ values) => {
    const body = { description: values.description, ...Object.fromEntries(lists.map(([name]) => [name, namesIn(values[name])])) };
    await request(`/v1/toolsets/${pathOf(values.name)}`, { method: "PUT", body });
    notify("The toolset is set.");
    onDone();
  };
  return html`<${Form} act=${set} button="Set it" fields=${[
    { name: "name", label: "Name", required: true, pattern: "[a-z0-9][a-z0-9_\\-]*", value: of.name, readonly: Boolean(of.name), autocomplete: "off" },
    { name: "description", label: "What it is for", class: "wide", value: of.description },
    ...lists.map(([name, label]) => ({ name, label, as: "area", value: (of[name] || []).join("\n") })),
  ]}> <button type="button" onClick=${onDone}>Cancel</button><//>`;
}

// -- logins ---------------------------------------------------------------------------------------------------------------

function Logins() {
  const state = useGet("/v1/logins");
  const leave = async (/** @type {string} */ id) => {
    await request(`/v1/logins/${pathOf(id)}`, { method: "DELETE" });
    notify(`You are logged out at the server of ${id}.`);
    state.again();
  };
  return html`<section><h2>Your logins at servers</h2><p class="quiet">Calls that you make act with these accounts. Nobody sees those of others.</p>
    <${Loaded} state=${state}>${(/** @type {any} */ { logins }) => html`<${Table} caption="Your logins" empty="You are logged in at no server." columns=${["Agent", "By", "Since", ""]}
      rows=${logins.map((/** @type {any} */ each) => [html`<${AgentLink} id=${each.agent_id} />`, each.by === "oauth" ? "its login page" : "a key of yours", html`<${Time} at=${each.at} />`,
        html`<a href=${`/login/${encodeURIComponent(each.agent_id)}`}>Log in anew</a> <${Act} label=${`Log out at ${each.agent_id}`} act=${() => leave(each.agent_id)}>Log out<//>`])} /><${Twin} path="/v1/logins" />`}<//></section>`;
}
