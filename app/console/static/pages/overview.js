import { get } from "../api.js";
import { ago, artifactPath, byId, empty, facts, fill, h, link, number, page, table } from "../dom.js";
import { headline, savedText } from "../headline.js";

const EVERY_MS = 5000;
const OPEN = ["queued", "running"];
const SOLVERS = {
  cascade: "which classifier first, and when to stop",
  index: "which features for this size and budget",
  portfolio: "which classifier for each query of a batch",
  pipeline: "measurements in stages, with a way out after each",
  policy: "which sensor next, given what the others told",
};

const columns = [
  { title: "name", key: "name", show: (name, row) => link(artifactPath(row), name) },
  { title: "version", key: "version" },
  { title: "age", key: "created_at", show: (time) => h("time", { datetime: time, title: time }, ago(time)) },
  { title: "dataset", key: "dataset", show: (name) => link(`/datasets/${name}`, name) },
  {
    title: "what it saves",
    value: headline,
    show: (said) =>
      h("span", {}, savedText(said) ? h("span", { class: "flag good" }, savedText(said)) : "", " ", said.text),
  },
  {
    title: "drift",
    key: "drift",
    show: (drift) => (drift.length ? h("span", { class: "flag bad" }, drift.join(", ")) : "–"),
  },
];

async function showState() {
  const ready = await fetch("/health/ready").then((reply) => reply.json());
  const [builds, datasets] = await Promise.all([get("/v1/builds"), get("/v1/datasets")]);
  const open = builds.items.filter((build) => OPEN.includes(build.status));
  fill(
    "state",
    facts([
      ["service", ready.status],
      ["store", ready.store],
      ["artifacts in memory", number(ready.artifacts)],
      ["datasets", link("/datasets", number(datasets.items.length))],
      ["builds under way", link("/builds", open.length ? number(open.length) : "none")],
    ]),
    ready.problems.length
      ? h(
          "ul",
          { class: "error", role: "status" },
          ready.problems.map((problem) => h("li", {}, problem)),
        )
      : null,
  );
}

async function showArtifacts() {
  const { items } = await get("/v1/artifacts");
  if (!items.length) {
    fill(
      "artifacts",
      empty(
        "Nothing is built yet. ",
        link("/datasets", "Store a dataset"),
        ", then ",
        link("/builds", "start a build"),
        "; or run ",
        h("code", {}, "parsimony demo"),
        " for real artifacts to look at.",
      ),
    );
    return;
  }
  fill(
    "artifacts",
    Object.entries(SOLVERS)
      .map(([solver, question]) => [solver, question, items.filter((one) => one.solver === solver)])
      .filter(([, , found]) => found.length)
      .map(([solver, question, found]) =>
        h("section", { class: "card" }, h("h2", {}, solver), table(question, columns, found)),
      ),
  );
}

page(async () => {
  const show = () => Promise.all([showState(), showArtifacts()]);
  await show();
  const again = async () => {
    if (!document.hidden && !byId("main").contains(document.activeElement)) await show().catch(() => {});
    setTimeout(again, EVERY_MS);
  };
  setTimeout(again, EVERY_MS);
});
