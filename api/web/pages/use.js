// What the registry is used for: calls, errors and latencies over time, and what requests did not find.
import { html } from "../vendor/preact.js";
import { Form } from "../fields.js";
import { queryOf } from "../http.js";
import { HOME, place, setQuery } from "../place.js";
import { Loaded, Table, Time, ToolLink, Twin, useGet, Words } from "../parts.js";

const PERIODS = ["7", "30", "90"];
const DAY_MS = 86_400_000;

/** @typedef {{day: string, name: string, calls: number, errors: number, refusals: number, empty: number, p50_ms: number | null, p95_ms: number | null}} Part */

export default function Use() {
  const { query } = place.value;
  const days = PERIODS.includes(query.get("days") || "") ? /** @type {string} */ (query.get("days")) : "30";
  const of = query.get("of") === "caller" ? "caller" : "tool";
  const name = query.get("name") || "";
  return html`<h1>Use</h1>
    <p class="quiet">Calls by every door, and requests to REST and MCP, by day in UTC. What is asked in these pages is not counted; what is called from them is.</p>
    <${Form} class="row" fields=${[{ label: "Period", as: "choice", beside: true, value: days, options: PERIODS.map((each) => [each, `${each} days`]), set: (/** @type {string} */ value) => setQuery({ days: value }) }]}>
      ${name && html`<span>Only <${Words} text=${name} max=${80} /></span><button class="plain" type="button" onClick=${() => setQuery({ name: "", of: "" })}>Show all</button>`}<//>
    <${Calls} key=${`${of} ${name}`} of=${of} name=${name} days=${days} />
    ${!name && html`<${ByTool} days=${days} /><${ByCaller} days=${days} />
      <${Requests} days=${days} /><${Gaps} />`}`;
}

/** @param {{of: string, name: string, days: string}} props */
function Calls({ of, name, days }) {
  const params = { of, name, days };
  const state = useGet("/v1/usage/days", params);
  return html`<section><h2>Calls</h2><${Loaded} state=${state}>${(/** @type {{usage: Part[]}} */ { usage }) => html`
    ${usage.length === 0 ? html`<p class="quiet">${NO_CALL}</p>` : html`<div class="columns">
      <${Series} title="Calls a day" parts=${usage} days=${days} value=${(/** @type {Part} */ each) => each.calls}
        faults=${(/** @type {Part} */ each) => each.errors} faultName="failed" />
      <${Series} title="95 of 100 calls were done within, ms" parts=${usage} days=${days} value=${(/** @type {Part} */ each) => each.p95_ms || 0} />
    </div>
    <details><summary>As a table</summary><${Table} caption="Calls by day" numeric=${[1, 2, 3, 4, 5]}
      columns=${["Day", ...NUMBERS]} rows=${usage.map((each) => [each.day, ...numbers(each)])} /></details>`}
    <${Twin} path="/v1/usage/days" params=${params} />`}<//></section>`;
}

const NUMBERS = ["Calls", "Failed", "Refused", "Half within, ms", "95 % within, ms"], NO_CALL = "No call was counted in this time.";

/** @param {{calls: number, errors: number, refusals: number, p50_ms: number | null, p95_ms: number | null}} part */
function numbers({ calls, errors, refusals, p50_ms, p95_ms }) {
  return [count(calls), count(errors), count(refusals), p50_ms ?? "–", p95_ms ?? "–"];
}

const DOORS = /** @type {Record<string, string>} */ ({ mcp: "MCP gateway", rest: "REST", explorer: "these pages", program: "Python or command line", "": "not known" });

/** How each tool was called by each door: of all, of an agent, or of one tool. @param {{agent?: string, tool?: string, days?: string}} props */
export function ByTool({ agent = "", tool = "", days = "" }) {
  const params = { agent, days, limit: 1000 };
  const state = useGet("/v1/usage", params);
  const rows = (/** @type {any[]} */ usage) => usage.filter(({ tool_id }) => !tool || tool_id === tool).map((each) => [
    ...(tool ? [] : [html`<${ToolLink} id=${each.tool_id} short=${Boolean(agent)} />`]), DOORS[each.door],
    ...numbers({ ...each, errors: each.tool_error + each.upstream_failed + each.timed_out, refusals: each.refused }), html`<${Time} at=${each.last_at} />`, html`<${OverTime} of="tool" name=${each.tool_id} />`,
  ]);
  return html`<section><h2>${agent ? "Use" : "Tools"}</h2><${Loaded} state=${state}>${(/** @type {any} */ { usage }) => html`
    <${Table} caption="Calls by tool" empty=${NO_CALL} columns=${[...(tool ? [] : ["Tool"]), "Door", ...NUMBERS, "Last", ""]} numeric=${NUMBERS.map((_, at) => at + (tool ? 1 : 2))} rows=${rows(usage)} /><${Twin} path="/v1/usage" params=${params} />`}<//></section>`;
}

