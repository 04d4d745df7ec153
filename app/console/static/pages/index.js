import { get } from "../api.js";
import { showArtifact, under } from "../artifact.js";
import { decisionPanel } from "../decision.js";
import { empty, fill, number, page, percent, table } from "../dom.js";
import { figure } from "../figures.js";
import { band, hover, logAxis, palette, ramp } from "../theme.js";

const METHODS = ["poly-dom", "greedy", "greedy-acc", "greedy-cost", "naive"];
const MOST_NAMED = 12;
const named = (features) => features.join(" + ") || "none";

/** What the best methods give: the optimum of what was looked at, as near as the search came. */
function optimum({ alpha = 0, left_out: leftOut = [] }) {
  const near = alpha ? ` to within a factor of ${number(1 + alpha)} of accuracy` : "";
  const some = leftOut.length ? `; ${leftOut.length} features were not looked at` : "";
  return `poly-dom and naive give the optimum${near}${some}`;
}

/** A colour scale of so many flat steps, for a map of places in a list. */
function steps(count) {
  const colours = ramp(count);
  return colours.flatMap((colour, at) => [
    [at / count, colour],
    [(at + 1) / count, colour],
  ]);
}

/** The accuracy of some of the feature sets, beside their colours. */
function legendOf(sets) {
  const every = Math.ceil(sets.length / 8);
  const some = sets.map((_, at) => at).filter((at) => (sets.length - 1 - at) % every === 0);
  return {
    title: { text: "accuracy", side: "right" },
    thickness: 10,
    tickvals: some.map((at) => at + 0.5),
    ticktext: some.map((at) => percent(sets[at].accuracy)),
  };
}

function mapFigure(curves, call) {
  const { sizes, budgets, feature_sets: sets, winners, unit } = curves;
  const made = figure({
    title: "Which feature set wins",
    hint: "over the item's size and the budget; the brighter, the more accurate",
    call,
    wide: true,
    tall: true,
  });
  const rows = budgets.flatMap((budget, i) => sizes.map((size, j) => ({ size, budget, ...sets[winners[i][j]] })));
  return [
    made,
    (asked) => () => ({
      data: [
        {
          type: "heatmap",
          x: sizes,
          y: budgets,
          z: winners.map((row) => row.map((at) => at + 0.5)),
          zmin: 0,
          zmax: sets.length,
          zsmooth: false,
          colorscale: steps(sets.length),
          colorbar: legendOf(sets),
          customdata: winners.map((row) =>
            row.map((at) => `${named(sets[at].features)}<br>${percent(sets[at].accuracy)} right`),
          ),
          hovertemplate: hover`size %{x:.4g}, budget %{y:.4g} ${unit}<br>%{customdata}<extra></extra>`,
        },
        ...(asked
          ? [
              {
                x: [asked.size],
                y: [asked.budget],
                mode: "markers",
                marker: {
                  size: 16,
                  symbol: "cross-thin",
                  line: { width: 3, color: getComputedStyle(document.body).color },
                },
                name: "asked",
                showlegend: false,
                hoverinfo: "skip",
              },
            ]
          : []),
      ],
      layout: { xaxis: logAxis("size", sizes), yaxis: logAxis(`budget (${unit})`, budgets) },
      columns: [
        { title: "size", key: "size" },
        { title: `budget (${unit})`, key: "budget" },
        { title: "features", value: (row) => named(row.features) },
        { title: "accuracy", key: "accuracy" },
      ],
      rows,
    }),
  ];
}

function curvesFigure(curves, call) {
  const { sizes, feature_sets: sets, intersections, unit } = curves;
  const made = figure({
    title: "Cost curves",
    hint: `what each feature set costs over the size; dots: where the skyline changes (${number(intersections.length)} places)`,
    call,
    wide: true,
  });
  return [
    made,
    () => {
      const colour = ramp(sets.length);
      return {
        data: [
          ...sets.map((one, at) => ({
            x: sizes,
            y: one.costs,
            mode: "lines",
            name: named(one.features),
            line: { color: colour[at], width: 1.8 },
            showlegend: sets.length <= MOST_NAMED,
            hovertemplate: hover`${named(one.features)} (${percent(one.accuracy)} right)<br>size %{x:.4g}: %{y:.4g} ${unit}<extra></extra>`,
          })),
          {
            x: intersections.map((one) => one.size),
            y: intersections.map((one) => one.cost),
            mode: "markers",
            name: "intersection",
            marker: {
              size: 8,
              symbol: "circle-open",
              color: getComputedStyle(document.body).color,
              line: { width: 2 },
            },
            customdata: intersections.map(
              (one) => `${named(sets[one.second].features)} undercuts ${named(sets[one.first].features)}`,
            ),
            hovertemplate: "%{customdata}<br>from size %{x:.4g} on<extra></extra>",
          },
        ],
        layout: {
          xaxis: logAxis("size", sizes),
          yaxis: logAxis(
            `cost (${unit})`,
            sets.map((one) => one.costs),
          ),
        },
        columns: [
          { title: "size", value: (at) => sizes[at] },
          ...sets.map((one) => ({ title: named(one.features), value: (at) => one.costs[at] })),
        ],
        rows: sizes.map((_, at) => at),
      };
    },
  ];
}

