// Chromium opens every view of the page and does every action, as an operator would.
//
// Run by page_in_chromium.py with PAGE_URL (of a management server with the objects that it made),
// and CHROMIUM (the program).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { after, afterEach, before, describe, it } from "node:test";
import { promisify } from "node:util";
import puppeteer from "puppeteer-core";

const run = promisify(execFile);

const URL_OF_PAGE = process.env.PAGE_URL;
const HOSTILE = ["<img src=x onerror=alert(1)>", "quote\"'`s & emoji 🐰", "a/b/c %2F ?#", "{{7*7}}", "x".repeat(255)];
const VIEWS = ["overview", "queues", "exchanges", "connections", "channels", "streams", "users", "vhosts", "policies", "definitions", "shovels", "exports", "transfers", "health", "audit", "log"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [1024, 1280, 1440, 1920];
const SECONDS_MAX = 15;

let browser;
let page;
let problems = [];
// An answer that is meant to be an error is one in the browser's console as well.
let expectedErrors = [];

before(async () => {
  browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"], headless: true });
  page = await browser.newPage();
  page.setDefaultTimeout(SECONDS_MAX * 1000);
  await page.setViewport({ width: 1440, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) problems.push(`${message.type()}: ${message.text()} ${message.location().url ?? ""}`);
  });
  page.on("pageerror", (error) => problems.push(String(error.stack)));
  page.on("dialog", (dialog) => {
    problems.push(`a script of a name ran: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(URL_OF_PAGE) && !url.startsWith("blob:")) problems.push(`asked another host: ${url}`);
  });
});

after(() => browser?.close());

afterEach(() => {
  const unexpected = problems.filter((text) => !expectedErrors.some((part) => text.includes(part)));
  problems = [];
  expectedErrors = [];
  assert.deepEqual(unexpected, []);
});

const encoded = (...names) => names.map(encodeURIComponent).join("/");

async function open(path) {
  await page.evaluate((hash) => {
    const viewOf = (address) => (address || "#/overview").split("?")[0].split("/").slice(1, 4).join("/");
    // The heading of another view goes; that of another tab of the same view stays.
    if (viewOf(location.hash) !== viewOf(hash)) document.querySelector("main h1")?.setAttribute("data-old", "");
    location.hash = hash;
  }, `#/${path}`);
  await page.waitForSelector("main h1:not([data-old])");
  await settled();
}

/** Nothing says any more that it is loading. */
async function settled() {
  await page.waitForFunction(() => !document.querySelector(".skeleton, main .spinner, .dialog-foot .spinner"));
}

/** The button or link with this text or label, inside of a part of the page. */
async function control(text, inside = "body") {
  const handle = await page.waitForFunction((wanted, selector) => {
    const parts = [...document.querySelectorAll(selector)];
    const all = parts.flatMap((part) => [...part.querySelectorAll("button, a, summary")]);
    const named = (node) => node.getAttribute("aria-label") ?? node.textContent.trim();
    return all.find((node) => !node.disabled && named(node) === wanted) ?? all.find((node) => !node.disabled && named(node).startsWith(wanted));
  }, {}, text, inside);
  return handle.asElement();
}

async function click(text, inside) {
  const found = await control(text, inside);
  await found.evaluate((node) => node.click());
}

/** Fill the field with this label. */
async function fill(label, value, inside = "dialog") {
  const handle = await page.waitForFunction((wanted, selector, text) => {
    const labels = [...document.querySelectorAll(`${selector} label`)];
    const found = labels.find((node) => node.textContent.trim() === wanted) ?? labels.find((node) => node.textContent.trim().startsWith(wanted));
    const field = found && (found.htmlFor ? document.getElementById(found.htmlFor) : found.querySelector("input"));
    // The options of a list come with the first answer.
    return field?.tagName === "SELECT" && ![...field.options].some((option) => option.value === text) ? null : field;
  }, {}, label, inside, value);
  await handle.evaluate((node, text) => {
    const prototype = { INPUT: HTMLInputElement, SELECT: HTMLSelectElement, TEXTAREA: HTMLTextAreaElement }[node.tagName].prototype;
    if (node.type === "checkbox") {
      if (node.checked !== text) node.click();
      return;
    }
    Object.getOwnPropertyDescriptor(prototype, "value").set.call(node, text);
    node.dispatchEvent(new Event("input", { bubbles: true }));
    node.dispatchEvent(new Event("change", { bubbles: true }));
  }, value);
}

/** The browser has drawn what it knows, and measured it. */
function drawn() {
  return page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** What of the tables in view cannot be read: a name without room, a text that is cut and has no title, a column beyond the end. */
function unreadable() {
  return page.evaluate(() => {
    const found = [];
    for (const wrap of document.querySelectorAll("main .table-wrap")) {
      if (wrap.querySelector("table.fixed") && wrap.scrollWidth > wrap.clientWidth) found.push(`${wrap.ariaLabel}: ${wrap.scrollWidth - wrap.clientWidth} pixels are cut`);
      for (const cell of wrap.querySelectorAll("tbody tr:not(.spacer) td")) {
        if (cell.offsetWidth === 0 || cell.textContent.trim() === "") continue;
        const text = cell.textContent.trim().slice(0, 30);
        const room = cell.clientWidth - 24;
        const isCut = cell.scrollWidth > cell.clientWidth;
        if (isCut && room < (cell.matches(".main") ? 150 : 36)) found.push(`${wrap.ariaLabel}: “${text}” has ${room} pixels`);
        if (isCut && !cell.title && !cell.querySelector("[title]")) found.push(`${wrap.ariaLabel}: “${text}” is cut without a title`);
      }
    }
    return [...new Set(found)];
  });
}

/** Nothing in the head of the page lies over something else, or beyond its end. */
async function hasRoomInItsHead() {
  const found = await page.evaluate(() => {
    const controls = [...document.querySelectorAll(".top a, .top button, .top select")].filter((node) => node.offsetWidth > 0);
    const boxes = controls.map((node) => ({ name: node.getAttribute("aria-label") ?? node.textContent.trim().slice(0, 20), box: node.getBoundingClientRect() })).sort((one, other) => one.box.left - other.box.left);
    const over = boxes.slice(1).filter(({ box }, at) => box.left < boxes[at].box.right - 0.5).map(({ name }, at) => `${boxes[at].name} lies over ${name}`);
    return [...over, ...boxes.filter(({ box }) => box.right > innerWidth + 0.5).map(({ name }) => `${name} is beyond the end`)];
  });
  assert.deepEqual(found, []);
}

/** Add a key to the form of a policy. */
async function addSetting(name) {
  await page.select("[data-adds]", name);
  await click("Add", ".setting-add");
  await page.waitForSelector(`[data-setting="${name}"]`);
}

/** Give a key of the form of a policy a value, as somebody who types does. */
async function fillSetting(name, text) {
  const node = await page.waitForSelector(`[data-setting="${name}"]`);
  if (await node.evaluate((input) => input.tagName === "SELECT")) {
    await node.select(text);
    return;
  }
  await node.evaluate((input) => { input.value = ""; input.focus(); });
  await node.type(text);
}

async function sees(text, selector = "body") {
  await page.waitForFunction((wanted, where) => [...document.querySelectorAll(where)].some((node) => node.textContent.includes(wanted)), {}, text, selector);
}

async function submit() {
  const button = await page.waitForSelector("dialog button[type=submit]:not([disabled])");
  await button.evaluate((node) => node.click());
}

async function dialogIsGone() {
  await page.waitForFunction(() => !document.querySelector("dialog"), {}).catch(async () => {
    const text = await page.$eval("dialog", (node) => node.textContent);
    assert.fail(`the dialog stays open: ${text}`);
  });
}

async function hasNoViolation(where) {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")}`);
  });
  assert.deepEqual(found, [], where);
}

/** Let the broker keep an alarm on, by its own command line. */
async function publishersBlocked(isOn) {
  await run(process.env.PYTHON, ["-m", "tests.management.page.hold_alarm", process.env.STORAGE_PATH, isOn ? "on" : "off"]);
}

/** Ask the API from the page's own session. */
function api(path, method = "GET", body = undefined) {
  return page.evaluate(async (...given) => {
    const [wanted, way, sent] = given;
    const { ask } = await import("/app/server.js");
    return ask(wanted, { method: way, body: sent });
  }, path, method, body);
}

describe("login", () => {
  it("refuses a wrong password in words", async () => {
    expectedErrors = ["401"];
    await page.goto(URL_OF_PAGE);
    await page.waitForSelector("#username");
    await hasNoViolation("login");
    await page.type("#username", "guest");
    await page.type("#password", "wrong");
    await page.keyboard.press("Enter");
    await sees("Login failed", "[role=alert]");
  });

  it("opens the overview", async () => {
    await page.$eval("#password", (node) => { node.value = ""; });
    await page.type("#password", "guest");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".shell");
    await sees("Needs attention");
  });

  it("lasts when the page is loaded again", async () => {
    await page.reload();
    await page.waitForSelector(".shell");
    assert.equal(await page.evaluate(() => document.cookie), "");
  });
});

describe("every view", () => {
  for (const view of VIEWS) {
    it(view, async () => {
      await open(view);
      await settled();
      assert.equal(await page.$(".notice.bad"), null, await page.$eval("main", (node) => node.textContent));
      assert.match(await page.title(), / · amqp-server$/);
      await hasNoViolation(view);
      assert.equal(await page.$$eval("main h1", (nodes) => nodes.length), 1);
    });
  }

  it("on a phone, without a sideways scroll", async () => {
    await page.setViewport({ width: 360, height: 740 });
    for (const view of [...VIEWS, "queues/%2F/orders", "queues/%2F/orders/messages", "exchanges/%2F/later", `queues/${encoded("/", HOSTILE[4])}`]) {
      await open(view);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${view} is ${wide} pixels too wide`);
    }
    await page.setViewport({ width: 390, height: 740 });
    for (const view of ["exchanges", "vhosts", "audit"]) {
      await open(view);
      const cut = await page.evaluate(() => { const wrap = document.querySelector("main .table-wrap"); return wrap.scrollWidth - wrap.clientWidth; });
      assert.ok(cut <= 0, `${view}: ${cut} pixels are cut on a phone`);
    }
    await hasRoomInItsHead();
    await click("Navigation", "header");
    await hasNoViolation("navigation on a phone");
    await click("Queues", "nav");
    await sees("Queues", "h1");
    await page.setViewport({ width: 1440, height: 900 });
  });

  it("that does not exist", async () => {
    await open("nowhere");
    await sees("There is no such view");
    await hasNoViolation("nowhere");
  });

  it("of a queue that does not exist", async () => {
    expectedErrors = ["404"];
    await open("queues/%2F/nothing");
    await sees("The queue does not exist");
  });
});

describe("every view at every width", () => {
  const long = { policy: "limit-".repeat(20), shovel: "far-".repeat(30), vhost: "team-".repeat(20) };
  const paths = [`policies/${encoded("/", long.policy)}`, `parameters/shovel/${encoded("/", long.shovel)}`, `vhosts/${encoded(long.vhost)}`];

  before(async () => {
    await api(paths[0], "PUT", { pattern: `^(${"a|".repeat(60)}b)$`, definition: { "max-length": 1000, "dead-letter-exchange": "x".repeat(90) } });
    await api(paths[1], "PUT", { value: { "src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": HOSTILE[4], "dest-queue": "shovel.to" } });
    await api(paths[2], "PUT", { description: "d".repeat(80), tags: "production" });
  });

  after(async () => {
    for (const path of paths) await api(path, "DELETE");
  });

  for (const scheme of ["light", "dark"]) {
    it(`at every width, ${scheme}: names can be read, and axe finds nothing`, async () => {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      const parts = ["", "/messages", "/consumers", "/bindings", "/storage"].map((part) => `queues/%2F/orders${part}`);
      const found = [];
      for (const width of WIDTHS) {
        await page.setViewport({ width, height: 900 });
        for (const view of [...VIEWS, ...parts, "exchanges/%2F/later", "users/guest"]) {
          await open(view);
          await drawn();
          found.push(...(await unreadable()).map((words) => `${view} at ${width}: ${words}`));
          await hasNoViolation(`${view} at ${width}, ${scheme}`);
          if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${view.replaceAll("/", "_")}-${width}-${scheme}.png` });
        }
        await open("policies");
        await click("New policy");
        for (const name of ["max-length", "overflow", "dead-letter-exchange", "max-age", "protect-unconsumed"]) await addSetting(name);
        await hasNoViolation(`the form of a policy at ${width}, ${scheme}`);
        await click("As JSON", "dialog");
        await hasNoViolation(`a policy as JSON at ${width}, ${scheme}`);
        await page.keyboard.press("Escape");
        await dialogIsGone();
      }
      await page.setViewport({ width: 1440, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
      assert.deepEqual(found, []);
    });
  }

  it("keeps the names of a list where columns come and go", async () => {
    const found = [];
    for (const width of [1301, 1366, 1400]) {
      await page.setViewport({ width, height: 900 });
      for (const view of VIEWS) {
        await open(view);
        await drawn();
        found.push(...(await unreadable()).map((words) => `${view} at ${width}: ${words}`));
      }
    }
    assert.deepEqual(found, []);
    await page.setViewport({ width: 1440, height: 900 });
  });
});

