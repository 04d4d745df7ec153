// Datasets: the list, and the upload with a preview and a drafted spec.

import { call } from "../api.js";
import { byId, empty, failure, fill, h, link, number, page, table } from "../dom.js";
import { clearFaults, showFaults, submitForm } from "../forms.js";
import { listTable } from "../lists.js";
import { prepareImport } from "../log_import.js";

const HEAD_BYTES = 256 * 1024;
const NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const WRONG_NAME = "must have 1 to 63 lower-case letters, digits, '.', '_', or '-', and start with a letter or digit";
let draft = null;
let draftedSpec = "";

const columns = [
  { title: "name", key: "name", show: (name) => link(`/datasets/${name}`, name) },
  { title: "kind", value: (row) => row.spec.kind },
  { title: "rows", key: "rows" },
  { title: "classes", value: (row) => row.classes.length },
  { title: "unit", value: (row) => row.spec.unit },
  { title: "", key: "name", show: (name) => link(`/builds#dataset=${name}`, "build from it") },
];

const showList = listTable({
  host: "list",
  path: "/v1/datasets",
  caption: "By name",
  columns: () => columns,
  hint: () => ["There are no datasets yet. Store a trace of your classifiers, or a feature table, below."],
});

function showDraft() {
  draftedSpec = JSON.stringify(draft.spec, null, 1);
  byId("spec").value = draftedSpec;
}

const isParquet = (file) => /\.parquet$/i.test(file.name);
const isLines = (file) => /\.(jsonl|ndjson)(\.gz)?$/i.test(file.name);
const typeOf = (file) =>
  isParquet(file) ? "application/vnd.apache.parquet" : isLines(file) ? "application/jsonl" : "text/csv";

/** Request a draft of the spec; for CSV and JSON Lines from the first lines. */
async function requestDraft(file) {
  const isWhole = isParquet(file) || /\.gz$/i.test(file.name) || file.size <= HEAD_BYTES;
  const part = isWhole ? file : (await file.slice(0, HEAD_BYTES).text()).replace(/\n[^\n]*$/, "\n");
  return call("POST", "/v1/drafts", { body: new Blob([part], { type: typeOf(file) }) });
}

async function showPreview() {
  const file = byId("table").files[0];
  draft = null;
  fill("preview");
  if (!file) return;
  draft = await requestDraft(file);
  fill("preview", [
    table(
      `First rows of ${file.name}, ${number(file.size)} bytes`,
      draft.columns.map((title, at) => ({ title, value: (row) => row[at] })),
      draft.rows,
    ),
    draft.guesses.length ? empty(`Guessed: ${draft.guesses.join("; ")}.`) : null,
    draft.columns.length === 1 ? empty("Only one column was found. Separate columns by commas.") : null,
  ]);
  if ([draftedSpec, ""].includes(byId("spec").value)) showDraft(); // keep a spec that was edited
}

const MAX_TABLE_BYTES = 500 * 2 ** 20;
const TOO_LARGE = "must have at most 500 MiB; store larger tables with the command `parsimony dataset add`";
const OF_SPEC = ["kind", "label", "unit", "size", "features", "classifiers", "categorical", "missing", "json"];

/** Return the id of the field that an error of the API concerns. */
function fieldOf(loc) {
  const first = loc[0] === "body" ? loc[1] : loc[0];
  if (["name", "path"].includes(first)) return "name";
  if (["spec", "table", "embeddings"].includes(first)) return first;
  return OF_SPEC.includes(loc[0]) ? "spec" : "table";
}

async function store(event) {
  event.preventDefault();
  const form = byId("store");
  clearFaults(form);
  const name = byId("name").value.trim();
  if (!NAME.test(name)) return showFaults(form, { faults: [{ loc: ["name"], msg: WRONG_NAME }] }, fieldOf);
  const body = new FormData();
  body.append("spec", byId("spec").value);
  const file = byId("table").files[0];
  if (file?.size > MAX_TABLE_BYTES) return showFaults(form, { faults: [{ loc: ["table"], msg: TOO_LARGE }] }, fieldOf);
  if (file) body.append("table", new File([file], file.name, { type: typeOf(file) }));
  if (byId("embeddings").files[0]) body.append("embeddings", byId("embeddings").files[0]);
  const send = async () => {
    const info = await call("PUT", `/v1/datasets/${name}`, { body });
    await showList();
    const build = link(`/builds#dataset=${info.name}`, "build from it");
    const links = [link(`/datasets/${info.name}`, "Show it"), ", ", build];
    return h("p", { class: "empty", "data-rows": info.rows }, `Stored ${number(info.rows)} rows. `, links);
  };
  await submitForm(form, { button: "send", result: "stored", fieldOf, send });
}

page(async () => {
  const preview = () => showPreview().catch((error) => fill("preview", failure(error)));
  byId("table").addEventListener("change", preview);
  byId("store").addEventListener("submit", store);
  await Promise.all([preview(), showList(), prepareImport(showList)]); // browsers may restore a chosen file
});
