// Spend: charts of the cost by day, and a table by team, key, artifact, or model; planned costs are apart.

import { get, query } from "../api.js";
import { barChart } from "../bar_chart.js";
import { byId, csv, download, empty, fill, h, page, percent, quietButton, table } from "../dom.js";

const DAYS = 30;
const dayBefore = (days) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
const savedShare = ({ cost, strongest_cost: strongest }) => (strongest > 0 ? 1 - cost / strongest : null);

const columnsBy = (group) => [
  { title: group, value: (row) => row[group] || "none" },
  { title: "costs", value: (row) => (row.is_planned ? "planned" : "measured") },
  { title: "calls", key: "calls" },
  { title: "cost", key: "cost" },
  { title: "strongest only", key: "strongest_cost" },
  { title: "saved", value: savedShare, show: percent },
];

/** Add rows up by one of their columns, planned costs apart from those of calls. */
function addUp(rows, column) {
  const sums = new Map();
  for (const row of rows) {
    const group = JSON.stringify([row[column], row.is_planned]);
    const start = { [column]: row[column], is_planned: row.is_planned, calls: 0, cost: 0, strongest_cost: 0 };
    const sum = sums.get(group) ?? start;
    for (const name of ["calls", "cost", "strongest_cost"]) sum[name] += row[name];
    sums.set(group, sum);
  }
  return [...sums.values()];
}

/** Make a chart of the cost by day; none without days. */
function chartDays(title, days) {
  const bars = days.map((one) => ({ label: one.day, value: one.cost, compared: one.strongest_cost }));
  return bars.length ? [barChart({ title, name: "cost", comparedName: "strongest only", bars })] : [];
}

function showRows(group, unit, all) {
  const rows = all.filter((row) => row.unit === unit);
  const days = addUp(rows, "day");
  const groups = addUp(rows, group).sort((one, other) => other.cost - one.cost);
  const columns = columnsBy(group);
  const save = () => download(`spend-${group}.csv`, "text/csv", csv(columns, groups));
  const [planned, measured] = [true, false].map((is) => days.filter((one) => one.is_planned === is));
  const charts = [[`Cost by day (${unit})`, measured], [`Planned cost of assignments by day (${unit})`, planned]];
  fill("days", ...charts.flatMap(([title, each]) => chartDays(title, each)));
  fill("groups", table(`By ${group}, in ${unit}`, columns, groups, { records: true }));
  fill("save", quietButton("Download as CSV", save));
}

async function show() {
  const [group, chosen] = [byId("group").value, byId("unit").value];
  fill("fault");
  try {
    const path = query("/v1/spend", { start: byId("start").value, end: byId("end").value });
    const { rows } = await get(`${path}&by=day&by=${group}`);
    const units = [...new Set(rows.map((row) => row.unit))];
    const unit = units.includes(chosen) ? chosen : units[0];
    fill(
      "unit",
      units.map((one) => h("option", { selected: one === unit }, one)),
    );
    if (units.length) return showRows(group, unit, rows);
    fill("days", empty("No calls or assignments were made on these days."));
    fill("groups");
    fill("save");
  } catch (error) {
    if (error.status !== 422) throw error;
    fill("fault", String(error.message));
  }
}

page(async () => {
  byId("start").value = dayBefore(DAYS - 1);
  byId("end").value = dayBefore(0);
  for (const id of ["group", "unit", "start", "end"]) byId(id).addEventListener("change", show);
  await show();
});
