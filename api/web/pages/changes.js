// What waits for a person's word, and what changed.
import { html, useState } from "../vendor/preact.js";
import { Field, Form, Input } from "../fields.js";
import { maySet, pathOf, queryOf, request } from "../http.js";
import { HOME, setQuery } from "../place.js";
import { Act, agentPlace, Badge, counted, Dialog, Fold, Loaded, lookAtWaits, marked, More, NoticeLine, notify, SourceLink, SourceTitle, suspicions, Time, toolPlace, Twin, useGet, useParts, Words } from "../parts.js";
import { groupByServers } from "./sources.js";
import { Difference, Revealed, revealed, textOf } from "../difference.js";

/** @typedef {{id: string, agent_id: string, tool: string, description: string, content_hash: string, pending: boolean, rejection: string, fields: string[], chars: number, flags: string[], sources: string[], since: string, change: any}} Waiting */

/** @param {{query: URLSearchParams}} props */
export default function Page({ query }) {
  const agent = query.get("agent") || "";
  const waiting = useParts("/v1/waiting", "waiting", { limit: 100 });
  const log = useParts("/v1/changes", "changes", { limit: 50, agent, since: momentOf(query.get("since") || "") });
  /** @type {any[]} */
  const sources = useGet("/v1/sources").value?.sources || [];
  const items = waiting.items.filter((/** @type {Waiting} */ each) => !agent || each.agent_id === agent);
  const again = () => ([waiting, log].forEach((list) => list.again()), lookAtWaits());
  const open = items.filter((each) => !each.rejection);
  const refused = items.filter((each) => each.rejection);
  return html`<h1>Changes</h1>
    <div class="row between"><h2 id="waiting">Waiting for approval</h2><${Twin} path="/v1/waiting" /></div>
    <${Loaded} state=${waiting}>${() => html`
      ${open.length
        ? html`<${Choice} items=${open} shown=${query.get("text") || ""} onDone=${again} />`
        : html`<p class="quiet">Nothing waits${agent && html` of ${agent}`}: all that is in routing was approved, or needed no approval.</p>`}
      <${More} list=${waiting} />
      ${refused.length > 0 && html`<details open=${refused.some((each) => each.id === query.get("text"))}>
        <summary>Rejected: ${refused.length}</summary>
        <${Choice} items=${refused} shown=${query.get("text") || ""} onDone=${again} />
      </details>`}`}<//>
    ${groupByServers(sources).filter(([{ standing }]) => standing.notices).map((group) => html`<p key=${group[0].name}>${group.map(({ name }, at) => html`${at > 0 && " and "}<${SourceLink} name=${name} />`)}: <${NoticeLine} count=${group[0].standing.notices} at=${group[0].standing.notices_at} /></p>`)}
    <div class="row between"><h2 id="log">The log</h2><${Twin} path="/v1/changes" params=${{ agent, since: momentOf(query.get("since") || "") }} /></div>
    <${Filters} agent=${agent} since=${query.get("since") || ""} agents=${[...log.items, ...waiting.items].map((each) => each.agent_id)} />
    <${Loaded} state=${log}>${() => html`
      ${log.items.length ? html`<ol class="log">${grouped(log.items).map((each) => html`<${Entries} key=${each[0].id} changes=${each} shown=${query.get("change") || ""} />`)}</ol>` : html`<p class="quiet">No change was recorded${(agent || query.get("since")) && " of these"}.</p>`}
      <${More} list=${log} />`}<//>`;
}

// -- what waits ---------------------------------------------------------------------------------------------------------

