// A text that a portfolio routes: its embedder, which may be paid for, is called when it is sent and not while it is written.

import { call, curl } from "./api.js";
import { copyable, facts, failure, fill, h, number, percent } from "./dom.js";

const field = (id, label, hint, control) =>
  h("div", { class: "field" }, h("label", { for: id }, label), h("p", { class: "hint", id: `${id}-hint` }, hint), control);

const answerOf = (reply, unit) =>
  facts([
    ["classifier", h("strong", {}, reply.classifier)],
    ["estimated to be right", percent(reply.estimated_accuracy)],
    ["it costs", `${number(reply.cost)} ${unit}`],
    ["the embedding cost", `${number(reply.embedding.cost)} ${unit}, ${number(1000 * reply.embedding.seconds)} ms`],
  ]);

/** Make a panel that routes a text, of an artifact that names its embedder. */
export function textPanel({ path, unit, embedder }) {
  const text = h("textarea", { id: "text", rows: "3", required: true, "aria-describedby": "text-hint" });
  const share = { type: "number", min: "0", max: "1", step: "any", required: true, value: "0.5" };
  const budget = h("input", { id: "text-budget", ...share, "aria-describedby": "text-budget-hint" });
  const button = h("button", { type: "submit" }, "Route it");
  const answer = h("div", { "aria-live": "polite", class: "answer" });
  const command = h("div");

  async function route(event) {
    event.preventDefault();
    const request = { method: "POST", path: path("decision"), json: { text: text.value, budget: `${(100 * Number(budget.value)).toFixed(6)}%` } };
    fill(command, copyable("Copy curl", curl(request)));
    button.disabled = true;
    try {
      fill(answer, answerOf(await call(request.method, request.path, { json: request.json }), unit));
    } catch (error) {
      if (error.status === undefined) throw error;
      fill(answer, failure(error));
    } finally {
      button.disabled = false;
    }
  }

  return h(
    "section",
    { class: "card", "aria-label": "Route a text" },
    h("h3", {}, "Route a text"),
    h(
      "form",
      { class: "form", onsubmit: route },
      field("text", "Text", `the endpoint ${embedder} embeds it, once you send it; no classifier is called`, text),
      field("text-budget", "Budget", "as a share of what the dearest classifier costs, from 0 to 1", budget),
      button,
    ),
    answer,
    command,
  );
}
