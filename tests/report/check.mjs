// tests/report/check.mjs MAKE_REPORT [GROUP [TEXT]] - the report page in a real browser
//
// Makes reports of made-up runs with tests/report/make_report.c and checks what a reader would, in
// the files check_GROUP.mjs beside this one, all of them without GROUP; TEXT: only checks whose name
// contains it. In every page
// that is opened nothing may be logged, thrown or asked of the network.
// Exit 0, 1 with what failed, 77 when there is no browser.
import { launch, Pages } from "./browser.mjs";
import { checks as access } from "./check_access.mjs";
import { checks as page } from "./check_page.mjs";
import { checks as plots } from "./check_plots.mjs";
import { checks as speed } from "./check_speed.mjs";

const [makeReport, group, wanted = ""] = process.argv.slice(2);
const groups = { page, plots, access, speed };
const browser = await launch();
const pages = new Pages(browser, makeReport);
const all = group ? groups[group] : Object.assign({}, ...Object.values(groups));

let failed = 0;
for (const [name, check] of Object.entries(all).filter(([name]) => name.includes(wanted))) {
  try {
    await check(pages);
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n        ${error.stack}`);
  }
}
await browser.close();
pages.remove();
process.exit(failed ? 1 : 0);
