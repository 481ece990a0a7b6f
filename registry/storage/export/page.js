// The exported map: reads the page's data, finds and shows agents and tools. drawing.js stands before it in one module.
// Texts come from strangers: they are only ever set as textContent or drawn on the canvas.

const data = JSON.parse(document.getElementById("data").textContent);
const { sources } = data, { agents, tools, by_id: entityById } = tieMap(data);
const part = (id) => document.getElementById(id);
const entities = [...agents, ...tools];
for (const entity of entities) {
  entity.words = [entity.id, entity.name, entity.description, ...entity.tags].join("\n").toLowerCase();
  entity.title = entity.name.toLowerCase();
}

const isWide = () => part("map").clientWidth > 900;
const drawing = new MapDrawing(part("map"), data, {
  onSelect: (entity) => select(entity),
  onHover: hover,
  room: (entity) => ({ left: isWide() ? 320 : 0, right: isWide() && entity ? 420 : 0 }),  // the cards at the sides
});

function hover(found, event) {
  const tip = part("tip");
  tip.hidden = !found;
  part("hint").hidden = drawing.moved;
  if (!found) return;
  tip.replaceChildren(make("b", found.name), make("span", brief(found)));
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
}

function brief(entity) {
  const what = entity.is_agent ? plural(entity.tools.length, "tool") : entity.owner.name;
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
    const claimed = source.agents.map((id) => entityById.get(id)).filter(Boolean);
    drawing.show({ lit: new Set(claimed.flatMap((agent) => [agent, ...agent.tools])) });
    drawing.fit();
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
  results.hidden = !hits;
  if (hits) {
    const rows = hits.slice(0, SHOWN).map((entity) => {
      const line = make("li");
      line.append(row(entity, entity.is_agent ? plural(entity.tools.length, "tool") : entity.owner.name));
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
addEventListener("resize", () => (drawing.moved ? (drawing.selected ? drawing.moveTo(drawing.selected) : drawing.draw()) : drawing.fit()));
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

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawing.recolor());

function openLinked() {
  let id = "";
  try { id = decodeURIComponent(location.hash.slice(1)); } catch { /* not one of ours */ }
  if (entityById.has(id)) select(entityById.get(id), { move: true });
}
addEventListener("hashchange", openLinked);

part("counts").title = `revision ${data.revision}`;
part("counts").textContent = `${plural(agents.length, "agent")}, ${plural(tools.length, "tool")}`;
drawing.fit();
openLinked();
