"use strict";
// The map: reads the page's data, draws it on a canvas, finds and shows agents and tools.
// Texts come from strangers: they are only ever set as textContent or drawn on the canvas.

const data = JSON.parse(document.getElementById("data").textContent);
const { agents, tools, regions, sources } = data;
const part = (id) => document.getElementById(id);
const canvas = part("map"), pen = canvas.getContext("2d");

// -- the entities ---------------------------------------------------------------------------------

const agentById = new Map(), entityById = new Map();
for (const agent of agents) {
  agent.isAgent = true;
  agent.owner = agent;
  agent.tools = [];
  agent.color = hue(agent.region);
  agentById.set(agent.id, agent);
  entityById.set(agent.id, agent);
}
for (const tool of tools) {
  tool.owner = agents[tool.agent];
  tool.owner.tools.push(tool);
  entityById.set(tool.id, tool);
}
const entities = [...agents, ...tools];
for (const entity of entities) {
  entity.words = [entity.id, entity.name, entity.description, ...entity.tags].join("\n").toLowerCase();
  entity.title = entity.name.toLowerCase();
}

function hue(region) {
  return Math.round((255 + region * 137.508) % 360);
}

// -- what is shown --------------------------------------------------------------------------------

const view = { x: 0, y: 0, scale: 1 };       // screen = world * scale + (x, y)
let selected = null, hovered = null;
let lit = null;                              // a Set of entities; null: all
let dark = false, due = false;

function draw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; paint(); });
}

function paint() {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.translate(view.x, view.y);
  pen.scale(view.scale, view.scale);
  const box = { left: -view.x / view.scale, top: -view.y / view.scale };
  box.right = box.left + width / view.scale;
  box.bottom = box.top + height / view.scale;
  const seen = agents.filter((a) => within(a, a.r, box));
  paintRegions(box);
  for (const agent of seen) paintSpokes(agent);
  for (const agent of seen) paintTools(agent);
  for (const agent of seen) paintAgent(agent);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintLabels(seen, width, height);
}

function within(circle, reach, box) {
  return circle.x + reach > box.left && circle.x - reach < box.right && circle.y + reach > box.top && circle.y - reach < box.bottom;
}

function paintRegions(box) {
  regions.forEach((region, number) => {
    if (!within(region, region.r + 14, box)) return;
    pen.fillStyle = tint(hue(number), dark ? 0.10 : 0.13);
    pen.beginPath();
    pen.arc(region.x, region.y, region.r + 14, 0, 7);
    pen.fill();
  });
}

function paintSpokes(agent) {
  if (view.scale < 0.25) return;
  pen.strokeStyle = tint(agent.color, isLit(agent) || agent.tools.some(isLit) ? 0.35 : 0.08);
  pen.lineWidth = 0.8;
  pen.beginPath();
  for (const tool of agent.tools) {
    pen.moveTo(agent.x, agent.y);
    pen.lineTo(tool.x, tool.y);
  }
  pen.stroke();
}

function paintTools(agent) {
  for (const bright of [false, true]) {
    pen.fillStyle = mix(agent.color, bright ? 0.75 : 0.16);
    pen.beginPath();
    for (const tool of agent.tools) {
      if (isLit(tool) !== bright) continue;
      pen.moveTo(tool.x + 3.6, tool.y);
      pen.arc(tool.x, tool.y, 3.6, 0, 7);
    }
    pen.fill();
  }
  for (const tool of [selected, hovered]) {
    if (tool && !tool.isAgent && tool.owner === agent) ring(tool, 6.2);
  }
}

function paintAgent(agent) {
  pen.fillStyle = mix(agent.color, isLit(agent) || agent.tools.some(isLit) ? 1 : 0.25);
  pen.beginPath();
  pen.arc(agent.x, agent.y, data.agentRadius, 0, 7);
  pen.fill();
  if (agent.hidden) {                         // hollow: known, but no route names it
    pen.fillStyle = css("--ground");
    pen.beginPath();
    pen.arc(agent.x, agent.y, data.agentRadius * 0.55, 0, 7);
    pen.fill();
  }
  if (agent.pinned) ring(agent, data.agentRadius + 3.5);
  if (agent === selected || agent === hovered) ring(agent, data.agentRadius + 3);
}

