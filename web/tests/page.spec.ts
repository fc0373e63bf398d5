// The page in a browser, over the real server with the demo model.
import type { Page } from "@playwright/test";
import { answers, fits, isAccessible, isInert } from "./checks.js";
import { ANSWER, KEY, QUESTION, expect, open, reply, say, script, test, text } from "./world.js";

/** Pieces of a reply that has everything that a reply can have. */
const RICH = [
  { delta: { reasoning_content: "A plan is asked for. " } },
  {
    delta: { content: "# A plan\n\n1. Read **it** `once`.\n2. Read it again.\n\n" },
    token_origins: [
      { text: "# A plan\n\n1. Read **it**", origin: "draft" },
      { text: " `once`.\n2. Read", origin: "copy" },
      { text: " it again.\n\n", origin: "bonus" },
    ],
  },
  { delta: { content: "| a | b |\n|---|--:|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n\n> quoted\n\n[a link](https://example.com)" } },
  { delta: { tool_calls: [{ index: 0, id: "call_1", function: { name: "get_weather", arguments: "" } }] } },
  { delta: { tool_calls: [{ index: 0, function: { arguments: '{"city": "Par' } }] } },
  { delta: { tool_calls: [{ index: 0, function: { arguments: 'is"}' } }] } },
  { delta: {}, finish_reason: "tool_calls" },
  {
    choices: [],
    usage: { prompt_tokens: 24, completion_tokens: 40, prompt_tokens_details: { cached_tokens: 16 } },
    forerunner: {
      draft_n: 20,
      draft_n_accepted: 15,
      draft_rounds: 5,
      rounds: 9,
      tokens_per_round: 4.44,
      draft_off_reason: "the guard measured plain rounds as faster",
      prompt_ms: 12,
      decode_ms: 100,
    },
  },
];

async function richReply(page: Page, server: string): Promise<Record<string, unknown>[]> {
  await open(page, server);
  const asked = await script(page, RICH);
  await say(page, "Make a plan.");
  await expect(reply(page).getByText("4.44")).toBeVisible();
  return asked;
}

test("a question gets the demo model's known answer, with how it went", async ({ page, server }) => {
  await answers(page, server);
  const figures = reply(page).locator(".figures");
  await expect(figures).toContainText("tok/s");
  await expect(figures).toContainText("Tokens a round");
  await expect(figures).toContainText(/\d+ of \d+, \d+%/);
  await expect(page.getByRole("status", { name: "Reply" })).toContainText("End of reply.");
});

test("with and without drafts the text is equal, and the page says so", async ({ page, server }) => {
  await answers(page, server);
  const drafts = page.getByRole("switch", { name: "Drafts" });
  await expect(drafts).toHaveAttribute("aria-checked", "true");
  await drafts.click();
  const asked = page.waitForRequest("**/v1/chat/completions");
  await page.getByRole("button", { name: "Regenerate" }).click();
  expect((await asked).postDataJSON()).toMatchObject({ draft: false, temperature: 0 });
  await expect(reply(page).locator(".figures")).toContainText("none made");
  await expect(reply(page).locator(".markdown")).toHaveText(ANSWER);
  await reply(page).getByRole("button", { name: "Compare with drafts" }).click();
  await expect(reply(page).locator(".comparison")).toContainText("Same text with drafts");
});

test("two sampled replies of one seed are equal, drafted and plain", async ({ page, server }) => {
  await open(page, server);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Temperature").fill("0.8");
  await page.getByRole("button", { name: "Done" }).click();
  await say(page, QUESTION);
  await reply(page).getByRole("button", { name: "Compare without drafts" }).click();
  await expect(reply(page).locator(".comparison")).toContainText("Same text without drafts");
});

test("texts that differ are told apart", async ({ page, server }) => {
  await open(page, server);
  await script(page, [text("One text."), { delta: {}, finish_reason: "stop" }]);
  await say(page, "Say something.");
  await expect(reply(page).getByRole("button", { name: "Compare without drafts" })).toBeVisible();
  await page.unroute("**/v1/chat/completions");
  await script(page, [text("One test."), { delta: {}, finish_reason: "stop" }]);
  await reply(page).getByRole("button", { name: "Compare without drafts" }).click();
  await expect(reply(page).locator(".comparison")).toContainText("The text differs without drafts. From character 7 on.");
});

test("a stopped reply keeps what it had, and the conversation goes on", async ({ page, server }) => {
  await open(page, server);
  await script(page, Array.from({ length: 500 }, (_, word) => text(`word${word} `)), 20);
  await say(page, "Go on and on.");
  await expect(reply(page)).toContainText("word3");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(reply(page)).toContainText("Stopped.");
  await expect(reply(page).locator(".markdown")).toContainText("word0 word1");
  await page.unroute("**/v1/chat/completions");
  await say(page, QUESTION);
  await expect(reply(page).locator(".markdown")).not.toBeEmpty();
});

