// One answer: who can do it, what each score is made of, and what limits the answer.
import { html } from "../vendor/preact.js";
import { AgentLink, AnswerNotices, Badge, Bars, kindOf, Standing, Table, ToolLink, walkPlace, Words } from "../parts.js";

/** @typedef {{entity_id: string, kind: string, leg: string, rank: number, score: number, weight: number, contribution: number}} Vote */
/** @typedef {"leg" | "entity"} Grouping */

/** Leg → its name in plain words, and its colour. @type {Record<string, [string, number]>} */
const LEGS = {
  capability_vector: ["meaning of a tool", 0],
  tool_vector: ["meaning of a tool", 0],
  agent_vector: ["meaning of the agent", 1],
  capability_text: ["words of a tool", 2],
  agent_text: ["words of the agent", 3],
  name: ["named in the request", 4],
  siblings: ["its other tools", 5],
  call: ["what a call of it needs", 6],
  used: ["called before", 7],
  together: ["used with another", 7],
  follows: ["often called next", 7],
  failed: ["another one failed", 7],
};
const DESCRIPTION_CHARS = 220;

/** @param {string} leg */
export function legName(leg) {
  return LEGS[leg]?.[0] || leg;
}

/** @param {string} leg */
export function legColour(leg) {
  return LEGS[leg]?.[1] ?? 7;
}

/** A score as people read it. @param {number} score */
export function digits(score) {
  return score.toFixed(Math.abs(score) < 0.1 ? 3 : 2);
}

/** Legs that the answers hold, each once by its name. @param {{legs: string[]}} props */
export function Legend({ legs }) {
  const named = new Map(legs.map((leg) => [legName(leg), leg]));
  return html`<ul class="legend" aria-label="What the colours mean">
    ${[...named].map(([name, leg]) => html`<li key=${name}><span class=${`key bar-${legColour(leg)}`}></span> ${name}</li>`)}
  </ul>`;
}

/** @param {any} answer @returns {string[]} */
export function legsOf(answer) {
  const all = [answer, ...(answer.steps || [])].flatMap((each) => [...each.matches, ...(each.pinned || [])]);
  const found = new Set(all.flatMap((match) => match.votes.map((/** @type {Vote} */ vote) => vote.leg)));
  const known = Object.keys(LEGS).filter((leg) => found.has(leg));
  return [...known, ...[...found].filter((leg) => !LEGS[leg])];
}

/** @param {{answer: any, text: string, grouping: Grouping, of: string}} props `of`: which recipe's, and which step. */
export function Answer({ answer, text, grouping, of }) {
  const { steps = [], pinned = [], query } = answer;
  return html`<${Circumstances} answer=${answer} />
    <${Limits} answer=${answer} text=${text} />
    <${Matches} matches=${answer.matches} grouping=${grouping} of=${of} />
    ${pinned.length > 0 && html`<h4>Pinned by an operator</h4><${Matches} matches=${pinned} grouping=${grouping} of=${`${of}, pinned`} />`}
    ${steps.map(
      (/** @type {any} */ step, /** @type {number} */ at) => html`<details key=${at} class="step">
        <summary>${at < query.steps.length ? `Step ${at + 1}: ` : "The whole request: "}<${Words} text=${step.query.text} max=${DESCRIPTION_CHARS} /></summary>
        <${Answer} answer=${step} text=${step.query.text} grouping=${grouping} of=${`${of}, step ${at + 1}`} />
      </details>`,
    )}`;
}

/** @param {{answer: any}} props */
function Circumstances({ answer }) {
  const { confidence } = answer;
  return html`<p class="quiet">
    ${confidence !== null && html`<span title="How likely the registry holds a right one">confidence <strong>${Math.round(100 * confidence)} %</strong></span> · `}
    revision ${answer.revision} · ${answer.elapsed_ms.toFixed(1)} ms
  </p>`;
}

/** The notices of an answer, and its walk. @param {{answer: any, text: string}} props */
function Limits({ answer, text }) {
  return html`<${AnswerNotices} of=${answer.notices} />
    ${answer.walked && html`<${Walk} walked=${answer.walked} text=${text} />`}`;
}

/** Agents by id, tools by call name, each with a link. @param {{ids: string[]}} props */
function Ids({ ids }) {
  return html`${ids.map((id, at) => html`${at > 0 && ", "}${id.includes("__") ? html`<code>${id}</code>` : html`<${AgentLink} id=${id} />`}`)}`;
}

/** How a model went through the categories. @param {{walked: any, text: string}} props */
function Walk({ walked, text }) {
  return html`<details><summary>How the taxonomy was walked: ${walked.calls} calls, ${walked.selected.length} selected</summary>
    <ul>${walked.visits.map((/** @type {any} */ visit) => html`<li key=${visit.path}><${Words} text=${`${visit.path || "all"} → ${visit.opened.join(", ") || "none"}${visit.pruned.length ? ` (not: ${visit.pruned.join(", ")})` : ""}`} max=${600} /></li>`)}</ul>
    ${walked.failure && html`<p class="notice"><${Words} text=${walked.failure} max=${300} /></p>`}
    <p><a href=${walkPlace(text)}>See it on the tree</a></p></details>`;
}

