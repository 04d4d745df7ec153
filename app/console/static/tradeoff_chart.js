// The trade-off chart: cost against accuracy, with today's point, baselines, the curve, and a movable operating point.

import { chart, paretoFront } from "./chart.js";
import { currentBaseline } from "./headline.js";
import { capitalize, ITEMS, pointText, quantityOf, totalTitle } from "./units.js";

/** Make a point of the chart from figures per item. */
const pointOf = (name, figures, unit) => ({
  x: ITEMS * figures.cost,
  y: figures.accuracy,
  text: pointText(name, figures, unit),
});

/** Return the accuracy, or with losses the share of the largest loss that is avoided; null if unknown. */
function qualityOf({ accuracy, coverage, loss }, largest) {
  if (largest) return loss === undefined ? null : 1 - loss / largest;
  return (accuracy ?? null) === null ? null : accuracy * (coverage ?? 1);
}

/** Read the points of a curve, by rising cost; items without an answer are not correct. */
const readPoints = ({ points, unit }, name, largest) =>
  points
    .map((point) => ({
      ...point,
      cost: point.expected.cost ?? point.expected.time,
      quality: qualityOf(point.expected, largest),
    }))
    .filter(({ quality }) => quality !== null)
    .map((point) => {
      const figures = { cost: point.cost, accuracy: point.quality, loss: point.expected.loss };
      return { ...point, ...pointOf(name, figures, unit) };
    })
    .toSorted((a, b) => a.x - b.x);

/** Return the point that queries without limits use: the one with the default limits, else the nearest in cost. */
function defaultPoint(points, curve, { savings }) {
  const wanted = JSON.stringify(curve.default);
  const equal = points.find(({ limits }) => JSON.stringify(limits) === wanted);
  if (equal || !savings) return equal ?? points.at(-1);
  const distance = (one) => Math.abs(one.cost - savings.cost) + 1e-6 * Math.abs(one.y - savings.accuracy);
  return points.reduce((best, one) => (distance(one) < distance(best) ? one : best));
}

/** Show the chart; chosen(point) is called for the operating point, at first and when it is moved. */
export function tradeoffChart(record, curve, path, chosen) {
  const { unit, savings, kind, losses } = record;
  const points = readPoints(curve, `this ${kind}`, losses?.largest);
  if (!points.length) return null;
  const usual = defaultPoint(points, curve, record);
  const front = paretoFront(points);
  const stops = points.filter((one) => one === usual || front.includes(one));
  const today = savings && currentBaseline(savings);
  const baselines = curve.baselines
    .filter((one) => one.points.length === 1 && one.name !== today?.name)
    .map(({ name, points: [figures] }) => ({ ...pointOf(name, figures, unit), label: name }));
  const todayPoints = today
    ? [{ ...pointOf(`today, ${today.name}`, today, unit), label: "today", always: true }]
    : [];
  const quality = losses ? "share of the largest loss avoided" : "correct";
  const title = `${capitalize(quantityOf(unit))} against ${losses ? "losses avoided" : "accuracy"}`;
  const others = points.filter((one) => !front.includes(one));
  chosen(usual);
  return chart({
    title,
    xTitle: totalTitle(unit),
    yTitle: quality,
    series: [
      { name: `this ${kind}`, points: front, line: true, shape: "circle", color: "var(--c0)" },
      { name: "less accurate settings", points: others, shape: "circle", color: "var(--c0)", faint: true },
      { name: `today: ${today?.name}`, points: todayPoints, shape: "diamond", color: "var(--c1)" },
      { name: "simple baselines", points: baselines, shape: "cross", color: "var(--muted)" },
    ],
    slider: { label: "Operating point", stops, at: stops.indexOf(usual), move: (at) => chosen(stops[at]) },
    columns: [
      { title: "setting", key: "name" },
      { title: totalTitle(unit), key: "x" },
      { title: quality, key: "y" },
    ],
    rows: [
      ...points.map(({ limits, x, y }) => ({ name: formatLimits(limits), x, y })),
      ...curve.baselines.flatMap((one) =>
        one.points.map(({ cost, accuracy }) => ({ name: one.name, x: ITEMS * cost, y: accuracy })),
      ),
    ],
    call: { path: path("curve") },
  });
}

const formatLimits = (limits) =>
  Object.entries(limits)
    .map(([name, value]) => `${name}=${[value].flat().map((one) => Number(Number(one).toPrecision(6))).join(",")}`)
    .join(" ") || "no limits";
