// The chart of advice: what every method reaches over its cost, simple alternatives, and the limits asked for.

import { number, percent } from "./dom.js";
import { figure } from "./figures.js";
import { colour, colours, cut, hover, logAxis, narrow } from "./theme.js";

const MARKERS = ["circle", "square", "diamond", "triangle-up", "hexagon", "pentagon"];
/** Each method has its colour and its marker, whichever others are there. */
const METHODS = ["cascade", "portfolio", "index", "policy", "pipeline"];
/** How far below the chosen methods the chart goes, as a multiple of how far they are below the best; and the least. */
const DEEP = 2;
const LEAST_DEEP = 0.08;
const FAR_APART = 100;
const LABELLED = 5;
/** How near labels may be, as a share of the chart's width and height. */
const NEAR = [0.25, 0.07];
/** From where on, as such shares, there is room for a label below. */
const LOWEST = [0, 0.1];

/** Pick, by rising cost, what nothing cheaper is as accurate as. */
function frontier(points) {
  const best = [];
  for (const one of points.toSorted((a, b) => a.cost - b.cost || b.accuracy - a.accuracy))
    if (!best.length || one.accuracy > best.at(-1).accuracy) best.push(one);
  return best;
}

const ends = (values) => [Math.min(...values), Math.max(...values)];

/** Give the ends of the band that matters: {low, high} of accuracy, {cheap, dear} of cost. */
function bandOf({ kinds, alternatives, budget, min_accuracy: least }) {
  const every = frontier([...kinds.flatMap((one) => one.points), ...alternatives]);
  const chosen = kinds.filter((one) => one.accuracy !== null);
  const best = Math.max(...every.map((one) => one.accuracy));
  const worst = Math.min(best, ...chosen.map((one) => one.accuracy), least ?? 1);
  const low = best - Math.max(DEEP * (best - worst), LEAST_DEEP);
  const curves = [...kinds.map((one) => one.points), alternatives].flatMap(frontier);
  const costs = [...curves.filter((one) => one.accuracy >= low), ...chosen].map((one) => one.cost);
  const [cheap, dear] = ends(costs);
  const seen = budget !== null && budget < 2 * dear ? budget : 0;
  return { low, high: Math.max(best, least ?? 0), cheap, dear: Math.max(dear, seen) };
}

const isWide = ({ cheap, dear }) => cheap > 0 && dear > FAR_APART * cheap;

/** Begin an axis of costs at 0, unless all of them are far from it. */
function rangeOf({ cheap, dear }) {
  const span = Math.max(dear - cheap, 0.2 * dear);
  const low = cheap - 0.3 * span;
  return low > 0.4 * dear ? [low, dear + 0.1 * span] : [0, 1.08 * dear || 1];
}

function axesOf({ unit }, band) {
  const title = `cost of an item on average (${unit})`;
  const room = 0.12 * (band.high - band.low);
  const yaxis = { title: { text: "right" }, tickformat: "~%", range: [band.low, band.high + room] };
  if (!isWide(band)) return { xaxis: { title: { text: title }, range: rangeOf(band) }, yaxis };
  const range = [Math.log10(band.cheap / 1.5), Math.log10(1.5 * band.dear)];
  return { xaxis: { ...logAxis(title, [band.cheap, band.dear]), range }, yaxis };
}

/** Say where a cost and an accuracy stand in the chart, each from 0 to 1. */
function placeIn({ xaxis, yaxis }) {
  const share = (value, [from, to]) => (value - from) / (to - from);
  const across = (cost) => (xaxis.type === "log" ? Math.log10(cost) : cost);
  return ({ cost, accuracy }) => [share(across(cost), xaxis.range), share(accuracy, yaxis.range)];
}

/** Pick the alternatives that are named in the chart: those worth taking that stand in it, apart from each other. */
function labelled(alternatives, take, axes) {
  const place = placeIn(axes);
  const inside = (one) => place(one).every((share, at) => share >= LOWEST[at] && share <= 1);
  const farFrom = (one, other) => place(one).some((share, at) => Math.abs(share - place(other)[at]) > NEAR[at]);
  const picked = alternatives.filter((one) => one.name === take && inside(one));
  for (const one of frontier(alternatives).toReversed())
    if (picked.length < (narrow() ? 2 : LABELLED) && inside(one) && picked.every((other) => farFrom(one, other)))
      picked.push(one);
  return picked;
}

/** Say where a label stands so that it stays within the chart. */
const besides = (share) => (share < 0.4 ? "bottom right" : share > 0.6 ? "bottom left" : "bottom center");

