// The mesh as a live picture: nodes, links, health, what flows between them.
import { el, facts, setText, svg, Table, tag, to } from "./dom.js";
import { byteRate, bytes, count, duration, rate } from "./format.js";

const WIDTH = 900, RADIUS = 34, MARGIN = 110;

export function health(node) {
  if (node.state === "dead") return ["bad", "down"];
  if (node.state === "left") return ["", "left"];
  if (node.state === "suspect") return ["warn", "does not answer"];
  if (node.status?.not_ready?.length) return ["warn", "not ready"];
  if (node.unasked) return ["warn", "silent"];
  return ["good", "healthy"];
}

export function meshPage(root, parameters, app) {
  if (!app.me.admin) return overview(root, app);
  const figures = facts([["Nodes", "…"], ["Published", "…"], ["Delivered", "…"], ["Kept in logs", "…"]]);
  const picture = el("div", {});
  const table = new Table(
    [
      { title: "Node", make: (node) => el("a", { class: "name", href: to("node", { id: node.id }) }, node.id) },
      { title: "Health", renew: true, make: (node) => tag(health(node)[1], health(node)[0]) },
      { title: "Published", num: true, text: (node) => (node.status ? rate(app.live.rate(`node ${node.id} published`)) : "–") },
      { title: "Delivered", num: true, wide: true, text: (node) => (node.status ? rate(app.live.rate(`node ${node.id} delivered`)) : "–") },
      { title: "Clients", num: true, wide: true, text: (node) => (node.status ? count(node.status.clients) : "–") },
      { title: "Log", num: true, text: (node) => (node.status ? bytes(node.status.log_bytes) : "–") },
      { title: "Up", num: true, wide: true, text: (node) => (node.status ? duration(node.status.uptime_s) : "–") },
    ],
    (node) => node.id, "Nodes of the mesh", "No nodes yet.");
  root.append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, "Mesh"), el("p", {}, "Every node, every link, and what flows between them, as it is now."))),
    el("section", { class: "card", "aria-label": "The mesh in figures" }, figures),
    el("section", { class: "card", "aria-label": "Picture of the mesh" }, picture),
    el("section", { class: "card flush" }, el("h2", {}, "Nodes"), table.element));
  const drawing = new Picture(picture, app);
  return {
    update(snapshot) {
      const nodes = snapshot.mesh.nodes;
      const alive = nodes.filter((node) => node.state === "alive").length;
      const sum = (pick) => nodes.reduce((total, node) => total + (node.status ? pick(node) : 0), 0);
      const values = figures.querySelectorAll("dd");
      setText(values[0], alive === nodes.length ? `${alive}, all up` : `${alive} of ${nodes.length} up`);
      setText(values[1], rate(sum((node) => app.live.rate(`node ${node.id} published`) || 0)));
      setText(values[2], rate(sum((node) => app.live.rate(`node ${node.id} delivered`) || 0)));
      setText(values[3], bytes(sum((node) => node.status.log_bytes)));
      drawing.update(snapshot.mesh);
      table.update(nodes);
    },
  };
}

// Whoever may not administer sees what the key is for, and nothing of the mesh.
function overview(root, app) {
  const patterns = (list) => (list.length ? el("span", { class: "tags" }, list.map((each) => tag(each))) : "none");
  root.append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, "Your key"), el("p", {}, "What this key may do. The picture of the mesh needs the admin right."))),
    el("section", { class: "card" }, facts([["Signed in as", app.me.who], ["May publish to", patterns(app.me.publish)], ["May subscribe to", patterns(app.me.subscribe)]], true)));
  return {};
}

class Picture {
  constructor(root, app) {
    this.root = root;
    this.app = app;
    this.shape = "";
  }

  update(mesh) {
    const shape = JSON.stringify([mesh.nodes.map((node) => node.id), mesh.links.map((link) => [link.a, link.b])]);
    if (shape !== this.shape) this.draw(mesh);
    this.shape = shape;
    for (const node of mesh.nodes) this.fillNode(node, mesh.me);
    for (const link of mesh.links) this.fillLink(link);
  }

