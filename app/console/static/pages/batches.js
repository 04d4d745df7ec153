// Batches: progress, spending, download of the output, and cancellation.

import { call, getBytes } from "../api.js";
import {
  ago, artifactPath, byId, download, failure, h, link, number, page, quietButton, repeatedly, statusFlag,
} from "../dom.js";
import { listTable } from "../lists.js";
import { hasEnded } from "../progress.js";

const EVERY_MS = 1500;
const path = (id) => `/v1/batches/${id}`;

/** Make a button that works once at a time and shows errors after itself. */
function actionButton(text, work) {
  const act = async () => {
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      button.after(failure(error));
      if (error.status === undefined) throw error;
    } finally {
      button.disabled = false;
    }
  };
  const button = quietButton(text, act);
  return button;
}

const save = (id) => async () => download(`${id}.jsonl`, "application/jsonl", await getBytes(`${path(id)}/output`));
const cancel = (id) => async () => {
  await call("DELETE", path(id));
  await showList();
};

function progressOf({ status, done, failed, total }) {
  const text = `${number(done + failed)} of ${number(total)}${failed ? `, ${number(failed)} failed` : ""}`;
  const bar = h("progress", { max: total, value: done + failed, "aria-label": "completed items" });
  return status === "running" ? h("span", {}, bar, " ", text) : text;
}

const artifactLink = (ref) => link(artifactPath(ref), `${ref.kind} ${ref.name} ${ref.version}`);

const columns = [
  { title: "batch", key: "id", show: (id) => id.slice("batch-".length, "batch-".length + 8) },
  { title: "status", key: "status", show: statusFlag },
  { title: "artifact", key: "artifact", show: artifactLink },
  { title: "items", value: ({ done, failed }) => `${done + failed}`, show: (_, row) => progressOf(row) },
  { title: "spent", value: ({ spent }) => `${number(spent.cost)} ${spent.unit}` },
  { title: "queued", key: "created_at", show: ago },
  {
    title: "",
    value: ({ error, confidence_problems }) => [error ?? [], confidence_problems].flat().join("; "),
    show: (message, row) => [
      message,
      row.done + row.failed ? actionButton("Download", save(row.id)) : null,
      " ",
      hasEnded(row) ? null : actionButton("Cancel", cancel(row.id)),
    ],
  },
];

const showList = listTable({
  host: "list",
  path: "/v1/batches",
  caption: "Newest first",
  columns: () => columns,
  hint: () => ["There are no batches yet. Send a file of items to ", link("/docs#/batches", "POST /v1/batches"), "."],
});

/** Show the list, except while the request of one of its buttons is running. */
const showBatches = async () => byId("list").querySelector("button:disabled") || showList();

page(async () => {
  await showBatches();
  repeatedly(EVERY_MS, "list", showBatches);
});
