// tests/report/check_speed.mjs - a page of 50,000 points opens with less than a second of work
import assert from "node:assert/strict";
import { address } from "./browser.mjs";

// Processor time of the page's main thread until the first frame that has everything, in ms. Other
// tests on the machine do not add to it.
const openingTime = async (pages, kind) => {
  const context = await pages.window({});
  const tab = await context.newPage();
  const session = await context.newCDPSession(tab);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  await tab.goto(address(pages.path(kind)));
  await tab.evaluate(() => new Promise((resolve) => requestAnimationFrame(
    () => setTimeout(resolve))));
  const { metrics } = await session.send("Performance.getMetrics");
  await context.close();
  const time = 1000 * metrics.find((metric) => metric.name === "TaskDuration").value;
  assert.ok(time > 50, `${time} ms are too few to have drawn the page`);
  return time;
};

export const checks = {
  "50,000 points open with less than a second of work": async (pages) => {
    const data = JSON.parse(/id="data">(.*?)<\/script>/s.exec(pages.text("huge"))[1]);
    const points = data.flatMap((chart) => chart.curves).reduce((sum, curve) => sum + curve.y.length, 0);
    assert.ok(points >= 50000, `${points} points`);
    let best = Infinity; // a busy machine slows its processors down
    for (let i = 0; i < 5 && best >= 800; i++) best = Math.min(best, await openingTime(pages, "huge"));
    console.log(`        ${points} points in ${best.toFixed(0)} ms`);
    assert.ok(best < 800, `${best.toFixed(0)} ms`);
  },
};
