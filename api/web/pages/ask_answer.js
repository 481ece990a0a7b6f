// One answer: a sentence, why, what else is near, and what each score is made of.
import { html } from "../vendor/preact.js";
import { mayOperate } from "../http.js";
import { Act, AgentLink, agentPlace, AnswerNotices, Badge, Bars, Described, kindOf, Standing, Table, ToolLink, toolPlace, walkPlace, Words } from "../parts.js";
import { HOME } from "../place.js";
import { keep, Why } from "./ask_why.js";
import { digits, legColour, legName, LEGS, partsOf } from "./ask_legs.js";

/** @typedef {import("./ask_legs.js").Vote} Vote */

const DESCRIPTION_CHARS = 220, MOST_NEAR = 4;

/** Legs that the answers hold, each once by its name. @param {{legs: string[]}} props */
function Legend({ legs }) {
  const named = new Map(legs.map((leg) => [legName(leg), leg]));
  return html`<ul class="legend" aria-label="What the colours mean">
    ${[...named].map(([name, leg]) => html`<li key=${name}><span class=${`key bar-${legColour(leg)}`}></span> ${name}</li>`)}
  </ul>`;
}

/** @param {any} answer @returns {string[]} */
function legsOf(answer) {
  const all = [answer, ...(answer.steps || [])].flatMap((each) => [...each.matches, ...(each.pinned || [])]);
  const found = new Set(all.flatMap((match) => match.votes.map((/** @type {Vote} */ vote) => vote.leg)));
  const known = Object.keys(LEGS).filter((leg) => found.has(leg));
  return [...known, ...[...found].filter((leg) => !LEGS[leg])];
}

// -- the sentence ---------------------------------------------------------------------------------------------------------

/** The words of a request that some texts have, in the order of the request; whole words, or their beginnings. @param {string} text @param {string[]} texts */
export function heldWords(text, texts) {
  const held = texts.join(" ").toLowerCase().split(/[^\p{L}\p{N}]+/u);
  const words = new Set(text.toLowerCase().match(/[\p{L}\p{N}]{4,}/gu) || []);
  return [...words].filter((word) => held.some((each) => each.startsWith(word.replace(/s$/, ""))));
}

/** Its best tool, or none. @param {any} match */
function toolOf(match) {
  return match.tool || match.tools?.[0];
}

/** The name of what owns a tool, or its id where another match has the same name. @param {any} match @param {any[]} matches */
function ownerOf({ agent }, matches) {
  return matches.some((each) => each.agent.id !== agent.id && each.agent.name === agent.name) ? agent.id : agent.name;
}

/** What speaks most for it, in words. @param {any} match @param {string} text */
function reasonsOf(match, text) {
  const tool = toolOf(match), words = heldWords(text, [match.agent.name, match.agent.description, tool?.name || "", tool?.description || ""]);
  const kinds = partsOf(match.votes).sort((one, other) => other.value - one.value).map(({ leg }) => SAID[leg] || legName(leg));
  const [most, next] = [...new Set(kinds)].map((kind) => (kind === WORDS ? words.length > 0 && `the word${words.length > 1 ? "s" : ""} “${words.slice(0, 5).join(" … ")}”` : kind)).filter(Boolean);
  return most ? `, by ${[most, next].filter(Boolean).join(" and ")}` : "";
}

const WORDS = "words", MEANING = "what it means";
/** @type {Record<string, string>} */
const SAID = { capability_text: WORDS, agent_text: WORDS, capability_vector: MEANING, tool_vector: MEANING, agent_vector: MEANING, name: "its name" };

/** The answer as one sentence, to be read aloud. @param {any} answer @param {string} text */
export function digest(answer, text) {
  const [first] = answer.matches;
  if (!first) return "Nothing was found.";
  const tool = toolOf(first);
  return `${tool ? `${tool.name} of ` : ""}${ownerOf(first, answer.matches)} ${answer.is_doubtful ? "is nearest" : "fits best"}${reasonsOf(first, text)}.`;
}

