// Why not the other one? Where an agent or a tool stands for the request, what keeps it out, and what mends it.
import { html, useEffect, useState } from "../vendor/preact.js";
import { Field } from "../fields.js";
import { may, mayOperate, maySet, pathOf, request } from "../http.js";
import { Act, AgentLink, Badge, Bars, Code, Loaded, marked, notify, ToolLink, useGet, useLoad, useSettled, Words } from "../parts.js";
import { setQuery, useWanted } from "../place.js";
import { quote } from "../shell.js";
import { isCostly } from "./ask_request.js";
import { digits, legName, partsOf } from "./ask_legs.js";

/** @typedef {{body: any, path: string, answer: any, kept: string, again: () => void}} Question `path`: where `answer` came from; `kept`: its text, if it may be kept. */

/** @param {{id: string}} each */
const idOf = ({ id }) => id;

/** Keeps the request with what is right for it. @param {string} text @param {string[]} right */
export async function keep(text, right) {
  const { requests } = await request("/explore/requests", { body: { text, right } });
  notify(`Kept. Of your ${requests.length} requests ${requests.filter((/** @type {any} */ each) => each.is_right).length} are answered right.`);
}

/** The tool that a match is, or its best, or the agent. @param {any} match @returns {string} */
const toolIn = (match) => (match.tool || match.tools?.[0] || match.agent).id;

/** @param {Question & {name: string}} props */
export function Why({ name, ...question }) {
  const [typed, setTyped] = useState(name), [isOpen, setOpen] = useState(Boolean(name));
  const { matches } = question.answer;
  const near = [...(matches[0]?.tools || []).slice(1, 4).map(idOf), ...matches.slice(1).map(toolIn)];
  const choose = (/** @type {string} */ why) => setQuery({ why });
  const names = useNames(useSettled(isOpen ? typed : "", 250));
  useEffect(() => setTyped(name), [name]);
  return html`<details class="why" open=${isOpen} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}><summary>Why not the other one?</summary>
    ${isOpen && html`<p>${near.map((/** @type {string} */ id) => html`<button key=${id} class="plain" onClick=${() => choose(id)}>${marked(id)}</button> `)}</p>
    <${Field} label="An agent, or a tool (agent/tool)" class="wide" known=${names} autocomplete="off" placeholder="the one you missed" value=${typed} set=${setTyped} onChange=${(/** @type {any} */ event) => choose(event.target.value.trim())} />
    ${name && html`<${Place} key=${name} name=${name} ...${question} />`}`}
  </details>`;
}

/** What may be meant: agents and tools that have the typed words. @param {string} typed @returns {[string, string][]} */
function useNames(typed) {
  const state = useLoad(async (ending) => {
    if (typed.trim().length < 2) return [];
    const agents = may("read") ? (await request("/v1/agents", { params: { text: typed, limit: 8 }, signal: ending })).agents : [];
    const { matches } = await request("/v1/tools/search", { body: { text: typed.replace("/", " "), limit: 12 }, signal: ending });
    return [...agents, ...matches.map((/** @type {any} */ each) => each.tool)];
  }, [typed]);
  return (state.value || []).map((each) => [each.id, each.description.slice(0, 80)]);
}

/** @param {Question & {name: string}} props */
function Place({ name, ...question }) {
  const asked = { ...question.body, id: name }, what = JSON.stringify(asked);
  const [isWanted, want] = useWanted(what), runs = isWanted || !isCostly(question.body.recipe);
  const state = useLoad(async (ending) => (runs ? request("/v1/route/why", { body: asked, signal: ending }) : null), [what, runs, question.answer.revision]);
  if (!runs) return html`<p class="notice">A language model is called for it. <button onClick=${want}>Run</button></p>`;
  return html`<${Loaded} state=${state}>${(/** @type {any} */ placement) => html`<${Placement} of=${placement} />
    ${question.body.text && placement.id && html`<${Mend} of=${placement} ...${question} />`}`}<//>`;
}

