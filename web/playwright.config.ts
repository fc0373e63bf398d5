import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "tests",
  // Beside the packages, which no rule of the repository reads.
  outputDir: "node_modules/.test-results",
  // One server of two cores answers all of them.
  workers: 1,
  // Only a page that hangs takes as long: a busy machine does not.
  timeout: 300_000,
  expect: { timeout: 60_000 },
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 900 },
    launchOptions: {
      executablePath: "/usr/bin/chromium",
      // It asks nobody but the server under test.
      args: [
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-quic",
        "--disable-sync",
        "--no-first-run",
      ],
    },
  },
});
