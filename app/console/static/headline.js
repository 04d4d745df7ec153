// What an artifact saves, at what accuracy: one line from the summary that its build left.

import { number, percent } from "./dom.js";

const line = (saved, text) => ({ saved, text });

const HEADLINES = {
  cascade({ replays, baselines, unit }) {
    const found = replays?.[0]?.held_out;
    const always = baselines?.find((one) => one.strategy === "always-deterministic");
    if (!found || !always) return null;
    const saved = 1 - found.mean_duration / always.held_out.mean_duration;
    return line(
      saved,
      `${number(found.mean_duration)} ${unit} an item, ${percent(found.accuracy)} right; always ` +
        `${always.classifier}: ${number(always.held_out.mean_duration)} ${unit}, ${percent(always.held_out.accuracy)}`,
    );
  },
  index({ best, candidates, naive }) {
    return line(
      null,
      `up to ${percent(best.accuracy)} right; ${number(candidates)} of ${number(naive)} feature sets matter`,
    );
  },
  portfolio({ held_out: held }) {
    const at = held?.at(-1);
    if (!at) return null;
    const best = at.single_best === undefined ? "" : `; the best single classifier ${percent(at.single_best)}`;
    return line(0.4, `${percent(at.occam)} right for 60 % of the dearest classifier's cost${best}`);
  },
  pipeline({ frontier, usual, unit }) {
    const right = (one) => one.accuracy * one.coverage;
    const at = frontier.find((one) => one.solution === usual) ?? frontier.toSorted((a, b) => right(b) - right(a))[0];
    const dearest = Math.max(...frontier.map((one) => one.cost));
    return line(
      dearest ? 1 - at.cost / dearest : null,
      `${number(at.cost)} ${unit} an item, ${percent(at.coverage)} answered, ${percent(at.accuracy)} of these right`,
    );
  },
  policy({ curve, all_sensors: all, unit }) {
    const at = curve.toSorted((a, b) => a.cost - b.cost).find((one) => one.error <= all.error + 0.01) ?? curve.at(-1);
    return line(
      all.cost ? 1 - at.cost / all.cost : null,
      `${percent(1 - at.error)} right for ${number(at.cost)} ${unit}; with all sensors ${percent(1 - all.error)} for ${number(all.cost)} ${unit}`,
    );
  },
};

/** Give {saved, text}: the share of cost or time saved (null where nothing is to be compared), and a sentence. */
export function headline({ solver, summary }) {
  const found = HEADLINES[solver]?.(summary);
  return found ?? line(null, "its build says nothing of this");
}

/** Write the share saved: "saves 88 %". */
export const savedText = ({ saved }) => (saved === null || saved <= 0 ? "" : `saves ${Math.round(100 * saved)} %`);
