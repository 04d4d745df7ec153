import { get, listed, query } from "../api.js";
import { decisionPanel } from "../decision.js";
import { artifactPath, byId, empty, failure, fill, h, link, more, number, page, percent, table, worded } from "../dom.js";
import { figure } from "../figures.js";
import { curvePath, readCurve } from "../kinds.js";
import { hover, logAxis, narrow } from "../theme.js";

const FAR_APART = 50;
/** Classifiers that are named in the chart; of more the names would lie upon each other. */
const MOST_LABELS = 8;
/** Methods in one chart, beyond which a button shows more, and artifacts that are looked through for datasets. */
const DRAWN = 25;
const LOOKED_THROUGH = 1000;

/** Ask what an artifact reaches: {name, path, points}, or {name, path, error}. */
async function methodOf(artifact) {
  const name = `${artifact.kind} ${artifact.name}`;
  const asked = curvePath(artifact);
  try {
    const points = readCurve(await get(asked)).map((point) => ({ artifact: name, ...point }));
    return { name, path: asked, points: points.toSorted((a, b) => a.cost - b.cost) };
  } catch (error) {
    return { name, path: asked, points: [], error };
  }
}

/** An axis of costs: logarithmic where they are all above nothing, and far apart. */
function spread(points, title) {
  const costs = points.map((one) => one.cost);
  return Math.min(...costs) > 0 && Math.max(...costs) > FAR_APART * Math.min(...costs)
    ? logAxis(title, costs)
    : { title: { text: title } };
}

function methodsFigure(paths) {
  const made = figure({
    title: "Cost against accuracy",
    hint: "every method built on this dataset, as its build measured it on rows that it had not learned from (a pipeline: right answers among all items; an index: at the median size)",
    call: paths.map((path) => ({ path })),
    wide: true,
    tall: true,
  });
  return [
    made,
    (alone, methods, unit) => () => ({
      data: [
        ...(alone.length
          ? [
              {
                x: alone.map((one) => one.cost),
                y: alone.map((one) => one.accuracy),
                mode: alone.length <= MOST_LABELS && !narrow() ? "markers+text" : "markers",
                textposition: "top center",
                name: "one classifier alone",
                marker: { symbol: "x", size: 9 },
                text: alone.map((one) => one.what),
                hovertemplate: hover`%{text} alone<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`,
              },
            ]
          : []),
        ...methods.map((points) => ({
          x: points.map((one) => one.cost),
          y: points.map((one) => one.accuracy),
          name: points[0].artifact,
          mode: "lines+markers",
          text: points.map((one) => one.what),
          hovertemplate: hover`${points[0].artifact}: %{text}<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`,
        })),
      ],
      layout: {
        showlegend: true,
        xaxis: spread([...alone, ...methods.flat()], `mean cost of an item (${unit})`),
        yaxis: { title: { text: "accuracy" }, tickformat: "~%" },
      },
      columns: [
        { title: "method", key: "artifact" },
        { title: "how", key: "what" },
        { title: `cost (${unit})`, key: "cost" },
        { title: "accuracy", key: "accuracy" },
      ],
      rows: [...alone, ...methods.flat()],
    }),
  ];
}

/** Give the accuracy and cost of each classifier of a trace alone; of a table of features there are none. */
async function aloneOn(path) {
  const profile = await get(path).catch(() => ({})); // the dataset may have been deleted since
  return (profile.classifiers ?? []).map((one) => ({
    artifact: "one classifier alone",
    what: one.name,
    cost: one.mean_cost,
    accuracy: one.accuracy,
  }));
}

