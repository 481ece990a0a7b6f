// The frame of every page: who looks, where they may go, and the page of this address.
import { html, render, useEffect, useRef, useState } from "./vendor/preact.js";
import { enter, may, mayOperate, readSession, request, session } from "./http.js";
import { followLinks, HOME, place } from "./place.js";
import { Badge, Fault, lookAtWaits, Nothing, Notices, waits } from "./parts.js";

/**
 * First part of the path → its name, its module, and who may go there.
 * @type {Record<string, {name: string, load: () => Promise<any>, allowed?: () => boolean, listed?: boolean, needs?: boolean}>} `needs`: a registry.
 */
const PAGES = {
  "": { name: "Ask", load: () => import("./pages/ask.js"), needs: false },
  tools: { name: "Tools", load: () => import("./pages/tools.js") },
  changes: { name: "Changes", load: () => import("./pages/changes.js") },
  sources: { name: "Sources", load: () => import("./pages/sources.js"), needs: false },
  map: { name: "Map", load: () => import("./pages/map.js") },
  agents: { name: "Agents", load: () => import("./pages/agents.js") },
  taxonomy: { name: "Taxonomy", load: () => import("./pages/taxonomy.js") },
  use: { name: "Use", load: () => import("./pages/use.js"), allowed: mayOperate },
  evaluate: { name: "Evaluate", load: () => import("./pages/evaluate.js"), allowed: mayOperate, needs: false },
  cypher: { name: "Cypher", load: () => import("./pages/cypher.js"), allowed: () => may("cypher") && mayOperate() },
  operate: { name: "Operate", load: () => import("./pages/operate.js"), allowed: mayOperate, needs: false },
  login: { name: "Log in", load: () => import("./pages/login.js"), listed: false, needs: false },
};

function App() {
  if (!session.value) return html`<main id="main" aria-busy="true"></main>`;
  const [first = ""] = place.value.path;
  const name = session.value.known ? first : "login";
  const page = PAGES[name];
  return html`
    <header class="top">
      <a class="brand" href=${HOME}>Waygraph</a>
      <nav aria-label="Pages">${session.value.known && html`<${Links} now=${name} />`}</nav>
      <${Who} />
    </header>
    ${page ? html`<${Page} key=${name} page=${page} />` : html`<main id="main"><h1>There is no such page</h1></main>`}
    <${Notices} />`;
}

const FIRST = 5; // The others stand under More.

/** @param {{now: string}} props */
function Links({ now }) {
  useEffect(() => void lookAtWaits().catch(() => undefined), [now, session.value]); // a badge is no place for a fault
  const { items, more, failing } = waits.value, open = items.filter((each) => !each.rejection).length;
  const counts = /** @type {Record<string, [any, string]>} */ ({ changes: [open && `${open}${more}`, "wait"], sources: [failing, "failing"] });
  const links = Object.entries(PAGES)
    .filter(([, page]) => page.listed !== false && (!page.allowed || page.allowed()))
    .map(([path, { name }]) => {
      const [count, word] = counts[path] || [];
      return html`<a href=${path ? `${HOME}/${path}` : HOME} aria-current=${path === now ? "page" : undefined}>${name}${count ? html` <${Badge} kind="warn">${count}<span class="hidden"> ${word}</span><//>` : null}</a>`;
    });
  const isMore = Object.keys(PAGES).indexOf(now) >= FIRST;
  return html`${links.slice(0, FIRST)}<details class="more" key=${now}><summary class=${isMore ? "now" : undefined}>${isMore && PAGES[now].listed !== false ? PAGES[now].name : "More"}</summary><div>${links.slice(FIRST)}</div></details>`;
}

function Who() {
  const { known, local, name } = /** @type {import("./http.js").Session} */ (session.value);
  const leave = async () => {
    await request("/explore/session", { method: "DELETE" });
    await readSession();
  };
  return html`<div class="who">
    ${known && !local && html`<span>${name}</span> <button class="plain" onClick=${leave}>Log out</button>`}
    <${Scheme} />
  </div>`;
}

const SCHEMES = ["auto", "light", "dark"];

/** Light, dark, or as the system has it; kept by the browser. */
function Scheme() {
  const [scheme, setScheme] = useState(localStorage.getItem("scheme") || "auto");
  useEffect(() => {
    document.documentElement.dataset.scheme = scheme;
    localStorage.setItem("scheme", scheme);
  }, [scheme]);
  const next = SCHEMES[(SCHEMES.indexOf(scheme) + 1) % SCHEMES.length];
  return html`<button class="plain" onClick=${() => setScheme(next)} aria-label=${`Colours: ${scheme}. Switch to ${next}.`}>
    ${{ auto: "◐", light: "☀", dark: "☾" }[scheme]}
  </button>`;
}

/** @param {{page: {name: string, load: () => Promise<any>, allowed?: () => boolean, needs?: boolean}}} props */
function Page({ page }) {
  const [loaded, setLoaded] = useState(/** @type {any} */ (null));
  const [fault, setFault] = useState(/** @type {Error | null} */ (null));
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    document.title = `${page.name} · Waygraph`;
    page.load().then((module) => setLoaded(() => module.default), setFault);
    if (document.activeElement && document.activeElement !== document.body) main.current?.focus();
  }, []);
  if (page.allowed && !page.allowed()) {
    return html`<main id="main"><h1>${page.name}</h1><p>This page needs the scope admin, and a caller who sees everything.</p></main>`;
  }
  if (!session.value?.holds && page.needs !== false) return html`<main id="main"><h1>${page.name}</h1><${Nothing} /></main>`;
  return html`<main id="main" tabindex="-1" ref=${main}>
    ${fault && html`<${Fault} error=${fault} />`} ${loaded && html`<${loaded} path=${place.value.path} query=${place.value.query} />`}
  </main>`;
}

followLinks();
enter().then(() => render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app"))));
