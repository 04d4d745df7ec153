import { showAdvice } from "../advice.js";
import { call, get, listed } from "../api.js";
import { askToDelete } from "../deletion.js";
import { ago, artifactPath, byId, empty, facts, fill, h, link, more, number, page, percent, table, warningsOf } from "../dom.js";
import { figure } from "../figures.js";
import { colour, colours, hover, logAxis, narrow, short } from "../theme.js";

const SYMBOLS = 5;
const MANY = 100;

function classesFigure(profile, call) {
  if (!profile.classes.length) return null;
  const made = figure({ title: "Classes", hint: "how many rows are of each class", call });
  return [
    made,
    () => ({
      data: [
        {
          type: "bar",
          x: profile.classes.map((one) => one.name),
          y: profile.classes.map((one) => one.rows),
          hovertemplate: "%{x}: %{y} rows<extra></extra>",
        },
      ],
      layout: { xaxis: { type: "category" }, yaxis: { title: { text: "rows" } } },
      columns: [
        { title: "class", key: "name" },
        { title: "rows", key: "rows" },
      ],
      rows: profile.classes,
    }),
  ];
}

function classifiersFigure(profile, call) {
  const made = figure({
    title: "Accuracy against cost",
    hint: "each classifier alone: high and to the left is better",
    call,
  });
  const columns = [
    { title: "classifier", key: "name" },
    { title: "accuracy", key: "accuracy" },
    { title: `mean cost (${profile.unit})`, key: "mean_cost" },
    { title: "mean confidence", key: "mean_confidence" },
    { title: "answers no class", key: "no_class" },
    { title: "group", key: "group" },
  ];
  return [
    made,
    () => ({
      data: profile.classifiers.map((one, at) => ({
        mode: "markers",
        name: one.name,
        x: [one.mean_cost],
        y: [one.accuracy],
        marker: { size: 12, symbol: at % SYMBOLS, color: colours(profile.classifiers.length)[at] },
        hovertemplate: hover`${one.name}<br>%{x:.4g} ${profile.unit}, %{y:.1%} right<extra></extra>`,
      })),
      layout: {
        xaxis: profile.classifiers.every((one) => one.mean_cost > 0)
          ? logAxis(
              `mean cost of an item (${profile.unit})`,
              profile.classifiers.map((one) => one.mean_cost),
            )
          : { title: { text: `mean cost of an item (${profile.unit})` } },
        yaxis: { title: { text: "accuracy" }, tickformat: "~%" },
        showlegend: true,
      },
      columns,
      rows: profile.classifiers,
    }),
  ];
}

function agreementFigure(profile, call) {
  const { classifiers, share, wrong, right } = profile.agreement;
  const named = { tickvals: classifiers, ticktext: classifiers.map(short) };
  const made = figure({
    title: "Who is right when who is wrong",
    hint: "of the rows that the classifier below gets wrong, the share that the one at the left gets right: where it is high, trying both pays",
    call,
    tall: classifiers.length > 5,
  });
  const rows = classifiers
    .flatMap((mine, i) =>
      classifiers.map((other, j) => ({ mine, other, share: share[i][j], right: right[i][j], wrong: wrong[j] })),
    )
    .filter((row) => row.mine !== row.other);
  return [
    made,
    () => ({
      data: [
        {
          type: "heatmap",
          x: classifiers,
          y: classifiers,
          z: share.map((row, i) => row.map((value, j) => (i === j ? null : value))),
          colorscale: [
            [0, colour("--soft")],
            [1, "#0072b2"],
          ],
          zmin: 0,
          zmax: 1,
          hoverongaps: false,
          colorbar: { tickformat: "~%", thickness: 10 },
          xgap: classifiers.length > 20 ? 0 : 2,
          ygap: classifiers.length > 20 ? 0 : 2,
          texttemplate: classifiers.length <= 8 && !narrow() ? "%{z:.0%}" : "",
          showscale: !narrow(),
          hovertemplate: "%{y} is right about %{z:.1%}<br>of what %{x} gets wrong<extra></extra>",
        },
      ],
      layout: {
        yaxis: { autorange: "reversed", type: "category", ...named },
        xaxis: { type: "category", title: { text: "wrong" }, tickangle: -35, ...named },
      },
      columns: [
        { title: "wrong", key: "other" },
        { title: "right", key: "mine" },
        { title: "share", key: "share" },
        { title: "rows right", key: "right" },
        { title: "rows wrong", key: "wrong" },
      ],
      rows,
    }),
  ];
}

function calibrationFigure(profile, call) {
  const calibrated = profile.classifiers.filter((one) => one.calibration.length);
  if (!calibrated.length) return null;
  const made = figure({
    title: "Calibration",
    hint: "how often answers of a confidence are right: on the dotted line confidence can be taken at its word",
    call,
  });
  const rows = calibrated.flatMap((one) => one.calibration.map((bin) => ({ classifier: one.name, ...bin })));
  const most = Math.max(1, ...rows.map((row) => row.confidence));
  const shades = colours(profile.classifiers.length); // each has the colour that it has in the other chart
  return [
    made,
    () => ({
      data: [
        {
          x: [0, most],
          y: [0, most],
          mode: "lines",
          line: { dash: "dot", width: 1.5 },
          name: "as sure as right",
          hoverinfo: "skip",
        },
        ...calibrated.map((one) => ({
          x: one.calibration.map((bin) => bin.confidence),
          y: one.calibration.map((bin) => bin.accuracy),
          mode: "lines+markers",
          name: one.name,
          line: { color: shades[profile.classifiers.indexOf(one)] },
          customdata: one.calibration.map((bin) => bin.rows),
          hovertemplate: hover`${one.name}: %{y:.1%} right<br>at confidence %{x:.3f} (%{customdata} rows)<extra></extra>`,
        })),
      ],
      layout: {
        xaxis: { title: { text: "mean confidence" } },
        yaxis: { title: { text: "accuracy" }, range: [0, 1.03] },
      },
      columns: ["classifier", "low", "high", "confidence", "accuracy", "rows"].map((key) => ({ title: key, key })),
      rows,
    }),
  ];
}

