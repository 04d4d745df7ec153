import { get } from "../api.js";
import { showArtifact, under } from "../artifact.js";
import { assignPanel } from "../assignment.js";
import { fill, number, page } from "../dom.js";
import { figure } from "../figures.js";
import { textPanel } from "../text_route.js";
import { colours, hover } from "../theme.js";

const WORDS = {
  batch: "whole batches",
  route: "single queries",
  single_best: "best single classifier",
  random: "random estimates",
  frugal_mct: "random forests (FrugalMCT)",
  oracle: "if the truth were known",
};
const DASH = { batch: "solid", route: "dash", oracle: "dot" };

function accuracyFigure(curve, call) {
  const made = figure({
    title: "Accuracy against budget",
    hint: `on ${number(curve.items)} held-out items, beside what needs no portfolio`,
    call,
    wide: true,
  });
  const rows = curve.curves.flatMap((one) => one.points.map((point) => ({ method: one.method, ...point })));
  return [
    made,
    () => ({
      data: curve.curves.map((one) => ({
        x: one.points.map((point) => point.budget),
        y: one.points.map((point) => point.accuracy),
        mode: "lines+markers",
        name: WORDS[one.method] ?? one.method,
        line: { dash: DASH[one.method] ?? "solid", width: one.method === "batch" ? 3.5 : 1.7 },
        marker: { size: one.method === "batch" ? 7 : 4 },
        hovertemplate: hover`${WORDS[one.method] ?? one.method}: %{y:.1%}<br>for %{x:.4g} ${curve.unit} a query<extra></extra>`,
      })),
      layout: {
        xaxis: { title: { text: `budget of a query (${curve.unit})` } },
        yaxis: { title: { text: "accuracy" }, tickformat: "~%" },
      },
      columns: [
        { title: "method", key: "method" },
        { title: `budget (${curve.unit})`, key: "budget" },
        { title: "accuracy", key: "accuracy" },
        { title: "estimated", key: "estimated_accuracy" },
        { title: `really cost (${curve.unit})`, key: "cost" },
      ],
      rows,
    }),
  ];
}

function usageFigure(curve, call) {
  const made = figure({ title: "Who answers", hint: "the share of queries that each classifier gets", call });
  const { points } = curve.curves.find((one) => one.method === "batch");
  const names = Object.keys(points[0].usage);
  return [
    made,
    () => {
      const colour = colours(names.length);
      return {
        data: names.map((name, at) => ({
          x: points.map((point) => point.budget),
          y: points.map((point) => point.usage[name] / curve.items),
          name,
          stackgroup: "all",
          mode: "lines",
          line: { width: 0.5, color: colour[at] },
          fillcolor: colour[at],
          hovertemplate: hover`${name}: %{y:.1%} of queries<extra></extra>`,
        })),
        layout: {
          xaxis: { title: { text: `budget of a query (${curve.unit})` } },
          yaxis: { title: { text: "share of queries" }, tickformat: "~%", range: [0, 1] },
        },
        columns: [
          { title: `budget (${curve.unit})`, key: "budget" },
          ...names.map((name) => ({ title: name, value: (point) => point.usage[name] })),
        ],
        rows: points,
      };
    },
  ];
}

function priceFigure(curve, call) {
  const made = figure({
    title: "Shadow price",
    hint: "the accuracy that a further unit of cost brings: single queries are routed by it",
    call,
  });
  return [
    made,
    () => ({
      data: [
        {
          x: curve.prices.map((one) => one.budget),
          y: curve.prices.map((one) => one.price),
          mode: "lines",
          line: { shape: "hv" },
          hovertemplate: hover`%{y:.4g} for a further ${curve.unit}<br>at %{x:.4g} ${curve.unit} a query<extra></extra>`,
        },
      ],
      layout: {
        xaxis: { title: { text: `budget of a query (${curve.unit})` } },
        yaxis: { title: { text: `accuracy per ${curve.unit}` }, rangemode: "tozero" },
      },
      columns: [
        { title: `budget (${curve.unit})`, key: "budget" },
        { title: "price", key: "price" },
      ],
      rows: curve.prices,
    }),
  ];
}

page(async ({ solver, name }) => {
  const path = under("portfolios", name);
  const { unit, params } = await showArtifact({ solver, name });
  const call = { path: path("curve") };
  const curve = await get(call.path);
  const figures = [accuracyFigure, usageFigure, priceFigure].map((make) => make(curve, call));
  fill(
    "figures",
    figures.map(([one]) => one.element),
    params.embedder ? textPanel({ path, unit, embedder: params.embedder }) : null,
    assignPanel({ path, unit, classifiers: Object.keys(curve.curves[0].points[0].usage) }),
  );
  for (const [one, what] of figures) await one.draw(what);
});