/** One or many, to be approved or rejected. @param {{items: Waiting[], shown: string, onDone: () => void}} props */
function Choice({ items, shown, onDone }) {
  const [chosen, setChosen] = useState(/** @type {Record<string, string>} */ ({}));
  const [decision, setDecision] = useState("");
  const [rests, setRests] = useState(/** @type {Rests} */ ({}));
  const names = items.filter((each) => chosen[each.id] === each.content_hash); // another text was not chosen
  const choose = (/** @type {string} */ id, /** @type {boolean} */ on) => {
    const some = items.filter((each) => each.id === id || (each.tool && each.agent_id === id)); // an agent with its tools
    setChosen(on ? { ...chosen, ...hashesOf(some) } : hashesOf(names.filter((each) => !some.includes(each))));
  };
  const isRejected = Boolean(items[0].rejection);
  const note = (/** @type {Waiting} */ item, /** @type {string} */ field, /** @type {number} */ rest) =>
    setRests((before) => ({ ...before, [keyOf(item)]: { ...before[keyOf(item)], [field]: Math.min(rest, before[keyOf(item)]?.[field] ?? rest) } }));
  const done = () => {
    setDecision("");
    setChosen({});
    onDone();
  };
  return html`${maySet() && html`<div class="row">
      <${Field} as="check" label=${`all ${items.length}`} value=${names.length === items.length} set=${(/** @type {boolean} */ on) => setChosen(on ? hashesOf(items) : {})} />
      <button class="main" disabled=${!names.length} onClick=${() => setDecision("approve")}>Approve …</button>
      ${!isRejected && html`<button class="danger" disabled=${!names.length} onClick=${() => setDecision("reject")}>Reject …</button>`}
      <span class="quiet" role="status">${names.length} chosen</span>
    </div>`}
    ${items.map((each) => html`<${Text} key=${keyOf(each)} item=${each} shown=${shown === each.id} chosen=${names.includes(each)} onChoose=${choose} onRest=${note} />`)}
    ${decision && html`<${Decide} decision=${decision} items=${names} rests=${rests} onClose=${() => setDecision("")} onDone=${done} />`}`;
}

/** What a decision is tied to. @param {Waiting[]} items @returns {Record<string, string>} By id. */
function hashesOf(items) {
  return Object.fromEntries(items.map((each) => [each.id, each.content_hash]));
}

/** @typedef {Record<string, Record<string, number>>} Rests By text and field: how many characters were never shown. */

/** Whether a server asked its box for it; else it is what an agent or a tool says. @param {Waiting} item */
function isWish(item) {
  return !item.tool && item.id !== item.agent_id;
}

/** What may be granted for a wish: what was asked for, or a folder that holds it. @param {Waiting} item */
function grantsOf({ id }) {
  const [, start = "", place = ""] = /^(\S+ (?:reads|writes) )(\/.+)$/.exec(id) || [];
  return place.split("/").slice(2).map((_, at, names) => start + place.split("/").slice(0, names.length + 2 - at).join("/"));
}

/** @param {Waiting} item */
function keyOf(item) {
  return `${item.id} ${item.content_hash}`;
}

/** How many characters of a text were never shown. @param {Waiting} item @param {Rests} rests */
function restOf(item, rests) {
  const rest = rests[keyOf(item)] || {};
  return item.fields.every((field) => field in rest) ? Object.values(rest).reduce((sum, each) => sum + each, 0) : item.chars;
}

