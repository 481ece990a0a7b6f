// A live view of some nodes and edges: a picture that a mouse, fingers and a keyboard move, its legend, and its tables.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { cut } from "../drawing.js";
import { Table, Words } from "../parts.js";
import { placeNodes } from "./graph_layout.js";

/**
 * @typedef {{id: string, kind: string, name: string, description?: string, centre?: boolean, more?: number}} GraphNode
 * @typedef {{kind: string, start: string, end: string, weight?: number | null}} GraphEdge
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 */

const RADIUS = /** @type {Record<string, number>} */ ({ agent: 9, source: 8, toolset: 9, category: 9 });
const LABEL_CHARS = 26, CHAR_WIDTH = 6.2, LABEL_HEIGHT = 14, LEAST_WIDTH = 700;

/**
 * @param {{nodes: GraphNode[], edges: GraphEdge[], hidden?: string[], onHide: (kinds: string[]) => void,
 *   onOpen?: (id: string) => void, placeOf: (node: GraphNode) => string | null, label: string}} props
 * `hidden`: kinds of edges that are not shown; `onOpen`: shows a node's neighbours; `placeOf`: the page of a node.
 */
export function GraphView({ nodes, edges, hidden = [], onHide, onOpen, placeOf, label }) {
  const [chosen, setChosen] = useState("");
  const shown = useMemo(() => leaveOut(nodes, edges, hidden), [nodes, edges, hidden.join()]);
  const node = shown.nodes.find((each) => each.id === chosen);
  return html`<${Legend} edges=${edges} hidden=${hidden} onHide=${onHide} />
    <div class="graph-beside">
      <${Picture} ...${shown} chosen=${chosen} onChoose=${setChosen} onOpen=${onOpen} label=${label} />
      <div aria-live="polite">${node ? html`<${Chosen} node=${node} edges=${shown.edges} nodes=${shown.nodes} onOpen=${onOpen} placeOf=${placeOf} onChoose=${setChosen} />` : html`<p class="quiet">Choose a node to read of it${onOpen ? ", and to see its neighbours" : ""}.</p>`}</div>
    </div>
    <${Tables} ...${shown} placeOf=${placeOf} />`;
}

/**
 * Without edges of some kinds, and without the nodes that only these held.
 * @param {GraphNode[]} nodes @param {GraphEdge[]} edges @param {string[]} hidden
 */
function leaveOut(nodes, edges, hidden) {
  const kept = edges.filter((edge) => !hidden.includes(edge.kind));
  const held = new Set(kept.flatMap((edge) => [edge.start, edge.end]));
  const before = new Set(edges.flatMap((edge) => [edge.start, edge.end]));
  return { nodes: nodes.filter((node) => node.centre || held.has(node.id) || !before.has(node.id)), edges: kept };
}

/** @param {{edges: GraphEdge[], hidden: string[], onHide: (kinds: string[]) => void}} props */
function Legend({ edges, hidden, onHide }) {
  const kinds = [...new Set(edges.map((edge) => edge.kind))].sort();
  if (!kinds.length) return null;
  const toggle = (/** @type {string} */ kind) => onHide(hidden.includes(kind) ? hidden.filter((each) => each !== kind) : [...hidden, kind]);
  return html`<fieldset><legend>Edges</legend>${kinds.map(
    (kind) => html`<label class="beside"><input type="checkbox" checked=${!hidden.includes(kind)} onChange=${() => toggle(kind)} />
      <span class=${`key bar-${colorOf(kind)}`}></span> ${kind} (${edges.filter((edge) => edge.kind === kind).length})</label>`,
  )}</fieldset>`;
}

const KINDS = ["owns", "claims", "similar", "follows", "includes", "holds", "answers"];

/** Of the eight colours; those of the registry's own kinds stay. @param {string} kind */
function colorOf(kind) {
  const known = KINDS.indexOf(kind.toLowerCase());
  return known >= 0 ? known : [...kind].reduce((sum, each) => (sum * 31 + each.charCodeAt(0)) % 8, 0);
}