function ring(place, radius) {
  pen.strokeStyle = css("--ink");
  pen.lineWidth = 2.2 / Math.max(1, view.scale);
  pen.beginPath();
  pen.arc(place.x, place.y, radius, 0, 7);
  pen.stroke();
}

function isLit(entity) {
  return lit === null || lit.has(entity);
}

function tint(color, opacity) {
  return `oklch(${dark ? 0.7 : 0.62} 0.13 ${color} / ${opacity})`;
}

function mix(color, strength) {
  return `color-mix(in oklab, oklch(${dark ? 0.74 : 0.58} 0.14 ${color}) ${strength * 100}%, ${css("--ground")})`;
}

const colors = new Map();
function css(name) {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
}

// -- labels: what matters most first, and none over another ---------------------------------------

function paintLabels(seen, width, height) {
  const taken = [];
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  const near = seen.filter((agent) => within(onScreen(agent), 40, { left: 0, top: 0, right: width, bottom: height }));
  const bright = (agent) => isLit(agent) || agent.tools.some(isLit);
  const first = (agent) => (agent === selected || selected?.owner === agent ? 2 : 0) + (lit && bright(agent) ? 1 : 0);
  near.sort((one, other) => first(other) - first(one) || other.r - one.r || (one.id < other.id ? -1 : 1));
  if (view.scale < 1.1) for (const [number, region] of regions.entries()) labelRegion(region, number, taken);
  if (view.scale > 0.3) {
    for (const agent of near) {
      const at = onScreen(agent);
      const size = Math.min(15, Math.max(10, 8 + 4 * view.scale));
      const below = agent.r * view.scale + size * (view.scale > 2 ? 2 : 0.6);
      label(cut(agent.name, view.scale < 1 ? 22 : 40), at.x, at.y + below, `${view.scale < 1 ? 500 : 600} ${size}px`, css("--ink"), bright(agent) ? 1 : 0.35, taken);
    }
  }
  if (view.scale > 2) for (const agent of near) for (const tool of agent.tools) labelTool(tool, taken);
  else if (selected && !selected.isAgent) labelTool(selected, taken);
  part("hint").hidden = moved;
}

function labelRegion(region, number, taken) {
  const top = onScreen({ x: region.x, y: region.y - region.r - 14 });
  if (region.r * view.scale < 24) return;
  const size = Math.min(22, Math.max(11.5, region.r * view.scale * 0.12));
  label(region.name, top.x, top.y - size * 0.45, `650 ${size}px`, `oklch(${dark ? 0.8 : 0.45} 0.1 ${hue(number)})`, 0.95, taken);
}

function labelTool(tool, taken) {
  // Away from the agent, so that the labels of a ring stand around it.
  const at = onScreen(tool), aside = (tool.x - tool.owner.x) / Math.hypot(tool.x - tool.owner.x, tool.y - tool.owner.y);
  const size = Math.min(13, 10 + view.scale * 0.5), off = (tool === selected ? 6.5 : 3.6) * view.scale + 4;
  const opacity = isLit(tool) ? 1 : 0.3, font = `${size}px`, color = css("--soft"), name = cut(tool.name, 30);
  if (Math.abs(aside) > 0.35) {
    label(name, at.x + Math.sign(aside) * off, at.y, font, color, opacity, taken, aside > 0 ? "left" : "right");
  } else {
    label(name, at.x, at.y + Math.sign(tool.y - tool.owner.y) * (off + size / 2), font, color, opacity, taken);
  }
}

