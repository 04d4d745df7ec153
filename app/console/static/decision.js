// A question to the service with sliders: what it answers, and the same question as a command line.

import { call, curl } from "./api.js";
import { copyable, failure, fill, h } from "./dom.js";

const PAUSE_MS = 120;

/** The values in the address after "#", so that a question can be sent to somebody. */
const kept = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

function keep(name, value) {
  const all = new URLSearchParams(location.hash.slice(1));
  if (value === "") all.delete(name);
  else all.set(name, value);
  history.replaceState(null, "", all.size ? `#${all}` : location.pathname);
}

function slider(input, number) {
  const marks = { min: 0, max: 1000, step: 1 };
  const { min, max } = input;
  const log = input.scale === "log" && min > 0;
  const toMark = (value) => 1000 * (log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min));
  const toValue = (mark) => (log ? min * (max / min) ** (mark / 1000) : min + ((max - min) * mark) / 1000);
  const range = h("input", {
    type: "range",
    ...marks,
    "aria-label": `${input.label}, slider`,
    oninput: () => {
      number.value = Math.min(max, Math.max(min, Number(toValue(Number(range.value)).toPrecision(4))));
      number.dispatchEvent(new Event("input"));
    },
  });
  const none = input.least ? 0 : 1000;
  const follow = () => {
    const value = Number(number.value);
    range.value = number.value === "" ? none : Math.min(1000, Math.max(0, toMark(value)));
    range.setAttribute("aria-valuetext", `${number.value || number.placeholder} ${number.value && (input.unit ?? "")}`);
  };
  number.addEventListener("input", follow);
  follow();
  return h("div", { class: "slider" }, range, number);
}

function control(input, changed) {
  const id = `ask-${input.name}`;
  const known = kept()[input.name];
  const usable = known !== undefined && (!input.options || input.options.some((one) => one.value === known));
  const value = usable ? known : (input.value ?? "");
  const listen = {
    id,
    name: input.name,
    "aria-describedby": input.hint ? `${id}-hint` : null,
    oninput: changed,
  };
  const field = input.options
    ? h(
        "select",
        listen,
        input.options.map(({ value: one, label }) => h("option", { value: one }, label ?? one)),
      )
    : h("input", {
        ...listen,
        type: input.text ? "text" : "number",
        step: "any",
        placeholder: input.placeholder ?? "no limit",
      });
  field.value = value;
  const fault = h("p", { class: "fault", role: "alert" });
  const unit = input.unit ? ` (${input.unit})` : "";
  const body = !input.options && !input.text && input.max > input.min ? slider(input, field) : field;
  const element = h(
    "div",
    { class: "field" },
    h("label", { for: id }, input.label + unit),
    input.hint ? h("p", { class: "hint", id: `${id}-hint` }, input.hint) : null,
    body,
    fault,
  );
  return {
    element,
    name: input.name,
    value: () => field.value,
    readable() {
      const bad = field.validity.badInput;
      fault.textContent = bad ? "this is no number" : "";
      if (bad) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
      return !bad;
    },
    set: (one) => {
      field.value = one;
      field.dispatchEvent(new Event("input"));
    },
  };
}

/**
 * Make a panel that asks whenever a value changes. inputs: [{name, label, unit, hint, min, max, scale, value, options,
 * text, least}]; a limit that is left empty stands at the slider's end, at its beginning where it is the least.
 * ask(values) gives {method, path, json}; show(reply) gives nodes; after(reply or null, values, current) draws the rest,
 * current() tells whether nothing was asked since. Of several answers only the latest is shown.
 */
export function decisionPanel({ title, inputs, ask, show, after }) {
  const answer = h("div", { "aria-live": "polite", class: "answer" });
  const command = h("div");
  let turn = 0;
  let timer = 0;
  const controls = inputs.map((input) =>
    control(input, () => {
      clearTimeout(timer);
      timer = setTimeout(question, PAUSE_MS);
    }),
  );
  const values = () => Object.fromEntries(controls.map((one) => [one.name, one.value()]));

  async function question() {
    const mine = ++turn;
    const current = () => mine === turn;
    if (!controls.map((one) => one.readable()).every(Boolean)) return;
    for (const one of controls) keep(one.name, one.value());
    const request = ask(values());
    fill(command, copyable("Copy curl", curl(request)));
    try {
      const reply = await call(request.method ?? "GET", request.path, { json: request.json });
      if (!current()) return;
      fill(answer, show(reply));
      after?.(reply, values(), current);
    } catch (error) {
      if (error.status === undefined) throw error;
      if (!current()) return;
      fill(answer, failure(error));
      after?.(null, values(), current);
    }
  }
  const element = h(
    "section",
    { class: "card", "aria-label": title },
    h("h3", {}, title),
    h(
      "div",
      { class: "form" },
      controls.map((one) => one.element),
    ),
    answer,
    command,
  );
  const set = (name, value) => controls.find((one) => one.name === name).set(value);
  return { element, question, values, set };
}