/** @param {{item: Waiting, shown: boolean, chosen: boolean, onChoose: (id: string, on: boolean) => void, onRest: (item: Waiting, field: string, rest: number) => void}} props */
function Text({ item, shown, chosen, onChoose, onRest }) {
  const { change, rejection, pending } = item;
  const isChange = change && change.what === "changed";
  return html`<article class="card" aria-label=${item.id}>
    <div class="row between">
      <h3>${maySet() && html`<${Input} as="check" aria-label=${`choose ${item.id}`} value=${chosen} set=${(/** @type {boolean} */ on) => onChoose(item.id, on)} /> `}
        ${item.agent_id ? html`<a href=${item.tool ? toolPlace(item.id) : agentPlace(item.agent_id)}>${revealed(item.id)}</a>` : revealed(item.id)}</h3>
      <span>${rejection ? html`<${Badge} kind="bad">rejected<//>` : pending && html`<${Badge} kind="warn">waits<//>`} ${(isChange || item.since) && html`<${Badge}>${isChange ? "changed" : "new"}<//>`}
        ${suspicions(item.flags).length > 0 && html` <${Badge} kind="bad">flagged<//>`}</span>
    </div>
    <p class="quiet">${isWish(item) ? revealed(item.description) : item.since ? html`since <${Time} at=${item.since} />` : "since before the log begins"}${isWish(item) ? " From " : ", from "}${item.sources.map((name, at) => html`${at > 0 && ", "}<${SourceLink} name=${name} />`)}${!pending && (item.tool ? ". It is in routing, and calls of it are refused till somebody approves it." : ". It is in routing, and no model reads its description till somebody approves it.")}</p>
    ${rejection && html`<p>Why it was rejected: <${Words} text=${rejection} max=${500} /></p>`}
    ${item.flags.length > 0 && html`<ul class="reasons">${item.flags.map((flag) => html`<li>${revealed(flag)}</li>`)}</ul>`}
    ${!isWish(item) && html`<${Fold} open=${shown} title=${isChange ? "Before and after" : "Its text"} onOpen=${() => setQuery({ text: item.id })}>${() => html`
      ${isChange && Object.keys(change.before).length > 0 && html`<${Difference} before=${change.before} after=${change.after} />`}
      <${Present} item=${item} onRest=${onRest} />`}<//>`}
  </article>`;
}

const SAID = { tool: ["name", "questions", "tags", "input_schema", "output_schema", "annotations"], agent: ["name", "tags", "visible_to", "kind", "version", "transport"] };

/** All that it says now. @param {{item: Waiting, onRest: (item: Waiting, field: string, rest: number) => void}} props */
function Present({ item, onRest }) {
  const state = useGet(item.tool ? pathOf("/v1/tools", item.id) : pathOf("/v1/agents", item.agent_id), { schema: item.tool && true });
  return html`<h4>What it says now</h4>
    <${Said} field="description" text=${item.description || "It has no description."} onRest=${(/** @type {number} */ rest) => onRest(item, "description", rest)} />
    <${Loaded} state=${state}>${(/** @type {any} */ answer) => {
      const now = item.tool ? { ...answer, ...answer.source_form } : answer.agent;
      const isOther = now.content_hash !== item.content_hash && !answer.source_form;
      return html`${isOther && html`<p class="notice">This is of another text: it changed since, or operators set other words.</p>`}
        ${SAID[item.tool ? "tool" : "agent"].map((field) => Boolean(Array.isArray(now[field]) ? now[field].length : now[field]) && html`<${Said} key=${field} field=${field} text=${textOf(now[field])} onRest=${(/** @type {number} */ rest) => onRest(item, field, rest)} />`)}`;
    }}<//>`;
}

/** @param {{field: string, text: string, onRest: (rest: number) => void}} props */
function Said({ field, text, onRest }) {
  return html`<div class="difference" role="group" aria-label=${`${field} now`}><p class="field">${field.replace("_", " ")}</p><${Revealed} text=${text} onRest=${onRest} /></div>`;
}

/** Which fields are new or changed, and how much of its text nobody opened. @param {Waiting} item @param {number} rest */
function summaryOf({ change, fields }, rest) {
  const [word, names] = change?.what === "changed" ? ["changed", change.fields.length ? change.fields : ["back to what it was"]] : ["new", fields];
  return `${word}: ${names.join(", ").replaceAll("_", " ")}; ${rest ? `${rest.toLocaleString("en")} characters were not shown` : "all of it was shown"}`;
}

/**
 * Says what will be let in, or kept out, before it is.
 * @param {{decision: string, items: Waiting[], rests: Rests, onClose: () => void, onDone: () => void}} props
 */