/** @param {{matches: any[], grouping: Grouping, of: string}} props `of`: which answer. */
function Matches({ matches, grouping, of }) {
  const most = Math.max(0, ...matches.map((match) => match.score));
  return html`<ol class="matches">
    ${matches.map((match, at) => html`<${Match} key=${(match.tool || match.agent).id} match=${match} most=${most} grouping=${grouping} above=${matches[at - 1]} within=${of} />`)}
  </ol>`;
}

/** @param {{match: any, most: number, grouping: Grouping, above: any, within: string}} props */
function Match({ match, most, grouping, above, within }) {
  const { agent, tool, votes, score } = match, of = tool || agent;
  return html`<li class="card">
    <div class="row between"><h4>${tool ? html`<${ToolLink} id=${tool.id} />` : html`<${AgentLink} id=${agent.id} />`}</h4><span class="number" title="score">${digits(score)}</span></div>
    <${Bars} parts=${partsOf(votes, grouping)} most=${most} label=${`Score ${digits(score)}: ${partsOf(votes, grouping).map((part) => `${part.name} ${digits(part.value)}`).join(", ")}`} />
    ${grouping === "entity" && html`<${Entities} parts=${partsOf(votes, grouping)} />`}
    ${above && score <= above.score && html`<p class="quiet behind">${lag(match, above)}</p>`}
    <p><strong><${Words} text=${of.name} max=${80} /></strong> <${Badge}>${kindOf(agent.kind)}<//> <${Standing} of=${of} />${tool && html` of <${AgentLink} id=${agent.id} />`}</p>
    ${of.description && html`<p><${Words} text=${of.description} max=${DESCRIPTION_CHARS} /></p>`}
    ${match.tools?.length > 0 && html`<p>Tools: ${match.tools.map((/** @type {any} */ each, /** @type {number} */ at) => html`${at > 0 && ", "}<${ToolLink} id=${each.id} short />`)}</p>`}
    <details><summary>${votes.length} ${votes.length === 1 ? "vote" : "votes"}: what the score is made of</summary><${Votes} votes=${votes} score=${score} name=${`${of.id} (${within})`} /></details>
  </li>`;
}

/** @param {{parts: {name: string, kind: number}[]}} props */
function Entities({ parts }) {
  return html`<ul class="legend">${parts.map((part) => html`<li key=${part.name}><span class=${`key bar-${part.kind % 8}`}></span> ${part.name}</li>`)}</ul>`;
}

/** Each vote with what it came from; their contributions sum up to the score. @param {{votes: Vote[], score: number, name: string}} props */
function Votes({ votes, score, name }) {
  const rows = votes.map((vote) => [
    vote.kind === "agent" ? html`<${AgentLink} id=${vote.entity_id} />` : html`<${ToolLink} id=${vote.entity_id} />`,
    html`<span title=${vote.leg}><span class=${`key bar-${legColour(vote.leg)}`}></span> ${legName(vote.leg)}</span>`,
    vote.rank,
    digits(vote.score),
    digits(vote.weight),
    digits(vote.contribution),
  ]);
  return html`<${Table} caption=${`Votes for ${name}`} columns=${["From", "Part of the search", "Rank", "Score there", "Weight", "Adds"]} numeric=${[2, 3, 4, 5]} rows=${[...rows, ["sum", "", "", "", "", digits(score)]]} />`;
}

/** The votes summed by leg or by entity; what speaks against one is in the table only. @param {Vote[]} votes @param {Grouping} grouping */
export function partsOf(votes, grouping) {
  /** @type {Map<string, {name: string, value: number, kind: number}>} */
  const parts = new Map();
  for (const vote of votes) {
    const name = grouping === "entity" ? vote.entity_id : legName(vote.leg);
    const part = parts.get(name) || { name, value: 0, kind: grouping === "entity" ? parts.size : legColour(vote.leg) };
    parts.set(name, { ...part, value: part.value + vote.contribution });
  }
  return [...parts.values()].filter((part) => part.value > 0).sort((one, other) => one.kind - other.kind);
}

/** How far it is behind the one above, and by what most. @param {any} match @param {any} above */
function lag(match, above) {
  const lacks = partsOf(above.votes, "leg").map((part) => ({ ...part, value: part.value - (partsOf(match.votes, "leg").find((own) => own.name === part.name)?.value || 0) }));
  const [first] = lacks.sort((one, other) => other.value - one.value);
  const what = first && first.value > 0 ? `, most by “${first.name}” (${digits(first.value)})` : "";
  return `${digits(above.score - match.score)} behind the one above${what}`;
}
