// What an artifact saves: today's cost and accuracy, its own, the difference, and the verdict in words.

import { flag, h } from "./dom.js";
import { capitalize, changeOf, hasLoss, perThousand, qualityText, quantityOf } from "./units.js";

const TONES = { significant: "good", worse: "bad" };
const UNKNOWN = "savings were not measured; build it again";

/** Return the baseline that savings are shown against: today's, else the best simple one. */
export const currentBaseline = (savings) =>
  savings.today ?? { ...savings.baseline, saved: savings.saved, saved_interval: savings.saved_interval };

/** Make the headline of an artifact's page. */
export function moneyHeadline({ kind, savings, unit }) {
  if (!savings) return h("p", { class: "verdict" }, capitalize(UNKNOWN), ".");
  const today = currentBaseline(savings);
  const { change, range } = changeOf(today.saved, today.saved_interval);
  const quantity = quantityOf(unit);
  const block = (title, key, figures, ...rest) => {
    const total = figures.cost + (figures.loss ?? 0);
    return h(
      "div",
      { class: "amount", "data-figures": key },
      h("p", { class: "amount-title" }, title),
      h("p", {}, h("strong", { "data-cost": total }, perThousand(total, unit)), " per 1,000 items"),
      ...rest,
      h("p", { "data-accuracy": figures.accuracy }, hasLoss(figures) ? "of which " : "", qualityText(figures, unit)),
    );
  };
  const difference = h(
    "p",
    { class: "difference", "data-saved": today.saved, "data-interval": today.saved_interval?.join(" ") },
    h("b", { class: today.saved > 0 ? "good" : null }, `${change} ${quantity}`),
    range ? `, ${range}` : "",
    today.gained_interval ? `; ${pointsText(today.gained_interval)}` : "",
  );
  return h(
    "div",
    {},
    h(
      "div",
      { class: "money" },
      block(`Today: ${today.name}`, "today", today),
      h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      block(`With this ${kind}`, "artifact", savings, difference),
    ),
    h("p", { class: "verdict" }, flag(savings.verdict, TONES[savings.verdict]), " ", verdictText(savings, unit)),
  );
}

const signed = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

/** Describe the interval of a difference of accuracies. */
const pointsText = ([low, high]) => `accuracy ${signed(low)} to ${signed(high)} points`;

/** Describe the comparison with the best simple baseline. */
function verdictText({ verdict, baseline, saved, saved_interval: interval, gained, gained_interval, rows }, unit) {
  const quantity = quantityOf(unit);
  const figures = `${perThousand(baseline.cost, unit)} per 1,000 items, ${qualityText(baseline, unit)}`;
  const measured = `${figures}. Measured on ${rows.toLocaleString("en")} holdout rows.`;
  const points = (share) => (100 * share).toFixed(1);
  const { change, range } = changeOf(saved, interval);
  if (verdict === "worse")
    return `than a simple baseline: ${baseline.name}, ${measured} Use it instead, or try another kind of artifact.`;
  if (verdict === "not significant") return `compared with the best simple baseline: ${baseline.name}, ${measured}`;
  const bounds = gained_interval.map(points).join(" to ");
  const gain =
    interval?.[0] > 0
      ? `${change} ${quantity}, ${range}`
      : `${points(gained)} points more accuracy for the same ${quantity}, 95 % interval ${bounds}`;
  return `savings compared with the best simple baseline: ${gain}. The baseline: ${baseline.name}, ${measured}`;
}

const COMPARED = {
  significant: "savings; ",
  "not significant": "compared with a simple baseline; ",
  worse: "than a simple baseline; ",
};

/** Make a line for lists: the verdict, and the change compared with today. */
export function savingsLine({ savings, unit }) {
  if (!savings) return UNKNOWN;
  const today = currentBaseline(savings);
  const { change } = changeOf(today.saved);
  return h(
    "span",
    { "data-saved": today.saved },
    flag(savings.verdict, TONES[savings.verdict]),
    ` ${COMPARED[savings.verdict]}${change} ${quantityOf(unit)} than today, ${qualityText(savings, unit)}`,
  );
}
