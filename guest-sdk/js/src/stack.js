/**
 * Stacks in lines of the author's files. Entry point: `frames`.
 *
 * @module
 */

/**
 * What a build writes at the end of a bundle: files, and runs of lines `[line of the bundle, how many, file, line of the file]`.
 *
 * @typedef {{ files: string[], runs: [number, number, number, number][] }} SourceLines
 */

/** How many frames are shown. */
const MOST = 8;

/**
 * The frames of a stack that are in the guest's own files, the innermost first: `at reconcile src/reconciler.ts:14`. None without a
 * build's lines.
 *
 * @param {string} stack
 * @returns {string[]}
 */
export function frames(stack) {
  const lines = /** @type {{ windlassSourceLines?: SourceLines }} */ (globalThis).windlassSourceLines;
  if (lines === undefined) return [];
  const own = [];
  for (const frame of stack.split('\n')) {
    // `at name (guest.js:3:14)`, `at guest.js:3:14`
    const [, name, bundled] = /at (?:(.*) \()?[^()]*?:(\d+)(?::\d+)?\)?$/.exec(frame) ?? [];
    const at = Number(bundled);
    const run = lines.runs.find(([first, many]) => first <= at && at < first + many);
    if (run === undefined) continue;
    const [first, , file, line] = run;
    own.push(`at ${name ? `${name} ` : ''}${lines.files[file]}:${line + at - first}`);
  }
  return own.slice(0, MOST);
}
