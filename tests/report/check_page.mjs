// tests/report/check_page.mjs - the top of the page, its tables and links, text that stays text
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { address } from "./browser.mjs";

const mockClipboard = (tab) => tab.evaluate(() => Object.defineProperty(navigator, "clipboard",
  { value: { writeText: async (text) => { window.copied = text; } } }));
const copied = async (tab) => (await tab.evaluate(() => window.copied)).trim().split("\n");

export const checks = {
  "every page opens without errors, and says its status": async (pages) => {
    for (const [kind, word] of [["one", "passed"], ["two", "passed"], ["long", "passed"],
      ["many", "failed"], ["failed", "failed"], ["running", "running"], ["seeds", "passed"],
      ["telemetry", "passed"], ["kernels", "passed"], ["mixed", "passed"], ["history", "passed"],
      ["noisy", "passed"], ["ab", "slower than base in 1 of 158"], ["gate", "slower than"],
      ["replicate", "12 replicated, 22 higher, 19 lower, 1 inconclusive"]]) {
      await pages.visit(kind, {}, async (tab) => {
        assert.ok((await tab.innerText("header")).includes(word), kind);
      });
    }
  },
  "the first screen answers what ran, where, did it pass, how fast against what": async (pages) => {
    for (const kind of ["long", "two", "ten", "many", "ab", "gate", "replicate", "pairs", "noisy",
      "kernels", "mixed"]) {
      await pages.visit(kind, { viewport: { width: 1280, height: 800 } }, async (tab) => {
        for (const selector of ["h1", ".tile", ".numbers"]) {
          const box = await tab.locator(selector).first().boundingBox();
          assert.ok(box.y + box.height <= 800, `${kind}: ${selector}`);
        }
        assert.equal(await tab.locator(".number").count(), 3, kind);
      });
    }
  },
  "verdicts are tiles with a shape, a number and a word, worst first": async (pages) => {
    await pages.visit("ab", {}, async (tab) => {
      const tiles = await tab.locator(".tile").allInnerTexts();
      assert.deepEqual(tiles.map((text) => text.replace(/\s+/g, " ").trim()),
        ["\u25b2 1 SLOWER", "? 1 INCONCLUSIVE", "= 147 SAME", "\u25bc 9 FASTER"]);
    });
    await pages.visit("replicate", {}, async (tab) => {
      const text = await tab.innerText(".tiles");
      assert.ok(text.includes("NOT TESTABLE HERE"));
      assert.ok((await tab.innerText("#ratios")).includes("needs two GPUs") === false);
      await tab.locator("#ratios summary", { hasText: "Without a ratio" }).click();
      assert.ok((await tab.innerText("#ratios")).includes("needs two GPUs"));
    });
  },
  "noise is a sentence at the top and a mark where it was": async (pages) => {
    await pages.visit("noisy", {}, async (tab) => {
      assert.match(await tab.innerText(".noises"),
        /\d+ of \d+ rounds have a noise label \(throttled in \d+, loaded machine in \d+\); \d+ invalid: kept, not counted/);
      assert.ok(await tab.locator(".forest .noise").count() > 0);
      const words = await tab.$$eval("[data-name=rounds] tbody tr",
        (rows) => rows.map((row) => row.cells[6].textContent).filter(Boolean));
      assert.ok(words.includes("loaded machine"));
    });
    await pages.visit("one", {}, async (tab) => {
      assert.equal(await tab.locator(".noises").count(), 0);
    });
  },
  "text from the database stays text": async (pages) => {
    await pages.visit("hostile", {}, async (tab) => {
      assert.equal(await tab.evaluate(() => window.hacked), undefined);
      assert.ok((await tab.innerText("h1")).includes("<script>window.hacked=1</script>"));
      assert.equal(await tab.locator("img").count(), 0);
    });
  },
  "the policy stops a script that gets in all the same": async (pages) => {
    const context = await pages.window({});
    const tab = await context.newPage();
    await tab.goto(address(pages.path("one")));
    await tab.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "window.hacked = 1";
      document.body.append(script);
    });
    assert.equal(await tab.evaluate(() => window.hacked), undefined);
    await context.close();
  },
  "tables sort by any column, both ways": async (pages) => {
    await pages.visit("one", {}, async (tab) => {
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
  "every table has its rows as CSV": async (pages) => {
    for (const kind of ["one", "ab", "replicate", "history"]) {
      await pages.visit(kind, {}, async (tab) => {
        await mockClipboard(tab);
        await tab.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
        for (const table of await tab.locator("table[data-name]").all()) {
          const name = await table.getAttribute("data-name");
          const heads = await table.locator("thead th:not(.axis-head)").count();
          await table.evaluate((one) => (one.closest(".scroll") ?? one).nextElementSibling
            .querySelector("button").click());
          const lines = await copied(tab);
          assert.ok(lines.length > 1, `${kind} ${name}`);
          assert.equal(lines[0].split(",").length, heads, `${kind} ${name}: ${lines[0]}`);
        }
      });
    }
  },
  "all steps and all rounds copy as CSV, and show on demand": async (pages) => {
    await pages.visit("long", {}, async (tab) => {
      await mockClipboard(tab);
      const steps = tab.locator("details", { has: tab.locator("[data-name=steps-A]") });
      await steps.locator("summary").click();
      assert.equal(await steps.locator("tbody tr").count(), 60);
      await steps.getByText("Copy as CSV").click();
      const lines = await copied(tab);
      assert.equal(lines.length, 10001);
      assert.match(lines[0], /^step,loss,bits/);
      assert.match(lines[10000], /^9999,\d/);
      await steps.getByText("Show all").click();
      assert.equal(await steps.locator("tbody tr").count(), 10000);
    });
    await pages.visit("ab", {}, async (tab) => {
      const rounds = tab.locator("details", { has: tab.locator("[data-name=rounds]") });
      await rounds.locator("summary").click();
      await rounds.getByText("Show all").click();
      assert.equal(await rounds.locator("tbody tr").count(), 158 * 2 * 8);
    });
  },
  "no cell of a copied table is a formula; numbers stay numbers": async (pages) => {
    await pages.visit("many", {}, async (tab) => {
      await mockClipboard(tab);
      const lines = await tab.evaluate(async () => {
        const copyOf = (item) => [...item.querySelectorAll("button")]
          .find((button) => button.textContent === "Copy as CSV");
        const details = [...document.querySelectorAll("details")]
          .find((item) => item.querySelector("table:not([data-csv]) tbody td") && copyOf(item));
        const table = details.querySelector("table");
        const texts = ["=1+1", "@SUM(1)", "-2+3", "+x", "-3.5 %", "-1.5e-3", "a=b"];
        table.tBodies[0].innerHTML = `<tr>${texts.map((text) => `<td>${text}`).join("")}`;
        details.open = true;
        copyOf(details).click();
        await new Promise((done) => setTimeout(done, 0));
        return window.copied.trim().split("\n");
      });
      assert.equal(lines.at(-1), "'=1+1,'@SUM(1),'-2+3,'+x,-3.5 %,-1.5e-3,a=b");
    });
  },
  "a link to a row opens what holds it": async (pages) => {
    for (const step of [0, 4321]) { // one that is shown, one that is not
      await pages.visit("long", {}, async (tab) => {
        const row = tab.locator(`#c0-step-${step}`);
        await row.waitFor({ state: "visible" });
        assert.ok((await row.innerText()).startsWith(String(step)));
      }, `#c0-step-${step}`);
    }
    await pages.visit("ab", {}, async (tab) => {
      await tab.locator("#ab-1-adamw\\.forward\\.f32\\.1024x768").waitFor({ state: "visible" });
    }, "#ab-1-adamw.forward.f32.1024x768");
    await pages.visit("ab", {}, async (tab) => {
      await tab.locator("#round-2000").waitFor({ state: "visible" });
    }, "#round-2000");
  },
  "every id is there once, and every link within the page leads somewhere": async (pages) => {
    for (const kind of ["two", "ab", "replicate", "history", "mixed", "telemetry"]) {
      await pages.visit(kind, {}, async (tab) => {
        const [twice, lost] = await tab.evaluate(() => {
          const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
          const links = [...document.querySelectorAll("a[href^='#']")]
            .map((one) => decodeURIComponent(one.getAttribute("href").slice(1)));
          return [ids.filter((id, i) => ids.indexOf(id) !== i), links.filter((id) => !ids.includes(id))];
        });
        assert.deepEqual(twice, [], kind);
        assert.deepEqual(lost, [], kind);
      });
    }
  },
  "only what differs between runs is shown, the rest is folded": async (pages) => {
    await pages.visit("two", {}, async (tab) => {
      const text = await tab.innerText("#differs");
      assert.ok(text.includes("580.159") && text.includes("570.1"));
      assert.ok(!text.includes("6.1.0-28-amd64"));
      assert.equal(await tab.locator("#facts details[open]").count(), 0);
    });
    await pages.visit("ten", {}, async (tab) => { // values with the runs that have them
      const text = (await tab.innerText("#differs")).replace(/\s+/g, " ");
      assert.ok(text.includes("580.159 runs 1, 2, 3, 4, 5, 6, 7"), text);
      assert.ok(text.includes("570.1 runs 8, 9, 10"), text);
    });
  },
  "pages stay under two megabytes": async (pages) => {
    for (const kind of ["one", "two", "ten", "many", "long", "seeds", "telemetry", "kernels", "pairs",
      "ab", "gate", "replicate", "history", "sessions"]) {
      const size = statSync(pages.path(kind)).size;
      assert.ok(size < 2e6, `${kind}: ${size} bytes`);
    }
  },
};
