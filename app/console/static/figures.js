// A figure: a chart, and one click away its numbers, as a table, as CSV, and as the API calls that made them.

import { bytes, curl, key } from "./api.js";
import { copyable, csv, download, empty, failure, fill, h, table } from "./dom.js";
import { asText, heightOf, layoutOf } from "./theme.js";

const PLOTLY = "/console/plotly.min.js";
const shown = new Set();
let library = null;

/** Load the charts' library when the first chart needs it. */
function plotly() {
  library ??= new Promise((done, failed) => {
    const script = h("script", {
      src: PLOTLY,
      onload: () => done(window.Plotly),
      onerror: () => {
        library = null;
        script.remove();
        failed(new Error("The charts' library could not be loaded."));
      },
    });
    document.head.append(script);
  });
  return library;
}

/**
 * Make a figure. title, hint: words; call: {path} or {method, path, json}, the API call that its numbers come from, or
 * several; tall: whether it needs more height. The figure's draw(make) draws what make() gives, {data, layout, columns,
 * rows}: it is called again when the colours change. blank(why) says why there is nothing to draw.
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
  let calls = [call].flat().filter(Boolean);
  let make = null;

  async function render() {
    if (!element.isConnected) return forget();
    const { data, layout = {}, columns, rows } = make();
    refilled(numbers, [...exports(title, calls, columns, rows), table(title, columns, rows, { csv: true })]);
    details.hidden = false;
    const charts = await plotly();
    if (!element.isConnected) return forget();
    if (!chart.querySelector(".main-svg")) fill(chart);
    const whole = layoutOf(data, { height: heightOf(data, tall), ...layout });
    await charts.react(chart, asText(data), asText(whole), {
      displayModeBar: false,
      responsive: true,
    });
  }
  const tried = () =>
    render().catch((error) =>
      fill(chart, failure(error), h("button", { type: "button", class: "quiet", onclick: tried }, "Try again")),
    );
  function forget() {
    shown.delete(tried);
    window.Plotly?.purge(chart);
  }
  return {
    element,
    chart,
    draw(given) {
      make = given;
      shown.add(tried);
      return tried();
    },
    blank(why) {
      forget();
      details.hidden = true;
      fill(chart, empty(why));
    },
    retold: (other) => {
      calls = [other].flat();
    },
  };
}

/** Put other content into a place; what had the focus and is there again, by data-keep, has it again. */
function refilled(place, nodes) {
  const kept = place.contains(document.activeElement) ? document.activeElement.dataset.keep : null;
  fill(place, ...nodes);
  if (kept) place.querySelector(`[data-keep="${kept}"]`)?.focus();
}

function exports(title, calls, columns, rows) {
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const save = h(
    "button",
    { type: "button", class: "quiet", onclick: () => download(`${name}.csv`, "text/csv", csv(columns, rows)) },
    "CSV",
  );
  const links = calls.filter((call) => !call.json).map((call) => jsonLink(name, call, calls.length > 1));
  return [h("div", { class: "links" }, save, ...links), ...calls.map((call) => copyable("Copy curl", curl(call)))];
}

function jsonLink(name, { path }, several) {
  const save = async (event) => {
    if (!key()) return; // without keys the link itself will do
    event.preventDefault();
    try {
      download(`${name}.json`, "application/json", await bytes(path));
    } catch (error) {
      event.target.after(failure(error));
    }
  };
  const text = several ? `JSON of ${path.split("?")[0].split("/").slice(2, 4).join(" ")}` : "JSON";
  return h("a", { class: "button quiet", href: path, target: "_blank", rel: "noopener", onclick: save }, text);
}

/** From now on say which thing on a drawn chart is clicked: on(customdata of the point). */
export function onPick({ chart }, on) {
  chart.removeAllListeners?.("plotly_click");
  chart.on?.("plotly_click", ({ points }) => points[0].customdata !== undefined && on(points[0].customdata));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown.forEach((again) => again()));
