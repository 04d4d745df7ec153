// A chart of shares over cost in SVG: marks, lines, labels that fit, and an operating point that is a slider.

import { copyable, csv, download, fill, h, quietButton, table } from "./dom.js";
import { curl } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";
const FAR_APART = 50;
const MAX_SPAN = 0.35;
const SIZE = { height: 360, narrow: 560, top: 30, right: 18, bottom: 46, tick: 8, label: 12, hit: 22 };
const MARKS = {
  circle: "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
  square: "M-4.5 -4.5H4.5V4.5H-4.5Z",
  diamond: "M0 -6L6 0L0 6L-6 0Z",
  triangle: "M0 -6L6 5H-6Z",
  cross: "M-4.5 -4.5L4.5 4.5M-4.5 4.5L4.5 -4.5",
};
const SHAPES = Object.keys(MARKS);
const pen = document.createElement("canvas").getContext("2d");

function s(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null));
  return made;
}

function widthOf(text, size = SIZE.label) {
  pen.font = `${size}px system-ui, "Segoe UI", Roboto, sans-serif`;
  return pen.measureText(text).width + 2;
}

/** Return about count round values of an interval. */
function linearTicks([low, high], count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, at) => (first + at) * step);
}

function logTicks([low, high], count) {
  const decades = Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1;
  const steps = decades > count / 2 ? [1] : [1, 2, 5];
  const first = Math.floor(Math.log10(low));
  const all = Array.from({ length: decades }, (_, at) => steps.map((step) => step * 10 ** (first + at))).flat();
  return all.filter((value) => value >= low && value <= high);
}

const plain = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });

/** Make an axis for values: logarithmic if they are positive and far apart. */
function axisOf(values, { share, whole } = {}) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const format = share ? (value) => `${plain(100 * value)} %` : plain;
  if (!share && least > 0 && most > FAR_APART * least) {
    const ends = [least / 1.4, most * 1.4];
    const logs = ends.map(Math.log);
    const place = (value) => (Math.log(value) - logs[0]) / (logs[1] - logs[0]);
    return { place, format, ticks: (count) => logTicks(ends, count) };
  }
  const room = 0.08 * (most - least) || 0.02;
  const ends = share ? [whole ? 0 : Math.max(0, least - room), Math.min(1.01, most + room)] : [0, most * 1.08 || 1];
  const place = (value) => (value - ends[0]) / (ends[1] - ends[0]);
  return { place, format, ticks: (count) => linearTicks(ends, count).filter((one) => !share || one <= 1) };
}

const overlaps = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/** Return positions on the lines between points, close enough to keep labels off the lines. */
const between = (places) =>
  places.slice(1).flatMap(([x, y], at) => {
    const [fromX, fromY] = places[at];
    const count = Math.ceil(Math.hypot(x - fromX, y - fromY) / 10);
    return Array.from({ length: count }, (_, step) => step / count).map((t) => [
      fromX + t * (x - fromX),
      fromY + t * (y - fromY),
    ]);
  });

/** Choose a place for a label near its mark, within the plot and apart from others; null if none is free. */
function placeLabel({ text, x, y, always }, taken, bounds) {
  const [w, height, gap] = [widthOf(text), 15, 9];
  const places = [
    [x + gap, y - height / 2, "start"],
    [x - gap - w, y - height / 2, "end"],
    [x - w / 2, y - gap - height, "middle"],
    [x - w / 2, y + gap, "middle"],
    [x + gap, y - gap - height, "start"],
    [x - gap - w, y + gap, "end"],
    [x + gap, y + gap, "start"],
    [x - gap - w, y - gap - height, "end"],
  ].map(([left, top]) => ({ x: left, y: top, w, h: height }));
  const isInside = (box) =>
    box.x >= bounds.left && box.x + w <= bounds.right && box.y >= bounds.top && box.y + height <= bounds.bottom;
  const inside = places.filter(isInside);
  const free = inside.find((box) => !taken.some((other) => overlaps(box, other)));
  return free ?? (always ? inside[0] : null) ?? null;
}

const colorOf = (one, at) => one.color ?? `var(--c${at % 6})`;
const shapeOf = (one, at) => one.shape ?? SHAPES[at % SHAPES.length];

function markOf(shape, color, more = {}) {
  const stroke = shape === "cross" ? { stroke: color, "stroke-width": 2, fill: "none" } : { fill: color };
  return s("path", { d: MARKS[shape], ...stroke, ...more });
}

/** Cut the range of shares at MAX_SPAN below the best, so that the useful part has room. */
function visibleFrom(series, keep) {
  const shares = series.flatMap((one) => one.points.map((point) => point.y));
  return Math.min(Math.max(Math.min(...shares), Math.max(...shares) - MAX_SPAN), ...keep);
}

