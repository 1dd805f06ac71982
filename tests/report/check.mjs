// tests/report/check.mjs MAKE_REPORT - the report page in a real browser
//
// Makes reports of made-up runs with tests/report/make_report.c and checks what a reader would: no
// errors, no network, nothing runs that came from the database, three charts that share a cursor
// and a zoom, tables that sort and copy, links to rows, light and dark, a phone, paper, no scripts.
// Exit 0, 1 with what failed, 77 when there is no browser.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { address, launch } from "./browser.mjs";

const makeReport = process.argv[2];
const browser = await launch();
const folder = mkdtempSync(join(tmpdir(), "bt-report-"));
const pages = {};
for (const kind of ["one", "two", "many", "long", "failed", "running", "hostile"]) {
  pages[kind] = join(folder, `${kind}.html`);
  execFileSync(makeReport, [join(folder, `${kind}.sqlite`), kind, pages[kind]]);
}
const hasPlots = readFileSync(pages.one, "utf8").includes("var uPlot=");

// Opens a page; after `work` nothing may have been asked of the network, logged or thrown.
const visit = async (kind, options, work, hash = "") => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const tab = await context.newPage();
  const troubles = [];
  tab.on("console", (message) => troubles.push(`${message.type()}: ${message.text()}`));
  tab.on("pageerror", (error) => troubles.push(`error: ${error.message}`));
  tab.on("request", (request) => {
    if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) {
      troubles.push(`request: ${request.url()}`);
    }
  });
  await tab.goto(address(pages[kind]) + hash);
  await work(tab);
  await context.close();
  assert.deepEqual(troubles, []);
};

const background = (tab) => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
const readouts = (tab) => tab.$$eval(".readout", (all) => all.map((one) => one.textContent));
const stepOf = (text) => Number(/^step (\d+)/.exec(text)[1]);