/** @param {{answer: any, text: string}} props */
function Sentence({ answer, text }) {
  const [first, ...others] = answer.matches, tool = first && toolOf(first);
  const near = [...(first?.tools || []).slice(1, 3).map((/** @type {any} */ each) => ({ agent: first.agent, tool: each })), ...others].slice(0, MOST_NEAR);
  if (!first) return html`<p class="sentence">Nothing was found.</p>`;
  const name = (/** @type {any} */ match) => {
    const own = toolOf(match);
    return html`<a href=${own ? toolPlace(own.id) : agentPlace(match.agent.id)}><${Words} text=${(own || match.agent).name.slice(0, 80)} /></a>`;
  };
  return html`<p class="sentence">${name(first)}${tool && html` of <${Words} text=${ownerOf(first, answer.matches).slice(0, 80)} />`} ${answer.is_doubtful ? "is nearest" : "fits best"}<${Words} text=${reasonsOf(first, text)} />.</p>
    ${near.length > 0 && html`<p class="quiet">Near: ${near.map((/** @type {any} */ each, /** @type {number} */ at) => html`${at > 0 && ", "}${name(each)}${toolOf(each) && html` of <${Words} text=${ownerOf(each, answer.matches).slice(0, 80)} />`}`)}.</p>`}
    ${first.cannot_run && html`<p class="quiet">It cannot be called here: <${Words} text=${first.cannot_run} max=${300} />. <a href=${tool ? toolPlace(tool.id) : agentPlace(first.agent.id)}>What to do</a></p>`}`;
}

/** @param {{answer: any, text: string, of: string, body: any, path: string, why: string, again: () => void}} props `of`: which recipe's; `why`: whom somebody missed. */
export function Answer({ answer, text, of, body, path, why, again }) {
  const { steps = [], pinned = [], query } = answer;
  // Kept requests are judged by their text alone, by the usual recipe, so only such an answer can be called right.
  const isPlain = path === "/v1/route" && body.recipe === "hybrid" && !(body.filters || body.history || body.steps || body.strict);
  const kept = isPlain ? text : "";
  return html`<${Sentence} answer=${answer} text=${text} />
    <${AnswerNotices} of=${answer.notices} />
    ${kept && html`<${Verdict} answer=${answer} text=${kept} />`}
    ${body && html`<${Why} body=${body} path=${path} answer=${answer} name=${why} kept=${kept} again=${again} />`}
    ${body && html`<${Legend} legs=${legsOf(answer)} />`}
    <${Matches} matches=${answer.matches} of=${of} text=${kept} />
    ${pinned.length > 0 && html`<h3>Pinned by an operator</h3><${Matches} matches=${pinned} of=${`${of}, pinned`} text=${kept} />`}
    ${steps.map(
      (/** @type {any} */ step, /** @type {number} */ at) => html`<details key=${at} class="step">
        <summary>${at < query.steps.length ? `Step ${at + 1}: ` : "The whole request: "}<${Words} text=${step.query.text} max=${DESCRIPTION_CHARS} /></summary>
        <${Answer} answer=${step} text=${step.query.text} of=${`${of}, step ${at + 1}`} />
      </details>`,
    )}
    ${answer.walked && html`<${Walk} walked=${answer.walked} text=${text} />`}
    <p class="quiet">${answer.confidence !== null && answer.matches.length > 0 && html`<span title="How likely the registry holds a right one">confidence <strong>${Math.round(100 * answer.confidence)} %</strong></span> · `}revision ${answer.revision} · ${answer.elapsed_ms.toFixed(1)} ms${text && html` · <a href=${`${HOME}/map?q=${encodeURIComponent(text)}`}>on the map</a>`}</p>`;
}

