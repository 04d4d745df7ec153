// The page of batches: how far each has come, what it has spent, its answers as a file, and a button that cancels it.

import { bytes, call, listed } from "../api.js";
import { ago, artifactPath, byId, download, empty, failure, fill, h, link, more, number, page, repeatedly, table } from "../dom.js";
import { hasEnded } from "../progress.js";

const EVERY_MS = 1500;
const MANY = 100;
let wanted = MANY;
const path = (id) => `/v1/batches/${id}`;

/** Do what a button says, and say where it is asked what went wrong. */
const act = (words, work) => {
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        button.disabled = true;
        try {
          await work();
        } catch (error) {
          button.after(failure(error));
          if (error.status === undefined) throw error;
        } finally {
          button.disabled = false;
        }
      },
    },
    words,
  );
  return button;
};

const save = (id) => async () => download(`${id}.jsonl`, "application/jsonl", await bytes(`${path(id)}/output`));
const cancel = (id) => async () => {
  await call("DELETE", path(id));
  await showBatches();
};

function progressOf({ status, done, failed, total }) {
  const said = `${number(done + failed)} of ${number(total)}${failed ? `, ${number(failed)} without an answer` : ""}`;
  const bar = h("progress", { max: total, value: done + failed, "aria-label": "items run" });
  return status === "running" ? h("span", {}, bar, " ", said) : said;
}

const columns = [
  { title: "batch", key: "id", show: (id) => id.slice("batch-".length, "batch-".length + 8) },
  {
    title: "status",
    key: "status",
    show: (status) => h("span", { class: `flag ${{ failed: "bad", succeeded: "good" }[status] ?? ""}` }, status),
  },
  { title: "artifact", key: "artifact", show: (ref) => link(artifactPath(ref), `${ref.kind} ${ref.name} ${ref.version}`) },
  { title: "items", value: ({ done, failed }) => `${done + failed}`, show: (_, row) => progressOf(row) },
  { title: "spent", value: ({ spent }) => `${number(spent.cost)} ${spent.unit}` },
  { title: "queued", key: "created_at", show: ago },
  {
    title: "",
    value: ({ error, confidence_problems }) => [error ?? [], confidence_problems].flat().join("; "),
    show: (message, row) => [
      message,
      row.done + row.failed ? act("Download", save(row.id)) : null,
      " ",
      hasEnded(row) ? null : act("Cancel", cancel(row.id)),
    ],
  },
];

async function showBatches() {
  const list = await listed("/v1/batches", {}, wanted);
  const showMore = () => {
    wanted = list.items.length + MANY;
    return showBatches();
  };
  if (byId("list").querySelector("button:disabled")) return; // what was pressed is under way
  fill(
    "list",
    list.items.length
      ? [table("the newest first", columns, list.items, { most: Infinity, records: true }), more(list, showMore)]
      : empty("No batch is remembered. Send a file of items to ", link("/docs#/batches", "/v1/batches"), ", or by ", h("code", {}, "parsimony batch add"), "."),
  );
}

page(async () => {
  await showBatches();
  repeatedly(EVERY_MS, "list", showBatches);
});
