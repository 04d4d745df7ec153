// What the pages of all subjects have: where the artifact came from, its versions, its feedback.

import { call, get, query } from "./api.js";
import { ago, empty, facts, failure, fill, h, link, number, table } from "./dom.js";
import { headline, savedFlag } from "./headline.js";

/** Show the facts of an artifact, what it saves, its versions and its feedback; gives its record. */
export async function showArtifact({ solver, name }) {
  const record = await get(`/v1/artifacts/${solver}/${name}`);
  const said = headline(record);
  fill("headline", savedFlag(said), " ", said.text);
  fill(
    "facts",
    facts([
      ["version", number(record.version)],
      ["built", h("time", { datetime: record.created_at, title: record.created_at }, ago(record.created_at))],
      ["dataset", link(`/datasets/${record.dataset}`, record.dataset)],
      ["unit", record.unit],
      ["drift", record.drift.length ? h("span", { class: "flag bad" }, record.drift.join(", ")) : "none seen"],
    ]),
  );
  await Promise.all([showVersions(record), showFeedback(record)]);
  return record;
}

async function showVersions({ solver, name }) {
  const path = `/v1/artifacts/${solver}/${name}`;
  const { items } = await get(`${path}/versions`);
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
    { title: "what its build said", value: headline, show: (said) => said.text },
    {
      title: "",
      key: "active",
      show: (active, row) =>
        active
          ? "answers now"
          : h("button", { type: "button", class: "quiet", onclick: () => activate(row.version) }, "Let it answer"),
    },
  ];
  fill(
    "versions",
    table("the oldest first", columns, items, { records: true }),
    fault,
    summaryOf(items.find((one) => one.active)),
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

async function showFeedback({ solver, name }) {
  const report = await get(`/v1/feedback/${solver}/${name}`);
  if (!report.outcomes) {
    fill(
      "feedback",
      empty(
        "Nothing is told yet. Send what became of decisions to ",
        h("code", {}, "POST /v1/feedback"),
        ": it is held against what was estimated.",
      ),
    );
    return;
  }
  const rows = ["accuracy", "cost", "time"]
    .map((quantity) => ({ quantity, ...report[quantity] }))
    .filter((one) => one.outcomes);
  fill(
    "feedback",
    table(
      `${number(report.outcomes)} outcomes, ${number(report.rows)} rows for a rebuild`,
      [
        { title: "", key: "quantity" },
        { title: "outcomes", key: "outcomes" },
        { title: "estimated", key: "estimated" },
        { title: "came true", key: "realised" },
        { title: "from", key: "low" },
        { title: "to", key: "high" },
        { title: "", key: "drift", show: (drift) => (drift ? h("span", { class: "flag bad" }, "drift") : "") },
      ],
      rows,
    ),
  );
}

/** The path of a request to this artifact: what follows its name, with parameters. */
export const under =
  (base, name) =>
  (what, parameters = {}) =>
    query(`/v1/${base}/${name}/${what}`, parameters);
