// The form for a decision: its fields are those of the request in the OpenAPI document.

import { call, curl } from "./api.js";
import { copyable, facts, fill, h, number, percent } from "./dom.js";
import { clearFaults, requestSchema, schemaFields, showFaults } from "./forms.js";
import { decisionText, KINDS } from "./kinds.js";
import { meanTitle, quantityOf, withInterval } from "./units.js";

const LIMITS = ["budget", "min_accuracy", "min_coverage", "max_item_cost", "deadline", "tradeoff"];

/** Describe the fields that the kinds share, in the artifact's unit. */
const hintsFor = ({ unit, summary }) => ({
  budget: `limit on the ${meanTitle(unit)}, or a share such as 30%`,
  min_accuracy: "lowest share of correct answers, from 0 to 1",
  min_coverage: "lowest share of items that are answered, from 0 to 1",
  max_item_cost: `hard limit on the ${quantityOf(unit)} of each item (${unit})`,
  deadline: `hard limit on the time of each item (${summary.time_unit ?? unit})`,
  tradeoff: `weight of ${quantityOf(unit)} against errors, in errors per ${unit}`,
  excluded: "classifiers or features that must not be used, separated by commas",
  size: "size of the item; several numbers separated by commas",
  query: "embedding of the item, numbers separated by commas",
  text: "text of the item; the artifact's embedder embeds it",
  embedding: "embedding of the item, numbers separated by commas",
  item: "id of the item; equal ids get equal decisions",
  costs: `${quantityOf(unit)} of the item with each classifier (${unit}), separated by commas`,
  spent: `${quantityOf(unit)} that was spent already (${unit})`,
  computed: "features that were computed already, separated by commas",
  acquired: "values by name, as JSON; what the decision requests is added after each reply",
  solution: "number of the configuration on the curve",
  one_standard_error: "prefer fewer features if their accuracy is within one standard error",
});

/** Return the names of the inputs that an artifact uses. */
function inputsOf({ params, summary, kind }) {
  if (kind === "portfolio") return params.embedder ? ["text", "query"] : ["query"];
  return [
    summary.median_size?.length ? "size" : null,
    summary.embedding?.dimensions ? "embedding" : null,
    KINDS[kind]?.requested ? "acquired" : null,
  ];
}

/** Make the panel: {nodes, prefill}; limits() returns those of the chosen operating point. */
export async function decisionPanel({ record, collection, path, limits }) {
  const schema = await requestSchema(`/v1/${collection}/{name}/decision`);
  const names = Object.keys(schema.properties);
  const first = [...LIMITS.filter((name) => names.includes(name)), ...inputsOf(record).filter(Boolean)];
  const hints = hintsFor(record);
  const described = Object.entries(schema.properties)
    .filter(([name]) => name !== "text" || first.includes(name))
    .map(([name, one]) => [name, { ...one, description: hints[name] ?? one.description ?? "" }]);
  const fieldsFor = (isFirst) => {
    const chosen = described.filter(([name]) => first.includes(name) === isFirst);
    return schemaFields({ properties: Object.fromEntries(chosen) }, "decide");
  };
  const [main, rest] = [fieldsFor(true), fieldsFor(false)];
  const answer = h("div", { "aria-live": "polite", class: "answer" });
  const form = h(
    "form",
    { novalidate: true, onsubmit: decide },
    h("div", { class: "form" }, main.elements),
    h("details", {}, h("summary", {}, "More inputs"), h("div", { class: "form" }, rest.elements)),
    h("p", {}, h("button", { type: "submit" }, "Decide")),
    h("p", { class: "fault", "data-rest": true, role: "alert" }),
  );

  function prefill(values) {
    for (const field of form.querySelectorAll("input, select")) {
      const name = field.id.replace("decide-", "");
      if (name in values) field.value = [values[name]].flat().join(", ");
      else if (LIMITS.includes(name) || name === "solution") field.value = "";
    }
  }

  async function decide(event) {
    event.preventDefault();
    clearFaults(form);
    const request = { method: "POST", path: path("decision"), json: { ...main.values(form), ...rest.values(form) } };
    try {
      const reply = await call(request.method, request.path, request);
      fill(answer, ...replyOf(reply, record), copyable("Copy curl", curl(request)));
      requestValues(KINDS[record.kind]?.requested?.(reply) ?? [], request.json.acquired);
    } catch (error) {
      if (error.status === undefined) throw error;
      fill(answer);
      showFaults(form, error, (loc) => loc.map((one) => `decide-${one}`).find((id) => form.querySelector(`#${id}`)));
    }
  }

  /** Add what a decision requests to the field of acquired values. */
  function requestValues(names, acquired = {}) {
    if (!names.length) return;
    const field = form.querySelector("#decide-acquired");
    field.value = JSON.stringify({ ...acquired, ...Object.fromEntries(names.map((name) => [name, null])) });
    field.focus();
  }

  prefill({ ...(record.summary.median_size?.length ? { size: record.summary.median_size } : {}), ...limits() });
  return { nodes: [form, answer], prefill };
}

function replyOf(reply, { unit }) {
  const { expected = {} } = reply;
  const figures = [
    ["decision", decisionText(reply)],
    ["accuracy", expected.accuracy, percent],
    ["loss", expected.loss, (value) => `${number(value)} ${unit}`],
    ["coverage", expected.coverage, percent],
    [quantityOf(unit), expected.cost, (value) => `${number(value)} ${unit}`],
    ["time", expected.time, number],
  ];
  const shown = figures.filter(([, value]) => value !== null && value !== undefined);
  return [
    facts(
      shown.map(([name, value, show]) => {
        const interval = name === "accuracy" ? expected.accuracy_interval : null;
        return [show ? `expected ${name}` : name, show ? withInterval(show, value, interval) : value];
      }),
    ),
    h("details", {}, h("summary", {}, "Reply"), h("pre", { tabindex: "0" }, JSON.stringify(reply, null, 2))),
  ];
}
