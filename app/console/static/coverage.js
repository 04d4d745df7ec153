// The coverage of a recording: shares of rows that each classifier answered, as shaded cells.

import { h, number, percent, table } from "./dom.js";

/** Return the table of a coverage, whose groups are named by a text. */
export function coverageTable({ rows, classifiers, groups }, text) {
  const columns = [
    { title: text, key: "group", show: (group) => group ?? "unknown" },
    { title: "rows", key: "rows" },
    ...classifiers.map((name) => ({ title: name, value: ({ answered }) => answered[name], show: shaded })),
  ];
  return table(`Shares of ${number(rows)} rows that each model answered`, columns, groups);
}

function shaded(share) {
  const cell = h("span", { class: "shaded" }, percent(share));
  cell.style.setProperty("--share", `${45 * share}%`);
  return cell;
}
