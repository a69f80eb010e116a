// The event browser: search what was, watch what comes, look at one event closely.
import { el, facts, setText, to } from "./dom.js";
import { get, stream } from "./api.js";
import { asText, clock, count, counted, day, fromBase64, hexDump, keyText, moment, peek, visible } from "./format.js";
import { recipients } from "./topics.js";

const SHOWN_MAX = 500;
const RANGES = [["", "any time"], ["300", "last 5 minutes"], ["3600", "last hour"], ["86400", "last day"], ["range", "from … to …"]];

export function eventsPage(root, parameters, app) {
  const pattern = el("input", { value: parameters.get("pattern") || app.me.subscribe[0] || "", placeholder: "orders.>", required: true, autocomplete: "off", spellcheck: "false", id: "filter" });
  const key = el("input", { value: parameters.get("key") || "", placeholder: "any key", autocomplete: "off", spellcheck: "false" });
  const range = el("select", {}, RANGES.map(([value, text]) => el("option", { value }, text)));
  const begin = el("input", { type: "datetime-local", step: "1" }), end = el("input", { type: "datetime-local", step: "1" });
  const dates = [el("label", { hidden: true }, "From", begin), el("label", { hidden: true }, "To", end)];
  range.addEventListener("change", () => dates.forEach((each) => (each.hidden = range.value !== "range")));
  const follow = el("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Live tail");
  const error = el("p", { class: "error", role: "alert" });
  const status = el("p", { class: "hint", role: "status" });
  const list = el("ol", { class: "eventlist", "aria-label": "Events, the newest first" });
  const detail = el("section", { class: "detail", "aria-label": "The event", hidden: true });
  const area = el("div", { class: "card flush" }, el("div", { class: "events" }, list, detail));
  const form = el("form", { class: "card" },
    el("div", { class: "fields" }, el("label", { class: "wide" }, "Topic or pattern ( / )", pattern), el("label", {}, "Key", key), el("label", {}, "Time", range), dates,
      el("button", { type: "submit" }, "Search"), follow), error, status);
  root.append(el("div", { class: "head" }, el("div", {}, el("h1", {}, "Events"), el("p", {}, "What was published, the newest first, wherever it is kept; or what comes in now."))), form, area);

  let close = null, passedOver = 0;
  const state = { opened: null };
  const query = () => {
    const asked = { pattern: pattern.value.trim() };
    if (key.value) asked.key = key.value;
    if (range.value === "range") {
      if (begin.value) asked.begin_us = new Date(begin.value).getTime() * 1000;
      if (end.value) asked.end_us = new Date(end.value).getTime() * 1000;
    } else if (range.value) asked.begin_us = (Date.now() - Number(range.value) * 1000) * 1000;
    return asked;
  };
  const stop = () => {
    if (close) close();
    close = null;
    follow.setAttribute("aria-pressed", "false");
    setText(follow, "Live tail");
  };
  const search = async () => {
    stop();
    setText(error, "");
    setText(status, "Searching…");
    try {
      const found = await get("events", { ...query(), count: 200 });
      list.replaceChildren(...found.events.map((event) => row(event, open)));
      const silent = found.silent.length ? ` ${found.silent.join(", ")} could not be asked.` : "";
      setText(status, found.events.length === 0 ? `No events.${silent}` : `${counted(found.events.length, "event")} of ${counted(found.streams, "stream")}${found.complete ? "" : "; there may be more"}.${silent}`);
    } catch (problem) {
      setText(status, "");
      setText(error, problem.message);
    }
  };
  const tail = () => {
    setText(error, "");
    setText(status, "Connecting…");
    list.replaceChildren();
    passedOver = 0;
    follow.setAttribute("aria-pressed", "true");
    setText(follow, "Stop");
    close = stream("tail", query(), { ready: () => setText(status, "Waiting for the next event…"), events: (batch) => {
      passedOver += batch.passed_over;
      list.prepend(...batch.events.reverse().map((event) => row(event, open)));
      while (list.children.length > SHOWN_MAX) list.lastChild.remove();
      setText(status, passedOver ? `Live. ${counted(passedOver, "event")} came faster than anybody reads, not shown here.` : "Live.");
    } }, (isOn, why) => { if (!isOn) setText(status, why); });
  };
  const open = async (event, button) => {
    state.opened?.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    state.opened = button;
    area.firstChild.classList.add("open");
    detail.hidden = false;
    try {
      detail.replaceChildren(...closely(await get("event", { id: event.id }), app));
      if (matchMedia("(max-width: 1000px)").matches) detail.scrollIntoView({ block: "start" });
    } catch (problem) {
      detail.replaceChildren(el("p", { class: "error" }, problem.message));
    }
  };
  list.addEventListener("keydown", (pressed) => {
    const item = document.activeElement?.closest("li");
    const next = pressed.key === "ArrowDown" ? item?.nextSibling : pressed.key === "ArrowUp" ? item?.previousSibling : null;
    if (next) {
      pressed.preventDefault();
      next.firstChild.focus();
    }
  });
  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    search();
  });
  follow.addEventListener("click", () => (close ? stop() : tail()));
  if (pattern.value) search();
  return { leave: stop };
}

