// The same question by curl, and on the command line.
import { html } from "../vendor/preact.js";
import { Code } from "../parts.js";
import { curl, quote } from "../shell.js";

/** @typedef {{body: any, agents: boolean}} Question */

/** @param {Question} question */
export function Elsewhere(question) {
  const forms = /** @type {[string, string][]} */ ([
    ["curl", curl(question.agents ? "/v1/route" : "/v1/tools/search", question.body)],
    ["Command line", inShell(question)],
  ]);
  return html`<section aria-labelledby="elsewhere">
    <h2 id="elsewhere">The same question elsewhere</h2>
    ${forms.map(([name, text]) => html`<details key=${name} name="elsewhere"><summary>${name}</summary><${Code} text=${text} label=${name} /></details>`)}
  </section>`;
}

/** @param {Question} question */
function inShell({ body, agents }) {
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
