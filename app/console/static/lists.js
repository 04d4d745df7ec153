// Lists of the API as tables, with a button for the next page.

import { getList } from "./api.js";
import { empty, fill, h, number, quietButton, table } from "./dom.js";

const MORE = 100;

/**
 * Make a function that shows a list in a host and returns the page: its items, and their total.
 *
 * host: an element or its id. parameters(): of the request. hint: nodes that replace an empty table.
 */
export function listTable({ host, path, parameters = () => ({}), caption, columns, hint, first = MORE }) {
  let wanted = first;
  let latest = 0;
  return async function show() {
    const mine = ++latest;
    const list = await getList(path, parameters(), wanted);
    if (mine !== latest) return list; // a later request replaces this one
    const showMore = () => {
      wanted = list.items.length + MORE;
      return show();
    };
    const count = `${number(list.items.length)} of ${number(list.total)} are shown. `;
    const rows = () => table(caption, columns(list), list.items, { most: Infinity, records: true });
    fill(
      host,
      list.items.length ? rows() : empty(...hint()),
      list.next === null ? null : h("p", {}, count, quietButton("Show more", showMore)),
    );
    return list;
  };
}
