// SPDX-License-Identifier: MPL-2.0
// page.js -- the page: what the feed says becomes tables and pictures, once a frame at most.
import { $, clock, duration, fill, lastLine, make, plural } from "./dom.js";
import { showError } from "./error.js";
import { Feed, Instances, shardOf } from "./feed.js";
import { drawCauses } from "./graph.js";
import { Timeline } from "./timeline.js";

const ALIVE_MS = 3000;
const EVENTS_SHOWN = 100;
const EVENTS_KEPT = 5000;
const ANEW_TOLD_MS = 600000; // how long the page says that the broker began anew

const FAILURES = new Set(["party.lost", "party.failed", "slot.failed", "refused", "verdict.provisional",
  "verdict.final", "job.failing", "job.failed", "job.short", "task.dead", "leases.lost", "tasks.gone",
  "party.never_joined", "job.deadlock", "access.refused", "journal.full", "journal.refused", "broker.forgot"]);
const BAD = new Set(["failed", "lost", "failing", "terminated", "cancelled", "short"]);
const WARN = new Set(["suspect", "grace", "pausing", "gathering", "scheduling", "lingering", "kept"]);

const state = {
  job: null,        // that is shown
  broker: null,     // the last answers
  ofJob: null,
  why: null,
  verdict: null,
  events: [],
  failedAt: [],     // when those of them that are failures happened
  ends: new Map(),  // of parties, by name and incarnation: their last event
  load: null,       // the broker's two times in its last answer, and its CPU between the last two
  trouble: "",      // why there is no answer
  troubleAt: 0,
  noEvents: "",     // why no events come
  instances: new Instances(),
  isAnew: false,    // the broker is not the first one that this page has seen
  lastVerdict: "",  // that is drawn
};

// The state that a party has for good behind such an event.  party.failed is not among them: then a
// party may be failing for a while.
const ENDS = { "party.lost": "lost", "party.left": "left", "party.completed": "completed",
  "party.terminated": "terminated" };

function isFailure(event) {
  return event.gap === true || FAILURES.has(event.event);
}

function colour(word) {
  return BAD.has(word) ? "bad" : WARN.has(word) ? "warn" : word === "running" ? "good" : "";
}

// ---- addresses: #job=NAME&error=ID ----

function address() {
  const words = new URLSearchParams(location.hash.slice(1));
  return { job: words.get("job"), error: words.get("error") };
}

function linkTo(job, error) {
  const words = new URLSearchParams();
  words.set("job", job);
  if (error) {
    words.set("error", error);
  }
  return `#${words}`;
}

function errorLink(id, text) {
  return make("a", { href: linkTo(state.job, id) }, text);
}

// ---- tables ----

const rowsOf = (answer, kind) => (answer === null ? [] : answer.rows.filter((row) => row.kind === kind));

// How many rows of this kind the answer was too long for.
function leftOf(answer, kind) {
  return rowsOf(answer, "left_out").find((row) => row.of === kind)?.rows ?? 0;
}

// The same for a table of those alone that are so: if one that is not was given, all that are were.
function leftBehind(kind, isSo) {
  return rowsOf(state.ofJob, kind).every(isSo) ? leftOf(state.ofJob, kind) : 0;
}

// How much of one processor the broker used between two of its answers; before: what this gave last.
export function loadOf(before, { uptime_ms, cpu_ms }) {
  if (cpu_ms === 0) { // it does not tell
    return null;
  }
  const passed = before === null ? 0 : uptime_ms - before.uptime_ms;
  const used = before === null ? 0 : cpu_ms - before.cpu_ms;
  if (before === null || passed < 0 || used < 0) { // another broker, or the same one started again
    return { uptime_ms, cpu_ms, text: "" };
  }
  return passed === 0 ? before : { uptime_ms, cpu_ms, text: `${Math.round(used / passed * 100)} %` };
}

