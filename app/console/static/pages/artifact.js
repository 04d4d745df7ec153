// The page of an artifact of any kind: savings, the trade-off curve, what it does at an operating point, and details.

import { call, get, query } from "../api.js";
import { assignmentPanel } from "../assignment.js";
import { automationOf, automationPanel } from "../automation.js";
import { decisionPanel } from "../decide.js";
import { confirmDeletion } from "../deletion.js";
import {
  ago, byId, copyable, failure, fill, fillSection, flag, h, link, number, page, percent, quietButton, table, timeOf,
  warningsOf,
} from "../dom.js";
import { evaluationPanel } from "../evaluation.js";
import { currentBaseline, moneyHeadline, savingsLine } from "../headline.js";
import { KINDS } from "../kinds.js";
import { listTable } from "../lists.js";
import { rolloutOf, rolloutPanel } from "../rollout.js";
import { tabs } from "../tabs.js";
import { tradeoffChart } from "../tradeoff_chart.js";
import { capitalize, changeOf, hasLoss, perThousand, quantityOf, withInterval } from "../units.js";

const PAUSE_MS = 120;

/** Show the figures of an operating point, and the limits that select it. */
function showPoint({ expected, limits, cost }, { record, curve }) {
  const { unit, savings } = record;
  const today = savings && currentBaseline(savings);
  const { loss = 0 } = expected;
  const bill = today && today.cost + (today.loss ?? 0);
  const { change, range } = bill
    ? changeOf(1 - (cost + loss) / bill, expected.cost_interval?.map((bound) => 1 - (bound + loss) / bill))
    : {};
  const rows = [
    [`${capitalize(quantityOf(unit))} per 1,000 items`, perThousand(cost, unit), { "data-cost": cost }],
    hasLoss(expected)
      ? ["Losses per 1,000 items", withInterval((value) => perThousand(value, unit), loss, expected.loss_interval)]
      : [
          expected.coverage === undefined ? "Correct" : "Correct among answered items",
          withInterval(percent, expected.accuracy, expected.accuracy_interval),
          { "data-accuracy": expected.accuracy },
        ],
    ["Answered", expected.coverage && withInterval(percent, expected.coverage, expected.coverage_interval)],
    ["Compared with today", change && `${change} ${quantityOf(unit)}${range ? ` (${range})` : ""}`],
  ].filter(([, value]) => value);
  fill(
    "point",
    h("h3", {}, "Operating point"),
    h("p", { class: "hint" }, "Drag the point along the curve, or use the arrow keys."),
    h(
      "dl",
      { class: "figures", "aria-live": "polite" },
      rows.flatMap(([name, value, data]) => [h("dt", {}, name), h("dd", data, value)]),
    ),
    h("p", { class: "hint" }, "Setting to send with each request:"),
    copyable("Copy the setting", JSON.stringify(limits)),
    curve.rows ? h("p", { class: "hint" }, rowsText(curve.rows, savings?.rows)) : null,
  );
}

const rowsText = (rows, holdout) =>
  holdout && holdout !== rows
    ? `Expected, from ${number(rows)} rows; the savings above are from ${number(holdout)} holdout rows.`
    : `Expected, from ${number(rows)} rows.`;

async function describePoint(point, about) {
  const { describe } = KINDS[about.record.kind] ?? {};
  const nodes = describe ? await describe(point, about) : [];
  if (about.point === point) fillSection("what", ...[nodes].flat());
}

async function versionsPanel(record) {
  const { kind, name, unit } = record;
  const path = `/v1/artifacts/${kind}/${name}`;
  const [host, fault] = [h("div"), h("div")];
  const activate = async (version) => {
    try {
      await call("PUT", `${path}/active`, { json: { version } });
      location.reload();
    } catch (error) {
      fill(fault, failure(error));
    }
  };
  const activation = (isActive, { version }) =>
    isActive ? flag("active", "good") : quietButton("Activate", () => activate(version));
  const deletion = (list) => (version, row) =>
    quietButton("Delete…", () => deleteVersion(row, list.total), { "aria-label": `Delete version ${version}` });
  const columns = (list) => [
    { title: "version", key: "version" },
    { title: "built", key: "created_at", show: ago },
    { title: "dataset", key: "dataset" },
    { title: "seed", key: "seed" },
    { title: "savings", value: (row) => row.savings?.verdict, show: (_, row) => savingsLine({ ...row, unit }) },
    { title: "", key: "active", show: activation },
    { title: "", key: "version", show: deletion(list) },
  ];
  const details = JSON.stringify({ params: record.params, seed: record.seed, summary: record.summary }, null, 2);
  await listTable({ host, path: `${path}/versions`, caption: "All versions, oldest first", columns })();
  return [
    host,
    fault,
    h("details", {}, h("summary", {}, "Parameters and build summary"), h("pre", { tabindex: "0" }, details)),
    h("p", {}, quietButton("Delete the artifact…", () => deleteArtifact(record))),
  ];
}