describe("hostile names", () => {
  it("are text in every list and on their own pages", async () => {
    for (const view of ["overview", "queues", "exchanges", "connections", "vhosts", "users", "policies"]) {
      await open(view);
      assert.equal(await page.$("main img"), null, view);
    }
    await open("queues");
    for (const name of HOSTILE) {
      await open(`queues/${encoded("/", name)}`);
      await sees(name, "h1");
      for (const tab of ["messages", "consumers", "bindings", "storage"]) {
        await open(`queues/${encoded("/", name, tab)}`);
        await sees(name, "h1");
      }
      await open(`exchanges/${encoded("/", name)}`);
      await sees(name, "h1");
      await open(`users/${encoded(name.slice(0, 40))}`);
      await sees(name.slice(0, 40), "h1");
    }
    assert.equal(await page.$("main img"), null);
  });

  it("are found by the filter and by Ctrl+K", async () => {
    await open("queues");
    await page.keyboard.press("/");
    await page.keyboard.type("<img");
    await sees("1 of");
    await page.keyboard.press("Escape");
    await page.keyboard.down("Control");
    await page.keyboard.press("k");
    await page.keyboard.up("Control");
    await page.waitForSelector(".palette");
    await page.keyboard.type("emoji");
    await sees("emoji", ".palette-item");
    await hasNoViolation("palette");
    await page.keyboard.press("Enter");
    await sees(HOSTILE[1], "h1");
  });
});

