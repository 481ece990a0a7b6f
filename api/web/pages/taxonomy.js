// The current taxonomy as a tree, and on it the walk of a route.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Form } from "../fields.js";
import { may, request, session } from "../http.js";
import { AgentLink, AnswerNotices, Badge, Code, counted, Fault, Loaded, notify, Table, ToolLink, Twin, useGet, useLoad, walkPlace, Words } from "../parts.js";
import { go, HOME, useWanted } from "../place.js";

/** @typedef {{visited?: boolean, opened?: boolean, pruned?: boolean, shown?: number, selected?: number}} Mark */
/** @typedef {{marks: Map<string, Mark>, selected: Set<string>}} Walk */

const MODES = /** @type {[string, string][]} */ ([["", "all that could serve"], ["get_important", "one of each function"], ["get_one", "the single best"]]);
const MEMBERS = 40;

/** @param {{query: URLSearchParams}} props */
export default function Page({ query }) {
  const path = query.get("path") || "", text = query.get("q") || "", mode = query.get("mode") || "";
  const [round, setRound] = useState(0);
  const state = useLoad(async (ending) => {
    const isNone = session.value?.sees_all && !(await request("/v1/taxonomies", { signal: ending })).taxonomies.length;
    return isNone ? {} : request("/v1/taxonomy", { signal: ending });
  }, []);
  const [isWanted, want] = useWanted(walkPlace(text, mode));
  const walked = useLoad(async (ending) => (text && isWanted ? request("/v1/route", { body: { text, recipe: "taxonomy", limit: 20, ...(mode && { mode }) }, signal: ending }) : null), [text, mode, isWanted]);
  const walk = walked.value?.walked ? readWalk(walked.value.walked) : null;
  const isNone = state.value && !state.value.taxonomy;
  const again = () => {
    state.again();
    setRound(round + 1);
  };
  return html`<h1>Taxonomy</h1>
    ${!isNone && html`<${WalkForm} text=${text} mode=${mode} />`}
    ${text && !isWanted && html`<p class="notice">A link asks for this walk, which calls a language model. <button onClick=${want}>Run</button></p>`}
    ${text && isWanted && (walked.error ? html`<${Fault} error=${walked.error} again=${walked.again} />` : walked.busy ? html`<p class="quiet" aria-busy="true">A language model walks the tree; this may take a while …</p>` : html`<${WalkFacts} route=${walked.value} />`)}
    <${Loaded} state=${state}>${(/** @type {any} */ root) => !root.taxonomy ? html`<p>There is no tree yet. Build one:</p><${Code} label="command that builds a tree" text="waygraph taxonomy build" />` : html`
      <p>The tree <b>${root.taxonomy}</b> sorts ${counted({ [root.of]: root.count }) || `no ${root.of}`}; ${root.built_by === "vectors" || root.built_by === "words" ? `it was built by ${root.built_by}` : html`the language model <${Words} text=${root.built_by} max=${60} /> built it`}. <${Twin} path="/v1/taxonomy" params=${{ path }} /></p>
      <div class="tree"><${Category} key=${`${root.taxonomy} ${round}`} path="" name="All" count=${root.count} of=${root.of} at=${path} walk=${walk} /></div>`}<//>
    ${!isNone && may("write") && session.value?.sees_all && html`<${Use} current=${state.value?.taxonomy || ""} again=${again} />`}`;
}

/** @param {{text: string, mode: string}} props */
function WalkForm({ text, mode }) {
  return html`<${Form} class="row" key=${text + mode} button="Walk" act=${async (/** @type {any} */ values) => go(values.text ? walkPlace(values.text, values.mode) : `${HOME}/taxonomy`)} fields=${[
    { name: "text", label: "See a walk for", as: "search", beside: true, value: text, placeholder: "a request" },
    { name: "mode", label: "that looks for", as: "choice", beside: true, value: mode, options: MODES },
  ]} />`;
}

// -- the walk -------------------------------------------------------------------------------------

/** @param {string} path @param {string} name */
function join(path, name) {
  return path ? `${path}/${name}` : name;
}

/** What a walk did, by path. @param {any} walked @returns {Walk} */
function readWalk(walked) {
  const marks = new Map();
  const mark = (/** @type {string} */ path, /** @type {Mark} */ what) => marks.set(path, { ...marks.get(path), ...what });
  for (const visit of walked.visits) {
    mark(visit.path, { visited: true });
    for (const name of visit.pruned) if (!marks.get(join(visit.path, name))?.opened) mark(join(visit.path, name), { pruned: true });
    for (const name of visit.opened) mark(join(visit.path, name), { opened: true, pruned: false });
  }
  for (const pick of walked.picks) {
    for (const path of pick.paths) {
      const before = marks.get(path);
      mark(path, { shown: (before?.shown || 0) + pick.shown, selected: (before?.selected || 0) + pick.selected });
    }
  }
  return { marks, selected: new Set(walked.selected) };
}

/** @param {{route: any}} props */
function WalkFacts({ route }) {
  const walked = route?.walked;
  return html`<section class="card" aria-label="The walk">
    ${route && html`<${AnswerNotices} of=${route.notices} />`}
    ${!walked && html`<p>Nothing was walked.</p>`}
    ${walked && html`<p>${walked.calls} ${walked.calls === 1 ? "call" : "calls"} of the language model, ${walked.prompt_tokens.toLocaleString("en")} tokens asked and ${walked.completion_tokens.toLocaleString("en")} answered; ${walked.selected.length} selected${walked.failure ? html`; <b>it ended early:</b> <${Words} text=${walked.failure} max=${300} />` : "."}</p>
      <p>${walked.selected.slice(0, 20).map((/** @type {string} */ id) => html`<${Entity} id=${id} /> `)}</p>
      <details><summary>The walk as a table</summary>
        <${Table} caption="Categories whose children were shown" columns=${["Category", "Opened", "Left out"]} rows=${walked.visits.map((/** @type {any} */ visit) => [visit.path || "All", visit.opened.join(", "), visit.pruned.join(", ")])} empty="No category has children." />
        <${Table} caption="What was shown and selected" columns=${["Where", "Shown", "Selected"]} numeric=${[1, 2]} rows=${walked.picks.map((/** @type {any} */ pick) => [pick.paths.map((/** @type {string} */ path) => path || "All").join(", "), pick.shown, pick.selected])} />
      </details>`}
  </section>`;
}

