// The map on a canvas, for the exported page and for the explorer: it draws, moves, and finds what is under a pointer.
// While it moves, bitmaps are moved; what is seen is drawn anew when the movement ends. Texts come from strangers.

/**
 * @typedef {{name: string, x: number, y: number, r: number, agents: Entity[]}} Region
 * @typedef {{id: string, name: string, description: string, kind: string, tags: string[], is_pinned: boolean, is_hidden: boolean,
 *   region: number, x: number, y: number, r: number, is_agent?: true, owner?: any, tools?: any[], color?: number}} MapAgent
 * @typedef {{id: string, name: string, description: string, tags: string[], agent: number, x: number, y: number,
 *   is_agent?: false, owner?: any}} MapTool
 * @typedef {{kind: string, start: any, end: any}} MapEdge Between two nodes, such as `agent:ID`; tied: between two entities.
 * @typedef {{revision: number, agent_radius: number, regions: Region[], agents: MapAgent[], tools: MapTool[], edges: MapEdge[]}} MapData
 * @typedef {any} Entity An agent or a tool of the map, tied to its owner and its tools.
 */

const WHOLE_PIXELS = 2048, REST_MS = 140, TOOL_RADIUS = 3.6;

/** How edges are drawn that the map has too, on both grounds: on the map and in a live view. @type {Record<string, {color: string, dash: number[]}>} */
export const EDGES = { needs: { color: "#d9434a", dash: [] }, teaches: { color: "#8b5ce6", dash: [7, 3] }, together: { color: "#128c78", dash: [2, 3] } };

/** Ties tools to their agents, and edges to both ends. @param {MapData} data @returns {{agents: Entity[], tools: Entity[], by_id: Map<string, Entity>}} */
export function tieMap(data) {
  for (const region of data.regions) region.agents = [];
  for (const agent of data.agents) {
    Object.assign(agent, { is_agent: true, owner: agent, tools: [], color: hue(agent.region) });
    data.regions[agent.region].agents.push(agent);
  }
  for (const tool of data.tools) {
    tool.owner = data.agents[tool.agent];
    tool.owner.tools.push(tool);
  }
  const by_id = new Map([...data.agents, ...data.tools].map((entity) => [entity.id, entity]));
  const entityOf = (/** @type {string} */ node) => by_id.get(node.slice(node.indexOf(":") + 1));
  data.edges = data.edges.map(({ kind, start, end }) => ({ kind, start: entityOf(start), end: entityOf(end) }));
  return { agents: data.agents, tools: data.tools, by_id };
}

/** Those that have all words, by title first; null: no words. @param {Entity[]} entities @param {string} text @returns {Entity[] | null} */
export function findEntities(entities, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const rank = (/** @type {Entity} */ entity) => (words.every((word) => entity.name.toLowerCase().includes(word)) ? 0 : 1);
  const has = (/** @type {Entity} */ { id, name, description, tags }) => words.every((word) => [id, name, description, ...tags].join("\n").toLowerCase().includes(word));
  return entities.filter(has).sort((one, other) => rank(one) - rank(other));
}

/** @param {number} region */
function hue(region) {
  return Math.round((255 + region * 137.508) % 360);
}

/** As short as a label may be, without what is not seen or turns what follows. @param {string} text @param {number} length */
export function cut(text, length) {
  const plain = text.slice(0, 4 * length).replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g, "▯");
  return plain.length > length ? plain.slice(0, length - 1) + "…" : plain;
}

