import { call, listed } from "../api.js";
import { byId, empty, failure, fill, h, link, more, number, page, table } from "../dom.js";
import { clearFaults, showFaults } from "../forms.js";
import { draft, parseCsv } from "../tables.js";

const HEAD = 256 * 1024;
const FEW = 6;
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

/** Write a draft of the spec; one that nobody has changed gives way to that of another file. */
function showDraft() {
  drafted = draft(shown);
  byId("spec").value = drafted;
}

/** Show the first rows of the table that was chosen, and draft a spec from its columns. */
async function showPreview() {
  const file = byId("table").files[0];
  shown = null;
  byId("draft").disabled = true;
  if (!file || !/\.csv$/i.test(file.name)) {
    fill(
      "preview",
      file ? empty("Only CSV files are shown here before they are stored; this one is read by the service.") : null,
    );
    return;
  }
  const text = await file.slice(0, HEAD).text();
  if (!text.trim()) {
    fill("preview", empty("This file is empty: its first row has to name the columns."));
    return;
  }
  const [head, ...rows] = parseCsv(file.size > HEAD ? text.slice(0, text.lastIndexOf("\n")) : text);
  shown = { head, rows };
  byId("draft").disabled = false;
  fill(
    "preview",
    table(
      `the first rows of ${file.name}, ${number(file.size)} bytes`,
      head.map((title, at) => ({ title, value: (row) => row[at] })),
      rows.slice(0, FEW),
    ),
  );
  if (head.length === 1) byId("preview").append(empty("One column was found. Are the columns parted by commas?"));
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
      new File([file], file.name, {
        type: /\.parquet$/i.test(file.name) ? "application/vnd.apache.parquet" : "text/csv",
      }),
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