function showBroker() {
  const broker = rowsOf(state.broker, "broker")[0];
  const journal = rowsOf(state.broker, "journal")[0];
  const alerts = [];
  if (broker !== undefined) {
    const facts = [["version", broker.version], ["up", duration(broker.uptime_ms)],
      ["CPU", state.load?.text ?? "not known"], ["keeps", broker.durability], ["journal", journal.backend === "none" ? "none" : journal.state],
      ["refused", broker.refused]];
    $("broker").replaceChildren(...facts.map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value))));
    if (state.isAnew && broker.uptime_ms < ANEW_TOLD_MS) {
      alerts.push(`The broker began anew ${duration(broker.uptime_ms)} ago, without its journal. It has ` +
        "no job, party or event of before, and ids of events count from 1 again.");
    }
    if (journal.state !== "well") {
      alerts.push(`The journal is ${journal.state}: ${journal.reason}`);
    }
  }
  if (state.trouble !== "") {
    alerts.unshift(`${state.trouble} What is below is ${duration(Date.now() - state.troubleAt)} old.`);
  }
  if (state.noEvents !== "") {
    alerts.push(`No events come of job ${state.job}: ${state.noEvents}.`);
  }
  const link = $("link");
  const isDown = state.trouble !== "" || state.noEvents !== "";
  const word = isDown ? "not live" : state.broker === null ? "connecting" : "live";
  if (link.textContent !== word) { // or a reader would be told each second
    link.textContent = word;
    link.className = isDown ? "down" : "";
  }
  const alert = $("alert");
  alert.hidden = alerts.length === 0;
  if (alert.textContent !== alerts.join(" ")) {
    alert.textContent = alerts.join(" ");
  }
}

// Of a bus of several brokers one is asked for its jobs.
function showShards() {
  const shards = rowsOf(state.broker, "shard");
  const others = shards.filter((row) => !row.here).map((row) => row.shard);
  const note = $("shards");
  note.hidden = others.length === 0;
  note.textContent = others.length === 0 ? "" : `Jobs of shard ${shardOf(shards)}. Those of ` +
    `${others.length === 1 ? "shard" : "shards"} ${others.join(", ")} are not listed: open errbus web there, ` +
    "or put #job=NAME behind the address of this page.";
}

function showJobs() {
  showShards();
  fill($("jobs"), rowsOf(state.broker, "job"), (row) => row.name, (row) => [
    make("a", { href: linkTo(row.name) }, row.name),
    { text: row.state, class: colour(row.state) },
    { text: row.open, class: "number" },
  ], {
    left: leftOf(state.broker, "job"),
    decorate: (element, row) => {
      const isCurrent = row.name === state.job;
      element.className = isCurrent ? "current" : "";
      element.querySelector("a").toggleAttribute("aria-current", isCurrent);
    },
  });
}

// An event is here before the next answer.  So a party that ended is shown so at once, in front of
// the others: the answer has those first that need attention, and the table may be too short for all.
function partiesNow() {
  const [ended, others] = [[], []];
  for (const row of rowsOf(state.ofJob, "party")) {
    const end = state.ends.get(`${row.name}/${row.incarnation}`);
    if (end === undefined || row.ended_ms !== undefined) {
      others.push(row);
    } else {
      ended.push({ ...row, state: ENDS[end.event], silent_ms: undefined,
        ended_ms: Math.max(0, Date.now() - Date.parse(end.at)), where: end.error?.type, open: 0 });
    }
  }
  return [...ended, ...others];
}

function showParties() {
  const parties = partiesNow();
  fill($("parties"), parties, (row) => `${row.name}/${row.incarnation}`, (row) => [
    { text: `${row.name}/${row.incarnation}`, class: "who" },
    { text: row.state, class: colour(row.state) },
    { text: duration(row.silent_ms ?? row.ended_ms), class: "number" },
    row.where || row.reason || "",
  ], { left: leftOf(state.ofJob, "party") });
  const owners = parties.filter((row) => row.open > 0)
    .sort((a, b) => (b.open_ms || 0) - (a.open_ms || 0));
  fill($("open"), owners, (row) => `${row.name}/${row.incarnation}`, (row) => [
    { text: row.name, class: "who" },
    { text: row.open, class: "number" },
    row.open_topic ? `${row.open_topic} ${row.open_seq}` : "",
    { text: duration(row.open_ms), class: "number" },
  ], { left: leftBehind("party", (row) => row.open > 0) });
}

function showGroups() {
  fill($("groups"), rowsOf(state.ofJob, "group"), (row) => row.name, (row) => [
    { text: row.name, class: "who" }, row.topic,
    { text: row.members, class: row.members === 0 ? "number bad" : "number" },
    { text: row.waiting, class: "number" },
    { text: row.leased, class: "number" },
    { text: row.dead, class: row.dead > 0 ? "number bad" : "number" },
  ], { left: leftOf(state.ofJob, "group") });
  const slow = rowsOf(state.ofJob, "subscription").filter((row) => row.lag > 0);
  fill($("slow"), slow, (row) => `${row.party} ${row.incarnation} ${row.name}`, (row) => [
    { text: row.party, class: "who" }, row.name,
    { text: row.state, class: colour(row.state) },
    { text: plural(row.lag, "slot"), class: "number" },
  ], { left: leftBehind("subscription", (row) => row.lag > 0) });
}

