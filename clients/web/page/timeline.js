// SPDX-License-Identifier: MPL-2.0
// timeline.js -- how many failures there were when: bars over an axis of time that can be moved and
// stretched.  Scale, axis, bins and zoom are those of d3.
/* global d3 */

const MARGIN = { left: 34, right: 12, top: 6, bottom: 20 };
const DAY_MS = 86400000;
const SPAN_LEAST_MS = 10000;
const BIN_PIXELS = 8;

export class Timeline {
  // note: an element that says which time is shown.
  constructor(svg, note) {
    this.svg = d3.select(svg);
    this.note = note;
    this.times = [];
    this.since = null;
    this.isFollowing = true; // shows all of the past day, up to now
    this.x = d3.time.scale();
    this.y = d3.scale.linear();
    this.bars = this.svg.append("g");
    this.axis = this.svg.append("g").attr("class", "x");
    this.left = this.svg.append("g").attr("class", "y");
    this.zoom = d3.behavior.zoom().on("zoom", () => {
      this.isFollowing = false;
      this.draw();
    });
    this.svg.call(this.zoom).on("wheel.page", null);
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  // since: the page has no event of before; null: it has all.
  set(times, since) {
    this.times = times;
    this.since = since;
    this.draw();
  }

  // All of it: from the oldest failure, of a day at most, to now.
  whole() {
    const now = Date.now();
    const first = this.times.length > 0 ? this.times[0] : now;
    return [Math.max(Math.min(first, now - SPAN_LEAST_MS), now - DAY_MS), now];
  }

  // "in", "out", "earlier", "later", or "all".
  move(how) {
    const [from, to] = this.shown();
    const span = to - from;
    const middle = from + span / 2;
    this.isFollowing = how === "all";
    if (how === "in") {
      const half = Math.max(span / 2, SPAN_LEAST_MS) / 2;
      this.show(middle - half, middle + half);
    } else if (how === "out") {
      this.show(Math.max(middle - span, Date.now() - DAY_MS), Math.min(middle + span, Date.now()));
    } else if (how === "earlier" || how === "later") {
      const step = (how === "later" ? span : -span) / 2;
      this.show(from + step, to + step);
    }
    this.draw();
  }

  shown() {
    return this.isFollowing ? this.whole() : this.x.domain().map((time) => time.getTime());
  }

  show(from, to) {
    this.x.domain([new Date(from), new Date(to)]);
    this.zoom.x(this.x);
  }

  draw() {
    const box = this.svg.node().getBoundingClientRect();
    const width = box.width - MARGIN.left - MARGIN.right;
    const height = box.height - MARGIN.top - MARGIN.bottom;
    if (width < 40 || height < 20) {
      return;
    }
    const isResized = this.x.range()[1] !== MARGIN.left + width;
    const [from, to] = this.shown();
    this.x.range([MARGIN.left, MARGIN.left + width]);
    if (this.isFollowing || isResized) {
      this.show(from, to);
    }
    const bins = d3.layout.histogram()
      .range([from, to])
      .bins(Math.max(10, Math.floor(width / BIN_PIXELS)))(this.times.filter((time) => time >= from && time <= to));
    this.y.domain([0, Math.max(1, d3.max(bins, (bin) => bin.y))]).range([MARGIN.top + height, MARGIN.top]);
    const bars = this.bars.selectAll("rect").data(bins.filter((bin) => bin.y > 0));
    bars.exit().remove();
    bars.enter().append("rect").attr("class", "bar");
    bars.attr("x", (bin) => this.x(bin.x))
      .attr("width", Math.max(1, width / bins.length - 1))
      .attr("y", (bin) => this.y(bin.y))
      .attr("height", (bin) => this.y(0) - this.y(bin.y));
    this.axis.attr("transform", `translate(0,${MARGIN.top + height})`)
      .call(d3.svg.axis().scale(this.x).orient("bottom").ticks(Math.max(2, Math.floor(width / 110))));
    this.left.attr("transform", `translate(${MARGIN.left},0)`)
      .call(d3.svg.axis().scale(this.y).orient("left").ticks(3).tickFormat(d3.format("d")));
    const count = d3.sum(bins, (bin) => bin.y);
    const text = `${count} failure${count === 1 ? "" : "s"} from ${new Date(from).toLocaleString()} to ` +
      `${new Date(to).toLocaleString()}`;
    if (this.note.textContent !== text && !this.isFollowing) {
      this.note.textContent = text;
    } else if (this.isFollowing) {
      const since = this.since === null ? "so far" : `since ${new Date(this.since).toLocaleString()}; older ones are not here`;
      this.note.textContent = `${count} failure${count === 1 ? "" : "s"} ${since}`;
    }
    this.svg.node().setAttribute("aria-label", text);
  }
}
