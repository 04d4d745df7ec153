import { call, listed } from "../api.js";
import { byId, empty, failure, fill, h, link, more, number, page, table } from "../dom.js";
import { clearFaults, showFaults } from "../forms.js";

const HEAD = 256 * 1024;
const MANY = 100;
const NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/; // as the API has it; other names are no path of it
const WRONG_NAME = "must be lower-case letters, digits, '.', '_' or '-', at most 63, the first a letter or digit";
let shown = null;
let drafted = "";

const columns = [
  { title: "name", key: "name", show: (name) => link(`/datasets/${name}`, name) },
  { title: "kind", value: (row) => row.spec.kind },
  { title: "rows", key: "rows" },
  { title: "classes", value: (row) => row.classes.length },
  { title: "unit", value: (row) => row.spec.unit },
  { title: "", key: "name", show: (name) => link(`/builds#dataset=${name}`, "build from it") },
];

async function showList(wanted = MANY) {
  const list = await listed("/v1/datasets", {}, wanted);
  fill(
    "list",
    list.items.length
      ? [
          table("by name", columns, list.items, { most: Infinity, records: true }),
          more(list, () => showList(list.items.length + MANY)),
        ]
      : empty(
          "There is no dataset yet. A dataset is a table of what your classifiers answered, or of features and what they cost: store one below.",
        ),
  );
}

/** Write the draft of the spec; one that nobody has changed gives way to that of another file. */
function showDraft() {
  drafted = JSON.stringify(shown.spec, null, 1);
  byId("spec").value = drafted;
}

const isParquet = (file) => /\.parquet$/i.test(file.name);
const isLines = (file) => /\.(jsonl|ndjson)(\.gz)?$/i.test(file.name);
const typeOf = (file) =>
  isParquet(file) ? "application/vnd.apache.parquet" : isLines(file) ? "application/jsonl" : "text/csv";

/** Ask the service for a draft: of a CSV or of JSON Lines by its first lines. */
async function draftOf(file) {
  const whole = isParquet(file) || /\.gz$/i.test(file.name) || file.size <= HEAD;
  const some = whole ? file : (await file.slice(0, HEAD).text()).replace(/\n[^\n]*$/, "\n");
  return call("POST", "/v1/drafts", { body: new Blob([some], { type: typeOf(file) }) });
}

/** Show the first rows of the table that was chosen, and draft a spec from its columns. */
async function showPreview() {
  const file = byId("table").files[0];
  shown = null;
  byId("draft").disabled = true;
  fill("preview");
  if (!file) return;
  shown = await draftOf(file);
  byId("draft").disabled = false;
  fill("preview", [
    table(
      `the first rows of ${file.name}, ${number(file.size)} bytes`,
      shown.columns.map((title, at) => ({ title, value: (row) => row[at] })),
      shown.rows,
    ),
    shown.guesses.length ? empty(`Guessed: ${shown.guesses.join("; ")}.`) : null,
    shown.columns.length === 1 ? empty("One column was found. Are the columns parted by commas?") : null,
  ]);
  if ([drafted, ""].includes(byId("spec").value)) showDraft();
}

/** Say which field of the form a fault of the API concerns: what is wrong in a column is the table's, and so on. */
function fieldOf(loc) {
  const first = loc[0] === "body" ? loc[1] : loc[0];
  if (["name", "path"].includes(first)) return "name";
  return ["spec", "table", "embeddings"].includes(first) ? first : guessed(loc);
}

const guessed = (loc) =>
  ["kind", "label", "unit", "size", "features", "classifiers", "categorical", "missing", "json"].includes(loc[0])
    ? "spec"
    : "table";

async function store(event) {
  event.preventDefault();
  const form = byId("store");
  clearFaults(form);
  const name = byId("name").value.trim();
  if (!NAME.test(name)) return showFaults(form, { faults: [{ loc: ["name"], msg: WRONG_NAME }] }, fieldOf);
  const body = new FormData();
  body.append("spec", byId("spec").value);
  const file = byId("table").files[0];
  if (file)
    body.append(
      "table",
      new File([file], file.name, { type: typeOf(file) }),
    );
  if (byId("embeddings").files[0]) body.append("embeddings", byId("embeddings").files[0]);
  byId("send").disabled = true;
  try {
    const info = await call("PUT", `/v1/datasets/${name}`, { body });
    fill(
      "stored",
      h(
        "p",
        { class: "empty" },
        `Stored: ${number(info.rows)} rows. `,
        link(`/datasets/${info.name}`, "Look at it"),
        ", or ",
        link(`/builds#dataset=${info.name}`, "build from it"),
        ".",
      ),
    );
    await showList();
  } catch (error) {
    if (error.status === undefined) throw error;
    fill("stored");
    showFaults(form, error, fieldOf);
  } finally {
    byId("send").disabled = false;
  }
}

page(async () => {
  const preview = () => showPreview().catch((error) => fill("preview", failure(error)));
  byId("table").addEventListener("change", preview);
  byId("draft").addEventListener("click", showDraft);
  byId("store").addEventListener("submit", store);
  await Promise.all([preview(), showList()]); // a file may have been chosen already, or be kept by the browser
});
