// Why not the other one? Where an agent or a tool stands for the request, what keeps it out, and what it lacks.
import { html, useEffect, useState } from "../vendor/preact.js";
import { may, pathOf, request } from "../http.js";
import { AgentLink, Badge, Bars, Loaded, Table, ToolLink, useLoad, useSettled, Words } from "../parts.js";
import { useWanted } from "../place.js";
import { isCostly } from "./ask_request.js";
import { digits, legColour, legName, partsOf } from "./ask_answer.js";

/** @typedef {import("./ask_answer.js").Vote} Vote */

/** @param {{bodies: any[], name: string, choose: (name: string) => void}} props `bodies`: the request by each recipe. */
export function Why({ bodies, name, choose }) {
  const [typed, setTyped] = useState(name);
  const names = useNames(useSettled(typed, 250));
  useEffect(() => setTyped(name), [name]);
  const type = (/** @type {string} */ text) => {
    setTyped(text);
    if (!text || names.some((each) => each.id === text)) choose(text);
  };
  return html`<section aria-labelledby="why">
    <h2 id="why">Why not the other one?</h2>
    <label>An agent, or a tool (agent/tool)
      <input class="wide" list="why-names" autocomplete="off" placeholder="the one you missed" value=${typed} onInput=${(/** @type {any} */ event) => type(event.target.value)} onChange=${(/** @type {any} */ event) => choose(event.target.value.trim())} />
    </label>
    <datalist id="why-names">${names.map((each) => html`<option key=${each.id} value=${each.id}>${each.name.slice(0, 80)}</option>`)}</datalist>
    ${name && html`<div class="columns">${bodies.map((body) => html`<${Place} key=${body.recipe} body=${body} name=${name} titled=${bodies.length > 1} />`)}</div>`}
  </section>`;
}

/** What may be meant: agents, and behind a slash the tools of one. @param {string} typed @returns {{id: string, name: string}[]} */
function useNames(typed) {
  const [agent, tool] = typed.split("/");
  const list = async (/** @type {string} */ path, /** @type {AbortSignal} */ ending) => request(path, { params: { limit: 1000 }, signal: ending });
  const agents = useLoad(async (ending) => (may("read") ? (await list("/v1/agents", ending)).agents : []), []).value || [];
  const owner = tool !== undefined && agents.some((/** @type {any} */ each) => each.id === agent) ? agent : "";
  const tools = useLoad(async (ending) => (owner ? (await list(`/v1/agents/${pathOf(owner)}/tools`, ending)).tools : []), [owner]);
  return [...agents, ...(tools.value || [])];
}

/** @param {{body: any, name: string, titled: boolean}} props */
function Place({ body, name, titled }) {
  const asked = { ...body, id: name }, what = JSON.stringify(asked);
  const [isWanted, want] = useWanted(what);
  const runs = isWanted || !isCostly(body.recipe);
  const state = useLoad(async (ending) => (runs ? request("/v1/route/why", { body: asked, signal: ending }) : null), [what, runs]);
  return html`<div class="card">
    ${titled && html`<h3>${body.recipe}</h3>`}
    ${!runs ? html`<p class="notice">A language model is called for it. <button onClick=${want}>Run</button></p>` : html`<${Loaded} state=${state}>${(/** @type {any} */ placement) => html`<${Placement} of=${placement} recipe=${body.recipe} />`}<//>`}
  </div>`;
}

/** @param {{of: any, recipe: string}} props */
function Placement({ of, recipe }) {
  const link = (/** @type {string} */ id) => (of.kind === "tool" ? html`<${ToolLink} id=${id} />` : html`<${AgentLink} id=${id} />`);
  const hasOther = of.last_id && of.last_id !== of.id;
  const sides = [{ id: of.id, score: of.score, votes: of.votes }, ...(hasOther ? [{ id: of.last_id, score: of.last_score, votes: of.last_votes }] : [])];
  const most = Math.max(...sides.map((side) => side.score));
  return html`<p class="sentence"><${Words} text=${of.sentence} max=${1000} /></p>
    ${of.obstacles.length > 1 && html`<ul>${of.obstacles.map((/** @type {string} */ each) => html`<li key=${each}>It <${Words} text=${each} max=${400} /></li>`)}</ul>`}
    <dl class="facts">
      ${sides.map((side, at) => html`<dt key=${side.id}>${at ? "the last one shown" : placeOf(of)}</dt>
        <dd>${link(side.id)} · ${digits(side.score)} <${Bars} parts=${partsOf(side.votes, "leg")} most=${most} label=${`Score ${digits(side.score)} of ${side.id}`} /></dd>`)}
      <dt>its texts hold</dt><dd><${WordList} words=${of.held_words} kind="good" /></dd>
      <dt>and do not hold</dt><dd><${WordList} words=${of.missing_words} kind="bad" /></dd>
    </dl>
    ${of.votes.length > 0 && html`<details><summary>Part by part</summary><${Sides} sides=${sides} recipe=${recipe} /></details>`}`;
}

/** @param {any} of */
function placeOf(of) {
  if (!of.rank) return of.is_shown ? "pinned" : "not found";
  return `${of.obstacles.length ? "would be " : ""}number ${of.rank}`;
}

/** @param {{words: string[], kind: string}} props */
function WordList({ words, kind }) {
  return words.length ? html`${words.map((word) => html`<${Badge} key=${word} kind=${kind}><${Words} text=${word} max=${40} /><//> `)}` : html`<span class="quiet">no word of the request</span>`;
}

/** @param {{sides: {id: string, votes: Vote[]}[], recipe: string}} props */
function Sides({ sides, recipe }) {
  const legs = [...new Set(sides.flatMap((side) => side.votes.map((vote) => vote.leg)))];
  const votesOf = (/** @type {{votes: Vote[]}} */ side, /** @type {string} */ leg) => side.votes.filter((vote) => vote.leg === leg);
  const rows = legs.map((leg) => [
    html`<span class=${`key bar-${legColour(leg)}`}></span> ${legName(leg)}`,
    ...sides.flatMap((side) => {
      const votes = votesOf(side, leg);
      return [votes.length ? Math.min(...votes.map((vote) => vote.rank)) : "–", digits(votes.reduce((sum, vote) => sum + vote.contribution, 0))];
    }),
  ]);
  const columns = ["Part of the search", ...sides.flatMap((side) => [`Rank of ${side.id}`, "adds"])];
  return html`<${Table} caption=${`Part by part (${recipe})`} columns=${columns} numeric=${[1, 2, 3, 4]} rows=${rows} />`;
}
