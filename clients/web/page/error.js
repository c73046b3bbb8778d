// SPDX-License-Identifier: MPL-2.0
// error.js -- one error, whole: all its fields, what led to it, and its attachments.
import { $, make } from "./dom.js";
import { causesOf, drawError } from "./graph.js";

const PREVIEW_BYTES_MAX = 65536;

// Members that are shown in another way than as name and value.
const OWN_WAY = new Set(["cause", "causes", "root", "attachments", "stacktrace", "event", "message"]);

function pathOf(job, id, name) {
  return `/api/attachment?job=${encodeURIComponent(job)}&id=${encodeURIComponent(id)}` +
    `&name=${encodeURIComponent(name)}`;
}

// Reads the begin of an attachment, as text.
async function preview(path, place) {
  place.hidden = false;
  place.textContent = "reading";
  try {
    const response = await fetch(path, { cache: "no-store" });
    if (!response.ok) {
      place.textContent = await response.text();
      return;
    }
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (let bytes = 0; bytes < PREVIEW_BYTES_MAX;) {
      const { done, value } = await reader.read();
      if (done) {
        place.textContent = text + decoder.decode();
        return;
      }
      bytes += value.length;
      text += decoder.decode(value, { stream: true });
    }
    await reader.cancel();
    place.textContent = `${text}\n(the begin of it)`;
  } catch (error) {
    place.textContent = `it cannot be read: ${error.message}`;
  }
}

function attachment(job, id, one) {
  const path = pathOf(job, id, one.name);
  const place = make("pre", { hidden: "" });
  const size = one.arrived !== undefined ? `${one.arrived} of ${one.bytes ?? "?"} bytes` : "";
  return make("li", {},
    make("a", { href: path, download: one.name }, one.name), ` ${size} ${one.state || ""} `,
    make("button", { type: "button", onclick: () => preview(path, place) }, "Show"), place);
}

function fields(error) {
  const list = make("dl", {});
  const add = (name, value) => list.append(make("dt", {}, name), make("dd", {}, value));
  if (error.message) {
    add("message", error.message);
  }
  for (const [name, value] of Object.entries(error)) {
    if (!OWN_WAY.has(name) && value !== null && value !== "") {
      add(name.replaceAll("_", " "), Array.isArray(value) ? value.join(", ") : String(value));
    }
  }
  return list;
}

function part(job, error, title, linkOf) {
  const place = make("section", {}, make("h3", {}, title), fields(error));
  if (error.stacktrace) {
    place.append(make("h3", {}, "Stack trace"), make("pre", { tabindex: "0" }, error.stacktrace));
  }
  if (error.attachments && error.attachments.length > 0) {
    place.append(make("h3", {}, "Attachments"),
      make("ul", {}, ...error.attachments.map((one) => attachment(job, error.id, one))));
  }
  if (linkOf) {
    place.append(make("p", {}, make("a", { href: linkOf(error.id) }, "This error alone")));
  }
  return place;
}

// What is said of a cause before its fields.
function titleOf(cause, root) {
  const title = cause.id === root ? "Because (root)" : "Because";
  return cause.claimed_by ? `${title}, as ${cause.claimed_by} says` : title;
}

// Everything that led to the error, the nearest first, each once.
function causeParts(job, error, linkOf) {
  const root = error.root ? error.root.id : null;
  const seen = new Set([error.id]);
  const parts = [];
  for (const { error: cause } of causesOf(error)) {
    if (!seen.has(cause.id)) {
      seen.add(cause.id);
      const place = part(job, cause, titleOf(cause, root), linkOf);
      place.classList.toggle("claimed", Boolean(cause.claimed_by));
      parts.push(place);
    }
  }
  return parts;
}

// Shows the error of this id; linkOf gives the address of another one.
export async function showError(job, id, linkOf) {
  const dialog = $("error");
  const body = $("error-body");
  dialog.dataset.id = id;
  $("error-title").textContent = `Error ${id}`;
  body.replaceChildren(make("p", {}, "asking"));
  $("error-graph").replaceChildren();
  if (!dialog.open) {
    dialog.showModal();
  }
  let parts;
  try {
    const response = await fetch(`/api/error?job=${encodeURIComponent(job)}&id=${encodeURIComponent(id)}`,
      { cache: "no-store" });
    const text = await response.text();
    if (dialog.dataset.id !== id) {
      return; // another error was asked for meanwhile
    }
    if (response.ok) {
      const error = JSON.parse(text);
      const causes = causeParts(job, error, linkOf);
      parts = [part(job, error, "What happened", null), ...causes];
      if (causes.length > 0) {
        drawError($("error-graph"), error, (cause) => linkOf(cause.id));
      }
    } else {
      parts = [make("p", { class: "bad" }, text)];
    }
  } catch (error) {
    parts = [make("p", { class: "bad" }, `errbus web does not answer: ${error.message}`)];
  }
  if (dialog.dataset.id === id) {
    body.replaceChildren(...parts);
  }
}