function curveOf(one, shade, symbol, unit) {
  const said = hover`${one.kind}<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`;
  const best = frontier(one.points);
  const rest = one.points.filter((point) => !best.includes(point));
  const trace = (points, more) => ({
    x: points.map((point) => point.cost),
    y: points.map((point) => point.accuracy),
    name: one.kind,
    legendgroup: one.kind,
    hovertemplate: said,
    ...more,
  });
  const chosen = one.accuracy === null ? [] : [one];
  return [
    trace(best, {
      mode: "lines+markers",
      line: { shape: "hv", width: 2, color: shade },
      marker: { symbol, size: 7, color: shade },
    }),
    trace(rest, { mode: "markers", showlegend: false, opacity: 0.35, marker: { symbol, size: 5, color: shade } }),
    trace(chosen, {
      mode: "markers",
      showlegend: false,
      hovertemplate: hover`${one.kind}, chosen<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`,
      marker: { symbol, size: 16, color: shade, line: { width: 2.5, color: colour("--ink") } },
    }),
  ].filter(({ x }) => x.length);
}

function alternativesOf({ alternatives, recommended, unit }, axes) {
  const named = labelled(alternatives, recommended, axes);
  const place = placeIn(axes);
  return {
    x: alternatives.map((one) => one.cost),
    y: alternatives.map((one) => one.accuracy),
    name: "simple alternatives",
    mode: "markers+text",
    text: alternatives.map((one) => (named.includes(one) ? cut(one.name, narrow() ? 22 : 30) : "")),
    textposition: alternatives.map((one) => besides(place(one)[0])),
    textfont: { size: 11, color: colour("--muted") },
    marker: { symbol: "x", size: 8, color: colour("--muted") },
    customdata: alternatives.map((one) => one.name),
    hovertemplate: hover`%{customdata}<br>%{x:.4g} ${unit}, %{y:.1%} right<extra></extra>`,
  };
}

/** Draw the limits as lines with their names; what is beyond the chart is left out. */
function limitsOf({ budget, deadline, min_accuracy: least, unit }, axes) {
  const place = placeIn(axes);
  const line = { dash: "dash", width: 1.5, color: colour("--bad") };
  const font = { size: 11, color: colour("--bad") };
  const upright = ([limit, name, textposition, yanchor]) => {
    const [across] = place({ cost: limit, accuracy: 0 });
    const label = { text: `${name} ${number(limit)} ${unit}`, textposition, textangle: 0, font };
    const side = across > 0.7 ? "right" : "left";
    const ends = { x0: limit, x1: limit, yref: "paper", y0: 0, y1: 1 };
    return across >= 0 && across <= 1 ? [{ type: "line", line, ...ends, label: { ...label, xanchor: side, yanchor } }] : [];
  };
  const level = (limit) => ({
    type: "line",
    line,
    ...{ xref: "paper", x0: 0, x1: 1, y0: limit, y1: limit },
    label: { text: `at least ${percent(limit)} right`, textposition: "start", font },
  });
  const costs = [
    [budget, "budget", "end", "top"],
    [deadline, "deadline", "start", "bottom"],
  ];
  return [...costs.filter(([limit]) => limit !== null).flatMap(upright), ...(least === null ? [] : [level(least)])];
}

/** Make the chart of advice: {element, draw}. */
export function adviceFigure(advice) {
  const { kinds, alternatives, unit, dataset } = advice;
  const made = figure({
    title: "What every method reaches",
    hint:
      "high and to the left is better; of each method the large mark is the setting that was chosen; crosses are what " +
      "could be done without any",
    call: { path: `/v1/advice/${dataset}` },
    wide: true,
    tall: true,
  });
  const known = (one) => METHODS.indexOf(one.kind);
  const places = kinds.map((one, at) => (known(one) < 0 ? METHODS.length + at : known(one)));
  const pointsOf = (one) => one.points.map((point) => ({ what: one.kind, ...point }));
  const draw = () =>
    made.draw(() => {
      const axes = axesOf(advice, bandOf(advice));
      const shades = colours(METHODS.length + kinds.length);
      return {
        data: [
          ...kinds.flatMap((one, at) => curveOf(one, shades[places[at]], MARKERS[places[at] % MARKERS.length], unit)),
          alternativesOf(advice, axes),
        ],
        layout: { showlegend: true, ...axes, shapes: limitsOf(advice, axes) },
        columns: [
          { title: "what to do", key: "what" },
          { title: `cost (${unit})`, key: "cost" },
          { title: "right", key: "accuracy" },
        ],
        rows: [...kinds.flatMap(pointsOf), ...alternatives.map((one) => ({ what: one.name, ...one }))],
      };
    });
  return { element: made.element, draw };
}
