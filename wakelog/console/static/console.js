// Keeps the live part of a page new, and times in words; keys. Every page works without it.

import { morph } from "./morph.js";
import { listen } from "./keys.js";

const live = document.getElementById("live");
const state = document.getElementById("state");
const watched = document.body.dataset.live;

function localTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    each.title = new Date(each.dateTime).toLocaleString();
  }
}

function watch() {
  const source = new EventSource(`/live?of=${encodeURIComponent(watched)}`);
  source.addEventListener("live", (event) => {
    morph(live, JSON.parse(event.data));
    localTimes(live);
    state.textContent = "live";
  });
  source.onerror = () => {
    state.textContent = `not kept new since ${new Date().toLocaleTimeString()}`;
  };
  window.addEventListener("pagehide", () => source.close());
}

localTimes(document);
listen();
if (watched && live) watch();
