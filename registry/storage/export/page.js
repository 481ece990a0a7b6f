// The exported map: reads the page's data, finds and shows agents and tools. drawing.js stands before it in one module.
// Texts come from strangers: they are only ever set as textContent or drawn on the canvas.

const data = JSON.parse(document.getElementById("data").textContent);
const { sources } = data, { agents, tools, by_id: entityById } = tieMap(data);
const part = (id) => document.getElementById(id);

const isWide = () => part("map").clientWidth > 900;
const drawing = new MapDrawing(part("map"), data, {
  onSelect: (entity) => select(entity),
  onHover: hover,
  room: (entity) => ({ left: isWide() ? 320 : 0, right: isWide() && entity ? 420 : 0 }),  // the cards at the sides
});

function hover(found, event) {
  const tip = part("tip");
  tip.hidden = !found;
  if (!found) return;
  const what = found.is_agent ? plural(found.tools.length, "tool") : found.owner.name;
  tip.replaceChildren(make("b", found.name), make("span", [what, found.description.slice(0, 300)].filter(Boolean).join(" — ")));
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
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
  drawing.show({ selected: entity, lit: entity ? new Set([entity.owner, ...entity.owner.tools]) : found });
  part("details").hidden = !entity;
  if (entity) {
    part("about").replaceChildren(...(entity.is_agent ? aboutAgent(entity) : aboutTool(entity)));
    part("details").scrollTop = 0;
    if (move) drawing.moveTo(entity);
  }
  history.replaceState(null, "", entity ? "#" + encodeURIComponent(entity.id) : location.pathname + location.search);
}

const KINDS = { mcp_server: "MCP server", a2a_agent: "A2A agent", skill: "Skill", openapi: "OpenAPI service", custom: "Agent" };

function aboutAgent(agent) {
  const named = [KINDS[agent.kind] || agent.kind, agent.id, agent.version && "version " + agent.version];
  const state = [agent.is_pinned && "pinned", agent.is_hidden && "hidden", ...agent.visible_to.map((group) => "seen by " + group)];
  const claimed = sources.filter((source) => source.agents.includes(agent.id));
  return [
    make("h2", agent.name),
    make("div", named.filter(Boolean).join(" · "), "kind"),
    make("p", agent.description || "No description."),
    ...chips([...state.filter(Boolean), ...agent.tags]),
    make("h3", plural(agent.tools.length, "tool")),
    ...agent.tools.map((tool) => entityRow(tool, tool.description)),
    ...(agent.transport ? [make("h3", "How it is reached"), make("pre", pretty(agent.transport))] : []),
    make("h3", "Claimed by"),
    ...claimed.map((source) => sourceRow(source)),
  ];
}

function aboutTool(tool) {
  const kind = make("div", "Tool of ", "kind");
  kind.append(button(tool.owner.name, "owner", () => select(tool.owner)));
  return [
    make("h2", tool.name),
    kind,
    make("p", tool.description || "No description."),
    ...chips([...hints(tool), ...tool.tags]),
    make("h3", "Takes"),
    ...schema(tool.input_schema, "Nothing."),
    ...(tool.output_schema ? [make("h3", "Gives"), ...schema(tool.output_schema, "Nothing it describes.")] : []),
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
  const whole = parsed(text);
  return whole && Object.keys(whole.properties || whole).length ? [make("pre", pretty(text))] : [make("p", none)];
}

function parsed(text) {
  try { return text ? JSON.parse(text) : null; } catch { return null; }
}

function pretty(text) {
  const value = parsed(text);
  return value === null ? text : JSON.stringify(value, null, 2);
}

function button(text, name, act) {
  const element = make("button", text, name);
  element.type = "button";
  element.addEventListener("click", act);
  return element;
}

function row(text, under, act) {
  const line = button(text, "row", act);
  if (under) line.append(make("span", under.slice(0, 200), "under"));
  return line;
}

function entityRow(entity, under) {
  return row(entity.name, under, () => select(entity, { move: true }));
}

function sourceRow(source) {
  return row(source.name, `${plural(source.agents.length, "agent")}, seen ${source.seen}`, () => {
    const claimed = source.agents.map((id) => entityById.get(id)).filter(Boolean);
    drawing.show({ lit: new Set(claimed.flatMap((agent) => [agent, ...agent.tools])) });
    drawing.fit();
  });
}

/** A switch for each kind of edges that there is. */
function legend() {
  const kinds = Object.keys(EDGES).filter((kind) => data.edges.some((link) => link.kind === kind));
  part("legend").replaceChildren(...kinds.map((kind) => {
    const label = make("label"), box = make("input"), key = make("span", undefined, "key");
    Object.assign(box, { type: "checkbox", checked: true });
    box.addEventListener("change", () => drawing.show({ hidden: box.checked ? drawing.hidden.filter((each) => each !== kind) : [...drawing.hidden, kind] }));
    key.style.background = EDGES[kind].color;
    label.append(box, key, ` ${kind} (${data.edges.filter((link) => link.kind === kind).length})`);
    return label;
  }));
}

// -- finding --------------------------------------------------------------------------------------

const SHOWN = 40;
let found = null;

function search() {
  const hits = findEntities([...agents, ...tools], part("search").value), results = part("results");
  found = hits && new Set(hits);
  results.hidden = !hits;
  if (hits) {
    const rows = hits.slice(0, SHOWN).map((entity) => {
      const line = make("li");
      line.append(entityRow(entity, entity.is_agent ? plural(entity.tools.length, "tool") : entity.owner.name));
      return line;
    });
    if (!hits.length) rows.push(make("li", "Nothing bears these words.", "none"));
    if (hits.length > SHOWN) rows.push(make("li", `and ${hits.length - SHOWN} more, all marked on the map`, "more"));
    results.replaceChildren(...rows);
  }
  drawing.show({ lit: found });
}

part("search").addEventListener("input", search);
part("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") part("results").querySelector("button")?.click();
});
part("close").addEventListener("click", () => select(null));
part("in").addEventListener("click", () => drawing.zoom(1.4));
part("out").addEventListener("click", () => drawing.zoom(1 / 1.4));
part("fit").addEventListener("click", () => drawing.fit());
addEventListener("resize", () => drawing.follow());
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

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawing.follow());

function openLinked() {
  let id = "";
  try { id = decodeURIComponent(location.hash.slice(1)); } catch { /* not one of ours */ }
  if (entityById.has(id)) select(entityById.get(id), { move: true });
}
addEventListener("hashchange", openLinked);

part("counts").title = `revision ${data.revision}`;
part("counts").textContent = `${plural(agents.length, "agent")}, ${plural(tools.length, "tool")}`;
legend();
drawing.fit();
openLinked();
