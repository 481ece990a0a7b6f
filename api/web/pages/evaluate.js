// How well requests were answered: records of `waygraph eval`, side by side.
import { html } from "../vendor/preact.js";
import { Form, Input } from "../fields.js";
import { queryOf, request, session } from "../http.js";
import { HOME, place, setQuery } from "../place.js";
import { Act, Badge, Code, Loaded, marked, Table, Twin, useGet, Words } from "../parts.js";
import { quote } from "../shell.js";

/**
 * @typedef {{id: string, path: string, date: string, commit: string, dataset: string, checksum: string, name: string, split: string,
 *   recipe: string, judged: number, withheld: number, p50_ms: number, measures: Record<string, number[]>}} Run
 */

const PREFERRED = ["agents Recall@5", "tools Recall@5"];

export default function Evaluate() {
  const state = useGet("/v1/evaluations");
  return html`<h1>Evaluate</h1>${session.value?.holds && html`<${Requests} />`}<h2>Records</h2>${session.value?.evaluates ? html`<${Loaded} state=${state}>${(/** @type {any} */ found) => html`<${Records} found=${found} />`}<//>` : html`<p>Measuring is a package of its own: <code>pip install waygraph-lab</code>.</p>`}`;
}

/** The requests that a person keeps, how each is answered now, and the figure over time. */
function Requests() {
  const state = useGet("/explore/requests");
  const forget = (/** @type {string} */ text) => async () => (await request("/explore/requests", { body: { text, forget: true } }), state.again());
  return html`<section><h2>Your requests</h2><${Loaded} state=${state}>${(/** @type {any} */ { folder, requests, runs }) => requests.length === 0 ? html`<p>None is kept yet: <a href=${HOME}>ask</a> something, and say whether the answer was right.</p>` : html`
    <p><b>${requests.filter((/** @type {any} */ each) => each.is_right).length} of ${requests.length}</b> are answered right now.</p>
    <${Figure} runs=${runs.slice(-60)} />
    <${Table} caption="Your requests" columns=${["Request", "Right", "First answer now", "", ""]} rows=${requests.map((/** @type {any} */ each) => [
      html`<a href=${HOME + queryOf({ q: each.text })}><${Words} text=${each.text} max=${200} /></a>`,
      marked([...(each.gold_tools || []), ...(each.gold || [])][0]?.join(", ") || "nothing"),
      marked(each.first || "nothing"),
      html`<${Badge} kind=${each.is_right ? "good" : "bad"}>${each.is_right ? "right" : "wrong"}<//>`,
      html`<${Act} class="plain" label=${`Forget ${each.text}`} act=${forget(each.text)}>Forget<//>`,
    ])} />
    ${session.value?.evaluates && html`<${Code} label="command that measures them" text=${`waygraph eval ${quote(folder)}`} />`}`}<//></section>`;
}

/** A bar for each time that the figure changed. @param {{runs: {at: string, judged: number, right: number}[]}} props */
function Figure({ runs }) {
  const last = runs.at(-1);
  return html`<figure class="series"><figcaption>Answered right, each time that it changed</figcaption>
    <svg viewBox="0 0 600 70" role="img" aria-label=${`Answered right: ${runs.map(({ judged, right }) => `${right} of ${judged}`).slice(-5).join(", then ")}`}>
      ${runs.map(({ at, judged, right }, place) => html`<g key=${at}><title>${`${at}: ${right} of ${judged}`}</title><rect class="faults" x=${place * 10} width="8" y="5" height="60" /><rect class="all" x=${place * 10} width="8" y=${65 - (60 * right) / judged} height=${(60 * right) / judged} /></g>`)}
      ${last && html`<text x=${runs.length * 10 + 6} y="40">${last.right} of ${last.judged}</text>`}</svg></figure>`;
}

/** @param {{found: any}} props */
function Records({ found }) {
  if (!found.folder) {
    return html`<p>No folder of records is named. <code>waygraph eval DIR -o FILE</code> writes one; <code>waygraph explore --evals DIR</code> or <code>WAYGRAPH_EVALS_DIR</code> names the folder.</p>`;
  }
  const all = runsOf(found.records);
  const { query } = place.value;
  const datasets = [...new Set(all.map((run) => run.dataset))].sort();
  const dataset = query.get("dataset") || "";
  const runs = all.filter((run) => !dataset || run.dataset === dataset);
  const measures = [...new Set(runs.flatMap((run) => Object.keys(run.measures)))].sort();
  const measure = measures.find((each) => each === query.get("measure")) || PREFERRED.find((each) => measures.includes(each)) || measures[0];
  const chosen = query.getAll("run").map((id) => all.find((run) => run.id === id)).filter((run) => run !== undefined);
  return html`<p class="quiet">${found.records.length} records in <code>${found.folder}</code>${found.other_files > 0 && `; ${found.other_files} other files are no such records, or too large`}. <${Twin} path="/v1/evaluations" /></p>
    ${all.length === 0 ? html`<p>There is no record yet.</p>` : html`
    <${Form} class="row" fields=${[
      { label: "Dataset", as: "choice", beside: true, value: dataset, options: [["", "all"], ...datasets], set: (/** @type {string} */ value) => setQuery({ dataset: value }) },
      { label: "Measure", as: "choice", beside: true, value: measure, options: measures, set: (/** @type {string} */ value) => setQuery({ measure: value }) },
    ]} />
    <h3>Runs</h3><p class="quiet">Choose two to compare them.</p>
    <${Table} caption="Runs" columns=${["Compare", "Trial", "Dataset", "Date", measure, "95 % interval", "Judged", "Withheld", "Half within, ms"]} numeric=${[4, 5, 6, 7, 8]} rows=${runs.map((run) => row(run, measure, chosen))} />
    ${chosen.length === 2 && html`<${Comparison} one=${chosen[0]} other=${chosen[1]} />`}`}`;
}

