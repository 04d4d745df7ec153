// Elements, numbers, tables, and files.

/** Make an element. Attributes whose name begins with "on" are listeners; null and false omit an attribute. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Replace the children of an element; the element or its id. */
export function fill(target, ...nodes) {
  const host = typeof target === "string" ? byId(target) : target;
  host.replaceChildren(...nodes.flat().filter(Boolean));
  return host;
}

/** Fill an element inside a section, and hide the section if there are no nodes. */
export function fillSection(id, ...nodes) {
  const host = fill(id, ...nodes);
  host.closest("section").hidden = !host.childNodes.length;
}

/** Format a number with four significant digits, without trailing zeros. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e12) return value.toLocaleString("en");
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2);
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(4, Math.ceil(Math.log10(size + 1))) });
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)}\u00a0%`);

/** Format any JSON value as text: lists with commas, objects by key, empty values as "none". */
export function formatValue(value) {
  if (value === null || value === undefined || value === "") return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(formatValue).join(", ") || "none";
  if (typeof value !== "object") return number(value);
  const pairs = Object.entries(value).map(([name, one]) => `${name}: ${formatValue(one)}`);
  return pairs.join("; ") || "none";
}

/** Make a paragraph for each data warning. */
export const warningsOf = (warnings) =>
  (warnings ?? []).map(({ message }) => h("p", { class: "warning", role: "note" }, `Warning: ${message}.`));

/** Format the age of a time: "3 min ago". */
export function ago(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  const steps = [
    [60, "s"],
    [3600, "min", 60],
    [86400, "h", 3600],
    [Infinity, "d", 86400],
  ];
  const [, unit, size = 1] = steps.find(([limit]) => seconds < limit);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

const cellText = (value) => (Array.isArray(value) ? value.join(", ") || "none" : number(value));
const valueIn = (column, row) => (column.value ? column.value(row) : row[column.key]);

/**
 * Make a table. columns: [{title, value(row) or key, show(value, row)}]; numbers are aligned right.
 * records: on narrow screens each row becomes a block.
 */
export function table(caption, columns, rows, { most = 500, records = false } = {}) {
  const isNumeric = (column) => {
    const values = rows.map((row) => valueIn(column, row) ?? null).filter((value) => value !== null);
    return values.length > 0 && values.every((value) => typeof value === "number");
  };
  const classes = columns.map((column) => (isNumeric(column) ? "number" : null));
  const head = columns.map((column, at) => h("th", { scope: "col", class: classes[at] }, column.title));
  const cellOf = (column, at, row) => {
    const value = valueIn(column, row);
    const shown = column.show ? column.show(value, row) : cellText(value);
    return h("td", { class: classes[at], "data-title": column.title }, shown);
  };
  const body = rows.slice(0, most).map((row) =>
    h(
      "tr",
      {},
      columns.map((column, at) => cellOf(column, at, row)),
    ),
  );
  const title = rows.length > most ? `${caption} (the first ${most} of ${rows.length})` : caption;
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: records ? "records" : null },
      h("caption", {}, title),
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, body),
    ),
  );
}

/** Format a table as CSV (RFC 4180). */
export function csv(columns, rows) {
  const quote = (value) => {
    const text = value === null || value === undefined ? "" : Array.isArray(value) ? value.join(" ") : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => column.title)];
  for (const row of rows) lines.push(columns.map((column) => valueIn(column, row)));
  return lines.map((line) => line.map(quote).join(",") + "\r\n").join("");
}

export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Make a text with a button that copies it. */
export function copyable(label, text) {
  const act = async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = label;
    }, 1500);
  };
  const button = quietButton(label, act);
  const copy = navigator.clipboard ? button : null; // plain HTTP from another machine has no clipboard API
  return h("div", { class: "copyable" }, copy, h("pre", { tabindex: "0", "aria-label": label }, text));
}

export const quietButton = (text, onclick, more = {}) =>
  h("button", { type: "button", class: "quiet", onclick, ...more }, text);

export const empty = (...hint) => h("p", { class: "empty" }, ...hint);


export const failure = (error) => h("p", { class: "error", role: "alert" }, String(error.message ?? error));
export const link = (href, text) => h("a", { href }, text);
export const artifactPath = ({ kind, name }) => `/artifacts/${kind}/${name}`;
export const timeOf = (time) => h("time", { datetime: time, title: time }, ago(time));
export const flag = (text, tone = "") => h("span", { class: `flag ${tone}` }, text);

/** Make a flag for the status of a build or batch. */
export const statusFlag = (status) => flag(status, { failed: "bad", succeeded: "good" }[status]);

const CIRCUITS = { closed: ["closed", "good"], open: ["open: calls are stopped", "bad"] };
export const circuitFlag = (state) => flag(...(CIRCUITS[state] ?? [state]));

/** Format the progress of a build. */
export const progressText = ({ done, total, message }) => (total ? `${done} of ${total}: ${message}` : message);

/** Make a list of names and values in boxes. */
export const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );

/** Call show repeatedly, except while the page is hidden or a link or button in the host has the focus. */
export function repeatedly(everyMs, host, show) {
  const isBusy = () => document.activeElement.matches("a, button") && byId(host).contains(document.activeElement);
  const again = async () => {
    if (!document.hidden && !isBusy()) await show().catch(() => {}); // the next call may succeed
    setTimeout(again, everyMs);
  };
  setTimeout(again, everyMs);
}

/** Run a page's script with the names in its address; show an error in place of its content. */
export async function page(load) {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // keep the fragment, which has the page's state
    byId("main").focus();
  });
  try {
    await load(byId("main").dataset);
  } catch (error) {
    for (const part of document.querySelectorAll("main > section")) part.hidden = true;
    document.querySelector("h1").after(failure(error), h("p", {}, link("/", "Go to the overview")));
    if (error.status === undefined) throw error; // a defect of the page: show it in the browser's console too
  }
}
