// What the pages of all kinds have: where the artifact came from, its versions, its feedback, and its end.

import { call, get, listed, query } from "./api.js";
import { askToDelete } from "./deletion.js";
import { ago, empty, facts, failure, fill, h, link, more, number, percent, table, warningsOf } from "./dom.js";
import { headline, savingsFigure } from "./headline.js";

/** Show the facts of an artifact, what it saves, its versions and its feedback; gives its record. */
export async function showArtifact({ kind, name }) {
  const record = await get(`/v1/artifacts/${kind}/${name}`);
  const dataset = h("span", {}, link(`/datasets/${record.dataset}`, record.dataset));
  fill("headline", headline(record));
  fill("warnings", warningsOf(record.summary.warnings));
  fill(
    "facts",
    facts([
      ["version", number(record.version)],
      ["built", h("time", { datetime: record.created_at, title: record.created_at }, ago(record.created_at))],
      ["dataset", dataset],
      ["unit", record.unit],
      ["drift", record.drift.length ? h("span", { class: "flag bad" }, record.drift.join(", ")) : "none seen"],
    ]),
  );
  const savings = savingsFigure(record);
  fill("savings", savings?.element);
  const info = datasetOf(record).then((there) => there ?? fill(dataset, `${record.dataset} (deleted)`));
  await Promise.all([info, savings?.draw(), showVersions(record), showFeedback(record)]);
  fill("delete", h("button", { type: "button", class: "quiet", onclick: () => deleteAll(record) }, "Delete it all…"));
  return record;
}

const asked = new Map();

/** Give what is known of the dataset that an artifact was built from; null if it has been deleted. Asked once. */
export function datasetOf({ dataset }) {
  const ask = () =>
    get(`/v1/datasets/${dataset}`).catch((error) => ([404, 422].includes(error.status) ? null : Promise.reject(error)));
  if (!asked.has(dataset)) asked.set(dataset, ask());
  return asked.get(dataset);
}

const MANY = 100;

function deleteAll({ kind, name }) {
  askToDelete({
    what: `${kind} ${name}`,
    why: "All its versions and what was told of its decisions go for good, and it answers no more. A build of this name that is under way is not cancelled.",
    name,
    act: async () => {
      await call("DELETE", `/v1/artifacts/${kind}/${name}`);
      location.assign("/");
    },
  });
}

function deleteVersion({ kind, name, version, active }, count) {
  const rest = count > 1 ? "Then the highest version that remains answers." : "It is the only one: the artifact goes.";
  askToDelete({
    what: `version ${version} of ${name}`,
    why: `It goes for good, with what was told of its decisions. ${active ? `It is the one that answers now. ${rest}` : ""}`,
    name,
    act: async () => {
      const path = `/v1/artifacts/${kind}/${name}/versions/${version}`;
      await call("DELETE", query(path, { even_active: active || null }));
      if (count > 1) location.reload();
      else location.assign("/");
    },
  });
}

async function showVersions(record, wanted = MANY) {
  const { kind, name } = record;
  const path = `/v1/artifacts/${kind}/${name}`;
  const list = await listed(`${path}/versions`, {}, wanted);
  const fault = h("div");
  const activate = async (version) => {
    try {
      await call("PUT", `${path}/active`, { json: { version } });
      location.reload();
    } catch (error) {
      fill(fault, failure(error));
    }
  };
  const columns = [
    { title: "version", key: "version" },
    { title: "built", key: "created_at", show: ago },
    { title: "dataset", key: "dataset" },
    { title: "seed", key: "seed" },
    { title: "savings", value: (row) => row.savings?.headline, show: (said) => said ?? "not measured" },
    {
      title: "",
      key: "active",
      show: (active, row) =>
        active
          ? "answers now"
          : h("button", { type: "button", class: "quiet", onclick: () => activate(row.version) }, "Let it answer"),
    },
    {
      title: "",
      key: "version",
      show: (version, row) =>
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-label": `Delete version ${version}`,
            onclick: () => deleteVersion(row, list.total),
          },
          "Delete…",
        ),
    },
  ];
  fill(
    "versions",
    table("the oldest first", columns, list.items, { most: Infinity, records: true }),
    more(list, () => showVersions(record, list.items.length + MANY)),
    fault,
    summaryOf(record),
  );
}

