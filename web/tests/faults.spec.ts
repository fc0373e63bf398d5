// Planted faults: pages that are broken on purpose, which the checks must not pass.
import type { Page } from "@playwright/test";
import { answers, fits, isAccessible, isInert } from "./checks.js";
import { expect, open, test } from "./world.js";

/** Serves an asset with one text in it replaced. */
async function plant(page: Page, asset: string, found: string, fault: string): Promise<void> {
  await page.route(`**/assets/${asset}`, async (route) => {
    const response = await route.fetch();
    const body = await response.text();
    expect(body, `${asset} has something to break`).toContain(found);
    await route.fulfill({ response, body: body.replaceAll(found, fault) });
  });
}

const FAULTS: [string, string, string, string][] = [
  ["a script that does not parse", "app.js", "(()=>{", "(()=>{{"],
  ["a script that reads no events", "app.js", '"data:"', '"date:"'],
  ["a script that never ends a reply", "app.js", '"/v1/chat/completions"', '"/v1/completions"'],
];

for (const [name, asset, found, fault] of FAULTS) {
  test(`${name} is caught`, async ({ page, server }) => {
    await plant(page, asset, found, fault);
    await expect(answers(page, server, 5000)).rejects.toThrow("Timeout");
  });
}

test("links to scripts are caught", async ({ page, server }) => {
  await plant(page, "app.js", '"mailto:"]', '"mailto:","javascript:"]');
  await expect(isInert(page, server)).rejects.toThrow("javascript:");
});

test("text without contrast is caught", async ({ page, server }) => {
  await plant(page, "app.css", "--muted: light-dark(#68635b", "--muted: light-dark(#b8b3ab");
  await open(page, server);
  await expect(isAccessible(page)).rejects.toThrow("color-contrast");
});

test("a page that is wider than the screen is caught", async ({ page, server }) => {
  await plant(page, "app.css", "max-width:46rem", "min-width:46rem");
  await page.setViewportSize({ width: 360, height: 640 });
  await page.goto(server);
  await expect(fits(page)).rejects.toThrow();
});
