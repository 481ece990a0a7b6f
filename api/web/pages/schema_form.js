// JSON Schema as a form. What a form cannot hold is a field of JSON text; what is left empty is not sent.
// A schema comes from a stranger: a short one may state fields without end, and any of its words may be anything.
import { html, useEffect, useState } from "../vendor/preact.js";
import { Input } from "../fields.js";
import { Fold, numbered, Words } from "../parts.js";

const MOST_FIELDS = 300;
const MOST_CHOICES = 100;
const LONG_CHARS = 200;
const LIMITS = {
  minimum: "at least",
  maximum: "at most",
  exclusiveMinimum: "above",
  exclusiveMaximum: "below",
  multipleOf: "in steps of",
  minLength: "characters, at least",
  maxLength: "characters, at most",
  format: "as",
  pattern: "like",
};

/** @typedef {Record<string, any>} Schema */
/**
 * `value`: undefined where there is none. A field whose text is none has `aria-invalid`.
 * @typedef {{schema: Schema, root: Schema, value: any, onChange: (value: any) => void, place: string, faults: Map<string, string>, budget: {left: number}}} Part
 * `budget`: how many fields may still be drawn in the whole form.
 */

/** The fields of a schema: at most MOST_FIELDS with all that is opened in it. @param {Omit<Part, "place" | "budget">} props */
export function SchemaFields(props) {
  const [budget] = useState(() => ({ left: MOST_FIELDS - Math.min(MOST_FIELDS, propertiesOf(props.schema).length) }));
  return html`<${Fields} ...${props} place="" budget=${budget} />`;
}

/** @param {Schema} schema @returns {[string, any][]} */
function propertiesOf(schema) {
  return Object.entries(isObject(schema.properties) ? schema.properties : {});
}

/** The fields of an object. @param {Part} props */
function Fields({ schema, root, value, onChange, place, faults, budget }) {
  const properties = propertiesOf(schema);
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (!properties.length) return html`<p class="quiet">It states no parameters.</p>`;
  /** @param {string} name @param {any} each */
  const set = (name, each) => {
    const { [name]: _, ...rest } = value || {};
    onChange(each === undefined ? rest : { ...value, [name]: each });
  };
  return html`${properties.slice(0, MOST_FIELDS).map(
    ([name, each]) => html`<${Field} key=${name} name=${name} required=${required.includes(name)} schema=${plain(each, root)} root=${root} budget=${budget}
      value=${own(value, name)} place=${`${place}/${name}`} faults=${faults} onChange=${(/** @type {any} */ now) => set(name, now)} />`,
  )}
  ${properties.length > MOST_FIELDS && html`<p class="quiet">${properties.length - MOST_FIELDS} more parameters: use the JSON.</p>`}`;
}

/** @param {Part & {name: string, required: boolean}} props */
function Field(props) {
  const { name, required, schema, place, faults } = props;
  const label = html`<${Words} text=${name} max=${100} />${required && html` <span class="needed">required</span>`}`;
  const note = html`<${Note} schema=${schema} id=${`note${place}`} fault=${faults.get(place)} />`;
  const Part = partOf(schema);
  if (Part === Inner) return html`<fieldset aria-describedby=${`note${place}`}><legend>${label}</legend>${note}<${Part} ...${props} /></fieldset>`;
  return html`<div class="field"><label for=${place}>${label}</label>${note}<${Part} ...${props} /></div>`;
}

/** @param {{schema: Schema, id: string, fault?: string}} props */
function Note({ schema, id, fault }) {
  return html`<div class="quiet note" id=${id}><${Words} text=${bounds(schema)} max=${300} />
    ${typeof schema.description === "string" && html` <${Words} text=${schema.description} max=${400} />`}
    ${fault && html`<div class="problem" role="alert"><${Words} text=${fault} max=${400} /></div>`}</div>`;
}