/**
 * Make a chart.
 *
 * series: [{name, points: [{x, y, label, always, text}], line, shape, color, faint}]; without a name not in the legend.
 * limits: [{x or y, text}], drawn as dashed lines. slider: {label, stops: [{x, y, text}], at, move(at)}.
 * columns, rows: the numbers as a table. call: the API request that returned them, or none. whole: show shares from 0 to 1.
 */
export function chart({ title, hint, xTitle, yTitle, series, limits = [], slider, columns, rows, call, whole }) {
  const shown = series.filter((one) => one.points.length);
  const low = whole ? 0 : visibleFrom(shown, slider ? [slider.stops[slider.at].y] : []);
  const visible = shown.map((one) => ({ ...one, points: one.points.filter((point) => point.y >= low) }));
  const stops = slider?.stops.filter((stop) => stop.y >= low) ?? [];
  const points = [...visible.flatMap((one) => one.points), ...stops];
  const hidden = shown.flatMap((one) => one.points).length - visible.flatMap((one) => one.points).length;
  const bounded = limits.filter(({ x }) => x !== undefined && x <= 2 * Math.max(...points.map((one) => one.x)));
  const lower = limits.filter(({ y }) => y !== undefined);
  const xAxis = axisOf([...points, ...bounded].map((point) => point.x));
  const yAxis = axisOf([...points, ...lower].map((point) => point.y), { share: true, whole });
  const plot = h("div", { class: "plot" });
  const readout = h("p", { class: "readout", "aria-hidden": "true" });
  let at = slider ? stops.indexOf(slider.stops[slider.at]) : -1;
  let width = 0;
  let locate = null;
  let handle = null;

  function draw() {
    const isNarrow = width < SIZE.narrow;
    const yTicks = yAxis.ticks(6);
    const left = Math.max(...yTicks.map((tick) => widthOf(yAxis.format(tick)))) + SIZE.tick + 2;
    const [right, bottom] = [width - SIZE.right, SIZE.height - SIZE.bottom];
    const x = (value) => left + xAxis.place(value) * (right - left);
    const y = (value) => bottom - yAxis.place(value) * (bottom - SIZE.top);
    locate = (point) => [x(point.x), y(point.y)];
    const xTicks = xAxis.ticks(isNarrow ? 4 : 8);
    const grid = [
      ...yTicks.map((tick) => [
        s("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
        s("text", { x: left - SIZE.tick, y: y(tick) + 4, "text-anchor": "end" }, yAxis.format(tick)),
      ]),
      ...xTicks.map((tick) => [
        s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: SIZE.top, y2: bottom }),
        s("text", { x: x(tick), y: bottom + 18, "text-anchor": anchorOf(x(tick), right) }, xAxis.format(tick)),
      ]),
      s("text", { class: "axis", x: 0, y: 14 }, yTitle),
      s("text", { class: "axis", x: right, y: SIZE.height - 6, "text-anchor": "end" }, xTitle),
    ].flat();
    const lines = visible
      .map((one, place) => [one, colorOf(one, place)])
      .filter(([one]) => one.line && one.points.length > 1)
      .map(([one, stroke]) => s("polyline", { class: "line", stroke, points: one.points.map(locate).join(" ") }));
    const marks = visible.flatMap((one, place) =>
      one.points.map((point) =>
        markOf(shapeOf(one, place), colorOf(one, place), {
          transform: `translate(${locate(point).join(" ")})`,
          class: one.faint ? "mark faint" : "mark",
        }),
      ),
    );
    const svg = s("svg", { width, height: SIZE.height, onpointermove: showNearest }, grid);
    const names = labels({ left, right, top: SIZE.top, bottom });
    svg.append(...limitLines(x, y, right, bottom), ...lines, ...marks, ...names);
    if (slider) svg.append((handle = makeHandle(svg)));
    const focused = plot.contains(document.activeElement);
    fill(plot, svg);
    if (slider) place(focused);
  }

  const anchorOf = (position, right) => (position > right - 12 ? "end" : "middle");

  function limitLines(x, y, right, bottom) {
    return [...bounded, ...lower].flatMap((limit) => {
      const isUpright = limit.x !== undefined;
      const position = isUpright ? x(limit.x) : y(limit.y);
      const line = isUpright
        ? { x1: position, x2: position, y1: SIZE.top, y2: bottom }
        : { x1: x(0) || 0, x2: right, y1: position, y2: position };
      const end = isUpright && position > width / 2 ? "end" : "start";
      const text = isUpright
        ? { x: position + (end === "end" ? -5 : 5), y: bottom - 6, "text-anchor": end }
        : { x: right, y: position - 5, "text-anchor": "end" };
      return [s("line", { class: "limit", ...line }), s("text", { class: "limit-text", ...text }, limit.text)];
    });
  }

  function labels(bounds) {
    const onLines = visible.filter((one) => one.line).flatMap((one) => between(one.points.map(locate)));
    const boxes = [...points.map(locate), ...onLines].map(([x, y]) => ({ x: x - 6, y: y - 6, w: 12, h: 12 }));
    const wanted = visible.flatMap((one) => one.points.filter((point) => point.label));
    return wanted
      .toSorted((a, b) => Boolean(b.always) - Boolean(a.always))
      .map((point) => {
        const [x, y] = locate(point);
        const box = placeLabel({ text: point.label, x, y, always: point.always }, boxes, bounds);
        if (!box) return null;
        boxes.push(box);
        return s("text", { class: point.always ? "label strong" : "label", x: box.x, y: box.y + 12 }, point.label);
      })
      .filter(Boolean);
  }

  function showNearest({ offsetX, offsetY }) {
    const near = points
      .filter((point) => point.text)
      .map((point) => [Math.hypot(locate(point)[0] - offsetX, locate(point)[1] - offsetY), point])
      .reduce((best, one) => (one[0] < best[0] ? one : best), [Infinity]);
    readout.textContent = near[0] < 3 * SIZE.hit ? near[1].text : "";
  }

  function makeHandle(svg) {
    const nearest = (event) => {
      const { left, top } = svg.getBoundingClientRect();
      const [pointerX, pointerY] = [event.clientX - left, event.clientY - top];
      const distances = stops.map(locate).map(([x, y]) => Math.hypot(x - pointerX, y - pointerY));
      return distances.indexOf(Math.min(...distances));
    };
    const drag = (event) => handle.hasPointerCapture(event.pointerId) && moveTo(nearest(event));
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5 };
    const press = (event) => {
      const ends = { Home: 0, End: stops.length - 1 };
      const next = ends[event.key] ?? (event.key in steps ? at + steps[event.key] : null);
      if (next === null) return;
      event.preventDefault();
      moveTo(Math.min(Math.max(next, 0), stops.length - 1));
    };
    return s(
      "g",
      {
        class: "handle",
        role: "slider",
        tabindex: 0,
        "aria-label": slider.label,
        "aria-valuemin": 0,
        "aria-valuemax": stops.length - 1,
        onkeydown: press,
        onpointermove: drag,
        onpointerdown: (event) => handle.setPointerCapture(event.pointerId),
      },
      s("circle", { class: "hit", r: SIZE.hit }),
      s("circle", { class: "knob", r: 9 }),
    );
  }

  /** Put the handle at its stop. */
  function place(focus = false) {
    handle.setAttribute("transform", `translate(${locate(stops[at]).join(" ")})`);
    handle.setAttribute("aria-valuenow", at);
    handle.setAttribute("aria-valuetext", stops[at].text);
    if (focus) handle.focus();
  }

  function moveTo(next) {
    if (next === at) return;
    at = next;
    place();
    slider.move(slider.stops.indexOf(stops[at]));
  }

  new ResizeObserver(() => {
    if (Math.round(plot.clientWidth) === width || !plot.clientWidth) return;
    width = Math.round(plot.clientWidth);
    draw();
  }).observe(plot);

  return h(
    "figure",
    { class: "chart", role: "group", "aria-label": title },
    hint ? h("p", { class: "hint" }, hint) : null,
    legendOf(shown),
    plot,
    readout,
    hidden ? h("p", { class: "hint" }, `${hidden} less accurate points are only in the table.`) : null,
    numbersOf(title, columns, rows, call),
  );
}