/** What is not whole is left out. @param {{path: string, record: any}[]} records @returns {Run[]} */
function runsOf(records) {
  return records.flatMap(({ path, record }) => {
    try {
      const { date = "", commit = "", dataset, outcomes } = record;
      return outcomes.map((/** @type {any} */ outcome, /** @type {number} */ at) => ({
        ...{ id: `${path}:${at}`, path, date: String(date), commit: String(commit), dataset: String(dataset.name), checksum: String(dataset.checksum) },
        ...{ name: String(outcome.name), split: String(outcome.split), recipe: String(outcome.recipe.name) },
        ...{ judged: Number(outcome.judged), withheld: Number(outcome.withheld), p50_ms: Number(outcome.p50_ms), measures: measuresOf(outcome) },
      }));
    } catch {
      return [];
    }
  });
}

/** By name, such as `agents Recall@5`: the mean, and the ends of its interval. @param {any} outcome @returns {Record<string, number[]>} */
function measuresOf(outcome) {
  const all = ["agents", "tools", "sets"].flatMap((level) => Object.entries(outcome[level] || {}).map(([name, value]) => /** @type {[string, any]} */ ([`${level} ${name}`, value])));
  return Object.fromEntries(all.filter(([, value]) => Array.isArray(value) && value.length === 3 && value.every(Number.isFinite)));
}

/** @param {Run} run @param {string} measure @param {Run[]} chosen */
function row(run, measure, chosen) {
  const is_chosen = chosen.some(({ id }) => id === run.id);
  const others = chosen.filter(({ id }) => id !== run.id).map(({ id }) => id);
  const toggle = () => setQuery({ run: is_chosen ? others : [...others.slice(-1), run.id] });
  const [mean, low, high] = run.measures[measure] || [];
  return [
    html`<${Input} as="check" value=${is_chosen} set=${toggle} aria-label=${`Compare ${run.name} of ${run.path}`} />`,
    html`<${Words} text=${run.name} max=${80} /> <span class="quiet"><${Words} text=${[run.recipe === run.name ? "" : run.recipe, run.split].filter(Boolean).join(", ")} max=${80} /></span>`,
    html`<${Words} text=${run.dataset} max=${80} />`,
    run.date.slice(0, 10),
    shown(mean),
    low === undefined ? "–" : `${shown(low)} to ${shown(high)}`,
    run.judged,
    run.withheld,
    shown(run.p50_ms, 1),
  ];
}

/** @param {{one: Run, other: Run}} props */
function Comparison({ one, other }) {
  const names = Object.keys(one.measures).filter((name) => other.measures[name]);
  const isSame = one.checksum === other.checksum;
  const rows = names.map((name) => {
    const [mean, low, high] = one.measures[name];
    const [otherMean, otherLow, otherHigh] = other.measures[name];
    const isApart = low > otherHigh || otherLow > high;
    const difference = otherMean - mean;
    return [name, shown(mean), shown(otherMean), `${difference > 0 ? "+" : ""}${shown(difference)}`, isApart ? "the intervals are apart" : "the intervals overlap"];
  });
  return html`<section><h2>Compared</h2>
    ${!isSame && html`<p class="notice">They are over different datasets, so that a difference says little.</p>`}
    <dl class="facts"><dt>First</dt><dd><${Words} text=${`${one.name}, ${one.path}, ${one.commit || "no commit"}`} max=${200} /></dd><dt>Second</dt><dd><${Words} text=${`${other.name}, ${other.path}, ${other.commit || "no commit"}`} max=${200} /></dd></dl>
    <${Table} caption="Two runs compared" columns=${["Measure", "First", "Second", "Difference", ""]} numeric=${[1, 2, 3]} empty="They have no measure in common." rows=${[...rows, ["half within, ms", shown(one.p50_ms, 1), shown(other.p50_ms, 1), shown(other.p50_ms - one.p50_ms, 1), ""]]} />
    <p class="quiet">Means whose intervals are apart differ. Of those that overlap <code>waygraph eval diff</code> tells more, query by query.</p></section>`;
}

/** @param {number | undefined} value @param {number} [digits] */
function shown(value, digits = 3) {
  return value === undefined ? "–" : value.toFixed(digits);
}
