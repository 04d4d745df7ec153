import { call, follow, get } from "../api.js";
import { ago, artifactPath, byId, failure, facts, fill, h, link, page, progressText, table, worded } from "../dom.js";

const ENDED = ["succeeded", "failed", "cancelled"];

function show(build) {
  const { id, status, solver, name, dataset, progress } = build;
  const ended = ENDED.includes(status);
  fill(
    "facts",
    facts([
      ["status", status],
      ["solver", solver],
      ["name", name],
      ["dataset", link(`/datasets/${dataset}`, dataset)],
      ["queued", ago(build.created_at)],
      ["took", took(build)],
    ]),
  );
  const bar = ended
    ? null
    : h(
        "progress",
        progress.total
          ? { max: progress.total, value: progress.done, "aria-label": "progress" }
          : { "aria-label": "progress" },
      );
  fill(
    "progress",
    bar,
    ended ? null : h("p", {}, progressText(progress) || (status === "queued" ? "waiting for a worker" : "starting")),
  );
  if (ended) showEnd(build);
  else if (!byId("cancel"))
    fill("actions", h("button", { type: "button", id: "cancel", onclick: () => cancel(id) }, "Cancel this build"));
  fill("params", paramsOf(build));
}

function showEnd({ status, error, artifact }) {
  fill(
    "outcome",
    h("p", {}, `It ${{ succeeded: "succeeded", failed: "failed", cancelled: "was cancelled" }[status]}.`),
    error ? failure(error) : null,
    artifact ? h("p", {}, link(artifactPath(artifact), `See version ${artifact.version} of ${artifact.name}`)) : null,
    status === "cancelled" ? h("p", {}, "Nothing of it was published.") : null,
  );
  fill("actions", link("/builds", "Start another build"));
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

async function cancel(id) {
  try {
    show(await call("DELETE", `/v1/builds/${id}`));
  } catch (error) {
    fill("outcome", failure(error));
  }
}

page(async ({ id }) => {
  const build = await get(`/v1/builds/${id}`);
  show(build);
  if (ENDED.includes(build.status)) return;
  await follow(`/v1/builds/${id}/events`, (kind, latest) => {
    if (kind !== "error") show(latest);
  });
});