const checks = {
  "every page opens without errors, and says its status": async () => {
    for (const [kind, word] of [["one", "passed"], ["two", "passed"], ["long", "passed"],
      ["many", "failed"], ["failed", "failed"], ["running", "running"]]) {
      await visit(kind, {}, async (tab) => {
        assert.ok((await tab.innerText("header")).includes(word), kind);
      });
    }
  },
  "text from the database stays text": async () => {
    await visit("hostile", {}, async (tab) => {
      assert.equal(await tab.evaluate(() => window.hacked), undefined);
      assert.ok((await tab.innerText("h1")).includes("<script>window.hacked=1</script>"));
      assert.equal(await tab.locator("img").count(), 0);
    });
  },
  "the policy stops a script that gets in all the same": async () => {
    const context = await browser.newContext();
    const tab = await context.newPage();
    await tab.goto(address(pages.one));
    await tab.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "window.hacked = 1";
      document.body.append(script);
    });
    assert.equal(await tab.evaluate(() => window.hacked), undefined);
    await context.close();
  },
  "charts share a cursor and a zoom": async () => {
    if (!hasPlots) return;
    await visit("long", {}, async (tab) => {
      assert.equal(await tab.locator(".chart canvas").count(), 3);
      const over = tab.locator(".chart .u-over");
      const box = await over.nth(0).boundingBox();
      await tab.mouse.move(box.x + box.width / 2, box.y + 50);
      const middle = (await readouts(tab)).map(stepOf);
      assert.equal(middle.length, 3);
      assert.ok(middle.every((step) => Math.abs(step - 5000) < 100), String(middle));
      await tab.mouse.move(box.x + box.width * 0.3, box.y + 50);
      await tab.mouse.down();
      await tab.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
      await tab.mouse.up();
      await tab.mouse.move(box.x + 3, box.y + 50);
      const edge = (await readouts(tab)).map(stepOf);
      assert.ok(edge.every((step) => Math.abs(step - 3000) < 100), String(edge));
      await tab.mouse.dblclick(box.x + box.width / 2, box.y + 50);
      await tab.mouse.move(box.x + 3, box.y + 40);
      const whole = (await readouts(tab)).map(stepOf);
      assert.ok(whole.every((step) => step < 100), String(whole));
    });
  },
  "tables sort by any column, both ways": async () => {
    await visit("one", {}, async (tab) => {
      const times = () => tab.$$eval("[data-name=ranges-A] tbody tr",
        (rows) => rows.map((row) => Number(row.cells[2].dataset.v)));
      await tab.click("[data-name=ranges-A] thead th:nth-child(3) button");
      const up = await times();
      assert.deepEqual(up, [...up].sort((a, b) => a - b));
      assert.ok(up[0] < up[up.length - 1]);
      await tab.click("[data-name=ranges-A] thead th:nth-child(3) button");
      assert.deepEqual(await times(), [...up].reverse());
    });
  },
  "all steps copy as CSV, and show on demand": async () => {
    await visit("long", {}, async (tab) => {
      await tab.evaluate(() => Object.defineProperty(navigator, "clipboard",
        { value: { writeText: async (text) => { window.copied = text; } } }));
      const steps = tab.locator("details", { has: tab.locator("[data-name=steps-A]") });
      await steps.locator("summary").click();
      assert.equal(await steps.locator("tbody tr").count(), 60);
      await steps.getByText("Copy as CSV").click();
      const lines = (await tab.evaluate(() => window.copied)).trim().split("\n");
      assert.equal(lines.length, 10001);
      assert.match(lines[0], /^step,loss,bits/);
      assert.match(lines[10000], /^9999,\d/);
      await steps.getByText("Show all steps").click();
      assert.equal(await steps.locator("tbody tr").count(), 10000);
    });
  },
  "a link to a row opens what holds it": async () => {
    for (const step of [0, 4321]) { // one that is shown, one that is not
      await visit("long", {}, async (tab) => {
        const row = tab.locator(`#c0-step-${step}`);
        await row.waitFor({ state: "visible" });
        assert.ok((await row.innerText()).startsWith(String(step)));
      }, `#c0-step-${step}`);
    }
  },
  "light and dark differ, and text stands out in both": async () => {
    const seen = new Set();
    for (const colorScheme of ["light", "dark"]) {
      await visit("two", { colorScheme }, async (tab) => {
        seen.add(await background(tab));
        const ratio = await tab.evaluate(() => {
          const light = (text) => text.match(/[\d.]+/g).slice(0, 3).map((value) => value / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const paper = light(getComputedStyle(document.body).backgroundColor);
          return Math.min(...[".muted", ".good", "h1", ".tag"].map((selector) => {
            const ink = light(getComputedStyle(document.querySelector(selector)).color);
            return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
          }));
        });
        assert.ok(ratio >= 4.5, `contrast ${ratio} in ${colorScheme}`);
      });
    }
    assert.equal(seen.size, 2);
  },
  "a phone shows it without sideways scrolling": async () => {
    for (const kind of ["one", "two", "many", "long", "failed", "hostile"]) {
      await visit(kind, { viewport: { width: 390, height: 800 } }, async (tab) => {
        await tab.evaluate(() => document.querySelectorAll("details")
          .forEach((one) => { one.open = true; }));
        const width = await tab.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= 390, `${kind}: ${width} px`);
      });
    }
  },
  "the first screen answers what ran, where, did it pass, how fast": async () => {
    await visit("long", { viewport: { width: 1280, height: 800 } }, async (tab) => {
      for (const selector of ["h1", ".tile", ".numbers"]) {
        const box = await tab.locator(selector).first().boundingBox();
        assert.ok(box.y + box.height <= 800, selector);
      }
    });
  },
  "twenty runs are as calm as two": async () => {
    const heights = {};
    for (const kind of ["two", "many"]) {
      await visit(kind, {}, async (tab) => {
        heights[kind] = await tab.evaluate(() => document.documentElement.scrollHeight);
      });
    }
    assert.ok(heights.many < 2 * heights.two, JSON.stringify(heights));
  },
  "without scripts the curves, bars and tables are there": async () => {
    await visit("two", { javaScriptEnabled: false }, async (tab) => {
      assert.equal(await tab.locator(".still svg").count(), 3);
      assert.ok(await tab.locator(".still svg").first().isVisible());
      assert.equal(await tab.locator(".chart canvas").count(), 0);
      assert.ok((await tab.innerText("#differs")).includes("580.159"));
    });
  },
  "paper gets the still curves": async () => {
    await visit("long", {}, async (tab) => {
      await tab.emulateMedia({ media: "print" });
      assert.ok(await tab.locator(".still svg").first().isVisible());
      const pdf = await tab.pdf({ format: "A4" });
      const count = (pdf.toString("latin1").match(/\/Type\s*\/Page\b/g) ?? []).length;
      assert.ok(count >= 1 && count <= 4, `${count} pages`);
    });
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n        ${error.stack}`);
  }
}
await browser.close();
rmSync(folder, { recursive: true });
process.exit(failed ? 1 : 0);
