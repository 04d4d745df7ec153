import { call, listed } from "../api.js";
import { ago, artifactPath, byId, empty, fill, h, link, more, page, progressText, repeatedly, table } from "../dom.js";
import { clearFaults, schemaFields, schemaOf, showFaults } from "../forms.js";
import { ADVICE } from "../progress.js";

const EVERY_MS = 1500;
const MANY = 100;
let wanted = MANY;
/** The schema of a kind's parameters in the OpenAPI document. */
const schemaName = (kind) => `${kind[0].toUpperCase()}${kind.slice(1)}Options`;
let options = null;

async function showOptions() {
  options = schemaFields(await schemaOf(schemaName(byId("kind").value)), "params");
  fill("options", options.elements);
}

/** Say which field of the form a fault of the API concerns. */
function fieldOf(loc) {
  const [first, second] = loc[0] === "body" ? loc.slice(1) : loc;
  if (first === "params") return `params-${second}`;
  return ["kind", "name", "dataset", "seed"].includes(first) ? first : null;
}

async function start(event) {
  event.preventDefault();
  const form = byId("start");
  clearFaults(form);
  const request = {
    kind: byId("kind").value,
    name: byId("name").value.trim(),
    dataset: byId("dataset").value,
    params: options.values(),
    seed: Number(byId("seed").value || 0),
  };
  const unread = [...form.querySelectorAll("input")].filter((field) => field.validity.badInput);
  if (unread.length) {
    const faults = unread.map((field) => ({ loc: field.id.split("-"), msg: "this is no number" }));
    return showFaults(form, { faults }, fieldOf);
  }
  byId("send").disabled = true;
  try {
    const build = await call("POST", "/v1/builds", { json: request });
    location.assign(`/builds/${build.id}`);
  } catch (error) {
    byId("send").disabled = false;
    if (error.status === undefined) throw error;
    showFaults(form, error, fieldOf);
  }
}

/** Name what a build makes, as a link where it is made; advice has no name of its own. */
function madeBy({ kind, name, status, dataset, artifact }) {
  if (kind === ADVICE) return status === "succeeded" ? link(`/datasets/${dataset}`, "see the advice") : "–";
  return artifact ? link(artifactPath(artifact), name) : name;
}

const columns = [
  { title: "build", key: "id", show: (id) => link(`/builds/${id}`, id.slice(0, 8)) },
  {
    title: "status",
    key: "status",
    show: (status) => h("span", { class: `flag ${{ failed: "bad", succeeded: "good" }[status] ?? ""}` }, status),
  },
  { title: "kind", key: "kind" },
  { title: "name", key: "name", show: (_, row) => madeBy(row) },
  { title: "dataset", key: "dataset" },
  { title: "queued", key: "created_at", show: ago },
  {
    title: "",
    value: ({ error, status, progress }) => error ?? (status === "running" ? progressText(progress) : ""),
  },
];

async function showBuilds() {
  const list = await listed("/v1/builds", {}, wanted);
  const showMore = () => {
    wanted = list.items.length + MANY;
    return showBuilds();
  };
  fill(
    "list",
    list.items.length
      ? [table("the newest first", columns, list.items, { most: Infinity, records: true }), more(list, showMore)]
      : empty("No build is remembered. Start one above: choose what to build, and from which dataset."),
  );
}

page(async () => {
  addEventListener("pageshow", () => {
    byId("send").disabled = false;
  }); // also when one comes back to the page
  const { items } = await listed("/v1/datasets");
  fill(
    "dataset",
    items.map(({ name }) => h("option", {}, name)),
  );
  if (!items.length)
    fill(
      "no-dataset",
      empty("A build learns from a dataset, and there is none. ", link("/datasets", "Store one first"), "."),
    );
  const asked = new URLSearchParams(location.hash.slice(1)).get("dataset");
  if (asked) byId("dataset").value = asked;
  byId("kind").addEventListener("change", showOptions);
  byId("start").addEventListener("submit", start);
  await Promise.all([showOptions(), showBuilds()]);
  repeatedly(EVERY_MS, "list", showBuilds);
});
