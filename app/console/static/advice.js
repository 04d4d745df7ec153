// Advice on a dataset: a form for the limits, the comparison of all kinds, and its result.

import { call, curl, get, getList } from "./api.js";
import { chart, paretoFront } from "./chart.js";
import { byId, copyable, empty, failure, fill, flag, formatValue, h, number, percent, table } from "./dom.js";
import { clearFaults, showFaults } from "./forms.js";
import { savingsLine } from "./headline.js";
import { ADVICE, followBuild, hasEnded, outcomeOf } from "./progress.js";
import { hasLoss, ITEMS, meanTitle, pointText, quantityOf, totalTitle, withInterval } from "./units.js";

const LATEST = 100;
const LIMITS = ["budget", "deadline", "min_accuracy"];
/** Factors from the API to the form, which has accuracy in percent. */
const FACTORS = { budget: 1, deadline: 1, min_accuracy: 100 };
const MARKS = ["circle", "square", "diamond", "triangle"];
const round = (value) => Number(value.toPrecision(12));

/** Show the form, a comparison that is running, and the latest advice. */
export async function showAdvice(info) {
  const { unit } = info.spec;
  byId("budget-hint").textContent = `limit on the ${meanTitle(unit)}`;
  byId("deadline-hint").textContent = `hard limit for each item (${unit})`;
  byId("limits").addEventListener("input", () => showRequest(info.name));
  byId("limits").addEventListener("submit", (event) => {
    event.preventDefault();
    return compare(info.name);
  });
  const [advice, running] = await Promise.all([info.advised ? getAdvice(info.name) : null, runningBuild(info.name)]);
  if (advice) showResult(advice);
  showLimits(running?.params ?? advice ?? {});
  showRequest(info.name);
  if (running) await watch(running);
}

/** Get the latest advice; null if the dataset was replaced. */
const getAdvice = (name) =>
  get(`/v1/advice/${name}`).catch((error) => (error.status === 404 ? null : Promise.reject(error)));

async function runningBuild(name) {
  const { items } = await getList("/v1/builds", {}, LATEST);
  return items.find((one) => one.kind === ADVICE && one.dataset === name && !hasEnded(one));
}

/** Fill the form with limits, unless it was edited meanwhile. */
function showLimits(limits) {
  if (LIMITS.some((name) => byId(name).value !== "")) return;
  for (const name of LIMITS) {
    const value = limits[name] ?? null;
    byId(name).value = value === null ? "" : round(value * FACTORS[name]);
  }
}

function requestOf(name) {
  const filled = LIMITS.filter((limit) => byId(limit).value !== "");
  const limits = filled.map((limit) => [limit, round(Number(byId(limit).value) / FACTORS[limit])]);
  return { method: "POST", path: "/v1/advice", json: { dataset: name, ...Object.fromEntries(limits) } };
}

const showRequest = (name) => fill("request", copyable("Copy curl", curl(requestOf(name))));

const fieldOf = (loc) => LIMITS.find((name) => loc.includes(name)) ?? null;

/** Check a field before it is sent. */
function faultOf({ validity, max }) {
  if (validity.badInput) return "must be a number";
  if (validity.rangeUnderflow) return "must be at least 0";
  return validity.rangeOverflow ? `must be at most ${max}` : null;
}

async function compare(name) {
  const form = byId("limits");
  clearFaults(form);
  const faults = LIMITS.map((limit) => ({ loc: [limit], msg: faultOf(byId(limit)) })).filter(({ msg }) => msg);
  if (faults.length) return showFaults(form, { faults }, fieldOf);
  byId("send").disabled = true;
  fill("outcome");
  try {
    const { method, path, json } = requestOf(name);
    await watch(await call(method, path, { json }));
  } catch (error) {
    if (error.status === undefined) throw error;
    showFaults(form, error, fieldOf);
  } finally {
    byId("send").disabled = false;
  }
}

/** Follow a comparison, and then show its result. */
async function watch(build) {
  byId("send").disabled = true;
  const ended = await followBuild("running", build, { cancel: "Cancel the comparison" });
  byId("send").disabled = false;
  if (ended.status !== "succeeded") return fill("outcome", outcomeOf(ended));
  const advice = await getAdvice(build.dataset);
  if (advice) showResult(advice);
}

function showResult(advice) {
  const summary = h("p", { class: "verdict summary" }, advice.summary);
  fill("advice", summary, recommendation(advice), adviceChart(advice), kindsTable(advice), notesOn(advice));
}

