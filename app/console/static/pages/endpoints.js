import { call, listed } from "../api.js";
import { askToDelete } from "../deletion.js";
import { byId, empty, facts, fill, h, more, number, page, percent, repeatedly, table } from "../dom.js";
import { clearFaults, showFaults } from "../forms.js";

const EVERY_MS = 3000;
const MANY = 100;
let wanted = MANY;
const EXAMPLES = {
  json: {
    protocol: "json",
    url: "https://models.example/classify",
    body: { pixels: "{{item}}" },
    label: "/label",
    confidence: "/confidence",
  },
  "open-inference": {
    protocol: "open-inference",
    url: "https://models.example",
    model: "digits",
    probabilities_output: "probabilities",
    labels: ["no", "yes"],
  },
  "openai-chat": {
    protocol: "openai-chat",
    url: "https://api.openai.com/v1",
    model: "gpt-4o-mini",
    secret: "PARSIMONY_SECRET_OPENAI",
    answer: { kind: "choice", labels: ["no", "yes"] },
    prices: { per_input_token: 1.5e-7, per_output_token: 6e-7 },
  },
  "openai-embeddings": {
    protocol: "openai-embeddings",
    url: "https://api.openai.com/v1",
    model: "text-embedding-3-small",
    secret: "PARSIMONY_SECRET_OPENAI",
  },
};
const path = (name) => `/v1/endpoints/${encodeURIComponent(name)}`;
const FLAGS = { closed: "good", open: "bad", "half-open": "" };
const WORDS = { closed: "called", open: "left out: it fails", "half-open": "tried again" };

function forget(name) {
  askToDelete({
    what: `endpoint ${name}`,
    why: "Runs that need it go on without, until it is registered again.",
    name,
    act: async () => {
      await call("DELETE", path(name));
      location.reload();
    },
  });
}

const columns = [
  { title: "name", key: "name" },
  { title: "protocol", value: (row) => row.endpoint.protocol },
  { title: "address", value: (row) => row.endpoint.url },
  {
    title: "circuit",
    key: "circuit",
    show: (state) => h("span", { class: `flag ${FLAGS[state]}` }, WORDS[state]),
  },
  {
    title: "key",
    key: "secret_known",
    show: (known) => (known === null ? "needs none" : known ? "there" : h("span", { class: "flag bad" }, "not set")),
  },
  {
    title: "",
    value: (row) => row.name,
    show: (name) => h("button", { type: "button", class: "quiet", onclick: () => forget(name) }, "Forget…"),
  },
];

async function showList() {
  const list = await listed("/v1/endpoints", {}, wanted);
  const showMore = () => {
    wanted = list.items.length + MANY;
    return showList();
  };
  fill(
    "list",
    list.items.length
      ? [table("by name", columns, list.items, { most: Infinity, records: true }), more(list, showMore)]
      : empty("None is registered yet. Decisions need none; to have items run, register one below."),
  );
  return list.items;
}

function itemOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const best = (scores) =>
  Object.entries(scores)
    .sort(([, one], [, other]) => other - one)
    .slice(0, 3)
    .map(([label, share]) => `${label} ${percent(share)}`)
    .join(", ");

async function probe(event) {
  event.preventDefault();
  const form = byId("probe");
  clearFaults(form);
  byId("try").disabled = true;
  try {
    const said = await call("POST", `${path(byId("which").value)}/probe`, { json: { item: itemOf(byId("item").value) } });
    const known = [
      ["label", said.label],
      ["confidence", said.confidence === null ? null : percent(said.confidence)],
      ["scores", said.scores === null ? null : best(said.scores)],
      ["values", said.values === null ? null : `${number(said.values.length)} numbers`],
      ["cost", said.cost === null ? null : number(said.cost)],
      ["failed", said.error],
      ["took", `${number(1000 * said.seconds)} ms`],
      ["tries", number(said.attempts)],
    ];
    fill("said", facts(known.filter(([, value]) => value !== null)));
  } catch (error) {
    if (error.status === undefined) throw error;
    fill("said");
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
    return showFaults(form, { faults: [{ loc: ["spec"], msg: `is no JSON: ${error.message}` }] }, () => "spec");
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
  byId("try").disabled = !items.length;
}

page(async () => {
  fill(
    "protocol",
    Object.keys(EXAMPLES).map((name) => h("option", {}, name)),
  );
  const example = () => {
    byId("spec").value = JSON.stringify(EXAMPLES[byId("protocol").value], null, 1);
  };
  example();
  byId("protocol").addEventListener("change", example);
  byId("probe").addEventListener("submit", probe);
  byId("register").addEventListener("submit", register);
  await showAll();
  repeatedly(EVERY_MS, "list", showList);
});