describe("keyboard", () => {
  it("skips to the content, goes to views, and lists its shortcuts", async () => {
    await page.reload();
    await page.waitForSelector(".skip-link");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip-link");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "content");
    await page.keyboard.press("g");
    await page.keyboard.press("c");
    await sees("Connections", "h1");
    await page.keyboard.press("?");
    await sees("Keyboard shortcuts", "dialog");
    await hasNoViolation("shortcuts");
    await page.keyboard.press("Escape");
    await dialogIsGone();
  });
});

describe("queues", () => {
  const name = "made <b>here</b>";

  it("are created", async () => {
    await open("queues");
    await click("New queue");
    await fill("Name", name);
    await fill("Arguments", "{broken");
    await sees("not JSON", "dialog");
    await fill("Arguments", '{"x-max-length": 100}');
    await click("rabbitmqadmin", "dialog");
    await sees("rabbitmqadmin --vhost=/ declare queue 'name=made <b>here</b>'", "dialog pre");
    await click("curl", "dialog");
    await sees("curl -sS -u guest -X PUT", "dialog pre");
    await hasNoViolation("new queue");
    await submit();
    await sees(name, "h1");
  });

  it("take a message and give it", async () => {
    await click("Publish", "main");
    await fill("Body", "<script>alert(1)</script>");
    await fill("Headers", '{"<b>": "\\"><img src=x onerror=alert(1)>"}');
    await submit();
    await sees("Published and confirmed", "dialog");
    await click("Close", "dialog .dialog-foot");
    await dialogIsGone();
    await click("Get", "main");
    await submit();
    await sees("<script>alert(1)</script>", "dialog .body-view");
    await hasNoViolation("get");
    await click("Close", "dialog .dialog-foot");
    await dialogIsGone();
  });

  it("are bound and unbound", async () => {
    await open(`queues/${encoded("/", name, "bindings")}`);
    await click("Bind to an exchange");
    await fill("Exchange", "amq.topic");
    await fill("Routing key", "a/b #");
    await submit();
    await dialogIsGone();
    await sees("a/b #", "td");
    await click("Remove", "td");
    await submit();
    await dialogIsGone();
    await page.waitForFunction(() => !document.body.textContent.includes("a/b #"));
  });

  it("are paused and resumed", async () => {
    await open(`queues/${encoded("/", name)}`);
    await click("More actions");
    await click("Pause", ".menu-list");
    await sees("An operator has paused this queue", ".why");
    await click("More actions");
    await click("Resume", ".menu-list");
    await page.waitForFunction(() => !document.querySelector(".why").textContent.includes("paused"));
  });

  it("are purged, and the dialog says how many", async () => {
    await click("Purge", ".page-head");
    await sees("1 ready message", "dialog");
    await hasNoViolation("purge");
    await submit();
    await dialogIsGone();
    await sees("Empty and idle", ".why");
  });

  it("are deleted when their name is typed", async () => {
    await click("Delete", ".page-head");
    assert.ok(await page.$("dialog.destructive button[type=submit][disabled]"));
    await hasNoViolation("delete");
    await fill("Type the name", name);
    await submit();
    await sees("Queues", "h1");
    await page.waitForFunction((gone) => ![...document.querySelectorAll("td")].some((node) => node.textContent === gone), {}, name);
  });

  it("show their messages without taking any", async () => {
    await open("queues/%2F/orders/messages?from=first");
    await sees("order 0", "td");
    await fill("Search in keys", '"order 7"', "form");
    await click("Show messages");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
    await click("7", "tbody");
    await sees("order 7", ".sheet .body-view");
    assert.match(await page.evaluate(() => location.hash), /[?&]message=7(&|$)/);
    await hasNoViolation("message");
    await click("Publish a copy", ".sheet");
    await submit();
    await sees("Published and confirmed", "dialog");
    await click("Close", "dialog .dialog-foot");
    await click("Replay", ".sheet");
    await fill("Only count", true);
    await submit();
    await sees("Would replay", "dialog");
    await hasNoViolation("replay");
    await click("Cancel", "dialog").catch(() => click("Close", "dialog .dialog-foot"));
  });

  it("show new messages as they come", async () => {
    await open("queues/%2F/orders/messages?tail=1");
    await sees("Waiting for new messages");
    await api("exchanges/%2F/amq.default/publish", "POST", { properties: { delivery_mode: 2 }, routing_key: "orders", payload: "comes <i>live</i>", payload_encoding: "string" });
    await sees("comes <i>live</i>", "td");
  });

  it("say who holds what", async () => {
    await open("queues/%2F/orders/consumers");
    await sees("holder <b>", "td");
    await sees("Longest held", "th");
    await hasNoViolation("consumers");
  });

  it("give dead letters back", async () => {
    await open("queues/%2F/orders.dead");
    await click("More actions");
    await click("Return dead letters", ".menu-list");
    await submit();
    await sees("Would return", "dialog");
    await hasNoViolation("dead letters");
    await fill("Only count", false);
    await submit();
    await sees("Returned", "dialog [role=status]");
    await click("Close", "dialog .dialog-foot");
  });

  it("move their messages", async () => {
    await open("queues/%2F/move.from");
    await click("More actions");
    await click("Move messages", ".menu-list");
    await sees("60 ready messages", "dialog");
    await fill("To", "move.nowhere");
    await sees("No queue has this name", "dialog");
    assert.ok(await page.$("dialog button[type=submit][disabled]"));
    await fill("To", "move.to");
    await fill("At most", "10");
    await sees("amqp-server queues move --vhost / move.from --to move.to --limit 10", "dialog pre");
    await fill("Only count", true);
    await submit();
    await sees("Would move 10 messages", "dialog");
    await hasNoViolation("move");
    await fill("At most", "");
    await fill("Only count", false);
    await submit();
    await sees("Moved 60 messages", "dialog [role=status]");
    await hasNoViolation("moved");
    await click("Close", "dialog .dialog-foot");
    await dialogIsGone();
    assert.equal((await api("queues/%2F/move.to")).messages_ready, 60);
    assert.equal((await api("queues/%2F/move.from")).messages, 0);
  });

  it("show what is moved, and stop it", async () => {
    // An alarm keeps it from its first part, so that there is something to stop.
    expectedErrors = ["503"];
    await publishersBlocked(true);
    await api("queues/%2F/move.to/move", "POST", { to: "move.from", background: true });
    await open("queues/%2F/move.to");
    await sees("waits for the end of an alarm", "[aria-label='Transfers under way']");
    await hasNoViolation("a transfer under way");
    await open("transfers");
    await sees("move.to", "td");
    await hasNoViolation("transfers");
    await click("Stop", "td");
    await sees("Move stopped", ".toast");
    await sees("stopped", "td .badge");
    await publishersBlocked(false);
    assert.equal((await api("queues/%2F/move.to")).messages_ready, 60);
  });

  it("are moved many at once", async () => {
    await open(`queues?filter=${encodeURIComponent("move.")}`);
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2);
    await page.$eval("tbody input[type=checkbox]", (node) => node.click());
    await page.$$eval("tbody tr", (rows) => [...rows].find((row) => row.textContent.includes("move.to")).querySelector("input:not(:checked)")?.click());
    await click("Move messages", ".selection-bar");
    await fill("To", "bulk.2");
    await submit();
    await sees("Moved 60 messages", "dialog [role=status]");
    await click("Close", "dialog .dialog-foot");
    await dialogIsGone();
    assert.equal((await api("queues/%2F/bulk.2")).messages_ready, 60);
  });

  it("are purged and deleted many at once", async () => {
    await open(`queues?filter=${encodeURIComponent("bulk.")}`);
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 3);
    await page.$eval("th input[type=checkbox]", (node) => node.click());
    await sees("3 queues", ".selection-bar");
    await hasNoViolation("selection");
    await click("Purge", ".selection-bar");
    await submit();
    await dialogIsGone();
    await sees("3 queues purged", ".toast");
    await page.$eval("th input[type=checkbox]", (node) => node.click());
    await click("Delete", ".selection-bar");
    await fill("Type 3", "3");
    await submit();
    await dialogIsGone();
    await sees("No queue matches");
  });
});

