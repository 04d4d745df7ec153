import { call as send, curl, get } from "../api.js";
import { showArtifact, under } from "../artifact.js";
import { copyable, csv, download, failure, fill, h, number, page, percent, table } from "../dom.js";
import { figure } from "../figures.js";
import { colours, hover } from "../theme.js";
import { parseCsv } from "../tables.js";

const WORDS = {
  occam: "occam (batches)",
  route: "route (single queries)",
  single_best: "best single classifier",
  random: "random estimates",
  frugal_mct: "random forests (FrugalMCT)",
  oracle: "if the truth were known",
};
const DASH = { occam: "solid", route: "dash", oracle: "dot" };

function accuracyFigure(curve, call) {
  const made = figure({
    title: "Accuracy against budget",
    hint: `on ${number(curve.items)} held-out items, beside what needs no portfolio`,
    call,
    wide: true,
  });
  const rows = curve.curves.flatMap((one) => one.points.map((point) => ({ method: one.method, ...point })));
  return [
    made,
    () => ({
      data: curve.curves.map((one) => ({
        x: one.points.map((point) => point.budget),
        y: one.points.map((point) => point.accuracy),
        mode: "lines+markers",
        name: WORDS[one.method] ?? one.method,
        line: { dash: DASH[one.method] ?? "solid", width: one.method === "occam" ? 3.5 : 1.7 },
        marker: { size: one.method === "occam" ? 7 : 4 },
        hovertemplate: hover`${WORDS[one.method] ?? one.method}: %{y:.1%}<br>for %{x:.4g} ${curve.unit} a query<extra></extra>`,
      })),
      layout: {
        xaxis: { title: { text: `budget of a query (${curve.unit})` } },
        yaxis: { title: { text: "accuracy" }, tickformat: "~%" },
      },
      columns: [
        { title: "method", key: "method" },
        { title: `budget (${curve.unit})`, key: "budget" },
        { title: "accuracy", key: "accuracy" },
        { title: "estimated", key: "estimated_accuracy" },
        { title: `really cost (${curve.unit})`, key: "cost" },
      ],
      rows,
    }),
  ];
}

function usageFigure(curve, call) {
  const made = figure({ title: "Who answers", hint: "the share of queries that each classifier gets", call });
  const { points } = curve.curves.find((one) => one.method === "occam");
  const names = Object.keys(points[0].usage);
  return [
    made,
    () => {
      const colour = colours(names.length);
      return {
        data: names.map((name, at) => ({
          x: points.map((point) => point.budget),
          y: points.map((point) => point.usage[name] / curve.items),
          name,
          stackgroup: "all",
          mode: "lines",
          line: { width: 0.5, color: colour[at] },
          fillcolor: colour[at],
          hovertemplate: hover`${name}: %{y:.1%} of queries<extra></extra>`,
        })),
        layout: {
          xaxis: { title: { text: `budget of a query (${curve.unit})` } },
          yaxis: { title: { text: "share of queries" }, tickformat: "~%", range: [0, 1] },
        },
        columns: [
          { title: `budget (${curve.unit})`, key: "budget" },
          ...names.map((name) => ({ title: name, value: (point) => point.usage[name] })),
        ],
        rows: points,
      };
    },
  ];
}

function priceFigure(curve, call) {
  const made = figure({
    title: "Shadow price",
    hint: "the accuracy that a further unit of cost brings: single queries are routed by it",
    call,
  });
  return [
    made,
    () => ({
      data: [
        {
          x: curve.prices.map((one) => one.budget),
          y: curve.prices.map((one) => one.price),
          mode: "lines",
          line: { shape: "hv" },
          hovertemplate: hover`%{y:.4g} for a further ${curve.unit}<br>at %{x:.4g} ${curve.unit} a query<extra></extra>`,
        },
      ],
      layout: {
        xaxis: { title: { text: `budget of a query (${curve.unit})` } },
        yaxis: { title: { text: `accuracy per ${curve.unit}` }, rangemode: "tozero" },
      },
      columns: [
        { title: `budget (${curve.unit})`, key: "budget" },
        { title: "price", key: "price" },
      ],
      rows: curve.prices,
    }),
  ];
}

/** Say where a table of queries cannot be read: an error for people. */
const unreadable = (what) => Object.assign(new Error(what), { status: 0 });

/** Whether the first row names the columns: some cell is no number, or they are counted as pandas does. */
const namesColumns = (row) =>
  row.some((cell) => cell.trim() === "" || Number.isNaN(Number(cell))) || row.every((cell, at) => cell === String(at));

