// Endpoints: list, test call, registration, and deletion.

import { call } from "../api.js";
import { confirmDeletion } from "../deletion.js";
import { byId, circuitFlag, facts, fill, flag, h, number, page, percent, quietButton, repeatedly } from "../dom.js";
import { clearFaults, examplesOf, showFaults } from "../forms.js";
import { listTable } from "../lists.js";

const EVERY_MS = 3000;
const TOP = 3;
const path = (name) => `/v1/endpoints/${encodeURIComponent(name)}`;

function deleteEndpoint(name) {
  confirmDeletion({
    what: `endpoint ${name}`,
    why: "Runs that need it continue without it until it is registered again.",
    name,
    act: async () => {
      await call("DELETE", path(name));
      location.reload();
    },
  });
}

const secretText = (known) => (known === null ? "not needed" : known ? "set" : flag("not set", "bad"));

const columns = [
  { title: "name", key: "name" },
  { title: "protocol", value: (row) => row.endpoint.protocol },
  { title: "address", value: (row) => row.endpoint.url },
  { title: "circuit breaker", key: "circuit", show: circuitFlag },
  { title: "API key", key: "secret_known", show: secretText },
  { title: "", value: (row) => row.name, show: (name) => quietButton("Delete…", () => deleteEndpoint(name)) },
];

const showTable = listTable({
  host: "list",
  path: "/v1/endpoints",
  caption: "By name",
  columns: () => columns,
  hint: () => ["No endpoint is registered. Decisions need none; to run items, register one below."],
});

async function showList() {
  const { items } = await showTable();
  byId("probe").closest("section").hidden = !items.length;
  return items;
}

function parseItem(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const topScores = (scores) =>
  Object.entries(scores)
    .sort(([, one], [, other]) => other - one)
    .slice(0, TOP)
    .map(([label, share]) => `${label} ${percent(share)}`)
    .join(", ");

async function probe(event) {
  event.preventDefault();
  const form = byId("probe");
  clearFaults(form);
  byId("try").disabled = true;
  try {
    const json = { item: parseItem(byId("item").value) };
    const result = await call("POST", `${path(byId("which").value)}/probe`, { json });
    const figures = [
      ["label", result.label],
      ["confidence", result.confidence === null ? null : percent(result.confidence)],
      ["scores", result.scores === null ? null : topScores(result.scores)],
      ["values", result.values === null ? null : `${number(result.values.length)} numbers`],
      ["cost", result.cost === null ? null : number(result.cost)],
      ["error", result.error],
      ["time", `${number(1000 * result.seconds)} ms`],
      ["attempts", number(result.attempts)],
    ];
    fill("result", facts(figures.filter(([, value]) => value !== null)));
  } catch (error) {
    if (error.status === undefined) throw error;
    fill("result");
    showFaults(form, error, (loc) => (loc.includes("item") ? "item" : "which"));
  } finally {
    byId("try").disabled = false;
  }
}

async function register(event) {
  event.preventDefault();
  const form = byId("register");
  clearFaults(form);
  const name = byId("name").value.trim();
  let json = null;
  try {
    json = JSON.parse(byId("spec").value);
  } catch (error) {
    return showFaults(form, { faults: [{ loc: ["spec"], msg: `must be JSON: ${error.message}` }] }, () => "spec");
  }
  if (!name) return showFaults(form, { faults: [{ loc: ["name"], msg: "is missing" }] }, () => "name");
  byId("send").disabled = true;
  try {
    await call("PUT", path(name), { json });
    await showAll();
    byId("which").value = name;
  } catch (error) {
    if (error.status === undefined) throw error;
    showFaults(form, error, (loc) => (loc[0] === "name" ? "name" : "spec"));
  } finally {
    byId("send").disabled = false;
  }
}

async function showAll() {
  const items = await showList();
  fill(
    "which",
    items.map(({ name }) => h("option", {}, name)),
  );
}

page(async () => {
  const examples = await examplesOf("/v1/endpoints/{name}", "put");
  fill(
    "protocol",
    Object.keys(examples).map((name) => h("option", {}, name)),
  );
  const showExample = () => {
    byId("spec").value = JSON.stringify(examples[byId("protocol").value].value, null, 1);
  };
  showExample();
  byId("protocol").addEventListener("change", showExample);
  byId("probe").addEventListener("submit", probe);
  byId("register").addEventListener("submit", register);
  await showAll();
  repeatedly(EVERY_MS, "list", showList);
});