describe("exchanges", () => {
  it("are created, bound, tried and deleted", async () => {
    await open("exchanges");
    await click("New exchange");
    await fill("Name", "<i>shop</i>");
    await submit();
    await sees("<i>shop</i>", "h1");
    await sees("Nothing is bound to this exchange");
    await click("Add binding");
    await fill("Name", "orders");
    await fill("Routing key", "new.#");
    await submit();
    await dialogIsGone();
    await sees("new.#", "td");
    await click("Publish", "main");
    await fill("Routing key", "old");
    await submit();
    await sees("Not routed", "dialog");
    await click("Close", "dialog .dialog-foot");
    await dialogIsGone();
    await hasNoViolation("exchange");
    await click("Delete", ".page-head");
    await fill("Only if nothing", false);
    await submit();
    await sees("Exchanges", "h1");
  });
});

describe("delayed messages", () => {
  it("are shown, the next one first, and cancelled", async () => {
    await open("exchanges/%2F/later");
    await sees("3 messages, the next leaves in", "[aria-label='Delayed messages']");
    assert.deepEqual(await page.$$eval("[aria-label='Delayed messages'] tbody tr", (rows) => rows.map((row) => row.textContent.includes("<b>1"))), [true, false, false]);
    await hasNoViolation("delayed messages");
    await click("Cancel message 1", "td");
    await sees("is never delivered", "dialog");
    await sees("/api/exchanges/%2F/later/delayed/1", "dialog pre");
    await submit();
    await dialogIsGone();
    await sees("2 messages, the next leaves in", "[aria-label='Delayed messages']");
    await click("Cancel all", "main");
    await sees("2 messages", "dialog");
    await hasNoViolation("cancel all");
    await submit();
    await dialogIsGone();
    await sees("Nothing is delayed", "main");
  });
});

