// Which method fits a dataset: a form for what matters, the job that compares them, and what it found.

import { call, curl, get, listed } from "./api.js";
import { adviceFigure } from "./curves.js";
import { byId, copyable, empty, failure, fill, h, number, percent, table, worded } from "./dom.js";
import { clearFaults, showFaults } from "./forms.js";
import { ADVICE, followBuild, hasEnded, outcomeOf } from "./progress.js";

const LATEST = 100;
const LIMITS = ["budget", "deadline", "min_accuracy"];
/** How the form writes a limit, as a multiple of how the API does: accuracy in per cent. */
const TIMES = { budget: 1, deadline: 1, min_accuracy: 100 };
const round = (value) => Number(value.toPrecision(12));

/** Show the panel of a dataset: its form, a comparison that is under way, and the latest advice if there is some. */
export async function showAdvice(info) {
  for (const place of document.querySelectorAll("#limits [data-unit]")) place.textContent = `(${info.spec.unit})`;
  byId("limits").addEventListener("input", () => showRequest(info.name));
  byId("limits").addEventListener("submit", (event) => {
    event.preventDefault();
    return compare(info.name);
  });
  const [advice, underWay] = await Promise.all([info.advised ? adviceOn(info.name) : null, jobOn(info.name)]);
  if (advice) await showFindings(advice);
  showLimits(underWay?.params ?? advice ?? {});
  showRequest(info.name);
  if (underWay) await watch(underWay);
}

/** Give the latest advice; null if the dataset was replaced in this moment. */
const adviceOn = (name) =>
  get(`/v1/advice/${name}`).catch((error) => (error.status === 404 ? null : Promise.reject(error)));

/** Give the comparison of a dataset's methods that is under way, if there is one. */
async function jobOn(name) {
  const { items } = await listed("/v1/builds", {}, LATEST);
  return items.find((one) => one.kind === ADVICE && one.dataset === name && !hasEnded(one));
}

/** Fill the form with limits, unless somebody has begun to write while they were on their way. */
function showLimits(limits) {
  if (LIMITS.some((name) => byId(name).value !== "")) return;
  for (const name of LIMITS) byId(name).value = limits[name] == null ? "" : round(limits[name] * TIMES[name]);
}

function requestOf(name) {
  const filled = LIMITS.filter((limit) => byId(limit).value !== "");
  const limits = filled.map((limit) => [limit, round(Number(byId(limit).value) / TIMES[limit])]);
  return { method: "POST", path: "/v1/advice", json: { dataset: name, ...Object.fromEntries(limits) } };
}

const showRequest = (name) => fill("request", copyable("Copy curl", curl(requestOf(name))));

/** Say which field of the form a fault of the API concerns. */
const fieldOf = (loc) => LIMITS.find((name) => loc.includes(name)) ?? null;

/** Say what is wrong with a field before it is sent; accuracy is in per cent here, which the API knows nothing of. */
function faultOf({ validity, max }) {
  if (validity.badInput) return "this is no number";
  if (validity.rangeUnderflow) return "this must not be below 0";
  return validity.rangeOverflow ? `this must not be above ${max}` : null;
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

/** Show a comparison until it has ended, and then what it found. */
async function watch(job) {
  byId("send").disabled = true;
  const ended = await followBuild("under-way", job, { cancel: "Cancel the comparison" });
  byId("send").disabled = false;
  if (ended.status !== "succeeded") return fill("outcome", outcomeOf(ended));
  const advice = await adviceOn(job.dataset);
  if (advice) await showFindings(advice);
}

async function showFindings(advice) {
  const { element, draw } = adviceFigure(advice);
  const sentence = h("p", { class: "sentence" }, advice.summary);
  fill("advice", sentence, takenOf(advice), element, methodsOf(advice), restOf(advice));
  await draw();
}

/** Make a button that builds a method, under the dataset's name, with the settings that were compared. */
function buildButton({ dataset }, { kind, params }, { label, quiet }) {
  const fault = h("div");
  const button = h("button", { type: "button", class: quiet ? "quiet" : null, onclick: build }, label);
  async function build() {
    button.disabled = true;
    try {
      const asked = { kind, name: dataset, dataset, params };
      location.assign(`/builds/${(await call("POST", "/v1/builds", { json: asked })).id}`);
    } catch (error) {
      button.disabled = false;
      fill(fault, failure(error));
    }
  }
  addEventListener("pageshow", () => {
    button.disabled = false;
  }); // also when one comes back to the page
  return h("div", {}, button, fault);
}

/** Offer to build what is to be taken; a simple alternative needs no build. */
function takenOf(advice) {
  const taken = advice.kinds.find((one) => one.kind === advice.recommended);
  if (taken) return buildButton(advice, taken, { label: `Build the ${taken.kind}` });
  const simple = advice.alternatives.some((one) => one.name === advice.recommended);
  return simple ? h("p", {}, "It is one of the simple baselines below, and needs no build.") : null;
}

/** Write a figure with where it lies; what stands for its unit is said once. */
function withInterval(show, value, interval) {
  if (value === null || interval === null) return show(value);
  const [low, high] = interval.map((one) => show(one).replace(" %", ""));
  return `${show(value)} (${low} to ${high})`;
}

const VERDICTS = {
  best: "best",
  similar: "no significant difference",
  worse: "significantly worse",
  infeasible: "no setting is within these limits",
};

function methodsOf(advice) {
  if (!advice.kinds.length) return empty("No artifact kind could be built. The reasons are below.");
  const columns = [
    { title: "kind", key: "kind" },
    { title: "correct", value: (row) => withInterval(percent, row.accuracy, row.accuracy_interval) },
    { title: `cost (${advice.unit})`, value: (row) => withInterval(number, row.cost, row.cost_interval) },
    { title: "savings", value: ({ savings }) => savings?.headline ?? "–" },
    { title: "verdict", key: "verdict", show: verdictOf },
    { title: "query", value: ({ query }) => worded(query).replaceAll("_", " ") },
    { title: "", value: (row) => row.verdict !== "infeasible", show: (able, row) => (able ? quietBuild(advice, row) : "") },
  ];
  return table("artifact kinds, best first; in brackets 95 % confidence intervals", columns, advice.kinds, { records: true });
}

const verdictOf = (verdict) => h("span", { class: verdict === "best" ? "flag good" : "flag" }, VERDICTS[verdict]);

const quietBuild = (advice, row) => buildButton(advice, row, { label: "Build it", quiet: true });

/** Say what was left out, and which rows the figures are from. */
function restOf({ excluded, rows, unit }) {
  const why = excluded.map(({ kind, reason }) => h("li", {}, h("strong", {}, kind), `: ${reason}`));
  return [
    excluded.length ? [h("h3", {}, "Not built"), h("ul", {}, why)] : null,
    h(
      "p",
      { class: "hint" },
      `All figures are from ${number(rows.holdout)} holdout rows. Everything was built from ` +
        `${number(rows.training)} training rows; ${number(rows.validation)} validation rows chose the settings. ` +
        `Costs are means per item, in ${unit}.`,
    ),
  ].flat();
}