function costsFigure(profile, call) {
  const made = figure({
    title: "Cost of each feature",
    call,
    hint: profile.sizes.length
      ? `over the item's size${profile.dimensions > 1 ? ", the same in every dimension" : ""}; dots are timings`
      : "it does not depend on the item's size",
  });
  const { unit, sizes, features } = profile;
  if (!sizes.length) {
    const rows = features.toSorted((a, b) => b.cost - a.cost);
    return [
      made,
      () => ({
        data: [
          {
            type: "bar",
            orientation: "h",
            y: rows.map((one) => one.name),
            x: rows.map((one) => one.cost),
            hovertemplate: hover`%{y}: %{x:.4g} ${unit}<extra></extra>`,
          },
        ],
        layout: {
          xaxis: { title: { text: `cost (${unit})` } },
          yaxis: { type: "category", autorange: "reversed" },
          height: Math.max(330, 60 + 22 * rows.length),
        },
        columns: [
          { title: "feature", key: "name" },
          { title: "columns", key: "columns" },
          { title: `cost (${unit})`, key: "cost" },
        ],
        rows,
      }),
    ];
  }
  return [
    made,
    () => ({
      data: features.flatMap((one, at) =>
        [
          {
            x: sizes,
            y: one.costs,
            mode: "lines",
            name: one.name,
            legendgroup: one.name,
            line: { color: colours(features.length)[at] },
            hovertemplate: hover`${one.name}: %{y:.4g} ${unit}<br>at size %{x:.4g}<extra></extra>`,
          },
          {
            x: one.timings.map((timing) => timing.size),
            y: one.timings.map((timing) => timing.cost),
            mode: "markers",
            legendgroup: one.name,
            showlegend: false,
            marker: { size: 7, symbol: "circle-open", color: colours(features.length)[at] },
            hovertemplate: hover`${one.name} was timed: %{y:.4g} ${unit}<br>at size %{x:.4g}<extra></extra>`,
          },
        ].filter((trace) => trace.x.length),
      ),
      layout: {
        xaxis: logAxis("size", sizes),
        yaxis: logAxis(
          `cost (${unit})`,
          features.map((one) => one.costs),
        ),
      },
      columns: [
        { title: "size", value: (at) => sizes[at] },
        ...features.map((one) => ({ title: one.name, value: (at) => one.costs[at] })),
      ],
      rows: sizes.map((_, at) => at),
    }),
  ];
}

async function showBuilt(name, wanted = MANY) {
  const list = await listed("/v1/artifacts", { dataset: name, summary: false }, wanted);
  const columns = [
    { title: "kind", key: "kind" },
    { title: "name", key: "name", show: (one, row) => link(artifactPath(row), one) },
    { title: "version", key: "version" },
  ];
  fill(
    "built",
    list.items.length
      ? [
          table("active versions", columns, list.items, { most: Infinity }),
          more(list, () => showBuilt(name, list.items.length + MANY)),
        ]
      : empty("Nothing is built from it yet. ", link(`/builds#dataset=${name}`, "Start a build"), "."),
  );
  fill("delete", h("button", { type: "button", class: "quiet", onclick: () => deleteIt(name, list) }, "Delete it…"));
}

const NAMED = 5;

/** Say what becomes of the artifacts that were built from a dataset once it is gone. */
function afterwards({ items, total }) {
  if (!total) return "It goes for good, with the advice on it. Nothing that answers was built from it.";
  const names = items.slice(0, NAMED).map((one) => `${one.kind} ${one.name}`);
  const rest = total > names.length ? ` and ${number(total - names.length)} more` : "";
  return (
    `It goes for good, with the advice on it. What was built from it answers on, but cannot be built again: ` +
    `${names.join(", ")}${rest}.`
  );
}

function deleteIt(name, built) {
  askToDelete({
    what: `dataset ${name}`,
    why: afterwards(built),
    name,
    act: async () => {
      await call("DELETE", `/v1/datasets/${name}`);
      location.assign("/datasets");
    },
  });
}

async function showProfile(name) {
  const call = { path: `/v1/datasets/${name}/profile` };
  const profile = await get(call.path);
  const made =
    profile.kind === "trace"
      ? [classifiersFigure, agreementFigure, calibrationFigure, classesFigure]
      : [costsFigure, classesFigure];
  const figures = made.map((make) => make(profile, call)).filter(Boolean);
  fill(
    "figures",
    figures.map(([one]) => one.element),
  );
  for (const [one, what] of figures) await one.draw(what);
}

page(async ({ name }) => {
  const info = await get(`/v1/datasets/${name}`);
  fill("warnings", warningsOf(info.warnings));
  fill(
    "facts",
    facts([
      ["kind", info.spec.kind],
      ["rows", number(info.rows)],
      ["classes", info.classes.length ? number(info.classes.length) : "none: answers are judged"],
      ["unit", info.spec.unit],
      ["stored", h("time", { datetime: info.created_at, title: info.created_at }, ago(info.created_at))],
      ["", link(`/builds#dataset=${name}`, "Build from it")],
    ]),
  );
  fill(
    "spec",
    h("details", {}, h("summary", {}, "The spec"), h("pre", { tabindex: "0" }, JSON.stringify(info.spec, null, 2))),
  );
  await Promise.all([showProfile(name), showBuilt(name), showAdvice(info)]);
});
