import { get, listed } from "../api.js";
import { artifactPath, ago, byId, empty, facts, fill, h, link, more, number, page, repeatedly, table } from "../dom.js";
import { headline } from "../headline.js";
import { KINDS } from "../kinds.js";

const EVERY_MS = 5000;
const FEW = 20;
const MORE = 100;
/** How many artifacts of each kind are shown, where it is more than a few. */
const wanted = {};
const columns = [
  { title: "name", key: "name", show: (name, row) => link(artifactPath(row), name) },
  { title: "version", key: "version" },
  { title: "age", key: "created_at", show: (time) => h("time", { datetime: time, title: time }, ago(time)) },
  { title: "dataset", key: "dataset", show: (name) => link(`/datasets/${name}`, name) },
  { title: "savings", value: (row) => row.savings, show: (_, row) => headline(row) },
  {
    title: "drift",
    key: "drift",
    show: (drift) => (drift.length ? h("span", { class: "flag bad" }, drift.join(", ")) : "–"),
  },
];

/** Wait for a list; null while the store is away, for then nobody can give it. */
const unlessAway = (list) => list.catch((error) => (error.status === 503 ? null : Promise.reject(error)));

async function showState() {
  const ready = await get("/health/ready").catch((error) =>
    error.status === 503 ? error.body : Promise.reject(error),
  );
  const [builds, datasets] = await Promise.all(
    ["/v1/builds", "/v1/datasets"].map((path) => unlessAway(listed(path, {}, 1))),
  );
  fill(
    "state",
    facts([
      ["service", ready.status],
      ["store", ready.store],
      ["artifacts in memory", number(ready.artifacts)],
      ["datasets", link("/datasets", number(datasets?.total))],
      ["builds under way", link("/builds", builds?.open === 0 ? "none" : number(builds?.open))],
    ]),
    ready.demo?.state === "making"
      ? h(
          "p",
          { class: "hint", role: "status" },
          `The demo is being made: ${ready.demo.message}. What is there answers already.`,
        )
      : null,
    ready.problems.length
      ? h(
          "ul",
          { class: "error", role: "status" },
          ready.problems.map((problem) => h("li", {}, problem)),
        )
      : null,
  );
}

let asked = 0;

async function showArtifacts() {
  const mine = ++asked;
  const prefix = byId("prefix").value.trim();
  const kinds = byId("artifacts").dataset.kinds.split(" ").sort();
  const lists = await unlessAway(
    Promise.all(kinds.map((kind) => listed("/v1/artifacts", { kind, prefix }, wanted[kind] ?? FEW))),
  );
  if (mine !== asked) return; // something else was asked for meanwhile
  if (lists === null) {
    fill("artifacts", empty("What is built cannot be listed while the store is away. Decisions go on."));
    return;
  }
  byId("find").hidden = !prefix && lists.every((list) => list.total <= FEW);
  const filled = kinds.map((kind, at) => [kind, lists[at]]).filter(([, list]) => list.items.length);
  fill("artifacts", filled.length ? filled.map(([kind, list]) => section(kind, list)) : nothing(prefix));
}

function section(kind, list) {
  const showMore = () => {
    wanted[kind] = list.items.length + MORE;
    return showArtifacts();
  };
  return h(
    "section",
    { class: "card" },
    h("h2", {}, kind),
    table(KINDS[kind]?.question ?? "", columns, list.items, { most: Infinity, records: true }),
    more(list, showMore),
  );
}

const nothing = (prefix) =>
  prefix
    ? empty(`No artifact has a name that begins with ${prefix}.`)
    : empty(
        "Nothing is built yet. ",
        link("/datasets", "Store a dataset"),
        ", then ",
        link("/builds", "start a build"),
        "; or run ",
        h("code", {}, "parsimony demo"),
        " for real artifacts to look at.",
      );

page(async () => {
  const show = () => Promise.all([showState(), showArtifacts()]);
  byId("prefix").addEventListener("input", () => showArtifacts());
  await show();
  repeatedly(EVERY_MS, "main", show);
});
