// A build under way: how far it has come, a button that cancels it, and what became of it.

import { call, follow } from "./api.js";
import { failure, fill, h, progressText } from "./dom.js";

/** What stands for the kind in builds that make advice: these publish no artifact. */
export const ADVICE = "advice";

export const hasEnded = ({ status }) => ["succeeded", "failed", "cancelled"].includes(status);

/** Say what became of a build that has ended. */
export function outcomeOf({ kind, status, error }) {
  const nothing = kind === ADVICE ? "It gave no advice." : "Nothing of it was published.";
  return [
    h("p", {}, `It ${{ succeeded: "succeeded", failed: "failed", cancelled: "was cancelled" }[status]}.`),
    error ? failure(error) : null,
    status === "cancelled" ? h("p", {}, nothing) : null,
  ];
}

function barOf({ status, progress }) {
  const known = progress.total ? { max: progress.total, value: progress.done } : {};
  const waits = status === "queued" ? "waiting for a worker" : "starting";
  return [h("progress", { ...known, "aria-label": "progress" }), h("p", {}, progressText(progress) || waits)];
}

/**
 * Follow a build until it has ended; gives it as it is then. In the host stand meanwhile its progress and a button of
 * these words that cancels it, afterwards nothing; show(build) is called for whatever is new.
 */
export async function followBuild(host, build, { cancel, show = () => {} }) {
  const path = `/v1/builds/${build.id}`;
  const bar = h("div", { "aria-live": "polite" });
  const fault = h("div");
  let latest = build;
  const tell = (now) => {
    latest = now;
    if (hasEnded(now)) fill(host);
    else fill(bar, barOf(now));
    show(now);
  };
  const stop = () => call("DELETE", path).then(tell, (error) => fill(fault, failure(error)));
  fill(host, bar, fault, h("p", {}, h("button", { type: "button", class: "quiet", onclick: stop }, cancel)));
  tell(build);
  if (!hasEnded(build)) await follow(`${path}/events`, (kind, now) => kind !== "error" && tell(now));
  return latest;
}
