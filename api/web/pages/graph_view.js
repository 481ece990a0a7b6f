// A live view of some nodes and edges: a picture that a mouse, fingers and a keyboard move, its legend, and its tables.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { cut, EDGES } from "../drawing.js";
import { Field } from "../fields.js";
import { agentPlace, Table, toolPlace, Words } from "../parts.js";
import { HOME } from "../place.js";
import { placeNodes } from "./graph_layout.js";

/**
 * @typedef {{id: string, kind: string, name: string, description?: string, centre?: boolean, more?: number, of?: string}} GraphNode
 * `of`: the id of what it is, where its own is not the kind, a colon and that.
 * @typedef {{kind: string, start: string, end: string, weight?: number | null}} GraphEdge
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 */

const RADIUS = /** @type {Record<string, number>} */ ({ agent: 9, source: 8, toolset: 9, category: 9 });
const DASHES = /** @type {Record<string, string>} */ ({ similar: "4 3", follows: "1 3" });
const LABEL_CHARS = 26, CHAR_WIDTH = 6.2, LABEL_HEIGHT = 14, LEAST_WIDTH = 700;

/**
 * @param {{nodes: GraphNode[], edges: GraphEdge[], hidden?: string[], onHide: (kinds: string[]) => void,
 *   onOpen?: (id: string) => void, label: string}} props
 * `hidden`: kinds of edges that are not shown; `onOpen`: shows a node's neighbours.
 */
export function GraphView({ nodes, edges, hidden = [], onHide, onOpen, label }) {
  const [chosen, setChosen] = useState("");
  const shown = useMemo(() => leaveOut(nodes, edges, hidden), [nodes, edges, hidden.join()]);
  const node = shown.nodes.find((each) => each.id === chosen);
  return html`<${Legend} edges=${edges} hidden=${hidden} onHide=${onHide} />
    <div class="graph-beside">
      <${Picture} ...${shown} chosen=${chosen} onChoose=${setChosen} onOpen=${onOpen} label=${label} />
      <div aria-live="polite">${node ? html`<${Chosen} node=${node} edges=${shown.edges} nodes=${shown.nodes} onOpen=${onOpen} onChoose=${setChosen} />` : html`<p class="quiet">Choose a node to read of it${onOpen ? ", and to see its neighbours" : ""}.</p>`}</div>
    </div>
    <${Tables} ...${shown} />`;
}

