// Publishing, gateways, pipelines, certificates and keys.
import { el, setText, Table, tag, to } from "./dom.js";
import { get, post } from "./api.js";
import { count, duration, moment } from "./format.js";

// --- publish ---

export function publishPage(root, parameters, app) {
  const topic = el("input", { value: parameters.get("topic") || "", placeholder: "orders.created", required: true, autocomplete: "off", spellcheck: "false", id: "filter" });
  const key = el("input", { placeholder: "none", autocomplete: "off", spellcheck: "false" });
  const headers = el("textarea", { placeholder: "name: value, one per line", rows: "3", class: "short", spellcheck: "false" });
  const payload = el("textarea", { placeholder: '{"order": 42}', rows: "8", spellcheck: "false" });
  const encoding = el("select", {}, el("option", { value: "text" }, "text or JSON"), el("option", { value: "base64" }, "base64"));
  const error = el("p", { class: "error", role: "alert" }), done = el("div", { role: "status" });
  const button = el("button", { type: "submit" }, "Publish");
  const form = el("form", { class: "card" },
    el("div", { class: "fields" }, el("label", { class: "wide" }, "Topic", topic), el("label", {}, "Key", key), el("label", {}, "Payload is", encoding)),
    el("label", {}, "Payload", payload), el("label", {}, "Headers", headers), error, el("div", { class: "fields" }, button, done));
  root.append(el("div", { class: "head" }, el("div", {}, el("h1", {}, "Publish"), el("p", {}, "One event, with the rights of your key. The receipt comes when it is on disk."))), form);
  form.addEventListener("submit", async (submitted) => {
    submitted.preventDefault();
    setText(error, "");
    done.replaceChildren();
    button.disabled = true;
    try {
      const event = { topic: topic.value.trim(), payload: payload.value, encoding: encoding.value, headers: readHeaders(headers.value) };
      if (key.value) event.key = key.value;
      const receipt = await post("publish", event);
      done.replaceChildren(tag("synced", "good"), " ", el("span", { class: "mono small" }, receipt.id), " ", el("a", { href: to("events", { pattern: event.topic }) }, "See it"));
    } catch (problem) {
      setText(error, problem.message);
    } finally {
      button.disabled = false;
    }
  });
  return {};
}

function readHeaders(text) {
  const headers = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`a header is "name: value", and this is not one: ${line}`);
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return headers;
}

// --- gateways ---

export function gatewaysPage(root, parameters, app) {
  const area = el("div", { class: "card" }, el("p", { class: "empty" }, "Asking the nodes…"));
  root.append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, "Gateways"), el("p", {}, "Other protocols at the door of the mesh: what became of what came in, since each node started."))), area);
  let before = "";
  return {
    update(snapshot) {
      const found = (snapshot.mesh?.nodes || []).flatMap((node) => (node.status?.gateways || []).map((gateway) => ({ node: node.id, ...gateway })));
      const now = JSON.stringify(found);
      if (now === before) return;
      before = now;
      area.replaceChildren(...(found.length ? found.map(gatewayPart) : [el("p", { class: "empty" }, "No node that could be asked has a gateway. EMM, EXMP and Coaty are configured in [gateway].")]));
    },
  };
}

function gatewayPart(gateway) {
  const counts = (title, values, kind) => {
    const entries = Object.entries(values).filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
    return el("div", {}, el("h3", {}, title), entries.length ? el("div", { class: "tags" }, entries.map(([name, value]) => tag(`${name} ${count(value)}`, kind))) : el("p", { class: "hint" }, "none"));
  };
  return el("section", { class: "card", "aria-label": `${gateway.protocol} at ${gateway.node}` },
    el("div", { class: "head" }, el("h2", {}, `${gateway.protocol.toUpperCase()} at ${gateway.node}`), el("span", { class: "hint mono" }, gateway.listeners.join(", "))),
    counts("Verdicts", gateway.verdicts, ""), counts("Refused, by reason", gateway.refused, "warn"));
}

// --- pipelines ---

const STATES = { running: "good", starting: "", ended: "", stopped: "", failed: "bad", lost: "bad" };
const PIPELINES_PAUSE_MS = 3000;

