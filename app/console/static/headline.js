// What an artifact is worth beside the strongest simple thing to do instead: a line, and a chart of all of these.

import { h, number, percent } from "./dom.js";
import { figure } from "./figures.js";
import { band, hover, narrow } from "./theme.js";

const UNKNOWN = "what it saves was not measured when it was built: build it again";
const GOOD = ["saves", "gains"];
/** Where a headline says already how accurate the artifact is. */
const SAYS_RIGHT = /% right/;

/** Say in a line what an artifact is worth, with a flag where it is worth something. */
export function headline({ worth, unit }) {
  if (!worth) return h("span", {}, UNKNOWN);
  const flag = { saves: "flag good", gains: "flag good", worse: "flag bad", nothing: "flag" }[worth.verdict];
  const word = { saves: "worth it", gains: "worth it", worse: "not worth it", nothing: "nothing shown" }[worth.verdict];
  const right = SAYS_RIGHT.test(worth.headline) ? "" : `${percent(worth.accuracy)} right `;
  const rest = `${right}for ${number(worth.cost)} ${unit} an item, ${worth.decision}`;
  return h("span", {}, h("span", { class: flag }, word), ` ${worth.headline}; ${rest}`);
}

/** Say for points where their names stand so that they stay within the chart: near its sides inwards. */
function inwards(points) {
  const costs = points.map((one) => one.cost);
  const [low, high] = [Math.min(...costs), Math.max(...costs)];
  const place = (cost) => (high > low ? (cost - low) / (high - low) : 0.5);
  return costs.map((cost) => (place(cost) < 0.2 ? "top right" : place(cost) > 0.8 ? "top left" : "top center"));
}

/** Make the chart of the simple alternatives, with the artifact among them; null where nothing was measured. */
export function worthFigure({ kind, name, worth, unit }) {
  if (!worth) return null;
  const made = figure({
    title: "Beside what you could do without it",
    hint:
      `${worth.rows} rows that had no part in choosing anything. Between two crosses, a coin that sends each item to ` +
      `the one or the other reaches any point of the line.${GOOD.includes(worth.verdict) ? "" : ` What would help: ${worth.advice}.`}`,
    call: { path: `/v1/artifacts/${kind}/${name}` },
    wide: true,
  });
  const points = worth.alternatives.map((one) => ({ ...one, what: one.name }));
  const own = { cost: worth.cost, accuracy: worth.accuracy, what: `${name}, ${worth.decision}` };
  const trace = (rows, name, more) => ({
    x: rows.map((one) => one.cost),
    y: rows.map((one) => one.accuracy),
    text: rows.map((one) => one.what),
    name,
    hovertemplate: hover`%{text}<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`,
    ...more,
  });
  const named =
    points.length <= 8 && !narrow() ? { mode: "markers+text", textposition: inwards(points) } : { mode: "markers" };
  const draw = () =>
    made.draw(() => ({
      data: [
        trace(points, "instead", { ...named, marker: { symbol: "x", size: 9 } }),
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
