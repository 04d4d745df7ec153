// The panel of an automation: what follows from drift, and the steps that were taken or failed.

import { get, query } from "./api.js";
import { empty, facts, flag, h, table, timeOf } from "./dom.js";

/** Return the automation of an artifact, or null. */
export async function automationOf({ kind, name }) {
  const { items } = await get(query("/v1/automations", { kind, name }));
  return items[0] ?? null;
}

/** Return the nodes of an automation. */
export function automationPanel({ spec, drifted_version, build, rollout_version, problem, events }) {
  return [
    facts([
      ["rebuild after drift", spec.rebuild_on_drift ? "on" : "off"],
      ["rows", spec.recording ? `of recording ${spec.recording}` : "of feedback"],
      ["rollout of the new version", spec.rollout?.mode ?? "none"],
      ["last version with drift", drifted_version ?? "none"],
      ["its rebuild", build ?? "none"],
      ["version that was rolled out", rollout_version ?? "none"],
    ]),
    problem === null ? null : h("p", {}, flag("failed", "bad"), ` ${problem}`),
    events.length ? eventTable(events) : empty("No steps yet: an alarm of the drift detector starts the first one."),
  ];
}

const eventTable = (events) =>
  table(
    "Events",
    [
      { title: "time", key: "at", show: timeOf },
      { title: "event", key: "event", show: (event) => flag(event, event === "failed" ? "bad" : "") },
      { title: "reason", key: "reason" },
    ],
    events,
    { records: true },
  );
