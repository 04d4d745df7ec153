// What an artifact saves, at what accuracy: one line from the summary that its build left.

import { h, number, percent } from "./dom.js";

const CLOSE = 0.02;
const line = (saved, text, close = true) => ({ saved, text, close });

const SILENT = line(null, "its build says nothing of this");

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
      found.accuracy >= always.held_out.accuracy - CLOSE,
    );
  },
  index({ saving: { chosen, everything }, median_size: size, unit }) {
    const at = size.length ? ` at size ${size.map(number).join(" × ")}` : "";
    return line(
      everything.cost ? 1 - chosen.cost / everything.cost : null,
      `${percent(chosen.accuracy)} right for ${number(chosen.cost)} ${unit} an item${at}; with all features ` +
        `${percent(everything.accuracy)} for ${number(everything.cost)} ${unit}`,
      chosen.accuracy >= everything.accuracy - CLOSE,
    );
  },
  portfolio({ held_out: held, classifiers, unit }) {
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

/**
 * Give {saved, text, close}: the share of cost or time saved (null where nothing is to be compared), a sentence, and
 * whether accuracy is close to that of what it is compared with.
 */
export function headline({ solver, summary }) {
  try {
    return HEADLINES[solver](summary) ?? SILENT;
  } catch {
    return SILENT; // a summary of another version's shape
  }
}

/** The share saved as a flag, "saves 88 %": a good one only where accuracy is close to what it is compared with. */
export const savedFlag = ({ saved, close }) =>
  saved > 0 ? h("span", { class: close ? "flag good" : "flag" }, `saves ${Math.floor(100 * saved)} %`) : null;