test("a reply has its thought folded, its tool call shown, and takes the tool's result", async ({ page, server }) => {
  const asked = await richReply(page, server);
  const thought = reply(page).getByText("A plan is asked for.");
  await expect(thought).toBeHidden();
  await reply(page).getByText("Thought").click();
  await expect(thought).toBeVisible();
  await expect(reply(page).getByLabel("Arguments of get_weather")).toHaveText('{ "city": "Paris" }');
  await page.getByLabel("Result of get_weather").fill("18 degrees");
  await page.getByRole("button", { name: "Send result" }).click();
  await expect.poll(() => asked.length).toBe(2);
  expect((asked[1]!["messages"] as unknown[]).slice(1)).toMatchObject([
    { role: "assistant", tool_calls: [{ id: "call_1", function: { name: "get_weather", arguments: '{"city": "Paris"}' } }] },
    { role: "tool", content: "18 degrees", tool_call_id: "call_1" },
  ]);
});

test("tokens are tinted by where they came from, wherever Markdown puts them", async ({ page, server }) => {
  await richReply(page, server);
  const texts = (origin: string) => reply(page).locator(`.token.${origin}`).allTextContents();
  expect(await texts("draft")).toEqual(["A plan", "Read ", "it"]);
  expect(await texts("copy")).toEqual([" ", "once", ".", "Read"]);
  expect(await texts("bonus")).toEqual([" it again."]);
  await expect(reply(page).getByRole("list", { name: "Where the tokens came from" })).toHaveText(
    "draft accepted 1bonus 1copied 1",
  );
  await page.getByRole("switch", { name: "Tint tokens" }).click();
  await expect(reply(page).locator(".token")).toHaveCount(0);
});

test("settings are sent with a request and kept", async ({ page, server }) => {
  await open(page, server);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("System prompt").fill("Be brief.");
  await page.getByLabel("Top-p").fill("0.9");
  await page.getByLabel("Seed").fill("17");
  await page.getByLabel("Most tokens").fill("5");
  await page.getByRole("button", { name: "Fill in an example" }).click();
  await page.keyboard.press("Escape");
  await page.reload();
  const asked = page.waitForRequest("**/v1/chat/completions");
  await say(page, "Hello!");
  expect((await asked).postDataJSON()).toMatchObject({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello!" },
    ],
    stream: true,
    draft: true,
    top_p: 0.9,
    seed: 17,
    max_tokens: 5,
    tools: [{ function: { name: "get_weather" } }],
  });
  await expect(reply(page).locator(".figures")).toBeVisible();
  // The conversation is kept for the tab, and a reply that was running has been stopped.
  await page.reload();
  await expect(reply(page).locator(".figures")).toBeVisible();
  await script(page, Array.from({ length: 500 }, () => text("on and ")), 20);
  await say(page, "Go on.");
  await expect(reply(page)).toContainText("on and");
  await page.reload();
  await expect(reply(page)).toContainText("Stopped.");
});

test("what the server refuses is told in its words", async ({ page, server }) => {
  await open(page, server);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Temperature").fill("-1");
  await page.getByRole("button", { name: "Done" }).click();
  await say(page, "Hello!");
  await expect(reply(page).getByRole("alert")).toContainText("temperature");
  await expect(reply(page).getByRole("button", { name: "Try again" })).toBeVisible();
});

test("an error in the middle of a reply is told, and so is a server that is gone", async ({ page, server }) => {
  await open(page, server);
  await script(page, [text("So far "), { error: { message: "the device failed" } }]);
  await say(page, "Hello!");
  await expect(reply(page).getByRole("alert")).toHaveText("the device failed");
  await expect(reply(page).locator(".markdown")).toHaveText("So far");
  await page.route("**/v1/chat/completions", (route) => route.abort());
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(reply(page).getByRole("alert")).toHaveText("The server cannot be reached.");
  await page.route("**/metrics", (route) => route.abort());
  await expect(page.getByLabel("Engine", { exact: true }).getByRole("alert")).toContainText("cannot be reached");
});

