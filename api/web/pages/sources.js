// Where agents come from: what each source says, how it fares, and what to do where it fails.
import { html, signal, useState } from "../vendor/preact.js";
import { may, mayOperate, pathOf, queryOf, readSession, request, session } from "../http.js";
import { HOME, setQuery } from "../place.js";
import { Act, AgentLink, Badge, Code, counted, Loaded, marked, NoticeLine, Removal, Time, Twin, useLoad, Words } from "../parts.js";
import { Intake, Report } from "../intake.js";
import { quote } from "../shell.js";

/** @typedef {{source: string, key: string, since: string, reason: string}} Failure */

const MOST_AGENTS = 200;

/** @param {{query: URLSearchParams}} props */
export default function Page({ query }) {
  return html`${session.value?.holds ? html`<${Sources} only=${query.get("source") || ""} />` : html`<h1>Sources</h1><p class="quiet">No source was read yet.</p>`}
    ${may("write") && html`<h2>Take something in</h2><${Intake} onDone=${() => (readSession(), (changed.value += 1))} />`}`;
}

const changed = signal(0);

/** @param {{only: string}} props */
function Sources({ only }) {
  const state = useLoad((ending) => request("/v1/sources", { signal: ending }), [changed.value]);
  return html`<div class="row between"><h1>Sources</h1><${Twin} path="/v1/sources" /></div>
    <${Loaded} state=${state}>${(/** @type {any} */ value) => {
      const groups = groupByServers(value.sources).filter((group) => !only || group.some(({ name }) => name === only));
      const followed = Object.fromEntries((value.looks || []).map((/** @type {any} */ each) => [each.name, each]));
      return html`${only && html`<p><a href=${`${HOME}/sources`}>All ${value.sources.length} sources</a></p>`}
        ${groups.length ? null : html`<p class="quiet">${only ? `There is no source ${only} that you may see.` : "No source was read yet."}</p>`}
        ${groups.map((group) => html`<${Source} key=${group[0].name} group=${group} titles=${value.titles} all=${value.sources} followed=${followed} again=${state.again} isOpen=${Boolean(only)} />`)}`;
    }}<//>`;
}

/** Sources that list the very same agents stand together. @param {any[]} sources @returns {any[][]} */
export function groupByServers(sources) {
  const groups = /** @type {Map<string, any[]>} */ (new Map());
  for (const each of sources) {
    const servers = [...each.agents].sort().join("\n") || each.name;
    groups.set(servers, [...(groups.get(servers) || []), each]);
  }
  return [...groups.values()];
}

/** What of it fails. @param {any[]} group */
function stateOf(group) {
  const failing = group.filter(({ failures }) => failures.length), isGone = failing.some(({ failures }) => failures.some((/** @type {Failure} */ each) => !each.key));
  if (!failing.length) return html`<${Badge} kind="good">works<//>`;
  const words = isGone ? "cannot be read" : "fails in part";
  return html`<${Badge} kind=${isGone ? "bad" : "warn"}>${group.length > 1 ? `${failing.length} of ${group.length} ${words}` : words}<//>`;
}

