/**
 * What a guest has beside the language. There are no timers, no `fetch`, `TextEncoder`, `URL`, `Intl` and nothing of Node.js: tsconfig.json names this
 * file in `types`, instead of `node` and of the library `dom`.
 */

/** Writes lines to the host's log. */
interface Console {
  debug(...values: unknown[]): void;
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}

declare var console: Console;

/** The bytes of a text in Base64, each as a character. */
declare function atob(text: string): string;

/** A text in Base64, each character of which is a byte. */
declare function btoa(text: string): string;
