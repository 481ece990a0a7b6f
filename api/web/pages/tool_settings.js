// What operators set of a tool: other words for hosts and models, and parameters that are fixed or not shown.
import { html } from "../vendor/preact.js";
import { Form } from "../fields.js";
import { pathOf, request } from "../http.js";
import { notify, Words } from "../parts.js";

/** @param {{tool: any, again: () => void}} props */
export function ToolSettings({ tool, again }) {
  const setting = tool.source_form?.setting || { name: "", description: "", parameters: {} };
  const properties = Object.keys((tool.source_form?.input_schema || tool.input_schema).properties || {});
  /** @param {Record<string, unknown>} body */
  const set = async (body) => {
    await request(`/v1/tools/${pathOf(tool.id)}`, { method: "PATCH", body });
    notify("It is set.");
    again();
  };
  return html`<details class="card"><summary><h2 class="inline">Settings of operators</h2></summary>
    <p class="quiet">They lie over what the source states, and stay whatever it states next. A field left empty is as the source has it.</p>
    <${Form} isEdit act=${(/** @type {any} */ { name, description }) => set({ name: name.trim() || null, description: description.trim() || null })}
      fields=${[{ name: "name", label: "Name for hosts", value: setting.name }, { name: "description", label: "Description", as: "area", value: setting.description }]} />
    ${properties.length > 0 && html`<h3>Parameters</h3>`}
    ${properties.map((each) => html`<${Parameter} key=${each} name=${each} setting=${setting.parameters[each] || {}} save=${(/** @type {any} */ change) => set({ parameters: { [each]: change } })} />`)}
  </details>`;
}

/** @param {{name: string, setting: any, save: (change: any) => Promise<void>}} props */
function Parameter({ name, setting, save }) {
  const submit = (/** @type {any} */ { shown, words, pin, hidden }) => save({ name: shown.trim() || null, description: words.trim() || null, hidden: hidden || null, pin: pin.trim() ? JSON.parse(pin) : null });
  return html`<details><summary><${Words} text=${name} max=${100} />${Object.keys(setting).length > 0 && " (changed)"}</summary>
    <${Form} isEdit act=${submit} fields=${[
      { name: "shown", label: "Shown as", value: setting.name || "" },
      { name: "words", label: "Described", class: "wide", value: setting.description || "" },
      { name: "pin", label: "Always this value, as JSON", value: "pin" in setting ? JSON.stringify(setting.pin) : "" },
      { name: "hidden", label: "Not shown", as: "check", value: Boolean(setting.hidden) },
    ]} />
  </details>`;
}
