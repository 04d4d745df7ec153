// A figure: a chart, and one click away its numbers, as a table, as CSV, and as the API call that made them.

import { bytes, curl, key } from "./api.js";
import { copyable, csv, download, failure, fill, h, table } from "./dom.js";

const PLOTLY = "/console/plotly.min.js";
const shown = new Set();
let library = null;

/** Load the charts' library when the first chart needs it. */
function plotly() {
  library ??= new Promise((done, failed) => {
    document.head.append(
      h("script", {
        src: PLOTLY,
        onload: () => done(window.Plotly),
        onerror: () => {
          library = null;
          failed(new Error("the charts' library could not be loaded"));
        },
      }),
    );
  });
  return library;
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const palette = () => Array.from({ length: 8 }, (_, at) => colour(`--c${at}`));

/** Give colours for many things: the palette first, then evenly around the circle. */
export function colours(count) {
  const first = palette();
  const more = (at) => `hsl(${Math.round((at * 137.5) % 360)} 55% 55%)`;
  return Array.from({ length: count }, (_, at) => first[at] ?? more(at));
}

const VIRIDIS = [
  "#440154",
  "#482878",
  "#3e4989",
  "#31688e",
  "#26828e",
  "#1f9e89",
  "#35b779",
  "#6ece58",
  "#b5de2b",
  "#fde725",
];

/** The colours of amounts: the brighter, the more. */
export const RAMP = VIRIDIS.map((one, at) => [at / (VIRIDIS.length - 1), one]);

/** Give colours for so many things in a rising order. */
export function ramp(count) {
  const channel = (hex, at) => parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16);
  return Array.from({ length: count }, (_, at) => {
    const place = count === 1 ? VIRIDIS.length / 2 : (at * (VIRIDIS.length - 1)) / (count - 1);
    const [low, high, part] = [VIRIDIS[Math.floor(place)], VIRIDIS[Math.ceil(place)], place % 1];
    return `rgb(${[0, 1, 2].map((one) => Math.round(channel(low, one) * (1 - part) + channel(high, one) * part)).join(",")})`;
  });
}

/** A logarithmic axis with ticks at 1, 2 and 5, or at powers of ten where there are many. */
export function logAxis(title, values) {
  const found = values.flat().filter((value) => value > 0);
  const [low, high] = [Math.floor(Math.log10(Math.min(...found))), Math.ceil(Math.log10(Math.max(...found)))];
  const steps = high - low > 3 ? [1] : [1, 2, 5];
  const tickvals = Array.from({ length: high - low + 1 }, (_, at) =>
    steps.map((step) => step * 10 ** (low + at)),
  ).flat();
  return {
    type: "log",
    title: { text: title },
    tickvals,
    ticktext: tickvals.map((value) => Number(value.toPrecision(1)).toString()),
  };
}

/** Whether there is room for a telephone's width only. */
export const narrow = () => window.innerWidth < 600;

/** Give room for the legend above the chart, so that it takes none from the chart. */
function heightOf(data, tall) {
  const named = data.filter((trace) => trace.name && trace.showlegend !== false).length;
  const rows = named < 2 ? 0 : Math.ceil(named / (narrow() ? 1 : 3));
  return (tall ? 440 : 310) + 20 * rows;
}

function layoutOf(given) {
  const axis = {
    gridcolor: colour("--line"),
    zerolinecolor: colour("--line"),
    linecolor: colour("--muted"),
    automargin: true,
  };
  const merged = {
    font: { color: colour("--ink"), family: "system-ui, sans-serif", size: narrow() ? 11 : 13 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    colorway: palette(),
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    hovermode: "closest",
    dragmode: narrow() ? false : "zoom",
    ...given,
    margin: { l: 50, r: 12, t: 12, b: 44, ...given.margin },
  };
  for (const name of Object.keys(merged)
    .filter((one) => /^[xy]axis\d*$/.test(one))
    .concat("xaxis", "yaxis")) {
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
  const element = h(
    "section",
    { class: wide ? "card figure wide" : "card figure", "aria-label": title },
    h("h3", {}, title),
    hint ? h("p", { class: "hint" }, hint) : null,
    chart,
    details,
  );
  let make = null;

  async function render() {
    const { data, layout = {}, columns, rows } = make();
    fill(numbers, exports(title, call, columns, rows), table(title, columns, rows));
    const charts = await plotly();
    if (!chart.isConnected) return;
    await charts.react(chart, data, layoutOf({ height: heightOf(data, tall), ...layout }), {
      displayModeBar: false,
      responsive: true,
    });
  }
  const draw = (given) => {
    make = given;
    shown.add(render);
    return render().catch((error) => fill(numbers, failure(error)));
  };
  return {
    element,
    chart,
    draw,
    retold: (other) => {
      call = other;
    },
  };
}

function exports(title, call, columns, rows) {
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const buttons = [
    h(
      "button",
      { type: "button", class: "quiet", onclick: () => download(`${name}.csv`, "text/csv", csv(columns, rows)) },
      "CSV",
    ),
  ];
  if (call && !call.json) {
    const save = async (event) => {
      if (!key()) return; // without keys the link itself will do
      event.preventDefault();
      download(`${name}.json`, "application/json", await bytes(call.path));
    };
    buttons.push(
      h("a", { class: "button quiet", href: call.path, target: "_blank", rel: "noopener", onclick: save }, "JSON"),
    );
  }
  return [h("div", { class: "links" }, buttons), call ? copyable("Copy curl", curl(call)) : null];
}

/** From now on say which thing on a drawn chart is clicked: on(customdata of the point). */
export function onPick({ chart }, on) {
  chart.removeAllListeners?.("plotly_click");
  chart.on?.("plotly_click", ({ points }) => points[0].customdata !== undefined && on(points[0].customdata));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown.forEach((render) => render()));
