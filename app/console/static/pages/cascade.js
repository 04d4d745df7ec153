import { get } from "../api.js";
import { showArtifact, under } from "../artifact.js";
import { fill, h, number, page, percent } from "../dom.js";
import { decisionPanel } from "../decision.js";
import { figure } from "../figures.js";
import { colour, hover, palette } from "../theme.js";

const arrow = (names) => names.join(" → ");

const accuracyWords = ({ accuracy }) => (accuracy === undefined ? "" : ` ${percent(accuracy)} of answers are right.`);

/** The cascade as a timeline: each classifier, what it takes, and the share of items that come to it. */
function timeline({ steps, expected_duration: expected, maximum_duration: most, expected: facts }, unit) {
  const bar = (share) => {
    const filled = h("span");
    filled.style.width = `${100 * share}%`;
    return h("div", { class: "bar", "aria-hidden": "true" }, filled);
  };
  return [
    h("p", {}, `Expected: ${number(expected)} ${unit}; at most ${number(most)} ${unit}.${accuracyWords(facts)}`),
    h(
      "ol",
      { class: "timeline" },
      steps.map((step) =>
        h(
          "li",
          {},
          h("strong", {}, step.classifier),
          ` ${number(step.execution_time)} ${unit} (at most ${number(step.worst_case_time)}), `,
          step.confidence_threshold === null
            ? "its answer is taken whatever it is"
            : `its answer is taken from confidence ${number(step.confidence_threshold)} on`,
          bar(step.probability_of_reaching),
          h("small", {}, `${percent(step.probability_of_reaching)} of items come here`),
        ),
      ),
    ),
  ];
}

function timelineFigure(call) {
  const made = figure({
    title: "Timeline",
    hint: "each classifier's mean time, as high as the share of items that come to it: the area is the expected duration",
    call,
  });
  return [
    made,
    (reply, unit) => () => {
      let at = 0;
      const bars = reply.steps.map((step) => {
        const from = at;
        at += step.execution_time;
        return { ...step, from };
      });
      const colours = palette();
      return {
        data: bars.map((step, place) => ({
          type: "bar",
          name: step.classifier,
          x: [step.from + step.execution_time / 2],
          width: [step.execution_time],
          y: [step.probability_of_reaching],
          marker: { color: colours[place % colours.length] },
          hovertemplate: hover`${step.classifier}: ${number(step.execution_time)} ${unit}<br>%{y:.1%} of items come here<extra></extra>`,
        })),
        layout: {
          xaxis: { title: { text: `mean time since the start (${unit})` }, range: [0, at * 1.02] },
          yaxis: { title: { text: "share of items" }, tickformat: "~%", range: [0, 1.05] },
          showlegend: true,
          barmode: "overlay",
        },
        columns: [
          { title: "classifier", key: "classifier" },
          { title: "confidence threshold", key: "confidence_threshold" },
          { title: `execution time (${unit})`, key: "execution_time" },
          { title: `worst case (${unit})`, key: "worst_case_time" },
          { title: "share of items", key: "probability_of_reaching" },
        ],
        rows: reply.steps,
      };
    },
  ];
}

function deadlinesFigure(call) {
  const made = figure({
    title: "Expected duration over the deadline",
    hint: "a looser deadline takes no longer on average, but may be less accurate: each step is another cascade",
    call,
    wide: true,
  });
  return [
    made,
    (items, unit, deadline) => () => {
      const end = items.at(-1).deadline_from * 1.15 + 1e-9;
      const last = { ...items.at(-1), deadline_from: end };
      const points = [...items, last];
      const data = [
        {
          x: points.map((one) => one.deadline_from),
          y: points.map((one) => one.expected_duration),
          mode: "lines+markers",
          line: { shape: "hv", width: 2.5 },
          marker: { size: points.map((_, at) => (at < items.length ? 7 : 0)) },
          customdata: points.map((one) => [arrow(one.cascade), percent(one.accuracy)]),
          hovertemplate: hover`from deadline %{x:.4g} ${unit} on: %{y:.4g} ${unit}<br>%{customdata[0]}<br>%{customdata[1]} right<extra></extra>`,
          name: "expected duration",
          showlegend: false,
        },
      ];
      const shapes =
        deadline > 0 && deadline < 10 * end
          ? [
              {
                type: "line",
                x0: deadline,
                x1: deadline,
                yref: "paper",
                y0: 0,
                y1: 1,
                line: { dash: "dot", color: palette()[1], width: 2 },
              },
            ]
          : [];
      return {
        data,
        layout: {
          shapes,
          xaxis: { title: { text: `deadline (${unit})` } },
          yaxis: { title: { text: `expected duration (${unit})` }, rangemode: "tozero" },
        },
        columns: [
          { title: `deadline from (${unit})`, key: "deadline_from" },
          { title: `to (${unit})`, key: "deadline_to" },
          { title: "cascade", key: "cascade" },
          { title: `expected (${unit})`, key: "expected_duration" },
          { title: `at most (${unit})`, key: "maximum_duration" },
          { title: "right, of held-out rows", key: "accuracy", show: percent },
        ],
        rows: items,
      };
    },
  ];
}