export class MapDrawing {
  /**
   * The canvas's own `color`, `background-color` and `caret-color` are those of texts, ground and less important texts.
   * @param {HTMLCanvasElement} canvas @param {MapData} data Tied.
   * @param {{onSelect: (entity: Entity | null) => void, onHover?: (entity: Entity | null, event: PointerEvent) => void,
   *   room?: (selected: Entity | null) => {left: number, right: number}}} options
   * `room`: how much of the canvas's width is covered at its sides, in pixels.
   */
  constructor(canvas, data, { onSelect, onHover = () => {}, room = () => ({ left: 0, right: 0 }) }) {
    this.canvas = canvas;
    this.data = data;
    this.onSelect = onSelect;
    this.onHover = onHover;
    this.room = room;
    this.screen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.pen = this.screen;
    this.view = { x: 0, y: 0, scale: 1 }; // screen = world * scale + (x, y)
    this.selected = /** @type {Entity | null} */ (null);
    this.hovered = /** @type {Entity | null} */ (null);
    this.lit = /** @type {Set<Entity> | null} */ (null); // null: all
    this.hidden = /** @type {string[]} */ ([]); // kinds of edges
    this.moved = false; // by hand; until then the map follows the window
    this.due = "";
    this.rest = 0;
    this.ink = this.ground = this.soft = "";
    this.dark = false;
    this.sharp = { bitmap: document.createElement("canvas"), view: { x: 0, y: 0, scale: 1 } };
    this.whole = /** @type {{bitmap: HTMLCanvasElement, view: {x: number, y: number, scale: number}} | null} */ (null);
    this.listen();
  }

  readColors() {
    const style = getComputedStyle(this.canvas);
    this.ink = style.color;
    this.ground = style.backgroundColor;
    this.soft = style.caretColor;
    const [red, green, blue] = (this.ground.match(/[\d.]+/g) || ["255", "255", "255"]).map(Number);
    this.dark = 0.3 * red + 0.6 * green + 0.1 * blue < 128;
  }

  /** @param {{selected?: Entity | null, lit?: Set<Entity> | null, hidden?: string[]}} what `hidden`: kinds of edges. */
  show({ selected = this.selected, lit = this.lit, hidden = this.hidden }) {
    if (lit !== this.lit || hidden !== this.hidden) this.whole = null;
    Object.assign(this, { selected, lit, hidden });
    this.draw();
  }

  // -- when ---------------------------------------------------------------------------------------

  /** Draws what is seen anew. */
  draw() {
    this.ask("sharp");
  }

