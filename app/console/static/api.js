// Requests to the public API: errors, API keys, and waiting while the service is unreachable.

import { byId } from "./dom.js";

const KEY = "parsimony-key";
const CAN_BE_SENT = /^[\x21-\x7e]+$/;
const WAIT_MS = 1000;

/** An error reply (RFC 9457). faults: [{loc, msg}]. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `status ${status}`);
    this.status = status;
    this.body = body;
    this.faults = body.errors || [];
  }
}

export const key = () => sessionStorage.getItem(KEY);
const headersOf = (more = {}) => (key() ? { ...more, Authorization: `Bearer ${key()}` } : more);

/** Send a request and return the JSON of the reply. GET is repeated until the service answers; others are sent once. */
export async function call(method, path, { json, body, headers = {} } = {}) {
  if (json !== undefined) {
    body = JSON.stringify(json);
    headers = { ...headers, "Content-Type": "application/json" };
  }
  const reply = await sendWithKey(method, path, { body, headers });
  const text = await reply.text().catch(() => null);
  if (text === null) return method === "GET" ? call(method, path) : failAsLost(); // the connection broke
  const content = text ? parseJson(text) : null;
  if (!reply.ok) throw new Problem(reply.status, content ?? {});
  return content;
}

export const get = (path) => call("GET", path);

/** Send with a valid key; request one if there is none. */
async function sendWithKey(method, path, given) {
  for (;;) {
    const reply = await sendOnce(method, path, given);
    if (reply.status !== 401) return reply;
    await requestKey(key() ? "The service does not accept this key." : "");
  }
}

function failAsLost() {
  throw new Problem(0, { detail: "The service did not answer; it may or may not have received the request." });
}

/** Return the bytes of a GET reply. */
export async function getBytes(path) {
  const reply = await sendWithKey("GET", path, {});
  if (!reply.ok) throw new Problem(reply.status, parseJson(await reply.text()) ?? {});
  return reply.blob();
}

async function sendOnce(method, path, { body, headers }) {
  for (;;) {
    try {
      const reply = await fetch(path, { method, body, headers: headersOf(headers) });
      showBanner("");
      return reply;
    } catch (error) {
      if (method !== "GET") failAsLost();
      await untilReachable();
    }
  }
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

let waiting = null;

/** Wait until the service answers; all requests share one loop. */
function untilReachable() {
  waiting ??= (async () => {
    showBanner("The service does not answer. This page continues as soon as it does.");
    for (;;) {
      await new Promise((done) => setTimeout(done, WAIT_MS));
      const alive = await fetch("/health/live").then(
        (reply) => reply.ok,
        () => false,
      );
      if (alive) break;
    }
    waiting = null;
  })();
  return waiting;
}

function showBanner(text) {
  const banner = byId("away");
  banner.hidden = !text;
  if (banner.textContent !== text) banner.textContent = text;
}

let keyRequest = null;

byId("change-key").hidden = !key();
byId("change-key").addEventListener("click", () => requestKey("").then(() => location.reload()));

/** Show the dialog for a key once, for all requests; the key is kept in the tab's session storage. */
function requestKey(fault) {
  keyRequest ??= new Promise((done) => {
    const dialog = byId("key");
    const field = byId("key-text");
    const keepOpen = (event) => event.preventDefault();
    const take = () => {
      const key = field.value.trim();
      if (!CAN_BE_SENT.test(key)) {
        byId("key-fault").textContent = "A key must consist of ASCII characters without spaces.";
        return dialog.showModal();
      }
      sessionStorage.setItem(KEY, key);
      dialog.removeEventListener("close", take);
      dialog.removeEventListener("cancel", keepOpen);
      keyRequest = null;
      byId("change-key").hidden = false;
      done();
    };
    byId("key-fault").textContent = fault;
    field.value = "";
    dialog.addEventListener("close", take);
    dialog.addEventListener("cancel", keepOpen);
    dialog.showModal();
  });
  return keyRequest;
}

/** Format a request as a curl command. form: parts of a multipart body, by name. */
export function curl({ method = "GET", path, json, form = {} }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const command = ["curl -s"];
  if (key()) command.push('-H "Authorization: Bearer $PARSIMONY_KEY"');
  if (method !== "GET" && method !== "POST") command.push(`-X ${method}`);
  if (json !== undefined)
    command.push("-H", quoted("Content-Type: application/json"), "-d", quoted(JSON.stringify(json)));
  for (const [name, value] of Object.entries(form))
    command.push(value.startsWith("@") ? "-F" : "--form-string", quoted(`${name}=${value}`));
  command.push(quoted(location.origin + path));
  return command.join(" ");
}

const MAX_PAGE = 1000;

/** Get a list page by page until it has enough items; returns the last page with the items of all. */
export async function getList(path, parameters = {}, wanted = Infinity) {
  const items = [];
  let page = { next: null };
  do {
    const limit = Math.min(MAX_PAGE, wanted - items.length);
    page = await get(query(path, { ...parameters, limit, cursor: page.next }));
    items.push(...page.items);
  } while (page.next !== null && items.length < wanted);
  return { ...page, items };
}

/** Append query parameters to a path; empty ones are omitted, lists are repeated. */
export function query(path, parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of [value].flat()) search.append(name, one);
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}
