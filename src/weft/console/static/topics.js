// Topics: how much flows, how much is kept and for how long, who wants them.
import { el, facts, sparkline, Table, tag, to } from "./dom.js";
import { get } from "./api.js";
import { ago, bytes, count, duration, moment, rate } from "./format.js";

export function topicsPage(root, parameters, app) {
  const filter = el("input", { type: "search", id: "filter", placeholder: "part of a name", autocomplete: "off" });
  const table = new Table(
    [
      { title: "Topic", make: (row) => el("a", { class: "name", href: to("topic", { name: row.topic }) }, row.topic) },
      { title: "Last two minutes", wide: true, renew: true, make: (row) => sparkline(app.live.history(`topic ${row.topic}`)) },
      { title: "Rate", num: true, text: (row) => rate(app.live.rate(`topic ${row.topic}`)) },
      { title: "Events kept", num: true, wide: true, text: (row) => count(row.events) },
      { title: "Size", num: true, text: (row) => bytes(row.bytes) },
      { title: "Last event", num: true, wide: true, text: (row) => ago(row.last_timestamp_us, app.live.snapshot.at_ms) },
      { title: "Kept at", wide: true, text: (row) => row.nodes.join(", ") },
    ],
    (row) => row.topic, "Topics", "No topic that this key may read has events yet.");
  const more = el("p", { class: "hint", hidden: true }, "There are more topics than this list shows: name a pattern in the event browser.");
  const show = () => {
    const wanted = filter.value.trim().toLowerCase(), snapshot = app.live.snapshot;
    if (!snapshot) return;
    table.update(snapshot.topics.filter((row) => row.topic.toLowerCase().includes(wanted)));
    more.hidden = !snapshot.more;
  };
  filter.addEventListener("input", show);
  root.append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, "Topics"), el("p", {}, "What this key may read. Figures are those of the node that keeps most.")),
      el("label", {}, "Filter ( / )", filter)),
    el("section", { class: "card flush" }, table.element), more);
  return { update: show };
}

export function topicPage(root, parameters, app) {
  const name = parameters.get("name") || "";
  const body = el("div", { class: "card" }, el("p", { class: "empty" }, "Asking the nodes…"));
  const now = el("dl", { class: "facts" });
  root.append(
    el("div", { class: "head" }, el("div", {}, el("p", { class: "small" }, el("a", { href: to("topics") }, "Topics")), el("h1", {}, name)),
      el("div", { class: "fields" }, el("a", { class: "button quiet", href: to("events", { pattern: name }) }, "Browse events"),
        el("a", { class: "button", href: to("publish", { topic: name }) }, "Publish"))),
    el("section", { class: "card", "aria-label": "Now" }, now), body);
  get("topic", { topic: name }).then((view) => body.replaceWith(...about(view, app))).catch((error) => body.replaceChildren(el("p", { class: "error" }, error.message)));
  return {
    update(snapshot) {
      const row = snapshot.topics.find((each) => each.topic === name), history = app.live.history(`topic ${name}`);
      const values = row ? [["Rate", rate(app.live.rate(`topic ${name}`))], ["Events kept", count(row.events)], ["Size", bytes(row.bytes)], ["Last event", ago(row.last_timestamp_us, snapshot.at_ms)]] : [];
      now.replaceChildren(...facts(values).children, el("div", {}, el("dt", {}, "Last two minutes"), el("dd", {}, history.length < 2 ? "…" : sparkline(history))));
    },
  };
}

function about(view, app) {
  const streams = new Table(
    [
      { title: "Origin", make: (row) => el("span", { class: "name" }, row.origin) },
      { title: "Partition", num: true, text: (row) => String(row.partition) },
      { title: "Offsets", num: true, text: (row) => `${count(row.earliest)} to ${count(row.latest)}` },
      { title: "Size", num: true, text: (row) => bytes(row.bytes) },
      { title: "Last event", num: true, wide: true, text: (row) => (row.last_timestamp_us ? moment(row.last_timestamp_us) : "–") },
      { title: "Kept at", wide: true, text: (row) => row.nodes.join(", ") },
    ],
    (row) => `${row.origin}/${row.partition}:${row.epoch}`, "Streams of this topic", "It has no events.");
  streams.update(view.streams);
  const settings = view.settings;
  const kept = [settings.age_s && `for ${duration(settings.age_s)}`, settings.bytes && `up to ${bytes(settings.bytes)} a stream`].filter(Boolean).join(", ") || "for ever";
  const parts = [
    el("section", { class: "card" }, el("h2", {}, "Settings at this node"),
      facts([["Kept", kept], ["Copies before a receipt", String(settings.copies)], ["Compaction", settings.compact ? "the latest event of each key" : "off"]], true)),
    el("section", { class: "card flush" }, el("h2", {}, "Streams"), streams.element)];
  if (app.me.admin) parts.push(el("section", { class: "card flush" }, el("h2", {}, "Who gets its events"), recipients(view.recipients).element));
  return parts;
}

export function recipients(rows) {
  const table = new Table(
    [
      { title: "Node", make: (row) => el("a", { class: "name", href: to("node", { id: row.node }) }, row.node) },
      { title: "Because of", make: (row) => tag(row.pattern) },
      { title: "Way", wide: true, text: (row) => row.path.join(" → ") || "–" },
      { title: "Why", text: (row) => row.reason },
    ],
    (row) => row.node, "Who gets events of this topic", "Nobody subscribes to it now. Its events wait in the log.");
  table.update(rows);
  return table;
}