  /** Moves what was drawn, and draws anew once the movement rests. */
  shift() {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.draw(), REST_MS);
    this.ask("shift");
  }

  /** @param {"sharp" | "shift"} how */
  ask(how) {
    const first = !this.due;
    this.due = this.due === "sharp" ? "sharp" : how;
    if (!first) return;
    requestAnimationFrame(() => {
      const is_sharp = this.due === "sharp";
      this.due = "";
      if (!this.canvas.clientWidth || !this.canvas.clientHeight) return; // it is gone, or not shown
      if (is_sharp) this.drawSharp();
      this.blit();
    });
  }

  blit() {
    const { canvas, screen, view, sharp } = this, ratio = devicePixelRatio;
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.fillStyle = this.ground;
    screen.fillRect(0, 0, canvas.width, canvas.height);
    const grown = view.scale / sharp.view.scale;
    const at = { x: (view.x - sharp.view.x * grown) * ratio, y: (view.y - sharp.view.y * grown) * ratio };
    if (grown !== 1 || at.x || at.y) {
      const whole = (this.whole ||= this.drawWhole());
      const larger = view.scale / whole.view.scale;
      screen.drawImage(whole.bitmap, (view.x - whole.view.x * larger) * ratio, (view.y - whole.view.y * larger) * ratio, whole.bitmap.width * larger * ratio, whole.bitmap.height * larger * ratio);
      screen.fillRect(at.x, at.y, sharp.bitmap.width * grown, sharp.bitmap.height * grown);
    }
    screen.drawImage(sharp.bitmap, at.x, at.y, sharp.bitmap.width * grown, sharp.bitmap.height * grown);
    if (this.hovered) {
      screen.setTransform(ratio, 0, 0, ratio, 0, 0);
      screen.translate(view.x, view.y);
      screen.scale(view.scale, view.scale);
      this.pen = screen;
      this.ring(this.hovered, this.hovered.is_agent ? this.data.agent_radius + 3 : 6.2);
    }
  }

  drawSharp() {
    const { canvas, sharp } = this, ratio = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
    for (const each of [canvas, sharp.bitmap]) {
      if (each.width === Math.round(width * ratio) && each.height === Math.round(height * ratio)) continue;
      each.width = Math.round(width * ratio);
      each.height = Math.round(height * ratio);
    }
    this.readColors();
    sharp.view = { ...this.view };
    this.pen = /** @type {CanvasRenderingContext2D} */ (sharp.bitmap.getContext("2d"));
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    const seen = this.paint(this.view, width, height);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paintLabels(seen, width, height);
  }

  /** All of it, without labels: what is under the sharp bitmap while that is moved. */
  drawWhole() {
    const { left, right, top, bottom } = this.bounds(), bitmap = document.createElement("canvas");
    const scale = Math.min(2, WHOLE_PIXELS / Math.max(right - left, bottom - top, 1));
    bitmap.width = Math.max(1, Math.ceil((right - left) * scale));
    bitmap.height = Math.max(1, Math.ceil((bottom - top) * scale));
    const view = { x: -left * scale, y: -top * scale, scale };
    this.pen = /** @type {CanvasRenderingContext2D} */ (bitmap.getContext("2d"));
    this.paint(view, bitmap.width, bitmap.height);
    return { bitmap, view };
  }

  bounds() {
    const edge = 20, regions = this.data.regions.length ? this.data.regions : [{ x: 0, y: 0, r: 1 }];
    return {
      left: Math.min(...regions.map((r) => r.x - r.r)) - edge,
      right: Math.max(...regions.map((r) => r.x + r.r)) + edge,
      top: Math.min(...regions.map((r) => r.y - r.r)) - edge,
      bottom: Math.max(...regions.map((r) => r.y + r.r)) + edge,
    };
  }

  // -- shapes -------------------------------------------------------------------------------------

  /** @param {{x: number, y: number, scale: number}} view @param {number} width @param {number} height */
  paint(view, width, height) {
    this.pen.translate(view.x, view.y);
    this.pen.scale(view.scale, view.scale);
    const left = -view.x / view.scale, top = -view.y / view.scale;
    const box = { left, top, right: left + width / view.scale, bottom: top + height / view.scale };
    const seen = this.data.agents.filter((agent) => within(agent, agent.r, box));
    this.paintRegions(box);
    if (view.scale >= 0.25) for (const agent of seen) this.paintSpokes(agent);
    for (const agent of seen) this.paintTools(agent);
    this.paintEdges(view.scale);
    for (const agent of seen) this.paintAgent(agent);
    return seen;
  }

  /** @param {any} box */
  paintRegions(box) {
    this.data.regions.forEach((region, number) => {
      if (!within(region, region.r + 14, box)) return;
      this.pen.fillStyle = this.tint(hue(number), this.dark ? 0.1 : 0.13);
      this.dot(region, region.r + 14);
    });
  }

  /** @param {Entity} agent */
  paintSpokes(agent) {
    this.pen.strokeStyle = this.tint(agent.color, this.isBright(agent) ? 0.35 : 0.08);
    this.pen.lineWidth = 0.8;
    this.pen.beginPath();
    for (const tool of agent.tools) {
      this.pen.moveTo(agent.x, agent.y);
      this.pen.lineTo(tool.x, tool.y);
    }
    this.pen.stroke();
  }

  /** As bows, so that each lies beside the spokes; those of what is selected stand out. @param {number} scale */
  paintEdges(scale) {
    const pen = this.pen, chosen = this.selected;
    for (const [kind, { color, dash }] of Object.entries(EDGES)) {
      if (this.hidden.includes(kind)) continue;
      for (const strong of [false, true]) {
        const width = strong ? 2 / scale : Math.max(1, 0.7 / scale);
        Object.assign(pen, { strokeStyle: color, lineWidth: width, globalAlpha: strong ? 1 : chosen || this.lit ? 0.15 : 0.6 });
        pen.setLineDash(dash.map((each) => each * width));
        pen.beginPath();
        for (const { kind: own, start, end } of this.data.edges) {
          if (own !== kind || (chosen !== null && (start === chosen || end === chosen)) !== strong) continue;
          pen.moveTo(start.x, start.y);
          pen.quadraticCurveTo((start.x + end.x) / 2 + (end.y - start.y) * 0.2, (start.y + end.y) / 2 - (end.x - start.x) * 0.2, end.x, end.y);
        }
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    pen.setLineDash([]);
  }

  /** @param {Entity} agent */
  paintTools(agent) {
    for (const bright of [false, true]) {
      this.pen.fillStyle = this.mix(agent.color, bright ? 0.75 : 0.16);
      this.pen.beginPath();
      for (const tool of agent.tools) {
        if (this.isLit(tool) !== bright) continue;
        this.pen.moveTo(tool.x + TOOL_RADIUS, tool.y);
        this.pen.arc(tool.x, tool.y, TOOL_RADIUS, 0, 7);
      }
      this.pen.fill();
    }
    if (this.selected && !this.selected.is_agent && this.selected.owner === agent) this.ring(this.selected, 6.2);
  }

  /** @param {Entity} agent */
  paintAgent(agent) {
    const radius = this.data.agent_radius;
    this.pen.fillStyle = this.mix(agent.color, this.isBright(agent) ? 1 : 0.25);
    this.dot(agent, radius);
    if (agent.is_hidden) { // hollow: known, but no route names it
      this.pen.fillStyle = this.ground;
      this.dot(agent, radius * 0.55);
    }
    if (agent.is_pinned) this.ring(agent, radius + 3.5);
    if (agent === this.selected) this.ring(agent, radius + 3);
  }

  /** @param {{x: number, y: number}} place @param {number} radius */
  dot(place, radius) {
    this.pen.beginPath();
    this.pen.arc(place.x, place.y, radius, 0, 7);
    this.pen.fill();
  }

  /** @param {{x: number, y: number}} place @param {number} radius */
  ring(place, radius) {
    this.pen.strokeStyle = this.ink;
    this.pen.lineWidth = 2.2 / Math.max(1, this.view.scale);
    this.pen.beginPath();
    this.pen.arc(place.x, place.y, radius, 0, 7);
    this.pen.stroke();
  }

  /** @param {Entity} entity */
  isLit(entity) {
    return this.lit === null || this.lit.has(entity);
  }

  /** @param {Entity} agent */
  isBright(agent) {
    return this.isLit(agent) || agent.tools.some((/** @type {Entity} */ tool) => this.isLit(tool));
  }

  /** @param {number} color @param {number} opacity */
  tint(color, opacity) {
    return `oklch(${this.dark ? 0.7 : 0.62} 0.13 ${color} / ${opacity})`;
  }

  /** @param {number} color @param {number} strength */
  mix(color, strength) {
    return `color-mix(in oklab, oklch(${this.dark ? 0.74 : 0.58} 0.14 ${color}) ${strength * 100}%, ${this.ground})`;
  }

  // -- labels: what matters most first, and none over another --------------------------------------

  /** @param {Entity[]} seen @param {number} width @param {number} height */
  paintLabels(seen, width, height) {
    const taken = /** @type {any[]} */ ([]), { view, selected, lit } = this;
    this.pen.textBaseline = "middle";
    this.pen.lineJoin = "round";
    const screen = { left: 0, top: 0, right: width, bottom: height };
    const near = seen.filter((agent) => within(this.onScreen(agent), 40, screen));
    const first = (/** @type {Entity} */ agent) => (agent === selected || selected?.owner === agent ? 2 : 0) + (lit && this.isBright(agent) ? 1 : 0);
    near.sort((one, other) => first(other) - first(one) || other.r - one.r || (one.id < other.id ? -1 : 1));
    this.data.regions.forEach((region, number) => region.agents.length > 1 && this.labelRegion(region, number, taken));
    for (const agent of near) this.labelAgent(agent, taken);
    if (view.scale > 2) for (const agent of near) for (const tool of agent.tools) this.labelTool(tool, taken);
    else if (selected && !selected.is_agent) this.labelTool(selected, taken);
  }

  /** Above it, else below it. @param {Region} region @param {number} number @param {any[]} taken */
  labelRegion(region, number, taken) {
    const at = this.onScreen(region), size = Math.min(22, Math.max(11.5, region.r * this.view.scale * 0.12));
    const away = (region.r + 14) * this.view.scale + size * 0.45, color = `oklch(${this.dark ? 0.8 : 0.45} 0.1 ${hue(number)})`;
    this.label(cut(region.name, 60), [{ x: at.x, y: at.y - away }, { x: at.x, y: at.y + away }], { weight: 650, size, color, opacity: 0.95 }, taken);
  }

  /** Below it, else above it. @param {Entity} agent @param {any[]} taken */
  labelAgent(agent, taken) {
    const scale = this.view.scale, at = this.onScreen(agent), size = Math.min(15, Math.max(10, 8 + 4 * scale));
    const below = agent.r * scale + size * (scale > 2 ? 2 : 0.6), is_far = scale < 1;
    const face = { weight: is_far ? 500 : 600, size, color: this.ink, opacity: this.isBright(agent) ? 1 : 0.35 };
    this.label(cut(agent.name, is_far ? 22 : 40), [{ x: at.x, y: at.y + below }, { x: at.x, y: at.y - below }], face, taken);
  }

  /** Away from the agent, so that the labels of a ring stand around it. @param {Entity} tool @param {any[]} taken */
  labelTool(tool, taken) {
    const scale = this.view.scale, at = this.onScreen(tool);
    const aside = (tool.x - tool.owner.x) / Math.hypot(tool.x - tool.owner.x, tool.y - tool.owner.y);
    const size = Math.min(13, 10 + scale * 0.5), off = (tool === this.selected ? 6.5 : TOOL_RADIUS) * scale + 4;
    const face = { weight: 400, size, color: this.soft, opacity: this.isLit(tool) ? 1 : 0.3 }, name = cut(tool.name, 30);
    const beside = { x: at.x + Math.sign(aside) * off, y: at.y }, above = { x: at.x, y: at.y + Math.sign(tool.y - tool.owner.y) * (off + size / 2) };
    if (Math.abs(aside) > 0.35) this.label(name, [beside], { ...face, align: aside > 0 ? "left" : "right" }, taken);
    else this.label(name, [above], face, taken);
  }

  /** At the first place with room, on the canvas too: what stands in the middle moves aside. @param {string} text @param {{x: number, y: number}[]} places @param {any} face @param {any[]} taken */
  label(text, places, { weight, size, color, opacity, align = "center" }, taken) {
    const pen = this.pen, wide = this.canvas.clientWidth;
    pen.font = `${weight} ${size}px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
    const width = pen.measureText(text).width + 4, tall = size / 2 + 2, room = wide - width;
    for (const { x, y } of places) {
      const wish = align === "left" ? x - 2 : align === "right" ? x + 2 - width : x - width / 2;
      const left = align === "center" && x > 0 && x < wide ? Math.max(0, Math.min(room, wish)) : wish;
      const box = { left, right: left + width, top: y - tall, bottom: y + tall };
      if (left < 0 || left > room || taken.some((b) => b.left < box.right && b.right > box.left && b.top < box.bottom && b.bottom > box.top)) continue;
      taken.push(box);
      Object.assign(pen, { globalAlpha: opacity, strokeStyle: this.ground, lineWidth: 3.5, fillStyle: color });
      pen.strokeText(text, left + 2, y);
      pen.fillText(text, left + 2, y);
      pen.globalAlpha = 1;
      return;
    }
  }

  /** @param {{x: number, y: number}} place */
  onScreen(place) {
    return { x: place.x * this.view.scale + this.view.x, y: place.y * this.view.scale + this.view.y };
  }

  // -- moving -------------------------------------------------------------------------------------

  /** After the size of the canvas or the colours of the page changed: what is not moved by hand follows. */
  follow() {
    this.whole = null;
    if (this.moved) this.draw();
    else this.fit();
  }

  /** All of it. */
  fit() {
    this.moved = false;
    if (!this.data.regions.length) return this.draw();
    const { left, right, top, bottom } = this.bounds(), { clientWidth: width, clientHeight: height } = this.canvas;
    const side = this.room(null).left, edge = Math.min(20, width / 20);
    this.view.scale = Math.max(0.01, Math.min(3, (width - side - 2 * edge) / (right - left), (height - 2 * edge) / (bottom - top)));
    this.view.x = side + (width - side) / 2 - ((left + right) / 2) * this.view.scale;
    this.view.y = height / 2 - ((top + bottom) / 2) * this.view.scale;
    this.draw();
  }

  /** Around a point of the canvas, or its middle. @param {number} factor @param {{x: number, y: number}} [at] */
  zoom(factor, { x, y } = { x: this.canvas.clientWidth / 2, y: this.canvas.clientHeight / 2 }) {
    this.moved = true;
    const view = this.view, scale = Math.min(12, Math.max(0.01, view.scale * factor));
    Object.assign(view, { x: x - ((x - view.x) * scale) / view.scale, y: y - ((y - view.y) * scale) / view.scale, scale });
    this.shift();
  }

  /** @param {number} x @param {number} y In pixels. */
  pan(x, y) {
    this.moved = true;
    this.view.x += x;
    this.view.y += y;
    this.shift();
  }

  /** @param {Entity} entity */
  moveTo(entity) {
    this.moved = true;
    const { canvas, view } = this, owner = entity.owner, room = this.room(entity);
    const left = room.left, right = canvas.clientWidth - room.right, height = canvas.clientHeight;
    view.scale = Math.min(3, Math.max(view.scale, Math.min(right - left, height) / (2 * owner.r + 120)));
    view.x = (left + right) / 2 - owner.x * view.scale;
    view.y = height / 2 - owner.y * view.scale;
    this.draw();
  }

  listen() {
    const { canvas } = this, fingers = new Map();
    let travelled = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, this.at(event));
      travelled = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId), now = this.at(event);
      if (!before) return this.hoverOn(this.under(now), event);
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
      travelled += Math.hypot(now.x - before.x, now.y - before.y);
      if (other) {
        const away = (/** @type {{x: number, y: number}} */ at) => Math.hypot(at.x - other.x, at.y - other.y);
        this.zoom(away(now) / (away(before) || 1), other);
      } else if (travelled > 3) {
        canvas.classList.add("moving");
        this.hovered = null;
        this.onHover(null, event);
        this.pan(now.x - before.x, now.y - before.y);
      }
      fingers.set(event.pointerId, now);
    });
    for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) {
      canvas.addEventListener(name, (event) => {
        fingers.delete(event.pointerId);
        canvas.classList.remove("moving");
        if (name === "pointerup" && travelled <= 3) this.onSelect(this.under(this.at(event)));
      });
    }
    canvas.addEventListener("pointerleave", (event) => this.hoverOn(null, event));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), this.at(event));
    }, { passive: false });
  }

  /** Where on the canvas. @param {MouseEvent} event */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** What is at a point of the canvas. @param {{x: number, y: number}} point @returns {Entity | null} */
  under({ x, y }) {
    const view = this.view, at = { x: (x - view.x) / view.scale, y: (y - view.y) / view.scale }, slack = 4 / view.scale;
    let nearest = null, least = Infinity;
    for (const agent of /** @type {Entity[]} */ (this.data.agents)) {
      if (Math.hypot(agent.x - at.x, agent.y - at.y) > agent.r + 6 + slack) continue;
      for (const entity of [agent, ...agent.tools]) {
        const away = Math.hypot(entity.x - at.x, entity.y - at.y) - (entity.is_agent ? this.data.agent_radius : TOOL_RADIUS);
        if (away <= slack && away < least) [nearest, least] = [entity, away];
      }
    }
    return nearest;
  }

  /** @param {Entity | null} found @param {PointerEvent} event */
  hoverOn(found, event) {
    this.canvas.classList.toggle("over", Boolean(found));
    if (found !== this.hovered) {
      this.hovered = found;
      this.ask("shift");
    }
    this.onHover(found, event);
  }
}

/** @param {{x: number, y: number}} circle @param {number} reach @param {any} box */
function within(circle, reach, box) {
  return circle.x + reach > box.left && circle.x - reach < box.right && circle.y + reach > box.top && circle.y - reach < box.bottom;
}
