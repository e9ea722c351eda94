// Opens the list of queues in Chromium and filters it; prints the times in ms as a line of JSON.
//
// PAGE_URL: of the management server; CHROMIUM: the program; ROUNDS: how often; NEEDLE: a text that
// one queue has; PACKAGES: the directory with puppeteer-core.

import { createRequire } from "node:module";

const require = createRequire(`${process.env.PACKAGES}/`);
const { default: puppeteer } = await import(require.resolve("puppeteer-core"));
const { PAGE_URL, CHROMIUM, NEEDLE } = process.env;
const ROW = "main tbody tr";

const browser = await puppeteer.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"], headless: true });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(PAGE_URL);
  await page.waitForSelector("#username");
  await page.type("#username", "guest");
  await page.type("#password", "guest");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".shell");
  const paints = [];
  const filters = [];
  for (let round = 0; round < Number(process.env.ROUNDS); round += 1) {
    await page.goto("about:blank");
    await page.goto(`${PAGE_URL}/#/queues`);
    await page.waitForSelector(ROW);
    // On the clock of the page, which begins with the navigation.
    paints.push(await page.evaluate(() => new Promise((done) => {
      requestAnimationFrame(() => setTimeout(() => done(performance.now())));
    })));
    filters.push(await page.evaluate((needle, row) => new Promise((done) => {
      const input = document.querySelector("input[data-filter]");
      const begun = performance.now();
      const look = () => {
        if (document.querySelectorAll(row).length === 1) setTimeout(() => done(performance.now() - begun));
        else requestAnimationFrame(look);
      };
      input.value = needle;
      input.dispatchEvent(new Event("input", { bubbles: true }));
      requestAnimationFrame(look);
    }), NEEDLE, ROW));
  }
  console.log(JSON.stringify({ paints, filters }));
} finally {
  await browser.close();
}