/** What a schema says of its values, in a few words. @param {Schema} schema */
function bounds(schema) {
  const said = [[schema.type].flat().filter(Boolean).map(textOf).join(" or ") || (schema.enum ? "one of these" : "any JSON")];
  for (const [name, words] of Object.entries(LIMITS)) if (schema[name] !== undefined) said.push(`${words} ${textOf(schema[name])}`);
  for (const [words, values] of [["each one of", schema.items?.enum], ["one of", choicesOf(schema) ? null : schema.enum]]) {
    if (Array.isArray(values)) said.push(`${words} ${values.slice(0, MOST_CHOICES).map(textOf).join(", ")}`);
  }
  if (schema.default !== undefined) said.push(`else ${JSON.stringify(schema.default)}`);
  return `${said.join(", ")}.`;
}

/** @param {any} value */
function textOf(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What is chosen from, if that is not too much. @param {Schema} schema @returns {any[] | null} */
function choicesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.length <= MOST_CHOICES ? schema.enum : null;
  if ("const" in schema) return [schema.const];
  return schema.type === "boolean" ? [true, false] : null;
}

/** @param {Schema} schema @returns {(props: any) => any} */
function partOf(schema) {
  if (choicesOf(schema)) return Chosen;
  if (schema.type === "integer" || schema.type === "number") return Numeric;
  if (schema.type === "string") return Text;
  if (schema.type === "array" && isSimple(schema.items)) return Lines;
  if (schema.type === "object" && propertiesOf(schema).length) return Inner;
  return AnyJson;
}

/** @param {Part & {required: boolean}} props */
function Chosen({ schema, value, onChange, place, required }) {
  const values = choicesOf(schema) || [];
  const at = values.findIndex((/** @type {any} */ each) => JSON.stringify(each) === JSON.stringify(value));
  const options = values.map((/** @type {any} */ each, /** @type {number} */ number) => [String(number), numbered(textOf(each).slice(0, LONG_CHARS))]);
  return html`<${Input} as="choice" id=${place} required=${required} aria-describedby=${`note${place}`} options=${[["", "not set"], ...options]} value=${at < 0 ? "" : String(at)} set=${(/** @type {string} */ number) => onChange(number === "" ? undefined : values[Number(number)])} />`;
}

/** @param {Part & {required: boolean}} props */
function Text({ schema, value, onChange, place, required }) {
  const type = own({ date: "date", email: "email", uri: "url" }, textOf(schema.format)) || "text";
  const text = textOf(value ?? "");
  const isLong = (typeof schema.maxLength === "number" && schema.maxLength > LONG_CHARS) || text.includes("\n");
  return html`<${Input} as=${isLong ? "area" : type} class="wide" id=${place} required=${required} aria-describedby=${`note${place}`} value=${text} set=${(/** @type {string} */ now) => onChange(now || undefined)} />`;
}

/**
 * A control that keeps what is typed while it is no value yet.
 * @param {{value: any, onChange: (value: any) => void, write: (value: any) => string, read: (text: string) => any, place?: string, [name: string]: any}} props
 * `read` raises where a text is no value.
 */
export function Draft({ value, onChange, write, read, place, ...more }) {
  const [draft, setDraft] = useState(write(value));
  const of = (/** @type {string} */ text) => {
    try {
      return { value: text.trim() === "" ? undefined : read(text), fault: "" };
    } catch (error) {
      return { value: undefined, fault: /** @type {Error} */ (error).message };
    }
  };
  useEffect(() => {
    if (JSON.stringify(of(draft).value) !== JSON.stringify(value)) setDraft(write(value)); // it was set elsewhere
  }, [JSON.stringify(value)]);
  const type = (/** @type {string} */ text) => {
    setDraft(text);
    const now = of(text);
    if (!now.fault) onChange(now.value);
  };
  const { fault } = of(draft);
  return html`<${Input} id=${place} aria-describedby=${place && `note${place}`} value=${draft} set=${type} aria-invalid=${fault ? "true" : undefined} ...${more} />${fault && html` <span class="problem">${fault}</span>`}`;
}

/** @param {any} value */
export const asJson = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));

