// The public API, which is all that feeds these pages: requests, errors, keys, and a service that goes and comes back.

import { byId } from "./dom.js";

const KEY = "parsimony-key";
const CAN_BE_SENT = /^[\x21-\x7e]+$/;
const WAIT_MS = 1000;

/** An error that the service answered with (RFC 9457). faults: [{loc, msg}]. */
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

/** Ask, and give the reply's JSON. A GET waits until the service answers; anything else is sent once. */
export async function call(method, path, { json, body, headers = {} } = {}) {
  if (json !== undefined) {
    body = JSON.stringify(json);
    headers = { ...headers, "Content-Type": "application/json" };
  }
  const reply = await admitted(method, path, { body, headers });
  const text = await reply.text().catch(() => null);
  if (text === null) return method === "GET" ? call(method, path) : lost(); // it broke off on its way
  const content = text ? parsed(text) : null;
  if (!reply.ok) throw new Problem(reply.status, content ?? {});
  return content;
}

export const get = (path) => call("GET", path);

/** Send, with a key that the service knows. */
async function admitted(method, path, given) {
  for (;;) {
    const reply = await reached(method, path, given);
    if (reply.status !== 401) return reply;
    await askForKey(key() ? "The service does not know this key." : "");
  }
}

function lost() {
  throw new Problem(0, { detail: "The service did not answer; nothing is known of what was sent." });
}

/** Give the bytes of what a GET answers. */
export async function bytes(path) {
  const reply = await admitted("GET", path, {});
  if (!reply.ok) throw new Problem(reply.status, parsed(await reply.text()) ?? {});
  return reply.blob();
}

async function reached(method, path, { body, headers }) {
  for (;;) {
    try {
      const reply = await fetch(path, { method, body, headers: headersOf(headers) });
      tell("");
      return reply;
    } catch (error) {
      if (method !== "GET") lost();
      await comeBack();
    }
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

let waiting = null;

/** Wait until the service lives again, however many requests wait for it. */
function comeBack() {
  waiting ??= (async () => {
    tell("The service does not answer. This page goes on by itself as soon as it does.");
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

function tell(text) {
  const banner = byId("away");
  banner.hidden = !text;
  if (banner.textContent !== text) banner.textContent = text;
}

let asking = null;

byId("change-key").hidden = !key();
byId("change-key").addEventListener("click", () => askForKey("").then(() => location.reload()));

/** Ask for a key once, however many requests want one; it lives in this tab's own storage. */
function askForKey(fault) {
  asking ??= new Promise((done) => {
    const dialog = byId("key");
    const field = byId("key-text");
    const stay = (event) => event.preventDefault();
    const take = () => {
      const key = field.value.trim();
      if (!CAN_BE_SENT.test(key)) {
        byId("key-fault").textContent = "A key has no spaces and only characters of plain ASCII.";
        return dialog.showModal();
      }
      sessionStorage.setItem(KEY, key);
      dialog.removeEventListener("close", take);
      dialog.removeEventListener("cancel", stay);
      asking = null;
      byId("change-key").hidden = false;
      done();
    };
    byId("key-fault").textContent = fault;
    field.value = "";
    dialog.addEventListener("close", take);
    dialog.addEventListener("cancel", stay);
    dialog.showModal();
  });
  return asking;
}

/** Follow server-sent events until one is the last; goes on after a break. on(event, data). */
export async function follow(path, on) {
  for (;;) {
    const reply = await admitted("GET", path, {});
    if (!reply.ok) throw new Problem(reply.status, parsed(await reply.text()) ?? {});
    if (await readEvents(reply, on)) return;
    await new Promise((done) => setTimeout(done, WAIT_MS));
  }
}

async function readEvents(reply, on) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true })); // it broke: whoever follows asks again
    if (done) return false;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const kind = /^event: (.*)$/m.exec(block)?.[1];
      on(kind, JSON.parse(/^data: (.*)$/m.exec(block)[1]));
      if (kind === "end") return true;
    }
  }
}

/** Write a request as a command line; headers and file: of a body that is read from a file; form: its parts by name. */
export function curl({ method = "GET", path, json, headers = {}, file, form = {} }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const all = json === undefined ? headers : { "Content-Type": "application/json" };
  const command = ["curl -s"];
  if (key()) command.push('-H "Authorization: Bearer $PARSIMONY_KEY"');
  if (method !== "GET" && method !== "POST") command.push(`-X ${method}`);
  for (const [name, value] of Object.entries(all)) command.push("-H", quoted(`${name}: ${value}`));
  if (json !== undefined) command.push("-d", quoted(JSON.stringify(json)));
  if (file !== undefined) command.push("--data-binary", quoted(`@${file}`));
  for (const [name, value] of Object.entries(form))
    command.push(value.startsWith("@") ? "-F" : "--form-string", quoted(`${name}=${value}`));
  command.push(quoted(location.origin + path));
  return command.join(" ");
}

const LARGEST_PAGE = 1000;

/** Follow a list from page to page until so many items are there; gives the last page, with all their items. */
export async function listed(path, parameters = {}, wanted = Infinity) {
  const items = [];
  let page = { next: null };
  do {
    const limit = Math.min(LARGEST_PAGE, wanted - items.length);
    page = await get(query(path, { ...parameters, limit, cursor: page.next }));
    items.push(...page.items);
  } while (page.next !== null && items.length < wanted);
  return { ...page, items };
}

/** Put parameters behind a path; those without a value are left out, lists are repeated. */
export function query(path, parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of [value].flat()) search.append(name, one);
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}