// "carol is waited for by 7 parties, since 41 s: silent 0.3 s, at 'round 3', owes 2 slots".
function rootItem(node) {
  const words = [` is waited for by ${node.waiters === 1 ? "1 party" : `${node.waiters} parties`}, since `,
    `${duration(node.since_ms)}`];
  if (node.kind === "party") {
    words.push(node.incarnation === 0 ? ": it never came" : `: ${node.state}, silent ${duration(node.silent_ms)}`);
    if (node.where) {
      words.push(`, at '${node.where}'`);
    }
    if (node.open > 0) {
      words.push(`, owes ${plural(node.open, "slot")}`);
    }
  }
  return make("li", {}, make("span", { class: "who" }, node.node), words.join(""));
}

function showWaits() {
  const rows = state.why === null ? [] : state.why.rows;
  const nodes = rows.filter((row) => row.row === "node");
  const cycles = new Map();
  for (const node of nodes.filter((one) => one.cycle !== null)) {
    cycles.set(node.cycle, [...(cycles.get(node.cycle) || []), node.node]);
  }
  const items = [
    ...[...cycles.values()].map((names) =>
      make("li", { class: "bad" }, `${names.join(" → ")} → ${names[0]}: none of them can go on`)),
    ...nodes.filter((node) => node.root).slice(0, 20).map(rootItem)];
  const list = $("roots");
  const print = items.map((item) => item.textContent).join("\n");
  if (list.dataset.print !== print) {
    list.dataset.print = print;
    list.replaceChildren(...items);
  }
  list.parentElement.querySelector(":scope > .empty").hidden = items.length > 0;
  const edges = rows.filter((row) => row.row === "edge");
  fill($("edges"), edges, (edge) => `${edge.from} ${edge.to} ${edge.wait} ${edge.topic} ${edge.seq}`, (edge) => [
    { text: edge.from, class: "who" }, { text: edge.to, class: "who" },
    `${edge.wait}${edge.topic ? ` ${edge.topic} ${edge.seq}` : ""}${edge.count > 1 ? ` and ${edge.count - 1} more` : ""}`,
    { text: duration(edge.since_ms), class: edge.blocked ? "number" : "number quiet" },
  ]);
}

// The rows of a verdict.  One that only other errors speak of has no type and no message: an event
// may know them.
function rowsOfVerdict(verdict) {
  if (!verdict) {
    return [];
  }
  const known = new Map(state.events.filter((event) => event.error).map((event) => [event.error.id, event.error]));
  if (verdict.root) {
    known.set(verdict.root.id, verdict.root);
  }
  return verdict.errors.map((row) => {
    const error = row.type === "" ? known.get(row.id) : undefined;
    return error ? { ...row, type: error.type, message: error.message } : row;
  });
}

function showVerdict() {
  const verdict = state.verdict === null ? null : state.verdict.rows[0];
  const rows = rowsOfVerdict(verdict);
  const print = JSON.stringify([state.job, verdict && verdict.state, verdict && verdict.why, rows]);
  $("verdict").hidden = rows.length === 0;
  if (print === state.lastVerdict) {
    return;
  }
  state.lastVerdict = print;
  if (rows.length === 0) {
    drawCauses($("graph"), [], null);
    return;
  }
  const left = drawCauses($("graph"), rows, (row) => linkTo(state.job, row.id));
  $("why").textContent = `${verdict.state} verdict on attempt ${verdict.attempt}: ${verdict.why}` +
    `${left > 0 ? `; ${left} more errors are in the table` : ""}` +
    `${verdict.rows_left_out > 0 ? `; ${verdict.rows_left_out} errors were left out` : ""}`;
  const byRow = new Map(rows.map((row) => [row.row, row]));
  fill($("causes"), rows, (row) => String(row.row), (row) => [
    row.role, { text: `${row.party}/${row.incarnation}`, class: "who" },
    errorLink(row.id, `${row.kind} ${row.type}: ${lastLine(row.message)}`),
    row.role === "victim" && byRow.has(row.next)
      ? `${row.by === "blame" ? "blames " : ""}${byRow.get(row.next).party}` : "",
  ]);
}