/** @param {{days: string}} props */
function ByCaller({ days }) {
  const params = { of: "caller", by: "name", days };
  const state = useGet("/v1/usage/days", params);
  const rows = (/** @type {Part[]} */ parts) => [...parts].sort((one, other) => other.calls - one.calls).map((each) => [html`<${Words} text=${each.name || "not known"} max=${80} />`, ...numbers(each), html`<${OverTime} of="caller" name=${each.name} />`]);
  return html`<section><h2>Callers</h2><${Loaded} state=${state}>${(/** @type {{usage: Part[]}} */ { usage }) => html`
    <${Table} caption="Calls by caller" empty=${NO_CALL} columns=${["Caller", ...NUMBERS, ""]} numeric=${NUMBERS.map((_, at) => at + 1)} rows=${rows(usage)} /><${Twin} path="/v1/usage/days" params=${params} />`}<//></section>`;
}

/** @param {{of: string, name: string}} props */
function OverTime({ of, name }) {
  return html`<a href=${`${HOME}/use${queryOf({ of, name })}`} aria-label=${`Over time: ${name}`}>over time</a>`;
}

/** @param {{days: string}} props */
function Requests({ days }) {
  const params = { of: "request", days };
  const state = useGet("/v1/usage/days", params);
  return html`<section><h2>Requests</h2><${Loaded} state=${state}>${(/** @type {{usage: Part[]}} */ { usage }) => html`
    ${usage.length === 0 ? html`<p class="quiet">Nothing was asked in this time: what hosts, REST and connected programs ask is counted here.</p>` : html`<${Series} title="Requests a day" parts=${usage} days=${days} value=${(/** @type {Part} */ each) => each.calls}
      faults=${(/** @type {Part} */ each) => each.empty} faultName="found nothing" />
    <details><summary>As a table</summary><${Table} caption="Requests by day" numeric=${[1, 2, 3]} columns=${["Day", "Requests", "Found nothing", "95 % within, ms"]}
      rows=${usage.map((each) => [each.day, count(each.calls), count(each.empty), each.p95_ms ?? "–"])} /></details>`}
    <${Twin} path="/v1/usage/days" params=${params} />`}<//></section>`;
}

function Gaps() {
  const state = useGet("/v1/usage/gaps");
  return html`<section><h2>What was not found</h2><${Loaded} state=${state}>${(/** @type {any} */ { keeps_texts, requests }) => html`
    ${keeps_texts
      ? html`<p class="quiet">The last 100, as the setting WAYGRAPH_USAGE_REQUESTS has it. They may be private.</p>
        <${Table} caption="Requests that found nothing" empty="Every request found something." columns=${["When", "Request"]}
          rows=${requests.map((/** @type {any} */ each) => [html`<${Time} at=${each.at} />`, html`<${Words} text=${each.text} max=${200} />`])} />`
      : html`<p>Their texts are not kept, since they may be private. <code>WAYGRAPH_USAGE_REQUESTS=true</code> keeps the last 100, readable by you and whoever else sees this page.</p>`}
    <${Twin} path="/v1/usage/gaps" />`}<//></section>`;
}

/**
 * A bar for each day. It has a table beside it, so a screen reader is told the sum alone.
 * @param {{title: string, parts: Part[], days: string, value: (part: Part) => number, faults?: (part: Part) => number, faultName?: string}} props
 */
function Series({ title, parts, days, value, faults, faultName = "" }) {
  const byDay = new Map(parts.map((part) => [part.day, part]));
  const today = Date.now();
  const names = Array.from({ length: Number(days) }, (_, back) => new Date(today - back * DAY_MS).toISOString().slice(0, 10)).reverse();
  const most = Math.max(1, ...parts.map(value));
  const width = 600 / names.length;
  const sum = (/** @type {(part: Part) => number} */ of) => parts.reduce((total, part) => total + of(part), 0);
  const label = faults ? `${title}: ${count(sum(value))} in ${days} days, of which ${count(sum(faults))} ${faultName}.` : `${title}: at most ${count(most)}.`;
  return html`<figure class="series"><figcaption>${title}${faults && html` · <span class="key bar-1"></span> ${faultName}`}</figcaption>
    <svg viewBox="0 0 600 130" role="img" aria-label=${label}>
      <line x1="0" x2="600" y1="110" y2="110" /><text x="0" y="10">${count(most)}</text>
      ${names.map((day, at) => {
        const part = byDay.get(day);
        if (!part) return null;
        const high = (95 * value(part)) / most;
        const low = faults ? (95 * faults(part)) / most : 0;
        return html`<g key=${day}><title>${`${day}: ${count(value(part))}${faults ? `, ${count(faults(part))} ${faultName}` : ""}`}</title>
          <rect class="all" x=${at * width + 1} width=${Math.max(1, width - 2)} y=${110 - high} height=${high} />
          <rect class="faults" x=${at * width + 1} width=${Math.max(1, width - 2)} y=${110 - low} height=${low} /></g>`;
      })}
      <text x="0" y="126">${names[0]}</text><text class="end" x="600" y="126">${names.at(-1)}</text>
    </svg></figure>`;
}

/** @param {number} number */
function count(number) {
  return number.toLocaleString("en", { maximumFractionDigits: 1 });
}
