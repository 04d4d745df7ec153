import { get, query } from "../api.js";
import { decisionPanel } from "../decision.js";
import { artifactPath, empty, fill, h, link, number, page, percent, table } from "../dom.js";
import { figure } from "../figures.js";

/** What an artifact reaches at which cost: [{cost, accuracy, what}], from the API that its own page uses. */
const POINTS = {
  cascade: ({ summary }) =>
    (summary.replays ?? [])
      .filter((one) => one.feasible)
      .map((one) => ({
        cost: one.held_out.mean_duration,
        accuracy: one.held_out.accuracy,
        what: one.cascade.join(" → "),
      })),
  index: async ({ name, summary }) =>
    (await get(query(`/v1/indexes/${name}/skyline`, { size: summary.median_size }))).items.map((one) => ({
      ...one,
      what: one.features.join(" + ") || "none",
    })),
  portfolio: async ({ name }) =>
    (await get(`/v1/portfolios/${name}/curve`)).curves
      .find((one) => one.method === "occam")
      .points.map((one) => ({ cost: one.cost, accuracy: one.accuracy, what: `budget ${number(one.budget)}` })),
  pipeline: async ({ name }) =>
    (await get(`/v1/pipelines/${name}/frontier`)).items.map((one) => ({
      cost: one.cost,
      accuracy: one.conclusive_accuracy * one.coverage,
      what: `${percent(one.coverage)} answered`,
    })),
  policy: async ({ name }) =>
    (await get(`/v1/policies/${name}/curve`)).points.map((one) => ({
      cost: one.cost,
      accuracy: 1 - one.error,
      what: one.tradeoff === null ? "nothing acquired" : `λ = ${number(one.tradeoff)}`,
    })),
};

async function pointsOf(artifact) {
  const found = await Promise.resolve(POINTS[artifact.solver](artifact)).catch(() => []);
  return found
    .toSorted((a, b) => a.cost - b.cost)
    .map((point) => ({ artifact: `${artifact.solver} ${artifact.name}`, ...point }));
}

function methodsFigure(dataset) {
  const made = figure({
    title: "Cost against accuracy",
    hint: "every method built on this dataset, as its build measured it on rows that it had not learned from (a pipeline: right answers among all items)",
    call: { path: `/v1/datasets/${dataset}/profile` },
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
                mode: "markers",
                name: "one classifier alone",
                marker: { symbol: "x", size: 9 },
                text: alone.map((one) => one.what),
                hovertemplate: `%{text} alone<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`,
              },
            ]
          : []),
        ...methods.map((points) => ({
          x: points.map((one) => one.cost),
          y: points.map((one) => one.accuracy),
          name: points[0].artifact,
          mode: "lines+markers",
          text: points.map((one) => one.what),
          hovertemplate: `${points[0].artifact}: %{text}<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`,
        })),
      ],
      layout: {
        xaxis: { title: { text: `mean cost of an item (${unit})` } },
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

async function showDataset(dataset, artifacts, host) {
  const mine = artifacts.filter((one) => one.dataset === dataset);
  const [made, draw] = methodsFigure(dataset);
  fill(host, made.element);
  const profile = await get(`/v1/datasets/${dataset}/profile`).catch(() => ({ kind: "gone" }));
  const alone =
    profile.kind === "trace"
      ? profile.classifiers.map((one) => ({
          artifact: "one classifier alone",
          what: one.name,
          cost: one.mean_cost,
          accuracy: one.accuracy,
        }))
      : [];
  const methods = (await Promise.all(mine.map(pointsOf))).filter((points) => points.length);
  await made.draw(draw(alone, methods, mine[0].unit));
}

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
            : JSON.stringify(decision);
  const told = [
    ["accuracy", percent],
    ["conclusive_accuracy", percent],
    ["coverage", percent],
    ["cost", number],
    ["expected_duration", number],
    ["expected_loss", number],
  ]
    .filter(([key]) => decision[key] !== undefined)
    .map(([key, show]) => `${key.replaceAll("_", " ")} ${show(decision[key])}`);
  return told.length ? `${text} (${told.join(", ")})` : text;
};

function sideBySide(names) {
  const columns = [
    {
      title: "artifact",
      value: (row) => row.artifact,
      show: (one) => link(artifactPath(one), `${one.solver} ${one.name}`),
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
    show: (reply) => table("side by side", columns, reply.items),
  });
  panel.element.classList.add("wide");
  return panel;
}

page(async () => {
  const { items } = await get("/v1/artifacts");
  if (!items.length) {
    fill("choose", empty("There is nothing to compare yet. ", link("/builds", "Start a build"), "."));
    return;
  }
  const datasets = [...new Set(items.map((one) => one.dataset))].sort(
    (a, b) => items.filter((one) => one.dataset === b).length - items.filter((one) => one.dataset === a).length,
  );
  const host = h("div", { class: "wide" });
  const choice = h(
    "select",
    { id: "of", onchange: () => showDataset(choice.value, items, host) },
    datasets.map((name) => h("option", {}, name)),
  );
  fill("choose", h("div", { class: "field" }, h("label", { for: "of" }, "Dataset"), choice));
  const counts = Map.groupBy(items, (one) => one.name);
  const panel = sideBySide(
    [...counts.keys()].sort((a, b) => counts.get(b).length - counts.get(a).length || a.localeCompare(b)),
  );
  fill("figures", host, panel.element);
  await Promise.all([showDataset(choice.value, items, host), panel.question()]);
});