const legendOf = (series) =>
  h(
    "ul",
    { class: "legend" },
    series.map((one, at) => {
      if (!one.name) return null;
      const swatch = s("svg", { width: 16, height: 14, viewBox: "-8 -7 16 14", "aria-hidden": "true" });
      swatch.append(markOf(shapeOf(one, at), colorOf(one, at), { opacity: one.faint ? 0.3 : null }));
      return h("li", {}, swatch, ` ${one.name}`);
    }),
  );

/** Make the closed part with the numbers: as a table, as CSV, and the request that returned them, if given. */
function numbersOf(title, columns, rows, call) {
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const save = quietButton("Download CSV", () => download(`${name}.csv`, "text/csv", csv(columns, rows)));
  return h(
    "details",
    {},
    h("summary", {}, "Numbers"),
    save,
    call ? copyable("Copy curl", curl(call)) : null,
    table(title, columns, rows),
  );
}

/** Return the points that no cheaper point matches in accuracy, by rising cost. */
export function paretoFront(points, { cost = (one) => one.x, accuracy = (one) => one.y } = {}) {
  const best = [];
  for (const one of points.toSorted((a, b) => cost(a) - cost(b) || accuracy(b) - accuracy(a)))
    if (!best.length || accuracy(one) > accuracy(best.at(-1))) best.push(one);
  return best;
}