  draw(mesh) {
    const focused = document.activeElement?.getAttribute?.("data-node");
    const places = this.places(mesh.nodes.map((node) => node.id));
    const across = [...places.values()].map((place) => place.x), down = [...places.values()].map((place) => place.y);
    const left = Math.min(...across) - MARGIN, width = Math.max(...across) + MARGIN - left;
    const height = Math.max(...down) + RADIUS + 56, box = `${left} 0 ${width} ${height}`;
    this.links = new Map();
    this.nodes = new Map();
    const picture = svg("svg", { class: "picture", viewBox: box, role: "group", "aria-label": "Nodes and links" });
    picture.style.maxHeight = `min(430px, ${1.5 * height}px)`; // one or two nodes do not fill the screen
    for (const link of mesh.links) picture.append(this.makeLink(link, places.get(link.a), places.get(link.b)));
    for (const node of mesh.nodes) picture.append(this.makeNode(node, places.get(node.id)));
    this.root.replaceChildren(picture);
    if (focused) picture.querySelector(`[data-node="${CSS.escape(focused)}"]`)?.focus();
  }

  // Around an ellipse, the first on top: the same nodes are always at the same places.
  places(names) {
    const places = new Map();
    const wide = names.length === 1 ? 0 : Math.min(330, 120 + 40 * names.length);
    const high = names.length <= 2 ? 0 : Math.min(230, 90 + 24 * names.length);
    const turn = names.length === 2 ? Math.PI : -Math.PI / 2;
    names.forEach((name, index) => {
      const angle = turn + (2 * Math.PI * index) / names.length;
      places.set(name, { isOnTop: Math.sin(angle) < -0.3, x: WIDTH / 2 + wide * Math.cos(angle), y: RADIUS + 62 + high + high * Math.sin(angle) });
    });
    return places;
  }

  makeLink(link, a, b) {
    if (!a || !b) return "";
    const line = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
    const edge = svg("line", { class: "edge", ...line });
    const pulse = svg("path", { class: "pulse", d: `M${a.x},${a.y} L${b.x},${b.y}` });
    const label = svg("text", { class: "rate", x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 + 4 });
    this.links.set(`${link.a} ${link.b}`, { edge, pulse, label });
    return svg("g", {}, edge, pulse, label);
  }

  fillLink(link) {
    const shown = this.links.get(`${link.a} ${link.b}`);
    if (!shown) return;
    const there = this.app.live.rate(`link ${link.a} ${link.b}`), back = this.app.live.rate(`link ${link.b} ${link.a}`);
    const all = there === null && back === null ? null : (there || 0) + (back || 0);
    const busy = (all || 0) > 2048;
    shown.edge.setAttribute("class", busy ? "edge busy" : "edge");
    shown.edge.style.strokeWidth = busy ? Math.min(3 + Math.log2(all / 2048) / 2, 10) : 2;
    shown.pulse.setAttribute("class", (back || 0) > (there || 0) ? "pulse back" : "pulse");
    shown.pulse.setAttribute("visibility", busy ? "visible" : "hidden");
    const figures = [all === null ? null : byteRate(all), link.rtt_us ? `${(link.rtt_us / 1000).toFixed(1)} ms` : null];
    setText(shown.label, figures.filter(Boolean).join(" · "));
  }

  makeNode(node, place) {
    const group = svg("g", { class: "node" });
    const lines = place.isOnTop ? [-RADIUS - 34, -RADIUS - 16] : [RADIUS + 28, RADIUS + 47]; // away from the links
    const name = svg("text", { class: "name", x: place.x, y: place.y + lines[0] });
    const sub = svg("text", { class: "sub", x: place.x, y: place.y + lines[1] });
    const glyph = svg("text", { x: place.x, y: place.y + 6, "aria-hidden": "true" });
    group.append(
      svg("circle", { class: "halo", cx: place.x, cy: place.y, r: RADIUS + 8 }), svg("circle", { class: "body", cx: place.x, cy: place.y, r: RADIUS }),
      glyph, name, sub);
    const link = svg("a", { href: to("node", { id: node.id }), "data-node": node.id }, group);
    this.nodes.set(node.id, { group, name, sub, glyph });
    return link;
  }

