/**
 * Lines in the host's log. Entry point: `log`.
 *
 * @module
 */

/** @import * as sdk from '../types/index.js' */

import { log as write } from '#host';
import { wellFormed } from './check.js';
import { printed as shown } from './errors.js';

/** @param {unknown} value */
const printed = (value) => wellFormed(shown(value));

/** @param {'debug' | 'info' | 'warn' | 'error'} level */
const at =
  (level) =>
  /**
   * @param {string} message
   * @param {sdk.Fields} [fields]
   */
  (message, fields = {}) => {
    write(
      level,
      printed(message),
      Object.entries(fields).map(([name, value]) => [printed(name), printed(value)]),
    );
  };

export const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };

// QuickJS has no console, but authors and libraries use one.
if (!('console' in globalThis)) {
  /** @param {'debug' | 'info' | 'warn' | 'error'} level */
  const joined =
    (level) =>
    /** @param {unknown[]} values */
    (...values) =>
      write(level, values.map(printed).join(' '), []);
  const console = { debug: joined('debug'), log: joined('info'), info: joined('info'), warn: joined('warn'), error: joined('error') };
  Object.assign(globalThis, { console });
}
