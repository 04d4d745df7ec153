// Amounts in a dataset's unit. A unit of time is called time, any other unit a cost.

import { number, percent } from "./dom.js";

const TIME = /^(ns|us|µs|μs|ms|s|sec|min|h|(milli)?seconds?|minutes?|hours?)$/i;
export const ITEMS = 1000;

const isTime = (unit) => TIME.test(unit.trim());
export const quantityOf = (unit) => (isTime(unit) ? "time" : "cost");
export const capitalize = (text) => text[0].toUpperCase() + text.slice(1);

/** Name the mean per item with its unit, as titles of axes, columns, and fields do. */
export const meanTitle = (unit) => `mean ${quantityOf(unit)} per item (${unit})`;

/** Name the cost or time per 1,000 items with its unit. */
export const totalTitle = (unit) => `${quantityOf(unit)} per 1,000 items (${unit})`;

/** Format an amount per item as one per 1,000 items: "1,520 USD". */
export function perThousand(perItem, unit) {
  const value = ITEMS * perItem;
  return `${value >= 1000 ? Math.round(value).toLocaleString("en") : number(value)} ${unit}`;
}

const digits = (share) => Number((100 * share).toPrecision(3)).toString();

/** Format a change of cost: "31 % less", from a share that is saved; its interval with the same sign. */
export function changeOf(saved, interval) {
  if (saved === null || saved === undefined) return { change: "–", range: "" };
  const sign = saved < 0 ? -1 : 1;
  const bounds = interval && [sign * interval[0], sign * interval[1]].sort((a, b) => a - b);
  const [low, high] = (bounds ?? []).map(digits);
  const range = low === high ? "" : `95 % interval ${low} to ${high} %`;
  return { change: `${digits(sign * saved)} % ${saved < 0 ? "more" : "less"}`, range };
}

/** Return whether figures have a loss, which replaces the accuracy where errors have losses. */
export const hasLoss = ({ loss }) => loss !== null && loss !== undefined;

/** Describe the quality of figures: "98.6 % correct", or with losses "losses 25,800 EUR". */
export const qualityText = (figures, unit) =>
  hasLoss(figures) ? `losses ${perThousand(figures.loss, unit)}` : `${percent(figures.accuracy)} correct`;

/** Make the text of a chart's point: "always jury: 18,170 ms per 1,000 items, 98.6 % correct". */
export const pointText = (name, figures, unit) =>
  `${name}: ${perThousand(figures.cost, unit)} per 1,000 items, ${qualityText(figures, unit)}`;

/** Format a value with its 95 % interval: "93.2 % (91.0 to 95.1 %)". */
export function withInterval(show, value, interval) {
  if (value === null || value === undefined || !interval) return show(value);
  const [low, high] = interval.map((bound) => show(bound).replace("\u00a0%", ""));
  return `${show(value)} (${low} to ${high}${show === percent ? "\u00a0%" : ""})`;
}
