// tests/report/picture.mjs PAGE.html OUT.png [WIDTH [light|dark [full|noscript]]] - a picture of a report
import { address, launch } from "./browser.mjs";

const [page, out, width = "1280", scheme = "light", full] = process.argv.slice(2);
const browser = await launch();
const tab = await browser.newPage({ viewport: { width: Number(width), height: 900 },
  colorScheme: scheme, javaScriptEnabled: full !== "noscript" });
tab.on("console", (message) => console.log(message.type(), message.text()));
tab.on("pageerror", (error) => console.log("error", error.message));
await tab.goto(address(page));
await tab.screenshot({ path: out, fullPage: full !== undefined });
await browser.close();
