// A file that is dropped, chosen or pasted: first what it would do, then it is taken in.
import { html, useState } from "./vendor/preact.js";
import { Form } from "./fields.js";
import { request } from "./http.js";
import { Act, Badge, marked, NoticeLine, notify, SourceLink, suspicions, Words } from "./parts.js";
import { revealed } from "./difference.js";

/** @param {{onDone: () => void}} props */
export function Intake({ onDone }) {
  const [documents, setDocuments] = useState(/** @type {{name: string, text: string}[]} */ ([]));
  const [source, setSource] = useState("");
  const [policy, setPolicy] = useState("");
  const [isMass, setMass] = useState(false);
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [isOver, setOver] = useState(false);
  const take = async (/** @type {File[]} */ files) => {
    setAnswer(null);
    setDocuments(await Promise.all(files.map(async (file) => ({ name: file.name, text: await file.text() }))));
    if (!source && files.length) setSource(files[0].name.replace(/\.[^.]*$/, ""));
  };
  const send = async (/** @type {boolean} */ isDry) => {
    const body = { source: source.trim(), documents, policy: policy || null, allow_mass_removal: isMass, dry_run: isDry };
    const result = await request("/v1/manifests", { body });
    setAnswer(result);
    if (isDry) return;
    if (!result.problem) notify(`Taken in: ${source}.`);
    onDone();
  };
  const drop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(false);
    take([...(event.dataTransfer?.files || [])]);
  };
  const isReady = Boolean(documents.length && source.trim());
  const isTried = answer && !answer.problem && answer.reports.every((/** @type {any} */ each) => each.dry_run);
  const changing = (/** @type {(value: any) => void} */ set) => (/** @type {any} */ value) => (setAnswer(null), set(value));
  return html`<div class=${`card drop ${isOver ? "over" : ""}`} onDragOver=${(/** @type {Event} */ event) => (event.preventDefault(), setOver(true))} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <p>Drop files here, or choose or paste them: a catalogue, an OpenAPI document, an A2A card, skills, an export. Servers are not started by this service for it.</p>
    <${Form} class="row" fields=${[
      { label: "Files", as: "file", multiple: true, set: take },
      { label: "Or its text", as: "area", rows: 4, placeholder: "waygraph: 1 …", value: documents.length === 1 && documents[0].name === PASTED ? documents[0].text : "", set: changing((text) => setDocuments(text ? [{ name: PASTED, text }] : [])) },
      { label: "Name of the source", required: true, value: source, set: changing(setSource) },
      { label: "Policy", as: "choice", value: policy, options: [["", "as it was"], "accept", "hold", "strict"], set: changing(setPolicy) },
      { label: "most of what it had may go", as: "check", value: isMass, set: changing(setMass) },
    ]} />
    <p class="quiet">${documents.length ? `${documents.map((each) => each.name).join(", ")}: ${documents.reduce((sum, each) => sum + each.text.length, 0).toLocaleString("en")} characters.` : "No file is chosen."}</p>
    <div class="row"><${Act} act=${() => send(true)} disabled=${!isReady}>See what it would do<//>
      ${isTried && html`<${Act} class="main" act=${() => send(false)}>Take it in<//>`}</div>
    ${answer && html`<div role="status">${answer.problem && html`<div class="fault"><p>${answer.problem.detail}</p></div>`}${answer.reports.map((/** @type {any} */ each) => html`<${Report} report=${each} />`)}</div>`}
  </div>`;
}

const PASTED = "pasted.yaml";

/** What a sync did, or would do. @param {{report: any}} props */
export function Report({ report }) {
  const counts = ["agents", "tools"].map((noun) => [noun, report[noun]]);
  const suspects = report.flagged.filter((/** @type {any} */ each) => suspicions(each.flags).length);
  const noted = report.flagged.flatMap((/** @type {any} */ each) => Array(each.flags.length - suspicions(each.flags).length).fill(each.id));
  const isNothing = counts.every(([, each]) => !each.created.length && !each.updated.length && !each.removed.length);
  return html`<section class="card" aria-label=${`report of ${report.source}`}>
    <h3>${report.dry_run ? "It would do this" : "Done"}: ${report.dry_run ? marked(report.source) : html`<${SourceLink} name=${report.source} />`}</h3>
    ${isNothing && html`<p>Nothing changes.</p>`}
    ${counts.map(([noun, each]) => html`<p>${noun}: ${[[each.created.length, "new"], [each.updated.length, "changed"], [each.removed.length, "removed"], [each.unchanged, "as they were"]].filter(([count]) => count).map((pair) => pair.join(" ")).join(", ") || "none"}</p>
      <${Names} title=${`${noun} that are new`} names=${each.created} /><${Names} title=${`${noun} that change`} names=${each.updated.map((/** @type {any} */ one) => `${one.id}: ${one.fields.join(", ")}`)} /><${Names} title=${`${noun} that go`} names=${each.removed} />`)}
    <${Names} title="wait for approval" names=${report.waiting} />
    ${suspects.length > 0 && html`<div class="notice"><p>Look suspicious:</p><ul class="reasons">${suspects.map((/** @type {any} */ each) => html`<li><b>${marked(each.id)}</b>: ${revealed(suspicions(each.flags).join("; "))}</li>`)}</ul></div>`}
    ${noted.length > 0 && html`<p class="quiet"><${NoticeLine} count=${noted.length} at=${noted[0]} /></p>`}
    ${[...report.rejected, ...report.cut].map((/** @type {any} */ each) => html`<div class="fault"><p><b>${marked(each.where)}</b>: <${Words} text=${each.reason} max=${300} /></p></div>`)}
    ${report.notice && html`<p class="notice">${report.notice}</p>`}
  </section>`;
}

/** @param {{title: string, names: string[]}} props */
function Names({ title, names }) {
  if (!names.length) return null;
  return html`<details open=${names.length < 8}><summary>${title} <${Badge}>${names.length}<//></summary><ul class="names">${names.slice(0, 200).map((each) => html`<li>${marked(each)}</li>`)}${names.length > 200 && html`<li>and ${names.length - 200} more</li>`}</ul></details>`;
}
