import { get } from "../api.js";
import { datasetOf, showArtifact, under } from "../artifact.js";
import { decisionPanel } from "../decision.js";
import { fill, h, number, page, percent, table } from "../dom.js";
import { figure, onPick } from "../figures.js";
import { RAMP, band, brief, colour, hover, narrow, palette } from "../theme.js";
import { walk } from "../walk.js";

const names = (sensors) => sensors.join(" + ") || "nothing yet";
const LEAST_JUDGED = 0.01; // of the items: an accuracy of fewer says little, and would stretch the colours
const SHOWN_SHARE = 5e-4; // of the items: a trade-off that fewer take is there because a budget has so many digits only
const ROOM = { head: 120, row: 52 }; // pixels of the picture of the ways, and of each row of its fullest column

/** Write a cost with seven digits, never below it, so that a budget of it is enough. */
const enoughFor = (cost) => Number((cost * (1 + 6e-7)).toPrecision(7));

/** Read the numbers of an embedding: between commas, blanks or brackets. */
const numbersOf = (written) => written.split(/[\s,[\]]+/).filter(Boolean).map(Number);

/** Say what a point of the curve does that no trade-off decides. */
const fixedAt = (point) => (point.sensors > 0 ? "one classifier always answers" : "nothing is acquired");

/** The point of the curve that an artifact's savings is about, or nearest to it; none where that was not measured. */
function usualOf({ points }, { savings }) {
  if (!savings) return null;
  const away = (one) => Math.abs(one.cost - savings.cost);
  return points.reduce((best, one) => (away(one) < away(best) ? one : best));
}

function curveFigure(call) {
  const made = figure({
    title: "Cost against error",
    hint: "what each trade-off costs and how often it errs; choose a dot. Between two, items with ids take one or the other",
    call,
  });
  return [
    made,
    (curve, traffic) => () => ({
      data: [
        {
          x: curve.points.map((one) => one.cost),
          y: curve.points.map((one) => one.error),
          mode: "lines+markers",
          showlegend: false,
          marker: { size: 8 },
          customdata: curve.points.map((one) => [
            one.tradeoff === null ? fixedAt(one) : `λ = ${number(one.tradeoff)}`,
            number(one.sensors),
            one.cost_bound,
          ]),
          hovertemplate: hover`%{x:.4g} ${curve.unit} an item, %{y:.2%} wrong<br>%{customdata[0]}, %{customdata[1]} sensors<extra></extra>`,
        },
        ...(traffic
          ? [
              {
                x: [traffic.cost],
                y: [traffic.error],
                mode: "markers",
                marker: { size: 15, color: palette()[1] },
                name: "chosen",
                showlegend: false,
                hoverinfo: "skip",
              },
            ]
          : []),
      ],
      layout: {
        xaxis: { title: { text: `mean cost of an item (${curve.unit})` }, rangemode: "tozero" },
        yaxis: {
          title: { text: "error" },
          tickformat: "~%",
          range: band(
            curve.points.map((one) => one.error),
            { worse: "high", keep: traffic ? [traffic.error] : [] },
          ),
        },
      },
      columns: [
        { title: "trade-off", key: "tradeoff" },
        { title: `cost (${curve.unit})`, key: "cost" },
        { title: "upper bound", key: "cost_bound" },
        { title: "error", key: "error" },
        { title: "sensors", key: "sensors" },
      ],
      rows: curve.points,
    }),
  ];
}

/** Put each node at the number of its sensors, and the nodes of a column evenly below each other, the busiest on top. */
function places(nodes) {
  const columns = Map.groupBy(
    nodes.map((node, at) => ({ ...node, at })),
    (node) => node.sensors.length,
  );
  const positions = [];
  for (const [x, column] of columns) {
    column
      .sort((a, b) => b.items - a.items)
      .forEach((node, row) => {
        positions[node.at] = { x, y: -(row + 1) / (column.length + 1) };
      });
  }
  return positions;
}

/** Name a node by what most of the items that come to it had acquired last. */
function labelOf(node, edges) {
  const [busiest] = edges.filter((edge) => edge.target === node).toSorted((a, b) => b.items - a.items);
  if (!busiest) return "start";
  const [first, ...more] = busiest.sensors;
  return `+ ${brief(first, narrow() ? 9 : 16)}${more.length ? ` + ${more.length}` : ""}`;
}

const accuracyOf = (node) => node.correct / node.stopped;

/** The dots of nodes: those where items are answered, coloured from the least to the most accurate, and the others. */
function dotsOf(traffic, at) {
  const { nodes, edges, rows } = traffic;
  const all = nodes.map((node, place) => ({ ...node, ...at[place], label: labelOf(place, edges) }));
  const ends = all.filter((node) => node.stopped > 0);
  const judged = ends.filter((node) => node.stopped >= LEAST_JUDGED * rows);
  const shares = (judged.length ? judged : ends).map(accuracyOf);
  const [least, most] = [Math.min(...shares), Math.max(...shares)];
  const scale = {
    color: ends.map(accuracyOf),
    colorscale: RAMP,
    cmin: least === most ? least - 0.01 : least,
    cmax: most,
    showscale: true,
    colorbar: narrow()
      ? { orientation: "h", y: 1, yanchor: "bottom", thickness: 8, tickformat: ".1~%", nticks: 4, title: { text: "right", side: "top" } }
      : { title: { text: "right", side: "right" }, tickformat: ".1~%", thickness: 10 },
  };
  return [dots(all.filter((node) => !(node.stopped > 0)), traffic, { color: colour("--muted") }), dots(ends, traffic, scale)];
}

