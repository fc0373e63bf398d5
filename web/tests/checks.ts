// What must hold of the page. Each is also run on a page with a planted fault, which it must find.
import { expect } from "@playwright/test";
import type { Page } from "@playwright/test";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { ANSWER, QUESTION, open, reply, say, script, text } from "./world.js";

/** A question gets the demo model's known answer. A page that is known to be broken gets less `patience`. */
export async function answers(page: Page, server: string, patience = 60_000): Promise<void> {
  page.setDefaultTimeout(patience);
  await open(page, server);
  await say(page, QUESTION);
  await expect(reply(page).locator(".markdown")).toHaveText(ANSWER, { timeout: patience });
}

const HOSTILE = [
  `<script>window.broken = "script"</script>`,
  `<img src="x" onerror="window.broken = 'image'">`,
  `<iframe src="javascript:parent.broken = 'frame'"></iframe>`,
  `[a link](javascript:window.broken='link') and [another](JaVaScRiPt:window.broken='case')`,
  `[with a tab](java&#9;script:window.broken='tab') [data](data:text/html,<script>parent.broken=1</script>)`,
  `![an image](https://127.0.0.1:9/leak.png) <style>body { display: none }</style>`,
  "```html\n<script>window.broken = 'fence'</script>\n```",
  `<a href="vbscript:x">x</a> <svg onload="window.broken='svg'"><math><mi xlink:href="javascript:1">`,
  `[fine](https://example.com/a?b=c)`,
].join("\n\n");

/** What a hostile model says is shown, and does nothing. */
export async function isInert(page: Page, server: string): Promise<void> {
  const foreign: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(server)) {
      foreign.push(request.url());
    }
  });
  await open(page, server);
  await script(page, [text(HOSTILE), { delta: {}, finish_reason: "stop" }]);
  await say(page, "Be hostile.");
  const shown = reply(page).locator(".markdown");
  await expect(shown).toContainText("window.broken = \"script\"");
  await expect(shown).toContainText("onerror=");
  const hrefs = await shown.locator("a").evaluateAll((links) => links.map((link) => (link as HTMLAnchorElement).href));
  expect(hrefs).toEqual(["https://127.0.0.1:9/leak.png", "https://example.com/a?b=c"]);
  expect(await shown.locator("script, img, iframe, style, svg, math, object, embed, form").count()).toBe(0);
  for (const link of await shown.locator(".unlinked").all()) {
    await link.click();
  }
  expect(await page.evaluate(() => (window as { broken?: string }).broken)).toBeUndefined();
  expect(foreign).toEqual([]);
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** No rule of axe is broken in what is shown now. */
export async function isAccessible(page: Page): Promise<void> {
  await page.evaluate(AXE);
  const violations = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: typeof import("axe-core") };
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
  });
  expect(violations).toEqual([]);
}

/** The page is no wider than the screen. */
export async function fits(page: Page): Promise<void> {
  const wider = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    return [...document.querySelectorAll("body *")]
      .filter((element) => element.getBoundingClientRect().right > width + 0.5)
      .filter((element) => !element.closest(".code pre, .table, .call pre, .hidden"))
      .map((element) => element.outerHTML.slice(0, 80));
  });
  expect(wider).toEqual([]);
}
