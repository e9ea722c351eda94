// Takes the pictures of the page in Chromium; run by pictures.py with PAGE_URL, CHROMIUM and IMAGES.

import puppeteer from "puppeteer-core";

const { PAGE_URL, CHROMIUM, IMAGES } = process.env;

const browser = await puppeteer.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"], headless: true });
const page = await browser.newPage();
await page.setViewport({ width: 1280, height: 800 });
await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }, { name: "prefers-color-scheme", value: "light" }]);

async function settled() {
  await page.waitForFunction(() => !document.querySelector(".skeleton, main .spinner"));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

async function open(path) {
  await page.evaluate((hash) => {
    document.querySelector("main h1")?.setAttribute("data-old", "");
    location.hash = hash;
  }, `#/${path}`);
  await page.waitForSelector("main h1");
  await settled();
}

async function click(text, inside = "main") {
  const found = await page.waitForFunction((wanted, selector) => {
    const all = [...document.querySelectorAll(`${selector} :is(button, a)`)];
    const named = (node) => node.getAttribute("aria-label") ?? node.textContent.trim();
    return all.find((node) => named(node) === wanted) ?? all.find((node) => named(node).startsWith(wanted));
  }, {}, text, inside);
  await found.asElement().evaluate((node) => node.click());
}

/** Fill a field of the dialog, as somebody who types does. */
async function fill(label, text) {
  const found = await page.waitForFunction((wanted) => document.getElementById([...document.querySelectorAll("dialog label")].find((node) => node.textContent.trim() === wanted)?.htmlFor), {}, label);
  await found.asElement().evaluate((node) => { node.value = ""; node.focus(); });
  await found.asElement().type(text);
}

async function take(name) {
  await settled();
  await page.screenshot({ path: `${IMAGES}/page-${name}.png` });
}

await page.goto(PAGE_URL);
await page.waitForSelector("#username");
await page.type("#username", "guest");
await page.type("#password", "guest");
await page.keyboard.press("Enter");
await page.waitForSelector(".shell");

// The small trends of the list are drawn from what the tab has seen itself.
await open("queues");
await click("Ready", "main thead");
await page.waitForSelector("main th[aria-sort=descending]");
await new Promise((done) => setTimeout(done, 30_000));
await take("queues");

await open("overview");
await take("overview");

await open("queues/%2F/orders.slow");
await take("queue");

await open("queues/%2F/orders.dead/messages");
await click("Show messages");
await click("3", "main tbody");
await page.waitForSelector(".sheet .body-view");
await take("messages");
await page.keyboard.press("Escape");

await open("policies");
await click("New policy");
await page.waitForSelector("dialog [data-adds]");
await fill("Name", "limits");
await fill("Pattern of names", "^orders[.]");
for (const [key, value] of [["max-length", "100000"], ["dead-letter-exchange", "dlx"]]) {
  await page.select("[data-adds]", key);
  await click("Add", ".setting-add");
  const field = await page.waitForSelector(`[data-setting="${key}"]`);
  await field.type(value);
}
await take("policy");
await page.keyboard.press("Escape");

await page.setViewport({ width: 390, height: 844 });
await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }, { name: "prefers-color-scheme", value: "dark" }]);
await open("queues/%2F/orders.slow");
await take("phone");

await browser.close();
