import { get } from "../api.js";
import { ago, artifactPath, facts, fill, link, page, table, worded } from "../dom.js";
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
      ["took", took(build)],
    ]),
  );
  fill("params", paramsOf(build));
  if (!hasEnded(build)) return;
  fill("outcome", outcomeOf(build), madeBy(build));
  fill("actions", kind === ADVICE ? null : link("/builds", "Start another build"));
}

/** Lead to what a build has made; where there is none of it, advice can be asked for again. */
function madeBy({ kind, status, dataset, artifact }) {
  if (kind === ADVICE) {
    const text = status === "succeeded" ? `See the advice on ${dataset}` : `Ask again on the page of ${dataset}`;
    return link(`/datasets/${dataset}`, text);
  }
  return artifact ? link(artifactPath(artifact), `See version ${artifact.version} of ${artifact.name}`) : null;
}

function paramsOf({ params, seed }) {
  const rows = Object.entries({ ...params, seed }).map(([name, value]) => ({ name, value: worded(value) }));
  const columns = [
    { title: "parameter", value: ({ name }) => name.replaceAll("_", " ") },
    { title: "value", key: "value" },
  ];
  return table("defaults filled in", columns, rows, { most: Infinity });
}

const took = ({ started_at: from, finished_at: to }) =>
  from && to ? `${((Date.parse(to) - Date.parse(from)) / 1000).toFixed(1)} s` : "–";

page(async ({ id }) => {
  const build = await get(`/v1/builds/${id}`);
  await followBuild("progress", build, { cancel: "Cancel this build", show });
});
