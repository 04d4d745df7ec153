import { get } from "../api.js";
import { artifactPath, ago, empty, facts, fill, h, link, number, page, repeatedly, table } from "../dom.js";
import { headline, savedFlag } from "../headline.js";

const EVERY_MS = 5000;
const OPEN = ["queued", "running"];
const QUESTIONS = {
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
    show: (said) => h("span", {}, savedFlag(said), " ", said.text),
  },
  {
    title: "drift",
    key: "drift",
    show: (drift) => (drift.length ? h("span", { class: "flag bad" }, drift.join(", ")) : "–"),
  },
];

/** Ask for a list; null while the store is away, for then nobody can give it. */
const listed = async (path) => {
  const reply = await get(path).catch((error) => (error.status === 503 ? null : Promise.reject(error)));
  return reply && reply.items;
};

async function showState() {
  const ready = await get("/health/ready").catch((error) =>
    error.status === 503 ? error.body : Promise.reject(error),
  );
  const [builds, datasets] = await Promise.all([listed("/v1/builds"), listed("/v1/datasets")]);
  const open = builds?.filter((build) => OPEN.includes(build.status)).length;
  fill(
    "state",
    facts([
      ["service", ready.status],
      ["store", ready.store],
      ["artifacts in memory", number(ready.artifacts)],
      ["datasets", link("/datasets", number(datasets?.length))],
      ["builds under way", link("/builds", open === 0 ? "none" : number(open))],
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
  const items = await listed("/v1/artifacts");
  if (items === null) {
    fill("artifacts", empty("What is built cannot be listed while the store is away. Decisions go on."));
    return;
  }
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
    [...Map.groupBy(items, (one) => one.solver)].map(([solver, found]) =>
      h(
        "section",
        { class: "card" },
        h("h2", {}, solver),
        table(QUESTIONS[solver] ?? "", columns, found, { records: true }),
      ),
    ),
  );
}

page(async () => {
  const show = () => Promise.all([showState(), showArtifacts()]);
  await show();
  repeatedly(EVERY_MS, "main", show);
});