/** @param {{nodes: GraphNode[], edges: GraphEdge[], chosen: string, onChoose: (id: string) => void, onOpen?: (id: string) => void, label: string}} props */
function Picture({ nodes, edges, chosen, onChoose, onOpen, label }) {
  const spots = useRef(/** @type {Map<string, {x: number, y: number}>} */ (new Map()));
  const placed = useMemo(() => (spots.current = placeNodes(nodes, edges, spots.current)), [nodes, edges]);
  const whole = useMemo(() => around([...placed.values()]), [placed]);
  const [box, setBox] = useState(whole);
  const svg = useRef(/** @type {SVGSVGElement | null} */ (null));
  useEffect(() => setBox(whole), [whole]);
  useMoves(svg, setBox);
  const zoom = (/** @type {number} */ factor) => setBox((now) => zoomed(now, factor));
  const at = (/** @type {string} */ id) => placed.get(id) || { x: 0, y: 0 };
  const first = nodes.some((node) => node.id === chosen) ? chosen : nodes[0]?.id; // where Tab leads; arrows go on
  const labelled = useMemo(() => chooseLabels(nodes, placed), [nodes, placed]);
  return html`<div class="graph">
    <svg ref=${svg} viewBox=${`${box.x} ${box.y} ${box.width} ${box.height}`} role="group" aria-label=${`${label}: ${nodes.length} nodes, ${edges.length} edges. Arrows go from node to node.`}>
      <g>${edges.map((edge, number) => html`<${Edge} key=${number} edge=${edge} from=${at(edge.start)} to=${at(edge.end)} />`)}</g>
      ${nodes.map((node) => html`<${Node} key=${node.id} node=${node} at=${at(node.id)} chosen=${node.id === chosen} labelled=${labelled.has(node.id)} first=${node.id === first} onChoose=${onChoose} onOpen=${onOpen} />`)}
    </svg>
    <div class="graph-moves">
      <button onClick=${() => zoom(1 / 1.4)} aria-label="Zoom in">+</button>
      <button onClick=${() => zoom(1.4)} aria-label="Zoom out">−</button>
      <button onClick=${() => setBox(whole)} aria-label="Show everything">⤢</button>
    </div>
  </div>`;
}

/** @param {{edge: GraphEdge, from: {x: number, y: number}, to: {x: number, y: number}}} props */
function Edge({ edge, from, to }) {
  const weight = edge.weight ?? null, width = weight === null ? 1.4 : 1 + 2.5 * weight;
  const says = `${edge.start} ${edge.kind} ${edge.end}${weight === null ? "" : `, ${weight}`}`;
  return html`<line x1=${from.x} y1=${from.y} x2=${to.x} y2=${to.y} class=${`edge stroke-${colorOf(edge.kind)}`} stroke-width=${width} stroke-dasharray=${edge.kind === "similar" ? "4 3" : edge.kind === "follows" ? "1 3" : undefined}><title>${cut(says, 300)}</title></line>`;
}

/** @param {{node: GraphNode, at: {x: number, y: number}, chosen: boolean, labelled: boolean, first: boolean, onChoose: (id: string) => void, onOpen?: (id: string) => void}} props */
function Node({ node, at, chosen, labelled, first, onChoose, onOpen }) {
  const radius = RADIUS[node.kind] || 6, more = onOpen ? node.more || 0 : 0;
  const act = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) stepTo(/** @type {SVGElement} */ (event.currentTarget), step);
    else if (event.key === "Enter" || event.key === " ") onChoose(node.id);
    else return;
    event.preventDefault();
  };
  return html`<g class=${`node node-${node.kind}${node.centre ? " centre" : ""}${chosen ? " chosen" : ""}`} transform=${`translate(${at.x} ${at.y})`} onClick=${() => onChoose(node.id)}>
    <g tabindex=${first ? 0 : -1} role="button" aria-pressed=${chosen} aria-label=${`${node.kind} ${cut(node.name, 100)}${more ? `, ${more} more neighbours` : ""}`} onKeyDown=${act}>
      <title>${cut(`${node.id}\n${node.description || ""}`, 300)}</title>
      ${shapeOf(node.kind, radius)}
    </g>
    ${(labelled || chosen) && html`<text y=${radius + 11} aria-hidden="true">${cut(node.name, LABEL_CHARS)}</text>`}
    ${more > 0 && html`<g class="more" onClick=${(/** @type {Event} */ event) => (event.stopPropagation(), onOpen?.(node.id))}><title>Show ${more} more neighbours</title><circle cx=${radius + 9} cy=${-radius - 4} r="9" /><text x=${radius + 9} y=${-radius - 1}>+${more > 99 ? "99" : more}</text></g>`}
  </g>`;
}

