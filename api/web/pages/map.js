// The picture of the whole, and live views around some of it.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { findEntities, MapDrawing, tieMap } from "../drawing.js";
import { Field, Form } from "../fields.js";
import { queryOf, request } from "../http.js";
import { agentPlace, Badge, kindOf, Loaded, Table, toolPlace, Twin, useGet, useLoad, Words } from "../parts.js";
import { go, HOME, setQuery } from "../place.js";
import { GraphView, Legend, Moves } from "./graph_view.js";

/** @typedef {import("../drawing.js").Entity} Entity */

const FOUND = 12, SIZES = [60, 150, 300], SEEDS = 5;

/** @param {{query: URLSearchParams}} props */
export default function Page({ query }) {
  const around = query.getAll("around"), text = query.get("q") || "";
  const hide = query.get("hide") ?? (text ? "claims,similar" : ""); // of a request the path to what fits matters most
  const hidden = useMemo(() => hide.split(",").filter(Boolean), [hide]);
  return html`<div class="row between"><h1>Map</h1><${Ask} text=${text} /></div>
    ${around.length || text ? html`<${Live} around=${around} text=${text} hidden=${hidden} query=${query} />` : html`<${Whole} hidden=${hidden} query=${query} />`}`;
}

/** @param {{text: string}} props */
function Ask({ text }) {
  return html`<${Form} key=${text} class="row" role="search" button="Show" act=${async (/** @type {any} */ { words }) => go(`${HOME}/map${queryOf({ q: words })}`)}
    fields=${[{ name: "words", label: "What fits", as: "search", beside: true, value: text, placeholder: "a request" }]} />`;
}

/** The address of a live view. @param {string[]} around @param {number} [limit] @param {string} [hide] */
function livePlace(around, limit = SIZES[0], hide = "") {
  return `${HOME}/map${queryOf({ around, limit: limit === SIZES[0] ? "" : limit, hide })}`;
}

/** @param {string[]} kinds */
function hideKinds(kinds) {
  setQuery({ hide: kinds.join(",") || "none" });
}

// -- around some nodes -------------------------------------------------------------------------------

/** @param {{around: string[], text: string, hidden: string[], query: URLSearchParams}} props */
function Live({ around, text, hidden, query }) {
  const limit = SIZES.find((size) => size === Number(query.get("limit"))) || SIZES[0];
  const state = useLoad(async (ending) => {
    const seeds = around.length ? around : await seedsOf(text, ending);
    if (!seeds.length) return { seeds, nodes: [], edges: [] };
    const view = await request("/v1/graph", { params: { around: seeds, limit }, signal: ending });
    return { seeds, ...(around.length ? view : withRequest(view, text, seeds)) };
  }, [around.join("\n"), text, limit]);
  const larger = SIZES.find((size) => size > limit);
  const open = (/** @type {string} */ id) => {
    if (id === "request:") return;
    const seeds = state.value?.seeds || around;
    const more = seeds.includes(id) ? larger || limit : limit;
    go(livePlace([...new Set([...seeds, id])], more, query.get("hide") || ""));
  };
  return html`<p>${text && !around.length ? html`What fits <q><${Words} text=${text} max=${200} /></q>, and what stands around it.` : html`What stands around <${Words} text=${around.map((id) => id.slice(id.indexOf(":") + 1) || "all").join(", ")} max=${200} />.`}${" "}
      <a href=${`${HOME}/map`}>The whole map</a></p>
    <${Loaded} state=${state}>${(/** @type {any} */ view) =>
      view.nodes.length
        ? html`<${GraphView} nodes=${view.nodes} edges=${view.edges} hidden=${hidden} onHide=${hideKinds} onOpen=${open} label="What stands around" />
          <p class="row">${larger && view.nodes.length >= limit && html`<button onClick=${() => setQuery({ limit: String(larger) })}>Up to ${larger} nodes</button>`}
            <${Twin} path="/v1/graph" params=${{ around: view.seeds, limit }} /></p>`
        : html`<p>Nothing fits.</p>`}<//>`;
}

