// A tool's arguments as a form and as JSON; a try through the gateway, and the last calls.
import { html, useRef, useState } from "../vendor/preact.js";
import { Form } from "../fields.js";
import { may, pathOf, request, session } from "../http.js";
import { Act, Badge, Code, Copied, Dialog, Fold, Json, Loaded, Outside, Time, useGet, Words } from "../parts.js";
import { setQuery } from "../place.js";
import { curl } from "../shell.js";
import { asJson, Draft, plain, SchemaFields } from "./schema_form.js";

const RESULT_CHARS = 4000;
const MOST_PARTS = 50;
/** What stands against a call, by the code of the problem. @type {Record<string, string>} */
const PROBLEMS = {
  "invalid-arguments": "The arguments do not fit, so nothing was sent",
  "needs-consent": "A person has to agree",
  "not-callable": "Refused: nothing was sent",
  "not-allowed": "Refused: you may not call it",
  "needs-login": "Log in first: the tool acts as you",
  stopped: "You stopped waiting",
  "call-timed-out": "No answer came in time; whether it did its work is not known",
  "upstream-unreachable": "Its server cannot be reached",
  "upstream-refused": "Its server refused",
  "upstream-answered": "Its server answered with an error",
  "too-many-requests": "Too many requests",
};
/** @type {Record<string, string>} */
const OUTCOMES = { ok: "answered", tool_error: "the tool reported an error", refused: "refused", timed_out: "timed out", cancelled: "cancelled", upstream_failed: "its server failed" };

/** @param {{tool: any, kind: string, cannot: string, shown: string | null}} props */
export function TryIt({ tool, kind, cannot, shown }) {
  const [args, setArgs] = useState(/** @type {Record<string, any>} */ ({}));
  const [asks, setAsks] = useState("");
  const [outcome, setOutcome] = useState(/** @type {{result?: any, problem?: any} | null} */ (null));
  const [round, setRound] = useState(0);
  const [ending, setEnding] = useState(/** @type {AbortController | null} */ (null));
  const form = useRef(/** @type {HTMLElement | null} */ (null));
  const schema = plain(tool.input_schema, tool.input_schema);
  const path = `/v1/tools/${pathOf(tool.id)}/call`;
  const call = async (/** @type {string} */ agreed) => {
    setAsks("");
    const body = { arguments: args, ...(agreed && { consent: agreed }) };
    const stopping = new AbortController();
    setEnding(stopping);
    setOutcome(null);
    try {
      setOutcome({ result: await request(path, { body, signal: stopping.signal }) });
    } catch (error) {
      const problem = /** @type {import("../http.js").Problem} */ (error);
      if (stopping.signal.aborted) setOutcome({ problem: { code: "stopped", detail: "Whether it did its work is not known." } });
      else if (problem.details?.code === "needs-consent" && !agreed) setAsks(String(problem.details.facts?.reason).split(";")[0]);
      else setOutcome({ problem: { ...problem.details, detail: problem.message } });
    }
    setEnding(null);
    setRound((count) => count + 1);
  };
  const danger = dangerOf(tool, kind);
  const run = async () => {
    const unfit = /** @type {HTMLElement | undefined} */ (form.current?.querySelector('[aria-invalid="true"]'));
    if (!unfit) return danger ? setAsks(danger) : call("");
    unfit.focus();
    throw new Error("This field holds nothing that can be sent.");
  };
  return html`<h2>Try it</h2>
    <div class="columns" ref=${form}>
      <${Form} class="card fields" aria-label="Arguments" fields=${[]}>
        <${SchemaFields} schema=${schema} root=${tool.input_schema} value=${args} onChange=${setArgs} faults=${faultsOf(outcome?.problem)} /><//>
      <div class="card"><${RawJson} value=${args} onChange=${setArgs} />
        <p class="row">${!cannot && html`<${Act} class="main" act=${run}>Run<//>`} <${Copied} text=${curl(path, { arguments: args })} label="Copy curl" /></p>
        ${cannot && html`<p class="quiet">It cannot be run from here: ${cannot}.</p>`}
      </div>
    </div>
    <div aria-live="polite">${ending && html`<p class="row">It runs … <button onClick=${() => ending.abort()}>Stop waiting</button></p>`}${outcome && html`<${Outcome} outcome=${outcome} />`}</div>
    ${asks && html`<${Consent} tool=${tool} args=${args} reason=${asks} onYes=${() => call(tool.content_hash)} onNo=${() => setAsks("")} />`}
    ${session.value?.calls && may("use") && html`<${Calls} key=${round} tool=${tool.id} shown=${shown} reuse=${setArgs} />`}`;
}

/** Why a person is asked before it runs; empty: nobody is. @param {any} tool @param {string} kind */
function dangerOf(tool, kind) {
  const said = tool.annotations || {};
  if (kind === "skill") return ""; // it gives its text
  if (said.destructiveHint === true && said.readOnlyHint !== true) return "It says that it may change or delete things.";
  return said.readOnlyHint === true && said.destructiveHint !== true ? "" : "It does not say that it only reads.";
}

/** @param {{tool: any, args: any, reason: string, onYes: () => Promise<void>, onNo: () => void}} props */
function Consent({ tool, args, reason, onYes, onNo }) {
  return html`<${Dialog} title="Run this tool?" onClose=${onNo}>
    <p><${Words} text=${tool.id} max=${300} />, with these arguments. <${Words} text=${reason} max=${500} /></p>
    <${Json} value=${args} label="Arguments" />
    <p class="row"><${Act} class="danger" act=${onYes}>Run it<//> <button autofocus onClick=${onNo}>Do not run it</button></p>
  <//>`;
}

