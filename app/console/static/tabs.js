// Tabs as in the ARIA authoring practices: arrow keys move, panels are filled when first shown.

import { failure, fill, h } from "./dom.js";

/** Make tabs: [{id, title, show()}], where show returns the nodes of the panel. The fragment selects a tab. */
export function tabs(label, items) {
  const panelOf = ({ id }) => h("div", { id: `panel-${id}`, role: "tabpanel", "aria-labelledby": `tab-${id}` });
  const panels = items.map(panelOf);
  const buttons = items.map(({ id, title }, at) =>
    h(
      "button",
      { id: `tab-${id}`, type: "button", role: "tab", "aria-controls": `panel-${id}`, onclick: () => select(at) },
      title,
    ),
  );
  const isFilled = items.map(() => false);
  function select(at, focus = true) {
    buttons.forEach((button, place) => {
      button.setAttribute("aria-selected", place === at);
      button.tabIndex = place === at ? 0 : -1;
      panels[place].hidden = place !== at;
    });
    if (focus) {
      buttons[at].focus();
      history.replaceState(null, "", `#${items[at].id}`);
    }
    if (!isFilled[at]) fillPanel(at);
  }
  async function fillPanel(at) {
    isFilled[at] = true;
    try {
      fill(panels[at], await items[at].show());
    } catch (error) {
      fill(panels[at], failure(error));
      if (error.status === undefined) throw error;
    }
  }
  const press = (event) => {
    const at = buttons.indexOf(document.activeElement);
    const [count, last] = [buttons.length, buttons.length - 1];
    const next = { ArrowRight: (at + 1) % count, ArrowLeft: (at + last) % count, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    select(next);
  };
  const element = h(
    "section",
    { class: "card tabs", "aria-label": label },
    h("div", { role: "tablist", "aria-label": label, onkeydown: press }, buttons),
    panels,
  );
  const wanted = items.findIndex(({ id }) => `#${id}` === location.hash);
  select(Math.max(wanted, 0), false);
  return element;
}
