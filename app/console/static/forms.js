// Forms from the JSON schemas of the OpenAPI document, and errors at the fields that they concern.

import { get } from "./api.js";
import { byId, fill, formatValue, h } from "./dom.js";

let openapi = null;
const loadOpenapi = () => (openapi ??= get("/openapi.json"));

/** Return a schema of the OpenAPI document by name. */
export async function schemaOf(name) {
  return (await loadOpenapi()).components.schemas[name];
}

const jsonBodyOf = async (path, method) =>
  (await loadOpenapi()).paths[path][method].requestBody.content["application/json"];

/** Return the schema of a POST request's JSON body. */
export const requestSchema = async (path) => schemaOf((await jsonBodyOf(path, "post")).schema.$ref.split("/").at(-1));

/** Return the examples of a request's JSON body by name. */
export const examplesOf = async (path, method) => (await jsonBodyOf(path, method)).examples;

/** Format a default as a person would enter it. */
function formatDefault(value) {
  if (Array.isArray(value)) return value.map(formatDefault).join(", ") || "none";
  return typeof value === "number" ? String(value) : formatValue(value);
}

const typesOf = (schema) =>
  (schema.anyOf ?? [schema]).flatMap((one) => one.oneOf ?? [one]).filter((one) => one.type !== "null");

function controlOf(schema, id) {
  const attributes = { id, "aria-describedby": `${id}-hint` };
  const shown = formatDefault(schema.default);
  const types = typesOf(schema);
  const [only, ...others] = types;
  const isChoice = (one) => one.enum !== undefined || one.const !== undefined;
  const select = (values) =>
    h(
      "select",
      attributes,
      h("option", { value: "" }, `default (${shown})`),
      values.map((value) => h("option", { value: String(value) }, formatValue(value))),
    );
  if (only.type === "boolean") return select([true, false]);
  if (isChoice(only) && others.every(isChoice)) return select(types.flatMap((one) => one.enum ?? [one.const]));
  return types.every((one) => ["number", "integer"].includes(one.type))
    ? h("input", { ...attributes, type: "number", step: "any", placeholder: shown })
    : h("input", { ...attributes, type: "text", placeholder: shown });
}

/** Read a field: text if only text is allowed, else JSON; lists may be separated by commas. */
function valueOf(text, schema) {
  const types = typesOf(schema).map((one) => one.type ?? typeof one.const);
  if (types.every((type) => type === "string")) return text;
  if (!types.includes("array")) return parseJson(text);
  const whole = parseJson(text);
  const isWhole = typeof whole === "object" || types.includes(typeof whole);
  return isWhole ? whole : text.split(",").map((part) => parseJson(part.trim()));
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Adapt a description of JSON to a form: null is an empty field. */
const adaptHint = (description) => description.replaceAll("`", "").replace(/\bnull\b/g, "empty");

/** Make fields for the properties of a schema; values(form) returns those that are filled in. */
export function schemaFields(schema, prefix) {
  const properties = Object.entries(schema.properties);
  const elements = properties.map(([name, one]) => {
    const id = `${prefix}-${name}`;
    return h(
      "div",
      { class: "field" },
      h("label", { for: id }, name.replaceAll("_", " ")),
      h("p", { class: "hint", id: `${id}-hint` }, adaptHint(one.description ?? "")),
      controlOf(one, id),
      h("p", { class: "fault", id: `${id}-fault` }),
    );
  });
  const values = (form) =>
    Object.fromEntries(
      properties
        .map(([name, one]) => [name, form.querySelector(`#${prefix}-${name}`).value.trim(), one])
        .filter(([, text]) => text !== "")
        .map(([name, text, one]) => [name, valueOf(text, one)]),
    );
  return { elements, values };
}

/** Remove the errors from the fields of a form. */
export function clearFaults(form) {
  for (const place of form.querySelectorAll(".fault")) place.textContent = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
}

/** Show each error at its field, whose id fieldOf(loc) returns; other errors go to the end of the form. */
export function showFaults(form, problem, fieldOf) {
  const others = problem.faults.length ? [] : [problem.message];
  let first = null;
  for (const { loc, msg } of problem.faults) {
    const id = fieldOf(loc);
    const field = id && byId(id);
    const place = id && byId(`${id}-fault`);
    if (!field || !place) {
      others.push(`${loc.join(" ")}: ${msg}`);
      continue;
    }
    const rest = loc.slice(1).join(" ");
    field.closest("details")?.setAttribute("open", "");
    place.textContent += `${place.textContent ? "; " : ""}${rest ? `${rest}: ` : ""}${msg}`;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-errormessage", place.id);
    first ??= field;
  }
  const place = form.querySelector("[data-rest]");
  place.textContent = others.join("; ");
  (first ?? place).scrollIntoView({ block: "center" });
  first?.focus();
}

/** Send a form while its button is disabled; result receives the nodes of the reply, or errors go to their fields. */
export async function submitForm(form, { button, result, fieldOf, send }) {
  byId(button).disabled = true;
  try {
    fill(result, await send());
  } catch (error) {
    if (error.status === undefined) throw error;
    fill(result);
    showFaults(form, error, fieldOf);
  } finally {
    byId(button).disabled = false;
  }
}
