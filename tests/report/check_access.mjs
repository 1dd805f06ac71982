// tests/report/check_access.mjs - for every reader: eyes, ears, keyboard, phone, paper, no scripts
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { address, root } from "./browser.mjs";

const axe = join(root, "ci/web/node_modules/axe-core/axe.min.js");
// Of axe's rules, those that depend on the colour scheme.
const ofColours = { type: "rule", values: ["color-contrast", "link-in-text-block"] };
const background = (tab) => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);

export const checks = {
  "axe finds nothing, in light and dark": async (pages) => {
    if (!existsSync(axe)) return;
    // Without its policy, which would stop axe as any other script that is not the page's.
    const context = await pages.window({ bypassCSP: true });
    const tab = await context.newPage();
    const source = readFileSync(axe, "utf8");
    for (const kind of ["ten", "telemetry", "history", "replicate", "ranks"]) {
      await tab.emulateMedia({ colorScheme: "light" });
      await tab.goto(address(pages.path(kind)));
      await tab.evaluate(() => document.querySelectorAll("details:not(#tables details)")
        .forEach((one) => { one.open = true; }));
      await tab.evaluate(source);
      for (const [colorScheme, rules] of [["light", {}], ["dark", { runOnly: ofColours }]]) {
        await tab.emulateMedia({ colorScheme });
        const found = await tab.evaluate(async (options) => (await axe.run(document, options))
          .violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`),
        { resultTypes: ["violations"], ...rules });
        assert.deepEqual(found, [], `${kind} ${colorScheme}`);
      }
    }
    await context.close();
  },
  "light and dark differ, and text stands out in both": async (pages) => {
    const seen = new Set();
    for (const colorScheme of ["light", "dark"]) {
      await pages.visit("ab", { colorScheme }, async (tab) => {
        seen.add(await background(tab));
        const ratio = await tab.evaluate(() => {
          const light = (text) => text.match(/[\d.]+/g).slice(0, 3).map((value) => value / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const paper = light(getComputedStyle(document.body).backgroundColor);
          return Math.min(...[".muted", ".good", ".bad", ".warn", "h1"].map((selector) => {
            const ink = light(getComputedStyle(document.querySelector(selector)).color);
            return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
          }));
        });
        assert.ok(ratio >= 4.5, `contrast ${ratio} in ${colorScheme}`);
      });
    }
    assert.equal(seen.size, 2);
  },
  "a phone shows it without sideways scrolling": async (pages) => {
    for (const kind of ["two", "many", "failed", "hostile", "telemetry", "seeds", "noisy", "mixed", "history",
      "replicate", "ranks"]) {
      await pages.visit(kind, { viewport: { width: 390, height: 800 } }, async (tab) => {
        await tab.evaluate(() => {
          document.querySelectorAll("details").forEach((one) => { one.open = true; });
          document.querySelectorAll("tbody.folded .fold").forEach((one) => one.click());
        });
        const width = await tab.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= 390, `${kind}: ${width} px`);
      });
    }
  },
  "a phone shows times and speeds of cases at once": async (pages) => {
    for (const [kind, table, head] of [["kernels", "kernel-cases", "time"], ["two", "cases", "speed"],
      ["ranks", "ranks", "speed"], ["ranks", "timelines", "exposed communication"]]) {
      await pages.visit(kind, { viewport: { width: 390, height: 800 } }, async (tab) => {
        const ends = await tab.evaluate(([id, word]) => {
          const heads = [...document.querySelectorAll(`#${id} thead th`)];
          const at = heads.findIndex((one) => one.innerText.includes(word));
          return [...document.querySelectorAll(`#${id} tbody tr`)]
            .filter((row) => row.children[at] && row.children[at].getBoundingClientRect().width > 0)
            .map((row) => row.children[at].getBoundingClientRect().right);
        }, [table, head]);
        assert.ok(ends.length > 0 && Math.max(...ends) <= 390, `${kind}: ${ends}`);
      });
    }
  },
  "a phone shows every column of the index, within its edges; names break between words": async (pages) => {
    await pages.visit("index", { viewport: { width: 390, height: 800 } }, async (tab) => {
      const [outside, cells] = await tab.evaluate(() => {
        const shown = [...document.querySelectorAll("#runs :is(th, td), #series :is(th, td), .spark")]
          .map((one) => ({ text: one.textContent, ...one.getBoundingClientRect().toJSON() }))
          .filter((one) => one.width > 0);
        return [shown.filter((one) => one.left < 0 || one.right > 390), shown.length];
      });
      assert.deepEqual(outside, []);
      assert.ok(cells > 100, `${cells}`);
      const row = (await tab.innerText("#runs #run-1")).replace(/\s+/g, " ");
      assert.match(row, /^1 distributed_collectives cpu \S+ failed \d{4}-.* UTC/);
      // A line of a name ends at the name's end, or behind a dot or an underscore.
      const ends = await tab.locator("#series th[scope=row]").evaluateAll((all) => all.map((head) => {
        const range = document.createRange(), ends = [];
        const texts = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
        for (let last = null, text; (text = texts.nextNode());) {
          for (let i = 0; i < text.length; i++) {
            range.setStart(text, i);
            range.setEnd(text, i + 1);
            const { top } = range.getBoundingClientRect();
            if (last && top > last.top + 5) ends.push(last.sign);
            last = { top, sign: text.data[i] };
          }
        }
        return ends;
      }));
      assert.deepEqual([...new Set(ends.flat())].filter((sign) => !/[._-]/.test(sign)), []);
      await tab.click("#runs thead th:first-child button"); // the heads sort
      assert.ok((await tab.innerText("#runs tbody tr:first-child")).startsWith("1"));
    });
  },
  "the keyboard reaches everything in the order of the page": async (pages) => {
    await pages.visit("two", {}, async (tab) => {
      let last = -1;
      for (let i = 0; i < 40; i++) {
        await tab.keyboard.press("Tab");
        const at = await tab.evaluate(() => {
          const one = document.activeElement;
          const style = getComputedStyle(one);
          return { top: one.getBoundingClientRect().top + scrollY, ring: style.outlineStyle !== "none",
            name: one.tagName };
        });
        if (at.name === "BODY") break;
        assert.ok(at.ring, `no focus ring on ${at.name} at ${at.top}`);
        assert.ok(at.top >= last - 60, `${at.name} at ${at.top} comes after ${last}`);
        last = at.top;
      }
      assert.ok(last > 300);
    });
  },
  "headings, landmarks and tables have names": async (pages) => {
    for (const kind of ["two", "telemetry", "mixed", "history", "replicate", "ranks"]) {
      await pages.visit(kind, { javaScriptEnabled: false }, async (tab) => {
        assert.equal(await tab.locator("h1").count(), 1);
        assert.equal(await tab.locator("main").count(), 1);
        assert.equal(await tab.locator("svg:not([aria-hidden]):not([role=img] svg)").count(), 0, kind);
        assert.equal(await tab.locator("table:not(:has(thead th))").count(), 0, kind);
      });
    }
  },
  "twenty runs are as calm as two": async (pages) => {
    const heights = {};
    for (const kind of ["two", "ten", "many"]) {
      await pages.visit(kind, {}, async (tab) => {
        heights[kind] = await tab.evaluate(() => document.documentElement.scrollHeight);
      });
    }
    assert.ok(heights.many < 2 * heights.two, JSON.stringify(heights));
    assert.ok(heights.ten < 1.6 * heights.two, JSON.stringify(heights));
  },
  "without scripts everything is there": async (pages) => {
    await pages.visit("two", { javaScriptEnabled: false }, async (tab) => {
      assert.equal(await tab.locator(".chart .still svg").count(), 3);
      assert.ok(await tab.locator(".still svg").first().isVisible());
      assert.ok((await tab.innerText("#differs")).includes("580.159"));
    });
    await pages.visit("ab", { javaScriptEnabled: false }, async (tab) => {
      assert.equal(await tab.locator("#ratios tbody tr:visible").count(), 168); // nothing folds
    });
  },
  "paper gets still curves and a clean page": async (pages) => {
    for (const [kind, most] of [["long", 4], ["replicate", 9], ["ten", 5], ["telemetry", 4], ["ab", 5],
      ["ranks", 5]]) {
      await pages.visit(kind, {}, async (tab) => {
        await tab.emulateMedia({ media: "print" });
        for (const still of await tab.locator(".chart .still svg").all()) {
          assert.ok(await still.isVisible(), kind);
        }
        assert.equal(await tab.locator(".tools:visible, .hint:visible, .over:visible").count(), 0);
        const pdf = await tab.pdf({ format: "A4" });
        const count = (pdf.toString("latin1").match(/\/Type\s*\/Page\b/g) ?? []).length;
        assert.ok(count >= 1 && count <= most, `${kind}: ${count} pages`);
      });
    }
  },
};
