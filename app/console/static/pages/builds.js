// Builds: a form from the schema of a kind's parameters, and the list of builds.

import { call, getList } from "../api.js";
import { ago, artifactPath, byId, empty, fill, h, link, page, progressText, repeatedly, statusFlag } from "../dom.js";
import { clearFaults, schemaFields, schemaOf, showFaults } from "../forms.js";
import { listTable } from "../lists.js";
import { ADVICE } from "../progress.js";

const EVERY_MS = 1500;
let options = null;

const schemaName = (kind) => `${kind[0].toUpperCase()}${kind.slice(1)}Options`;

async function showOptions() {
  options = schemaFields(await schemaOf(schemaName(byId("kind").value)), "params");
  fill("options", options.elements);
}

/** Return the id of the field that an error of the API concerns. */
function fieldOf(loc) {
  const [first, second] = loc[0] === "body" ? loc.slice(1) : loc;
  if (first === "params") return `params-${second}`;
  return ["kind", "name", "dataset", "seed"].includes(first) ? first : null;
}

async function start(event) {
  event.preventDefault();
  const form = byId("start");
  clearFaults(form);
  const json = {
    kind: byId("kind").value,
    name: byId("name").value.trim(),
    dataset: byId("dataset").value,
    params: options.values(form),
    seed: Number(byId("seed").value || 0),
  };
  const unreadable = [...form.querySelectorAll("input")].filter((field) => field.validity.badInput);
  if (unreadable.length) {
    const faults = unreadable.map((field) => ({ loc: field.id.split("-"), msg: "must be a number" }));
    return showFaults(form, { faults }, fieldOf);
  }
  byId("send").disabled = true;
  try {
    const build = await call("POST", "/v1/builds", { json });
    location.assign(`/builds/${build.id}`);
  } catch (error) {
    byId("send").disabled = false;
    if (error.status === undefined) throw error;
    showFaults(form, error, fieldOf);
  }
}

function resultOf({ kind, name, status, dataset, artifact }) {
  if (kind === ADVICE) return status === "succeeded" ? link(`/datasets/${dataset}`, "show the advice") : "–";
  return artifact ? link(artifactPath(artifact), name) : name;
}

const columns = [
  { title: "build", key: "id", show: (id) => link(`/builds/${id}`, id.slice(0, 8)) },
  { title: "status", key: "status", show: statusFlag },
  { title: "kind", key: "kind" },
  { title: "name", key: "name", show: (_, row) => resultOf(row) },
  { title: "dataset", key: "dataset" },
  { title: "queued", key: "created_at", show: ago },
  {
    title: "",
    value: ({ error, status, progress }) => error ?? (status === "running" ? progressText(progress) : ""),
  },
];

const showBuilds = listTable({
  host: "list",
  path: "/v1/builds",
  caption: "Newest first",
  columns: () => columns,
  hint: () => ["There are no builds yet. Start one above."],
});

page(async () => {
  addEventListener("pageshow", () => {
    byId("send").disabled = false; // also after the browser's back button
  });
  const { items } = await getList("/v1/datasets");
  fill(
    "dataset",
    items.map(({ name }) => h("option", {}, name)),
  );
  if (!items.length) fill("no-dataset", empty("A build needs a dataset. ", link("/datasets", "Store one first"), "."));
  const wantedDataset = new URLSearchParams(location.hash.slice(1)).get("dataset");
  if (wantedDataset) byId("dataset").value = wantedDataset;
  byId("kind").addEventListener("change", showOptions);
  byId("start").addEventListener("submit", start);
  await Promise.all([showOptions(), showBuilds()]);
  repeatedly(EVERY_MS, "list", showBuilds);
});