// What a party says of another one is told as such.
function rootOf({ root_party: party, root_claimed_by: by }) {
  return !party ? "" : by ? `, ${by} says: root: ${party}` : `, root: ${party}`;
}

function what(event) {
  if (event.gap) {
    return make("span", { class: "warn" },
      `events ${event.first_id} to ${event.last_id} are missing: the broker or this page was too slow to keep them`);
  }
  const place = event.topic ? `${event.topic} ${event.seq}` : "";
  const many = event.count > 1 ? ` (${event.count})` : "";
  const text = event.text ? ` ${event.text}` : "";
  if (!event.error) {
    return make("span", {}, `${place}${many}${text}`);
  }
  return make("span", {}, `${place}${many}${text} `,
    event.error.claimed_by ? `${event.error.claimed_by} says: ` : "",
    errorLink(event.error.id, `${event.error.kind} ${event.error.type}: ${lastLine(event.error.message)}`),
    rootOf(event.error));
}

function showEvents() {
  const isAll = !$("only-failures").checked;
  const shown = [];
  for (let i = state.events.length - 1; i >= 0 && shown.length < EVENTS_SHOWN; i--) {
    if (isAll || isFailure(state.events[i])) {
      shown.push(state.events[i]);
    }
  }
  fill($("events"), shown, (event) => `${event.id}${event.gap ? "gap" : ""}`, (event) => [
    { text: event.gap ? "" : event.id, class: "number" }, clock(event.at),
    { text: event.event || "gap", class: isFailure(event) ? "bad" : "" },
    event.party ? `${event.party}/${event.incarnation}` : "", what(event),
  ]);
  const last = state.events.length > 0 ? state.events[state.events.length - 1].id : 0;
  const first = state.events.find((event) => !event.gap)?.id ?? 0;
  $("events-note").textContent = (first > 1 ? `events of before ${first} are not here; ` : "") +
    `${plural(state.events.length, "event")} here, the newest is ${last}`;
}

// ---- once a frame, and not too often ----

const FRAMES_MS = 250; // between two, so that there is time for who uses the page
const dirty = new Set();

function later(...parts) {
  parts.forEach((part) => dirty.add(part));
  if (later.isDue) {
    return;
  }
  later.isDue = true;
  const wait = Math.max(0, (later.lastAt || 0) + FRAMES_MS - performance.now());
  setTimeout(() => requestAnimationFrame(() => {
    later.isDue = false;
    later.lastAt = performance.now();
    const all = [...dirty];
    dirty.clear();
    all.forEach((part) => part());
  }), wait);
}

let timeline = null;

function showTimeline() {
  const first = state.events.find((event) => !event.gap);
  timeline.set(state.failedAt, first !== undefined && first.id > 1 ? first.at : null);
}

// ---- what the feed says ----

// Another instance of the broker knows nothing of what is shown.
function compareInstance(answer) {
  if (state.instances.isAnew(answer.rows)) {
    Object.assign(state, { isAnew: true, ofJob: null, why: null, verdict: null, events: [], failedAt: [],
      ends: new Map(), load: null });
    later(showParties, showGroups, showWaits, showVerdict, showEvents, showTimeline);
  }
}

// An answer knows all events before this one.
function forgetEnds(job) {
  for (const [name, event] of state.ends) {
    if (job !== undefined && event.id < job.next_event) {
      state.ends.delete(name);
    }
  }
}

function takeAnswer(answer) {
  const isOk = answer.status === 200;
  if (answer.kind === "broker") {
    if (isOk) {
      compareInstance(answer);
      state.broker = answer;
      state.load = loadOf(state.load, rowsOf(answer, "broker")[0]);
      state.trouble = "";
      state.troubleAt = Date.now();
      chooseJob();
    } else {
      state.trouble = answer.status === 401 ? "This page needs a token." : `${answer.why}.`;
      if (answer.status === 401 && !$("login").open) {
        $("login").showModal();
      }
    }
    later(showBroker, showJobs);
  } else if (answer.job !== state.job || (!isOk && answer.status !== 404)) {
    return; // what is shown stays, and the bar says that it is old
  } else if (answer.kind === "job") {
    state.ofJob = answer;
    forgetEnds(rowsOf(answer, "job")[0]);
    later(showParties, showGroups);
  } else if (answer.kind === "why") {
    state.why = isOk ? answer : null;
    later(showWaits);
  } else if (answer.kind === "verdict") {
    state.verdict = isOk ? answer : null;
    later(showVerdict);
  }
}