test("tools that are no JSON are refused before they are sent", async ({ page, server }) => {
  await open(page, server);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Tools, as a JSON list").fill("[{");
  await page.getByRole("button", { name: "Done" }).click();
  await say(page, "Hello!");
  await expect(reply(page).getByRole("alert")).toContainText("no JSON");
});

test("the charts move with the server", async ({ page, server }) => {
  await answers(page, server);
  const panel = page.getByLabel("Engine", { exact: true });
  await expect(panel.locator("canvas")).toHaveCount(4);
  await expect(panel.getByLabel("Rounds by kind")).toContainText(/drafted [1-9]/);
  await expect(panel.getByLabel("Acceptance by position")).toContainText(/\d+% accepted at position1/);
  await expect(panel.locator("figure", { hasText: "Replies" })).toContainText("of 16 running");
  const drawn = () =>
    panel.locator("canvas").first().evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  const before = await drawn();
  await say(page, QUESTION);
  await expect.poll(drawn).not.toBe(before);
});

test("a server with keys gets one, for this tab alone", async ({ page, guarded }) => {
  await page.goto(guarded);
  await page.getByRole("heading", { name: "This server asks for an API key" }).waitFor();
  await isAccessible(page);
  await page.getByLabel("API key").fill("a wrong one");
  await page.getByRole("button", { name: "Use this key" }).click();
  await expect(page.getByRole("alert")).toHaveText("The server does not know this key.");
  await page.getByLabel("API key").fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByText("demo", { exact: true }).waitFor();
  await say(page, QUESTION);
  await expect(reply(page).locator(".figures")).toBeVisible();
  await page.reload();
  await page.getByText("demo", { exact: true }).waitFor();
  expect(await page.evaluate(() => [JSON.stringify(localStorage).includes("a-key"), sessionStorage["forerunner-api-key"]])).toEqual([false, `"${KEY}"`]);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByRole("button", { name: "Forget the API key" }).click();
  await page.getByRole("button", { name: "Done" }).click();
  await expect(page.getByRole("heading", { name: "This server asks for an API key" })).toBeVisible();
});

for (const scheme of ["light", "dark"] as const) {
  test(`no accessibility rule is broken, ${scheme}`, async ({ page, server }) => {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await open(page, server);
    await isAccessible(page);
    await richReply(page, server);
    await reply(page).getByText("Thought").click();
    await isAccessible(page);
    await page.getByRole("button", { name: "Settings" }).click();
    await isAccessible(page);
  });
}

test("the theme follows the system until it is switched", async ({ page, server }) => {
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await page.emulateMedia({ colorScheme: "dark" });
  await open(page, server);
  const dark = await background();
  await page.emulateMedia({ colorScheme: "light" });
  await expect.poll(background).not.toBe(dark);
  await page.getByRole("button", { name: "Dark theme" }).click();
  await expect.poll(background).toBe(dark);
  await page.reload();
  await expect.poll(background).toBe(dark);
  await expect(page.getByRole("button", { name: "Light theme" })).toBeVisible();
});

test("everything can be done by keyboard", async ({ page, server }) => {
  await open(page, server);
  await expect(page.getByLabel("Message")).toBeFocused();
  await page.keyboard.type(QUESTION);
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Enter");
  await expect(reply(page).locator(".markdown")).toHaveText(ANSWER);
  await expect(page.getByLabel("Message")).toBeFocused();
  const reach = async (name: string) => {
    for (let presses = 0; presses < 40; presses += 1) {
      const outline = await page.evaluate((name) => {
        const focused = document.activeElement!;
        const isIt = [focused.getAttribute("aria-label"), focused.textContent].includes(name);
        return isIt ? getComputedStyle(focused).outlineStyle : undefined;
      }, name);
      if (outline) {
        expect(outline, `${name} shows that it has the focus`).not.toBe("none");
        return;
      }
      await page.keyboard.press("Shift+Tab");
    }
    throw new Error(`${name} is not reached`);
  };
  await reach("Compare without drafts");
  await page.keyboard.press("Enter");
  await expect(reply(page).locator(".comparison")).toContainText("Same text");
  await expect(page.getByRole("button", { name: "Compare without drafts" })).toBeFocused();
  await reach("Settings");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
  await reach("New chat");
  await page.keyboard.press("Space");
  await expect(page.getByRole("heading", { name: "The same text, sooner." })).toBeVisible();
  await expect(page.getByLabel("Message")).toBeFocused();
});

test("Escape stops a reply", async ({ page, server }) => {
  await open(page, server);
  await script(page, Array.from({ length: 500 }, () => text("on and ")), 20);
  await say(page, "Go on.");
  await expect(reply(page)).toContainText("on and");
  await page.keyboard.press("Escape");
  await expect(reply(page)).toContainText("Stopped.");
});

test("a narrow screen has everything", async ({ page, server }) => {
  await page.setViewportSize({ width: 360, height: 640 });
  await page.goto(server);
  await fits(page);
  await script(page, RICH);
  await say(page, "Make a plan with averyveryverylongwordthatnobodywouldeverbreakanywhereatall.");
  await expect(reply(page).getByText("4.44")).toBeVisible();
  await fits(page);
  await page.getByRole("button", { name: "Engine charts" }).click();
  await expect(page.getByLabel("Engine", { exact: true }).locator("canvas").first()).toBeVisible();
  await fits(page);
  await isAccessible(page);
  await page.getByRole("button", { name: "Engine charts" }).click();
  await page.getByRole("button", { name: "Settings" }).click();
  await fits(page);
});

test("what a hostile model says is inert", async ({ page, server }) => {
  await isInert(page, server);
});

test("a reply that nests without end, or is very long, does not hang the page", async ({ page, server }) => {
  await open(page, server);
  await script(page, [text(`${">".repeat(5000)} deep\n\n${"[".repeat(3000)}\n\n`), text("* ".repeat(2000)), { delta: {}, finish_reason: "stop" }]);
  await say(page, "Nest.");
  await expect(reply(page)).toContainText("deep");
  await expect(page.getByRole("button", { name: "Send" })).toBeVisible();
});
