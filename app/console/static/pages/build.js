// One build: its progress, its outcome, and its parameters.

import { get } from "../api.js";
import { ago, artifactPath, facts, fill, formatValue, link, page, table } from "../dom.js";
import { ADVICE, followBuild, hasEnded, outcomeOf } from "../progress.js";

function show(build) {
  const { status, kind, name, dataset } = build;
  fill(
    "facts",
    facts([
      ["status", status],
      ["kind", kind],
      ...(kind === ADVICE ? [] : [["name", name]]),
      ["dataset", link(`/datasets/${dataset}`, dataset)],
      ["queued", ago(build.created_at)],
      ["duration", durationOf(build)],
    ]),
  );
  fill("params", paramsOf(build));
  if (!hasEnded(build)) return;
  fill("outcome", outcomeOf(build), resultLink(build));
}

/** Link to the result of a build; to the dataset, where advice can be requested again. */
function resultLink({ kind, status, dataset, artifact }) {
  const next = status === "succeeded" ? "Show the advice" : "Try again";
  if (kind === ADVICE) return link(`/datasets/${dataset}`, `${next} on ${dataset}`);
  return artifact ? link(artifactPath(artifact), `Show version ${artifact.version} of ${artifact.name}`) : null;
}

function paramsOf({ params, seed }) {
  const rows = Object.entries({ ...params, seed }).map(([name, value]) => ({ name, value: formatValue(value) }));
  const columns = [
    { title: "parameter", value: ({ name }) => name.replaceAll("_", " ") },
    { title: "value", key: "value" },
  ];
  return table("With defaults", columns, rows, { most: Infinity });
}

const durationOf = ({ started_at: from, finished_at: to }) =>
  from && to ? `${((Date.parse(to) - Date.parse(from)) / 1000).toFixed(1)} s` : "–";

page(async ({ id }) => {
  const build = await get(`/v1/builds/${id}`);
  await followBuild("progress", build, { cancel: "Cancel this build", show });
});