function dots(nodes, { rows }, marker) {
  const said = ({ sensors, share, stopped, wrong }) =>
    `${names(sensors)}<br>${percent(share)} of items come here<br>${percent(stopped / rows)} are answered here, ` +
    `${percent(stopped ? wrong / stopped : 0)} of them wrongly`;
  return {
    x: nodes.map((node) => node.x),
    y: nodes.map((node) => node.y),
    mode: "markers+text",
    showlegend: false,
    text: nodes.map((node) => node.label),
    textposition: nodes.map((node) => (node.x % 2 ? "top center" : "bottom center")), // so that neighbours have room
    textfont: { size: narrow() ? 9.5 : 11 },
    cliponaxis: false,
    marker: {
      size: nodes.map((node) => 10 + 30 * Math.sqrt(node.stopped / rows)),
      line: { width: 1, color: colour("--muted") },
      ...marker,
    },
    customdata: nodes.map(said),
    hovertemplate: "%{customdata}<extra></extra>",
  };
}

function dagFigure(call) {
  const made = figure({
    title: "Ways through the sensors",
    hint: "a node is what is known of an item; the thicker a way, the more items take it; the larger a node, the more of them are answered there, and the brighter, the more of these rightly",
    call,
    wide: true,
    tall: true,
  });
  return [
    made,
    (traffic) => () => {
      const { nodes, edges } = traffic;
      const at = places(nodes);
      const ink = colour("--muted");
      const fullest = Math.max(...[...Map.groupBy(at, (one) => one.x).values()].map((column) => column.length));
      const lines = edges.map((edge) => ({
        x: [at[edge.source].x, at[edge.target].x],
        y: [at[edge.source].y, at[edge.target].y],
        mode: "lines",
        hoverinfo: "skip",
        showlegend: false,
        line: { width: 1 + 13 * edge.share, color: ink },
        opacity: 0.35 + 0.4 * edge.share,
      }));
      const middles = {
        x: edges.map((edge) => (at[edge.source].x + at[edge.target].x) / 2),
        y: edges.map((edge) => (at[edge.source].y + at[edge.target].y) / 2),
        mode: "markers",
        showlegend: false,
        marker: { size: 12, opacity: 0 },
        customdata: edges.map(
          (edge) =>
            `${names(edge.sensors)} for ${number(edge.cost)} ${traffic.unit}<br>${percent(edge.share)} of items`,
        ),
        hovertemplate: "%{customdata}<extra></extra>",
      };
      return {
        data: [...lines, middles, ...dotsOf(traffic, at)],
        layout: {
          height: Math.max(440, ROOM.head + ROOM.row * fullest),
          margin: { t: narrow() ? 60 : 24, b: 60 },
          xaxis: {
            title: { text: "sensors acquired" },
            dtick: 1,
            showgrid: false,
            zeroline: false,
            range: [-0.4, Math.max(...at.map((one) => one.x)) + 0.5],
          },
          yaxis: { visible: false, range: [-1.05, 0] },
        },
        columns: [
          { title: "known", value: (edge) => names(nodes[edge.source].sensors) },
          { title: "acquires", key: "sensors" },
          { title: `cost (${traffic.unit})`, key: "cost" },
          { title: "share of items", key: "share" },
          { title: "items", key: "items" },
        ],
        rows: edges,
      };
    },
  ];
}