/** One or more sources of the same agents. @param {{group: any[], titles: Record<string, string>, all: any[], followed: Record<string, any>, again: () => void, isOpen: boolean}} props */
function Source({ group, titles, all, followed, again, isOpen }) {
  const { standing, agents } = group[0], waiting = standing.pending + standing.pending_tools;
  const keys = (/** @type {string} */ id) => [...new Set(group.flatMap(({ claims }) => claims.filter((/** @type {any} */ claim) => claim.agent_id === id && claim.key !== id).map((/** @type {any} */ claim) => claim.key)))];
  const part = (/** @type {any} */ each) => html`<${Origin} key=${each.name} source=${each} title=${titles[each.name]} all=${all} followed=${followed[each.name]} again=${again} />`;
  return html`<article class="card" aria-label=${group.map(({ name }) => name).join(", ")}>
    <div class="row between">
      <h2>${group.map(({ name }, at) => html`${at > 0 && " and "}<a href=${`${HOME}/sources${queryOf({ source: name })}`}>${marked(titles[name])}</a>`)}</h2>
      <span>${stateOf(group)}</span>
    </div>
    <dl class="facts">
      <dt>Agents</dt><dd><details open=${isOpen}><summary>${agents.length}${["online", "unreachable", "failing", "known"].filter((word) => standing[word]).map((word) => html` <${Badge} kind=${{ online: "good", unreachable: "bad", failing: "bad" }[word]}>${standing[word]} ${word === "known" ? "never asked" : word}<//>`)}</summary>
        <ul class="names">${agents.slice(0, MOST_AGENTS).map((/** @type {string} */ id) => html`<li><${AgentLink} id=${id} />${keys(id).length > 0 && html` <span class="quiet">there ${marked(keys(id).join(", "))}</span>`}</li>`)}
        ${agents.length > MOST_AGENTS && html`<li><a href=${`${HOME}/agents${queryOf({ source: group[0].name })}`}>all ${agents.length}</a></li>`}</ul></details></dd>
      ${waiting > 0 && html`<dt>Waits</dt><dd><a href=${`${HOME}/changes`}>${waiting === 1 ? "one agent or tool waits" : `${waiting} agents and tools wait`} for approval</a></dd>`}
      ${standing.notices > 0 && html`<dt>Notices</dt><dd><${NoticeLine} count=${standing.notices} at=${standing.notices_at} /></dd>`}
    </dl>
    ${standing.rejections > 0 && html`<p class="quiet">Rejected, and out of routing as it is now: ${standing.rejections}.</p>`}
    ${group.length === 1 ? part(group[0]) : group.map((each) => html`<details open=${isOpen || each.failures.length > 0}><summary><b>${marked(titles[each.name])}</b> ${stateOf([each])}</summary>${part(each)}</details>`)}
  </article>`;
}

/** What is one source's own: where it lies, what of it fails, and what to do. @param {{source: any, title: string, all: any[], followed: any, again: () => void}} props */
function Origin({ source, title, all, followed, again }) {
  const [isRemoving, setRemoving] = useState(false);
  const [reports, setReports] = useState(/** @type {any[] | null} */ (null));
  const sync = async () => {
    const answer = await request(pathOf("/v1/sources", source.name, "sync"), { method: "POST" });
    setReports(answer.reports);
    again();
  };
  return html`<dl class="facts">
      ${title !== source.name && html`<dt>Place</dt><dd>${marked(source.name)}</dd>`}
      <dt>Last sync</dt><dd><${Time} at=${source.seen_at} />${source.pause_s > 0 && `; it changes often, and is written at most once in ${source.pause_s} s`}</dd>
      <dt>Next</dt><dd><${Next} followed=${followed} /></dd>
      <dt>Policy</dt><dd>${source.policy}: ${POLICIES[source.policy]}</dd>
    </dl>
    ${source.failures.map((/** @type {Failure} */ each) => html`<${Failing} key=${each.key} failure=${each} source=${source.name} />`)}
    ${reports && reports.map((each) => html`<${Report} report=${each} />`)}
    ${mayOperate() && may("write") && !followed && html`<details><summary>Sync it</summary><p>This service does not follow the source. Where it can be read, run:</p><${Code} label=${`command that reads ${source.name} again`} text=${ingestLine(source.name)} /><p class="quiet">Or start <code>waygraph serve</code> with <code>--watch</code> and the source: then it is followed, and synced in its pages.</p></details>`}
    ${may("write") && html`<div class="row">
      ${mayOperate() && followed && html`<${Act} act=${sync} class="main" label=${`Sync now: ${source.name}`}>Sync now<//>`}
      <button class="danger" aria-label=${`Remove ${source.name}`} onClick=${() => setRemoving(true)}>Remove …</button></div>`}
    ${isRemoving && html`<${Forget} source=${source} all=${all} followed=${Boolean(followed)} onClose=${() => setRemoving(false)} onDone=${again} />`}`;
}

const POLICIES = /** @type {Record<string, string>} */ ({
  accept: "what it says holds at once; suspicious changes of servers wait",
  hold: "what it changes or adds waits for approval",
  strict: "all that it says waits for approval",
});

/** When the service looks at it next. @param {{followed: any}} props */
function Next({ followed }) {
  if (!followed) return html`<span class="quiet">when somebody reads it again: this service does not follow it</span>`;
  if (!followed.every_s) return html`right now, for the first time`;
  if (!followed.next_at) return html`at once when it changes: this service looks each ${followed.every_s < 2 ? "second" : `${Math.round(followed.every_s)} s`}`;
  return html`<${Time} at=${followed.next_at} />, each ${Math.round(followed.every_s)} s, and at once when it tells of a change`;
}

/** @param {{failure: Failure, source: string}} props */
function Failing({ failure, source }) {
  return html`<div class="fault">
    <p><b>${marked(failure.key || "The source itself")}</b> fails since <${Time} at=${failure.since} />: <${Words} text=${failure.reason} max=${500} /></p>
    <p>What to do: ${wayOut(failure, source)}</p>
  </div>`;
}

/** What to do, by what the reason tells. @type {[RegExp, (failure: Failure, source: string) => string][]} */
const WAYS_OUT = [
  [/operators see why/, () => "somebody with the scope admin sees the reason here."],
  [/not there|No such file|is no path/, () => "put the file back where it was; if it is gone for good, remove the source."],
  [/ermission denied/, () => "let the user that runs this service read or run it."],
  [/command not found|cannot be run/, () => "install the command, or write its whole path into the source's file."],
  [/No module named|Cannot find module|starts it with/, () => "install what it lacks where it is started, or start the version that the reason names."],
  [/working directory/, () => "make the folder, or name another one in the source's file."],
  [/is not (JSON|YAML|TOML|UTF-8)|damaged|nested|is empty|front matter|not of the kind|expected/, () => "mend the file at the place that the reason names. What it held before stays until then."],
  [/needs a login|OAuth|login|401|403|does not let this caller in|token/i, (_, source) => `log in: run \`${ingestLine(source)}\` where a browser is, or mend the key that the source's file refers to.`],
  [/as no MCP server does|answered with|redirects|\b4\d\d\b/, () => "look whether the address is the one of its MCP endpoint, often with /mcp at its end."],
  [/environment|variable|\$\{/, () => "set the variable where this service is started, and start it anew."],
  [/certificate|TLS|SSL/i, () => "renew the server's certificate, or have this machine trust its issuer."],
  [/resolve|name or service|refused|unreachable|broke|closed|connect|within [\d.]+ s|took too long|\b5\d\d\b/i, () => "see whether the server runs and can be reached from here; it is tried again by itself where the service follows the source."],
  [/removal|would remove|most of/i, () => "if so much is meant to go, take it in again with mass removal allowed."],
];

/** @param {Failure} failure @param {string} source */
function wayOut(failure, source) {
  const way = WAYS_OUT.find(([words]) => words.test(failure.reason));
  return way ? way[1](failure, source) : `mend what the reason names, then run \`${ingestLine(source)}\`, or sync it here.`;
}

/** What reads it, for a shell. @param {string} source */
function ingestLine(source) {
  if (!/[/.]/.test(source)) return `waygraph ingest PATH --source ${quote(source)}`; // a name that somebody gave
  return `waygraph ingest ${source.startsWith("-") ? "-- " : ""}${quote(source)}`;
}

/** @param {{source: any, all: any[], followed: boolean, onClose: () => void, onDone: () => void}} props */
function Forget({ source, all, followed, onClose, onDone }) {
  const others = new Set(all.filter((each) => each.name !== source.name).flatMap((each) => each.agents));
  const gone = source.agents.filter((/** @type {string} */ id) => !others.has(id));
  const done = (/** @type {any} */ { agents, tools }) => `Removed ${source.name}${counted({ agents: agents.length, tools: tools.length }).replace(/^./, ", and with it $&")}.`;
  return html`<${Removal} title="Remove this source?" path=${pathOf("/v1/sources", source.name)} done=${done} onClose=${onClose} onDone=${() => (setQuery({ source: null }), onDone())}>
    <p><b>${marked(source.name)}</b> is forgotten${gone.length ? `, and with it what no other source lists. Agents that go: ${gone.length}.` : "; all of its agents are other sources' too, and stay."}</p>
    <ul class="names">${gone.slice(0, 100).map((/** @type {string} */ id) => html`<li>${marked(id)}</li>`)}${gone.length > 100 && html`<li>and ${gone.length - 100} more</li>`}</ul>
    ${followed && html`<p class="notice">This service follows it: it comes back when it changes, or when the service starts again with it.</p>`}<//>`;
}