describe("consumer groups", () => {
  it("are rewound", async () => {
    await api("queues/%2F/events/groups/%3Cb%3Egroup", "PUT", { to: "0" });
    await open("streams");
    await click("Move group <b>group", "td");
    await fill("To", "nowhere");
    await sees("amqp-server offsets seek --vhost / --queue events --group '<b>group' --to nowhere", "dialog pre");
    expectedErrors = ["400"];
    await submit();
    await sees("to:", "dialog [role=alert]");
    await hasNoViolation("group");
    await fill("To", "latest");
    await submit();
    await dialogIsGone();
    await sees("The group is at offset 0", ".toast");
  });
});

describe("exports", () => {
  it("say what was exported, and how far behind it is", async () => {
    await open("exports");
    await sees("/lake/<b>", "h2");
    await sees("amqp-server export --vhost / --queue orders --to delta --out '/lake/<b>'", "pre");
    await sees("an error <b>", "main");
    await fill("Queue", HOSTILE[0], "main");
    await sees("--queue '<img src=x onerror=alert(1)>'", "pre");
    await hasNoViolation("exports");
  });
});

describe("administration", () => {
  it("makes a user with permissions, and deletes both", async () => {
    await open("users");
    await click("New user");
    await fill("Name", "shop & <b>co</b>");
    await fill("Password", "secret");
    await fill("monitoring", true);
    assert.doesNotMatch(await page.$eval("dialog", (node) => node.textContent), /secret/);
    await hasNoViolation("new user");
    await submit();
    await sees("shop & <b>co</b>", "h1");
    await sees("No access to any virtual host");
    await click("Add", "[aria-label=Permissions]");
    await fill("Configure", "^$");
    await hasNoViolation("permissions");
    await submit();
    await dialogIsGone();
    await sees("^$", "td");
    await click("Change", "[aria-label=Limits]");
    await fill("At most", "5");
    await submit();
    await dialogIsGone();
    await sees("5", "[aria-label=Limits] dd");
    await click("Remove", "td");
    await submit();
    await dialogIsGone();
    await sees("No access to any virtual host");
    await click("Delete", ".page-head");
    await fill("Type the name", "shop & <b>co</b>");
    await submit();
    await sees("Users and permissions", "h1");
  });

  it("shows what a policy matches before it is saved", async () => {
    await open("policies");
    await click("New policy");
    await fill("Name", "<u>limit</u>");
    await fill("Pattern", "(");
    await sees("no regular expression yet", "dialog");
    await fill("Pattern", "^move\\.");
    await sees("Matches 2 queues now", "dialog");
    await addSetting("max-length");
    await fillSetting("max-length", "100000");
    await sees("= 100,000", "dialog");
    await hasNoViolation("policy");
    await submit();
    await dialogIsGone();
    await sees("<u>limit</u>", "td");
    await sees("2 queues", "td");
    await click("Delete", "td");
    await submit();
    await dialogIsGone();
    await sees("No policies");
  });

  it("writes a policy with a field for each key, or as JSON, and both say the same", async () => {
    await open("policies");
    await click("New policy");
    await fill("Name", "form");
    await sees("Nothing yet", "dialog");
    assert.ok(await page.$("dialog button[type=submit][disabled]"), "an empty definition is refused");
    // With the keyboard alone: choose, add, and the field has the focus.
    await page.focus("[data-adds]");
    await page.select("[data-adds]", "message-ttl");
    await sees("A message that has waited so long expires", "dialog");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement.dataset.setting === "message-ttl");
    await page.keyboard.type("-5");
    await sees("At least 0.", "dialog .mistake");
    assert.equal(await page.$eval("[data-setting=message-ttl]", (node) => node.getAttribute("aria-invalid")), "true");
    assert.ok(await page.$("dialog button[type=submit][disabled]"));
    await hasNoViolation("a mistake in a policy");
    await fillSetting("message-ttl", "86400000");
    await sees("= 1 d", "dialog");
    await addSetting("overflow");
    await fillSetting("overflow", "reject-publish");
    await addSetting("dead-letter-exchange");
    await fillSetting("dead-letter-exchange", "dlx");
    await addSetting("protect-unconsumed");
    await fillSetting("protect-unconsumed", "false");
    await sees("It applies to classic queues and quorum queues only", "dialog");
    await addSetting("max-age");
    await sees("such as 7D or 12h", "dialog .mistake");
    await sees("applies to no queue", "dialog");
    await click("Remove max-age", "dialog");
    await page.waitForFunction(() => document.activeElement.matches("[data-adds]"));
    const expected = { "message-ttl": 86400000, overflow: "reject-publish", "dead-letter-exchange": "dlx", "protect-unconsumed": false };
    await click("As JSON", "dialog");
    assert.deepEqual(JSON.parse(await page.$eval("dialog textarea", (node) => node.value)), expected);
    await fill("Definition (JSON)", "{");
    await sees("not JSON", "dialog");
    await click("Form", "dialog");
    await sees("The form is here again", "dialog");
    await click("As JSON", "dialog");
    await fill("Definition (JSON)", JSON.stringify({ ...expected, "of-tomorrow": [1], "max-length": 1.5 }));
    await sees("max-length: Write a whole number.", "dialog");
    await hasNoViolation("a policy as JSON");
    await click("Form", "dialog");
    await sees("of-tomorrow", "dialog .setting");
    await fillSetting("max-length", "12");
    await hasNoViolation("a key that the page does not know");
    // The server does not know it either: its words are in the form, which stays.
    expectedErrors = ["400"];
    await submit();
    await sees("of-tomorrow", "dialog [role=alert]");
    await sees("are not recognised policy settings", "dialog [role=alert]");
    await click("As JSON", "dialog");
    assert.deepEqual(JSON.parse(await page.$eval("dialog textarea", (node) => node.value)), { ...expected, "of-tomorrow": [1], "max-length": 12 });
    await click("Form", "dialog");
    await click("Remove of-tomorrow", "dialog");
    await submit();
    await dialogIsGone();
    assert.deepEqual((await api("policies/%2F/form")).definition, { ...expected, "max-length": 12 });
    await click("Change", "td");
    await fillSetting("max-length", "13");
    await submit();
    await page.waitForFunction(() => [...document.querySelectorAll("td")].some((node) => node.textContent.includes("max-length=13")));
    assert.deepEqual((await api("policies/%2F/form")).definition, { ...expected, "max-length": 13 });
    await api("policies/%2F/form", "DELETE");
  });

  it("offers an operator policy its keys only", async () => {
    await open("policies");
    await click("New policy");
    await fill("Kind", "operator");
    await fill("Name", "bound");
    assert.equal(await page.$("[data-adds] option[value=dead-letter-exchange]"), null);
    await addSetting("expires");
    await fillSetting("expires", "3600000");
    await submit();
    await dialogIsGone();
    await sees("operator", "td .badge");
    assert.deepEqual((await api("operator-policies/%2F/bound")).definition, { expires: 3600000 });
    await api("operator-policies/%2F/bound", "DELETE");
  });

  it("makes a shovel without showing its passwords, and deletes it", async () => {
    await open("shovels");
    await click("New shovel");
    await fill("Name", "<i>far</i>");
    await fill("Source name", "orders");
    await fill("Destination URI", "amqp://user:secret@far.example/%2f");
    await fill("Destination name", "orders");
    await sees("amqp://user@far.example/%2f", "dialog pre");
    assert.doesNotMatch(await page.$eval("dialog pre", (node) => node.textContent), /secret/);
    await hasNoViolation("new shovel");
    await fill("Source name", "shovel.from");
    await fill("Destination URI", "amqp://");
    await fill("Destination name", "shovel.to");
    await submit();
    await dialogIsGone();
    await sees("<i>far</i>", "td");
    await sees("running", "td .badge");
    await hasNoViolation("shovels");
    await click("Restart", "td");
    await submit();
    await dialogIsGone();
    await sees("The shovel is restarted", ".toast");
    await sees("running", "td .badge");
    await click("Delete", "td");
    await submit();
    await dialogIsGone();
    await sees("No shovels", "main");
    assert.deepEqual((await api("shovels")).length, 0);
  });

  it("makes a virtual host and deletes it", async () => {
    await open("vhosts");
    await click("New virtual host");
    await fill("Name", "team/<b>");
    await submit();
    await dialogIsGone();
    await sees("team/<b>", "td");
    await page.waitForFunction(() => [...document.querySelectorAll("tbody tr")].some((row) => row.textContent.includes("team/<b>")));
    await page.evaluate(() => [...[...document.querySelectorAll("tbody tr")].find((row) => row.textContent.includes("team/<b>")).querySelectorAll("button")].find((button) => button.textContent === "Delete").click());
    await fill("Type the name", "team/<b>");
    await submit();
    await dialogIsGone();
    await page.waitForFunction(() => ![...document.querySelectorAll("td")].some((node) => node.textContent === "team/<b>"));
  });

  it("checks definitions before it imports them", async () => {
    await open("definitions");
    const input = await page.$("input[type=file]");
    const file = process.env.DEFINITIONS_FILE;
    await input.uploadFile(file);
    await sees("1 queues", "[aria-label=Import]");
    await click("Check", "[aria-label=Import]");
    await sees("This would happen", "[aria-label=Import]");
    await hasNoViolation("definitions");
    await click("Import", "[aria-label=Import]");
    await sees("This was done", "[aria-label=Import]");
    assert.equal((await api("queues/%2F/imported")).name, "imported");
  });

  it("closes a connection", async () => {
    await open("connections?filter=victim");
    await click("victim", "td");
    await sees("What the client says of itself");
    await hasNoViolation("connection");
    await click("Close", ".page-head");
    await submit();
    await sees("Connections", "h1");
    await page.waitForFunction(() => document.querySelector("main").textContent.includes("Nobody is connected") || ![...document.querySelectorAll("td a")].some((node) => node.textContent === "victim"));
  });

  it("opens a channel and its consumers", async () => {
    await open("channels");
    await page.$eval("td a.name", (node) => node.click());
    await sees("Consumers", "h2");
    await hasNoViolation("channel");
  });

  it("tells who did all of that", async () => {
    await open("audit?event=queue.*");
    await sees("queue.deleted", "td");
    await sees("made <b>here</b>", "td");
    await hasNoViolation("audit");
  });

  it("shows the log as it is written", async () => {
    await open("log");
    await settled();
    await api("vhosts/logged", "PUT", {});
    await api("vhosts/logged", "DELETE");
    await page.waitForSelector(".log-line");
    await hasNoViolation("log");
  });
});