page(async ({ kind, name }) => {
  const path = under("policies", name);
  const record = await showArtifact({ kind, name });
  const { points, unit } = await get(path("curve"));
  const curve = { unit, points: points.map(({ decision }) => decision) };
  const [costs, drawCosts] = curveFigure({ path: path("curve") });
  const [dag, drawDag] = dagFigure({ path: path("traffic") });
  const most = Math.max(...curve.points.map((one) => one.cost_bound));
  const usual = usualOf(curve, record);
  const { spec } = (await datasetOf(record)) ?? { spec: {} };
  const judged = record.summary.answering === "taken"; // answers without classes: one of them is taken
  const inputsOf = (sensor) => {
    const classifier = spec.classifiers?.find((one) => one.name === sensor);
    if (judged && !classifier?.confidence) return [{ silent: true, label: `${sensor}: its answer, of which the policy hears nothing` }];
    if (judged) return [{ label: `${sensor}: its confidence` }];
    if (classifier)
      return [
        { part: "label", label: `${sensor}: its class`, text: true },
        ...(classifier.confidence ? [{ part: "confidence", label: `${sensor}: its confidence` }] : []),
      ];
    return (spec.features?.find((one) => one.name === sensor)?.columns ?? [sensor]).map((column) => ({
      optional: spec.missing,
      text: spec.categorical?.includes(column),
      label: column === sensor ? sensor : `${sensor}: ${column}`,
    }));
  };
  const costOfSensor = Object.fromEntries(record.summary.sensors.map((one) => [one.name, one.cost]));
  const dimensions = record.summary.embedding?.dimensions ?? 0; // none in versions that were built before
  const walked = h("div");
  const timed = record.summary.sensors.some((one) => (one.time ?? null) !== null);
  const timeUnit = record.summary.time_unit ?? unit;
  const limitSaid = {
    budget: (limit) => `a budget of ${limit} ${unit}`,
    max_item_cost: (limit) => `a hard budget of ${limit} ${unit}`,
    deadline: (limit) => `a deadline of ${limit} ${timeUnit}`,
  };
  const begin = ({ item, embedding: written, ...limits }) => {
    const given = Object.entries(limits).filter(([, limit]) => limit);
    if (dimensions && !written) {
      fill(walked, h("p", { class: "hint" }, `Give the item's embedding above, ${dimensions} numbers: this policy knows it from the start.`));
      return;
    }
    const request = (known) => ({
      method: "POST",
      path: path("decision"),
      json: {
        ...Object.fromEntries(given.map(([limit, value]) => [limit, Number(value)])),
        ...(dimensions ? { embedding: numbersOf(written) } : {}),
        item: item || "console",
        acquired: known,
      },
    });
    fill(
      walked,
      walk({
        hint: given.length
          ? `with ${given.map(([limit, value]) => limitSaid[limit](number(Number(value)))).join(" and ")}`
          : "without a limit",
        unit,
        fields: (step) =>
          [step.sensor, ...step.then].flatMap((sensor) => inputsOf(sensor).map((field) => ({ key: sensor, ...field }))),
        costOf: (step) => [step.sensor, ...step.then].reduce((sum, sensor) => sum + costOfSensor[sensor], 0),
        request,
        said: (step) =>
          step.action === "answer"
            ? `Take the answer of ${step.answer}: ${percent(step.quality)} right, or good, as expected.`
            : `Class ${step.label}: ${percent(step.probabilities[step.label])}.`,
      }),
    );
  };
  const panel = decisionPanel({
    title: "Choose a budget",
    inputs: [
      {
        name: "budget",
        label: "What an item may cost on average",
        unit,
        min: judged ? curve.points[0].cost_bound : 0, // something has to answer then
        max: most,
        value: usual ? enoughFor(usual.cost_bound) : "",
        hint: usual
          ? "it opens at the default operating point; without a limit: the fewest errors"
          : "without a limit: the fewest errors",
      },
      {
        name: "max_item_cost",
        label: "What no item may cost more than, for the walk below",
        unit,
        hint: "beside a budget it bars what would exceed it; alone it is spent as far as it helps",
      },
      ...(timed
        ? [
            {
              name: "deadline",
              label: "How long acquiring may take at most, for the walk below",
              unit: timeUnit,
              hint: "the longest that each sensor may take counts",
            },
          ]
        : []),
      {
        name: "item",
        label: "The item's id, for the walk below",
        text: true,
        value: "console",
        placeholder: "console",
        hint: "between two trade-offs the id decides which one the item takes",
      },
      ...(dimensions
        ? [
            {
              name: "embedding",
              label: "The item's embedding, for the walk below",
              text: true,
              placeholder: "0.12, -0.4, …",
              hint: `${dimensions} numbers, as the dataset had them: this policy knows them before anything is acquired`,
            },
          ]
        : []),
    ],
    ask: ({ budget }) => ({ path: path("traffic", { budget }) }),
    show: (traffic) =>
      table(
        `${number(traffic.cost)} ${unit} an item, ${percent(traffic.error)} wrong, of ${number(traffic.rows)} items that the policy had not learned from`,
        [
          {
            title: "trade-off",
            value: (one) => (one.tradeoff === null ? fixedAt(one) : `λ = ${number(one.tradeoff)}`),
          },
          { title: "share of items", key: "share" },
          { title: `cost (${unit})`, key: "cost" },
          { title: "error", key: "error" },
        ],
        traffic.points.filter((one) => one.share >= SHOWN_SHARE),
        { records: true },
      ),
    after: (traffic, { budget, ...others }) => {
      costs.draw(drawCosts(curve, traffic)).then(() => onPick(costs, ([, , bound]) => panel.set("budget", enoughFor(bound))));
      dag.retold({ path: path("traffic", { budget }) });
      if (!traffic) return dag.blank("There is no traffic to draw for this budget.");
      dag.draw(drawDag(traffic));
      begin({ budget, ...others });
    },
  });
  fill(
    "figures",
    panel.element,
    costs.element,
    dag.element,
    h(
      "section",
      { class: "card wide", "aria-label": "Walk one item through" },
      h("h3", {}, "Walk one item through"),
      walked,
    ),
  );
  await panel.question();
});
