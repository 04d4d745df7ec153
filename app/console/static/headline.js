// What an artifact saves, at what accuracy: one line from the summary that its build left.

import { h } from "./dom.js";
import { SUBJECTS } from "./subjects.js";

const SILENT = { saved: null, text: "its build says nothing of this", close: true };

/**
 * Give {saved, text, close}: the share of cost or time saved (null where nothing is to be compared), a sentence, and
 * whether accuracy is close to that of what it is compared with.
 */
export function headline({ solver, summary }) {
  try {
    return SUBJECTS[solver].headline(summary) ?? SILENT;
  } catch {
    return SILENT; // no subject that these pages know, or a summary of another version's shape
  }
}

/** The share saved as a flag, "saves 88 %": a good one only where accuracy is close to what it is compared with. */
export const savedFlag = ({ saved, close }) =>
  saved > 0 ? h("span", { class: close ? "flag good" : "flag" }, `saves ${Math.floor(100 * saved)} %`) : null;