function skylineFigure() {
  const made = figure({
    title: "Skyline at this size",
    hint: "the feature sets that no other one undercuts and reaches in accuracy",
    call: null,
  });
  return [
    made,
    (reply, chosen) => () => ({
      data: [
        {
          x: reply.items.map((one) => one.cost),
          y: reply.items.map((one) => one.expected_accuracy),
          mode: "lines+markers",
          line: { shape: "hv", width: 2 },
          showlegend: false,
          marker: {
            size: reply.items.map((_, at) => (at === chosen ? 15 : 8)),
            color: reply.items.map((_, at) => palette()[at === chosen ? 1 : 0]),
          },
          customdata: reply.items.map((one) => named(one.features)),
          hovertemplate: hover`%{customdata}<br>%{x:.4g} ${reply.unit}, %{y:.1%} right<extra></extra>`,
        },
      ],
      layout: {
        xaxis: { title: { text: `cost (${reply.unit})` } },
        yaxis: {
          title: { text: "accuracy to expect" },
          tickformat: "~%",
          range: band(
            reply.items.map((one) => one.expected_accuracy),
            { keep: chosen === undefined ? [] : [reply.items[chosen].expected_accuracy] },
          ),
        },
      },
      columns: [
        { title: "features", value: (one) => named(one.features) },
        { title: "accuracy to expect", key: "expected_accuracy" },
        { title: "cross-validated", key: "accuracy" },
        { title: `cost (${reply.unit})`, key: "cost" },
      ],
      rows: reply.items,
    }),
  ];
}

page(async ({ kind, name }) => {
  const path = under("indexes", name);
  const record = await showArtifact({ kind, name });
  const { unit } = record;
  const call = { path: path("winners") };
  const curves = await get(call.path).catch((error) => error);
  if (curves instanceof Error && !curves.status) throw curves;
  const drawn =
    curves instanceof Error
      ? []
      : [mapFigure(curves, call), curvesFigure(curves, call)].slice(0, curves.sizes.length ? 2 : 0);
  const { sizes = [], budgets = [1] } = curves instanceof Error ? {} : curves;
  const middle = (list) => list[Math.floor(list.length / 2)];
  const [skyline, drawSkyline] = skylineFigure();
  const sizeInput = sizes.length
    ? { min: sizes[0], max: sizes.at(-1), scale: "log", least: true, value: Number(middle(sizes).toPrecision(3)) }
    : {
        text: true,
        value: record.summary.median_size.join(" "),
        placeholder: "none",
        hint: "left empty where costs do not depend on it; several numbers with spaces",
      };
  const sizeOf = (text) => text.split(/[\s,x]+/).filter(Boolean);
  const panel = decisionPanel({
    title: "Try a size and a budget",
    inputs: [
      { name: "size", label: "Size", ...sizeInput },
      {
        name: "budget",
        label: "Budget",
        unit,
        min: budgets[0] || 1e-3,
        max: budgets.at(-1),
        scale: "log",
        value: Number(middle(budgets).toPrecision(3)),
        placeholder: "0",
        least: true,
      },
      {
        name: "method",
        label: "Method",
        value: "poly-dom",
        options: METHODS.map((value) => ({ value })),
        hint: optimum(record.summary),
      },
      { name: "computed", label: "Computed already", text: true, placeholder: "none", hint: "features, with commas" },
      {
        name: "spent",
        label: "Spent already",
        unit,
        placeholder: "as predicted",
        hint: "if it differs from what was predicted",
      },
    ],
    ask: ({ size, budget, method, computed, spent }) => ({
      path: path("decision", {
        size: sizeOf(size),
        budget: budget || 0,
        method,
        computed: computed
          .split(",")
          .map((one) => one.trim())
          .filter(Boolean),
        spent,
      }),
    }),
    show: (reply) =>
      table(
        `${percent(reply.expected.accuracy)} right for ${number(reply.cost)} ${unit}`,
        [{ title: "compute", value: (one) => one }],
        reply.features.length ? reply.features : ["nothing: the most common class"],
      ),
    after: async (reply, { size, budget }, current) => {
      if (drawn.length) drawn[0][0].draw(drawn[0][1]({ size: Number(size), budget: Number(budget) }));
      const at = path("skyline", { size: sizeOf(size) });
      const points = await get(at).catch((error) => error);
      if (!current()) return;
      skyline.retold({ path: at });
      if (points instanceof Error) skyline.blank(points.message);
      else skyline.draw(drawSkyline(points, reply?.skyline_position));
    },
  });
  fill(
    "figures",
    panel.element,
    skyline.element,
    drawn.map(([one]) => one.element),
    curves instanceof Error ? empty(`There is no map: ${curves.message}`) : null,
  );
  await panel.question();
  if (drawn.length) await drawn[1][0].draw(drawn[1][1]);
});
