// The tools of all agents: a list that is searched while one types; `tool.js` shows one.
import { html } from "../vendor/preact.js";
import { Form } from "../fields.js";
import { may } from "../http.js";
import { Loaded, More, ToolTable, Twin, useParts } from "../parts.js";
import { ToolsThatFit, useSearch } from "./agents.js";
import Tool from "./tool.js";

/** @param {{path: string[], query: URLSearchParams}} props */
export default function Page({ path, query }) {
  const [, agent, ...name] = path;
  if (name.length) return html`<${Tool} key=${path.join("/")} id=${[agent, ...name].join("/")} query=${query} />`;
  const text = query.get("text") || "";
  return html`<div class="row between"><h1>Tools</h1><${Twin} path="/v1/tools" /></div>
    ${may("route") && html`<${Form} role="search" fields=${[useSearch(query, "What a tool is to do")]} />`}
    ${text ? html`<${ToolsThatFit} text=${text} limit=${50} />` : html`<${All} />`}`;
}

/** By their ids, in parts. */
function All() {
  const list = useParts("/v1/tools", "tools", {});
  return html`<${Loaded} state=${list}>
    ${() => html`<${ToolTable} tools=${list.items} caption="Tools" empty="There are no tools." /><${More} list=${list} />`}
  <//>`;
}
