// One item, step by step: the service says what to find out next, the person tells it, until there is an answer.

import { call, curl } from "./api.js";
import { copyable, failure, fill, h, number, worded } from "./dom.js";

let count = 0;

/** Read what somebody wrote: a text as it stands, or a number; nothing as null. */
function valueOf(written, { label, text }) {
  const trimmed = written.trim();
  if (trimmed === "") return null;
  if (text || Number.isFinite(Number(trimmed))) return text ? trimmed : Number(trimmed);
  throw Object.assign(new Error(`${label}: ${JSON.stringify(trimmed)} is no number`), { status: 0 });
}

/** Put what was told of fields together: by key a value, a list of several, or the parts of an answer. */
function gathered(asked, form) {
  const given = {};
  for (const field of asked) {
    const { key, id, part, silent } = field;
    if (silent) {
      given[key] = [null];
      continue;
    }
    const value = valueOf(form.querySelector(`#${id}`).value, field);
    if (part) given[key] = { ...given[key], ...(value === null ? {} : { [part]: value }) };
    else (given[key] ??= []).push(value);
  }
  const single = (value) => (Array.isArray(value) && value.length === 1 ? value[0] : value);
  return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, single(value)]));
}

/** Word what was told: a classifier's answer with how sure it is, a missing cell as such, numbers as numbers. */
export function answerWords(value, silent = false) {
  if (value === null) return silent ? "answered" : "missing";
  if (Array.isArray(value)) return value.map((one) => answerWords(one)).join(", ");
  if (value.label === undefined) return worded(value);
  const { label, confidence: sure } = value;
  if (sure === undefined) return label;
  return sure >= 0 && sure <= 1 ? `${label} (${number(100 * sure)} % sure)` : `${label} (confidence ${number(sure)})`;
}

/**
 * hint: words; fields(step) gives [{key, label, part, text, optional, silent}] to ask for, text where it is no number,
 * silent what tells nothing; stepOf(reply) is the part of a reply that says what to do next;
 * costOf(step) what they cost; request(known) is what the service is asked; said(step) words the end. Several fields
 * of one key make a list.
 */
export function walk({ hint, unit, fields, request, said, costOf = ({ cost }) => cost, stepOf = (reply) => reply }) {
  const path = h("ol", { class: "path" });
  const now = h("div", { "aria-live": "polite" });
  const command = h("div");
  const again = (label) => h("button", { type: "button", class: "quiet answered", onclick: begin }, label);

  function begin() {
    fill(path);
    return ask({}, 0).catch((error) => fill(now, failure(error), again("Begin again")));
  }

  /** Ask what comes next; what is known counts only once the service has taken it. */
  async function ask(known, spent) {
    const asked = request(known);
    const reply = stepOf(await call(asked.method, asked.path, asked));
    const moves = now.contains(document.activeElement);
    fill(command, copyable("Copy curl", curl(asked)));
    if (reply.action === "acquire") fill(now, question(reply, known, spent));
    else {
      path.append(h("li", {}, h("strong", {}, said(reply)), ` Spent: ${number(spent)} ${unit}.`));
      fill(now, again("Another item"));
    }
    if (moves) now.querySelector("input, button")?.focus();
  }

  function question(reply, known, spent) {
    const asked = fields(reply).map((field) => ({ ...field, id: `walk-${count++}` }));
    const fault = h("div");
    const cost = costOf(reply);
    async function tell(event) {
      event.preventDefault();
      event.submitter.disabled = true;
      let line = null;
      try {
        const given = gathered(asked, event.target);
        const silent = new Set(asked.filter((field) => field.silent).map((field) => field.key));
        const pairs = Object.entries(given).map(([name, one]) => `${name}: ${answerWords(one, silent.has(name))}`);
        line = h("li", {}, `${pairs.join("; ")}, for ${number(cost)} ${unit}`);
        path.append(line);
        await ask({ ...known, ...given }, spent + cost);
      } catch (error) {
        if (error.status === undefined) throw error;
        line?.remove();
        fill(fault, failure(error));
        event.submitter.disabled = false;
      }
    }
    return h(
      "form",
      { onsubmit: tell },
      h("p", {}, `Find out, for ${number(cost)} ${unit}:`),
      h("div", { class: "form" }, asked.map(inputOf)),
      fault,
      h("button", { type: "submit" }, "Tell it"),
    );
  }

  begin();
  return [h("p", { class: "hint" }, hint), path, now, command];
}

function inputOf({ id, label, optional, silent }) {
  if (silent) return h("p", {}, label);
  const input = h("input", { id, type: "text", autocomplete: "off", required: !optional });
  return h("div", { class: "field" }, h("label", { for: id }, label), input);
}
