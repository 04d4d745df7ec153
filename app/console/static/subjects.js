// What the pages say of each subject: its question, and how it is compared with others.
// A subject that is left out is shown all the same, and said less of.

import { query } from "./api.js";
import { number, percent } from "./dom.js";

/**
 * For each subject its question; and for the comparison the call that tells what an artifact reaches at which cost
 * (path), and how the reply is read (read: {cost, accuracy, what} of each point).
 */
export const SUBJECTS = {
  cascade: {
    question: "which classifier first, and when to stop",
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
    path: ({ name, summary }) => query(`/v1/indexes/${name}/skyline`, { size: summary.median_size }),
    read: ({ items }) =>
      items.map(({ cost, expected_accuracy: accuracy, features }) => ({
        cost,
        accuracy,
        what: features.join(" + ") || "none",
      })),
  },
  portfolio: {
    question: "which classifier for each query of a batch",
    path: ({ name }) => `/v1/portfolios/${name}/curve`,
    read: ({ curves }) =>
      curves
        .find((one) => one.method === "batch")
        .points.map((one) => ({ cost: one.cost, accuracy: one.accuracy, what: `budget ${number(one.budget)}` })),
  },
  pipeline: {
    question: "measurements in stages, with a way out after each",
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
    path: ({ name }) => `/v1/policies/${name}/curve`,
    read: ({ points }) =>
      points.map((one) => ({
        cost: one.cost,
        accuracy: 1 - one.error,
        what:
          one.tradeoff !== null
            ? `λ = ${number(one.tradeoff)}`
            : one.sensors > 0
              ? "one classifier always answers"
              : "nothing acquired",
      })),
  },
};
