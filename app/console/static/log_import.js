// The import of a log of model calls as a dataset, and what was used of it.

import { call, get } from "./api.js";
import { coverageTable } from "./coverage.js";
import { byId, empty, fill, h, link, number, percent, table } from "./dom.js";
import { clearFaults, submitForm } from "./forms.js";

const PARTS = { log: "log-file", feedback: "log-feedback", prices: "log-prices" };
const FIELDS = { name: "log-name", path: "log-name", embedder: "log-embedder", unit: "log-unit", format: "log-format" };

/** Return the id of the field that an error of the API concerns. */
const fieldOf = (loc) => FIELDS[loc.at(-1)] ?? PARTS[loc[0]] ?? PARTS.log;

/** Offer the registered embedders. */
async function listEmbedders() {
  const { items } = await get("/v1/endpoints?limit=1000");
  const names = items.filter(({ endpoint }) => endpoint.protocol === "openai-embeddings").map(({ name }) => name);
  byId("log-embedder").append(...names.map((name) => h("option", { value: name }, name)));
}

function formOf() {
  const body = new FormData();
  for (const [part, id] of Object.entries(PARTS)) {
    const file = byId(id).files[0];
    if (file) body.append(part, file);
  }
  const [unit, format, embedder] = ["log-unit", "log-format", "log-embedder"].map((id) => byId(id).value.trim() || null);
  const options = { unit: unit ?? "USD", format, embedder };
  body.append("options", new Blob([JSON.stringify(options)], { type: "application/json" }));
  return body;
}

/** Show what was used of a log, and which prompts each model answered. */
function resultOf(made) {
  const unit = made.spec.unit;
  const unused = Object.entries(made.unused).map(([reason, count]) => `${number(count)} records not used: ${reason}`);
  if (made.shortened_calls) {
    const which = `${number(made.shortened_calls)} calls are embedded by their last user message only`;
    unused.push(`${which}; to include earlier turns, set conversation in an import over HTTP`);
  }
  const columns = [
    { title: "model", key: "name" },
    { title: "calls", key: "calls" },
    { title: "mean outcome", key: "mean_outcome", show: percent },
    { title: `mean cost (${unit})`, key: "mean_cost" },
  ];
  const cost = made.embedding_cost;
  return [
    h("p", { "data-rows": made.rows }, `${number(made.calls)} of ${number(made.records)} records used: `,
      `${number(made.rows)} rows. `, link(`/datasets/${made.name}`, "Show the dataset"), ", ",
      link(`/builds#dataset=${made.name}`, "build from it")),
    unused.length ? empty(unused.join("; ")) : null,
    cost === null ? null : empty(`Embeddings cost ${number(cost)} at the endpoint's prices.`),
    table("Calls by model", columns, [...made.models, allCalls(made.models)]),
    coverageTable(made.coverage, "length of the prompt"),
  ];
}

/** Return what the log's own mix of models paid per call. */
function allCalls(models) {
  const calls = models.reduce((sum, one) => sum + one.calls, 0);
  const mean = (key) => models.reduce((sum, one) => sum + one.calls * one[key], 0) / calls;
  return { name: "all calls", calls, mean_outcome: mean("mean_outcome"), mean_cost: mean("mean_cost") };
}

async function importLog(event, showList) {
  event.preventDefault();
  const form = byId("import");
  clearFaults(form);
  fill("imported", empty("The log is read; embeddings of many prompts take minutes."));
  const send = async () => {
    const name = encodeURIComponent(byId("log-name").value.trim());
    const made = await call("PUT", `/v1/datasets/${name}/calls`, { body: formOf() });
    await showList();
    return resultOf(made);
  };
  await submitForm(form, { button: "import-log", result: "imported", fieldOf, send });
}

/** Prepare the form; showList shows the datasets. */
export async function prepareImport(showList) {
  byId("import").addEventListener("submit", (event) => importLog(event, showList));
  await listEmbedders();
}
