// What a statement gave: a table, a file, and as far as it holds nodes and edges a picture.
import { html, useMemo, useState } from "../vendor/preact.js";
import { Fold, Json, Table, Words } from "../parts.js";
import { GraphView, placeOf } from "./graph_view.js";

const MOST_NODES = 300, ROWS = 200;

/** @param {{result: {columns: string[], rows: any[][], truncated: boolean, elapsed_ms: number, notice: string}}} props */
export function Result({ result }) {
  const { columns, rows } = result;
  const [hidden, setHidden] = useState(/** @type {string[]} */ ([]));
  const [all, setAll] = useState(false);
  const graph = useMemo(() => readGraph(rows), [rows]);
  const shown = all ? rows : rows.slice(0, ROWS);
  return html`<section aria-labelledby="result"><h2 id="result">Result</h2>
    <p class="row"><span role="status">${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}${result.truncated ? ", and there are more: LIMIT or aggregate" : ""}, ${result.elapsed_ms.toFixed(1)} ms</span>
      ${rows.length > 0 && html`<button onClick=${() => save(csvOf(columns, rows))}>Save as CSV</button>`}</p>
    ${result.notice && html`<p class="notice">${result.notice}</p>`}
    ${graph.nodes.length > 0 && html`<${GraphView} nodes=${graph.nodes} edges=${graph.edges} hidden=${hidden} onHide=${setHidden} label="The result" />`}
    ${graph.left_out > 0 && html`<p class="quiet">${graph.left_out.toLocaleString("en")} more nodes are in the table alone.</p>`}
    <div class="rows"><${Table} caption="Rows" columns=${columns} numeric=${columns.flatMap((_, at) => (rows.every((row) => typeof row[at] === "number") ? [at] : []))} rows=${shown.map((row, number) => row.map((value, at) => html`<${Cell} value=${value} where=${`${columns[at]} in row ${number + 1}`} />`))} empty="No rows." /></div>
    ${shown.length < rows.length && html`<button onClick=${() => setAll(true)}>All ${rows.length.toLocaleString("en")} rows</button>`}
  </section>`;
}

/** @param {any} value */
function isNode(value) {
  return Boolean(value && Array.isArray(value.labels) && value.properties);
}

/** @param {any} value */
function isEdge(value) {
  return Boolean(value && typeof value.type === "string" && value.properties && "source" in value);
}

/** @param {{value: any, where: string}} props */
function Cell({ value, where }) {
  if (value === null) return html`<span class="quiet">null</span>`;
  if (isNode(value)) {
    const node = nodeOf(value), place = placeOf(node), title = html`<${Words} text=${node.name} max=${80} />`;
    return html`<span class="quiet">${node.kind}</span> ${place ? html`<a href=${place}>${title}</a>` : title}<${Properties} of=${value.properties} where=${where} />`;
  }
  if (isEdge(value)) return html`<span class="quiet">—</span> ${value.type}<${Properties} of=${value.properties} where=${where} />`;
  if (value && Array.isArray(value.nodes) && Array.isArray(value.edges)) {
    return value.nodes.map((/** @type {any} */ node, /** @type {number} */ at) => html`${at > 0 && html` <span class="quiet">— ${value.edges[at - 1]?.type} —</span> `}<${Words} text=${nodeOf(node).name} max=${80} />`);
  }
  return html`<${Words} text=${typeof value === "string" ? value : JSON.stringify(value)} max=${300} />`;
}

/** @param {{of: Record<string, unknown>, where: string}} props */
function Properties({ of, where }) {
  return Object.keys(of).length > 0 && html`<${Fold} title=${html`<span class="quiet">properties</span>`}>${() => html`<${Json} value=${of} label=${`Properties of ${where}`} />`}<//>`;
}

// -- as a graph -------------------------------------------------------------------------------------

/** @param {any} value */
function nodeOf({ id, labels, properties }) {
  const [label = "node"] = labels;
  return { id: String(id), kind: label.toLowerCase(), name: String(properties.name || properties.id || label), description: String(properties.description || ""), of: label === "Category" ? "" : String(properties.id ?? "") }; // a category's page is at its path
}

/** The nodes and edges in all rows, in lists and paths too. @param {any[][]} rows */
function readGraph(rows) {
  const nodes = new Map(), edges = new Map();
  const read = (/** @type {any} */ value) => {
    if (isNode(value)) nodes.set(String(value.id), nodeOf(value));
    else if (isEdge(value)) edges.set(String(value.id), { kind: value.type.toLowerCase(), start: String(value.source), end: String(value.target) });
    else if (Array.isArray(value)) value.forEach(read);
    else if (value && Array.isArray(value.nodes) && Array.isArray(value.edges)) [...value.nodes, ...value.edges].forEach(read);
  };
  rows.forEach(read);
  const shown = [...nodes.values()].slice(0, MOST_NODES), ids = new Set(shown.map((node) => node.id));
  return { nodes: shown, edges: [...edges.values()].filter((edge) => ids.has(edge.start) && ids.has(edge.end)), left_out: nodes.size - shown.length };
}

// -- as a file --------------------------------------------------------------------------------------

/** Texts that a spreadsheet would run get an apostrophe (CWE-1236). @param {string[]} columns @param {any[][]} rows */
export function csvOf(columns, rows) {
  const cell = (/** @type {any} */ value) => {
    const text = value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
    const safe = typeof value === "string" && /^[\s\u0000-\u001f]*[=+\-@＝＋－＠]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** @param {string} text */
function save(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
  link.download = "result.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
