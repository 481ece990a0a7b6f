// The same question by curl, in Python, on the command line, and as a host asks the gateway.
import { html } from "../vendor/preact.js";
import { Code } from "../parts.js";
import { ACTS, curl, quote } from "../shell.js";

/** @typedef {{body: any, agents: boolean}} Question */

/** @param {Question} question */
export function Elsewhere(question) {
  const forms = /** @type {[string, string][]} */ ([
    ["curl", curl(question.agents ? "/v1/route" : "/v1/tools/search", question.body)],
    ["Python", inPython(question)],
    ["Command line", inShell(question)],
    ["MCP", inMcp(question)],
  ]);
  return html`<section aria-labelledby="elsewhere">
    <h2 id="elsewhere">The same question elsewhere</h2>
    ${forms.map(([name, text]) => html`<details key=${name} name="elsewhere"><summary>${name}</summary><${Code} text=${text} label=${name} /></details>`)}
  </section>`;
}

/** @param {Question} question */
export function inShell({ body, agents }) {
  const { filters, history } = body;
  const each = (/** @type {string} */ name, /** @type {string[]} */ values = []) => values.map((value) => ` --${name}=${quote(value)}`);
  const words = [
    ` --recipe ${quote(body.recipe)} --limit ${body.limit} --explain`,
    ...(body.strict ? [" --strict"] : []),
    ...each("tag", filters?.tags),
    ...each("kind", filters?.kinds),
    ...each("agent", filters?.agent_ids),
    ...each("within", filters?.within && [filters.within]),
    ...each("toolset", filters?.toolset && [filters.toolset]),
    ...(filters?.reachable ? [" --reachable"] : []),
    ...(history ? [" --history history.json"] : []),
    ...each("step", body.steps),
    ...(body.text ? [` -- ${quote(body.text)}`] : []),
  ];
  const before = history ? `printf '%s' ${quote(JSON.stringify(history))} > history.json\n` : "";
  return `${before}waygraph --registry ${quote(location.origin)} ${agents ? "route" : "find"}${words.join("")}`;
}

/** @param {Question} question */
export function inPython({ body, agents }) {
  const { filters, history } = body;
  const fields = [
    ...(body.text ? [`text=${literal(body.text)}`] : []),
    ...(body.steps ? [`steps=${tuple(body.steps)}`] : []),
    `limit=${body.limit}`,
    ...(body.strict ? ["strict=True"] : []),
    ...(filters ? [`filters=Filters(${Object.entries(filters).map(([name, value]) => `${name}=${literal(value)}`).join(", ")})`] : []),
    ...(history ? [`history=${tuple(history, (turn) => `Turn(${Object.entries(turn).map(([name, value]) => `${name}=${literal(value)}`).join(", ")})`)}`] : []),
  ];
  const names = ["Query", "Registry", ...(filters ? ["Filters"] : []), ...(history ? ["Turn"] : [])].sort();
  return [
    `from waygraph import ${names.join(", ")}`,
    "",
    `with Registry.open(${JSON.stringify(location.origin)}) as registry:`,
    `    query = Query(${fields.join(", ")})`,
    `    for match in registry.${agents ? "route" : "find_tools"}(query, recipe=${JSON.stringify(body.recipe)}).matches:`,
    `        print(match.${agents ? "agent" : "tool"}.id, match.score)`,
  ].join("\n");
}

/** @param {any[]} items @param {(item: any) => string} [write] */
function tuple(items, write = literal) {
  return `(${items.map(write).join(", ")}${items.length === 1 ? "," : ""})`;
}

/** @param {any} value @returns {string} */
function literal(value) {
  if (Array.isArray(value)) return tuple(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value).replace(ACTS, (each) => `\\U${/** @type {number} */ (each.codePointAt(0)).toString(16).padStart(8, "0")}`);
}

/** @param {Question} question */
export function inMcp({ body, agents }) {
  const history = (body.history || []).flatMap((/** @type {any} */ turn) => {
    if (turn.role === "call") return [{ tool: turn.tool, outcome: turn.outcome }];
    return turn.role === "user" ? [{ said: turn.text }] : [];
  });
  const asked = {
    query: body.text || "",
    ...(body.steps && { steps: body.steps }),
    limit: Math.min(body.limit, agents ? 20 : 50),
    ...(history.length && { history }),
  };
  const params = { name: agents ? "route_agents" : "find_tools", arguments: asked };
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, null, 2);
}
