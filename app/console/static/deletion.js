// Deletion after the name has been typed.

import { h, quietButton } from "./dom.js";

/** Open a dialog that requires the name and then calls act; an error of act is shown in the dialog. */
export function confirmDeletion({ what, why, name, act }) {
  const fault = h("p", { class: "fault", role: "alert" });
  const send = h("button", { type: "submit", disabled: true }, "Delete");
  const isConfirmed = () => field.value.trim() === name;
  const oninput = () => {
    send.disabled = !isConfirmed();
  };
  const field = h("input", { id: "delete-name", autocomplete: "off", spellcheck: "false", oninput });
  const submit = async (event) => {
    event.preventDefault();
    if (!isConfirmed()) return;
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
      h("label", { for: "delete-name" }, "Type ", h("strong", {}, name), " to confirm"),
      field,
      fault,
      h("p", {}, send, " ", quietButton("Cancel", () => dialog.close())),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
