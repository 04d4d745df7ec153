// Savings of an artifact compared with the best simple baseline: a line, and a chart of all baselines.

import { h, number, percent } from "./dom.js";
import { figure } from "./figures.js";
import { band, hover, narrow } from "./theme.js";

const UNKNOWN = "savings were not measured: build it again";

/** Make the line of savings: a flag with the verdict, the headline, the operating point. */
export function headline({ savings, unit }) {
  if (!savings) return h("span", {}, UNKNOWN);
  const flag = { significant: "flag good", worse: "flag bad" }[savings.verdict] ?? "flag";
  const rest = `${percent(savings.accuracy)} correct for ${number(savings.cost)} ${unit} per item, ${savings.decision}`;
  return h("span", {}, h("span", { class: flag }, savings.verdict), ` ${savings.headline}; ${rest}`);
}

/** Say for points where their names stand so that they stay within the chart: near its sides inwards. */
function inwards(points) {
  const costs = points.map((one) => one.cost);
  const [low, high] = [Math.min(...costs), Math.max(...costs)];
  const place = (cost) => (high > low ? (cost - low) / (high - low) : 0.5);
  return costs.map((cost) => (place(cost) < 0.2 ? "top right" : place(cost) > 0.8 ? "top left" : "top center"));
}

/** Make the chart of the simple alternatives, with the artifact among them; null where nothing was measured. */
export function savingsFigure({ kind, name, savings, unit }) {
  if (!savings) return null;
  const made = figure({
    title: "Savings compared with simple baselines",
    hint:
      `${savings.rows} holdout rows. A random mixture of two baselines reaches any point on the line between them.` +
      (savings.advice ? ` What to change: ${savings.advice}.` : ""),
    call: { path: `/v1/artifacts/${kind}/${name}` },
    wide: true,
  });
  const points = savings.baselines.map((one) => ({ ...one, what: one.name }));
  const own = { cost: savings.cost, accuracy: savings.accuracy, what: `${name}, ${savings.decision}` };
  const trace = (rows, name, more) => ({
    x: rows.map((one) => one.cost),
    y: rows.map((one) => one.accuracy),
    text: rows.map((one) => one.what),
    name,
    hovertemplate: hover`%{text}<br>%{x:.4g} ${unit}, %{y:.1%} correct<extra></extra>`,
    ...more,
  });
  const named =
    points.length <= 8 && !narrow() ? { mode: "markers+text", textposition: inwards(points) } : { mode: "markers" };
  const draw = () =>
    made.draw(() => ({
      data: [
        trace(points, "baselines", { ...named, marker: { symbol: "x", size: 9 } }),
        trace([own], `this ${kind}`, { mode: "markers", marker: { size: 12 } }),
      ],
      layout: {
        showlegend: true,
        xaxis: { title: { text: `cost of an item on average (${unit})` } },
        yaxis: {
          title: { text: "right" },
          tickformat: "~%",
          range: band(points.map((one) => one.accuracy).concat(own.accuracy), { keep: [own.accuracy] }),
        },
      },
      columns: [
        { title: "what to do", key: "what" },
        { title: `cost (${unit})`, key: "cost" },
        { title: "right", key: "accuracy" },
      ],
      rows: [own, ...points],
    }));
  return { element: made.element, draw };
}
