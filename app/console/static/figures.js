// A figure: a chart, and one click away its numbers, as a table, as CSV, and as the API call that made them.

import { bytes, curl, key } from "./api.js";
import { copyable, csv, download, failure, fill, h, table } from "./dom.js";

const PLOTLY = "/console/plotly.min.js";
const shown = new Set();
let library = null;

/** Load the charts' library when the first chart needs it. */
function plotly() {
  library ??= new Promise((done, failed) => {
    document.head.append(h("script", { src: PLOTLY, onload: () => done(window.Plotly), onerror: () => {
      library = null;
      failed(new Error("the charts' library could not be loaded"));
    } }));
  });
  return library;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const palette = () => Array.from({ length: 8 }, (_, at) => colour(`--c${at}`));

/** Give colours for many things: the palette first, then evenly around the circle. */
export function colours(count) {
  const first = palette();
  const more = (at) => `hsl(${Math.round((at * 137.5) % 360)} 55% 55%)`;
  return Array.from({ length: count }, (_, at) => first[at] ?? more(at));
}

function layoutOf(given) {
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--muted"), automargin: true };
  const narrow = window.innerWidth < 600;
  const merged = {
    font: { color: colour("--ink"), family: "system-ui, sans-serif", size: narrow ? 11 : 13 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", colorway: palette(),
    margin: { l: 50, r: 12, t: 12, b: 44 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    hovermode: "closest", dragmode: narrow ? false : "zoom", ...given,
  };
  for (const name of Object.keys(merged).filter((one) => /^[xy]axis\d*$/.test(one)).concat("xaxis", "yaxis")) {
    merged[name] = { ...axis, ...merged[name] };
  }
  return merged;
}

/**
 * Make a figure. title, hint: words; call: {path} or {method, path, json}, the API call that its numbers come from;
 * tall: whether it needs more height. The figure's draw(make) draws what make() gives, {data, layout, columns, rows}:
 * it is called again when the colours change.
 */
export function figure({ title, hint, call, tall = false, wide = false }) {
  const chart = h("div", { class: tall ? "chart tall" : "chart" });
  const numbers = h("div");
  const details = h("details", {}, h("summary", {}, "Numbers"), numbers);
  const element = h("section", { class: wide ? "card figure wide" : "card figure", "aria-label": title },
    h("h3", {}, title), hint ? h("p", { class: "hint" }, hint) : null, chart, details);
  let make = null;

  async function render() {
    const { data, layout = {}, columns, rows } = make();
    fill(numbers, exports(title, call, columns, rows), table(title, columns, rows));
    const charts = await plotly();
    if (!chart.isConnected) return;
    await charts.react(chart, data, layoutOf(layout), { displayModeBar: false, responsive: true });
  }
  const draw = (given) => {
    make = given;
    shown.add(render);
    return render().catch((error) => fill(numbers, failure(error)));
  };
  return { element, chart, draw, retold: (other) => { call = other; } };
}

function exports(title, call, columns, rows) {
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const buttons = [h("button", { type: "button", class: "quiet", onclick: () => download(`${name}.csv`, "text/csv", csv(columns, rows)) }, "CSV")];
  if (call && !call.json) {
    const save = async (event) => {
      if (!key()) return; // without keys the link itself will do
      event.preventDefault();
      download(`${name}.json`, "application/json", await bytes(call.path));
    };
    buttons.push(h("a", { class: "button quiet", href: call.path, target: "_blank", rel: "noopener", onclick: save }, "JSON"));
  }
  return [h("div", { class: "links" }, buttons), call ? copyable("Copy curl", curl(call)) : null];
}

/** Say which thing on a chart was clicked: on(customdata of the point). */
export function onPick(figureMade, on) {
  figureMade.chart.on?.("plotly_click", (event) => on(event.points[0].customdata));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown.forEach((render) => render()));