/** The points of the trade-off curve, each with its cascade and its figures side by side. */
async function frontierOf(at) {
  const { points, unit } = await get(at);
  return { unit, items: points.map(({ decision, expected }) => ({ ...decision, ...expected })) };
}

const isPoint = (reply) => (one) =>
  arrow(one.cascade) === arrow(reply.cascade) &&
  one.thresholds.every((threshold, at) => threshold === reply.steps[at].confidence_threshold);

/** Accuracy over cost: the cascades that no mixture of others beats, and each classifier alone. */
function frontierFigure(call, alternatives) {
  const made = figure({
    title: "Accuracy against cost",
    hint: "each dot is a cascade with thresholds of its own; a budget between two is spent by sharing the items out. Bars hold what is true with 95 % confidence.",
    call,
    wide: true,
  });
  const bars = (items, key) => ({
    type: "data",
    symmetric: false,
    array: items.map((one) => one[`${key}_interval`][1] - one[key]),
    arrayminus: items.map((one) => one[key] - one[`${key}_interval`][0]),
    thickness: 1,
    width: 2,
    color: colour("--muted"),
  });
  return [
    made,
    ({ items, unit }, reply) => () => ({
      data: [
        {
          x: items.map((one) => one.cost),
          y: items.map((one) => one.accuracy),
          error_x: bars(items, "cost"),
          error_y: bars(items, "accuracy"),
          mode: "lines+markers",
          name: "cascades",
          marker: { size: items.map((one) => (reply && isPoint(reply)(one) ? 15 : 7)) },
          customdata: items.map((one) => arrow(one.cascade)),
          hovertemplate: hover`%{customdata}<br>%{y:.1%} right for %{x:.4g} ${unit}<extra></extra>`,
        },
        {
          x: alternatives.map((one) => one.cost),
          y: alternatives.map((one) => one.accuracy),
          mode: "markers",
          name: "one classifier always",
          marker: { symbol: "x", size: 9 },
          customdata: alternatives.map((one) => one.name),
          hovertemplate: hover`%{customdata}<br>%{y:.1%} right for %{x:.4g} ${unit}<extra></extra>`,
        },
      ],
      layout: {
        xaxis: { title: { text: `mean cost of an item (${unit})` }, rangemode: "tozero" },
        yaxis: { title: { text: "items answered rightly" }, tickformat: "~%" },
      },
      columns: [
        { title: "cascade", value: (one) => arrow(one.cascade) },
        { title: `cost (${unit})`, key: "cost" },
        { title: "right, of held-out rows", key: "accuracy", show: percent },
        { title: `at most (${unit})`, key: "maximum_duration" },
      ],
      rows: items,
    }),
  ];
}

page(async ({ kind, name }) => {
  const path = under("cascades", name);
  const record = await showArtifact({ kind, name });
  const { unit } = record;
  const frontier = record.summary.frontier ? await frontierOf(path("curve")) : null;
  const [dots, drawDots] = frontierFigure({ path: path("curve") }, record.savings?.baselines ?? []);
  const costs = frontier?.items.map((one) => one.cost_interval[1]);
  const { items } = await get(path("deadlines"));
  const [steps, drawSteps] = deadlinesFigure({ path: path("deadlines") });
  const [line, drawLine] = timelineFigure({ path: path("decision") });
  const [tightest, loosest] = [items[0].deadline_from, items.at(-1).deadline_from];
  const panel = decisionPanel({
    title: frontier ? "Try your limits" : "Try a deadline",
    inputs: [
      {
        name: "deadline",
        label: "Deadline",
        unit,
        min: tightest,
        max: loosest * 1.05,
        hint: `the tightest that can be met is ${number(tightest)} ${unit}`,
      },
      ...(frontier
        ? [
            {
              name: "budget",
              label: "Most that an item may cost on average",
              unit,
              min: costs[0],
              max: costs.at(-1) * 1.05,
              hint: "then the most accurate cascade within it is taken",
            },
            {
              name: "min_accuracy",
              label: "Least accuracy",
              min: 0.5,
              max: 1,
              least: true,
              hint: "then the cheapest that reaches it, from 0 to 1",
            },
          ]
        : []),
    ],
    ask: (limits) => ({ path: path("decision", limits) }),
    show: (reply) => timeline(reply, unit),
    after: (reply, limits) => {
      steps.draw(drawSteps(items, unit, Number(limits.deadline)));
      if (frontier) dots.draw(drawDots(frontier, reply));
      line.retold({ path: path("decision", limits) });
      if (reply) line.draw(drawLine(reply, unit));
      else line.blank(frontier ? "No cascade keeps these limits." : "No cascade meets this deadline.");
    },
  });
  fill("figures", panel.element, line.element, ...(frontier ? [dots.element] : []), steps.element);
  await panel.question();
});
