// tests/report/check_speed.mjs - a page of 50,000 points opens in under a second, and stays small
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { address } from "./browser.mjs";

// From the beginning of the navigation to the first frame that has everything, in ms.
const openingTime = async (pages, kind) => {
  const context = await pages.browser.newContext({ viewport: { width: 1280, height: 900 } });
  const tab = await context.newPage();
  await tab.goto(address(pages.path(kind)));
  const time = await tab.evaluate(() => new Promise((resolve) => requestAnimationFrame(
    () => setTimeout(() => resolve(performance.now())))));
  await context.close();
  return time;
};

export const checks = {
  "50,000 points open in under a second": async (pages) => {
    const data = JSON.parse(/id="data">(.*?)<\/script>/s.exec(pages.text("huge"))[1]);
    const points = data.flatMap((chart) => chart.curves).reduce((sum, curve) => sum + curve.y.length, 0);
    assert.ok(points >= 50000, `${points} points`);
    let best = Infinity; // the machine may be busy with other tests
    for (let i = 0; i < 5 && best >= 1000; i++) best = Math.min(best, await openingTime(pages, "huge"));
    console.log(`        ${points} points in ${best.toFixed(0)} ms`);
    assert.ok(best < 1000, `${best.toFixed(0)} ms`);
  },
  "pages stay under two megabytes": async (pages) => {
    for (const kind of ["one", "two", "ten", "many", "long", "seeds", "telemetry", "kernels", "pairs",
      "ab", "gate", "replicate", "history", "sessions"]) {
      const size = statSync(pages.path(kind)).size;
      assert.ok(size < 2e6, `${kind}: ${size} bytes`);
    }
  },
};
