// A chart of bars in SVG, each compared with a wider one behind it.

import { h, number } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const SIZE = { width: 720, height: 220, left: 64, bottom: 24, top: 10 };
const MAX_LABELS = 6;

function s(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Make a chart. bars: [{label, value, compared}]; name, comparedName: of both values, for the legend. */
export function barChart({ title, name, comparedName, bars }) {
  const most = Math.max(...bars.map((one) => Math.max(one.value, one.compared)), Number.MIN_VALUE);
  const [bottom, step] = [SIZE.height - SIZE.bottom, (SIZE.width - SIZE.left) / bars.length];
  const heightOf = (value) => (value / most) * (bottom - SIZE.top);
  const every = Math.ceil(bars.length / MAX_LABELS);
  const parts = [0, 0.5, 1].map((share) => {
    const y = bottom - share * (bottom - SIZE.top);
    const line = s("line", { class: "grid", x1: SIZE.left, x2: SIZE.width, y1: y, y2: y });
    return [line, s("text", { x: SIZE.left - 8, y: y + 4, "text-anchor": "end" }, number(share * most))];
  });
  const drawn = bars.map(({ label, value, compared }, at) => {
    const x = SIZE.left + at * step;
    const bar = (amount, share, kind) => {
      const width = Math.min(step, 60) * share;
      const place = { x: x + (step - width) / 2, y: bottom - heightOf(amount), width, height: heightOf(amount) };
      return s("rect", { class: kind, ...place });
    };
    const text = `${label}: ${name} ${number(value)}, ${comparedName} ${number(compared)}`;
    const group = s("g", {}, s("title", {}, text), bar(compared, 0.8, "compared"), bar(value, 0.5, "value"));
    const tick = s("text", { x: x + step / 2, y: SIZE.height - 6, "text-anchor": "middle" }, label);
    return at % every ? [group] : [group, tick];
  });
  const box = `0 0 ${SIZE.width} ${SIZE.height}`;
  const about = { class: "bars", viewBox: box, role: "img", "aria-label": title };
  return h(
    "figure",
    {},
    h("figcaption", {}, title),
    s("svg", about, ...parts.flat(), ...drawn.flat()),
    h("p", { class: "hint" }, `Dark bars: ${name}. Light bars: ${comparedName}.`),
  );
}
