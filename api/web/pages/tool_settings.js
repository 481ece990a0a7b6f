// What operators set of a tool: other words for hosts and models, and parameters that are fixed or not shown.
import { html, useState } from "../vendor/preact.js";
import { pathOf, request } from "../http.js";
import { Act, notify, Words } from "../parts.js";

/** @param {{tool: any, again: () => void}} props */
export function ToolSettings({ tool, again }) {
  const setting = tool.source_form?.setting || { name: "", description: "", parameters: {} };
  const [name, setName] = useState(setting.name);
  const [description, setDescription] = useState(setting.description);
  const properties = (tool.source_form?.input_schema || tool.input_schema).properties || {};
  /** @param {Record<string, unknown>} body */
  const set = async (body) => {
    await request(`/v1/tools/${pathOf(tool.id)}`, { method: "PATCH", body });
    notify("It is set.");
    again();
  };
  const typed = (/** @type {(text: string) => void} */ take) => (/** @type {any} */ event) => take(event.target.value);
  return html`<details class="card"><summary><h2 class="inline">Settings of operators</h2></summary>
    <p class="quiet">They lie over what the source states, and stay whatever it states next. A field left empty is as the source has it.</p>
    <label>Name for hosts <input value=${name} onInput=${typed(setName)} /></label>
    <label>Description <textarea rows="3" value=${description} onInput=${typed(setDescription)}></textarea></label>
    <${Act} act=${() => set({ name: name.trim() || null, description: description.trim() || null })} disabled=${name === setting.name && description === setting.description}>Save<//>
    ${Object.keys(properties).length > 0 && html`<h3>Parameters</h3>`}
    ${Object.keys(properties).map((each) => html`<${Parameter} key=${each} name=${each} setting=${setting.parameters[each] || {}} save=${(/** @type {any} */ change) => set({ parameters: { [each]: change } })} />`)}
  </details>`;
}

/** @param {{name: string, setting: any, save: (change: any) => Promise<void>}} props */
function Parameter({ name, setting, save }) {
  const [shownAs, setShownAs] = useState(setting.name || "");
  const [words, setWords] = useState(setting.description || "");
  const [pin, setPin] = useState("pin" in setting ? JSON.stringify(setting.pin) : "");
  const [hidden, setHidden] = useState(Boolean(setting.hidden));
  const submit = () => save({ name: shownAs.trim() || null, description: words.trim() || null, hidden: hidden || null, pin: pin.trim() ? JSON.parse(pin) : null });
  return html`<details><summary><${Words} text=${name} max=${100} />${Object.keys(setting).length > 0 && " (changed)"}</summary>
    <label>Shown as <input value=${shownAs} onInput=${(/** @type {any} */ event) => setShownAs(event.target.value)} /></label>
    <label>Described <input class="wide" value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label>
    <label>Always this value, as JSON <input value=${pin} onInput=${(/** @type {any} */ event) => setPin(event.target.value)} /></label>
    <label class="beside"><input type="checkbox" checked=${hidden} onChange=${(/** @type {any} */ event) => setHidden(event.target.checked)} /> Not shown</label>
    <${Act} act=${submit}>Save<//>
  </details>`;
}
