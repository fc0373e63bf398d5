// A real server for each test file, and scripted replies for what the demo model would never say.
import { test as base } from "@playwright/test";
import type { Page } from "@playwright/test";
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The key that a server with keys knows. */
export const KEY = "a-key-of-the-tests";

/** Something the demo model gets right, greedily, and most of it by accepted drafts. */
export const QUESTION = "Repeat this text: Emma saw shoes, pears, flowers, eagle, yellow, wolf, bottles, cat, turtle, sheep, bear, stones in Cairo.";
export const ANSWER = "Emma saw shoes, pears, flowers, eagle, yellow, wolf, bottles, cat, turtle, sheep, bear, stones in Cairo.";

/** A chunk's choice, or an error. */
export type Piece = Record<string, unknown>;

interface World {
  /** The address of a server that everybody may ask. */
  server: string;
  /** The address of one that asks for `KEY`. */
  guarded: string;
}

export const test = base.extend<object, World>({
  server: [async ({}, use) => serving([], use), { scope: "worker" }],
  guarded: [
    async ({}, use) => {
      const file = join(mkdtempSync(join(tmpdir(), "forerunner-web-")), "keys");
      writeFileSync(file, `${KEY}\n`);
      await serving(["--api-key-file", file], use);
    },
    { scope: "worker" },
  ],
});

export { expect } from "@playwright/test";

/** Runs the binary for as long as it is used. Drafts are forced: a demo model this small gains too little by them. */
async function serving(flags: string[], use: (address: string) => Promise<void>): Promise<void> {
  const binary = process.env["FORERUNNER"] ?? "../target/debug/forerunner";
  const child = spawn(binary, ["serve", "--port", "0", "--force-drafts", "--context", "4096", ...flags]);
  const address = await new Promise<string>((resolve, reject) => {
    let told = "";
    child.stderr.on("data", (bytes: Buffer) => {
      told += bytes.toString();
      const match = /listening on (http:\S+)\n/.exec(told);
      if (match) {
        resolve(match[1]!);
      }
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`${binary} ended with ${code}: ${told}`)));
  });
  try {
    await use(address);
  } finally {
    child.kill();
  }
}

/** Answers the page's next requests with these pieces, `pause` apart, and tells what was asked. */
export async function script(page: Page, pieces: Piece[], pause = 0): Promise<Piece[]> {
  const asked: Piece[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (bytes: Buffer) => (body += bytes.toString()));
    request.on("end", async () => {
      asked.push(JSON.parse(body) as Piece);
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const piece of pieces) {
        const chunk = "error" in piece || "choices" in piece ? piece : { choices: [{ index: 0, ...piece }] };
        response.write(`data: ${JSON.stringify(chunk)}\n\n`);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
      response.end("data: [DONE]\n\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await page.route("**/v1/chat/completions", (route) => {
    return route.continue({ url: `http://127.0.0.1:${port}/` });
  });
  page.on("close", () => server.close());
  return asked;
}

/** A piece of text. */
export function text(content: string): Piece {
  return { delta: { content } };
}

/** Opens the page with greedy sampling, and waits until it can be used. */
export async function open(page: Page, server: string): Promise<void> {
  await page.addInitScript(() => {
    if (!localStorage.getItem("forerunner-settings")) {
      localStorage.setItem("forerunner-settings", JSON.stringify({ sampling: { temperature: "0" } }));
    }
  });
  await page.goto(server);
  await page.getByText("demo", { exact: true }).waitFor();
}

/** Says something as a person would. */
export async function say(page: Page, content: string): Promise<void> {
  await page.getByLabel("Message").fill(content);
  await page.getByRole("button", { name: "Send" }).click();
}

/** The last reply. */
export function reply(page: Page) {
  return page.getByRole("article", { name: "Reply" }).last();
}
