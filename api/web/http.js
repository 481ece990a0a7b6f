// Requests to the service that serves these pages.
import { signal } from "./vendor/preact.js";

/** @typedef {{known: boolean, asks: boolean, local: boolean, name: string, scopes: string[], sees_all: boolean, csrf: string, issuer: boolean, calls: boolean, evaluates: boolean, holds: boolean, fault?: string}} Session */

/** @type {import("./vendor/preact.js").Signal<Session | null>} Who looks; null until it is known. */
export const session = signal(null);

const MARK = "csrf";
const AWAY = "away";
const INVITATION = /^[\w-]{43}$/;
const STRANGER = { known: false, asks: true, local: false, name: "", scopes: [], sees_all: false, csrf: "", issuer: false, calls: false, evaluates: false, holds: false };

/** What the service answered in place of what was asked for (RFC 9457). */
export class Problem extends Error {
  /** @param {number} status @param {Record<string, any>} details */
  constructor(status, details) {
    super(details.detail || details.title || `The service answered ${status}.`);
    this.status = status;
    this.details = details;
  }
}

/**
 * The JSON that the service answers. Raises Problem; AbortError where `signal` ended it.
 * @param {string} path
 * @param {{method?: string, body?: unknown, params?: Record<string, unknown>, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function request(path, { method, body, params, signal: ending } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (session.value?.csrf) headers["X-CSRF-Token"] = session.value.csrf;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path + queryOf(params), {
      method: method || (body === undefined ? "GET" : "POST"),
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: ending,
    });
  } catch (error) {
    if (ending?.aborted) throw error;
    throw new Problem(0, { detail: "The service cannot be reached. Is it still running?" });
  }
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : null;
  if (response.status === 401) await readSession();
  throw new Problem(response.status, problemOf(text));
}

/** @param {string} text */
function problemOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/**
 * `?a=1&b=2&b=3`; what is empty, false or undefined is left out.
 * @param {Record<string, unknown>} [params]
 */
export function queryOf(params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "" && each !== false) query.append(name, String(each));
    }
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** Asks anew who looks. The mark of a session is kept where pages of this very address alone read it. */
export async function readSession() {
  const csrf = localStorage.getItem(MARK) || "";
  const response = await fetch("/explore/session", { headers: { Accept: "application/json", "X-CSRF-Token": csrf } });
  const answer = await response.json();
  session.value = response.ok ? { ...answer, csrf } : { ...STRANGER, fault: new Problem(response.status, answer).message };
}

/** Logs in by a key, a token, or an invitation. Raises Problem. @param {string} secret */
export async function logIn(secret) {
  const { csrf } = await request("/explore/session", { body: { secret } });
  localStorage.setItem(MARK, csrf);
  await readSession();
}

/** This tab leaves for the operator's issuer. The mark of a session is taken from no other way: any page may link here. */
export function goAway() {
  sessionStorage.setItem(AWAY, "1");
}

/** What the address brings behind its # is used once: of a login elsewhere the mark or why not, or an invitation. */
export async function enter() {
  const wasAway = sessionStorage.getItem(AWAY);
  sessionStorage.removeItem(AWAY);
  const brought = location.hash.slice(1);
  const { mark, refused } = Object.fromEntries(new URLSearchParams(brought));
  let fault = (wasAway && refused) || "";
  if (mark || refused || INVITATION.test(brought)) history.replaceState(null, "", location.pathname + location.search);
  if (mark && wasAway) localStorage.setItem(MARK, mark);
  else if (INVITATION.test(brought)) await logIn(brought).catch((error) => (fault = error.message));
  await readSession();
  if (fault && session.value && !session.value.known) session.value = { ...session.value, fault };
}

/** Whether who looks has a scope. @param {string} scope */
export function may(scope) {
  return Boolean(session.value?.scopes.includes(scope));
}

/** Whether who looks may do what concerns everybody. */
export function mayOperate() {
  return may("admin") && Boolean(session.value?.sees_all);
}

/** Whether who looks may set what others see. */
export function maySet() {
  return may("write") && (may("admin") || Boolean(session.value?.sees_all));
}

/** The address of a path in a URL, each part escaped. @param {...string} parts */
export function pathOf(...parts) {
  return parts.map((part) => part.split("/").map(encodeURIComponent).join("/")).join("/");
}
