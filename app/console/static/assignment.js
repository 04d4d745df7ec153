// Assign a file of items to classifiers within a budget.

import { call, curl } from "./api.js";
import { copyable, csv, download, failure, fill, h, number, percent, table } from "./dom.js";

const BINARY = /\.(npy|parquet)$/i;

const unreadable = (message) => Object.assign(new Error(message), { status: 0 });

/** Read embeddings from CSV; a first row with a cell that is not a number has the columns' names. */
function embeddingsOf(text, name) {
  const rows = text.split(/\r?\n/).filter((line) => line.trim()).map((line) => line.split(","));
  const isNumber = (cell) => cell.trim() !== "" && Number.isFinite(Number(cell));
  const body = rows.length && !rows[0].every(isNumber) ? rows.slice(1) : rows;
  if (!body.length) throw unreadable(`${name} has no rows`);
  const wrong = body.findIndex((row) => !row.every(isNumber));
  if (wrong >= 0) throw unreadable(`${name}: row ${wrong + 1} must contain only numbers`);
  return body.map((row) => row.map(Number));
}

/** Make the request: a form with the file, or JSON with the numbers of a CSV file. */
async function requestFor(file, path, limits) {
  if (!BINARY.test(file.name))
    return { method: "POST", path, json: { queries: embeddingsOf(await file.text(), file.name), ...limits } };
  const body = new FormData();
  const constraints = JSON.stringify(limits);
  body.append("queries", file);
  body.append("constraints", constraints);
  return { method: "POST", path, body, form: { queries: `@${file.name}`, constraints } };
}

function summaryOf(reply, unit) {
  const rows = reply.assignments.map((classifier, item) => ({ item, classifier }));
  const columns = [
    { title: "item", key: "item" },
    { title: "classifier", key: "classifier" },
  ];
  const save = () => download("assignments.csv", "text/csv", csv(columns, rows));
  const usage = Object.entries(reply.usage).map(([name, items]) => ({ name, items }));
  const figures =
    `${number(rows.length)} items: ${percent(reply.estimated_accuracy)} expected to be correct, ` +
    `${number(reply.cost)} of ${number(reply.budget)} ${unit}.`;
  return [
    h("p", { "data-items": rows.length }, figures),
    table(
      "Items per classifier",
      [
        { title: "classifier", key: "name" },
        { title: "items", key: "items" },
      ],
      usage,
    ),
    table(
      "Shadow prices of the limits",
      [
        { title: "limit", key: "limit" },
        { title: "bound", value: (one) => one.at_most ?? one.at_least },
        { title: "used", key: "used" },
        { title: "price", key: "price" },
      ],
      reply.prices,
    ),
    h("p", {}, h("button", { type: "button", onclick: save }, "Download the assignments")),
  ];
}

function field(id, title, text, control) {
  const [label, hint] = [h("label", { for: id }, title), h("p", { class: "hint", id: `${id}-hint` }, text)];
  return h("div", { class: "field" }, label, hint, control);
}

/** Make the panel that assigns a batch. */
export function assignmentPanel({ path, unit }) {
  const file = h("input", { id: "items", type: "file", accept: ".npy,.csv,.parquet", required: true });
  const share = { type: "number", min: 0, max: 100, step: "any" };
  const budget = h("input", { id: "share", ...share, value: "50", required: true, "aria-describedby": "share-hint" });
  const floor = h("input", { id: "floor", ...share, placeholder: "none", "aria-describedby": "floor-hint" });
  const outcome = h("div", { "aria-live": "polite" });

  async function assign(event) {
    event.preventDefault();
    const limits = { budget: `${Number(budget.value).toFixed(6)}%` };
    if (floor.value) Object.assign(limits, { goal: "cost", accuracy: { at_least: Number(floor.value) / 100 } });
    try {
      const request = await requestFor(file.files[0], path("assignments"), limits);
      const reply = await call(request.method, request.path, request);
      fill(outcome, summaryOf(reply, unit), request.form ? copyable("Copy curl", curl(request)) : null);
    } catch (error) {
      if (error.status === undefined) throw error;
      fill(outcome, failure(error));
    }
  }

  return [
    h(
      "form",
      { onsubmit: assign },
      h(
        "div",
        { class: "form" },
        field("items", "Items", "CSV, .npy, or Parquet: one embedding per row", file),
        field("share", "Budget (%)", "share of what the most expensive classifier needs for all items", budget),
        field("floor", "Lowest accuracy (%)", "reach it with as little as possible, within the budget", floor),
      ),
      h("button", { type: "submit" }, "Assign"),
    ),
    outcome,
  ];
}
