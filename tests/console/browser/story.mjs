// A person at the console, in the browser of this machine. What is to be done to the mesh meanwhile is asked of the
// test: a line that begins with @ on standard output, and a line on standard input when it is done.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import assert from "node:assert/strict";

// `every`: pictures of every page are wanted, dark ones too.
const { base, admin, few, browser: executablePath, shots, every } = JSON.parse(process.argv[2]);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT = { timeout: 60_000 };
const VIEWS = {
  light: { viewport: { width: 1280, height: 860 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 860 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, colorScheme: "light" },
};
const PAGES = {
  mesh: "#/mesh", node: "#/node?id=b", topics: "#/topics", topic: "#/topic?name=orders.made", events: "#/events?pattern=orders.>",
  publish: "#/publish?topic=orders.made", groups: "#/groups", group: "#/group?name=slow", gateways: "#/gateways", pipelines: "#/pipelines", security: "#/security",
};

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function ask(what) {
  process.stdout.write(`@${what}\n`);
  await lines.next();
}
const step = (what) => process.stdout.write(`${what}\n`);

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const problems = [];

async function opened(view, key) {
  const context = await browser.newContext(VIEWS[view]);
  context.setDefaultTimeout(WAIT.timeout);
  const page = await context.newPage();
  page.on("pageerror", (error) => problems.push(`${view}: ${error.message}`));
  page.on("dialog", (dialog) => { problems.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("console", (message) => { if (/Content Security Policy/i.test(message.text())) problems.push(message.text()); });
  page.on("request", (request) => { if (!request.url().startsWith(base)) problems.push(`it loads ${request.url()}`); });
  await page.goto(base);
  await signIn(page, key);
  return page;
}

async function signIn(page, key) {
  await page.fill("input[name=key]", key);
  await page.click("button[type=submit]");
}

// axe is put in by the debugger, past the policy that keeps everything else out.
async function judged(page, name, closely = true) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (wide > 0) problems.push(`${name}: ${wide} pixels too wide`);
  if (!closely) return;
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  for (const each of violations) {
    if (["serious", "critical"].includes(each.impact)) problems.push(`${name}: ${each.id}: ${each.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
  }
}

const navigation = (page) => page.locator("#nav a").allTextContents();

try {
  step("a wrong key");
  const page = await opened("light", "weft_k1_" + "0".repeat(64));
  await page.getByText("is not valid").waitFor();
  await judged(page, "sign in");
  await page.screenshot({ path: `${shots}/sign-in.png` });

  step("a key with few rights");
  await signIn(page, few);
  await page.getByText("Your key", { exact: true }).waitFor();
  assert.deepEqual(await navigation(page), ["Mesh", "Topics", "Events", "Publish"]);
  assert.equal(await page.locator(".picture").count(), 0);
  await page.goto(`${base}/#/topics`);
  await page.getByRole("link", { name: "orders.made" }).waitFor();
  assert.equal(await page.getByText("salaries").count(), 0);
  await page.goto(`${base}/#/security`);
  await page.getByText("Your key", { exact: true }).waitFor();
  await page.goto(`${base}/#/events?pattern=>`);
  await page.getByText("not allowed to subscribe").waitFor();
  await page.click("#sign-out");
  await page.locator("input[name=key]").waitFor();

  step("the mesh");
  await signIn(page, admin);
  await page.goto(`${base}/#/mesh`);
  await page.locator(".picture .node.good").nth(2).waitFor();
  assert.equal(await page.locator(".picture .edge").count() >= 2, true);

  step("publish, and see it arrive");
  const other = await page.context().newPage();
  await other.goto(`${base}/#/events?pattern=orders.>`);
  await other.getByRole("button", { name: "Live tail" }).click();
  await other.getByText("Waiting for the next event").waitFor();
  await page.goto(`${base}/#/publish?topic=orders.made`);
  await page.getByLabel("Payload", { exact: true }).fill('{"greeting": "hello <b>mesh</b>"}');
  await page.getByLabel("Key").fill("c7");
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("synced").waitFor();
  await other.getByText("hello <b>mesh</b>").first().click();
  await other.locator(".detail .tree").waitFor();
  assert.match(await other.locator(".detail").innerText(), /c7/);
  await other.close();

  step("text of others");
  await page.goto(`${base}/#/events?pattern=nasty.>`);
  await page.locator(".eventlist button").first().click();
  await page.locator(".detail .payload").waitFor();
  assert.match(await page.locator(".detail").innerText(), /<img src=x onerror=/);
  assert.equal(await page.locator("main img, main script, main b").count(), 0);
  await page.goto(`${base}/#/topics`);
  await page.getByText("nasty.<img").first().waitFor();

  step("a group's lag");
  await page.goto(`${base}/#/groups`);
  await page.getByRole("link", { name: "slow" }).click();
  await page.getByText("40 behind").waitFor();
  await page.locator(".chart canvas").waitFor();

  step("a node dies and comes back");
  await page.goto(`${base}/#/mesh`);
  await ask("kill c");
  await page.locator(".picture .node.bad").waitFor();
  await page.screenshot({ path: `${shots}/light-mesh-down.png` });
  await ask("start c");
  await page.locator(".picture .node.good").nth(2).waitFor();
  await page.context().close();

  for (const view of Object.keys(VIEWS)) {
    step(`every page: ${view}`);
    const looking = await opened(view, admin);
    await looking.locator(".picture .node.good").nth(2).waitFor();
    const telling = (name) => view === "light" || ["mesh", "events"].includes(name);
    for (const [name, place] of Object.entries(PAGES).filter(([name]) => every || view === "phone" || telling(name))) {
      await looking.goto(`${base}/${place}`);
      await looking.locator("h1").waitFor();
      if (name === "events") {
        await looking.locator(".eventlist button").first().click();
        await looking.locator(".detail h2").waitFor();
      }
      if (name === "group") await looking.locator(".chart canvas").waitFor();
      if (name === "topic") await looking.getByText("Who gets its events").waitFor();
      await looking.screenshot({ path: `${shots}/${view}-${name}.png` });
      await judged(looking, `${view} ${name}`, telling(name));
    }
    await looking.context().close();
  }
  assert.deepEqual(problems, []);
} finally {
  await browser.close();
}
step("done");
process.exit(0);
