// Groups: services and Spark jobs alike, how far behind they are and were.
import { el, facts, setText, Table, tag, to } from "./dom.js";
import { get, post } from "./api.js";
import { clock, count, counted, duration, moment, peek } from "./format.js";

// A busy group is always a little behind: that is no reason to worry.
function lagTag(row) {
  if (row.lag_events === 0) return tag("up to date", "good");
  return tag(`${count(row.lag_events)} behind`, row.lag_us > 60e6 ? "bad" : row.lag_us > 5e6 ? "warn" : "");
}

export function groupsPage(root, parameters, app) {
  const table = new Table(
    [
      { title: "Group", make: (row) => el("a", { class: "name", href: to("group", { name: row.group }) }, row.group) },
      { title: "Stand", renew: true, make: lagTag },
      { title: "Oldest unhandled", num: true, text: (row) => (row.lag_us ? duration(row.lag_us / 1e6) : "–") },
      { title: "Members", num: true, text: (row) => count(row.members.length) },
      { title: "Streams", num: true, wide: true, text: (row) => count(row.streams) },
      { title: "Topics", wide: true, text: (row) => row.topics.slice(0, 3).join(", ") + (row.topics.length > 3 ? ", …" : "") },
    ],
    (row) => row.group, "Groups", "No group has read anything yet. A group begins when somebody subscribes with its name.");
  root.append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, "Groups"), el("p", {}, "Services and Spark jobs in one view: how far they are behind. A job that reports its progress is a group without members."))),
    el("section", { class: "card flush" }, table.element));
  return { update: (snapshot) => table.update([...(snapshot.groups || [])].sort((a, b) => b.lag_events - a.lag_events || a.group.localeCompare(b.group))) };
}

export function groupPage(root, parameters, app) {
  const name = parameters.get("name") || "";
  const stand = el("span", {}), figures = el("div", {}), chart = el("div", { class: "chart" });
  const said = el("p", { class: "hint" }), error = el("p", { class: "error", role: "alert" });
  const table = new Table(
    [
      { title: "Stream", make: (row) => el("a", { class: "name", href: to("topic", { name: row.topic }) }, row.topic) },
      { title: "Origin", text: (row) => `${row.origin}/${row.partition}` },
      { title: "Handled", num: true, text: (row) => `${count(row.offset)} of ${count(row.latest)}` },
      { title: "Lag", num: true, text: (row) => count(row.lag_events) },
      { title: "Oldest", num: true, wide: true, text: (row) => (row.lag_us ? duration(row.lag_us / 1e6) : "–") },
      { title: "Member", wide: true, text: (row) => row.member || "–" },
    ],
    (row) => `${row.topic}@${row.origin}/${row.partition}`, "Streams of this group", "It has no positions.");
  root.append(
    el("div", { class: "head" }, el("div", {}, el("p", { class: "small" }, el("a", { href: to("groups") }, "Groups")), el("h1", {}, name)), stand),
    error, el("section", { class: "card" }, figures),
    el("section", { class: "card" }, el("h2", {}, "Lag over the last hour"), chart, said),
    el("section", { class: "card flush" }, el("h2", {}, "Streams"), table.element));
  const dead = deadLetters(root, name);
  let plot = null, asking = false;
  const draw = (history, now) => {
    const points = history.length ? [...history, now] : [now];
    setText(said, points.length < 3 ? "This node takes a point every ten seconds, as long as it runs." : `Now ${counted(now[1], "event")}.`);
    if (typeof uPlot === "undefined" || points.length < 2) return;
    const data = [points.map((point) => point[0]), points.map((point) => point[1])];
    if (plot) return plot.setData(data);
    const color = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    plot = new uPlot({ width: chart.clientWidth || 600, height: 260, legend: { show: false }, cursor: { y: false }, scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 10)] } },
      axes: [{ ...axis, values: (_, times) => times.map((at) => clock(at * 1e6).slice(0, 8)) }, { ...axis, size: 64 }], series: [{ label: "time" }, { label: "events behind", stroke: color("--accent"), fill: color("--accent-wash"), width: 2, points: { show: false } }] }, data, chart);
  };
  const resized = () => plot?.setSize({ width: chart.clientWidth, height: 260 });
  addEventListener("resize", resized);
  return {
    async update(snapshot) {
      if (asking) return;
      asking = true;
      try {
        const view = await get("group", { group: name });
        setText(error, "");
        stand.replaceChildren(view.streams || view.members.length ? lagTag(view) : tag("has read nothing"));
        figures.replaceChildren(facts([["Events behind", count(view.lag_events)], ["Oldest unhandled", view.lag_us ? duration(view.lag_us / 1e6) : "none"], ["Members", view.members.length ? view.members.join(", ") : "none"], ["Streams", count(view.streams)]]));
        table.update(view.places);
        await dead.update(false);
        draw(view.history, [snapshot.at_ms / 1000, view.lag_events, view.lag_us / 1e6]);
      } catch (problem) {
        setText(error, problem.message);
      } finally {
        asking = false;
      }
    },
    leave() {
      removeEventListener("resize", resized);
      plot?.destroy();
    },
  };
}

// What the group's readers could not handle. A letter that was published again, or dropped, is gone.
function deadLetters(root, group) {
  const error = el("p", { class: "error", role: "alert" }), said = el("p", { class: "hint", role: "status" });
  const end = async (row, what) => {
    setText(error, "");
    try {
      await post("dead", { group, event: row.id, do: what });
      setText(said, what === "replay" ? `${row.id} was published again.` : `${row.id} was dropped.`);
      await update();
    } catch (problem) {
      setText(error, problem.message);
    }
  };
  const button = (row, what, text) =>
    el("button", { type: "button", class: "quiet small", "aria-label": `${text} ${row.id}`, onclick: () => end(row, what) }, text);
  const table = new Table(
    [
      { title: "Event", make: (row) => el("span", {}, el("a", { class: "name", href: to("topic", { name: row.topic }) }, row.topic), el("span", { class: "soft small mono" }, `  ${row.origin}/${row.partition}:${row.offset}`)) },
      { title: "Payload", wide: true, text: (row) => (row.lost ? "gone from the log" : peek(row) || "(empty)") },
      { title: "Reason", text: (row) => row.reason || "–" },
      { title: "Tries", num: true, text: (row) => count(row.tries) },
      { title: "Given up", num: true, wide: true, text: (row) => moment(row.died_us) },
      { title: "", make: (row) => el("span", { class: "actions" }, row.lost ? null : button(row, "replay", "Replay"), button(row, "drop", "Drop")) },
    ],
    (row) => row.id, "Dead letters of this group", "None: everything could be handled.");
  root.append(el("section", { class: "card flush" }, el("h2", {}, "Dead letters"), error, said, table.element));
  let asked = 0;
  const update = async (again = true) => {
    if (!again && Date.now() - asked < 10000) return;
    asked = Date.now();
    const view = await get("dead", { group });
    table.update(view.letters);
    if (view.more) setText(said, `The first ${counted(view.letters.length, "letter")}; there are more.`);
  };
  return { update };
}
