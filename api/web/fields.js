// The one part that draws forms: a page says what each field is for, and what becomes of its value.
import { html, useId, useState } from "./vendor/preact.js";
import { attempt } from "./parts.js";

/** @typedef {string | [value: string, name?: any, more?: Record<string, unknown>]} Option A value, what is read of it, and more for its element. */
/**
 * `as`: "area", "choice", "check", "some" (of the options), or a kind of input. `set` gets each value as it is typed;
 * `late`: once it is left. `known`: values that are suggested, with a text each. `element`: a reference to it. All else is the element's own.
 * @typedef {{as?: string, value?: any, set?: (value: any) => void, late?: boolean, options?: Option[], known?: [string, string?][], [name: string]: any}} Control
 * @typedef {Control & {label: any, name?: string, beside?: boolean, note?: string}} Field
 */

/** One control, without a label. @param {Control} props */
export function Input({ as = "text", value, set, late, options = [], known, element, ...more }) {
  const id = useId();
  const take = (/** @type {any} */ event) => set?.(as === "check" ? event.target.checked : as === "file" ? [...event.target.files] : event.target.value);
  const own = { [late || ["check", "choice", "file"].includes(as) ? "onChange" : "onInput"]: take, ref: element, ...more };
  if (as === "check") return html`<input type="checkbox" checked=${value} ...${own} />`;
  if (as === "file") return html`<input type="file" ...${own} />`;
  if (as === "area") return html`<textarea rows="3" value=${value} ...${own}></textarea>`;
  if (as === "choice") return html`<select value=${value} ...${own}>${options.map((each) => [each].flat()).map(([key, name = key]) => html`<option key=${key} value=${key} selected=${key === value}>${name}</option>`)}</select>`;
  return html`<input type=${as} value=${value} list=${known && id} ...${own} />${known && html`<datalist id=${id}>${known.map(([key, text]) => html`<option key=${key} value=${key}>${text}</option>`)}</datalist>`}`;
}

/** A control with its label, or a set of boxes to check with its legend. @param {Field} props */
export function Field({ label, beside, note, ...control }) {
  if (control.as === "some") return html`<${Some} label=${label} ...${control} />`;
  const drawn = html`<${Input} ...${control} />`, isCheck = control.as === "check";
  const named = html`<label class=${isCheck || beside ? "beside" : undefined}>${isCheck ? html`${drawn} ${label}` : html`${label} ${drawn}`}</label>`;
  return note ? html`<div>${named} <span class="quiet">${note}</span></div>` : named;
}

/** @param {{label: any, value?: string[], set?: (value: string[]) => void, options?: Option[]}} props `value`: those that are checked. */
function Some({ label, value = [], set, options = [] }) {
  const all = options.map((each) => /** @type {any[]} */ ([each].flat())), keys = all.map(([key]) => key);
  const turn = (/** @type {string} */ key) => set?.(keys.filter((each) => value.includes(each) !== (each === key)));
  return html`<fieldset><legend>${label}</legend>${all.map(([key, name = key, more]) => html`<${Field} as="check" key=${key} label=${name} value=${value.includes(key)} set=${() => turn(key)} ...${more} />`)}</fieldset>`;
}

/**
 * Fields in a form. `act` gets what stands in them, by name, once a person sends them; `isEdit`: only if some of it is
 * another. A field with a `set` of its own tells its page at once. `fields` may depend on what stands in them.
 * @param {{fields: Field[] | ((values: Record<string, any>) => Field[]), act?: (values: Record<string, any>) => Promise<unknown>, button?: string, danger?: boolean, isEdit?: boolean, class?: string, children?: any, [name: string]: any}} props
 */
export function Form({ fields, act, button = "Save", danger, isEdit, children, ...more }) {
  const [typed, setTyped] = useState(/** @type {Record<string, any>} */ ({})), [busy, setBusy] = useState(false);
  const all = typeof fields === "function" ? fields(typed) : fields;
  const values = Object.fromEntries(all.map(({ name = "", value = "" }) => [name, name in typed ? typed[name] : value]));
  const isSame = isEdit && all.every(({ name = "", value = "" }) => values[name] === value);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (act) attempt(() => act(values), setBusy);
  };
  return html`<form onSubmit=${submit} ...${more}>
    ${all.map(({ name = "", ...field }) => html`<${Field} key=${name || field.label} ...${field} ...${field.set ? {} : { value: values[name], set: (/** @type {any} */ value) => setTyped((before) => ({ ...before, [name]: value })) }} />`)}
    ${act && html`<button class=${danger ? "danger" : "main"} disabled=${busy || isSame} aria-busy=${busy}>${button}</button>`}${children}</form>`;
}

/** The names in a text, with commas or lines between. @param {string | null} text */
export function namesIn(text) {
  return (text || "").split(/[,\n]/).map((each) => each.trim()).filter(Boolean);
}
