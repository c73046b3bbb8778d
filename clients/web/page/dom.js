// SPDX-License-Identifier: MPL-2.0
// dom.js -- elements from data.  What parties say is hostile text: it becomes text nodes and
// nothing else.

export function $(id) {
  return document.getElementById(id);
}

// An element with these properties; children are elements, or text.
export function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") {
      element.className = value;
    } else if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

const ROWS_MAX = 200; // that a table shows

// Makes the body of a table show these rows.  cells gives, for one row, an array of texts, elements
// or {text, class}.  A row whose cells are the same as before keeps its elements, and so its focus.
// Rows may have the same key: then the first of them is the first one of before.  left: how many
// rows there are more, which nobody gave.
export function fill(table, rows, keyOf, cells, { decorate, left = 0 } = {}) {
  const body = table.tBodies[0];
  const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const times = new Map(); // how often there was a key
  const wanted = [];
  for (const row of rows.slice(0, ROWS_MAX)) {
    const name = keyOf(row);
    times.set(name, (times.get(name) || 0) + 1);
    const key = `${times.get(name)} ${name}`;
    const made = cells(row);
    const print = JSON.stringify(made, (name, value) => (value instanceof Node ? value.textContent : value));
    let element = known.get(key);
    if (element === undefined || element.dataset.print !== print) {
      const isNew = element === undefined;
      const focused = !isNew && element.contains(document.activeElement)
        ? [...element.querySelectorAll("a, button")].indexOf(document.activeElement) : -1;
      element = isNew ? make("tr", {}) : element;
      element.replaceChildren(...made.map((cell) => {
        if (cell instanceof Node) {
          return make("td", {}, cell);
        }
        return typeof cell === "object" ? make("td", { class: cell.class }, cell.text) : make("td", {}, cell);
      }));
      element.dataset.key = key;
      element.dataset.print = print;
      if (focused >= 0) {
        element.querySelectorAll("a, button")[focused]?.focus();
      }
    }
    if (decorate) {
      decorate(element, row);
    }
    wanted.push(element);
  }
  const stays = new Set(wanted);
  [...body.rows].filter((row) => !stays.has(row)).forEach((row) => row.remove());
  wanted.forEach((element, index) => {
    if (body.rows[index] !== element) {
      body.insertBefore(element, body.rows[index] || null);
    }
  });
  const place = table.closest("section, nav, details");
  table.hidden = rows.length === 0;
  for (const note of place.querySelectorAll(":scope > .empty")) {
    note.hidden = rows.length > 0;
  }
  const more = place.querySelector(":scope > .more");
  if (more !== null) {
    const many = Math.max(0, rows.length - ROWS_MAX) + left;
    more.hidden = many === 0;
    more.textContent = `and ${many} more`;
  }
}

// "0.3 s", "12 s", "3 min", as `errbus status` says it.
export function duration(ms) {
  if (ms === undefined || ms === null) {
    return "";
  }
  if (ms < 10000) {
    return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  }
  if (ms < 60000) {
    return `${Math.floor(ms / 1000)} s`;
  }
  if (ms < 3600000) {
    return `${Math.floor(ms / 60000)} min`;
  }
  return ms < 86400000 ? `${Math.floor(ms / 3600000)} h` : `${Math.floor(ms / 86400000)} d`;
}

export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function clock(at) {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleTimeString([], { hour12: false });
}

// The last line of a message, which says what happened, as in a stack trace.
export function lastLine(message) {
  const lines = (message || "").split("\n").filter((line) => line.trim() !== "");
  return lines.length > 0 ? lines[lines.length - 1] : "";
}

export function short(text, most) {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join("")}…`;
}
