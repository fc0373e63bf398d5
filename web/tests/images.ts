// Pictures of the page with a drafted reply of the demo model, light and dark.
import { ANSWER, QUESTION, expect, open, reply, say, test } from "./world.js";

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme, viewport: { width: 1180, height: 720 } });

    test("the page", async ({ page, server }) => {
      await open(page, server);
      await say(page, QUESTION);
      await expect(reply(page).locator(".markdown")).toHaveText(ANSWER);
      await expect(reply(page).locator(".figures")).toContainText("Tokens a round");
      await page.screenshot({ path: `../docs/images/page-${colorScheme}.png`, animations: "disabled" });
    });
  });
}