export function pipelinesPage(root, parameters, app) {
  const table = new Table(
    [
      { title: "Pipeline", make: (run) => el("span", {}, el("span", { class: "name" }, run.name), run.error ? el("p", { class: "error small" }, run.error) : "") },
      { title: "Kind", wide: true, text: (run) => run.pipeline },
      { title: "State", renew: true, make: (run) => tag(run.state, STATES[run.state] ?? "") },
      { title: "Behind", num: true, text: (run) => (run.lag === null ? "–" : `${count(run.lag)} events`) },
      { title: "Rows", num: true, wide: true, text: (run) => count(run.rows) },
      { title: "Last batch", num: true, wide: true, text: lastBatch },
      { title: "Heard of", num: true, wide: true, text: (run) => moment(run.updated_us).slice(0, 19) },
    ],
    (run) => run.name, "Pipelines", "No pipeline has told of itself. Those that weft pipeline runs do, with a key that may write kv.weft-pipelines.");
  const error = el("p", { class: "error", role: "alert" });
  root.append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, "Pipelines"), el("p", {}, "Spark jobs that read from this mesh: what each does, and how far behind it is."))),
    error, el("section", { class: "card flush" }, table.element));
  let askedMs = -Infinity, isOver = false;
  return {
    leave: () => { isOver = true; },
    update() {
      if (performance.now() - askedMs < PIPELINES_PAUSE_MS) return;
      askedMs = performance.now();
      get("pipelines").then((view) => { if (!isOver) { setText(error, ""); table.update(view.pipelines); } }).catch((problem) => setText(error, problem.message));
    },
  };
}

function lastBatch(run) {
  const rate = run.queries.reduce((sum, query) => sum + query.rows_per_s, 0);
  const longest = Math.max(0, ...run.queries.map((query) => query.batch_s));
  return run.queries.some((query) => query.batch >= 0) ? `${count(Math.round(rate))} rows/s, ${longest.toFixed(1)} s` : "–";
}

// --- certificates and keys ---

export function securityPage(root, parameters, app) {
  const certificates = new Table(
    [
      { title: "Node", make: (node) => el("a", { class: "name", href: to("node", { id: node.id }) }, node.id) },
      { title: "Certificate", renew: true, make: (node) => certificateTag(node, app.live.snapshot.at_ms) },
      { title: "Ends", num: true, wide: true, text: (node) => (node.status?.certificate_end_s ? moment(node.status.certificate_end_s * 1e6).slice(0, 16) : "–") },
    ],
    (node) => node.id, "Certificates of nodes", "No nodes.");
  const keys = new Table(
    [
      { title: "Key", make: (key) => el("span", {}, el("span", { class: "name" }, key.name), el("span", { class: "soft small" }, `  ${key.id}`)) },
      { title: "Publish", make: (key) => patterns(key.publish) },
      { title: "Subscribe", make: (key) => patterns(key.subscribe) },
      { title: "Admin", make: (key) => (key.admin ? tag("admin", "warn") : "") },
      { title: "Made", num: true, wide: true, text: (key) => moment(key.created_s * 1e6).slice(0, 10) },
      { title: "Ends", num: true, wide: true, text: (key) => (key.expires_s ? moment(key.expires_s * 1e6).slice(0, 10) : "never") },
    ],
    (key) => key.id, "API keys", "This node knows no keys.");
  const error = el("p", { class: "error", role: "alert" });
  root.append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, "Security"), el("p", {}, "Certificates and when they end; keys and what they may do. Secrets are shown once, when a key is made, and nowhere else."))),
    el("section", { class: "card flush" }, el("h2", {}, "Certificates"), certificates.element),
    el("section", { class: "card flush" }, el("h2", {}, "API keys of this node"), error, keys.element));
  get("keys").then((view) => keys.update(view.keys)).catch((problem) => setText(error, problem.message));
  return { update: (snapshot) => certificates.update(snapshot.mesh?.nodes || []) };
}

const patterns = (list) => (list.length ? el("span", { class: "tags" }, list.map((each) => tag(each))) : el("span", { class: "soft" }, "–"));

function certificateTag(node, nowMs) {
  const end = node.status?.certificate_end_s;
  if (!end) return tag(node.status ? "none" : "unknown");
  const left = end - nowMs / 1000;
  return left <= 0 ? tag("ended", "bad") : tag(`${duration(left)} left`, left < 3600 ? "warn" : "good");
}