function Decide({ decision, items, rests, onClose, onDone }) {
  const [reason, setReason] = useState("");
  const isApproval = decision === "approve";
  const flagged = items.filter((each) => each.flags.length), wishes = items.filter(isWish), texts = items.filter((each) => !isWish(each));
  const [grants, setGrants] = useState(/** @type {Record<string, string>} */ ({}));
  const decide = async () => {
    const done = { agents: 0, tools: 0, wishes: 0 };
    // What servers ask for is decided apart from what agents and tools say.
    for (const part of [texts, wishes].filter((each) => each.length)) {
      const hashes = Object.fromEntries(part.map((each) => [(isApproval && grants[each.id]) || each.id, each.content_hash]));
      const answer = await request(isApproval ? "/v1/approvals" : "/v1/rejections", { body: isApproval ? { hashes } : { hashes, reason } }).catch((error) => {
        if (error.status === 409) onDone(); // one says something else by now, which is to be read first
        throw error;
      });
      for (const kind of /** @type {(keyof typeof done)[]} */ (Object.keys(done))) done[kind] += answer[kind].length;
    }
    notify(`${isApproval ? "Approved" : "Rejected"}: ${counted(done)}.`);
    onDone();
  };
  return html`<${Dialog} title=${isApproval ? "Approve this?" : "Reject this?"} onClose=${onClose}>
    ${texts.length > 0 && html`<p>${isApproval ? "From now on requests find it, and models read its text, as it is now:" : "It stays out of routing as it is now, and waits no more. If its source says something else, that waits again. An approval undoes it."}</p>`}
    ${wishes.length > 0 && html`<p>${isApproval ? "What a server asked for it may do from its next start on." : "What a server asked for stays refused, and waits no more. An approval undoes it."}</p>`}
    <ul>${items.map((each) => html`<li><b>${revealed(each.id)}</b>${suspicions(each.flags).length > 0 && html` <${Badge} kind="bad">flagged<//>`} ${!isWish(each) && html`<span class="quiet">${summaryOf(each, restOf(each, rests))}</span>`}
      ${isApproval && grantsOf(each).length > 1 && html`<p><${Field} as="choice" label="Granted" value=${grants[each.id] || each.id} options=${grantsOf(each)} set=${(/** @type {string} */ grant) => setGrants({ ...grants, [each.id]: grant })} /></p>`}</li>`)}</ul>
    ${isApproval && flagged.length > 0 && html`<div class="notice"><p>Look at these texts first:</p><ul class="reasons">${flagged.flatMap((each) => each.flags).map((flag) => html`<li>${revealed(flag)}</li>`)}</ul></div>`}
    ${!isApproval && html`<${Field} as="area" rows="2" maxlength="1000" required label="Why? Whoever sees it reads this." value=${reason} set=${setReason} />`}
    <div class="row"><${Act} class=${isApproval ? "main" : "danger"} act=${decide} disabled=${!isApproval && !reason.trim()}>${isApproval ? "Approve" : "Reject"} ${items.length}<//>
      <button onClick=${onClose}>Cancel</button></div>
  <//>`;
}

// -- the log ------------------------------------------------------------------------------------------------------------

const SPANS = /** @type {Record<string, string>} */ ({ "": "ever", "1d": "a day ago", "7d": "a week ago", "30d": "30 days ago" });

/** A time in ISO 8601; of `7d` that long ago, by the hour, so that the address stays the same. @param {string} since */
function momentOf(since) {
  const days = /^(\d+)d$/.exec(since);
  const hour = 3600e3;
  return days ? new Date((Math.floor(Date.now() / hour) - 24 * Number(days[1])) * hour).toISOString() : since;
}

