// tests/report/check_plots.mjs - forest, curves, ranges, roofline and histories
import assert from "node:assert/strict";

const readouts = (tab) => tab.$$eval(".readout", (all) => all.map((one) => one.textContent));
const stepOf = (text) => Number(/^step (\d+)/.exec(text)[1]);
const near = (a, b, tolerance, what) => assert.ok(Math.abs(a - b) <= tolerance, `${what}: ${a}, not ${b}`);

// Centre of an element inside its row's axis, in percent of the axis.
const place = (row, selector) => row.evaluate((one, inner) => {
  const axis = one.querySelector(".axis").getBoundingClientRect();
  const box = one.querySelector(inner).getBoundingClientRect();
  return 100 * (box.x + box.width / 2 - axis.x) / axis.width;
}, selector);
const ratioOf = async (row) => Number(await row.locator("td").nth(1).getAttribute("data-v"));

export const checks = {
  "kernels of a compiled step: bytes moved before bytes of the calls, a row a kernel": async (pages) => {
    for (const width of [390, 1280]) {
      await pages.visit("ranks", { viewport: { width, height: 900 } }, async (tab) => {
        const rows = await tab.locator("#compiled details").first().locator("tbody tr")
          .evaluateAll((all) => all.map((row) => ({ name: row.cells[0].innerText,
            bars: [...row.querySelectorAll(".bar")].map((bar) => bar.getBoundingClientRect().width),
            track: row.querySelector(".track").getBoundingClientRect().width })));
        assert.deepEqual(rows.map((row) => row.name),
          ["row-3f2a91bc", "calls in no group", "elementwise-0badcafe"]);
        assert.deepEqual(rows.map((row) => row.bars.length), [2, 0, 2]);
        const [before, after] = rows[0].bars;
        assert.ok(Math.abs(after - before / 3) < 1.5 && before <= rows[0].track + 1, `${before} ${after}`);
        assert.ok(before > 40, `${before}`);
      });
    }
  },
  "a step of each rank: a row each on one axis, waiting below the line, and figures": async (pages) => {
    for (const width of [390, 1280]) {
      await pages.visit("ranks", { viewport: { width, height: 900 } }, async (tab) => {
        const first = tab.locator("#timelines details").first();
        assert.equal(await first.locator(".rank svg").count(), 4);
        const rows = await first.locator(".rank svg").evaluateAll((all) => all.map((svg) => {
          const box = (one) => one.getBoundingClientRect();
          const line = box(svg.querySelector(".base")), wait = box(svg.querySelector(".work-c")),
            product = box(svg.querySelector(".work-p"));
          return { left: line.left, width: line.width, below: wait.top >= line.top - 1,
            above: product.bottom <= line.bottom + 1, height: box(svg).height };
        }));
        for (const [i, row] of rows.entries()) {
          assert.ok(row.below && row.above && row.height > 30, JSON.stringify(row));
          assert.ok(Math.abs(row.width - rows[0].width) < 1);
          // 20 us later than the one before, of 960 us in all.
          assert.ok(Math.abs(row.left - rows[0].left - i * 20 / 900 * row.width) < 1.5);
        }
        const cells = await first.locator("tbody tr").nth(1).innerText();
        assert.match(cells.replace(/\s+/g, " "), /^1 900 us 360 us 120 us 120 us 240 us 60.0 us$/);
        assert.equal(await first.locator(".works li").count(), 4);
      });
    }
  },
  "the forest plot stands on a logarithmic axis": async (pages) => {
    await pages.visit("replicate", {}, async (tab) => {
      const rows = tab.locator("#ratios tbody:not(.folded) tr:not(.group-head)");
      const seen = [];
      for (const row of (await rows.all()).slice(0, 12)) {
        seen.push([Math.log(await ratioOf(row)), await place(row, ".dot")]);
      }
      seen.sort((a, b) => a[0] - b[0]);
      const [first, last] = [seen[0], seen[seen.length - 1]];
      const slope = (last[1] - first[1]) / (last[0] - first[0]);
      assert.ok(slope > 10);
      for (const [log, at] of seen) near(at, first[1] + slope * (log - first[0]), 0.3, "dot");
    });
  },
  "the paper's ratio is a second mark beside ours": async (pages) => {
    await pages.visit("replicate", {}, async (tab) => {
      const row = tab.locator("#ratios tbody:not(.folded) tr:not(.group-head)").first();
      const paper = Number(await row.locator("td").nth(3).getAttribute("data-v"));
      const here = await ratioOf(row);
      assert.equal(await place(row, ".paper") > await place(row, ".dot"), paper > here);
    });
  },
  "in a group the worst stands first; what needs a look is open, the rest folds": async (pages) => {
    await pages.visit("ab", {}, async (tab) => {
      assert.equal(await tab.locator("#ratios tbody").count(), 10);
      const open = tab.locator("#ratios tbody:not(.folded)");
      assert.equal(await open.count(), 2); // the one with SLOWER, the one with INCONCLUSIVE
      const softmax = tab.locator("#ratios tbody", { hasText: "softmax" });
      assert.ok((await softmax.locator("tr").nth(1).innerText()).includes("SLOWER"));
      assert.ok((await softmax.innerText()).includes("the kernel that ran changed: sm90_v7 -> sm80_v2"));
      const adamw = tab.locator("#ratios tbody", { hasText: "adamw" });
      assert.equal(await adamw.locator("tr:visible").count(), 1);
      assert.equal(await adamw.locator(".group-head .tick").count(), 16);
      await adamw.locator("button").click();
      assert.equal(await adamw.locator("tr:visible").count(), 17);
      await tab.getByText("Open or fold all").first().click();
      assert.equal(await tab.locator("#ratios tbody.folded").count(), 0);
    });
  },
  "the forest's head stays while its rows scroll": async (pages) => {
    await pages.visit("ab", {}, async (tab) => {
      await tab.getByText("Open or fold all").first().click();
      await tab.evaluate(() => scrollTo({ top: 2500, behavior: "instant" }));
      const box = await tab.locator(".forest .axis-head").first().boundingBox();
      near(box.y, 0, 1, "head");
    });
  },
  "runs and pairs of systems have a forest plot too": async (pages) => {
    await pages.visit("ten", {}, async (tab) => {
      assert.equal(await tab.locator("#ratios .dot").count(), 9);
    });
    await pages.visit("pairs", {}, async (tab) => {
      assert.equal(await tab.locator("#ratios .dot").count(), 30);
      assert.ok((await tab.innerText("h1")).includes("blutrain is faster than pytorch-eager in 30 of 30"));
    });
  },
  "charts share a cursor and a zoom": async (pages) => {
    await pages.visit("long", {}, async (tab) => {
      assert.equal(await tab.locator(".chart .over").count(), 3);
      const over = tab.locator(".chart .over");
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
      await tab.getByText("Show all", { exact: true }).first().click();
      await tab.mouse.move(box.x + 3, box.y + 40);
      assert.ok((await readouts(tab)).map(stepOf).every((step) => step < 100));
      assert.ok(await tab.locator("#whole").isHidden());
    });
  },
  "the keyboard moves the cursor and zooms": async (pages) => {
    await pages.visit("long", {}, async (tab) => {
      const plot = tab.locator("[data-chart=loss] .plot");
      await plot.focus();
      await tab.keyboard.press("ArrowRight");
      const first = stepOf((await readouts(tab))[0]);
      await tab.keyboard.press("ArrowRight");
      const steps = (await readouts(tab)).map(stepOf);
      assert.ok(steps[0] > first && steps.every((step) => Math.abs(step - steps[0]) < 100));
      await tab.keyboard.press("+");
      assert.ok(await tab.locator("#whole").isVisible());
      await tab.keyboard.press("0");
      assert.ok(await tab.locator("#whole").isHidden());
    });
  },
  "clocks and power stand beside the loss, placed at the steps they belong to": async (pages) => {
    await pages.visit("telemetry", {}, async (tab) => {
      const ids = await tab.$$eval(".chart", (all) => all.map((one) => one.dataset.chart));
      assert.deepEqual(ids, ["loss", "speed", "memory", "clock", "power", "load"]);
      const box = await tab.locator("[data-chart=loss] .over").boundingBox();
      const at = async (share) => {
        await tab.mouse.move(box.x + box.width * share, box.y + 50);
        return (await readouts(tab))[3];
      };
      assert.match(await at(0.3), /multiprocessors 1980 MHz/);
      assert.match(await at(0.65), /multiprocessors 16\d\d MHz/); // held down there
    });
  },
  "no curve runs past the end of its axis": async (pages) => {
    for (const kind of ["two", "unequal", "telemetry"]) {
      const charts = JSON.parse(/id="data">(.*?)<\/script>/s.exec(pages.text(kind))[1]);
      for (const { id, last, curves } of charts) {
        const end = Math.max(...curves.map(({ dx }) => dx.reduce((sum, step) => sum + step, 0)));
        assert.ok(end <= last + 1e-9 && end > last - 3, `${kind} ${id}: ${end} of ${last}`);
      }
    }
  },
  "of cases with few and with many steps, the first steps show at once": async (pages) => {
    await pages.visit("unequal", {}, async (tab) => {
      assert.ok((await tab.innerText("#curves")).includes("The cases have 20 to 400 steps."));
      await tab.click("#usual");
      const ticks = await tab.locator("[data-chart=loss] .x span").allInnerTexts();
      assert.deepEqual(ticks, ["0", "5", "10", "15", "20"]);
      await tab.click("#whole");
      assert.ok((await tab.locator("[data-chart=loss] .x span").allInnerTexts()).includes("400"));
    });
    await pages.visit("two", {}, async (tab) => assert.equal(await tab.locator("#usual").count(), 0));
  },
  "several rounds are a band with a median": async (pages) => {
    await pages.visit("seeds", { javaScriptEnabled: false }, async (tab) => {
      assert.equal(await tab.locator("[data-chart=loss] path.band").count(), 2);
      assert.ok((await tab.innerText("[data-chart=loss] figcaption")).includes("median"));
    });
    const data = /id="data">(.*?)<\/script>/s.exec(pages.text("seeds"))[1];
    const loss = JSON.parse(data)[0].curves;
    const [band, line] = [loss.find((one) => one.shape === "band"), loss.find((one) => one.shape === "line")];
    band.y.forEach((low, i) => assert.ok(low <= line.y[i] && line.y[i] <= band.high[i]));
    assert.ok(band.y.some((low, i) => low < band.high[i]));
  },
  "of many curves two stand out, and each can be asked for": async (pages) => {
    await pages.visit("ten", {}, async (tab) => {
      const legend = tab.locator("[data-chart=loss] .legend li");
      assert.equal(await legend.count(), 10);
      assert.equal(await tab.locator("[data-chart=loss] .legend li.quiet").count(), 8);
      assert.equal(await tab.locator(".legend:visible").count(), 1);
      await legend.nth(4).locator("button").click();
      assert.equal(await legend.nth(4).locator("button").getAttribute("aria-pressed"), "true");
      assert.equal(await tab.locator("[data-chart=loss] .legend li:not(.quiet)").count(), 1);
      await legend.nth(4).locator("button").click();
      assert.equal(await tab.locator("[data-chart=loss] .legend li.quiet").count(), 8);
    });
  },
  "a range links to the case that measures its kernel alone": async (pages) => {
    await pages.visit("mixed", {}, async (tab) => {
      const link = tab.locator("#ranges tr", { hasText: "layernorm" }).locator("td a").last();
      await link.click();
      const target = await tab.evaluate(() => decodeURIComponent(location.hash.slice(1)));
      const row = tab.locator(`[id="${target}"]`);
      await row.waitFor({ state: "visible" });
      assert.ok((await row.innerText()).includes("layernorm.forward.f32"));
    });
  },
  "bars lie inside the bar that holds them": async (pages) => {
    await pages.visit("one", {}, async (tab) => {
      const bars = await tab.$$eval("[data-name=ranges-A] tbody tr", (rows) => rows.map((row) => {
        const box = row.querySelector(".bar").getBoundingClientRect();
        return { depth: Number(row.cells[0].style.getPropertyValue("--depth")), left: box.left, right: box.right };
      }));
      bars.forEach((bar, i) => {
        const parent = bars.slice(0, i).reverse().find((other) => other.depth < bar.depth);
        if (parent) assert.ok(bar.left >= parent.left - 1 && bar.right <= parent.right + 1);
      });
    });
  },
  "the roofline has its points under the roof, named on hover and focus": async (pages) => {
    await pages.visit("pairs", {}, async (tab) => {
      assert.equal(await tab.locator(".still .pt").count(), 60);
      assert.ok((await tab.innerText("#roofline")).includes("copy 4.26 TB/s"));
      const point = tab.locator(".still .pt").nth(3);
      await point.focus();
      assert.match(await point.innerText(), /\.forward\..*FLOP\/s at .* FLOP a byte, \d+ % of the roof/);
      assert.equal(await point.locator("span").evaluate((one) => getComputedStyle(one).clipPath), "none");
      const legend = await tab.locator("#roofline .legend").innerText();
      assert.ok(legend.includes("blutrain") && legend.includes("pytorch-eager"));
      await tab.locator("#roofline-table summary").click();
      const shares = await tab.$$eval("[data-name=roofline] tbody tr",
        (rows) => rows.map((row) => Number(row.cells[4].dataset.v)));
      assert.equal(shares.length, 60);
      assert.ok(shares.every((share) => share > 0 && share < 1));
    });
  },
  "on a narrow page, names of roofs stay within the axes": async (pages) => {
    await pages.visit("pairs", { viewport: { width: 260, height: 800 } }, async (tab) => {
      const frame = await tab.locator(".roofline .still").boundingBox();
      const names = await tab.locator(".roofline .line-name").evaluateAll((all) => all.map((one) => {
        one.textContent = "copy, of a long name, cold 4.26 TB/s";
        const { left, right } = one.getBoundingClientRect();
        return { left, right };
      }));
      assert.ok(names.length > 0);
      for (const { left, right } of names) {
        assert.ok(left >= frame.x && right <= frame.x + frame.width + 1, `${left} ${right}`);
      }
    });
  },
  "a history marks where its level changed, and this run": async (pages) => {
    await pages.visit("history", {}, async (tab) => {
      assert.match(await tab.innerText("#trends figcaption"), /30 sessions.*slower by 3\.\d* %.*from run 21 on/s);
      assert.equal(await tab.locator("#trends path.change").count(), 1);
      const now = await tab.locator("#trends path.now").getAttribute("d");
      assert.equal(now.split("M").length - 1, 1);
      await tab.locator("#trends summary").click();
      const rows = await tab.$$eval("#trends tbody tr", (all) => all.map((row) => row.innerText));
      assert.equal(rows.length, 30);
      assert.ok(rows[20].includes("slower") && !rows[19].includes("slower"));
    });
    await pages.visit("one", {}, async (tab) => { // a first session has no history
      assert.equal(await tab.locator("#trends").count(), 0);
    });
  },
};
