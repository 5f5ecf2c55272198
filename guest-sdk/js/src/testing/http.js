/**
 * What a test answers for a server. Entry point: `rawAnswer`.
 *
 * @module
 */

/** @import { RawHttpResponse } from '../../types/contract.js' */

import * as check from '../check.js';
import { CONTENTS, contents } from '../message.js';

/**
 * An answer in the contract's form.
 *
 * @param {string} what
 * @param {unknown} answer
 * @returns {RawHttpResponse}
 */
export function rawAnswer(what, answer) {
  if (typeof (/** @type {any} */ (answer)?.then) === 'function') throw new TypeError(`${what} is a promise: answer with a plain function`);
  const { status = 200, ...given } = check.bag(what, check.record(what, answer), ['status', ...CONTENTS]);
  const { headers, body } = contents(given);
  return { status: check.whole('status', status), headers: headers.map(([name, value]) => [name.toLowerCase(), value]), body };
}
