// Bundles src/ into dist/: one script and one style sheet, not minified beyond white space so that a page can be read.
import { build } from "esbuild";

await build({
  entryPoints: { viewer: "src/main.ts" },
  bundle: true,
  format: "iife",
  target: "es2022",
  minifyWhitespace: true,
  minifySyntax: true,
  charset: "ascii",
  legalComments: "none",
  outdir: "dist",
  logLevel: "warning",
});
await build({
  entryPoints: { viewer: "src/style/page.css" },
  bundle: true,
  minifyWhitespace: true,
  charset: "utf8",
  outdir: "dist",
  logLevel: "warning",
});
