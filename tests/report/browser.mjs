// tests/report/browser.mjs - Debian's Chromium through playwright-core, without any network; and the
// pages of made-up runs, opened so that nothing may go wrong unseen
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const executable = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .find(existsSync);

// A skipped test: CTest knows the exit status.
export const skip = (reason) => {
  console.log(`skipped: ${reason}`);
  process.exit(77);
};

export const launch = async () => {
  const packages = resolve(root, "ci/web/node_modules/playwright-core");
  if (!existsSync(packages)) skip("playwright-core is not installed (ci/setup.sh test)");
  if (!executable) skip("chromium is not installed");
  const { chromium } = createRequire(import.meta.url)(packages);
  return chromium.launch({
    executablePath: executable,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
};

export const address = (path) => pathToFileURL(resolve(path)).href;

// The pages that make_report makes, each when it is first asked for.
export class Pages {
  constructor(browser, makeReport) {
    this.browser = browser;
    this.makeReport = makeReport;
    this.folder = mkdtempSync(join(tmpdir(), "bt-report-"));
  }

  path(kind) {
    const path = join(this.folder, `${kind}.html`);
    if (!existsSync(path)) {
      execFileSync(this.makeReport, [join(this.folder, `${kind}.sqlite`), kind, path]);
    }
    return path;
  }

  text(kind) {
    return readFileSync(this.path(kind), "utf8");
  }

  // Opens a page; after `work` nothing may have been asked of the network, logged or thrown.
  async visit(kind, options, work, hash = "") {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 },
      ...options });
    const tab = await context.newPage();
    const troubles = [];
    tab.on("console", (message) => troubles.push(`${message.type()}: ${message.text()}`));
    tab.on("pageerror", (error) => troubles.push(`error: ${error.message}`));
    tab.on("request", (request) => {
      if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) {
        troubles.push(`request: ${request.url()}`);
      }
    });
    await tab.goto(address(this.path(kind)) + hash);
    await work(tab);
    await context.close();
    assert.deepEqual(troubles, []);
  }

  remove() {
    rmSync(this.folder, { recursive: true });
  }
}