/** Read queries from a CSV: {queries, headed}. */
function queriesOf(text, name) {
  const rows = parseCsv(text);
  const headed = rows.length > 0 && namesColumns(rows[0]);
  const body = rows.slice(headed ? 1 : 0);
  if (!body.length) throw unreadable(`${name} holds no query`);
  const queries = body.map((row, at) =>
    row.map((cell, column) => {
      const value = cell.trim() === "" ? NaN : Number(cell);
      if (Number.isFinite(value)) return value;
      throw unreadable(`row ${at + 1 + headed} of ${name}, column ${column + 1}: ${JSON.stringify(cell)} is no number`);
    }),
  );
  return { queries, headed };
}

/** Give what assigns a file of queries: the bytes of an .npy as they are, or the numbers of a CSV. */
async function requestOf(file, path, fraction) {
  const method = "POST";
  if (/\.npy$/i.test(file.name)) {
    const headers = { "Content-Type": "application/x-npy" };
    return { method, path: path("assignments", { fraction }), body: file, headers, file: file.name };
  }
  const { queries, headed } = queriesOf(await file.text(), file.name);
  const json = { queries, budget: { fraction: Number(fraction) } };
  return { method, path: path("assignments"), json, headed, file: "assignments-request.json" };
}

/** The request as a command line, its body from a file. */
const commandOf = ({ path, headers, file }) =>
  curl({ method: "POST", path, headers: headers ?? { "Content-Type": "application/json" }, file });

function requestButton({ json, file }) {
  const save = () => download(file, "application/json", JSON.stringify(json));
  return h("button", { type: "button", class: "quiet", onclick: save }, "Download the request");
}

function assignPanel(path, unit) {
  const outcome = h("div", { "aria-live": "polite" });
  const file = h("input", { id: "queries", type: "file", accept: ".npy,.csv", onchange: () => assign() });
  const share = h("input", {
    id: "fraction",
    type: "range",
    min: "0.05",
    max: "1",
    step: "0.01",
    value: "0.5",
    oninput: () => {
      said.textContent = percent(Number(share.value));
    },
    onchange: () => assign(),
  });
  const said = h("output", { for: "fraction" }, percent(0.5));
  let turn = 0;

  async function assign(given = file.files[0]) {
    if (!given) return;
    const mine = ++turn;
    try {
      const request = await requestOf(given, path, share.value);
      const reply = await send(request.method, request.path, request);
      if (mine === turn) fill(outcome, ...summaryOf(reply, request));
    } catch (error) {
      if (error.status === undefined) throw error;
      if (mine === turn) fill(outcome, failure(error));
    }
  }

  function summaryOf(reply, request) {
    const rows = reply.assignments.map((classifier, query) => ({ query, classifier }));
    const columns = [
      { title: "query", key: "query" },
      { title: "classifier", key: "classifier" },
    ];
    return [
      h(
        "p",
        {},
        `${number(rows.length)} queries: ${percent(reply.estimated_accuracy)} expected right for ${number(reply.cost)} of ${number(reply.budget)} ${unit}; ` +
          `no assignment is better by more than ${number(reply.gap)} of its value.`,
        request.headed ? " The first row was taken for the columns' names." : "",
      ),
      table(
        "who answers how many",
        [
          { title: "classifier", key: "name" },
          { title: "queries", key: "count" },
        ],
        Object.entries(reply.usage).map(([name, count]) => ({ name, count })),
      ),
      h(
        "p",
        {},
        h(
          "button",
          { type: "button", onclick: () => download("assignments.csv", "text/csv", csv(columns, rows)) },
          "Download the assignments",
        ),
        " ",
        request.json ? requestButton(request) : null,
      ),
      copyable("Copy curl", commandOf(request)),
    ];
  }

  const element = h(
    "section",
    { class: "card wide", "aria-label": "Assign a batch" },
    h("h3", {}, "Assign a batch"),
    h(
      "div",
      { class: "form" },
      h(
        "div",
        { class: "field" },
        h("label", { for: "queries" }, "Queries"),
        h("p", { class: "hint" }, "a CSV or .npy of embeddings, a row for each query: choose it, or drop it here"),
        file,
      ),
      h(
        "div",
        { class: "field" },
        h("label", { for: "fraction" }, "Budget"),
        h("p", { class: "hint" }, "as a share of what the dearest classifier costs"),
        h("div", { class: "slider" }, share, said),
      ),
    ),
    outcome,
  );
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    file.files = event.dataTransfer.files;
    assign();
  });
  return element;
}

page(async ({ solver, name }) => {
  const path = under("portfolios", name);
  const { unit } = await showArtifact({ solver, name });
  const call = { path: path("curve") };
  const curve = await get(call.path);
  const figures = [accuracyFigure, usageFigure, priceFigure].map((make) => make(curve, call));
  fill(
    "figures",
    figures.map(([one]) => one.element),
    assignPanel(path, unit),
  );
  for (const [one, what] of figures) await one.draw(what);
});
