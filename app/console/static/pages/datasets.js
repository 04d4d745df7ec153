import { call, get } from "../api.js";
import { byId, empty, failure, fill, h, link, number, page, table } from "../dom.js";
import { clearFaults, showFaults } from "../forms.js";
import { draft, parseCsv } from "../tables.js";

const HEAD = 256 * 1024;
const FEW = 6;
let preview = null;

const columns = [
  { title: "name", key: "name", show: (name) => link(`/datasets/${name}`, name) },
  { title: "kind", value: (row) => row.spec.kind },
  { title: "rows", key: "rows" },
  { title: "classes", value: (row) => row.classes.length },
  { title: "unit", value: (row) => row.spec.unit },
  { title: "", key: "name", show: (name) => link(`/builds#dataset=${name}`, "build from it") },
];

async function showList() {
  const { items } = await get("/v1/datasets");
  fill(
    "list",
    items.length
      ? table("by name", columns, items)
      : empty(
          "There is no dataset yet. A dataset is a table of what your classifiers answered, or of features and what they cost: store one below.",
        ),
  );
}

/** Show the first rows of the table that was chosen, and draft a spec from its columns. */
async function showPreview() {
  const file = byId("table").files[0];
  preview = null;
  byId("draft").disabled = true;
  if (!file || !/\.csv$/i.test(file.name)) {
    fill(
      "preview",
      file ? empty("Only CSV files are shown here before they are stored; this one is read by the service.") : null,
    );
    return;
  }
  const text = await file.slice(0, HEAD).text();
  const [head, ...rows] = parseCsv(file.size > HEAD ? text.slice(0, text.lastIndexOf("\n")) : text);
  preview = { head, rows };
  byId("draft").disabled = false;
  fill(
    "preview",
    table(
      `the first rows of ${file.name}, ${number(file.size)} bytes`,
      head.map((title, at) => ({ title, value: (row) => row[at] })),
      rows.slice(0, FEW),
    ),
  );
  if (!byId("spec").value) byId("spec").value = draft(preview);
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
    const info = await call("PUT", `/v1/datasets/${encodeURIComponent(byId("name").value.trim())}`, { body });
    fill(
      "stored",
      h(
        "p",
        { class: "empty", role: "status" },
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
  byId("table").addEventListener("change", () => showPreview().catch((error) => fill("preview", failure(error))));
  byId("draft").addEventListener("click", () => {
    byId("spec").value = draft(preview);
  });
  byId("store").addEventListener("submit", store);
  await showList();
});