/** The page of what a node is. @param {GraphNode} node @returns {string | null} */
export function placeOf({ id, kind, of = id.slice(id.indexOf(":") + 1) }) {
  if (kind === "category") return `${HOME}/taxonomy?path=${encodeURIComponent(of)}`;
  if (!of) return null;
  if (kind === "agent") return agentPlace(of);
  if (kind === "tool") return toolPlace(of);
  if (kind === "toolset") return `${HOME}/map?around=${encodeURIComponent(`toolset:${of}`)}`;
  return kind === "source" ? `${HOME}/sources?source=${encodeURIComponent(of)}` : null;
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

/** @param {{edges: {kind: string}[], hidden: string[], onHide: (kinds: string[]) => void}} props */
export function Legend({ edges, hidden, onHide }) {
  const kinds = [...new Set(edges.map((edge) => edge.kind))].sort();
  if (!kinds.length) return null;
  const named = (/** @type {string} */ kind) => html`<${Key} kind=${kind} /> ${kind} (${edges.filter((edge) => edge.kind === kind).length})`;
  const show = (/** @type {string[]} */ shown) => onHide([...new Set([...hidden, ...kinds])].filter((kind) => !shown.includes(kind)));
  return html`<${Field} as="some" label="Edges" options=${kinds.map((kind) => [kind, named(kind)])} value=${kinds.filter((kind) => !hidden.includes(kind))} set=${show} />`;
}

/** @param {{kind: string}} props */
function Key({ kind }) {
  return html`<span class=${`key bar-${colorOf(kind)}`} style=${{ background: EDGES[kind]?.color }}></span>`;
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
  useEffect(() => setBox(whole), [whole]);
  const moves = useMoves(setBox);
  const at = (/** @type {string} */ id) => placed.get(id) || { x: 0, y: 0 };
  const first = nodes.some((node) => node.id === chosen) ? chosen : nodes[0]?.id; // where Tab leads; arrows go on
  const size = Math.max(1, box.width / Math.min(innerWidth - 40, LEAST_WIDTH)); // of labels, so that a phone's can be read
  const labelled = useMemo(() => chooseLabels(nodes, placed, size), [nodes, placed, size]);
  return html`<div class="graph">
    <svg ...${moves} style=${{ "--size": size }} viewBox=${`${box.x} ${box.y} ${box.width} ${box.height}`} role="group" aria-label=${`${label}: ${nodes.length} nodes, ${edges.length} edges. Arrows go from node to node.`}>
      <g>${edges.map((edge, number) => html`<${Edge} key=${number} edge=${edge} from=${at(edge.start)} to=${at(edge.end)} />`)}</g>
      ${nodes.map((node) => html`<${Node} key=${node.id} node=${node} at=${at(node.id)} chosen=${node.id === chosen} labelled=${labelled.has(node.id)} first=${node.id === first} onChoose=${onChoose} onOpen=${onOpen} />`)}
    </svg>
    <${Moves} onZoom=${(/** @type {number} */ factor) => setBox((now) => zoomed(now, 1 / factor))} onFit=${() => setBox(whole)} />
  </div>`;
}

/** @param {{onZoom: (factor: number) => void, onFit: () => void}} props */
export function Moves({ onZoom, onFit }) {
  return html`<div class="graph-moves">
    <button onClick=${() => onZoom(1.4)} aria-label="Zoom in">+</button>
    <button onClick=${() => onZoom(1 / 1.4)} aria-label="Zoom out">−</button>
    <button onClick=${onFit} aria-label="Show everything">⤢</button>
  </div>`;
}

/** @param {{edge: GraphEdge, from: {x: number, y: number}, to: {x: number, y: number}}} props */
function Edge({ edge, from, to }) {
  const weight = edge.weight ?? null, width = edge.kind === "answers" ? 3 : weight === null ? 1.4 : 1 + 2.5 * weight;
  const says = `${edge.start} ${edge.kind} ${edge.end}${weight === null ? "" : `, ${weight}`}`;
  return html`<line x1=${from.x} y1=${from.y} x2=${to.x} y2=${to.y} class=${`edge stroke-${colorOf(edge.kind)}`} stroke-width=${width} style=${{ stroke: EDGES[edge.kind]?.color }} stroke-dasharray=${DASHES[edge.kind] || EDGES[edge.kind]?.dash.join(" ")}><title>${cut(says, 300)}</title></line>`;
}

/** @param {{node: GraphNode, at: {x: number, y: number}, chosen: boolean, labelled: boolean, first: boolean, onChoose: (id: string) => void, onOpen?: (id: string) => void}} props */
function Node({ node, at, chosen, labelled, first, onChoose, onOpen }) {
  const radius = RADIUS[node.kind] || 6, more = onOpen ? node.more || 0 : 0;
  const act = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      const from = /** @type {SVGElement} */ (event.currentTarget), all = /** @type {SVGElement[]} */ ([...(from.ownerSVGElement?.querySelectorAll("[role=button]") || [])]);
      all[(all.indexOf(from) + step + all.length) % all.length].focus();
    } else if (event.key === "Enter" || event.key === " ") onChoose(node.id);
    else return;
    event.preventDefault();
  };
  return html`<g class=${`node node-${node.kind}${node.centre ? " centre" : ""}${chosen ? " chosen" : ""}`} transform=${`translate(${at.x} ${at.y})`} onClick=${() => onChoose(node.id)}>
    <g tabindex=${first ? 0 : -1} role="button" aria-pressed=${chosen} aria-label=${`${node.kind} ${cut(node.name, 100)}${more ? `, ${more} more neighbours` : ""}`} onKeyDown=${act}>
      <title>${cut(`${node.id}\n${node.description || ""}`, 300)}</title>
      ${shapeOf(node.kind, radius)}
    </g>
    ${(labelled || chosen) && html`<text y=${radius} dy="1em" aria-hidden="true">${cut(node.name, LABEL_CHARS)}</text>`}
    ${more > 0 && html`<g class="more" onClick=${(/** @type {Event} */ event) => (event.stopPropagation(), onOpen?.(node.id))}><title>Show ${more} more neighbours</title><circle cx=${radius + 9} cy=${-radius - 4} r="9" /><text x=${radius + 9} y=${-radius - 1}>+${more > 99 ? "99" : more}</text></g>`}
  </g>`;
}