function label(text, x, y, font, color, opacity, taken, align = "center") {
  pen.font = `${font} ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
  pen.textAlign = align;
  const width = pen.measureText(text).width + 4, tall = parseFloat(font.split(" ").pop()) / 2 + 2;
  const left = align === "left" ? x - 2 : align === "right" ? x + 2 - width : x - width / 2;
  const box = { left, right: left + width, top: y - tall, bottom: y + tall };
  if (taken.some((b) => b.left < box.right && b.right > box.left && b.top < box.bottom && b.bottom > box.top)) return;
  taken.push(box);
  pen.globalAlpha = opacity;
  pen.strokeStyle = css("--ground");
  pen.lineWidth = 3.5;
  pen.strokeText(text, x, y);
  pen.fillStyle = color;
  pen.fillText(text, x, y);
  pen.globalAlpha = 1;
}

function cut(text, length) {
  return text.length > length ? text.slice(0, length - 1) + "…" : text;
}

function onScreen(place) {
  return { x: place.x * view.scale + view.x, y: place.y * view.scale + view.y };
}

// -- moving ---------------------------------------------------------------------------------------

let moved = false;                           // by hand; until then the map follows the window

function fit() {
  moved = false;
  if (!regions.length) return draw();
  const left = Math.min(...regions.map((r) => r.x - r.r)), right = Math.max(...regions.map((r) => r.x + r.r));
  const top = Math.min(...regions.map((r) => r.y - r.r)), bottom = Math.max(...regions.map((r) => r.y + r.r));
  const width = canvas.clientWidth, height = canvas.clientHeight, edge = 40;
  const side = width > 900 ? 300 : 0;         // the finder's card
  view.scale = Math.min(3, (width - side - 2 * edge) / (right - left), (height - 2 * edge) / (bottom - top));
  view.x = side + (width - side) / 2 - ((left + right) / 2) * view.scale;
  view.y = height / 2 - ((top + bottom) / 2) * view.scale;
  draw();
}

function zoom(factor, x, y) {
  moved = true;
  const scale = Math.min(12, Math.max(0.03, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  draw();
}

function moveTo(entity) {
  moved = true;
  const owner = entity.owner, width = canvas.clientWidth, height = canvas.clientHeight;
  const left = width > 900 ? 320 : 0, right = width > 900 ? width - 420 : width;
  view.scale = Math.min(3, Math.max(view.scale, Math.min(right - left, height) / (2 * owner.r + 120)));
  view.x = (left + right) / 2 - owner.x * view.scale;
  view.y = height / 2 - owner.y * view.scale;
  draw();
}

const fingers = new Map();
let travelled = 0;

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  travelled = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return hover(event);
  const now = { x: event.clientX, y: event.clientY };
  const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
  travelled += Math.hypot(now.x - before.x, now.y - before.y);
  if (other) {
    zoom(Math.hypot(now.x - other.x, now.y - other.y) / Math.hypot(before.x - other.x, before.y - other.y), other.x, other.y);
  } else if (travelled > 3) {
    view.x += now.x - before.x;
    view.y += now.y - before.y;
    moved = true;
    canvas.classList.add("moving");
    part("tip").hidden = true;
    draw();
  }
  fingers.set(event.pointerId, now);
});
for (const name of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(name, (event) => {
    fingers.delete(event.pointerId);
    canvas.classList.remove("moving");
    if (name === "pointerup" && travelled <= 3) select(under(event.clientX, event.clientY));
  });
}
canvas.addEventListener("pointerleave", () => { hovered = null; part("tip").hidden = true; draw(); });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX, event.clientY);
}, { passive: false });

function under(x, y) {
  const at = { x: (x - view.x) / view.scale, y: (y - view.y) / view.scale }, slack = 4 / view.scale;
  let nearest = null, least = Infinity;
  for (const agent of agents) {
    if (Math.hypot(agent.x - at.x, agent.y - at.y) > agent.r + 6 + slack) continue;
    for (const entity of [agent, ...agent.tools]) {
      const away = Math.hypot(entity.x - at.x, entity.y - at.y) - (entity.isAgent ? data.agentRadius : 3.6);
      if (away <= slack && away < least) [nearest, least] = [entity, away];
    }
  }
  return nearest;
}

function hover(event) {
  const found = under(event.clientX, event.clientY), tip = part("tip");
  canvas.classList.toggle("over", Boolean(found));
  if (found !== hovered) {
    hovered = found;
    draw();
    tip.hidden = !found;
    if (found) tip.replaceChildren(make("b", found.name), make("span", brief(found)));
  }
  if (found) {
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
  }
}

function brief(entity) {
  const what = entity.isAgent ? plural(entity.tools.length, "tool") : entity.owner.name;
  return entity.description ? `${what} — ${entity.description.slice(0, 300)}` : what;
}

// -- details --------------------------------------------------------------------------------------

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function plural(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function select(entity, { move = false } = {}) {
  selected = entity;
  lit = entity ? new Set([entity.owner, ...entity.owner.tools]) : found;
  part("details").hidden = !entity;
  if (entity) {
    part("about").replaceChildren(...(entity.isAgent ? aboutAgent(entity) : aboutTool(entity)));
    part("details").scrollTop = 0;
    if (move) moveTo(entity);
  }
  history.replaceState(null, "", entity ? "#" + encodeURIComponent(entity.id) : location.pathname + location.search);
  draw();
}

const KINDS = { mcp_server: "MCP server", a2a_agent: "A2A agent", skill: "Skill", openapi: "OpenAPI service", custom: "Agent" };

function aboutAgent(agent) {
  const named = [KINDS[agent.kind] || agent.kind, agent.id, agent.version && "version " + agent.version];
  const state = [agent.pinned && "pinned", agent.hidden && "hidden", ...agent.visibleTo.map((group) => "seen by " + group)];
  const claimed = sources.filter((source) => source.agents.includes(agent.id));
  return [
    make("h2", agent.name),
    make("div", named.filter(Boolean).join(" · "), "kind"),
    make("p", agent.description || "No description."),
    ...chips([...state.filter(Boolean), ...agent.tags]),
    make("h3", plural(agent.tools.length, "tool")),
    ...agent.tools.map((tool) => row(tool, tool.description)),
    ...(agent.transport ? [make("h3", "How it is reached"), make("pre", pretty(agent.transport))] : []),
    make("h3", "Claimed by"),
    ...claimed.map((source) => sourceRow(source)),
  ];
}

function aboutTool(tool) {
  const kind = make("div", "Tool of ", "kind"), owner = make("button", tool.owner.name, "owner");
  owner.type = "button";
  owner.addEventListener("click", () => select(tool.owner));
  kind.append(owner);
  return [
    make("h2", tool.name),
    kind,
    make("p", tool.description || "No description."),
    ...chips([...hints(tool), ...tool.tags]),
    make("h3", "Takes"),
    ...schema(tool.input, "Nothing."),
    ...(tool.output ? [make("h3", "Gives"), ...schema(tool.output, "Nothing it describes.")] : []),
  ];
}

function chips(texts) {
  if (!texts.length) return [];
  const line = make("div", undefined, "chips");
  line.append(...texts.map((text) => make("span", text, "chip")));
  return [line];
}

function hints(tool) {
  const said = parsed(tool.annotations) || {};
  return Object.entries(said).filter(([, value]) => value === true).map(([name]) => name.replace(/Hint$/, ""));
}

function schema(text, none) {
  const whole = parsed(text), properties = whole && typeof whole.properties === "object" && whole.properties;
  const rows = Object.entries(properties || {});
  const full = make("details");
  full.append(make("summary", "JSON Schema"), make("pre", pretty(text)));
  if (!rows.length) return whole && Object.keys(whole).length > 1 ? [make("pre", pretty(text))] : [make("p", none)];
  const required = Array.isArray(whole.required) ? whole.required : [], table = make("table");
  for (const [name, property] of rows) {
    const line = make("tr"), said = make("td");
    said.append(make("div", kindOf(property) + (required.includes(name) ? ", required" : ""), "under"));
    if (property && typeof property.description === "string") said.append(make("div", property.description));
    line.append(make("td", name), said);
    table.append(line);
  }
  return [table, full];
}

function kindOf(property) {
  if (!property || typeof property !== "object") return "anything";
  if (Array.isArray(property.enum)) return cut(property.enum.map((value) => JSON.stringify(value)).join(" | "), 120);
  const type = Array.isArray(property.type) ? property.type.join(" | ") : property.type;
  if (type === "array" && property.items && typeof property.items.type === "string") return `array of ${property.items.type}`;
  return typeof type === "string" ? type : "anything";
}

function parsed(text) {
  try { return text ? JSON.parse(text) : null; } catch { return null; }
}

function pretty(text) {
  const value = parsed(text);
  return value === null ? text : JSON.stringify(value, null, 2);
}

function row(entity, under) {
  const button = make("button", entity.name, "row");
  button.type = "button";
  if (under) button.append(make("span", under.slice(0, 200), "under"));
  button.addEventListener("click", () => select(entity, { move: true }));
  return button;
}

function sourceRow(source) {
  const button = make("button", source.name, "row");
  button.type = "button";
  button.append(make("span", `${plural(source.agents.length, "agent")}, seen ${source.seen}`, "under"));
  button.addEventListener("click", () => {
    const claimed = source.agents.map((id) => agentById.get(id)).filter(Boolean);
    lit = new Set(claimed.flatMap((agent) => [agent, ...agent.tools]));
    fit();
  });
  return button;
}

// -- finding --------------------------------------------------------------------------------------

const SHOWN = 40;
let found = null;

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const whole = words.join(" ");
  const hits = entities.filter((entity) => words.every((word) => entity.words.includes(word)));
  const rank = (entity) =>
    entity.title === whole ? 0 : entity.title.startsWith(whole) ? 1 : words.every((word) => entity.title.includes(word)) ? 2 : 3;
  return hits.map((entity) => [rank(entity), entity]).sort(([one], [other]) => one - other).map(([, entity]) => entity);
}

function search() {
  const hits = find(part("search").value), results = part("results");
  found = hits && new Set(hits);
  lit = found;
  results.hidden = !hits;
  if (hits) {
    const rows = hits.slice(0, SHOWN).map((entity) => {
      const line = make("li");
      line.append(row(entity, entity.isAgent ? plural(entity.tools.length, "tool") : entity.owner.name));
      return line;
    });
    if (!hits.length) rows.push(make("li", "Nothing bears these words.", "none"));
    if (hits.length > SHOWN) rows.push(make("li", `and ${hits.length - SHOWN} more, all marked on the map`, "more"));
    results.replaceChildren(...rows);
  }
  draw();
}

part("search").addEventListener("input", search);
part("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") part("results").querySelector("button")?.click();
});
part("close").addEventListener("click", () => select(null));
part("in").addEventListener("click", () => zoom(1.4, canvas.clientWidth / 2, canvas.clientHeight / 2));
part("out").addEventListener("click", () => zoom(1 / 1.4, canvas.clientWidth / 2, canvas.clientHeight / 2));
part("fit").addEventListener("click", fit);
addEventListener("resize", () => (moved ? (selected ? moveTo(selected) : draw()) : fit()));
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== part("search")) {
    event.preventDefault();
    part("search").focus();
  } else if (event.key === "Escape") {
    part("search").value = "";
    search();
    select(null);
  }
});

const scheme = matchMedia("(prefers-color-scheme: dark)");
function recolor() { dark = scheme.matches; colors.clear(); draw(); }
scheme.addEventListener("change", recolor);

function openLinked() {
  let id = "";
  try { id = decodeURIComponent(location.hash.slice(1)); } catch { /* not one of ours */ }
  if (entityById.has(id)) select(entityById.get(id), { move: true });
}
addEventListener("hashchange", openLinked);

part("counts").title = `revision ${data.revision}`;
part("counts").textContent = `${plural(agents.length, "agent")}, ${plural(tools.length, "tool")}`;
recolor();
fit();
openLinked();
