// A batch of queries that is assigned: within a budget, capacities and a floor by sliders, and what these cost.

import { call as send, curl } from "./api.js";
import { copyable, csv, download, failure, fill, h, number, percent, table } from "./dom.js";
import { figure } from "./figures.js";
import { requestOf } from "./queries.js";
import { hover } from "./theme.js";

/** A slider of shares. said(value): what its value means; on: called when it comes to rest. */
function slider({ id, label, hint, value, min = 0, max = 1, said, on }) {
  const output = h("output", { for: id }, said(value));
  const range = h("input", {
    id,
    type: "range",
    min: String(min),
    max: String(max),
    step: "0.01",
    value: String(value),
    oninput: () => {
      output.textContent = said(Number(range.value));
    },
    onchange: on,
  });
  const element = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    h("p", { class: "hint" }, hint),
    h("div", { class: "slider" }, range, output),
  );
  return { element, value: () => Number(range.value) };
}

/** The limits that sliders ask for: {element, asked()}. */
function limitsForm(classifiers, on) {
  const budget = slider({
    id: "fraction",
    label: "Budget",
    hint: "as a share of what the dearest classifier costs",
    value: 0.5,
    min: 0.05,
    said: percent,
    on,
  });
  const floor = slider({
    id: "floor",
    label: "Floor of accuracy",
    hint: "at the least cost; the budget is then the most that it may be",
    value: 0,
    said: (value) => (value ? percent(value) : "none"),
    on,
  });
  const capacities = classifiers.map((name, at) =>
    slider({
      id: `capacity-${at}`,
      label: `At most for ${name}`,
      hint: "the share of queries that it may answer",
      value: 1,
      said: (value) => (value < 1 ? percent(value) : "all"),
      on,
    }),
  );
  const limited = () =>
    classifiers.map((name, at) => [name, capacities[at].value()]).filter(([, share]) => share < 1);
  return {
    element: h(
      "div",
      { class: "form" },
      [budget, floor].map((one) => one.element),
      h("details", {}, h("summary", {}, "Capacities"), capacities.map((one) => one.element)),
    ),
    asked() {
      const asked = { budget: `${(100 * budget.value()).toFixed(6)}%` };
      if (floor.value()) Object.assign(asked, { goal: "cost", accuracy: { at_least: floor.value() } });
      const classifiers = Object.fromEntries(limited().map(([name, share]) => [name, { at_most: { share } }]));
      return limited().length ? { ...asked, classifiers } : asked;
    },
  };
}

/** The command line of a request, its body from a file or in parts. */
const commandOf = ({ path, file, form }) =>
  curl({ method: "POST", path, headers: form ? {} : { "Content-Type": "application/json" }, file, form });

function requestButton({ json, file }) {
  const save = () => download(file, "application/json", JSON.stringify(json));
  return h("button", { type: "button", class: "quiet", onclick: save }, "Download the request");
}

/** What a hundredth more of each limit would bring, in right answers or in the unit of costs. */
function pricesFigure(reply, unit, isCost) {
  const what = isCost ? `${unit} less` : "right answers more";
  const rows = reply.prices.map((one) => {
    const bound = one.at_most ?? one.at_least;
    return { limit: one.limit, bound, used: one.used, price: one.price, more: 0.01 * bound * one.price };
  });
  const made = figure({ title: "What the limits cost", hint: `what a hundredth more room in each would bring: ${what}` });
  const draw = () =>
    made.draw(() => ({
      data: [
        {
          type: "bar",
          orientation: "h",
          y: rows.map((row) => row.limit),
          x: rows.map((row) => row.more),
          hovertemplate: hover`%{y}: %{x:.4g} ${what}<extra></extra>`,
        },
      ],
      layout: { xaxis: { title: { text: what }, rangemode: "tozero" }, yaxis: { automargin: true } },
      columns: [
        { title: "limit", key: "limit" },
        { title: "bound", key: "bound" },
        { title: "used", key: "used" },
        { title: "price of one more", key: "price" },
        { title: `a hundredth more (${what})`, key: "more" },
      ],
      rows,
    }));
  return { element: made.element, draw };
}

const cameTo = (reply, unit) =>
  `${percent(reply.estimated_accuracy)} expected right for ${number(reply.cost)} ${unit}`;

/** Say what capacities cost: what the batch would come to without them. */
const freeSentence = (free, unit) => h("p", {}, `Without the capacities: ${cameTo(free, unit)}.`);

function summaryOf(reply, request, unit) {
  const rows = reply.assignments.map((classifier, query) => ({ query, classifier }));
  const columns = [
    { title: "query", key: "query" },
    { title: "classifier", key: "classifier" },
  ];
  const names = [
    { title: "classifier", key: "name" },
    { title: "queries", key: "count" },
  ];
  const usage = Object.entries(reply.usage).map(([name, count]) => ({ name, count }));
  const save = () => download("assignments.csv", "text/csv", csv(columns, rows));
  return [
    h(
      "p",
      {},
      `${number(rows.length)} queries: ${percent(reply.estimated_accuracy)} expected right for ${number(reply.cost)} of ${number(reply.budget)} ${unit}; ` +
        `no assignment is better by more than ${number(reply.gap)} of its value.`,
      request.headed ? " The first row was taken for the columns' names." : "",
    ),
    table("who answers how many", names, usage),
    h(
      "p",
      {},
      h("button", { type: "button", onclick: save }, "Download the assignments"),
      " ",
      request.json ? requestButton(request) : null,
    ),
    copyable("Copy curl", commandOf(request)),
  ];
}

/** The panel that assigns a batch. path: of the portfolio's routes. */
export function assignPanel({ path, unit, classifiers }) {
  const outcome = h("div", { "aria-live": "polite" });
  const file = h("input", { id: "queries", type: "file", accept: ".npy,.csv,.parquet", onchange: () => assign() });
  const limits = limitsForm(classifiers, () => assign());
  let turn = 0;

  const ask = async (given, asked) => {
    const request = await requestOf(given, path("assignments"), asked);
    return [await send(request.method, request.path, request), request];
  };

  async function assign(given = file.files[0]) {
    if (!given) return;
    const mine = ++turn;
    try {
      const asked = limits.asked();
      const [reply, request] = await ask(given, asked);
      const free = asked.classifiers ? (await ask(given, { ...asked, classifiers: {} }))[0] : null;
      if (mine !== turn) return;
      const prices = reply.prices.length > 1 ? pricesFigure(reply, unit, asked.goal === "cost") : null;
      fill(outcome, ...summaryOf(reply, request, unit), free && freeSentence(free, unit), prices?.element);
      await prices?.draw();
    } catch (error) {
      if (error.status === undefined) throw error;
      if (mine === turn) fill(outcome, failure(error));
    }
  }

  const element = h(
    "section",
    { class: "card wide", "aria-label": "Assign a batch" },
    h("h3", {}, "Assign a batch"),
    h(
      "div",
      { class: "field" },
      h("label", { for: "queries" }, "Queries"),
      h("p", { class: "hint" }, "a CSV, .npy or Parquet of embeddings, a row for each query: choose it, or drop it here"),
      file,
    ),
    limits.element,
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