/** @param {{agent: string, since: string, agents: string[]}} props */
function Filters({ agent, since, agents }) {
  const spans = since in SPANS ? SPANS : { ...SPANS, [since]: since };
  return html`<${Form} class="row" fields=${[
    { label: "Since", as: "choice", value: since, options: Object.entries(spans), set: (/** @type {string} */ value) => setQuery({ since: value, change: null }) },
    { label: "Agent", as: "search", value: agent, placeholder: "any", late: true, known: [...new Set(agents)].map((id) => [id]), set: (/** @type {string} */ text) => setQuery({ agent: text.trim(), change: null }) },
  ]} />`;
}

const FEW = 3; // arrivals of one sync that are shown one by one

/** Whether an agent or a source came, whole. @param {any} change */
function isArrival(change) {
  return change.what === "added" && !change.tool && Boolean(change.source);
}

/** Arrivals of one sync together, other changes alone. @param {any[]} changes @returns {any[][]} */
function grouped(changes) {
  /** @type {any[][]} */
  const groups = [];
  for (const change of changes) {
    const last = groups[groups.length - 1];
    if (last && isArrival(change) && isArrival(last[0]) && last[0].revision === change.revision) last.push(change);
    else groups.push([change]);
  }
  return groups;
}

/** @param {{changes: any[], shown: string}} props */
function Entries({ changes, shown }) {
  const entries = changes.map((each) => html`<${Entry} key=${each.id} change=${each} shown=${each.id === shown} />`);
  if (changes.length <= FEW) return entries;
  const line = html`<${Time} at=${changes[0].at} /> <${Badge} kind="good">added<//> <b>${changes.filter((each) => !each.agent_id.startsWith("source:")).length} agents came</b> <span class="quiet">from <${SourceTitle} name=${changes[0].source} /></span>`;
  return html`<li><${Fold} open=${false} title=${line}>${() => html`<ol class="log">${entries}</ol>`}<//></li>`;
}

const KINDS = /** @type {Record<string, string>} */ ({ added: "good", changed: "warn", removed: "bad", rejected: "bad" });

/** @param {{change: any, shown: boolean}} props */
function Entry({ change, shown }) {
  const name = change.tool ? `${change.agent_id}/${change.tool}` : change.agent_id;
  const isSource = change.agent_id.startsWith("source:"), of = isSource ? html`the source <${SourceTitle} name=${change.agent_id.slice(7)} />` : marked(name);
  const numbers = isArrival(change) ? counted(change.after) || (isSource && "its agents were known") : change.fields.join(", ").replaceAll("_", " "), by = !isSource && (change.source ? html`by <${SourceTitle} name=${change.source} />` : "by an operator");
  const line = html`<${Time} at=${change.at} /> <${Badge} kind=${KINDS[change.what]}>${change.what}<//> <b>${of}</b><span class="quiet">${[numbers && html`: ${numbers}`, by && html` ${by}`]}</span>${suspicions(change.flags).length > 0 && html` <${Badge} kind="bad">flagged<//>`}`;
  if (isArrival(change)) return html`<li><p>${line}</p></li>`;
  const here = `${HOME}/changes${queryOf({ agent: change.agent_id, since: change.at, change: change.id })}`;
  return html`<li><${Fold} open=${shown} title=${line}>${() => html`
    ${change.what === "rejected" ? html`<p>Why: <${Words} text=${change.after.reason} /></p>` : html`<${Difference} before=${change.before} after=${change.after} />`}
    ${change.flags.length > 0 && html`<ul class="reasons">${change.flags.map((/** @type {string} */ flag) => html`<li>${revealed(flag)}</li>`)}</ul>`}
    ${change.covered.length > 0 && html`<p class="quiet">An operator's own words stand over: ${change.covered.join(", ")}.</p>`}
    <p class="quiet">Revision ${change.revision}. <a href=${here}>This change</a>${!change.agent_id.includes(":") && html` · <a href=${`${HOME}/agents/${encodeURIComponent(change.agent_id)}`}>its agent</a>`}</p>`}<//></li>`;
}