/** @param {{mark: Mark | undefined}} props */
function Marks({ mark }) {
  if (!mark) return null;
  return html`${mark.visited && html` <${Badge}>looked into<//>`}${mark.opened && html` <${Badge} kind="good">opened<//>`}${mark.pruned && html` <${Badge} kind="warn">left out<//>`}
    ${mark.shown !== undefined && html` <${Badge} kind=${mark.selected ? "good" : ""}>${mark.selected} of ${mark.shown} selected<//>`}`;
}

// -- the tree -------------------------------------------------------------------------------------

/**
 * A category, whose children are asked for when it is opened.
 * @param {{path: string, name: string, count: number, of: string, description?: string, at: string, walk: Walk | null}} props
 * `at`: the path that is meant by the address.
 */
function Category({ path, name, count, of, description = "", at, walk }) {
  const mark = walk?.marks.get(path), is_on_way = !path || at === path || at.startsWith(`${path}/`) || Boolean(mark?.visited || mark?.opened || mark?.selected);
  const [open, setOpen] = useState(is_on_way);
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (is_on_way) setOpen(true);
  }, [is_on_way]);
  useEffect(() => {
    if (path && at === path) element.current?.scrollIntoView({ block: "center" });
  }, []);
  const kind = mark?.opened ? "opened" : "";
  return html`<details ref=${element} class=${kind} open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary aria-current=${path && at === path ? "true" : undefined}><b><${Words} text=${name} max=${100} /></b> <span class="quiet">${counted({ [of]: count }) || `no ${of}`}</span><${Marks} mark=${mark} /> ${!open && description && html`<span class="quiet"><${Words} text=${description.slice(0, 120)} /></span>`}</summary>
    ${open && html`<${Inside} path=${path} of=${of} at=${at} walk=${walk} />`}
  </details>`;
}

/** @param {{path: string, of: string, at: string, walk: Walk | null}} props */
function Inside({ path, of, at, walk }) {
  const state = useGet("/v1/taxonomy", { path });
  const escaped = encodeURIComponent(path);
  return html`<div><${Loaded} state=${state}>${(/** @type {any} */ view) => html`
    ${view.description && html`<p><${Words} text=${view.description} max=${600} /></p>`}
    ${view.boundary && html`<p class="quiet">Not here: <${Words} text=${view.boundary.replace(/^not here: */i, "")} max=${600} /></p>`}
    <p class="row">${path && html`<a href=${`${HOME}?within=${escaped}`}>Ask within</a>`} <a href=${`${HOME}/map?around=category:${escaped}`}>On the map</a> ${path && html`<a href=${`${HOME}/taxonomy?path=${escaped}`}>Link</a>`}</p>
    ${view.children.map((/** @type {any} */ child) => html`<${Category} key=${child.path} path=${child.path} name=${child.path.slice(path ? path.length + 1 : 0)} count=${child.count} of=${of} description=${child.description} at=${at} walk=${walk} />`)}
    <${Members} ids=${view.members} walk=${walk} />`}<//></div>`;
}

/** @param {{ids: string[], walk: Walk | null}} props */
function Members({ ids, walk }) {
  const [whole, setWhole] = useState(false);
  const shown = whole ? ids : ids.slice(0, MEMBERS);
  return html`<ul class="plain">${shown.map((id) => html`<li key=${id} class="leaf"><${Entity} id=${id} />${walk?.selected.has(id) && html` <${Badge} kind="good">selected<//>`}</li>`)}</ul>
    ${ids.length > shown.length && html`<button class="plain" onClick=${() => setWhole(true)}>all ${ids.length.toLocaleString("en")}</button>`}`;
}

/** @param {{id: string}} props */
function Entity({ id }) {
  return id.includes("/") ? html`<${ToolLink} id=${id} />` : html`<${AgentLink} id=${id} />`;
}

// -- another tree -----------------------------------------------------------------------------------

/** @param {{current: string, again: () => void}} props */
function Use({ current, again }) {
  const known = useLoad(async (ending) => {
    const statement = "MATCH (t:Taxonomy) RETURN t.id ORDER BY t.id";
    return may("cypher") ? (await request("/v1/cypher", { body: { statement }, signal: ending })).rows.map((/** @type {any[]} */ row) => row[0]) : [];
  }, [current]);
  const use = async (/** @type {any} */ { name }) => {
    await request("/v1/taxonomy", { method: "PUT", body: { name } });
    notify(`${name} is the current tree.`);
    again();
  };
  const others = (known.value || []).filter((/** @type {string} */ each) => each !== current);
  return html`<section aria-labelledby="use-tree"><h2 id="use-tree">Another tree</h2>
    <p class="quiet">The current one is what is browsed, walked and searched within. <code>waygraph taxonomy build</code> makes trees.</p>
    <${Form} class="row" act=${use} isEdit button="Use it" fields=${[{ name: "name", label: "Name", beside: true, known: others.map((/** @type {string} */ each) => [each]) }]}>
      ${others.length > 0 && html`<span class="quiet">There are also: ${others.join(", ")}</span>`}<//></section>`;
}