function deleteArtifact({ kind, name }) {
  confirmDeletion({
    what: `${kind} ${name}`,
    why: "All versions and their feedback are deleted. A build of this name that is running continues.",
    name,
    act: async () => {
      await call("DELETE", `/v1/artifacts/${kind}/${name}`);
      location.assign("/");
    },
  });
}

function deleteVersion({ kind, name, version, active }, count) {
  const next = count > 1 ? "The highest remaining version becomes active." : "The artifact is deleted with it.";
  confirmDeletion({
    what: `version ${version} of ${name}`,
    why: `The version and its feedback are deleted. ${active ? `It is the active version. ${next}` : ""}`,
    name,
    act: async () => {
      const path = `/v1/artifacts/${kind}/${name}/versions/${version}`;
      await call("DELETE", query(path, { even_active: active || null }));
      if (count > 1) location.reload();
      else location.assign("/");
    },
  });
}

function feedbackPanel(report, unit) {
  const rows = ["accuracy", "coverage", "cost", "time"]
    .map((key) => ({ quantity: key === "cost" ? quantityOf(unit) : key, key, ...report[key] }))
    .filter((one) => one.outcomes);
  const show = (value, { key }) => (["accuracy", "coverage"].includes(key) ? percent(value) : number(value));
  const verdict = (drift, { estimated }) =>
    drift ? flag("drift", "bad") : estimated === null ? "no estimate" : "no drift detected";
  const alarms = [
    { title: "quantity", key: "quantity", show: (value, { classifier }) => classifier ?? value },
    { title: "changed at", key: "changed_at" },
    { title: "detected at outcome", key: "detected" },
    { title: "before", key: "before" },
    { title: "after", key: "after" },
  ];
  return [
    table(
      `${number(report.outcomes)} outcomes, ${number(report.rows)} rows for a rebuild`,
      [
        { title: "quantity", key: "quantity" },
        { title: "outcomes", key: "outcomes" },
        { title: "expected", key: "estimated", show },
        { title: "actual", key: "actual", show },
        { title: "95 % from", key: "low", show },
        { title: "to", key: "high", show },
        { title: "drift", key: "drift", show: verdict },
      ],
      rows,
      { records: true },
    ),
    report.alarms.length ? table("Drift alarms", alarms, report.alarms, { records: true }) : null,
    h(
      "p",
      { class: "hint" },
      "Without a change, the drift detector raises at most one alarm in " +
        `${number(1 / report.false_alarm_rate)} outcomes.`,
    ),
  ];
}

async function showTabs(about) {
  const { record, path, collection } = about;
  const { kind, name, unit } = record;
  const { batches } = KINDS[kind] ?? {};
  const [report, rollout, automation] = await Promise.all([
    get(`/v1/feedback/${kind}/${name}`),
    rolloutOf(record),
    automationOf(record),
  ]);
  const limits = () => about.point?.limits ?? {};
  const showDecide = async () => {
    const panel = await decisionPanel({ record, collection, path, limits });
    about.follow = () => panel.prefill(limits());
    return panel.nodes;
  };
  const items = [
    { id: "decide", title: "Decide for one item", show: showDecide },
    batches ? { id: "batch", title: "Assign a batch", show: () => assignmentPanel({ path, unit }) } : null,
    { id: "evaluate", title: "Evaluate", show: () => evaluationPanel({ path, limits }) },
    report.outcomes ? { id: "feedback", title: "Feedback", show: () => feedbackPanel(report, unit) } : null,
    rollout ? { id: "rollout", title: "Rollout", show: () => rolloutPanel(rollout) } : null,
    automation ? { id: "automation", title: "Automation", show: () => automationPanel(automation) } : null,
    { id: "versions", title: "Versions", show: () => versionsPanel(record) },
  ];
  fill("details", tabs(`Details of ${name}`, items.filter(Boolean)));
}

page(async ({ kind, name, collection }) => {
  const path = (what, parameters = {}) => query(`/v1/${collection}/${name}/${what}`, parameters);
  const record = await get(`/v1/artifacts/${kind}/${name}`);
  byId("question").textContent = KINDS[kind]?.question ?? "";
  fill("money", moneyHeadline(record));
  fill("warnings", warningsOf(record.summary.warnings));
  fill(
    "origin",
    `Version ${record.version}, built `,
    timeOf(record.created_at),
    " from dataset ",
    link(`/datasets/${record.dataset}`, record.dataset),
    ". ",
    record.drift.length ? flag(`drift: ${record.drift.join(", ")}`, "bad") : "",
  );
  const about = { record, path, collection, unit: record.unit, point: null, curve: null };
  let timer = 0;
  const choose = (point) => {
    const isFirst = about.point === null;
    about.point = point;
    showPoint(point, about);
    clearTimeout(timer);
    timer = setTimeout(() => describePoint(point, about), isFirst ? 0 : PAUSE_MS);
    about.follow?.();
  };
  about.curve = await get(path("curve"));
  const made = tradeoffChart(record, about.curve, path, choose);
  fillSection("chart", made);
  await showTabs(about);
});
