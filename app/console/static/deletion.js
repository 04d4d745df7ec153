// What goes for good is named once more before it goes.

import { h } from "./dom.js";

/** Ask to type a name, and then delete: what and why are said, act deletes. What goes wrong is said where it was asked. */
export function askToDelete({ what, why, name, act }) {
  const fault = h("p", { class: "fault", role: "alert" });
  const send = h("button", { type: "submit", disabled: true }, "Delete it");
  const field = h("input", {
    id: "delete-name",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      send.disabled = field.value.trim() !== name;
    },
  });
  const submit = async (event) => {
    event.preventDefault();
    if (field.value.trim() !== name) return;
    send.disabled = true;
    try {
      await act();
      dialog.close();
    } catch (error) {
      fault.textContent = error.message;
      send.disabled = false;
      if (error.status === undefined) throw error;
    }
  };
  const dialog = h(
    "dialog",
    { "aria-labelledby": "delete-title", onclose: () => dialog.remove() },
    h(
      "form",
      { onsubmit: submit },
      h("h2", { id: "delete-title" }, `Delete ${what}?`),
      h("p", {}, why),
      h("label", { for: "delete-name" }, "Type ", h("strong", {}, name), " to delete it"),
      field,
      fault,
      h("p", {}, send, " ", h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Keep it")),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