function row(event, open) {
  const key = keyText(event);
  const button = el("button", { type: "button" },
    el("span", { class: "time", title: day(event.timestamp_us) }, clock(event.timestamp_us)),
    el("span", { class: "topic" }, event.topic, key === null ? null : el("span", { class: "soft small" }, `  ${key}`)),
    el("span", { class: "peek" }, peek(event) || "(empty)"));
  button.addEventListener("click", () => open(event, button));
  return el("li", {}, button);
}

// --- one event ---

function closely(event, app) {
  const data = fromBase64(event.payload);
  const shown = el("div", {});
  const ways = payloadWays(event, data);
  const buttons = ways.map(([name, make], index) => {
    const button = el("button", { type: "button", "aria-pressed": String(index === 0) }, name);
    button.addEventListener("click", () => {
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
      shown.replaceChildren(make());
    });
    return button;
  });
  shown.replaceChildren(ways[0][1]());
  const why = el("div", {});
  const parts = [
    el("div", {}, el("h2", {}, event.topic), el("p", { class: "hint mono" }, event.id)),
    facts([["Time", moment(event.timestamp_us)], ["Key", keyText(event) ?? "none"], ["Size", counted(event.size, "byte")], ["Origin", `${event.origin}, partition ${event.partition}`], ["Offset", count(event.offset)], ["Epoch", event.epoch]], true)];
  if (event.headers.length) parts.push(el("h3", {}, "Headers"), facts(event.headers.map(([name, value]) => [visible(name), visible(value)]), true));
  parts.push(el("div", { class: "fields middle" }, el("h3", {}, "Payload"), el("div", { class: "segments", role: "group", "aria-label": "Show the payload as" }, buttons)), shown);
  if (data.length < event.size) parts.push(el("p", { class: "hint" }, `The first ${count(data.length)} bytes of ${count(event.size)}.`));
  const actions = el("div", { class: "fields" }, el("a", { class: "button quiet", href: to("topic", { name: event.topic }) }, "Topic"));
  if (app.me.admin) {
    const ask = el("button", { type: "button", class: "quiet" }, "Who gets it, and why");
    ask.addEventListener("click", async () => {
      try {
        why.replaceChildren(recipients((await get("explain", { topic: event.topic, origin: event.origin })).recipients).element);
      } catch (problem) {
        why.replaceChildren(el("p", { class: "error" }, problem.message));
      }
    });
    actions.append(ask);
  }
  parts.push(actions, why);
  return parts;
}

function payloadWays(event, data) {
  const text = asText(data), ways = [];
  if (event.decoded) ways.push([event.decoded.protocol, () => el("div", { class: "payload", tabindex: "0" }, partsTree(event.decoded.parts))]);
  const document_ = text === null ? undefined : parsed(text);
  if (document_ !== undefined) ways.push(["JSON", () => el("div", { class: "payload", tabindex: "0" }, jsonTree(document_))]);
  if (text !== null) ways.push(["Text", () => el("pre", { class: "payload", tabindex: "0" }, visible(text) || "(empty)")]);
  ways.push(["Hex", () => el("pre", { class: "payload hex", tabindex: "0" }, hexDump(data) || "(empty)")]);
  return ways;
}

function parsed(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function jsonTree(value, depth = 0) {
  const entries = Object.entries(value).slice(0, 500);
  return el("ul", { class: "tree" }, entries.map(([name, inner]) => {
    const label = el("span", { class: "k" }, visible(name));
    if (typeof inner === "object" && inner !== null && depth < 50) {
      const size = Array.isArray(inner) ? `[${inner.length}]` : `{${Object.keys(inner).length}}`;
      return el("li", {}, el("details", { open: depth < 2 }, el("summary", {}, label, ` ${size}`), jsonTree(inner, depth + 1)));
    }
    return el("li", {}, label, ": ", el("span", { class: typeof inner === "string" ? "s" : "n" }, visible(JSON.stringify(inner) ?? "…")));
  }));
}

function partsTree(parts) {
  return el("ul", { class: "tree" }, parts.map((part) => {
    const label = [el("span", { class: "k" }, part.name), part.value ? `: ${visible(part.value)}` : "", part.size ? el("span", { class: "soft small" }, `  ${part.size} B at ${part.at}`) : null];
    return el("li", {}, part.parts.length ? el("details", { open: true }, el("summary", {}, label), partsTree(part.parts)) : label);
  }));
}

