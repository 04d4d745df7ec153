// One item, step by step: the service says what to find out next, the person tells it, until there is an answer.

import { curl } from "./api.js";
import { copyable, failure, fill, h, number } from "./dom.js";

let count = 0;

/** Read what somebody wrote: a number where it is one, nothing as null. */
const valueOf = (text) => (text.trim() === "" ? null : Number.isNaN(Number(text)) ? text.trim() : Number(text));

/**
 * hint: words; fields(step) gives [{key, label}] to ask for; step(known) asks the service; request(known) is the same as
 * a request; said(step) words the end. Several fields of one key make a list.
 */
export function walk({ hint, unit, fields, step, request, said }) {
  const path = h("ol", { class: "path" });
  const now = h("div", { "aria-live": "polite" });
  const command = h("div");
  let known = {};
  let spent = 0;

  const begin = () => {
    known = {};
    spent = 0;
    fill(path);
    return next();
  };

  async function next() {
    fill(command, copyable("Copy curl", curl(request(known))));
    try {
      const reply = await step(known);
      if (reply.action === "acquire") fill(now, question(reply));
      else {
        path.append(h("li", {}, h("strong", {}, said(reply)), ` Spent: ${number(spent)} ${unit}.`));
        fill(now, h("button", { type: "button", class: "quiet answered", onclick: begin }, "Another item"));
      }
    } catch (error) {
      if (error.status === undefined) throw error;
      fill(now, failure(error), h("button", { type: "button", class: "quiet", onclick: begin }, "Begin again"));
    }
  }

  function question(reply) {
    const asked = fields(reply).map((field) => ({ ...field, id: `walk-${count++}` }));
    const tell = (event) => {
      event.preventDefault();
      const given = {};
      for (const { key, id, part } of asked) {
        const value = valueOf(event.target.querySelector(`#${id}`).value);
        if (part)
          given[key] =
            value === null ? given[key] : { ...given[key], [part]: part === "label" ? String(value) : value };
        else (given[key] ??= []).push(value);
      }
      for (const [key, value] of Object.entries(given))
        known[key] = Array.isArray(value) && value.length === 1 ? value[0] : value;
      spent += reply.cost;
      path.append(
        h(
          "li",
          {},
          `${[...new Set(asked.map((one) => one.key))].join(", ")} for ${number(reply.cost)} ${unit}: ${Object.values(
            given,
          )
            .map((one) => JSON.stringify(one))
            .join(", ")}`,
        ),
      );
      fill(now);
      next();
    };
    return h(
      "form",
      { onsubmit: tell },
      h("p", {}, `Find out, for ${number(reply.cost)} ${unit}:`),
      h(
        "div",
        { class: "form" },
        asked.map(({ id, label, text }) =>
          h(
            "div",
            { class: "field" },
            h("label", { for: id }, label),
            h("input", { id, type: "text", autocomplete: "off", inputmode: text ? null : "decimal" }),
          ),
        ),
      ),
      h("button", { type: "submit" }, "Tell it"),
    );
  }

  begin();
  return [h("p", { class: "hint" }, hint), path, now, command];
}
