// tests/report/browser.mjs - Debian's Chromium through playwright-core; says why where it cannot
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { dirname, resolve } from "node:path";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
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