/** @param {Part & {required: boolean}} props */
function Numeric({ schema, value, onChange, place, required }) {
  const write = (/** @type {any} */ now) => (now === undefined ? "" : textOf(now));
  return html`<${Draft} value=${value} onChange=${onChange} write=${write} read=${numberOf} place=${place} required=${required} inputmode=${schema.type === "integer" ? "numeric" : "decimal"} />`;
}

/** @param {string} text */
function numberOf(text) {
  const number = Number(text);
  if (!Number.isFinite(number)) throw new Error("That is not a number.");
  return number;
}

/** @param {Part} props */
function AnyJson({ value, onChange, place }) {
  return html`<${Draft} value=${value} onChange=${onChange} write=${asJson} read=${JSON.parse} place=${place} as="area" placeholder="JSON" />`;
}

/** An object within: drawn when it is opened, and as JSON where the form has fields enough. @param {Part} props */
function Inner(props) {
  const count = propertiesOf(props.schema).length;
  const isFaulty = [...props.faults.keys()].some((place) => place.startsWith(`${props.place}/`));
  const title = html`${count} ${count === 1 ? "field" : "fields"}${isFaulty && html` <span class="problem">that do not fit</span>`}`;
  return html`<${Fold} title=${title}>${() => html`<${Opened} ...${props} />`}<//>`;
}

/** @param {Part} props */
function Opened(props) {
  const [fits] = useState(() => {
    const count = propertiesOf(props.schema).length, fits = count <= props.budget.left;
    if (fits) props.budget.left -= count;
    return fits;
  });
  const set = (/** @type {any} */ now) => props.onChange(Object.keys(now).length ? now : undefined);
  return fits ? html`<${Fields} ...${props} onChange=${set} />` : html`<label>This form has fields enough, so as JSON <${AnyJson} ...${props} /></label>`;
}

/** Values of one simple kind, a line each. @param {Part} props */
function Lines({ schema, value, onChange, place }) {
  const isText = schema.items.type !== "integer" && schema.items.type !== "number";
  const read = (/** @type {string} */ text) => text.split("\n").filter(Boolean).map((each) => (isText ? each : numberOf(each)));
  const write = (/** @type {any} */ now) => (Array.isArray(now) ? now.map(textOf).join("\n") : "");
  return html`<${Draft} value=${value} onChange=${onChange} write=${write} read=${read} place=${place} as="area" placeholder="one value a line" />`;
}

/** @param {any} value */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {any} value @param {string} name */
function own(value, name) {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** @param {any} schema */
function isSimple(schema) {
  return isObject(schema) && ["string", "integer", "number"].includes(schema.type);
}

/**
 * A schema without references to its own document, and without the null of a value that may be left out.
 * @param {any} schema @param {Schema} root @returns {Schema}
 */
export function plain(schema, root, depth = 0) {
  if (!isObject(schema) || depth > 8) return {};
  if (typeof schema.$ref === "string") {
    const { $ref, ...rest } = schema;
    return { ...plain(at(root, $ref), root, depth + 1), ...rest };
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((/** @type {any} */ type) => type !== "null");
    return types.length === 1 ? { ...schema, type: types[0] } : schema;
  }
  const one = onlyOne(schema.anyOf || schema.oneOf) || (schema.allOf?.length === 1 && schema.allOf[0]);
  if (!one) return schema;
  const { anyOf, oneOf, allOf, ...rest } = schema;
  return { ...plain(one, root, depth + 1), ...rest };
}

/** @param {any} choices */
function onlyOne(choices) {
  const some = Array.isArray(choices) ? choices.filter((each) => each?.type !== "null") : [];
  return some.length === 1 ? some[0] : null;
}

/** What a pointer into the document leads to. @param {Schema} root @param {string} pointer */
function at(root, pointer) {
  const parts = pointer.startsWith("#/") ? pointer.slice(2).split("/") : [];
  const names = parts.map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"));
  return parts.length ? names.reduce((/** @type {any} */ found, name) => own(found, name), root) : {};
}
