// One dataset: advice, the profile of its classifiers or features, and the artifacts that were built from it.

import { showAdvice } from "../advice.js";
import { call, get } from "../api.js";
import { chart } from "../chart.js";
import { confirmDeletion } from "../deletion.js";
import {
  artifactPath, facts, fill, h, link, number, page, percent, quietButton, table, timeOf, warningsOf,
} from "../dom.js";
import { savingsLine } from "../headline.js";
import { listTable } from "../lists.js";
import { capitalize, ITEMS, meanTitle, pointText, quantityOf, totalTitle } from "../units.js";

const MAX_NAMED = 5;
const card = (...nodes) => h("section", { class: "card" }, nodes);

function classifiersCard({ classifiers, unit }, call) {
  const title = `${capitalize(quantityOf(unit))} against accuracy`;
  const points = classifiers.map(({ name, mean_cost: cost, accuracy: y }) => ({
    x: ITEMS * cost,
    y,
    label: name,
    text: pointText(name, { cost, accuracy: y }, unit),
  }));
  const figure = chart({
    title,
    xTitle: totalTitle(unit),
    yTitle: "correct",
    series: [{ name: "each classifier for all items", points }],
    columns: [
      { title: "classifier", key: "name" },
      { title: "accuracy", key: "accuracy" },
      { title: meanTitle(unit), key: "mean_cost" },
      { title: "mean confidence", key: "mean_confidence" },
      { title: "without a class", key: "no_class" },
      { title: "group", key: "group" },
    ],
    rows: classifiers,
    call,
  });
  return card(h("h2", {}, title), figure);
}

function calibrationCard({ classifiers }, call) {
  const calibrated = classifiers.filter((one) => one.calibration.length);
  if (!calibrated.length) return null;
  const rows = calibrated.flatMap((one) => one.calibration.map((bin) => ({ classifier: one.name, ...bin })));
  const figure = chart({
    title: "Calibration",
    hint: "A calibrated classifier is on the line: its confidence is its share of correct answers.",
    xTitle: "mean confidence",
    yTitle: "correct",
    whole: true,
    series: [
      { name: "calibrated", points: [0, 1].map((x) => ({ x, y: x })), line: true, color: "var(--muted)" },
      ...calibrated.map((one) => ({
        name: one.name,
        line: true,
        points: one.calibration.map(({ confidence: x, accuracy: y }) => ({
          x,
          y,
          text: `${one.name}: confidence ${number(x)}, ${percent(y)} correct`,
        })),
      })),
    ],
    columns: ["classifier", "low", "high", "confidence", "accuracy", "rows"].map((key) => ({ title: key, key })),
    rows,
    call,
  });
  return card(h("h2", {}, "Calibration"), figure);
}

function featuresCard({ features, setup, sizes, unit }) {
  const quantity = `${quantityOf(unit)} (${unit})`;
  const middle = Math.floor(sizes.length / 2);
  const costs = sizes.length
    ? [0, middle, sizes.length - 1].map((at) => ({
        title: `${quantity} at size ${number(sizes[at])}`,
        value: ({ costs }) => costs[at],
      }))
    : [{ title: quantity, key: "cost" }];
  const ofFeatures = [{ title: "feature", key: "name" }, { title: "columns", key: "columns" }, ...costs];
  const ofSetup = [{ title: "set-up work", key: "name" }, { title: "features", key: "features" }, ...costs];
  return card(
    h("h2", {}, "Features"),
    table(capitalize(quantity), ofFeatures, features, { records: true }),
    setup.length
      ? table("Set-up work, paid once per item, with the first of its features", ofSetup, setup, { records: true })
      : null,
  );
}

async function showProfile(name) {
  const call = { path: `/v1/datasets/${name}/profile` };
  const profile = await get(call.path);
  const cards = profile.kind === "trace" ? [classifiersCard, calibrationCard] : [featuresCard];
  fill(
    "profile",
    cards.map((make) => make(profile, call)),
  );
}

const builtColumns = [
  { title: "artifact", key: "name", show: (one, row) => link(artifactPath(row), `${row.kind} ${one}`) },
  { title: "version", key: "version" },
  { title: "savings", value: (row) => row.savings?.verdict, show: (_, row) => savingsLine(row) },
];

async function showBuilt(dataset) {
  const show = listTable({
    host: "built",
    path: "/v1/artifacts",
    parameters: () => ({ dataset, summary: false }),
    caption: "Active versions",
    columns: () => builtColumns,
    hint: () => ["There are none yet. ", link(`/builds#dataset=${dataset}`, "Start a build"), "."],
  });
  const list = await show();
  fill("delete", quietButton("Delete the dataset…", () => deleteDataset(dataset, list)));
}

/** Describe what the deletion of a dataset means for the artifacts that were built from it. */
function consequencesOf({ items, total }) {
  if (!total) return "The dataset and its advice are deleted. No active artifact was built from it.";
  const names = items.slice(0, MAX_NAMED).map((one) => `${one.kind} ${one.name}`);
  const rest = total > names.length ? ` and ${number(total - names.length)} more` : "";
  const kept = `These artifacts still answer but cannot be rebuilt: ${names.join(", ")}${rest}.`;
  return `The dataset and its advice are deleted. ${kept}`;
}

function deleteDataset(name, built) {
  confirmDeletion({
    what: `dataset ${name}`,
    why: consequencesOf(built),
    name,
    act: async () => {
      await call("DELETE", `/v1/datasets/${name}`);
      location.assign("/datasets");
    },
  });
}

page(async ({ name }) => {
  const info = await get(`/v1/datasets/${name}`);
  fill("warnings", warningsOf(info.warnings));
  fill(
    "facts",
    facts([
      ["kind", info.spec.kind === "trace" ? "trace" : "feature table"],
      ["rows", number(info.rows)],
      ...(info.source ? [["sample of", `${number(info.source.rows)} rows of ${info.source.url ?? "an upload"}`]] : []),
      ["classes", info.classes.length ? number(info.classes.length) : "none"],
      ["unit", info.spec.unit],
      ["stored", timeOf(info.created_at)],
    ]),
  );
  fill("spec", h("pre", { tabindex: "0" }, JSON.stringify(info.spec, null, 2)));
  await Promise.all([showProfile(name), showBuilt(name), showAdvice(info)]);
});