/** The request as a node of its own, with a path to its answers. @param {any} view @param {string} text @param {string[]} seeds */
function withRequest(view, text, seeds) {
  const node = { id: "request:", kind: "request", name: text, description: "What was asked.", centre: true };
  return { ...view, nodes: [node, ...view.nodes], edges: [...seeds.filter((id) => id.startsWith("agent:")).map((end) => ({ kind: "answers", start: node.id, end })), ...view.edges] };
}

/** The agents that a route finds, and their best tools. @param {string} text @param {AbortSignal} ending */
async function seedsOf(text, ending) {
  const route = await request("/v1/route", { body: { text, limit: SEEDS }, signal: ending });
  const matches = /** @type {any[]} */ (route.matches);
  return [...matches.map((match) => `agent:${match.agent.id}`), ...matches.flatMap((match) => match.tools.slice(0, 1).map((/** @type {any} */ each) => `tool:${(each.tool || each).id}`))];
}

// -- the whole ----------------------------------------------------------------------------------------

/** @param {{hidden: string[], query: URLSearchParams}} props */
function Whole({ hidden, query }) {
  const state = useGet("/v1/map");
  const tied = useMemo(() => state.value && { ...tieMap(state.value), data: state.value }, [state.value]);
  return html`<${Loaded} state=${{ ...state, value: tied }}>${(/** @type {any} */ map) =>
    map.agents.length ? html`<${Drawn} map=${map} at=${query.get("at") || ""} find=${query.get("find") || ""} hidden=${hidden} />` : html`<p>This registry has nothing that you may see yet.</p>`}<//>`;
}

/** @param {{map: any, at: string, find: string, hidden: string[]}} props */
function Drawn({ map, at, find, hidden }) {
  const selected = map.by_id.get(at) || null;
  const found = useMemo(() => findEntities([...map.agents, ...map.tools], find), [map, find]);
  const lit = useMemo(() => (selected ? new Set([selected.owner, ...selected.owner.tools]) : found && new Set(found)), [selected, found]);
  const choose = (/** @type {Entity | null} */ entity) => setQuery({ at: entity ? entity.id : null });
  return html`<p class="quiet">${map.agents.length.toLocaleString("en")} agents and ${map.tools.length.toLocaleString("en")} tools; what is alike stands side by side. Drag to move, scroll to zoom, choose for more.</p>
    <${Legend} edges=${map.data.edges} hidden=${hidden} onHide=${hideKinds} />
    <div class="graph-beside">
      <${Canvas} map=${map} selected=${selected} lit=${lit} hidden=${hidden} onSelect=${choose} />
      <div>
        <${Field} label="Find on the map" as="search" class="wide" value=${find} set=${(/** @type {string} */ words) => setQuery({ find: words, at: null })} />
        <div aria-live="polite">${found && !selected && html`<${Found} found=${found} onChoose=${choose} />`}
        ${selected && html`<${Selected} entity=${selected} onChoose=${choose} />`}</div>
      </div>
    </div>
    <${Regions} map=${map} /><p><${Twin} path="/v1/map" /></p>`;
}

/** @param {{map: any, selected: Entity | null, lit: Set<Entity> | null, hidden: string[], onSelect: (entity: Entity | null) => void}} props */
function Canvas({ map, selected, lit, hidden, onSelect }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const drawing = useRef(/** @type {MapDrawing | null} */ (null));
  const [tip, setTip] = useState(/** @type {{entity: Entity, x: number, y: number} | null} */ (null));
  useEffect(() => {
    const element = /** @type {HTMLCanvasElement} */ (canvas.current);
    const onHover = (/** @type {Entity | null} */ entity, /** @type {PointerEvent} */ event) => setTip(entity && { entity, x: event.offsetX, y: event.offsetY });
    const drawn = (drawing.current = new MapDrawing(element, map.data, { onSelect, onHover }));
    drawn.fit();
    return watch(element, drawn);
  }, [map]);
  useEffect(() => drawing.current?.show({ selected, lit, hidden }), [selected, lit, hidden, map]);
  useEffect(() => {
    if (selected && drawing.current && !tip) drawing.current.moveTo(selected);
  }, [selected, map]);
  const press = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (by) drawing.current?.pan(by[0], by[1]);
    else if (event.key === "+" || event.key === "-") drawing.current?.zoom(event.key === "+" ? 1.4 : 1 / 1.4);
    else return;
    event.preventDefault();
  };
  return html`<div class="graph">
    <canvas ref=${canvas} tabindex="0" role="img" aria-label="Map of agents and their tools. Arrows move it, plus and minus zoom; find reaches each agent and tool." onKeyDown=${press}></canvas>
    ${tip && html`<div class="graph-tip" style=${{ left: `${tip.x + 14}px`, top: `${tip.y + 14}px` }}><b><${Words} text=${tip.entity.name.slice(0, 80)} /></b><br />${tip.entity.description.slice(0, 120)}</div>`}
    <${Moves} onZoom=${(/** @type {number} */ factor) => drawing.current?.zoom(factor)} onFit=${() => drawing.current?.fit()} />
  </div>`;
}

