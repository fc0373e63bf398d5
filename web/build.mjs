// Builds the page into the server crate's assets, which are committed so that building the server needs no Node.js.
//
//   node build.mjs           writes the assets
//   node build.mjs --check   compares them with what the sources give, and writes nothing
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "../crates/server/assets");

/** Most bytes of all assets together: the page is carried by every binary. */
const MOST_BYTES = 200 * 1024;

const result = await esbuild.build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: "out",
  bundle: true,
  write: false,
  minify: true,
  metafile: true,
  format: "iife",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  // Not "browser": there a dependency decodes HTML entities through innerHTML, which the page's policy forbids.
  platform: "neutral",
  mainFields: ["module", "main"],
  alias: { "decode-named-character-reference": "./src/entities.ts" },
});

const built = new Map([
  ["index.html", readFileSync(join(here, "src/index.html"), "utf8")],
  ["icon.svg", readFileSync(join(here, "src/icon.svg"), "utf8")],
  ["licences.txt", licences(Object.keys(result.metafile.inputs))],
]);
for (const file of result.outputFiles) {
  built.set(file.path.split(/[\\/]/).at(-1), file.text);
}

const size = [...built.values()].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
if (size > MOST_BYTES) {
  fail(`the assets have ${size} bytes; accepted: at most ${MOST_BYTES}`);
}
if (process.argv.includes("--check")) {
  for (const [name, text] of built) {
    const path = join(assets, name);
    if (!existsSync(path) || readFileSync(path, "utf8") !== text) {
      fail(`crates/server/assets/${name} is not what web/src gives: run "npm run build" in web and commit it`);
    }
  }
  console.log(`${built.size} assets of ${size} bytes are what the sources give`);
} else {
  mkdirSync(assets, { recursive: true });
  for (const [name, text] of built) {
    writeFileSync(join(assets, name), text);
    const digest = createHash("sha256").update(text).digest("hex").slice(0, 12);
    console.log(`${String(Buffer.byteLength(text)).padStart(7)} ${digest} ${name}`);
  }
}

/** The licences of the packages that the script contains parts of, each text once. */
function licences(inputs) {
  const found = inputs.map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]);
  const texts = new Map();
  for (const name of [...new Set(found.filter(Boolean))].sort()) {
    const { label, text } = licence(name);
    texts.set(text, [...(texts.get(text) ?? []), label]);
  }
  return [...texts].map(([text, labels]) => `${labels.join("\n")}\n\n${text}\n`).join(`\n${"-".repeat(80)}\n\n`);
}

function licence(name) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).sort().find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry));
  if (license !== "MIT") {
    fail(`${name} has the licence ${license}; accepted: MIT`);
  }
  if (!file) {
    fail(`${name} has no licence file`);
  }
  const text = readFileSync(join(folder, file), "utf8").replace(/[ \t\r]+$/gm, "").trim();
  return { label: `${name} ${version}`, text };
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
