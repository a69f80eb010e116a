// The frame: signing in, the pages, and the live figures that all of them share.
import { el, setText, to } from "./dom.js";
import { get, post, Refused, stream } from "./api.js";
import { Live } from "./live.js";
import { meshPage, nodePage } from "./mesh.js";
import { topicPage, topicsPage } from "./topics.js";
import { eventsPage } from "./events.js";
import { groupPage, groupsPage } from "./groups.js";
import { gatewaysPage, pipelinesPage, publishPage, securityPage } from "./others.js";

// Those with `admin` are there only for keys that may administer.
const PAGES = {
  mesh: { title: "Mesh", show: meshPage, nav: true },
  node: { title: "Node", show: nodePage, within: "mesh", admin: true },
  topics: { title: "Topics", show: topicsPage, nav: true },
  topic: { title: "Topic", show: topicPage, within: "topics" },
  events: { title: "Events", show: eventsPage, nav: true },
  publish: { title: "Publish", show: publishPage, nav: true },
  groups: { title: "Groups", show: groupsPage, nav: true, admin: true },
  group: { title: "Group", show: groupPage, within: "groups", admin: true },
  gateways: { title: "Gateways", show: gatewaysPage, nav: true, admin: true },
  pipelines: { title: "Pipelines", show: pipelinesPage, nav: true, admin: true },
  security: { title: "Security", show: securityPage, nav: true, admin: true },
};

const $ = (id) => document.getElementById(id);
const app = { me: null, live: new Live(), page: {}, close: null };

// --- light and dark ---

const dark = matchMedia("(prefers-color-scheme: dark)");
function theme() {
  const chosen = localStorage.getItem("weft-theme") || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
  setText($("theme"), chosen === "dark" ? "Light" : "Dark");
}
$("theme").addEventListener("click", () => {
  localStorage.setItem("weft-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  theme();
  show();
});
dark.addEventListener("change", theme);
theme();

// --- pages ---

function route() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?");
  const page = PAGES[name];
  return [page && (!page.admin || app.me.admin) ? name : "mesh", new URLSearchParams(query || "")];
}

function show() {
  if (!app.me) return;
  app.page.leave?.();
  const [name, parameters] = route();
  const root = $("page");
  root.replaceChildren();
  app.page = PAGES[name].show(root, parameters, app) || {};
  document.title = `${root.querySelector("h1")?.textContent || PAGES[name].title} · Weft`;
  for (const link of $("nav").querySelectorAll("a")) {
    if (link.dataset.page === (PAGES[name].within || name)) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  }
  if (app.live.snapshot) app.page.update?.(app.live.snapshot);
  scrollTo(0, 0);
}
addEventListener("hashchange", () => {
  show();
  $("page").focus({ preventScroll: true });
});
addEventListener("keydown", (pressed) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
  if (pressed.key === "/" && !typing && $("filter")) {
    pressed.preventDefault();
    $("filter").focus();
  }
});
app.live.listeners.add((snapshot) => app.page.update?.(snapshot));

// --- the feed, while somebody can see it ---

function connect() {
  app.close?.();
  app.close = stream("live", {}, { snapshot: (snapshot) => app.live.take(snapshot) }, (isOn, why) => {
    $("live").className = isOn ? "live on" : "live off";
    setText($("live"), isOn ? "live" : "not connected");
    if (!isOn) get("me").catch((problem) => { if (problem instanceof Refused && problem.status === 401) signedOut(why); });
  });
}
document.addEventListener("visibilitychange", () => {
  if (!app.me) return;
  if (document.hidden) app.close?.();
  else connect();
});

// --- signing in and out ---

function signedOut(why = "") {
  app.close?.();
  app.page.leave?.();
  app.page = {};
  app.me = null;
  app.live.snapshot = null;
  app.live.rates.clear();
  $("bar").hidden = true;
  document.title = "Sign in · Weft";
  const key = el("input", { type: "password", name: "key", autocomplete: "current-password", required: true, placeholder: "weft_k3f09a81c22d4e07b_…", spellcheck: "false" });
  const error = el("p", { class: "error", role: "alert" }, why);
  const button = el("button", { type: "submit" }, "Sign in");
  const form = el("form", {}, el("img", { src: "/console/icon.svg", alt: "" }), el("div", {}, el("h1", {}, "Weft console"), el("p", { class: "soft" }, "Sign in with an API key of this mesh. You see what the key may see.")),
    el("label", {}, "API key", key), error, button, el("p", { class: "hint" }, "“weft console” says where yours is. “weft keys create” makes another."));
  form.addEventListener("submit", async (submitted) => {
    submitted.preventDefault();
    button.disabled = true;
    setText(error, "");
    try {
      await post("sign-in", { key: key.value.trim() });
      await signedIn();
    } catch (problem) {
      setText(error, problem.message);
      key.select();
    } finally {
      button.disabled = false;
    }
  });
  $("page").replaceChildren(el("div", { class: "gate" }, form));
  key.focus();
}

async function signedIn() {
  app.me = await get("me");
  $("bar").hidden = false;
  $("sign-out").hidden = app.me.insecure;
  setText($("who"), app.me.insecure ? `${app.me.node}, insecure` : `${app.me.who} at ${app.me.node}`);
  $("nav").replaceChildren(...Object.entries(PAGES).filter(([, page]) => page.nav && (!page.admin || app.me.admin)).map(([name, page]) =>
    el("li", {}, el("a", { href: to(name), "data-page": name }, page.title))));
  show();
  connect();
}

$("sign-out").addEventListener("click", async () => {
  await post("sign-out", {}).catch(() => null);
  signedOut();
});

signedIn().catch((problem) => signedOut(problem instanceof Refused && problem.status === 401 ? "" : problem.message));
