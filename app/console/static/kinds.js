// What differs between kinds of artifacts: sentences about an operating point, and what a decision requests.
// A kind without an entry has the same page without these.

import { get } from "./api.js";
import { formatValue, h, number, percent, table } from "./dom.js";
import { meanTitle, quantityOf } from "./units.js";

const MAX_PATHS = 12;
const joined = (names) => names.join(" + ");
const list = (sentences) =>
  h(
    "ol",
    { class: "steps" },
    sentences.map((one) => h("li", {}, one)),
  );
const bar = (share) => {
  const filled = h("span");
  filled.style.width = `${100 * share}%`;
  return h("div", { class: "bar", "aria-hidden": "true" }, filled);
};

function describeThreshold({ confidence_threshold: threshold, label_thresholds: byLabel = {} }) {
  if (threshold === null) return ". ";
  const own = Object.entries(byLabel);
  const labels = own.slice(0, 5).map(([label, least]) => `${number(least)} for ${label}`);
  const further = own.length > 5 ? [`and other thresholds for ${own.length - 5} further labels`] : [];
  const other = own.length ? ` (${[...labels, ...further].join(", ")})` : "";
  return ` if its confidence is at least ${number(threshold)}${other}. `;
}

async function describeCascade({ limits }, { path, unit }) {
  const { steps, maximum_duration: most } = await get(path("decision", limits));
  const sentences = steps.map((step, at) => [
    at ? "Otherwise, call " : "Call ",
    h("strong", {}, step.classifier),
    " and accept its answer",
    describeThreshold(step),
    `${percent(step.probability_of_reaching)} of items reach this step.`,
    bar(step.probability_of_reaching),
  ]);
  const limit = `In the worst case, an item takes ${number(most)} ${unit}.`;
  return [list(sentences), quantityOf(unit) === "time" ? h("p", {}, limit) : null];
}

function describeIndex({ decision: { features }, limits }) {
  if (!features.length) return h("p", {}, "Compute no feature: every item gets the most common class.");
  const size = limits.size ? ` For items of size ${[limits.size].flat().map(number).join(" × ")}:` : "";
  return [
    h("p", {}, `The index chooses features by the item's size and the budget.${size}`),
    list([["Compute ", h("strong", {}, joined(features)), "."], "Classify the item by these features."]),
  ];
}

function describePortfolio({ decision: { usage, price } }, { unit }) {
  const total = Object.values(usage).reduce((sum, count) => sum + count, 0);
  const used = Object.entries(usage).filter(([, count]) => count);
  const points = number(100 * price);
  return [
    h("p", {}, "Each item is assigned to one classifier, by its embedding and the budget:"),
    h(
      "ul",
      { class: "steps" },
      used
        .toSorted(([, a], [, b]) => b - a)
        .map(([name, count]) =>
          h("li", {}, h("strong", {}, name), ` answers ${percent(count / total)} of items.`, bar(count / total)),
        ),
    ),
    h("p", {}, `Shadow price: one more ${unit} per item raises accuracy by about ${points} points.`),
  ];
}

function describePipeline({ decision }, { unit, record }) {
  const answersAll = decision.coverage === 1 && record.summary.after_last_stage === "answer";
  const last = decision.stages.length - 1;
  const sentences = decision.stages.map(({ features, cost }, at) => [
    "Acquire ",
    h("strong", {}, joined(features) || "nothing"),
    ` for ${number(cost)} ${unit}. `,
    answersAll && at === last ? "Answer." : "Answer if the classifier is confident enough.",
  ]);
  const rejected = answersAll
    ? "Every item is answered."
    : `${percent(decision.coverage)} of items are answered; a person decides the others.`;
  return [list(sentences), h("p", {}, rejected)];
}

async function describePolicy({ limits, expected }, { path, unit }) {
  const budget = limits.budget ?? expected.cost;
  const { nodes, rows } = await get(path("traffic", { budget }));
  const ends = nodes.filter((node) => node.stopped > 0).toSorted((a, b) => b.stopped - a.stopped);
  return [
    h(
      "p",
      {},
      "The policy acquires one feature or classifier after another. It stops when another one would not pay. " +
        "The table shows what it has acquired when it answers.",
    ),
    table(
      `${meanTitle(unit)}: ${number(expected.cost)}`,
      [
        { title: "acquired", value: ({ sensors }) => joined(sensors) || "nothing" },
        { title: "share of items", value: ({ stopped }) => stopped / rows, show: percent },
        { title: "correct", value: ({ stopped, wrong }) => 1 - wrong / stopped, show: percent },
      ],
      ends,
      { most: MAX_PATHS, records: true },
    ),
  ];
}

export const KINDS = {
  cascade: {
    question: "Which classifier is called first, and when is its answer accepted?",
    describe: describeCascade,
  },
  index: { question: "Which features are computed for an item of a size, within a budget?", describe: describeIndex },
  portfolio: {
    question: "Which classifier answers each item, within a budget?",
    describe: describePortfolio,
    batches: true,
  },
  pipeline: {
    question: "Which features are acquired in which stages, and when is an item answered?",
    describe: describePipeline,
    requested: ({ step }) => (step?.action === "acquire" ? step.features : []),
  },
  policy: {
    question: "Given what is known of an item, what is acquired next, or is it answered?",
    describe: describePolicy,
    requested: ({ action, sensor, then }) => (action === "acquire" ? [sensor, ...then] : []),
  },
};

/** Summarize a decision of any kind in a few words. */
export function decisionText(reply) {
  const { decision, expected, artifact, open_circuits, ...rest } = reply;
  if (reply.cascade) return reply.cascade.join(" → ");
  if (reply.features) return joined(reply.features) || "no features";
  const { action, label } = reply.step ?? reply;
  const requested = KINDS[artifact.kind]?.requested?.(reply) ?? [];
  if (requested.length) return `acquire ${joined(requested)}`;
  if (label) return `class ${label}`;
  if (action) return reply.answer ?? (action === "reject" ? "not answered" : action);
  return reply.classifier ?? formatValue(rest);
}