/** @param {{value: any, onChange: (value: any) => void}} props */
function RawJson({ value, onChange }) {
  const read = (/** @type {string} */ text) => {
    const args = JSON.parse(text);
    if (typeof args !== "object" || args === null || Array.isArray(args)) throw new Error("Arguments are an object.");
    return args;
  };
  return html`<label for="json">Arguments as JSON</label><${Draft} as="area" id="json" rows="8" spellcheck=${false} value=${value} onChange=${(/** @type {any} */ now) => onChange(now || {})} write=${asJson} read=${read} />`;
}

/** By the place of each argument. @param {any} problem @returns {Map<string, string>} */
function faultsOf(problem) {
  return new Map(problem?.code === "invalid-arguments" ? problem.facts?.faults || [] : []);
}

/** @param {{outcome: {result?: any, problem?: any}}} props */
function Outcome({ outcome: { result, problem } }) {
  if (problem) return html`<${Refusal} problem=${problem} />`;
  const isError = result.isError === true;
  return html`<section class=${isError ? "fault" : "card"} aria-label="Result"><h3>${isError ? "The tool reported an error" : "Result"}</h3><${Result} result=${result} /></section>`;
}

/** @param {{problem: any}} props */
function Refusal({ problem }) {
  return html`<section class="fault" aria-label="Result"><h3>${PROBLEMS[problem.code] || "It failed"}</h3>
    <p><${Words} text=${problem.detail || ""} max=${2000} /></p>
    ${problem.code === "needs-login" && problem.facts?.page && html`<p><${Outside} href=${problem.facts.page}>Log in<//>, then run it again.</p>`}
    <p class="quiet">${problem.code}</p></section>`;
}

/** @param {{result: any}} props */
function Result({ result }) {
  const { content, isError, structuredContent, ...rest } = result;
  const same = JSON.stringify(structuredContent); // servers say it again as text, for hosts that read no structure
  const parts = Array.isArray(content) ? content.filter((part) => !same || part?.type !== "text" || JSON.stringify(parsed(part.text)) !== same) : [];
  return html`${parts.slice(0, MOST_PARTS).map((/** @type {any} */ part) => html`<${Content} part=${part} />`)}
    ${parts.length > MOST_PARTS && html`<${Json} value=${parts.slice(MOST_PARTS)} label=${`${parts.length - MOST_PARTS} more parts`} />`}
    ${structuredContent !== undefined && html`<${Json} value=${structuredContent} label="Structured content" />`}
    ${Object.keys(rest).length > 0 && html`<${Fold} title="What else it gave">${() => html`<${Json} value=${rest} label="What else it gave" />`}<//>`}`;
}

/** @param {{part: any}} props */
function Content({ part }) {
  if (part?.type === "text" && typeof part.text === "string") return html`<p class="result"><${Words} text=${part.text} max=${RESULT_CHARS} /></p>`;
  if (typeof part?.data === "string") return html`<p><${Words} text=${[part.type, part.mimeType].filter((each) => typeof each === "string").join(", ")} max=${200} />: ${part.data.length.toLocaleString("en")} characters in base64 <${Copied} text=${part.data} /></p>`;
  return html`<${Json} value=${part} label="A part of the result" />`;
}

/** The last calls of the tool, and the one that the address names. @param {{tool: string, shown: string | null, reuse: (args: any) => void}} props */
function Calls({ tool, shown, reuse }) {
  const state = useGet("/v1/calls", { tool });
  return html`<h2>Last calls</h2>
    <${Loaded} state=${state}>
      ${(/** @type {any} */ { calls }) => html`${shown && html`<${Shown} call=${calls.find((/** @type {any} */ call) => call.id === shown)} reuse=${reuse} />`}
        ${calls.length ? html`<ul class="plain">${calls.map((/** @type {any} */ call) => html`<li key=${call.id}><${Line} call=${call} isShown=${call.id === shown} /></li>`)}</ul>` : html`<p class="quiet">None by REST or these pages since this service began.</p>`}`}
    <//>`;
}

