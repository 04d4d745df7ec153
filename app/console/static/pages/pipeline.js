import { get } from "../api.js";
import { datasetOf, showArtifact, under } from "../artifact.js";
import { decisionPanel } from "../decision.js";
import { empty, fill, h, number, page, percent } from "../dom.js";
import { figure, onPick } from "../figures.js";
import { RAMP, colour, palette } from "../theme.js";
import { walk } from "../walk.js";

/** Configurations up to which all have their error bars: with more of them nothing else could be seen. */
const MOST_BARS = 30;
const FIGURES = { conclusive_accuracy: "accuracy", coverage: "coverage", cost: "cost" };

const staged = ({ stages }) => stages.map((stage) => stage.features.join(" + ") || "nothing").join(" → ");

/** Draw with 95 % confidence where a figure lies: of the configuration that is chosen, and of all where they are few. */
function bars(items, chosen, key) {
  const spans = items.map((one) => {
    const seen = items.length <= MOST_BARS || one.solution === chosen;
    const [low, high] = (seen && one.expected[`${FIGURES[key]}_interval`]) || [one[key], one[key]];
    return [Math.max(one[key] - low, 0), Math.max(high - one[key], 0)];
  });
  const [below, above] = [spans.map(([low]) => low), spans.map(([, high]) => high)];
  const looks = { thickness: 1, width: 2, color: colour("--muted") };
  return { type: "data", symmetric: false, array: above, arrayminus: below, ...looks };
}

/** Colour dots by one of their figures. */
function shades(items, { key, title }) {
  const values = items.map((one) => one[key]);
  return {
    color: values,
    colorscale: RAMP,
    ...(new Set(values).size === 1 ? { cmin: 0, cmax: 1 } : {}),
    colorbar: { title: { text: title, side: "right" }, tickformat: "~%", thickness: 10 },
  };
}

/** One view of the frontier: y over cost, coloured by the third figure, unless that is the same of all. */
function view({ title, hint, y, yTitle, shade, call }) {
  const made = figure({ title, hint, call });
  return [
    made,
    (frontier, chosen, choose) => () => ({
      data: [
        {
          x: frontier.items.map((one) => one.cost),
          y: frontier.items.map((one) => one[y]),
          mode: "markers",
          showlegend: false,
          customdata: frontier.items.map((one) => one.solution),
          text: frontier.items.map(
            (one) =>
              `${staged(one)}<br>${percent(one.conclusive_accuracy)} of answers right, ${percent(one.coverage)} answered<br>${number(one.cost)} ${frontier.unit} an item`,
          ),
          error_x: bars(frontier.items, chosen, "cost"),
          error_y: bars(frontier.items, chosen, y),
          marker: {
            size: frontier.items.map((one) => (one.solution === chosen ? 17 : 8)),
            ...(shade ? shades(frontier.items, shade) : { color: palette()[0] }),
            line: { width: frontier.items.map((one) => (one.solution === chosen ? 3 : 0)), color: palette()[1] },
          },
          hovertemplate: "%{text}<extra></extra>",
        },
      ],
      layout: {
        xaxis: { title: { text: `mean cost of an item (${frontier.unit})` } },
        yaxis: { title: { text: yTitle }, tickformat: "~%" },
      },
      columns: [
        {
          title: "solution",
          key: "solution",
          show: (solution) =>
            h(
              "button",
              { type: "button", class: "quiet", "data-keep": `choose-${solution}`, onclick: () => choose(solution) },
              `choose ${solution}`,
            ),
        },
        { title: "stages", value: staged },
        { title: "accuracy", key: "conclusive_accuracy" },
        { title: "coverage", key: "coverage" },
        { title: `cost (${frontier.unit})`, key: "cost" },
      ],
      rows: frontier.items,
    }),
  ];
}

/** Say what the stages of a configuration do; answersAll: whether its last stage answers however unsure it is. */
function stagesOf(one, unit, answersAll) {
  const right = answersAll
    ? `every item is answered, ${percent(one.conclusive_accuracy)} of them rightly`
    : `${percent(one.conclusive_accuracy)} of its answers are right, ${percent(one.coverage)} of items get one: ${percent(one.coverage * one.conclusive_accuracy)} of all items are answered rightly`;
  const last = one.stages.length - 1;
  return [
    h("p", {}, `Solution ${one.solution}: ${right}, for ${number(one.cost)} ${unit} an item.`),
    h(
      "ol",
      { class: "timeline" },
      one.stages.map((stage, place) =>
        h(
          "li",
          {},
          h("strong", {}, stage.features.join(", ") || "nothing"),
          ` for ${number(stage.cost)} ${unit}; then answer${answersAll && place === last ? "" : " if sure enough"}`,
        ),
      ),
    ),
    h(
      "p",
      { class: "hint" },
      answersAll
        ? "The last stage answers every item that comes to it, however unsure it is."
        : "After the last stage an item without an answer is left to a person.",
    ),
  ];
}

