// Elements, numbers for people, tables and files: what every page is made of.

/** Make an element. Attributes whose name begins with "on" are listeners; true, false and null do what one expects. */
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

export function fill(target, ...nodes) {
  const host = typeof target === "string" ? byId(target) : target;
  host.replaceChildren(...nodes.flat().filter(Boolean));
  return host;
}

/** Write a number with four significant digits, and no more zeros than it needs. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e12) return value.toLocaleString("en");
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2);
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(4, Math.ceil(Math.log10(size + 1))) });
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);

/** Write any value in words: lists with commas, objects by their names, nothing as "none". */
export function worded(value) {
  if (value === null || value === undefined || value === "") return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(worded).join(", ") || "none";
  if (typeof value !== "object") return number(value);
  const named = Object.entries(value).map(([name, one]) => `${name}: ${worded(one)}`);
  return named.join("; ") || "none";
}

/** Make a paragraph for each warning about the rows that figures come from. */
export const warningsOf = (warnings) =>
  (warnings ?? []).map(({ message }) => h("p", { class: "warning", role: "note" }, `Warning: ${message}.`));

/** Say how long ago a time was: "3 min ago". */
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

/**
 * Make a table. columns: [{title, value(row) or key, show(value, row)}]; numbers stand to the right. csv: whether a CSV
 * has the rows beyond most; records: whether each row stands as a block of its own where there is little room.
 */
export function table(caption, columns, rows, { most = 500, csv = false, records = false } = {}) {
  const valueOf = (column, row) => (column.value ? column.value(row) : row[column.key]);
  const numeric = columns.map(
    (column) =>
      rows.length > 0 &&
      rows.every((row) => {
        const value = valueOf(column, row);
        return typeof value === "number" || value === null;
      }),
  );
  const kind = (at) => (numeric[at] ? "number" : null);
  const head = h(
    "tr",
    {},
    columns.map((column, at) => h("th", { scope: "col", class: kind(at) }, column.title)),
  );
  const body = rows.slice(0, most).map((row) =>
    h(
      "tr",
      {},
      columns.map((column, at) => {
        const value = valueOf(column, row);
        return h(
          "td",
          { class: kind(at), "data-title": column.title },
          column.show ? column.show(value, row) : cellText(value),
        );
      }),
    ),
  );
  const said =
    rows.length > most ? `${caption} (the first ${most} of ${rows.length}${csv ? "; all in the CSV" : ""})` : caption;
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: records ? "records" : null },
      h("caption", {}, said),
      h("thead", {}, head),
      h("tbody", {}, body),
    ),
  );
}

/** Write a table as CSV (RFC 4180). */
export function csv(columns, rows) {
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : Array.isArray(value) ? value.join(" ") : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => column.title)];
  for (const row of rows) lines.push(columns.map((column) => (column.value ? column.value(row) : row[column.key])));
  return lines.map((line) => line.map(quoted).join(",") + "\r\n").join("");
}

export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A text with a button that copies it. */
export function copyable(label, text) {
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        await copy(text);
        button.textContent = "Copied";
        setTimeout(() => {
          button.textContent = label;
        }, 1500);
      },
    },
    label,
  );
  return h("div", { class: "copyable" }, button, h("pre", { tabindex: "0", "aria-label": label }, text));
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", { value: text }); // no clipboard where the page came over plain http from another machine
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export const empty = (...hint) => h("p", { class: "empty" }, ...hint);
/** Say that a list goes on, with a button that shows more of it; null where it ends. */
export const more = ({ items, next, total }, show) =>
  next === null
    ? null
    : h(
        "p",
        { class: "more" },
        `${number(items.length)} of ${number(total)} are shown. `,
        h("button", { type: "button", class: "quiet", onclick: show }, "Show more"),
      );
export const failure = (error) => h("p", { class: "error", role: "alert" }, String(error.message ?? error));
export const link = (href, text) => h("a", { href }, text);
export const artifactPath = ({ kind, name }) => `/artifacts/${kind}/${name}`;

/** How far a build has come. */
export const progressText = ({ done, total, message }) => (total ? `${done} of ${total}: ${message}` : message);

/** Names and values in boxes. */
export const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );

/** Show something again every so often, unless the page is hidden or somebody is at a link or button of it. */
export function repeatedly(everyMs, host, show) {
  const busy = () => document.activeElement.matches("a, button") && byId(host).contains(document.activeElement);
  const again = async () => {
    if (!document.hidden && !busy()) await show().catch(() => {}); // what went wrong may be over the next time
    setTimeout(again, everyMs);
  };
  setTimeout(again, everyMs);
}

/** Run a page: what goes wrong in it is said where its content would stand. */
export async function page(load) {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // what stands behind "#" is the question asked
    byId("main").focus();
  });
  try {
    await load(byId("main").dataset); // what the server told it: the names in its address
  } catch (error) {
    for (const card of document.querySelectorAll("main > .card")) card.hidden = true;
    document.querySelector("h1").after(failure(error), h("p", {}, link("/", "To the overview")));
    if (error.status === undefined) throw error; // a fault of ours belongs in the browser's console too
  }
}