function takeEvents(message) {
  if (message.job !== state.job) {
    return;
  }
  const failedAt = message.events.filter((event) => !event.gap && isFailure(event))
    .map((event) => Date.parse(event.at));
  state.events = (message.isReset ? message.events : state.events.concat(message.events))
    .slice(-EVENTS_KEPT);
  state.failedAt = (message.isReset ? failedAt : state.failedAt.concat(failedAt)).slice(-EVENTS_KEPT);
  later(showEvents, showTimeline);
  if (message.isReset) {
    state.ends.clear();
  }
  for (const event of message.events.filter((one) => one.event in ENDS)) {
    state.ends.set(`${event.party}/${event.incarnation}`, event);
    later(showParties);
  }
}

// ---- the job that is shown ----

let say = null; // to the feed

function tell() {
  say({ type: "show", job: state.job, visible: document.visibilityState === "visible" });
}

function show(job) {
  if (job === state.job) {
    return;
  }
  Object.assign(state, { job, ofJob: null, why: null, verdict: null, events: [], failedAt: [],
    ends: new Map(), noEvents: "" });
  $("job-title").textContent = job === null ? "No job yet" : `Job ${job}`;
  document.title = job === null ? "Errbus" : `${job} - Errbus`;
  later(showBroker, showJobs, showParties, showGroups, showWaits, showVerdict, showEvents, showTimeline);
  tell();
}

// The one of the address; else the first one, when there is one.
function chooseJob() {
  const jobs = rowsOf(state.broker, "job").map((row) => row.name);
  const wanted = address().job;
  if (wanted !== null) {
    show(wanted);
  } else if (state.job === null || !jobs.includes(state.job)) {
    show(jobs.length > 0 ? jobs[0] : null);
  }
}

function followAddress() {
  const { job, error } = address();
  if (job !== null) {
    show(job);
  }
  if (error) {
    showError(state.job, error, (id) => linkTo(state.job, id));
  } else if ($("error").open) {
    $("error").close();
  }
}

// ---- begin ----

function connect() {
  if (typeof SharedWorker === "undefined") {
    const take = new Feed().connect(takeMessage);
    return take;
  }
  let path = "/worker.js";
  if (typeof trustedTypes !== "undefined") { // the browser takes scripts from this policy alone
    path = trustedTypes.createPolicy("errbus", { createScriptURL: (name) => name }).createScriptURL(path);
  }
  const worker = new SharedWorker(path, { type: "module", name: "errbus" });
  worker.port.onmessage = (event) => takeMessage(event.data);
  return (message) => worker.port.postMessage(message);
}

function takeMessage(message) {
  if (message.type === "answer") {
    takeAnswer(message);
  } else if (message.type === "stream") {
    if (message.job === state.job) {
      state.noEvents = message.why.replace(/\.$/, "");
      later(showBroker);
    }
  } else {
    takeEvents(message);
  }
}

function switchTheme() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (isDark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch {
    // it is not kept where the browser keeps nothing
  }
}

async function login(event) {
  event.preventDefault();
  const response = await fetch("/api/login", { headers: { Authorization: `Bearer ${$("token").value}` } });
  $("login-note").textContent = response.ok ? "" : "This is not the token.";
  if (response.ok) {
    $("token").value = "";
    $("login").close();
  }
}

function begin() {
  try {
    const theme = localStorage.getItem("theme");
    if (theme === "dark" || theme === "light") {
      document.documentElement.dataset.theme = theme;
    }
  } catch {
    // as the system says
  }
  timeline = new Timeline($("chart"), $("span"));
  say = connect();
  $("theme").addEventListener("click", switchTheme);
  $("login-form").addEventListener("submit", login);
  $("only-failures").addEventListener("change", () => later(showEvents));
  $("error").addEventListener("close", () => {
    if (address().error) {
      location.hash = linkTo(state.job, null);
    }
  });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => timeline.move(button.dataset.zoom));
  }
  addEventListener("hashchange", followAddress);
  addEventListener("visibilitychange", tell);
  addEventListener("pagehide", () => say({ type: "bye" }));
  addEventListener("pageshow", tell);
  setInterval(() => say({ type: "alive" }), ALIVE_MS);
  followAddress();
  tell();
  later(showBroker);
}

begin();
