// SPDX-License-Identifier: MPL-2.0
// worker.js -- the feed of all pages of this origin, in a shared worker.
import { Feed } from "./feed.js";

const feed = new Feed();

self.onconnect = (event) => {
  const port = event.ports[0];
  const take = feed.connect((message) => port.postMessage(message));
  port.onmessage = (message) => take(message.data);
};
