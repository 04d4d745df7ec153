// CSV as people save it, and a first draft of the spec that says what its columns mean.

/** Read CSV (RFC 4180): a list of rows of texts. */
export function parseCsv(text) {
  const rows = [[""]];
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const row = rows.at(-1);
    const character = text[at];
    if (quoted && character === '"' && text[at + 1] === '"') row[row.length - 1] += text[++at];
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === ",") row.push("");
    else if (!quoted && character === "\n") rows.push([""]);
    else if (quoted || character !== "\r") row[row.length - 1] += character;
  }
  return rows.filter((row) => row.length > 1 || row[0] !== "");
}

const SAYS = /^(.*?)_?(says|pred|prediction|predicted|answer|label)$/i;
const SURE = /_(sure|conf|confidence|prob|probability|score)$/i;
const COST = /_(ms|us|s|usd|eur|cost|time|seconds)$/i;
const LABELS = /^(truth|true_label|label|target|class|outcome|y)$/i;

/** Draft a spec from a table's columns: a trace where columns come as answer, confidence and cost; else features. */
export function draft({ head, rows }) {
  const label = head.find((column) => LABELS.test(column)) ?? head.at(-1);
  const answers = head.filter((column) => column !== label && SAYS.test(column));
  return JSON.stringify(answers.length ? trace(head, label, answers) : features(head, rows, label), null, 1);
}

function trace(head, label, answers) {
  const classifiers = answers.map((prediction) => {
    const name = SAYS.exec(prediction)[1] || prediction;
    const mine = head.filter((column) => column !== prediction && column.startsWith(`${name}_`));
    const confidence = mine.find((column) => SURE.test(column));
    const cost = mine.find((column) => COST.test(column));
    return { name, prediction, ...(confidence ? { confidence } : {}), cost: cost ? { column: cost } : 1 };
  });
  const unit = head.some((column) => /_ms$/i.test(column)) ? "ms" : "unit";
  return { kind: "trace", label, unit, classifiers };
}

function features(head, rows, label) {
  const columns = head.filter((column) => column !== label);
  const isText = (column) =>
    rows.some((row) => row[head.indexOf(column)] !== "" && Number.isNaN(Number(row[head.indexOf(column)])));
  const categorical = columns.filter(isText);
  const missing = rows.some((row) => row.some((cell) => cell === ""));
  return {
    kind: "features",
    label,
    unit: "ms",
    ...(categorical.length ? { categorical } : {}),
    ...(missing ? { missing } : {}),
    features: columns.map((name) => ({ name, columns: [name], cost: 1 })),
  };
}
