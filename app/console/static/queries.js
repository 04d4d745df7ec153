// Queries from a file: an .npy or Parquet as it is, or the numbers of a CSV; and the request that assigns them.

import { parseCsv } from "./tables.js";

/** Say where a table of queries cannot be read: an error for people. */
const unreadable = (what) => Object.assign(new Error(what), { status: 0 });

/** Whether the first row names the columns: some cell is no number, or they are counted as pandas does. */
const namesColumns = (row) =>
  row.some((cell) => cell.trim() === "" || Number.isNaN(Number(cell))) || row.every((cell, at) => cell === String(at));

/** Read queries from a CSV: {queries, headed}. */
function queriesOf(text, name) {
  const rows = parseCsv(text);
  const headed = rows.length > 0 && namesColumns(rows[0]);
  const body = rows.slice(headed ? 1 : 0);
  if (!body.length) throw unreadable(`${name} holds no query`);
  const queries = body.map((row, at) =>
    row.map((cell, column) => {
      const value = cell.trim() === "" ? NaN : Number(cell);
      if (Number.isFinite(value)) return value;
      throw unreadable(`row ${at + 1 + headed} of ${name}, column ${column + 1}: ${JSON.stringify(cell)} is no number`);
    }),
  );
  return { queries, headed };
}

const WHOLE = /\.(npy|parquet)$/i;

/**
 * Give what assigns a file of queries within limits, {budget, ...others}: the file as it is, its limits beside it in a
 * form; or, of a CSV, one JSON.
 */
export async function requestOf(file, path, limits) {
  const method = "POST";
  if (WHOLE.test(file.name)) {
    const body = new FormData();
    const constraints = JSON.stringify(limits);
    body.append("queries", file);
    body.append("constraints", constraints);
    return { method, path, body, form: { queries: `@${file.name}`, constraints } };
  }
  const { queries, headed } = queriesOf(await file.text(), file.name);
  const json = { queries, ...limits };
  return { method, path, json, headed, file: "assignments-request.json" };
}
