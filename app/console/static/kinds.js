// What the pages know of each kind. A kind that is missing here has no question on the overview.

import { worded } from "./dom.js";

/** For each kind its question, and the collection in paths (else its name and an s). */
export const KINDS = {
  cascade: { question: "which classifier first, and when to stop" },
  index: { question: "which features for this size and budget", plural: "indexes" },
  portfolio: { question: "which classifier for each query of a batch" },
  pipeline: { question: "measurements in stages, with a way out after each" },
  policy: { question: "which sensor next, given what the others told", plural: "policies" },
};

/** The path of an artifact's trade-off curve. */
export const curvePath = ({ kind, name }) => `/v1/${KINDS[kind]?.plural ?? `${kind}s`}/${name}/curve`;

/** Read {cost, accuracy, what} of each point of a trade-off curve; items without an answer are not right. */
export const readCurve = ({ points }) =>
  points
    .filter(({ expected }) => (expected.accuracy ?? null) !== null)
    .map(({ expected, limits }) => ({
      cost: expected.cost ?? expected.time,
      accuracy: expected.accuracy * (expected.coverage ?? 1),
      what: worded(limits),
    }));