/** @param {{call: any, isShown: boolean}} props */
function Line({ call, isShown }) {
  return html`<a href=${addressOf(call)} aria-current=${isShown ? "true" : undefined}><${Time} at=${call.at} /></a> ${" "}
    <${OutcomeBadge} outcome=${call.outcome} /> <span class="quiet">${Math.round(call.duration_ms)} ms, ${call.caller_name}</span>`;
}

/** @param {{outcome: string}} props */
function OutcomeBadge({ outcome }) {
  return html`<${Badge} kind=${outcome === "ok" ? "good" : "bad"}>${OUTCOMES[outcome]}<//>`;
}

/** @param {any} call */
function addressOf(call) {
  return `${location.pathname}?call=${encodeURIComponent(call.id)}`;
}

/** @param {{call: any, reuse: (args: any) => void}} props */
function Shown({ call, reuse }) {
  if (!call) return html`<p class="notice">The call of this link is not kept any more, or it is not yours.</p>`;
  const args = parsed(call.arguments);
  const result = parsed(call.result);
  return html`<section class="card" aria-label="Call"><h3>Call of ${new Date(call.at).toLocaleString()}</h3>
    <p><${OutcomeBadge} outcome=${call.outcome} /> <span class="quiet">after ${Math.round(call.duration_ms)} ms, by ${call.caller_name}</span></p>
    ${args ? html`<${Json} value=${args} label="Arguments" />` : html`<${Code} text=${call.arguments} label="Arguments, cut" />`}
    ${call.problem && html`<${Refusal} problem=${call.problem} />`}
    ${result && html`<${Outcome} outcome=${{ result }} />`}
    ${call.result && !result && html`<p>Of ${call.result_chars.toLocaleString("en")} characters the first ones are kept:</p><${Code} text=${call.result} label="Result, cut" />`}
    <p class="row"><${Copied} text=${location.origin + addressOf(call)} label="Copy the link" />
      ${args && html`<button onClick=${() => reuse(args)}>Use these arguments</button>`} <button class="plain" onClick=${() => setQuery({ call: null })}>Close</button></p>
  </section>`;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
