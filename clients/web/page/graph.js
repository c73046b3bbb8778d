// SPDX-License-Identifier: MPL-2.0
// graph.js -- the errors of a verdict as a graph, laid out by dagre: the root on the left, and what
// followed from it to the right of it.
/* global dagre */
import { lastLine, short } from "./dom.js";

const NODES_MAX = 60;
const WIDTH = 230;
const HEIGHT = 64;
const LETTERS = 30;
const SVG = "http://www.w3.org/2000/svg";

function draw(tag, properties, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Those nearest to the root first; each row with all rows on its way to the root.
function choose(rows) {
  const rank = (row) => (row.role === "root" ? -1 : row.role === "apart" ? 1e9 : row.steps);
  return [...rows].sort((a, b) => rank(a) - rank(b) || a.row - b.row).slice(0, NODES_MAX);
}

function lay(rows) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 46, marginx: 10, marginy: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  const shown = new Set(rows.map((row) => row.row));
  for (const row of rows) {
    graph.setNode(String(row.row), { width: WIDTH, height: HEIGHT });
  }
  for (const row of rows) {
    if (row.role === "victim" && shown.has(row.next)) {
      graph.setEdge(String(row.next), String(row.row));
    }
  }
  dagre.layout(graph);
  return graph;
}

function drawEdge(graph, row) {
  const points = graph.edge(String(row.next), String(row.row)).points;
  const path = points.map((point, i) => `${i === 0 ? "M" : "L"}${point.x.toFixed(1)},${point.y.toFixed(1)}`);
  const end = points[points.length - 1];
  return [
    draw("path", { d: path.join(""), class: row.by === "blame" ? "edge blame" : "edge" }),
    draw("path", { d: `M${end.x},${end.y}l-8,-4v8z`, class: "head" }),
  ];
}

function drawNode(graph, row, linkOf) {
  const place = graph.node(String(row.row));
  const left = place.x - WIDTH / 2;
  const top = place.y - HEIGHT / 2;
  const line = (text, y, name) => draw("text", { x: left + 10, y: top + y, class: name }, short(text, LETTERS));
  const who = row.party === "" ? "the broker" : `${row.party}/${row.incarnation}`;
  const what = row.type === "" ? `${row.kind}, named by others only` : row.type;
  const link = draw("a", {
    class: `${row.role}${row.type === "" ? " named" : ""}`,
    href: linkOf(row),
    "data-id": row.id,
    "data-role": row.role,
    "aria-label": `${row.role}: ${who}: ${what}: ${lastLine(row.message)}`,
  });
  link.append(
    draw("rect", { x: left, y: top, width: WIDTH, height: HEIGHT, rx: 6 }),
    line(who, 18, "party"), line(what, 36, "type"), line(lastLine(row.message), 53, "message"));
  return link;
}

// Draws the rows of a verdict; linkOf says where the link of a row leads.  How many are not drawn.
export function drawCauses(svg, rows, linkOf) {
  const chosen = choose(rows);
  const graph = chosen.length > 0 ? lay(chosen) : null;
  const shown = new Set(chosen.map((row) => row.row));
  const edges = chosen.filter((row) => row.role === "victim" && shown.has(row.next));
  const focused = svg.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  svg.replaceChildren(...edges.flatMap((row) => drawEdge(graph, row)),
    ...chosen.map((row) => drawNode(graph, row, linkOf)));
  [...svg.querySelectorAll("a")].find((link) => link.dataset.id === focused)?.focus();
  const size = graph !== null ? graph.graph() : { width: 0, height: 0 };
  svg.setAttribute("width", size.width || 0);
  svg.setAttribute("height", size.height || 0);
  return rows.length - chosen.length;
}