page(async ({ kind, name }) => {
  const path = under("pipelines", name);
  const record = await showArtifact({ kind, name });
  const call = { path: path("curve") };
  const { points, unit } = await get(call.path);
  const frontier = { unit, items: points.map(({ decision, expected }) => ({ ...decision, expected })) };
  const answersAll = record.summary.after_last_stage === "answer";
  const accuracies = {
    title: "Accuracy against cost",
    hint: `each dot is a configuration${answersAll ? "" : "; the brighter, the more items get an answer"}. Bars hold what is true with 95 % confidence. Choose one to see its stages.`,
    y: "conclusive_accuracy",
    yTitle: "accuracy of answers",
    shade: answersAll ? null : { key: "coverage", title: "coverage" },
    call,
  };
  const coverages = {
    title: "Coverage against cost",
    hint: "the same configurations; the brighter, the more accurate. The one chosen is marked in both.",
    y: "coverage",
    yTitle: "items answered",
    shade: { key: "conclusive_accuracy", title: "accuracy" },
    call,
  };
  const views = (answersAll ? [accuracies] : [accuracies, coverages]).map(view);
  const shown = h("div", { "aria-live": "polite" });
  const walked = h("div");
  let chosen;
  const choose = async (solution) => {
    if (solution === chosen) return;
    const one = frontier.items.find((item) => item.solution === solution);
    fill(shown, stagesOf(one, unit, answersAll));
    fill(walked, walkOf(one));
    await mark(solution);
  };
  const chooseNone = () => {
    fill(shown, empty("No configuration keeps these limits."));
    fill(walked);
    return mark(null);
  };
  const mark = async (solution) => {
    chosen = solution;
    for (const [made, draw] of views) {
      await made.draw(draw(frontier, solution, choose));
      onPick(made, choose);
    }
  };
  const { spec } = (await datasetOf(record)) ?? { spec: {} };
  const columnsOf = (feature) => spec.features?.find((one) => one.name === feature)?.columns ?? [feature];
  const requestOf = ({ solution }, known) => ({
    method: "POST",
    path: path("decision"),
    json: { solution, acquired: known },
  });
  const walkOf = (one) =>
    walk({
      hint: `with solution ${one.solution}; tell the values that it asks for`,
      unit,
      fields: (step) =>
        step.features.flatMap((feature) =>
          columnsOf(feature).map((column) => ({
            key: feature,
            optional: spec.missing,
            text: spec.categorical?.includes(column),
            label: column === feature ? feature : `${feature}: ${column}`,
          })),
        ),
      request: (known) => requestOf(one, known),
      stepOf: ({ step }) => step,
      said: (step) =>
        step.action === "classify"
          ? `Class ${step.label}, sure to ${percent(step.confidence)}, after stage ${step.stage + 1}.`
          : `No stage was sure enough (the last to ${percent(step.confidence)}): leave it to a person.`,
    });
  // A limit is kept with a standard error to spare, which is less than the interval's upper end.
  const costs = frontier.items.map((one) => one.expected.cost_interval?.[1] ?? one.cost);
  const panel = decisionPanel({
    title: "Pick by your limits",
    inputs: [
      { name: "budget", label: "Most that an item may cost", unit, min: Math.min(...costs), max: Math.max(...costs) },
      { name: "min_accuracy", label: "Least accuracy", min: 0.5, max: 1, least: true },
      ...(answersAll ? [] : [{ name: "min_coverage", label: "Least coverage", min: 0, max: 1, least: true }]),
    ],
    ask: (values) => ({ path: path("decision", values) }),
    show: (reply) => h("p", {}, reply.reason),
    after: (reply) => (reply ? choose(reply.solution) : chooseNone()),
  });
  const stages = h(
    "section",
    { class: "card", "aria-label": "Stages" },
    h("h3", {}, "Stages of the one chosen"),
    shown,
  );
  fill(
    "figures",
    panel.element,
    stages,
    views.map(([one]) => one.element),
    h(
      "section",
      { class: "card wide", "aria-label": "Walk one item through" },
      h("h3", {}, "Walk one item through"),
      walked,
    ),
  );
  await panel.question();
});