function summaryOf(record) {
  const text = JSON.stringify({ params: record.params, seed: record.seed, summary: record.summary }, null, 2);
  return h(
    "details",
    {},
    h("summary", {}, "Parameters and all that the build found"),
    h("pre", { tabindex: "0" }, text),
  );
}

/** Show after how many outcomes falls of accuracy raise an alarm. */
function seenAfter({ detects }) {
  if (!detects.length) return null;
  const words = detects.map(({ drop, outcomes }) => {
    const points = `a drop of ${number(100 * drop)} points`;
    return outcomes === null
      ? `${points} may stay undetected: the reference itself is uncertain by as much`
      : `${points} raises an alarm after about ${number(outcomes)} outcomes`;
  });
  return h("p", { class: "hint" }, `Of accuracy, nine times in ten: ${words.join("; ")}.`);
}

/** List drift alarms, each with its estimated change point. */
function alarmsOf({ alarms }) {
  if (!alarms.length) return null;
  return table(
    "Drift alarms",
    [
      { title: "quantity", key: "quantity", show: (value, { classifier }) => classifier ?? value },
      { title: "changed at", key: "changed_at" },
      { title: "from outcome", key: "change_point", show: number },
      { title: "detected at outcome", key: "detected", show: number },
      { title: "before", key: "before", show: number },
      { title: "after", key: "after", show: number },
    ],
    alarms,
    { records: true },
  );
}

/** Explain the interval and the alarm, which may seem to contradict each other. */
const howJudged = ({ false_alarm_rate: rate }) =>
  h(
    "p",
    { class: "hint" },
    "The interval is of all outcomes so far. The drift detector compares recent outcomes with the promise and with what " +
      "came before, at every possible change point. Where nothing changes it raises at most one alarm in " +
      `${number(1 / rate)} outcomes.`,
  );

async function showFeedback({ kind, name }) {
  const report = await get(`/v1/feedback/${kind}/${name}`);
  if (!report.outcomes) {
    fill(
      "feedback",
      empty(
        "Nothing is told yet. Send what became of decisions to ",
        h("code", {}, "POST /v1/feedback"),
        ": it is held against what was estimated.",
      ),
      seenAfter(report),
    );
    return;
  }
  const rows = ["accuracy", "coverage", "cost", "time"]
    .map((quantity) => ({ quantity, ...report[quantity] }))
    .filter((one) => one.outcomes);
  const share = (value, { quantity }) => (["accuracy", "coverage"].includes(quantity) ? percent(value) : number(value));
  fill(
    "feedback",
    table(
      `${number(report.outcomes)} outcomes, ${number(report.rows)} rows for a rebuild`,
      [
        { title: "", key: "quantity" },
        { title: "outcomes", key: "outcomes" },
        { title: "estimated", key: "estimated", show: share },
        { title: "came true", key: "actual", show: share },
        { title: "95 % from", key: "low", show: share },
        { title: "to", key: "high", show: share },
        { title: "verdict", key: "drift", show: verdict },
      ],
      rows,
      { records: true },
    ),
    alarmsOf(report),
    seenAfter(report),
    howJudged(report),
  );
}

const verdict = (drift, { estimated }) => {
  if (drift) return h("span", { class: "flag bad" }, "drift");
  return estimated === null ? "nothing was estimated" : "no drift seen so far";
};

/** The path of a request to this artifact: what follows its name, with parameters. */
export const under =
  (base, name) =>
  (what, parameters = {}) =>
    query(`/v1/${base}/${name}/${what}`, parameters);
