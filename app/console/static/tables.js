// CSV as people save it.


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
