import { get } from "../api.js";
import { showArtifact, under } from "../artifact.js";
import { assignPanel } from "../assignment.js";
import { fill, number, page } from "../dom.js";
import { figure } from "../figures.js";
import { textPanel } from "../text_route.js";
import { colours, hover } from "../theme.js";

const budgetAxis = (unit) => ({ title: { text: `budget of a query (${unit})` } });
const bars = (points) => ({
  type: "data",
  symmetric: false,
  array: points.map(({ expected: one }) => one.accuracy_interval[1] - one.accuracy),
  arrayminus: points.map(({ expected: one }) => one.accuracy - one.accuracy_interval[0]),
  thickness: 1,
  width: 2,
});

function accuracyFigure({ points, baselines, rows, unit }, call) {
  const made = figure({
    title: "Accuracy against cost",
    hint: `on ${number(rows)} holdout rows, with 95 % intervals, compared with baselines`,
    call,
    wide: true,
  });
  const own = points.map(({ expected, limits }) => ({ name: "single queries", ...expected, ...limits }));
  const others = baselines.flatMap((one) => one.points.map((point) => ({ name: one.name, ...point })));
  const hovertemplate = hover`%{fullData.name}: %{y:.1%}<br>for %{x:.4g} ${unit} a query<extra></extra>`;
  return [
    made,
    () => ({
      data: [
        {
          x: own.map((one) => one.cost),
          y: own.map((one) => one.accuracy),
          error_y: bars(points),
          mode: "lines+markers",
          name: "single queries",
          line: { width: 3.5 },
          hovertemplate,
        },
        ...baselines.map((one) => ({
          x: one.points.map((point) => point.cost),
          y: one.points.map((point) => point.accuracy),
          mode: one.points.length > 1 ? "lines+markers" : "markers",
          name: one.name,
          line: { width: 1.5, dash: "dot" },
          marker: { size: one.points.length > 1 ? 4 : 8, symbol: one.points.length > 1 ? "circle" : "x" },
          hovertemplate,
        })),
      ],
      layout: {
        xaxis: { title: { text: `mean cost of a query (${unit})` } },
        yaxis: { title: { text: "accuracy" }, tickformat: "~%" },
      },
      columns: [
        { title: "method", key: "name" },
        { title: `budget (${unit})`, key: "budget" },
        { title: "accuracy", key: "accuracy" },
        { title: `cost (${unit})`, key: "cost" },
      ],
      rows: [...own, ...others],
    }),
  ];
}

function usageFigure({ points, rows, unit }, call) {
  const made = figure({ title: "Who answers", hint: "the share of queries that each classifier gets", call });
  const names = Object.keys(points[0].decision.usage);
  return [
    made,
    () => {
      const colour = colours(names.length);
      return {
        data: names.map((name, at) => ({
          x: points.map(({ limits }) => limits.budget),
          y: points.map(({ decision }) => decision.usage[name] / rows),
          name,
          stackgroup: "all",
          mode: "lines",
          line: { width: 0.5, color: colour[at] },
          fillcolor: colour[at],
          hovertemplate: hover`${name}: %{y:.1%} of queries<extra></extra>`,
        })),
        layout: { xaxis: budgetAxis(unit), yaxis: { title: { text: "share of queries" }, tickformat: "~%", range: [0, 1] } },
        columns: [
          { title: `budget (${unit})`, value: ({ limits }) => limits.budget },
          ...names.map((name) => ({ title: name, value: ({ decision }) => decision.usage[name] })),
        ],
        rows: points,
      };
    },
  ];
}

function priceFigure({ points, unit }, call) {
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
          x: points.map(({ limits }) => limits.budget),
          y: points.map(({ decision }) => decision.price),
          mode: "lines+markers",
          hovertemplate: hover`%{y:.4g} for a further ${unit}<br>at %{x:.4g} ${unit} a query<extra></extra>`,
        },
      ],
      layout: { xaxis: budgetAxis(unit), yaxis: { title: { text: `accuracy per ${unit}` }, rangemode: "tozero" } },
      columns: [
        { title: `budget (${unit})`, value: ({ limits }) => limits.budget },
        { title: "price", value: ({ decision }) => decision.price },
      ],
      rows: points,
    }),
  ];
}

page(async ({ kind, name }) => {
  const path = under("portfolios", name);
  const { unit, params } = await showArtifact({ kind, name });
  const call = { path: path("curve") };
  const curve = await get(call.path);
  const figures = [accuracyFigure, usageFigure, priceFigure].map((make) => make(curve, call));
  fill(
    "figures",
    figures.map(([one]) => one.element),
    params.embedder ? textPanel({ path, unit, embedder: params.embedder }) : null,
    assignPanel({ path, unit, classifiers: Object.keys(curve.points[0].decision.usage) }),
  );
  for (const [one, what] of figures) await one.draw(what);
});