/** @param {{of: any}} props */
function Placement({ of }) {
  const link = (/** @type {string} */ id) => (of.kind === "tool" ? html`<${ToolLink} id=${id} />` : html`<${AgentLink} id=${id} />`);
  const hasOther = of.last_id && of.last_id !== of.id;
  const sides = [{ id: of.id, score: of.score, votes: of.votes }, ...(hasOther ? [{ id: of.last_id, score: of.last_score, votes: of.last_votes }] : [])];
  const most = Math.max(...sides.map((side) => side.score));
  const far = of.places.map((/** @type {any} */ each) => `place ${each.rank}${each.count ? ` of ${each.count}` : ""} by ${legName(each.leg)}`);
  return html`<p class="sentence"><${Words} text=${of.sentence} max=${1000} /></p>
    ${of.obstacles.length > 1 && html`<ul>${of.obstacles.map((/** @type {string} */ each) => html`<li key=${each}>It <${Words} text=${each} max=${400} /></li>`)}</ul>`}
    <dl class="facts">
      ${sides.map((side, at) => html`<dt key=${side.id}>${at ? "the last one shown" : placeOf(of)}</dt>
        <dd>${link(side.id)} · ${digits(side.score)} <${Bars} parts=${partsOf(side.votes)} most=${most} label=${`Score ${digits(side.score)} of ${side.id}`} /></dd>`)}
      <dt>how far off</dt><dd>${far.join(", ") || "no part of the search has it"}</dd>
      <dt>its texts hold</dt><dd><${WordList} words=${of.held_words} kind="good" /></dd>
      <dt>and do not hold</dt><dd><${WordList} words=${of.missing_words} kind="bad" /></dd>
    </dl>`;
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

// -- the mend -------------------------------------------------------------------------------------------------------------

/** What would have it found, each as a command, and as a button for those who may; then what became of it. @param {Question & {of: any}} props */
function Mend({ of, body, path, answer, kept, again }) {
  const [done, setDone] = useState(/** @type {any} */ (null));
  const [first] = answer.matches;
  const rival = first && toolIn(first) !== of.id ? toolIn(first) : "";
  const mend = async (/** @type {string} */ place, /** @type {any} */ change, /** @type {any} */ undo) => {
    const former = mayOperate() ? await request("/explore/requests") : null;
    await request(place, { method: "PATCH", body: change });
    const now = former && (await request("/explore/requests", { body: {} }));
    setDone({ before: answer, after: await request(path, { body }), kept: former, now, undo: undo && (() => mend(place, undo, null)) });
    again();
  };
  const tools = of.kind === "agent" && answer.matches.find((/** @type {any} */ match) => match.agent.id === of.id)?.tools;
  return html`${kept && mayOperate() && html`<p><${Act} label=${`This one was right: ${of.id}`} act=${() => keep(kept, [of.id])}>This one was right<//> <span class="quiet">Kept first, the figure says what a mend changed.</span></p>`}<h3>Mend it</h3>
    ${of.kind === "tool" ? html`<${MendTool} id=${of.id} text=${body.text} mend=${mend} />` : html`<p>Name the tool of it that you meant${tools ? html`: ${tools.map((/** @type {any} */ each) => html`<button key=${each.id} class="plain" onClick=${() => setQuery({ why: each.id })}>${marked(each.id)}</button> `)}` : html` (${of.id}/…).`}</p>`}
    ${rival && rival.includes("/") && html`<${Way} title=${`Hide ${rival}, which came instead`} command=${`waygraph set-tool ${quote(rival)} --hide`} label="Hide it" act=${() => mend(`/v1/tools/${pathOf(rival)}`, { hidden: true }, { hidden: null })} />`}
    ${done && html`<${Outcome} ...${done} id=${of.id} />`}`;
}

/** @param {{title: string, command: string, label: string, act: () => Promise<void>, disabled?: boolean, children?: any}} props */
function Way({ title, command, label, act, disabled, children }) {
  return html`<details name="mend"><summary>${marked(title)}</summary>${children}<${Code} text=${command} label=${`command: ${label}`} />${maySet() && html`<${Act} act=${act} disabled=${disabled}>${label}<//>`}</details>`;
}

/** @param {{id: string, text: string, mend: (place: string, change: any, undo: any) => Promise<void>}} props */
function MendTool({ id, text, mend }) {
  const place = `/v1/tools/${pathOf(id)}`, tool = useGet(place, { schema: true }).value;
  const [words, setWords] = useState(/** @type {string | null} */ (null)), [name, setName] = useState("");
  if (!tool || !("source_form" in tool)) return null; // what operators set already is known to admins alone
  const { questions = [], description = null, name: former = null } = tool.source_form?.setting || {};
  const asked = [...questions.filter((/** @type {string} */ each) => each !== text), text.slice(0, 500)];
  const described = words ?? tool.description, own = id.slice(id.indexOf("/") + 1);
  const change = { ...(described !== tool.description && { description: described }), ...(name.trim() && { name: name.trim() }) };
  const options = [...(change.description ? [` --describe ${quote(described)}`] : []), ...(change.name ? [` --rename ${quote(change.name)}`] : [])];
  return html`<${Way} title="Add this request to it, as an example question" command=${`waygraph set-tool ${quote(id)}${asked.map((each) => ` --question ${quote(each)}`).join("")}`} label="Add the request"
      act=${() => mend(place, { questions: asked }, { questions: questions.length ? questions : null })}><p class="quiet">Whoever sees the tool can read it.</p><//>
    <${Way} title="Rename it, or describe it in other words" command=${`waygraph set-tool ${quote(id)}${options.join("") || " --describe …"}`} label="Set them" disabled=${!options.length}
      act=${() => mend(place, change, { description: description || null, name: former || null })}>
      <${Field} label="Name" placeholder=${own} value=${name} set=${setName} /><${Field} label="Description" as="area" value=${described} set=${setWords} /><//>`;
}

/** The answers before and after, side by side, and which kept requests begin with another one now. @param {{before: any, after: any, kept: any, now: any, undo: (() => Promise<void>) | null, id: string}} props */
function Outcome({ before, after, kept, now, undo, id }) {
  const list = (/** @type {string} */ title, /** @type {any} */ answer) => html`<div><h4>${title}</h4><ol>${answer.matches.map(toolIn).map((/** @type {string} */ each) => html`<li key=${each}>${each === id ? html`<b>${marked(each)}</b>` : marked(each)}</li>`)}</ol></div>`;
  return html`<section aria-label="Before and after" class="card"><div class="columns">${list("Before", before)}${list("After", after)}</div>
    ${kept && html`<${Moved} kept=${kept} now=${now} />`}
    ${undo ? html`<${Act} act=${undo}>Undo<//>` : html`<p class="quiet">It is taken back.</p>`}</section>`;
}

/** @param {{kept: any, now: any}} props */
function Moved({ kept, now }) {
  const all = (/** @type {any} */ state) => [...state.requests, ...state.others], right = (/** @type {any} */ state) => state.requests.filter((/** @type {any} */ each) => each.is_right).length;
  const firsts = new Map(all(kept).map((each) => [each.text, each.first])), moved = all(now).filter((each) => firsts.has(each.text) && firsts.get(each.text) !== each.first);
  return html`<p>${moved.length} of ${all(now).length} kept requests changed their first answer${kept.requests.length > 0 && `; of your ${kept.requests.length} were right before: ${right(kept)}, now: ${right(now)}`}.</p>
    ${moved.length > 0 && html`<ul>${moved.slice(0, 20).map((each) => html`<li key=${each.text}><${Words} text=${each.text} max=${100} />: ${marked(firsts.get(each.text) || "nothing")} → ${marked(each.first || "nothing")}</li>`)}</ul>`}`;
}
