// SPDX-License-Identifier: MPL-2.0
// feed.js -- what all open pages of this origin share: one stream of events for each job, and one
// question of each kind a second.
//
// A browser has six connections to an origin of HTTP/1.1.  With a stream of its own, the seventh
// page would wait for ever.  So one shared worker has the streams, and the pages listen to it.
// Where a browser has no shared workers, the page runs a feed of its own.
//
// A page says which job it shows and whether anybody can see it.  While nobody can, there is no
// stream and no question.  The stream then continues behind the last event.
//
// A long answer costs the broker, errbus web and the browser more than a short one.  So its question
// is asked less often, by the length: one of 1,000 parties each fourth turn.  A page that becomes
// visible, or shows another job, has its answers at once.
//
// Another broker instance counts events from 1 again: then all that is kept goes.  Each shard of a
// bus has an instance of its own.

// errbus web keeps an answer for a second.  A page that asked as often would be given each one twice.
const QUESTIONS_MS = 1100;
const TURN_CHARACTERS = 32768; // of an answer; for each so many its question leaves out one turn
const FLUSH_MS = 150;      // events reach the pages in batches
const ALIVE_MS = 10000;    // a page that can be seen says so more often than this
const EVENTS_MAX = 5000;   // kept of each job
const KEPT_MS = 600000;    // so long after the last page that showed it

function linesOf(text) {
  return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
}

// The shard whose broker answered with these rows; null: it has none.
export function shardOf(rows) {
  return rows.find((row) => row.kind === "shard" && row.here)?.shard ?? null;
}

// What is known of the instances of brokers.
export class Instances {
  constructor() {
    this.known = new Map(); // by shard
  }

  // Whether these rows are of a broker that knows nothing of what its shard had before.
  isAnew(rows) {
    const shard = shardOf(rows);
    const before = this.known.get(shard);
    const now = rows.find((row) => row.kind === "broker").instance;
    this.known.set(shard, now);
    return before !== undefined && before !== now;
  }
}

let generations = 0; // each of a Job has a number of its own

class Job {
  constructor(name) {
    this.name = name;
    this.source = null;
    this.retryAt = 0;
    this.why = ""; // there are no events; "": they come, or a question says what is wrong
    this.clear();
  }

  clear() {
    this.events = []; // and gaps, {gap: true, first_id, last_id, id}
    this.lastId = 0;
    this.generation = ++generations;
    this.dropped = 0; // events that went for newer ones
  }

  add(event) {
    this.events.push(event);
    this.lastId = event.id;
    if (this.events.length > EVENTS_MAX + EVENTS_MAX / 10) {
      const many = this.events.length - EVENTS_MAX;
      this.events.splice(0, many);
      this.dropped += many;
    }
  }

  open() {
    if (this.source !== null || Date.now() < this.retryAt) {
      return;
    }
    const from = this.lastId > 0 ? `&from=${this.lastId + 1}` : "";
    const source = new EventSource(`/api/stream?job=${encodeURIComponent(this.name)}${from}`);
    source.onmessage = (message) => this.add(JSON.parse(message.data));
    source.addEventListener("gap", (message) => {
      const gap = JSON.parse(message.data);
      this.add({ gap: true, id: gap.last_id, first_id: gap.first_id, last_id: gap.last_id });
    });
    source.addEventListener("reset", () => this.clear());
    source.onopen = () => {
      this.why = "";
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) { // it does not come back by itself
        const { url } = source;
        this.close();
        this.retryAt = Date.now() + QUESTIONS_MS;
        this.askWhy(url);
      }
    };
    this.source = source;
  }

  // A stream that is refused does not say why.  The same question says it.
  async askWhy(url) {
    const stop = new AbortController();
    try {
      const response = await fetch(url, { cache: "no-store", signal: stop.signal });
      this.why = response.ok ? "" : (await response.text()).trim();
    } catch {
      this.why = ""; // errbus web is away: other questions say so
    }
    stop.abort();
  }

  beginAnew() {
    this.why = "";
    this.close();
    this.clear();
    this.retryAt = 0;
  }

  close() {
    if (this.source !== null) {
      this.source.close();
      this.source = null;
    }
  }
}