  fillNode(node, me) {
    const shown = this.nodes.get(node.id), [kind, word] = health(node);
    const flow = (this.app.live.rate(`node ${node.id} published`) || 0) + (this.app.live.rate(`node ${node.id} delivered`) || 0);
    shown.group.setAttribute("class", `node ${kind}`);
    setText(shown.glyph, { good: "✓", warn: "!", bad: "✕" }[kind] || "–");
    setText(shown.name, node.id === me ? `${shortened(node.id)} (here)` : shortened(node.id));
    setText(shown.sub, kind === "good" ? ` ${word} · ${rate(flow)}` : ` ${word}`);
  }
}

const shortened = (name) => (name.length > 22 ? `${name.slice(0, 20)}…` : name);

// --- one node ---

export function nodePage(root, parameters, app) {
  const id = parameters.get("id") || "";
  const body = el("div", { class: "card" });
  const links = new Table(
    [
      { title: "Peer", make: (link) => el("a", { class: "name", href: to("node", { id: link.other }) }, link.other) },
      { title: "Sends", num: true, text: (link) => byteRate(app.live.rate(`link ${id} ${link.other}`)) },
      { title: "Receives", num: true, text: (link) => byteRate(app.live.rate(`link ${link.other} ${id}`)) },
      { title: "Round trip", num: true, text: (link) => (link.rtt_us ? `${(link.rtt_us / 1000).toFixed(1)} ms` : "–") },
      { title: "Events owed", num: true, text: (link) => (link.owed === undefined ? "–" : count(link.owed)) },
    ],
    (link) => link.other, "Links of this node", "It has no links.");
  const word = el("span", {});
  root.append(
    el("div", { class: "head" }, el("div", {}, el("p", { class: "small" }, el("a", { href: to("mesh") }, "Mesh")), el("h1", {}, id)), word),
    body, el("section", { class: "card flush" }, el("h2", {}, "Links"), links.element));
  return {
    update(snapshot) {
      const node = snapshot.mesh?.nodes.find((each) => each.id === id);
      if (!node) {
        links.update([]);
        return body.replaceChildren(el("p", { class: "empty" }, "No node of this name is known here."));
      }
      word.replaceChildren(tag(health(node)[1], health(node)[0]));
      body.replaceChildren(facts(described(node, snapshot.at_ms), true));
      links.update(snapshot.mesh.links.filter((link) => link.a === id || link.b === id).map((link) => ({
        ...link, other: link.a === id ? link.b : link.a, owed: link.a === id ? link.ab_lag : link.ba_lag })));
    },
  };
}

function described(node, nowMs) {
  const status = node.status;
  const about = [["State in the mesh", node.state]];
  if (node.addresses?.length) about.push(["Address", node.addresses.join(", ")]);
  if (node.unasked) about.push(["It cannot be asked", node.unasked]);
  if (status) {
    about.push(
      ["Version", status.version], ["Up for", duration(status.uptime_s)], ["Streams", count(status.streams)], ["Events kept", count(status.events)],
      ["Log", bytes(status.log_bytes)], ["Clients", count(status.clients)], ["Subscriptions", count(status.subscriptions)],
      ["Listens on", status.listeners.join(", ")], ["Epoch", status.epoch]);
    if (status.certificate_end_s) about.push(["Certificate ends", `in ${duration(Math.max(status.certificate_end_s - nowMs / 1000, 0))}`]);
    if (status.not_ready.length) about.push(["Not ready", status.not_ready.join("; ")]);
    if (status.console) about.push(["Its own console", status.console]);
  }
  if (node.interest?.length) about.push(["Wants", el("span", { class: "tags" }, node.interest.map((each) => tag(each)))]);
  return about;
}