/** The drawing follows the size of its canvas and the colours of the page. @param {HTMLCanvasElement} canvas @param {MapDrawing} drawing */
function watch(canvas, drawing) {
  const follow = () => drawing.follow(), dark = matchMedia("(prefers-color-scheme: dark)");
  const sizes = new ResizeObserver(follow), schemes = new MutationObserver(follow);
  sizes.observe(canvas);
  schemes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-scheme"] });
  dark.addEventListener("change", follow);
  return () => {
    sizes.disconnect();
    schemes.disconnect();
    dark.removeEventListener("change", follow);
  };
}

/** @param {{found: Entity[], onChoose: (entity: Entity) => void}} props */
function Found({ found, onChoose }) {
  return html`<p>${found.length ? `${found.length.toLocaleString("en")} found` : "Nothing has these words."}</p>
    <ul class="plain">${found.slice(0, FOUND).map((entity) => html`<li key=${entity.id}><button class="plain" onClick=${() => onChoose(entity)}><${Words} text=${entity.name.slice(0, 80)} /></button> <span class="quiet">${entity.is_agent ? "agent" : entity.owner.id}</span></li>`)}</ul>
    ${found.length > FOUND && html`<p class="quiet">and ${(found.length - FOUND).toLocaleString("en")} more, all marked on the map</p>`}`;
}

/** @param {{entity: Entity, onChoose: (entity: Entity | null) => void}} props */
function Selected({ entity, onChoose }) {
  const node = `${entity.is_agent ? "agent" : "tool"}:${entity.id}`;
  return html`<section class="card" aria-label="The chosen one">
    <h2><${Words} text=${entity.name} max=${100} /></h2>
    <p class="quiet">${entity.is_agent ? kindOf(entity.kind) : html`tool of <button class="plain" onClick=${() => onChoose(entity.owner)}><${Words} text=${entity.owner.name} max=${80} /></button>`}
      ${entity.is_pinned && html` <${Badge}>pinned<//>`}${entity.is_hidden && html` <${Badge}>hidden<//>`}</p>
    <p><${Words} text=${entity.description} max=${400} /></p>
    <p class="row"><a class="button" href=${entity.is_agent ? agentPlace(entity.id) : toolPlace(entity.id)}>Open its page</a>
      <a class="button" href=${livePlace([node])}>Its neighbours</a> <button class="plain" onClick=${() => onChoose(null)}>Close</button></p>
    ${entity.is_agent && html`<ul class="plain">${entity.tools.slice(0, 30).map((/** @type {Entity} */ tool) => html`<li key=${tool.id}><button class="plain" onClick=${() => onChoose(tool)}><${Words} text=${tool.name} max=${80} /></button></li>`)}</ul>`}
  </section>`;
}

/** @param {{map: {data: import("../drawing.js").MapData}}} props */
function Regions({ map }) {
  const names = (/** @type {Entity[]} */ agents) => html`${agents.slice(0, 10).map((agent) => html`<a href=${agentPlace(agent.id)}><${Words} text=${agent.name} max=${60} /></a> `)}${agents.length > 10 && `and ${agents.length - 10} more`}`;
  return html`<details><summary>As a table</summary>
    <${Table} caption="Regions of the map" columns=${["Region", "Agents", "Tools", "Which"]} numeric=${[1, 2]} rows=${map.data.regions.map(({ name, agents }) => [html`<${Words} text=${name || "others"} max=${80} />`, agents.length, agents.reduce((sum, agent) => sum + agent.tools.length, 0), names(agents)])} />
  </details>`;
}