export class Feed {
  constructor() {
    this.clients = new Set();
    this.jobs = new Map();
    this.asking = new Set(); // paths of questions under way
    this.resting = new Map(); // so many turns more the question of this path is left out
    this.instances = new Instances();
    setInterval(() => this.turn(), QUESTIONS_MS);
    setInterval(() => this.flush(), FLUSH_MS);
  }

  // post takes messages for the page; the result is for those from the page.
  connect(post) {
    const client = { post, job: null, visible: false, aliveAt: Date.now(), sent: 0, generation: 0, why: "" };
    this.clients.add(client);
    return (message) => {
      client.aliveAt = Date.now();
      if (message.type === "bye") {
        this.clients.delete(client);
      } else if (message.type === "show") {
        this.clients.add(client); // a page that comes back out of the browser's memory said bye
        const isNew = message.job !== client.job || (message.visible && !client.visible);
        if (message.job !== client.job) {
          client.generation = 0; // all events of the other job
          client.why = "";
        }
        client.job = message.job;
        client.visible = message.visible;
        if (isNew) {
          this.resting.clear();
          this.ask();
        }
      }
      this.look();
    };
  }

  visible() {
    const now = Date.now();
    return [...this.clients].filter((client) => client.visible && now - client.aliveAt < ALIVE_MS);
  }

  // Opens the streams that somebody looks at, and closes the others.
  look() {
    const names = new Set(this.visible().map((client) => client.job).filter((job) => job !== null));
    for (const name of names) {
      if (!this.jobs.has(name)) {
        this.jobs.set(name, new Job(name));
      }
    }
    for (const [name, job] of this.jobs) {
      if (names.has(name)) {
        job.usedAt = Date.now();
        job.open();
      } else {
        job.close();
        if (Date.now() - job.usedAt > KEPT_MS) {
          this.jobs.delete(name); // a page that comes back begins with the newest events
        }
      }
    }
    return names;
  }

  turn() {
    for (const [path, turns] of this.resting) {
      if (turns > 0) {
        this.resting.set(path, turns - 1);
      } else {
        this.resting.delete(path);
      }
    }
    this.ask();
  }

  ask() {
    if (this.visible().length === 0) {
      this.look();
      return;
    }
    this.question("broker", "/api/status", null);
    for (const name of this.look()) {
      const job = `job=${encodeURIComponent(name)}`;
      this.question("job", `/api/status?${job}`, name);
      this.question("why", `/api/why?${job}`, name);
      this.question("verdict", `/api/verdict?${job}`, name);
    }
  }

  async question(kind, path, job) {
    if (this.asking.has(path) || this.resting.has(path)) {
      return;
    }
    this.asking.add(path);
    let answer = { type: "answer", kind, job, status: 0, rows: [], why: "errbus web does not answer" };
    try {
      const response = await fetch(path, { cache: "no-store" });
      const text = await response.text();
      answer.status = response.status;
      const turns = Math.floor(text.length / TURN_CHARACTERS);
      if (turns > 0) {
        this.resting.set(path, turns);
      }
      if (response.ok) {
        answer.rows = linesOf(text);
        answer.why = "";
      } else {
        answer.why = text.trim();
      }
    } catch (error) {
      answer.why = `errbus web does not answer: ${error.message}`;
    } finally {
      this.asking.delete(path);
    }
    if (kind === "broker" && answer.status === 200) {
      this.compare(answer.rows);
    }
    for (const client of this.visible()) {
      if (job === null || client.job === job) {
        client.post(answer);
      }
    }
  }

  compare(rows) {
    if (this.instances.isAnew(rows)) {
      this.jobs.forEach((job) => job.beginAnew());
      this.resting.clear();
      this.look();
    }
  }

  // Gives each page that can be seen the events that it does not have.
  flush() {
    for (const client of this.visible()) {
      const job = this.jobs.get(client.job);
      if (job === undefined) {
        continue;
      }
      if (client.why !== job.why) {
        client.why = job.why;
        client.post({ type: "stream", job: job.name, why: job.why });
      }
      const isReset = client.generation !== job.generation;
      const last = isReset ? 0 : client.sent;
      let first = job.events.length;
      while (first > 0 && job.events[first - 1].id > last) {
        first--;
      }
      if (isReset || first < job.events.length) {
        client.generation = job.generation;
        client.sent = job.lastId;
        client.post({ type: "events", job: job.name, isReset, events: job.events.slice(first) });
      }
    }
  }
}