/** Those that cover no other one: of centres first, of tools last. @param {GraphNode[]} nodes @param {Map<string, {x: number, y: number}>} placed @param {number} size */
function chooseLabels(nodes, placed, size) {
  const rank = (/** @type {GraphNode} */ node) => (node.centre ? 0 : node.kind === "tool" ? 2 : 1);
  const taken = /** @type {{x: number, y: number, half: number}[]} */ ([]), chosen = new Set();
  for (const node of [...nodes].sort((one, other) => rank(one) - rank(other))) {
    const spot = placed.get(node.id) || { x: 0, y: 0 }, half = (Math.min(node.name.length, LABEL_CHARS) * CHAR_WIDTH * size) / 2, y = spot.y + (RADIUS[node.kind] || 6);
    if (taken.some((each) => Math.abs(each.y - y) < LABEL_HEIGHT * size && Math.abs(each.x - spot.x) < each.half + half)) continue;
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

/** @param {{node: GraphNode, nodes: GraphNode[], edges: GraphEdge[], onOpen?: (id: string) => void, onChoose: (id: string) => void}} props */
function Chosen({ node, nodes, edges, onOpen, onChoose }) {
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
      return html`<li><${Key} kind=${edge.kind} /> ${edge.start === node.id ? edge.kind : `← ${edge.kind}`}${" "}
        <button class="plain" onClick=${() => onChoose(other)}><${Words} text=${names.get(other) || other} max=${60} /></button> ${edge.weight ?? ""}</li>`;
    })}</ul>
    ${own.length > 30 && html`<p class="quiet">and ${own.length - 30} more, in the table</p>`}
  </section>`;
}

/** @param {{nodes: GraphNode[], edges: GraphEdge[]}} props */
function Tables({ nodes, edges }) {
  const linked = (/** @type {GraphNode} */ node) => {
    const place = placeOf(node), words = html`<${Words} text=${node.name} max=${80} />`;
    return place ? html`<a href=${place}>${words}</a>` : words;
  };
  const named = new Map(nodes.map((node) => [node.id, node]));
  const cell = (/** @type {string} */ id) => (named.has(id) ? linked(/** @type {GraphNode} */ (named.get(id))) : id);
  return html`<details><summary>As tables</summary>
    <h2>Nodes</h2>
    <${Table} caption="Nodes" columns=${["Kind", "Name", "Description", "Not shown"]} numeric=${[3]} rows=${nodes.map((node) => [node.kind, linked(node), html`<${Words} text=${node.description || ""} max=${160} />`, node.more ?? ""])} />
    <h2>Edges</h2>
    <${Table} caption="Edges" columns=${["From", "Kind", "To", "Weight"]} numeric=${[3]} rows=${edges.map((edge) => [cell(edge.start), edge.kind, cell(edge.end), edge.weight ?? ""])} />
  </details>`;
}

// -- moving -------------------------------------------------------------------------------------

/** @param {{x: number, y: number}[]} places @returns {Box} */
function around(places) {
  const edge = 50, side = 90, xs = places.map((at) => at.x), ys = places.map((at) => at.y);
  const left = Math.min(0, ...xs) - side, top = Math.min(0, ...ys) - edge;
  const width = Math.max(0, ...xs) + side - left, spare = Math.max(0, LEAST_WIDTH - width);
  return { x: left - spare / 2, y: top, width: width + spare, height: Math.max(0, ...ys) + edge - top };
}

/** @param {Box} box @param {number} factor @param {number} [x] @param {number} [y] Shares of the box that stay in place. @returns {Box} */
function zoomed(box, factor, x = 0.5, y = 0.5) {
  const width = Math.min(20000, Math.max(40, box.width * factor)), height = (box.height * width) / box.width;
  return { x: box.x + (box.width - width) * x, y: box.y + (box.height - height) * y, width, height };
}

/** What moves a box by a wheel, a pointer and fingers: handlers of its picture. @param {(change: (box: Box) => Box) => void} setBox */
function useMoves(setBox) {
  const last = useRef(/** @type {{x: number, y: number} | null} */ (null));
  const onWheel = (/** @type {any} */ event) => {
    event.preventDefault();
    const frame = event.currentTarget.getBoundingClientRect(), factor = Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.0015));
    setBox((box) => zoomed(box, factor, (event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height));
  };
  const onPointerDown = (/** @type {PointerEvent} */ event) => (last.current = { x: event.clientX, y: event.clientY });
  const onPointerMove = (/** @type {any} */ event) => {
    const from = last.current, now = (last.current = event.buttons & 1 ? { x: event.clientX, y: event.clientY } : null);
    if (!from || !now) return;
    const scale = event.currentTarget.getScreenCTM()?.a || 1;
    setBox((box) => ({ ...box, x: box.x - (now.x - from.x) / scale, y: box.y - (now.y - from.y) / scale }));
  };
  return { onWheel, onPointerDown, onPointerMove };
}
