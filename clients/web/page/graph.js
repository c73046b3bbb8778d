// SPDX-License-Identifier: MPL-2.0
// graph.js -- errors as a graph, laid out by dagre: the root on the left, and what followed from it
// to the right of it.  A full line is a cause, a dashed line is blame, a dotted one stands for causes
// that are left out.  What a party says of others, and the broker could not check, is grey.
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

// nodes: {key, role, id, party, incarnation, kind, type, message, claimed_by}
// edges: {from, to, by}; from and to are keys of nodes
function lay(nodes, edges) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 46, marginx: 10, marginy: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) {
    graph.setNode(node.key, { width: WIDTH, height: HEIGHT });
  }
  for (const edge of edges) {
    graph.setEdge(edge.from, edge.to);
  }
  dagre.layout(graph);
  return graph;
}

function drawEdge(graph, edge) {
  const points = graph.edge(edge.from, edge.to).points;
  const path = points.map((point, i) => `${i === 0 ? "M" : "L"}${point.x.toFixed(1)},${point.y.toFixed(1)}`);
  const end = points[points.length - 1];
  return [
    draw("path", { d: path.join(""), class: `edge ${edge.by}` }),
    draw("path", { d: `M${end.x},${end.y}l-8,-4v8z`, class: "head" }),
  ];
}

function drawNode(graph, node, linkOf) {
  const place = graph.node(node.key);
  const left = place.x - WIDTH / 2;
  const top = place.y - HEIGHT / 2;
  const line = (text, y, name) => draw("text", { x: left + 10, y: top + y, class: name }, short(text, LETTERS));
  const owner = node.party === "" ? "the broker" : `${node.party}/${node.incarnation || 0}`;
  const who = node.claimed_by ? `${node.claimed_by} says: ${owner}` : owner;
  const what = node.type === "" ? `${node.kind}, named by others only` : node.type;
  const link = draw("a", {
    class: `${node.role}${node.type === "" ? " named" : ""}${node.claimed_by ? " claimed" : ""}`,
    href: linkOf(node),
    "data-id": node.id,
    "data-role": node.role,
    "aria-label": `${node.role}: ${who}: ${what}: ${lastLine(node.message)}`,
  });
  link.append(
    draw("rect", { x: left, y: top, width: WIDTH, height: HEIGHT, rx: 6 }),
    line(who, 18, "party"), line(what, 36, "type"), line(lastLine(node.message), 53, "message"));
  return link;
}

function drawGraph(svg, nodes, edges, linkOf) {
  const graph = nodes.length > 0 ? lay(nodes, edges) : null;
  const focused = svg.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  svg.replaceChildren(...edges.flatMap((edge) => drawEdge(graph, edge)),
    ...nodes.map((node) => drawNode(graph, node, linkOf)));
  [...svg.querySelectorAll("a")].find((link) => link.dataset.id === focused)?.focus();
  const size = graph !== null ? graph.graph() : { width: 0, height: 0 };
  svg.setAttribute("width", size.width || 0);
  svg.setAttribute("height", size.height || 0);
}

// Those nearest to the root first; each row with all rows on its way to the root.
function choose(rows) {
  const rank = (row) => (row.role === "root" ? -1 : row.role === "apart" ? 1e9 : row.steps);
  return [...rows].sort((a, b) => rank(a) - rank(b) || a.row - b.row).slice(0, NODES_MAX);
}

// Draws the rows of a verdict; linkOf says where the link of a row leads.  How many are not drawn.
export function drawCauses(svg, rows, linkOf) {
  const chosen = choose(rows);
  const shown = new Set(chosen.map((row) => row.row));
  drawGraph(svg, chosen.map((row) => ({ ...row, key: String(row.row) })),
    chosen.filter((row) => row.role === "victim" && shown.has(row.next))
      .map((row) => ({ from: String(row.next), to: String(row.row), by: row.by })), linkOf);
  return rows.length - chosen.length;
}

// An error and all that led to it, as far as the answer has it: {error, of}, of being the error that
// it led to; null: the error itself, or a root that the answer does not connect with it.
export function causesOf(error) {
  const all = [{ error, of: null }];
  for (let at = error; at && all.length < NODES_MAX; at = at.cause) {
    const causes = at.causes || (at.cause ? [at.cause] : []);
    all.push(...causes.map((cause) => ({ error: cause, of: at })));
  }
  const { root } = error;
  if (root && !all.some((one) => one.error.id === root.id)) {
    all.push({ error: root, of: null });
  }
  return all;
}

// Draws an error with its causes.
export function drawError(svg, error, linkOf) {
  const all = causesOf(error);
  const root = error.root ? error.root.id : error.id;
  const nodes = new Map(); // an error may lead to several others
  for (const { error: one } of all) {
    nodes.set(one.id, { ...one, key: one.id, role: one.id === root ? "root" : "victim" });
  }
  const edges = all.filter((one) => one.of !== null)
    .map((one) => ({ from: one.error.id, to: one.of.id, by: "cause" }));
  // The answer has no causes of these.  If there is one alone, the root lies behind it.
  const open = all.filter((one) => one.error.cause === undefined && one.error.id !== root);
  if (open.length === 1 && !edges.some((edge) => edge.from === root)) {
    edges.push({ from: root, to: open[0].error.id, by: "cut" });
  }
  drawGraph(svg, [...nodes.values()], edges, linkOf);
}