describe("charts", () => {
  it("have no line over a time without samples", async () => {
    await open("overview");
    const columns = await page.evaluate(async () => {
      const { html, render } = await import("/app/html.js");
      const { Chart } = await import("/parts/chart.js");
      const { gaugeLine } = await import("/app/samples.js");
      const samples = Array.from({ length: 41 }, (_, number) => ({ timestamp: 1_800_000_000_000 + number * 5000, sample: 5 }));
      const gaps = [[samples[10].timestamp, samples[30].timestamp]];
      const place = document.createElement("div");
      document.querySelector("main").prepend(place);
      render(html`<${Chart} title="With a gap" series=${[{ label: "Ready", color: 1, points: gaugeLine({ samples, gaps }) }]} />`, place);
      const canvas = await new Promise((done) => {
        const look = () => (place.querySelector("canvas") ? requestAnimationFrame(() => requestAnimationFrame(() => done(place.querySelector("canvas")))) : requestAnimationFrame(look));
        look();
      });
      const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const isLine = (at) => data[at + 3] > 200 && data[at + 2] > 190 && data[at] < 100 && data[at + 1] < 120;
      const found = Array.from({ length: width }, (_, x) => Array.from({ length: height }, (__, y) => (y * width + x) * 4).some(isLine));
      render(null, place);
      place.remove();
      return found;
    });
    const first = columns.indexOf(true);
    const last = columns.lastIndexOf(true);
    const empty = columns.slice(first, last).filter((hasLine) => !hasLine).length / (last - first);
    assert.ok(empty > 0.47 && empty < 0.53, `half of the chart is a gap: ${empty}`);
    assert.equal(columns[Math.round((first + last) / 2)], false);
  });
});