function adviceChart({ kinds, alternatives, budget, min_accuracy: least, unit, dataset }) {
  const pointOf = (name) => (one) => ({
    x: ITEMS * one.cost,
    y: one.accuracy,
    text: pointText(name, one, unit),
  });
  const series = kinds.flatMap(({ kind, points, cost, accuracy, loss }, at) => {
    const look = { color: `var(--c${at % 6})`, shape: MARKS[at % MARKS.length] };
    const own = points.map(pointOf(kind));
    const front = paretoFront(own);
    const chosen = { ...pointOf(`${kind}, chosen setting`)({ cost, accuracy, loss }), label: kind, always: true };
    return [
      { ...look, name: kind, line: true, points: front },
      { ...look, faint: true, points: own.filter((one) => !front.includes(one)) },
      { ...look, points: accuracy === null ? [] : [chosen] },
    ];
  });
  const baselines = alternatives.map((one) => ({ ...pointOf(one.name)(one), label: one.name }));
  const limits = [
    budget === null ? null : { x: ITEMS * budget, text: `budget ${number(budget)} ${unit}` },
    least === null ? null : { y: least, text: `at least ${percent(least)} correct` },
  ];
  const rowsOf = (name, points) => points.map(({ cost, accuracy }) => ({ name, cost, accuracy }));
  return chart({
    title: "What each kind reaches",
    xTitle: totalTitle(unit),
    yTitle: "correct",
    series: [...series, { name: "simple baselines", points: baselines, shape: "cross", color: "var(--muted)" }],
    limits: limits.filter(Boolean),
    columns: [
      { title: "kind or baseline", key: "name" },
      { title: meanTitle(unit), key: "cost" },
      { title: "correct", key: "accuracy" },
    ],
    rows: [
      ...kinds.flatMap((one) => rowsOf(one.kind, one.points)),
      ...alternatives.flatMap((one) => rowsOf(one.name, [one])),
    ],
    call: { path: `/v1/advice/${dataset}` },
  });
}

/** Make a button that builds a kind with the compared settings, under the dataset's name. */
function buildButton({ dataset }, { kind, params }, { label, quiet }) {
  const fault = h("div");
  const button = h("button", { type: "button", class: quiet ? "quiet" : null, onclick: build }, label);
  async function build() {
    button.disabled = true;
    try {
      const json = { kind, name: dataset, dataset, params };
      location.assign(`/builds/${(await call("POST", "/v1/builds", { json })).id}`);
    } catch (error) {
      button.disabled = false;
      fill(fault, failure(error));
    }
  }
  addEventListener("pageshow", () => {
    button.disabled = false; // also after the browser's back button
  });
  return h("div", {}, button, fault);
}

/** Offer to build the recommended kind; a baseline needs no build. */
function recommendation(advice) {
  const best = advice.kinds.find((one) => one.kind === advice.recommended);
  if (best) return buildButton(advice, best, { label: `Build the ${best.kind}` });
  const isBaseline = advice.alternatives.some((one) => one.name === advice.recommended);
  return isBaseline ? h("p", {}, "It is a simple baseline and needs no build.") : null;
}

const VERDICTS = {
  best: "best",
  similar: "no significant difference",
  worse: "significantly worse",
  infeasible: "no setting is within the limits",
};

function kindsTable(advice) {
  const { kinds, unit } = advice;
  if (!kinds.length) return empty("No kind of artifact could be built. The reasons are below.");
  const build = (isFeasible, row) => (isFeasible ? buildButton(advice, row, { label: "Build", quiet: true }) : "");
  const columns = [
    { title: "kind", key: "kind" },
    hasLoss(advice.alternatives[0])
      ? { title: `loss (${unit})`, value: ({ loss }) => number(loss) }
      : { title: "correct", value: (row) => withInterval(percent, row.accuracy, row.accuracy_interval) },
    { title: meanTitle(unit), value: (row) => withInterval(number, row.cost, row.cost_interval) },
    {
      title: "savings",
      value: ({ savings }) => savings?.verdict,
      show: (_, row) => (row.savings ? savingsLine({ ...row, unit }) : "–"),
    },
    { title: "verdict", key: "verdict", show: (verdict) => flag(VERDICTS[verdict], verdict === "best" ? "good" : "") },
    { title: "setting", value: ({ query }) => formatValue(query).replaceAll("_", " ") },
    { title: "", value: (row) => row.verdict !== "infeasible", show: build },
  ];
  return table("Kinds of artifacts, best first, with 95 % intervals", columns, kinds, { records: true });
}

/** List the kinds that were not built, and the rows that the figures are from. */
function notesOn({ excluded, rows, unit }) {
  const reasons = excluded.map(({ kind, reason }) => h("li", {}, h("strong", {}, kind), `: ${reason}`));
  return [
    excluded.length ? [h("h3", {}, "Not built"), h("ul", {}, reasons)] : null,
    h(
      "p",
      { class: "hint" },
      `Figures are from ${number(rows.holdout)} holdout rows; ${number(rows.training)} training rows and ` +
        `${number(rows.validation)} validation rows chose the settings. The ${quantityOf(unit)} is a mean per item.`,
    ),
  ].flat();
}
