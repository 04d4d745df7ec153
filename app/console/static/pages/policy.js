import { get } from "../api.js";
import { showArtifact, under } from "../artifact.js";
import { decisionPanel } from "../decision.js";
import { fill, h, number, page, percent, table } from "../dom.js";
import { figure, onPick } from "../figures.js";
import { hover, narrow, palette } from "../theme.js";
import { walk } from "../walk.js";

const names = (sensors) => sensors.join(" + ") || "nothing yet";

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
            one.tradeoff === null ? "nothing is acquired" : `λ = ${number(one.tradeoff)}`,
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
        yaxis: { title: { text: "error" }, tickformat: "~%", rangemode: "tozero" },
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

/** What most of the items that come to a node had acquired last. */
function labelOf(node, edges) {
  const [busiest] = edges.filter((edge) => edge.target === node).toSorted((a, b) => b.items - a.items);
  return busiest.sensors.map((sensor) => `+ ${sensor}`).join("<br>");
}

function dagFigure(call) {
  const made = figure({
    title: "Ways through the sensors",
    hint: "a node is what is known of an item; the thicker a way, the more items take it; the larger a node, the more of them are classified there",
    call,
    wide: true,
    tall: true,
  });
  return [
    made,
    (traffic) => () => {
      const { nodes, edges } = traffic;
      const at = places(nodes);
      const ink = getComputedStyle(document.documentElement).getPropertyValue("--muted");
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
      const dots = {
        x: nodes.map((_, i) => at[i].x),
        y: nodes.map((_, i) => at[i].y),
        mode: nodes.length <= 14 && !narrow() ? "markers+text" : "markers",
        showlegend: false,
        text: nodes.map((node, i) => (node.sensors.length ? labelOf(i, edges) : "start")),
        textposition: "bottom center",
        textfont: { size: 11 },
        cliponaxis: false,
        marker: {
          size: nodes.map((node) => 10 + 34 * Math.sqrt(node.stopped / traffic.rows)),
          color: nodes.map((node) => (node.stopped ? node.wrong / node.stopped : 0)),
          colorscale: [
            [0, palette()[2]],
            [1, palette()[1]],
          ],
          cmin: 0,
          cmax: Math.max(0.05, ...nodes.map((node) => (node.stopped ? node.wrong / node.stopped : 0))),
          showscale: !narrow(),
          colorbar: { title: { text: "wrong", side: "right" }, tickformat: "~%", thickness: 10 },
          line: { width: 1, color: ink },
        },
        customdata: nodes.map(
          (node) =>
            `${names(node.sensors)}<br>${percent(node.share)} of items come here<br>${percent(node.stopped / traffic.rows)} are classified here, ${percent(node.stopped ? node.wrong / node.stopped : 0)} of them wrongly`,
        ),
        hovertemplate: "%{customdata}<extra></extra>",
      };
      return {
        data: [...lines, middles, dots],
        layout: {
          margin: { t: 24, b: 60 },
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

page(async ({ solver, name }) => {
  const path = under("policies", name);
  const record = await showArtifact({ solver, name });
  const curve = await get(path("curve"));
  const { unit } = curve;
  const [costs, drawCosts] = curveFigure({ path: path("curve") });
  const [dag, drawDag] = dagFigure({ path: path("traffic") });
  const most = Math.max(...curve.points.map((one) => one.cost_bound));
  const { spec } = await get(`/v1/datasets/${record.dataset}`).catch(() => ({ spec: {} }));
  const inputsOf = (sensor) => {
    const classifier = spec.classifiers?.find((one) => one.name === sensor);
    if (classifier)
      return [
        { part: "label", label: `${sensor}: its class`, text: true },
        ...(classifier.confidence ? [{ part: "confidence", label: `${sensor}: its confidence` }] : []),
      ];
    return (spec.features?.find((one) => one.name === sensor)?.columns ?? [sensor]).map((column) => ({
      label: column === sensor ? sensor : `${sensor}: ${column}`,
    }));
  };
  const costOfSensor = Object.fromEntries(record.summary.sensors.map((one) => [one.name, one.cost]));
  const walked = h("div");
  const begin = (budget, item) => {
    const request = (known) => ({
      method: "POST",
      path: path("steps"),
      json: { ...(budget ? { budget: Number(budget) } : {}), item, acquired: known },
    });
    fill(
      walked,
      walk({
        hint: budget ? `with a budget of ${budget} ${unit}` : "without a budget",
        unit,
        fields: (step) =>
          [step.sensor, ...step.then].flatMap((sensor) => inputsOf(sensor).map((field) => ({ key: sensor, ...field }))),
        costOf: (step) => [step.sensor, ...step.then].reduce((sum, sensor) => sum + costOfSensor[sensor], 0),
        request,
        said: (step) => `Class ${step.label}: ${percent(step.probabilities[step.label])}.`,
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
        min: 0,
        max: most,
        hint: "without a limit: the fewest errors",
      },
      {
        name: "item",
        label: "The item's id, for the walk below",
        text: true,
        value: "console",
        placeholder: "console",
        hint: "between two trade-offs the id decides which one the item takes",
      },
    ],
    ask: ({ budget }) => ({ path: path("traffic", { budget }) }),
    show: (traffic) =>
      table(
        `${number(traffic.cost)} ${unit} an item, ${percent(traffic.error)} wrong, of ${number(traffic.rows)} items that the policy had not learned from`,
        [
          {
            title: "trade-off",
            value: (one) => (one.tradeoff === null ? "acquire nothing" : `λ = ${number(one.tradeoff)}`),
          },
          { title: "share of items", key: "share" },
          { title: `cost (${unit})`, key: "cost" },
          { title: "error", key: "error" },
        ],
        traffic.points,
      ),
    after: (traffic, { budget, item }) => {
      costs.draw(drawCosts(curve, traffic)).then(() => onPick(costs, ([, , bound]) => panel.set("budget", bound)));
      dag.retold({ path: path("traffic", { budget }) });
      if (!traffic) return dag.blank("There is no traffic to draw for this budget.");
      dag.draw(drawDag(traffic));
      begin(budget, item || "console");
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
