// What operators set of an agent. It survives every sync.
import { html, useState } from "../vendor/preact.js";
import { Form, namesIn } from "../fields.js";
import { request } from "../http.js";
import { Act, notify, Removal } from "../parts.js";
import { go, HOME } from "../place.js";

/** @param {{agent: any, settings: any, again: () => void}} props */
export function AgentSettings({ agent, settings, again }) {
  const [asks, setAsks] = useState(false);
  const path = `/v1/agents/${encodeURIComponent(agent.id)}`;
  /** @param {Record<string, unknown>} body @param {string} done */
  const set = async (body, done) => {
    await request(path, { method: "PATCH", body });
    notify(done);
    again();
  };
  return html`<details class="card"><summary><h2 class="inline">Settings of operators</h2></summary>
    <p class="quiet">They lie beside what the source states, and stay whatever it states next.</p>
    <p class="row">
      <${Act} act=${() => set({ pinned: !agent.pinned }, agent.pinned ? "It is pinned no more." : "It is pinned: it stands in every answer.")}>${agent.pinned ? "Unpin" : "Pin"}<//>
      <${Act} act=${() => set({ hidden: !agent.hidden }, agent.hidden ? "It is shown again." : "It is hidden: no answer has it.")}>${agent.hidden ? "Show" : "Hide"}<//>
      <button class="danger" onClick=${() => setAsks(true)}>Remove …</button>
    </p>
    <${Form} class="row" isEdit fields=${[{ name: "tags", label: "Tags beside the source's own, with commas between", value: (settings?.tags || []).join(", ") }]}
      act=${(/** @type {any} */ { tags }) => set({ tags: namesIn(tags) }, "The tags are set.")} />
    <${Form} class="row" isEdit fields=${[{ name: "groups", label: "Only these groups may see it, with commas between; none: as the source says", value: (settings?.visible_to || []).join(", ") }]}
      act=${(/** @type {any} */ { groups }) => set({ visible_to: groups.trim() ? namesIn(groups) : null }, "Who may see it is set.")} />
    ${asks && html`<${Removal} title="Remove this agent?" path=${path} done=${() => `${agent.id} is removed.`} onClose=${() => setAsks(false)} onDone=${() => go(`${HOME}/agents`)}>
      <p>${agent.id} and its tools go, and stay away whatever its source states.</p><//>`}
  </details>`;
}
