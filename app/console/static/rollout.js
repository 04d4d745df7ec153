// The panel of a rollout: means of both versions with bounds, evidence, events, and what a person can do.

import { call, get, query } from "./api.js";
import { chart } from "./chart.js";
import { empty, failure, fill, flag, h, number, percent, quietButton, table, timeOf } from "./dom.js";
import { quantityOf } from "./units.js";

const SHARES = new Set(["accuracy", "runs with an answer"]);
const TONES = { promoted: "good", aborted: "bad" };

/** Return the last rollout of an artifact, or null. */
export async function rolloutOf({ kind, name }) {
  const { items } = await get(query("/v1/rollouts", { kind, name }));
  return items[0] ?? null;
}

/** Return the nodes of a rollout. */
export function rolloutPanel(rollout) {
  const { kind, name, rules, status, mode, unit, accuracy, answered, cost, shadow, events } = rollout;
  const fault = h("div");
  const act = (method, path, json) => async () => {
    try {
      await call(method, `/v1/artifacts/${kind}/${name}/${path}`, json ? { json } : {});
      location.reload();
    } catch (error) {
      fill(fault, failure(error));
    }
  };
  const buttons = [
    quietButton(`Promote version ${rules.version}`, act("PUT", "active", { version: rules.version })),
    quietButton("Stop the rollout", act("DELETE", "rollout")),
  ];
  return [
    h(
      "p",
      {},
      `Version ${rules.version}, ${mode} for ${percent(rules.share)} of the items: `,
      flag(status, TONES[status]),
    ),
    shadow.decisions || shadow.errors ? shadowTable(shadow, rollout) : null,
    accuracy.history.length ? accuracyChart(rollout) : empty("No outcomes of both versions yet: send feedback."),
    comparisonTable(rollout, { accuracy, "runs with an answer": answered, [quantityOf(unit)]: cost }),
    events.length ? eventTable(events) : null,
    status === "running" ? h("p", {}, buttons) : null,
    fault,
  ];
}

function accuracyChart({ active_version, rules, accuracy, kind, name }) {
  const { history } = accuracy;
  const points = (value) => history.map((one) => ({ x: one.outcomes, y: value(one) }));
  const clip = (value) => Math.min(Math.max(value, 0), 1);
  return chart({
    title: "Accuracy by number of outcomes",
    hint: "The bounds are those of the candidate: the active version plus the interval of the difference.",
    xTitle: "outcomes of both versions",
    yTitle: "accuracy",
    series: [
      { name: `version ${active_version} (active)`, points: points((one) => one.active), line: true },
      { name: `version ${rules.version} (candidate)`, points: points((one) => one.candidate), line: true },
      { name: "bounds", points: points((one) => clip(one.active + one.interval[0])), line: true, faint: true },
      { points: points((one) => clip(one.active + one.interval[1])), line: true, faint: true },
    ],
    columns: [
      { title: "outcomes", key: "outcomes" },
      { title: "active", key: "active", show: percent },
      { title: "candidate", key: "candidate", show: percent },
      { title: "difference from", value: (one) => one.interval[0], show: percent },
      { title: "to", value: (one) => one.interval[1], show: percent },
    ],
    rows: history,
    whole: true,
    call: { path: `/v1/artifacts/${kind}/${name}/rollout` },
  });
}

function comparisonTable({ active_version, rules }, measures) {
  const rows = Object.entries(measures).map(([quantity, one]) => ({ quantity, ...one }));
  const show = (value, { quantity }) => (SHARES.has(quantity) ? percent(value) : number(value));
  return table(
    "Outcomes of both versions",
    [
      { title: "quantity", key: "quantity" },
      { title: `version ${active_version}`, value: (one) => one.active.mean, show },
      { title: `version ${rules.version}`, value: (one) => one.candidate.mean, show },
      { title: "outcomes", value: (one) => `${number(one.active.outcomes)}, ${number(one.candidate.outcomes)}` },
      { title: "difference", key: "difference", show },
      { title: "95 % from", value: (one) => one.difference_interval?.[0], show },
      { title: "to", value: (one) => one.difference_interval?.[1], show },
      { title: "evidence to promote", key: "promote_evidence" },
      { title: "to abort", key: "abort_evidence" },
    ],
    rows,
    { records: true },
  );
}

function shadowTable(shadow, { active_version, rules }) {
  const columns = [
    { title: "decisions", key: "decisions" },
    { title: "different", key: "differing" },
    { title: "errors", key: "errors" },
    { title: `expected cost of version ${active_version}`, key: "active_cost" },
    { title: `of version ${rules.version}`, key: "candidate_cost" },
  ];
  return table("Shadow decisions", columns, [shadow], { records: true });
}

const eventTable = (events) =>
  table(
    "Events",
    [
      { title: "time", key: "at", show: timeOf },
      { title: "event", key: "event" },
      { title: "by", key: "by" },
      { title: "reason", key: "reason" },
    ],
    events,
    { records: true },
  );