/** Focuses another node, in their order. @param {SVGElement} from @param {number} by */
function stepTo(from, by) {
  const all = /** @type {SVGElement[]} */ ([...(from.ownerSVGElement?.querySelectorAll("[role=button]") || [])]);
  all[(all.indexOf(from) + by + all.length) % all.length].focus();
}

/** Those that cover no other one: of centres first, of tools last. @param {GraphNode[]} nodes @param {Map<string, {x: number, y: number}>} placed */
function chooseLabels(nodes, placed) {
  const rank = (/** @type {GraphNode} */ node) => (node.centre ? 0 : node.kind === "tool" ? 2 : 1);
  const taken = /** @type {{x: number, y: number, half: number}[]} */ ([]), chosen = new Set();
  for (const node of [...nodes].sort((one, other) => rank(one) - rank(other))) {
    const spot = placed.get(node.id) || { x: 0, y: 0 }, half = (Math.min(node.name.length, LABEL_CHARS) * CHAR_WIDTH) / 2, y = spot.y + (RADIUS[node.kind] || 6);
    if (taken.some((each) => Math.abs(each.y - y) < LABEL_HEIGHT && Math.abs(each.x - spot.x) < each.half + half)) continue;
    taken.push({ x: spot.x, y, half });
    chosen.add(node.id);
  }
  return chosen;
}

/** So that kinds differ not by colours alone. @param {string} kind @param {number} r */
function shapeOf(kind, r) {
  if (kind === "source") return html`<rect x=${-r} y=${-r} width=${2 * r} height=${2 * r} />`;
  if (kind === "toolset") return html`<path d=${`M0 ${-r} L${r} 0 L0 ${r} L${-r} 0 Z`} />`;
  if (kind === "category") return html`<path d=${`M${-r} ${r * 0.8} L0 ${-r} L${r} ${r * 0.8} Z`} />`;
  return html`<circle r=${r} />`;
}

/** @param {{node: GraphNode, nodes: GraphNode[], edges: GraphEdge[], placeOf: (node: GraphNode) => string | null, onOpen?: (id: string) => void, onChoose: (id: string) => void}} props */
function Chosen({ node, nodes, edges, placeOf, onOpen, onChoose }) {
  const place = placeOf(node), own = edges.filter((edge) => edge.start === node.id || edge.end === node.id);
  const names = new Map(nodes.map((each) => [each.id, each.name]));
  return html`<section class="card" aria-label="The chosen node">
    <h2><${Words} text=${node.name} max=${100} /></h2>
    <p class="quiet">${node.kind} <${Words} text=${node.id.slice(node.id.indexOf(":") + 1)} max=${200} /></p>
    ${node.description && html`<p><${Words} text=${node.description} max=${400} /></p>`}
    <p class="row">
      ${place && html`<a class="button" href=${place}>Open its page</a>`}
      ${onOpen && !node.centre && html`<button onClick=${() => onOpen(node.id)}>Show its neighbours${node.more ? ` (+${node.more})` : ""}</button>`}
      ${onOpen && node.centre && node.more ? html`<span class="quiet">${node.more} more neighbours than are shown</span>` : null}
    </p>
    <ul class="plain">${own.slice(0, 30).map((edge) => {
      const other = edge.start === node.id ? edge.end : edge.start;
      return html`<li><span class=${`key bar-${colorOf(edge.kind)}`}></span> ${edge.start === node.id ? edge.kind : `← ${edge.kind}`}${" "}
        <button class="plain" onClick=${() => onChoose(other)}><${Words} text=${names.get(other) || other} max=${60} /></button> ${edge.weight ?? ""}</li>`;
    })}</ul>
    ${own.length > 30 && html`<p class="quiet">and ${own.length - 30} more, in the table</p>`}
  </section>`;
}

