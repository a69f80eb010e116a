// The latest snapshot of the mesh, and rates from one to the next.

const POINTS_MAX = 60;
const TOPICS_MAX = 1000;

export class Live {
  constructor() {
    this.snapshot = null;
    this.rates = new Map(); // "topic x", "link a b", "node a published" -> {value, atMs, rate, history}
    this.listeners = new Set();
  }

  take(snapshot) {
    const atMs = snapshot.at_ms;
    for (const topic of snapshot.topics) this.count(`topic ${topic.topic}`, topic.published, atMs);
    for (const link of snapshot.mesh?.links || []) {
      this.count(`link ${link.a} ${link.b}`, link.ab_bytes, atMs);
      this.count(`link ${link.b} ${link.a}`, link.ba_bytes, atMs);
    }
    for (const node of snapshot.mesh?.nodes || []) {
      this.count(`node ${node.id} published`, node.status?.published_events, atMs);
      this.count(`node ${node.id} delivered`, node.status?.delivered_events, atMs);
    }
    while (this.rates.size > 4 * TOPICS_MAX) this.rates.delete(this.rates.keys().next().value);
    this.snapshot = snapshot;
    for (const listener of this.listeners) listener(snapshot);
  }

  // Counters begin again when a node does: that is no negative rate.
  count(name, value, atMs) {
    if (value === undefined) return void this.rates.delete(name);
    const before = this.rates.get(name);
    if (!before) return void this.rates.set(name, { value, atMs, rate: null, history: [] });
    if (atMs <= before.atMs) return;
    before.rate = Math.max(value - before.value, 0) / ((atMs - before.atMs) / 1000);
    before.history.push(before.rate);
    if (before.history.length > POINTS_MAX) before.history.shift();
    before.value = value;
    before.atMs = atMs;
  }

  rate(name) {
    return this.rates.get(name)?.rate ?? null;
  }

  history(name) {
    return this.rates.get(name)?.history ?? [];
  }
}
