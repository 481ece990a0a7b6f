// Where the browser is: paths under /explore and their queries. Links are ordinary links.
import { signal, useState } from "./vendor/preact.js";

export const HOME = "/explore";

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
function read() {
  const rest = location.pathname.slice(HOME.length).replace(/^\/|\/$/g, "");
  return { path: rest ? rest.split("/").map(decode) : [], query: new URLSearchParams(location.search) };
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = signal(read());

/**
 * Goes there, since a person wants it. `replace`: the way back does not lead here, and nobody may have asked for it.
 * @param {string} address @param {{replace?: boolean}} [options]
 */
export function go(address, { replace = false } = {}) {
  if (!replace) noteRun(address);
  if (address !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", address);
  else if (replace) return;
  place.value = read();
}

// -- what costs ---------------------------------------------------------------------------------------------------------

// A link from elsewhere may ask for work that costs: it is done once a person wants it. What was wanted in this tab, by
// a link or a button of these pages, is done again by itself, as after a reload or on the way back.
const RAN = "ran", MOST_RAN = 50;

/** @returns {string[]} */
function readRan() {
  return JSON.parse(sessionStorage.getItem(RAN) || "[]");
}

/** @param {string} what An address, or a request. */
function noteRun(what) {
  try {
    sessionStorage.setItem(RAN, JSON.stringify([what, ...readRan().filter((each) => each !== what)].slice(0, MOST_RAN)));
  } catch {
    sessionStorage.removeItem(RAN); // it is full
    sessionStorage.setItem(RAN, JSON.stringify([what]));
  }
}

/** Whether a person wanted it in this tab, and what says so. @param {string} what @returns {[boolean, () => void]} */
export function useWanted(what) {
  const [, setRound] = useState(0);
  return [readRan().includes(what), () => (noteRun(what), setRound((round) => round + 1))];
}

/**
 * The same page with other values in its query; empty ones are left out.
 * @param {Record<string, string | string[] | null>} changes
 */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) if (each) query.append(name, each);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace: true });
}

/** Follows links to these pages without loading them anew. */
export function followLinks() {
  addEventListener("popstate", () => (place.value = read()));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !isOurs(link.pathname) || link.hash) return;
    event.preventDefault();
    go(link.pathname + link.search);
    scrollTo(0, 0);
  });
}

/** @param {string} path */
function isOurs(path) {
  return (path === HOME || path.startsWith(`${HOME}/`)) && !path.startsWith(`${HOME}/files/`);
}
