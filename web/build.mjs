// Bundles src/ into the files that `icecore report` puts into a page. Run with `npm run build`; `npm run check` tells
// whether the files that are checked in are this bundle, byte for byte.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "src", "icecore", "page", "static");

// A hash of everything the bundle is made from. A test compares it with the bundle that is checked in.
function sourcesHash() {
  const files = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash("sha256");
  for (const path of [...files, join(here, "build.mjs"), join(here, "package-lock.json")].sort()) {
    hash.update(`${relative(here, path).replaceAll("\\", "/")}\n`).update(readFileSync(path));
  }
  return hash.digest("hex").slice(0, 16);
}

// The licences of the libraries in a bundle, each text once, since every page is a copy of them.
function licences(metafile) {
  const names = new Set(
    Object.keys(metafile.inputs).map((path) => path.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1]).filter(Boolean),
  );
  const byText = new Map();
  for (const name of [...names].sort()) {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "license"].map((each) => join(folder, each)).find(existsSync);
    if (!file) throw new Error(`${name} ${version} (${license}) has no licence file: add its text here`);
    const text = readFileSync(file, "utf8").trim().replaceAll("*/", "* /");
    byText.set(text, [...(byText.get(text) ?? []), `${name} ${version}`]);
  }
  return [...byText].map(([text, packages]) => `${packages.join(", ")}\n\n${text}`).join(`\n\n${"-".repeat(40)}\n\n`);
}

const result = await build({
  entryPoints: [join(here, "src", "main.jsx")],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none", // the whole licences stand above the bundle
  metafile: true,
  write: false,
  outdir: out,
  absWorkingDir: here,
});
const isCheck = process.argv.includes("--check");
mkdirSync(out, { recursive: true });
for (const file of result.outputFiles) {
  const kind = file.path.endsWith(".css") ? "css" : "js";
  const head = `/*! The page of icecore, built from web/ (sources ${sourcesHash()}).`;
  const notice = kind === "js" ? `${head} It holds these libraries:\n\n${licences(result.metafile)}\n*/\n` : `${head} */\n`;
  const target = join(out, `page.${kind}`);
  if (!isCheck) writeFileSync(target, notice + file.text);
  else if (readFileSync(target, "utf8") !== notice + file.text) throw new Error(`${target} is not what web/ builds: run npm run build`);
  console.log(`page.${kind}: ${Math.round((notice.length + file.text.length) / 1024)} KiB`);
}
