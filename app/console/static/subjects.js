// What the pages say of each subject: its question, what an artifact of it saves, and how it is compared with others.
// A subject that is left out is shown all the same, and said less of.

import { query } from "./api.js";
import { number, percent } from "./dom.js";

const CLOSE = 0.02;
/** A headline: the share of cost or time saved (null where nothing is to be compared), a sentence, and whether accuracy is close. */
const line = (saved, text, close = true) => ({ saved, text, close });

/**
 * For each subject its question; headline(summary), which may be null; and for the comparison the call that tells what
 * an artifact reaches at which cost (path), and how the reply is read (read: {cost, accuracy, what} of each point).
 */
export const SUBJECTS = {
  cascade: {
    question: "which classifier first, and when to stop",
    headline({ replays, baselines, unit }) {
      const cascade = replays?.[0]?.held_out;
      const always = baselines?.find((one) => one.strategy === "always-deterministic");
      if (!cascade || !always) return null;
      const saved = 1 - cascade.mean_duration / always.held_out.mean_duration;
      return line(
        saved,
        `${number(cascade.mean_duration)} ${unit} an item, ${percent(cascade.accuracy)} right; always ` +
          `${always.classifier}: ${number(always.held_out.mean_duration)} ${unit}, ${percent(always.held_out.accuracy)}`,
        cascade.accuracy >= always.held_out.accuracy - CLOSE,
      );
    },
    path: ({ name }) => `/v1/artifacts/cascade/${name}`,
    read: ({ summary }) =>
      summary.replays
        .filter((one) => one.feasible)
        .map(({ held_out: held, cascade }) => ({
          cost: held.mean_duration,
          accuracy: held.accuracy,
          what: cascade.join(" → "),
        })),
  },
  index: {
    question: "which features for this size and budget",
    headline({ saving: { chosen, everything }, median_size: size, unit }) {
      const at = size.length ? ` at size ${size.map(number).join(" × ")}` : "";
      return line(
        everything.cost ? 1 - chosen.cost / everything.cost : null,
        `${percent(chosen.accuracy)} right for ${number(chosen.cost)} ${unit} an item${at}; with all features ` +
          `${percent(everything.accuracy)} for ${number(everything.cost)} ${unit}`,
        chosen.accuracy >= everything.accuracy - CLOSE,
      );
    },
    path: ({ name, summary }) => query(`/v1/indexes/${name}/skyline`, { size: summary.median_size }),
    read: ({ items }) => items.map((one) => ({ ...one, what: one.features.join(" + ") || "none" })),
  },
  portfolio: {
    question: "which classifier for each query of a batch",
    headline({ held_out: held, classifiers, unit }) {
      const at = held?.at(-1);
      if (!at) return null;
      const dearest = classifiers.toSorted((a, b) => b.cost - a.cost)[0];
      return line(
        dearest.cost ? 1 - at.budget / dearest.cost : null,
        `${percent(at.occam)} right for ${number(at.budget)} ${unit} a query; always ${dearest.name}: ` +
          `${number(dearest.cost)} ${unit}, ${percent(dearest.accuracy)}`,
        at.occam >= dearest.accuracy - CLOSE,
      );
    },
    path: ({ name }) => `/v1/portfolios/${name}/curve`,
    read: ({ curves }) =>
      curves
        .find((one) => one.method === "occam")
        .points.map((one) => ({ cost: one.cost, accuracy: one.accuracy, what: `budget ${number(one.budget)}` })),
  },
  pipeline: {
    question: "measurements in stages, with a way out after each",
    headline({ frontier, usual, unit }) {
      const right = (one) => one.accuracy * one.coverage;
      const at = frontier.find((one) => one.solution === usual) ?? frontier.toSorted((a, b) => right(b) - right(a))[0];
      const dearest = Math.max(...frontier.map((one) => one.cost));
      return line(
        dearest ? 1 - at.cost / dearest : null,
        `${number(at.cost)} ${unit} an item, ${percent(at.coverage)} answered, ${percent(at.accuracy)} of these right`,
      );
    },
    path: ({ name }) => `/v1/pipelines/${name}/frontier`,
    read: ({ items }) =>
      items.map((one) => ({
        cost: one.cost,
        accuracy: one.conclusive_accuracy * one.coverage,
        what: `${percent(one.coverage)} answered`,
      })),
  },
  policy: {
    question: "which sensor next, given what the others told",
    headline({ curve, all_sensors: all, unit }) {
      const at = curve.toSorted((a, b) => a.cost - b.cost).find((one) => one.error <= all.error + 0.01) ?? curve.at(-1);
      return line(
        all.cost ? 1 - at.cost / all.cost : null,
        `${percent(1 - at.error)} right for ${number(at.cost)} ${unit}; with all sensors ${percent(1 - all.error)} for ${number(all.cost)} ${unit}`,
      );
    },
    path: ({ name }) => `/v1/policies/${name}/curve`,
    read: ({ points }) =>
      points.map((one) => ({
        cost: one.cost,
        accuracy: 1 - one.error,
        what: one.tradeoff === null ? "nothing acquired" : `λ = ${number(one.tradeoff)}`,
      })),
  },
};
