// Progress, cancellation, and outcome of a build.

import { call, get } from "./api.js";
import { failure, fill, h, progressText, quietButton } from "./dom.js";

const EVERY_MS = 500;

/** The kind of builds that make advice; they publish no artifact. */
export const ADVICE = "advice";

export const hasEnded = ({ status }) => ["succeeded", "failed", "cancelled"].includes(status);

/** Describe how a build ended. */
export function outcomeOf({ kind, status, error }) {
  const nothing = kind === ADVICE ? "No advice was made." : "No version was published.";
  const outcome = { succeeded: "succeeded", failed: "failed", cancelled: "was cancelled" }[status];
  return [
    h("p", {}, `The build ${outcome}.`),
    error ? failure(error) : null,
    status === "cancelled" ? h("p", {}, nothing) : null,
  ];
}

/** Make the progress bar of a build. */
export function progressBar({ status, progress }) {
  const known = progress.total ? { max: progress.total, value: progress.done } : {};
  const waiting = status === "queued" ? "waiting for a worker" : "starting";
  return [h("progress", { ...known, "aria-label": "progress" }), h("p", {}, progressText(progress) || waiting)];
}

/** Show a build's progress and a button that cancels it, until it ends; returns the ended build. */
export async function followBuild(host, build, { cancel, show = () => {} }) {
  const path = `/v1/builds/${build.id}`;
  const bar = h("div", { "aria-live": "polite" });
  const fault = h("div");
  let latest = build;
  const update = (now) => {
    latest = now;
    if (hasEnded(now)) fill(host);
    else fill(bar, progressBar(now));
    show(now);
  };
  const stop = () => call("DELETE", path).then(update, (error) => fill(fault, failure(error)));
  fill(host, bar, fault, h("p", {}, quietButton(cancel, stop)));
  update(build);
  while (!hasEnded(latest)) {
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    update(await get(path));
  }
  return latest;
}
