// Evaluate an artifact on rows that it has not learned from: figures, and whether its confidences are calibrated.

import { call, query } from "./api.js";
import { chart } from "./chart.js";
import { facts, failure, fill, h, number, percent } from "./dom.js";
import { perThousand, quantityOf, withInterval } from "./units.js";

const TABLE = /\.(npy|parquet)$/i;
const TEXTS = new Set(["id", "truth"]);
const NUMBERS = new Set(["size", "weight"]);

const unreadable = (message) => Object.assign(new Error(message), { status: 0 });

/** Read the rows of CSV (RFC 4180): quoted cells may have commas, quotes, and line breaks. */
function rowsOf(text) {
  const rows = [[]];
  for (const [whole, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "") break;
    if (end !== ",") rows.push([]);
    if (!whole) break;
  }
  return rows.filter((row) => row.length > 1 || row[0]?.trim());
}

/** Return a cell as a number, if it is one; labels stay text, and empty cells are unknown. */
function valueOf(name, cell) {
  if (cell.trim() === "") return null;
  return name.endsWith(".label") || !Number.isFinite(Number(cell)) ? cell : Number(cell);
}

function itemOf(names, cells, row) {
  if (cells.length > names.length) throw unreadable(`row ${row + 1} has ${cells.length} cells, the header ${names.length}`);
  const item = { values: {} };
  cells.forEach((cell, at) => {
    const name = names[at];
    if (TEXTS.has(name)) item[name] = cell || null;
    else if (NUMBERS.has(name)) item[name] = valueOf(name, cell);
    else item.values[name] = valueOf(name, cell);
  });
  return item;
}

/** Read items from CSV: columns `id`, `truth`, `size`, `weight`, and the artifact's columns. */
function itemsOf(text) {
  const [names = [], ...rows] = rowsOf(text.replace(/^\uFEFF/, ""));
  return rows.map((cells, row) => itemOf(names, cells, row));
}

async function evaluateFile(file, path, limits) {
  if (!TABLE.test(file.name)) return call("POST", path, { json: { ...limits, items: itemsOf(await file.text()) } });
  const type = file.name.toLowerCase().endsWith(".npy") ? "application/x-npy" : "application/vnd.apache.parquet";
  return call("POST", query(path, limits), { body: file, headers: { "Content-Type": type } });
}

const reliabilityColumns = [
  { title: "items", key: "items" },
  { title: "mean confidence", key: "confidence", show: percent },
  { title: "correct", key: "accuracy", show: percent },
  { title: "95 % from", value: ({ accuracy_interval: [low] }) => low, show: percent },
  { title: "to", value: ({ accuracy_interval: [, high] }) => high, show: percent },
];

function reliabilityOf(bins) {
  if (!bins.length) return h("p", { class: "hint" }, "Reliability needs confidences, and a column truth.");
  const picture = chart({
    title: "Reliability",
    hint: "Accuracy by confidence, in bins of equally many items. Calibrated confidences are on the line.",
    xTitle: "mean confidence",
    yTitle: "correct",
    whole: true,
    series: [
      { name: "calibrated", points: [0, 1].map((x) => ({ x, y: x })), line: true, color: "var(--muted)" },
      {
        name: "evaluated items",
        points: bins.map(({ confidence: x, accuracy: y, items }) => ({
          x,
          y,
          text: `confidence ${percent(x)}, ${percent(y)} correct of ${number(items)} items`,
        })),
      },
    ],
    columns: reliabilityColumns,
    rows: bins,
  });
  picture.querySelector("details").open = true;
  return picture;
}

function summaryOf({ summary, unit }) {
  const known = (value, show) => (value === null || value === undefined ? null : show());
  const pairs = [
    ["Items", number(summary.items)],
    ["Answered", withInterval(percent, summary.coverage, summary.coverage_interval)],
    ["Correct", known(summary.accuracy, () => withInterval(percent, summary.accuracy, summary.accuracy_interval))],
    [
      `${quantityOf(unit)} per 1,000 items`,
      withInterval((value) => perThousand(value, unit), summary.cost, summary.cost_interval),
    ],
    [
      "Losses per 1,000 items",
      known(summary.loss, () => withInterval((value) => perThousand(value, unit), summary.loss, summary.loss_interval)),
    ],
  ];
  return [facts(pairs.filter(([, value]) => value)), reliabilityOf(summary.reliability)];
}

/** Make the panel that evaluates a file; limits() returns those of the operating point. */
export function evaluationPanel({ path, limits }) {
  const file = h("input", { id: "evaluated", type: "file", accept: ".csv,.npy,.parquet", required: true });
  const outcome = h("div", { "aria-live": "polite" });
  async function evaluate(event) {
    event.preventDefault();
    try {
      fill(outcome, ...summaryOf(await evaluateFile(file.files[0], path("evaluate"), limits())));
    } catch (error) {
      if (error.status === undefined) throw error;
      fill(outcome, failure(error));
    }
  }
  const text =
    "CSV, .npy, or Parquet: the columns that decisions take, and truth. Use rows that the artifact has not learned from. " +
    "The limits are those of the operating point.";
  return [
    h(
      "form",
      { onsubmit: evaluate },
      h("div", { class: "field" }, h("label", { for: "evaluated" }, "Complete items"), h("p", { class: "hint" }, text), file),
      h("button", { type: "submit" }, "Evaluate"),
    ),
    outcome,
  ];
}
