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

// Milliseconds that a wait may take: a busy machine takes longer than playwright's 30 s.
export const patience = 120000;

export const address = (path) => pathToFileURL(resolve(path)).href;

// The pages that make_report makes, each when it is first asked for.
export class Pages {
  constructor(browser, makeReport) {
    this.browser = browser;
    this.makeReport = makeReport;
    this.folder = mkdtempSync(join(tmpdir(), "bt-report-"));
    this.windows = new Map();
    this.troubles = [];
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

  // A window for pages that nothing of another visit may reach, or that need its own options.
  async window(options) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 },
      ...options });
    context.setDefaultTimeout(patience);
    return context;
  }

  // The tab in which visits with the same setting of scripts follow each other: a new window takes
  // as long as what it shows.
  async tab(javaScriptEnabled) {
    if (!this.windows.has(javaScriptEnabled)) {
      const context = await this.window({ javaScriptEnabled });
      const tab = await context.newPage();
      tab.on("console", (message) => this.troubles.push(`${message.type()}: ${message.text()}`));
      tab.on("pageerror", (error) => this.troubles.push(`error: ${error.message}`));
      tab.on("request", (request) => {
        if (!/^(file|data|about):/.test(request.url())) {
          this.troubles.push(`request: ${request.url()}`);
        }
      });
      this.windows.set(javaScriptEnabled, { context, tab });
    }
    return this.windows.get(javaScriptEnabled).tab;
  }

  // Opens a page; after `work` nothing may have been asked of the network, logged or thrown.
  async visit(kind, { viewport = { width: 1280, height: 900 }, colorScheme = "light",
    javaScriptEnabled = true }, work, hash = "") {
    const tab = await this.tab(javaScriptEnabled);
    try {
      await tab.goto("about:blank"); // another fragment alone would not load the page again
      await tab.mouse.move(0, 0);
      await tab.setViewportSize(viewport);
      await tab.emulateMedia({ media: null, colorScheme });
      this.troubles.length = 0;
      await tab.goto(address(this.path(kind)) + hash);
      await work(tab);
      assert.deepEqual(this.troubles, []);
    } catch (error) { // the next visit does not continue in a tab in an unknown state
      await this.windows.get(javaScriptEnabled).context.close();
      this.windows.delete(javaScriptEnabled);
      throw error;
    }
  }

  remove() {
    rmSync(this.folder, { recursive: true });
  }
}