/** What a person says of an answer, for their own list. @param {{answer: any, text: string}} props */
function Verdict({ answer, text }) {
  const [first] = answer.matches;
  if (!mayOperate()) return null;
  return html`<p class="row">${first && html`<${Act} act=${() => keep(text, [(toolOf(first) || first.agent).id])}>This was right<//>`}
    <${Act} act=${() => keep(text, [])}>None of these<//> <a href=${`${HOME}/evaluate`}>Your requests</a></p>`;
}

/** How a model went through the categories. @param {{walked: any, text: string}} props */
function Walk({ walked, text }) {
  return html`<details><summary>How the taxonomy was walked: ${walked.calls} calls, ${walked.selected.length} selected</summary>
    <ul>${walked.visits.map((/** @type {any} */ visit) => html`<li key=${visit.path}><${Words} text=${`${visit.path || "all"} → ${visit.opened.join(", ") || "none"}${visit.pruned.length ? ` (not: ${visit.pruned.join(", ")})` : ""}`} max=${600} /></li>`)}</ul>
    ${walked.failure && html`<p class="notice"><${Words} text=${walked.failure} max=${300} /></p>`}
    <p><a href=${walkPlace(text)}>See it on the tree</a></p></details>`;
}

/** @param {{matches: any[], of: string, text: string}} props `of`: which answer. */
function Matches({ matches, of, text }) {
  const most = Math.max(0, ...matches.map((match) => match.score));
  return html`<ol class="matches">
    ${matches.map((match, at) => html`<${Match} key=${(match.tool || match.agent).id} match=${match} most=${most} above=${matches[at - 1]} within=${of} text=${text} />`)}
  </ol>`;
}

/** @param {{match: any, most: number, above: any, within: string, text: string}} props */
function Match({ match, most, above, within, text }) {
  const { agent, tool, votes, score } = match, of = tool || agent, parts = partsOf(votes);
  return html`<li class="card">
    <div class="row between"><h3>${tool ? html`<${ToolLink} id=${tool.id} />` : html`<${AgentLink} id=${agent.id} />`}</h3><span class="number" title="score">${digits(score)}</span></div>
    <${Bars} parts=${parts} most=${most} label=${`Score ${digits(score)}: ${parts.map((part) => `${part.name} ${digits(part.value)}`).join(", ")}`} />
    ${above && score <= above.score && html`<p class="quiet behind">${lag(match, above)}</p>`}
    <p><strong><${Words} text=${of.name} max=${80} /></strong> <${Badge}>${kindOf(agent.kind)}<//> <${Standing} of=${of} />${tool && html` of <${AgentLink} id=${agent.id} />`}</p>
    ${of.description && html`<p><${Described} text=${of.description} max=${DESCRIPTION_CHARS} /></p>`}
    ${match.tools?.length > 0 && html`<p>Tools: ${match.tools.map((/** @type {any} */ each, /** @type {number} */ at) => html`${at > 0 && ", "}<${ToolLink} id=${each.id} short />`)}</p>`}
    <details><summary>${votes.length} ${votes.length === 1 ? "vote" : "votes"}: what the score is made of</summary><${Votes} votes=${votes} score=${score} name=${`${of.id} (${within})`} /></details>
    ${above && text && mayOperate() && html`<${Act} class="plain" label=${`This one was right: ${of.id}`} act=${() => keep(text, [(toolOf(match) || agent).id])}>This one was right<//>`}
  </li>`;
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

/** How far it is behind the one above, and by what most. @param {any} match @param {any} above */
function lag(match, above) {
  const lacks = partsOf(above.votes).map((part) => ({ ...part, value: part.value - (partsOf(match.votes).find((own) => own.name === part.name)?.value || 0) }));
  const [first] = lacks.sort((one, other) => other.value - one.value);
  const what = first && first.value > 0 ? `, most by “${first.name}” (${digits(first.value)})` : "";
  return `${digits(above.score - match.score)} behind the one above${what}`;
}