/** @param {{nodes: GraphNode[], edges: GraphEdge[], placeOf: (node: GraphNode) => string | null}} props */
function Tables({ nodes, edges, placeOf }) {
  const linked = (/** @type {GraphNode} */ node) => {
    const place = placeOf(node), words = html`<${Words} text=${node.name} max=${80} />`;
    return place ? html`<a href=${place}>${words}</a>` : words;
  };
  const named = new Map(nodes.map((node) => [node.id, node]));
  const cell = (/** @type {string} */ id) => (named.has(id) ? linked(/** @type {GraphNode} */ (named.get(id))) : id);
  return html`<details><summary>As tables</summary>
    <h3>Nodes</h3>
    <${Table} caption="Nodes" columns=${["Kind", "Name", "Description", "Not shown"]} numeric=${[3]} rows=${nodes.map((node) => [node.kind, linked(node), html`<${Words} text=${node.description || ""} max=${160} />`, node.more ?? ""])} />
    <h3>Edges</h3>
    <${Table} caption="Edges" columns=${["From", "Kind", "To", "Weight"]} numeric=${[3]} rows=${edges.map((edge) => [cell(edge.start), edge.kind, cell(edge.end), edge.weight ?? ""])} />
  </details>`;
}

// -- moving -------------------------------------------------------------------------------------

/** @param {{x: number, y: number}[]} places @returns {Box} */
function around(places) {
  const edge = 50, xs = places.map((at) => at.x), ys = places.map((at) => at.y);
  const left = Math.min(0, ...xs) - edge, top = Math.min(0, ...ys) - edge;
  const width = Math.max(0, ...xs) + edge - left, spare = Math.max(0, LEAST_WIDTH - width);
  return { x: left - spare / 2, y: top, width: width + spare, height: Math.max(0, ...ys) + edge - top };
}

/** @param {Box} box @param {number} factor @param {number} [x] @param {number} [y] Shares of the box that stay in place. @returns {Box} */
function zoomed(box, factor, x = 0.5, y = 0.5) {
  const width = Math.min(20000, Math.max(40, box.width * factor)), height = (box.height * width) / box.width;
  return { x: box.x + (box.width - width) * x, y: box.y + (box.height - height) * y, width, height };
}

/** @param {{current: SVGSVGElement | null}} svg @param {(change: (box: Box) => Box) => void} setBox */
function useMoves(svg, setBox) {
  useEffect(() => {
    const element = /** @type {SVGSVGElement} */ (svg.current);
    let last = /** @type {{x: number, y: number} | null} */ (null);
    const wheel = (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      const frame = element.getBoundingClientRect(), factor = Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.0015));
      setBox((box) => zoomed(box, factor, (event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height));
    };
    const move = (/** @type {PointerEvent} */ event) => {
      if (!last || !(event.buttons & 1)) return (last = null);
      const scale = element.getScreenCTM()?.a || 1, by = { x: (event.clientX - last.x) / scale, y: (event.clientY - last.y) / scale };
      last = { x: event.clientX, y: event.clientY };
      setBox((box) => ({ ...box, x: box.x - by.x, y: box.y - by.y }));
    };
    const begin = (/** @type {PointerEvent} */ event) => (last = { x: event.clientX, y: event.clientY });
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", begin);
    element.addEventListener("pointermove", move);
    return () => {
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("pointerdown", begin);
      element.removeEventListener("pointermove", move);
    };
  }, []);
}
