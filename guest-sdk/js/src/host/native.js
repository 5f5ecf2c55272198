/**
 * The host's functions outside of a component: a script, a fleet of tests or `windlass dev` implements them. Entry point: `during`.
 *
 * @module
 */

/** @import { Host } from '../../types/contract.js' */

/** @type {Host | undefined} Calls are synchronous: there is one host at a time. */
let current;

/**
 * Runs `call` with these functions.
 *
 * @template T
 * @param {Host} host
 * @param {() => T} call
 * @returns {T}
 */
export function during(host, call) {
  const before = current;
  current = host;
  try {
    return call();
  } finally {
    current = before;
  }
}

/** @returns {Host} */
export function host() {
  if (!current)
    throw new Error('there is no host outside of a component: in a test, make the call through a Fleet or a Script of windlass-sdk/testing');
  return current;
}

/** @type {Host['config']} */
export const config = () => host().config();

/** @type {Host['log']} */
export const log = (level, message, fields) => host().log(level, message, fields);

/** @type {Host['now']} */
export const now = () => host().now();

/** @type {(() => Uint8Array) | undefined} The engine of a process has a generator of its own. */
export const seed = undefined;