async function showDataset(dataset, host, wanted = DRAWN) {
  const list = await listed("/v1/artifacts", { dataset }, wanted);
  const mine = list.items;
  if (shownDataset() !== dataset) return;
  if (!mine.length) {
    fill(host, empty("Nothing that answers was built from this dataset."));
    return;
  }
  const unit = mine[0].unit; // a dataset that was replaced may have had another
  const path = `/v1/datasets/${dataset}/profile`;
  const asked = mine.filter((one) => one.unit === unit);
  const [alone, ...methods] = await Promise.all([aloneOn(path), ...asked.map(methodOf)]);
  if (shownDataset() !== dataset) return;
  const drawn = methods.filter((one) => one.points.length);
  const [made, draw] = methodsFigure([...(alone.length ? [path] : []), ...drawn.map((one) => one.path)]);
  const missing = [
    ...methods.filter((one) => one.error).map((one) => `${one.name}: ${one.error.message}`),
    ...mine.filter((one) => one.unit !== unit).map((one) => `${one.kind} ${one.name} is in ${one.unit}`),
  ];
  fill(
    host,
    made.element,
    missing.length ? failure(`Not drawn: ${missing.join("; ")}`) : null,
    more(list, () => showDataset(dataset, host, mine.length + DRAWN)),
  );
  await made.draw(
    draw(
      alone,
      drawn.map((one) => one.points),
      unit,
    ),
  );
}

const shownDataset = () => byId("of").value;

/** A decision of a kind that these pages do not know: what it says, without what every reply has. */
const withoutId = ({ decision, expected, ...rest }) => rest;

const answerOf = (decision) => {
  const text = decision.cascade
    ? decision.cascade.join(" → ")
    : decision.features
      ? decision.features.join(" + ") || "none"
      : decision.stages
        ? decision.stages.map((stage) => stage.features.join(" + ")).join(" → ")
        : decision.sensor
          ? `first ${decision.sensor}`
          : decision.label
            ? `class ${decision.label}`
            : (decision.classifier ?? worded(withoutId(decision)));
  const estimates = [
    ["accuracy", percent],
    ["estimated_accuracy", percent],
    ["conclusive_accuracy", percent],
    ["coverage", percent],
    ["cost", number],
    ["expected_duration", number],
    ["expected_loss", number],
  ]
    .filter(([key]) => decision[key] !== undefined)
    .map(([key, show]) => `${key.replaceAll("_", " ")} ${show(decision.expected?.[key] ?? decision[key])}`);
  return estimates.length ? `${text} (${estimates.join(", ")})` : text;
};

function sideBySide(names) {
  const columns = [
    {
      title: "artifact",
      value: (row) => row.artifact,
      show: (one) => link(artifactPath(one), `${one.kind} ${one.name}`),
    },
    {
      title: "decision",
      value: (row) => row.decision,
      show: (decision, row) => (decision ? answerOf(decision) : h("em", {}, row.refusal)),
    },
    { title: "unit", key: "unit" },
    { title: "not asked of it", key: "ignored", show: (ignored) => ignored.join(", ") || "–" },
  ];
  const panel = decisionPanel({
    title: "The same question to all",
    inputs: [
      { name: "name", label: "Artifacts called", options: names.map((value) => ({ value })), value: names[0] },
      { name: "size", label: "Size", placeholder: "none" },
      { name: "budget", label: "Budget", placeholder: "none" },
      { name: "deadline", label: "Deadline", placeholder: "none" },
    ],
    ask: (values) => ({ path: query("/v1/decisions", values) }),
    show: (reply) => table("side by side", columns, reply.items, { records: true }),
  });
  panel.element.classList.add("wide");
  return panel;
}

/** Put those first that have most. */
const byCount = (items, keyOf) => {
  const counts = Map.groupBy(items, keyOf);
  return [...counts.keys()].sort((a, b) => counts.get(b).length - counts.get(a).length || a.localeCompare(b));
};

async function show(wanted = LOOKED_THROUGH) {
  const list = await listed("/v1/artifacts", { summary: false }, wanted);
  if (!list.items.length) {
    fill("choose", empty("There is nothing to compare yet. ", link("/builds", "Start a build"), "."));
    return;
  }
  const host = h("div", { class: "wide" });
  const datasets = byCount(list.items, (one) => one.dataset);
  const choice = h(
    "select",
    { id: "of", onchange: () => showDataset(choice.value, host) },
    datasets.map((name) => h("option", {}, name)),
  );
  fill(
    "choose",
    h("div", { class: "field" }, h("label", { for: "of" }, "Dataset"), choice),
    more(list, () => show(list.items.length + LOOKED_THROUGH)),
  );
  const panel = sideBySide(byCount(list.items, (one) => one.name));
  fill("figures", host, panel.element);
  await Promise.all([showDataset(choice.value, host), panel.question()]);
}

page(() => show());
