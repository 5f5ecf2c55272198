/**
 * How calls and reconciles fail. Entry points: `ApiError`, `HttpStatusError`, `TerminalError`, `NotReady`, and `explain`, which makes the message for the
 * host.
 *
 * @module
 */

/** @import { RawApiError } from '../types/contract.js' */
/** @import * as sdk from '../types/index.js' */

import * as check from './check.js';

/** How many nested causes are shown; an error may be its own cause. */
const CAUSES = 8;

export class ApiError extends Error {
  /** @param {ConstructorParameters<typeof sdk.ApiError>[0]} of */
  constructor({ code, message, status = 0, reason = code, details, retryAfter }) {
    super(message);
    /** @type {'ApiError'} */
    this.name = 'ApiError';
    this.code = code;
    this.status = status;
    this.reason = reason;
    this.details = details;
    this.retryAfter = retryAfter;
  }
}

export class HttpStatusError extends Error {
  /**
   * @param {string} message
   * @param {number} status
   * @param {number} [retryAfterMs]
   */
  constructor(message, status, retryAfterMs) {
    super(message);
    /** @type {'HttpStatusError'} */
    this.name = 'HttpStatusError';
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

export class TerminalError extends Error {
  /**
   * @param {string | Error} message
   * @param {ErrorOptions} [options]
   */
  constructor(message, options) {
    super(message instanceof Error ? explain(message) : message, options);
    /** @type {'TerminalError'} */
    this.name = 'TerminalError';
  }
}

export class Retry extends Error {
  /**
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(message, options) {
    super(message, options);
    /** @type {'Retry'} */
    this.name = 'Retry';
  }
}

export class NotReady extends Error {
  /**
   * @param {string} message
   * @param {sdk.Delay} after
   */
  constructor(message, after) {
    super(message);
    /** @type {'NotReady'} */
    this.name = 'NotReady';
    this.after = milliseconds(after);
  }
}

const UNITS = { hours: 3_600_000, minutes: 60_000, seconds: 1_000, milliseconds: 1 };

/**
 * A delay in whole milliseconds that the contract can carry.
 *
 * @param {sdk.Delay} delay
 */
export function milliseconds(delay) {
  let sum = delay;
  if (typeof delay === 'object') {
    const given = check.bag('a delay', delay, Object.keys(UNITS));
    sum = Object.entries(UNITS).reduce((total, [unit, worth]) => total + check.number(unit, given[unit] ?? 0) * worth, 0);
  }
  return check.whole('requeueAfter', typeof sum === 'number' ? Math.min(Math.ceil(sum), check.MOST) : sum);
}

/**
 * The error for an api-error of the contract.
 *
 * @param {RawApiError} raw
 */
export function apiError({ code, httpStatus, reason, message, details, retryAfterMs }) {
  return new ApiError({ code, message, status: httpStatus, reason, details: parsed(details), retryAfter: retryAfterMs ?? undefined });
}

/** @param {string | null | undefined} text */
function parsed(text) {
  if (text == null) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Calls the host, and throws its api-errors as `ApiError`.
 *
 * @template T
 * @param {() => T} call
 * @returns {T}
 */
export function calling(call) {
  try {
    return call();
  } catch (error) {
    const payload = /** @type {{ payload?: RawApiError } | undefined} */ (error)?.payload;
    throw typeof payload?.code === 'string' ? apiError(payload) : error;
  }
}

/**
 * A thrown value as text for people: with its class where the class helps, and with its causes.
 *
 * @param {unknown} thrown
 * @returns {string}
 */
export function explain(thrown) {
  const said = [];
  let next = thrown;
  for (let left = CAUSES; left > 0 && next != null; left--) {
    said.push(line(next));
    next = next instanceof Error ? next.cause : undefined;
  }
  return said.length > 0 ? said.join(': ') : `${thrown} was thrown`;
}

/** @param {unknown} thrown */
function line(thrown) {
  if (thrown instanceof ApiError) return `${thrown.code}: ${thrown.message}`;
  if (!(thrown instanceof Error)) return printed(thrown);
  const { name, message } = thrown;
  if (['Error', 'HttpStatusError', 'Retry', 'TerminalError'].includes(name)) return message;
  return message ? `${name}: ${message}` : name;
}

/**
 * A value as text: strings as they are, errors explained, everything else as JSON.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function printed(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return explain(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value); // a BigInt, or an object with a cycle
  }
}
