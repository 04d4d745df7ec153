// How charts look: colours from the style sheet, axes, legends, and names that are text and never markup.

const MOST_NAMED = 20;
const MARKUP = /<(?!br>)/g;

/** Write a name so that a chart shows it as it is: plotly reads what it is given as markup, and "%{" as a place to fill. */
const plain = (text) =>
  String(text ?? "")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll("%{", "%&#123;");

/** Shorten a name where there is little room. */
export const short = (name) => cut(name, 30);
/** Shorten a name to so many characters at its end. */
export const cut = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

/** Let every text of a chart's data be text; of markup only the line breaks are kept, which are ours. */
export function asText(value) {
  if (typeof value === "string") return value.replaceAll("&", "&amp;").replace(MARKUP, "&lt;");
  if (Array.isArray(value)) return value.map(asText);
  if (value === null || typeof value !== "object") return value;
  const written = ([key, one]) => {
    if (key === "hovertemplate") return [key, one]; // its names are plain already
    return [key, asText(key === "name" ? short(one) : one)];
  };
  return Object.fromEntries(Object.entries(value).map(written));
}

/** A text for a chart, in which what is filled in is plain: hover`${name}<br>%{x}`. */
export const hover = (texts, ...values) => texts.reduce((whole, text, at) => whole + plain(values[at - 1]) + text);

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

/**
 * The range of an axis of shares over the band in which they lie: not from 0 where they are all far from it. One that
 * would take half of the axis for itself, at the worse end, is left beyond it unless it is to be kept.
 */
export function band(shares, { worse = "low", keep = [] } = {}) {
  const sorted = shares.toSorted((a, b) => (worse === "low" ? b - a : a - b)); // the worst comes last
  const [best, next, worst] = [sorted[0], sorted.at(-2), sorted.at(-1)];
  const alone = sorted.length > 3 && 2 * Math.abs(worst - next) > Math.abs(worst - best);
  const seen = [...(alone ? sorted.slice(0, -1) : sorted), ...keep];
  const [low, high] = [Math.min(...seen), Math.max(...seen)];
  const room = Math.max(0.08 * (high - low), 0.003);
  const edge = 0.04 * (high - low) + 0.001; // so that a mark at 0 or 1 is whole
  return [Math.max(low - room, -edge), Math.min(high + room, 1 + edge)];
}

/** Shorten a name to so many characters, each of its parts alike: "pixels-neighbours" to "pixe-neig". */
export function brief(name, most) {
  if (name.length <= most) return name;
  const parts = name.split(/[-_. ]+/).filter(Boolean);
  const each = Math.max(Math.floor((most - parts.length + 1) / parts.length), 2);
  return parts.map((part) => part.slice(0, each)).join("-").slice(0, most);
}

/** A logarithmic axis with ticks at 1, 2 and 5, or at powers of ten where there are many. */
export function logAxis(title, values) {
  const positive = values.flat().filter((value) => value > 0);
  if (!positive.length) return { title: { text: title } };
  const [low, high] = [Math.floor(Math.log10(Math.min(...positive))), Math.ceil(Math.log10(Math.max(...positive)))];
  const steps = high - low > 3 ? [1] : [1, 2, 5];
  const decades = Math.ceil((high - low) / 9);
  const tickvals = Array.from({ length: Math.floor((high - low) / decades) + 1 }, (_, at) =>
    steps.map((step) => step * 10 ** (low + decades * at)),
  ).flat();
  const seen = tickvals.filter((value) => value >= Math.min(...positive) && value <= Math.max(...positive));
  if (seen.length < 3) return { type: "log", title: { text: title }, nticks: 6 };
  return {
    type: "log",
    title: { text: title },
    tickvals,
    ticktext: tickvals.map((value) => Number(value.toPrecision(1)).toString()),
  };
}

/** Whether there is room for a telephone's width only. */
export const narrow = () => window.innerWidth < 600;

const namedOf = (data) => data.filter((trace) => trace.name && trace.showlegend !== false).length;

/** Give room for the legend above the chart, so that it takes none from the chart. */
export function heightOf(data, tall) {
  const named = namedOf(data);
  const rows = named < 2 || named > MOST_NAMED ? 0 : Math.ceil(named / (narrow() ? 1 : 3));
  return (tall ? 440 : 310) + 20 * rows;
}

/** Complete a layout; a legend of very many names is left out: hovering tells them. */
export function layoutOf(data, given) {
  const axis = {
    gridcolor: colour("--line"),
    zerolinecolor: colour("--line"),
    linecolor: colour("--muted"),
    automargin: true,
    exponentformat: "e", // powers would be set higher by a style, which the pages' policy forbids
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
    ...(namedOf(data) > MOST_NAMED ? { showlegend: false } : {}),
    ...given,
    margin: { l: 50, r: 20, t: 12, b: 44, ...given.margin },
  };
  for (const name of Object.keys(merged)
    .filter((one) => /^[xy]axis\d*$/.test(one))
    .concat("xaxis", "yaxis")) {
    merged[name] = { ...axis, ...merged[name] };
  }
  return merged;
}
