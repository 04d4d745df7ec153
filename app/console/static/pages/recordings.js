// Recordings: what is kept, counts of rows, and a dataset of the rows.

import { call, get, query } from "../api.js";
import { coverageTable } from "../coverage.js";
import { confirmDeletion } from "../deletion.js";
import {
  ago, artifactPath, failure, facts, fill, h, link, number, page, percent, quietButton,
} from "../dom.js";
import { listTable } from "../lists.js";

const path = (name) => `/v1/recordings/${name}`;
const megabytes = (bytes) => `${number(bytes / 2 ** 20)} MiB`;

const GROUPS = { hour: "hour of the day (UTC)", label: "label", length: "length of the prompt" };

/** Make the coverage of groups with a choice of what groups them. */
function coverageOf(name, report) {
  const host = h("div", { "aria-live": "polite" });
  const show = async () => {
    try {
      const { coverage } = await get(query(path(name), { coverage_by: choice.value }));
      fill(host, coverageTable(coverage, GROUPS[coverage.by]));
    } catch (error) {
      fill(host, failure(error));
    }
  };
  const options = Object.entries(GROUPS).map(([value, text]) => h("option", { value }, text));
  const choice = h("select", { id: "coverage-by", onchange: show }, options);
  fill(host, coverageTable(report.coverage, GROUPS[report.coverage.by]));
  return [h("div", { class: "field" }, h("label", { for: "coverage-by" }, "Group rows by"), choice), host];
}

async function showReport(name) {
  const report = await get(query(path(name), { coverage_by: "hour" }));
  const [field, result] = [h("input", { id: "dataset", value: `${name}.rows` }), h("div", { role: "status" })];
  const make = async () => {
    try {
      const made = await call("POST", `${path(name)}/dataset`, { json: { dataset: field.value } });
      const unused = Object.entries(made.unused).map(([reason, count]) => `${number(count)} ${reason}`);
      const text = `: ${number(made.rows)} rows of ${number(made.recorded_rows)}. `;
      fill(result, h("p", {}, link(`/datasets/${made.name}`, made.name), text, unused.join("; ")));
    } catch (error) {
      fill(result, failure(error));
    }
  };
  fill(
    "report",
    h("h2", {}, `Recording ${name}`),
    facts([
      ["rows", number(report.rows)],
      ["with truth", number(report.rows_with_truth)],
      ["explored", percent(report.explored_share)],
      ["oldest", report.oldest ?? "none"],
      ["newest", report.newest ?? "none"],
      [`cost of exploration today (${report.unit})`, number(report.explored_cost)],
    ]),
    report.rows ? coverageOf(name, report) : null,
    h("div", { class: "field" }, h("label", { for: "dataset" }, "Name of the dataset"), field),
    h("p", {}, quietButton("Make a dataset", make)),
    result,
  );
}

function deleteRecording({ name }) {
  confirmDeletion({
    what: `recording ${name}`,
    why: "Its rows and truths are deleted on all servers. Datasets that were made of it stay.",
    name,
    act: async () => {
      await call("DELETE", path(name));
      location.reload();
    },
  });
}

const columns = () => [
  { title: "name", key: "name" },
  {
    title: "artifact",
    value: ({ recording }) => recording.artifact,
    show: (artifact) => (artifact ? link(artifactPath(artifact), `${artifact.kind} ${artifact.name}`) : "posted rows"),
  },
  { title: "kept", value: ({ recording }) => recording.sample, show: percent },
  { title: "explored", value: ({ recording }) => recording.explore, show: percent },
  { title: "on disk", key: "bytes", show: megabytes },
  { title: "since", key: "created_at", show: ago },
  { title: "", key: "name", show: (name) => quietButton("Show rows", () => showReport(name)) },
  { title: "", key: "name", show: (name, row) => quietButton("Delete…", () => deleteRecording(row)) },
];
const hint = () => [
  "No recordings yet. Start one: ",
  h("code", {}, "parsimony recordings add NAME KIND/NAME explore=0.1 explore_budget=10"),
];

page(() => listTable({ host: "recordings", path: "/v1/recordings", caption: "All recordings", columns, hint })());
