// The overview: total savings, alerts, artifacts, builds in progress, endpoints, and the state of the service.

import { get, getList } from "../api.js";
import {
  artifactPath, byId, circuitFlag, empty, fill, fillSection, flag, h, link, number, page, repeatedly, table, timeOf,
} from "../dom.js";
import { currentBaseline, savingsLine } from "../headline.js";
import { listTable } from "../lists.js";
import { progressBar } from "../progress.js";
import { changeOf, perThousand, quantityOf } from "../units.js";

const EVERY_MS = 5000;
const FEW = 20;
const MAX_TOTALED = 1000;
const TOTALS_EVERY_MS = 60_000;
let drifting = [];
const MANY = 100;

/** Resolve to null while the store is unavailable. */
const unlessUnavailable = (reply) => reply.catch((error) => (error.status === 503 ? null : Promise.reject(error)));

/** Add up today's costs and those with the best artifact of each dataset, per unit. */
function totalSavings(artifacts) {
  const saving = ({ savings }) => currentBaseline(savings).cost - savings.cost;
  const significant = artifacts.filter((one) => one.savings?.verdict === "significant" && saving(one) > 0);
  const best = new Map();
  for (const one of significant.toSorted((a, b) => saving(a) - saving(b))) best.set(one.dataset, one);
  return [...Map.groupBy(best.values(), (one) => one.unit)].map(([unit, chosen]) => ({
    unit,
    today: chosen.reduce((sum, { savings }) => sum + currentBaseline(savings).cost, 0),
    now: chosen.reduce((sum, { savings }) => sum + savings.cost, 0),
    chosen,
  }));
}

async function showTotals() {
  const list = await unlessUnavailable(getList("/v1/artifacts", { summary: false }, MAX_TOTALED));
  const boxes = totalSavings(list?.items ?? []).map(({ unit, today, now, chosen }) =>
    h(
      "div",
      { class: "amount", "data-unit": unit, "data-today": today, "data-now": now },
      h("p", {}, h("strong", {}, perThousand(today - now, unit)), ` less ${quantityOf(unit)} per 1,000 items`),
      h("p", {}, `${perThousand(today, unit)} today, ${perThousand(now, unit)} with `, artifactNames(chosen)),
      h("p", {}, changeOf(1 - now / today).change),
    ),
  );
  fillSection("totals", ...boxes);
  drifting = (list?.items ?? []).filter(({ drift }) => drift.length);
}

const artifactNames = (chosen) =>
  chosen.flatMap((one, at) => [at ? ", " : "", link(artifactPath(one), `${one.kind} ${one.name}`)]);

async function showState() {
  const ready = await get("/health/ready").catch((error) =>
    error.status === 503 ? error.body : Promise.reject(error),
  );
  const [builds, datasets, endpoints] = await Promise.all(
    ["/v1/builds", "/v1/datasets", "/v1/endpoints"].map((path, at) =>
      unlessUnavailable(getList(path, {}, at === 1 ? 1 : MANY)),
    ),
  );
  const demo = ready.demo?.state === "making" ? `Demo setup: ${ready.demo.message}. ` : "";
  fill(
    "state",
    `${demo}Service ${ready.status}, store ${ready.store}, ${number(ready.artifacts)} loaded artifacts, `,
    link("/datasets", `${number(datasets?.total)} datasets`),
    ".",
  );
  const drifts = drifting.map((one) => [...artifactNames([one]), `: drift of ${one.drift.join(", ")}`]);
  fillSection("alerts", ...[...ready.problems, ...drifts].map((alert) => h("li", {}, alert)));
  const running = (builds?.items ?? []).filter(({ status }) => ["queued", "running"].includes(status));
  fillSection("builds", ...running.map(buildLine));
  fillSection("endpoints", endpoints?.items.length ? endpointTable(endpoints.items) : null);
}

const buildLine = (build) =>
  h("li", {}, link(`/builds/${build.id}`, `${build.kind} ${build.name}`), progressBar(build));

const endpointTable = (items) =>
  table(
    "",
    [
      { title: "name", key: "name" },
      { title: "address", value: ({ endpoint }) => endpoint.url },
      { title: "circuit breaker", key: "circuit", show: circuitFlag },
    ],
    items,
    { records: true },
  );

const columns = [
  { title: "artifact", key: "name", show: (name, row) => link(artifactPath(row), `${row.kind} ${name}`) },
  { title: "savings", value: (row) => row.savings?.verdict, show: (_, row) => savingsLine(row) },
  { title: "dataset", key: "dataset", show: (name) => link(`/datasets/${name}`, name) },
  { title: "built", key: "created_at", show: timeOf },
  {
    title: "drift",
    key: "drift",
    show: (drift) => (drift.length ? flag(drift.join(", "), "bad") : "none"),
  },
];

const prefix = () => byId("prefix").value.trim();
const showTable = listTable({
  host: "artifacts",
  path: "/v1/artifacts",
  parameters: () => ({ prefix: prefix(), summary: false }),
  caption: "Active versions",
  columns: () => columns,
  hint: () => noArtifacts(prefix()),
  first: FEW,
});

async function showArtifacts() {
  const list = await unlessUnavailable(showTable());
  if (!list) fill("artifacts", empty("The store is unavailable. Decisions are still made."));
  byId("find").hidden = !prefix() && (list?.total ?? 0) <= FEW;
}

const noArtifacts = (start) =>
  start
    ? [`No artifact has a name that starts with ${start}.`]
    : [
        "There are no artifacts yet. ",
        link("/datasets", "Store a dataset"),
        ", then ",
        link("/builds", "start a build"),
        ", or run ",
        h("code", {}, "parsimony demo"),
        " for examples.",
      ];

page(async () => {
  const show = () => Promise.all([showState(), showArtifacts()]);
  byId("prefix").addEventListener("input", () => showArtifacts());
  await showTotals();
  await show();
  repeatedly(TOTALS_EVERY_MS, "main", showTotals);
  repeatedly(EVERY_MS, "main", show);
});