describe("one virtual host", () => {
  const host = "team/<b> %2F";
  const asked = [];
  const onRequest = (request) => asked.push(request.url().slice(URL_OF_PAGE.length));
  const choice = ".vhost-choice select";
  const rowsSay = (texts) => page.waitForFunction((wanted) => {
    const rows = [...document.querySelectorAll("main tbody .name")].map((node) => node.textContent);
    return rows.length === wanted.length && wanted.every((text) => rows.includes(text));
  }, {}, texts);

  before(async () => {
    await api(`vhosts/${encoded(host)}`, "PUT", {});
    await api(`queues/${encoded(host, "of team")}`, "PUT", { durable: true });
    await api(`policies/${encoded(host, "of team")}`, "PUT", { pattern: "", definition: { "max-length": 5 } });
    await page.goto(`${URL_OF_PAGE}/#/queues`);
    await page.reload();
    page.on("request", onRequest);
  });

  after(async () => {
    page.off("request", onRequest);
    await api(`vhosts/${encoded(host)}`, "DELETE");
    await page.evaluate(() => localStorage.removeItem("vhost"));
    await page.goto(`${URL_OF_PAGE}/#/queues`);
    await page.reload();
    await page.waitForSelector(".shell");
  });

  it("is chosen for every list, in the address, and after the page is loaded again", async () => {
    await page.waitForSelector(choice);
    await sees("orders", "td");
    await page.select(choice, host);
    await rowsSay(["of team"]);
    assert.equal(new URLSearchParams(await page.evaluate(() => location.hash.split("?")[1])).get("vhost"), host);
    await sees("1", ".nav-link[aria-current=page] .count");
    await hasNoViolation("one virtual host");
    await page.reload();
    await rowsSay(["of team"]);
    const paths = { queues: "queues/V", exchanges: "exchanges/V", connections: "vhosts/V/connections", channels: "vhosts/V/channels", policies: "policies/V", streams: "queues/V", shovels: "shovels/V", exports: "exports?vhost=", transfers: "transfers?vhost=", audit: "audit?", overview: "vhosts/V" };
    for (const [view, path] of Object.entries(paths)) {
      await open("users");
      asked.length = 0;
      await open(view);
      await page.waitForFunction((wanted) => location.hash.startsWith(`#/${wanted}?`) && location.hash.includes("vhost="), {}, view);
      await settled();
      const wanted = `/api/${path.replace("V", encoded(host))}`;
      assert.ok(asked.some((url) => url.startsWith(wanted)), `${view} asked ${asked}`);
      // Not all, to filter them here. The form of policies previews any virtual host; an overview's totals are of all.
      const isOfAll = (url) => new RegExp(`^/api/(${view}|queues)([?]|$)`).test(url) && !url.includes("vhost=");
      if (!["policies", "overview"].includes(view)) assert.deepEqual(asked.filter(isOfAll), [], `${view} asked for all`);
    }
  });

  it("is what forms begin with", async () => {
    await open("queues");
    await click("New queue");
    assert.equal(await page.$eval("dialog select", (node) => node.value), host);
    await page.keyboard.press("Escape");
    await dialogIsGone();
    await open("policies");
    await rowsSay(["of team"]);
    await click("New policy");
    assert.equal(await page.$eval("dialog select", (node) => node.value), host);
    await page.keyboard.press("Escape");
    await dialogIsGone();
  });

  it("says of its figures what is of all", async () => {
    await open("overview");
    await sees(`Messages in queues of ${host}`, "h2");
    await sees("of all virtual hosts", "[aria-label=Node]");
    assert.deepEqual(await page.$$eval("[aria-label='Time range'] button", (nodes) => nodes.map((node) => node.textContent)), ["10 min", "1 h"]);
    await hasNoViolation("overview of one virtual host");
    await open("users");
    await sees("This view: all", "header");
    await sees("guest", "td");
  });

  it("that does not exist is said", async () => {
    expectedErrors = ["404"];
    await open("queues?vhost=nowhere");
    await sees("There is no virtual host “nowhere”", "main");
    await hasNoViolation("no virtual host");
    await click("Show all virtual hosts", "main");
    await sees("orders", "td");
    assert.equal(await page.$eval(choice, (node) => node.value), "");
    await open("queues/nowhere/q");
    await sees("There is no virtual host “nowhere”", "main");
  });

  it("is left for that of another object by its list", async () => {
    await open(`queues/${encoded("/", "orders")}`);
    await sees("orders", "h1");
    await page.select(choice, host);
    await rowsSay(["of team"]);
    await page.select(choice, "");
    await sees("orders", "td");
    assert.doesNotMatch(await page.evaluate(() => location.hash), /vhost/);
  });
});

