// Forms made from JSON schemas of the OpenAPI document, and errors put at the fields they concern.

import { get } from "./api.js";
import { byId, h, worded } from "./dom.js";

let document_ = null;
const openapi = () => (document_ ??= get("/openapi.json"));

/** Give a schema of the OpenAPI document by name. */
export async function schemaOf(name) {
  return (await openapi()).components.schemas[name];
}

/** Write a default as somebody would type it. */
function asTyped(value) {
  if (Array.isArray(value)) return value.map(asTyped).join(", ") || "none";
  return typeof value === "number" ? String(value) : worded(value);
}

const kinds = (schema) => (schema.anyOf ?? [schema]).filter((one) => one.type !== "null");

function controlOf(schema, id) {
  const attributes = { id, "aria-describedby": `${id}-hint` };
  const [only, ...others] = kinds(schema);
  const choices = kinds(schema).flatMap((one) => one.enum ?? (one.const === undefined ? [] : [one.const]));
  if (only.type === "boolean") {
    return h(
      "select",
      attributes,
      ["", true, false].map((value) =>
        h("option", { value: String(value) }, value === "" ? `default (${asTyped(schema.default)})` : worded(value)),
      ),
    );
  }
  if (choices.length && !others.some((one) => one.enum === undefined && one.const === undefined)) {
    return h(
      "select",
      attributes,
      h("option", { value: "" }, `default (${asTyped(schema.default)})`),
      choices.map((value) => h("option", {}, value)),
    );
  }
  const shown = asTyped(schema.default);
  const number = kinds(schema).every((one) => ["number", "integer"].includes(one.type));
  return h(
    "input",
    number
      ? { ...attributes, type: "number", step: "any", placeholder: shown }
      : { ...attributes, type: "text", placeholder: shown },
  );
}

/** Read what stands in a field: text where only text is meant, else JSON; lists may be written with commas. */
function valueOf(text, schema) {
  const types = kinds(schema).map((one) => one.type ?? typeof one.const);
  if (types.every((type) => type === "string")) return text;
  if (!types.includes("array")) return parsed(text);
  const whole = parsed(text);
  if (typeof whole === "object" || (types.includes("string") && typeof whole === "string")) return whole;
  return text.split(",").map((part) => parsed(part.trim()));
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A description is of the API's JSON: what is null there is left empty here. */
const inWords = (description) => description.replaceAll("`", "").replace(/\bnull\b/g, "left empty");

/** Make fields for the properties of a schema; values() gives those that were filled in. */
export function schemaFields(schema, prefix) {
  const properties = Object.entries(schema.properties);
  const elements = properties.map(([name, one]) => {
    const id = `${prefix}-${name}`;
    return h(
      "div",
      { class: "field" },
      h("label", { for: id }, name.replaceAll("_", " ")),
      h("p", { class: "hint", id: `${id}-hint` }, inWords(one.description)),
      controlOf(one, id),
      h("p", { class: "fault", id: `${id}-fault` }),
    );
  });
  const values = () =>
    Object.fromEntries(
      properties
        .map(([name, one]) => [name, byId(`${prefix}-${name}`).value.trim(), one])
        .filter(([, text]) => text !== "")
        .map(([name, text, one]) => [name, valueOf(text, one)]),
    );
  return { elements, values };
}

/** Forget the errors that stand at fields. */
export function clearFaults(form) {
  for (const place of form.querySelectorAll(".fault")) place.textContent = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
}

/** Put each fault at its field: fieldOf(loc) gives the field's id, or null; what has no field is said at the end. */
export function showFaults(form, problem, fieldOf) {
  const homeless = problem.faults.length ? [] : [problem.message];
  let first = null;
  for (const { loc, msg } of problem.faults) {
    const id = fieldOf(loc);
    const field = id && byId(id);
    const place = id && byId(`${id}-fault`);
    if (!field || !place) {
      homeless.push(`${loc.join(" ")}: ${msg}`);
      continue;
    }
    const more = loc.slice(1).join(" ");
    field.closest("details")?.setAttribute("open", "");
    place.textContent += `${place.textContent ? "; " : ""}${more ? `${more}: ` : ""}${msg}`;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-errormessage", place.id);
    first ??= field;
  }
  const rest = form.querySelector("[data-rest]");
  rest.textContent = homeless.join("; ");
  (first ?? rest).scrollIntoView({ block: "center" });
  first?.focus();
}