describe("ten thousand queues", () => {
  it("are filtered at once, and few rows are in the page", async () => {
    const rows = await page.evaluate(async () => {
      const { rowFilter } = await import("/app/row_filter.js");
      const { sorted } = await import("/app/sorting.js");
      const { QUEUE_FIELDS } = await import("/views/queues.js");
      const queues = Array.from({ length: 10_000 }, (_, number) => ({ name: `team-${number % 50}.orders.${number}`, vhost: "/", type: "classic", messages_ready: number, consumers: number % 3, message_stats: {} }));
      const began = performance.now();
      const found = queues.filter(rowFilter("orders.99 ready>5000 -consumers:0", QUEUE_FIELDS, (row) => [row.name, row.vhost]));
      const filtered = performance.now();
      sorted(queues, (row) => row.name, true);
      return { found: found.length, filter: filtered - began, sort: performance.now() - filtered };
    });
    assert.ok(rows.found > 0);
    console.log(`filter of 10,000 queues: ${rows.filter.toFixed(1)} ms, sort by name: ${rows.sort.toFixed(1)} ms`);
  });
});

describe("the session", () => {
  it("ends", async () => {
    await click("Account guest");
    await click("Log out", ".menu-list");
    await page.waitForSelector("#username");
    assert.equal(await page.evaluate(async () => (await fetch("api/overview")).status), 401);
    expectedErrors = ["401"];
  });

  it("of a user with one virtual host has none to choose", async () => {
    await page.type("#username", "one");
    await page.type("#password", "one");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".shell");
    await open("queues");
    await sees("orders", "td");
    assert.deepEqual((await api("vhosts?columns=name")).map(({ name }) => name), ["/"]);
    assert.equal(await page.$(".vhost-choice"), null);
  });
});
