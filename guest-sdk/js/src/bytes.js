/**
 * Texts as UTF-8. The engine has neither TextEncoder nor TextDecoder. Entry points: `encoded` and `decoded`.
 *
 * Both go through a text that has a character for each byte, and leave the work to functions of the engine: a loop over a megabyte takes QuickJS
 * half a second, and its functions take some hundredths.
 *
 * @module
 */

import { wellFormed } from './check.js';

/** Functions of newer engines, QuickJS among them. */
const engine = /** @type {any} */ (Uint8Array);

/** Arguments of a call, of which an engine takes only so many. */
const AT_ONCE = 8192;

/** The longest start of each character that is not ASCII. What is no start is one byte. */
const SEQUENCES = new RegExp(
  [
    '[\\xc2-\\xdf][\\x80-\\xbf]?',
    '\\xe0(?:[\\xa0-\\xbf][\\x80-\\xbf]?)?',
    '[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{0,2}',
    '\\xed(?:[\\x80-\\x9f][\\x80-\\xbf]?)?',
    '\\xf0(?:[\\x90-\\xbf][\\x80-\\xbf]{0,2})?',
    '[\\xf1-\\xf3][\\x80-\\xbf]{0,3}',
    '\\xf4(?:[\\x80-\\x8f][\\x80-\\xbf]{0,2})?',
    '[\\x80-\\xff]',
  ].join('|'),
  'g',
);

/**
 * The bytes of a text. Half a character becomes U+FFFD.
 *
 * @param {string} text
 * @returns {Uint8Array}
 */
export function encoded(text) {
  const single = unescape(encodeURIComponent(wellFormed(text)));
  if (engine.fromBase64) return engine.fromBase64(btoa(single));
  return Uint8Array.from(single, (character) => character.charCodeAt(0));
}

/**
 * The text of bytes. What is no UTF-8 becomes U+FFFD.
 *
 * @param {Uint8Array} bytes
 */
export function decoded(bytes) {
  const single = singleOf(bytes);
  if (!/[\x80-\xff]/.test(single)) return single;
  try {
    return decodeURIComponent(escape(single));
  } catch {
    return single.replace(SEQUENCES, (sequence) => {
      try {
        return decodeURIComponent(escape(sequence));
      } catch {
        return '\ufffd';
      }
    });
  }
}

/**
 * A character for each byte.
 *
 * @param {Uint8Array} bytes
 * @returns {string}
 */
function singleOf(bytes) {
  if (engine.prototype.toBase64) return atob(/** @type {any} */ (bytes).toBase64());
  const parts = [];
  for (let at = 0; at < bytes.length; at += AT_ONCE) {
    parts.push(Reflect.apply(String.fromCharCode, undefined, bytes.subarray(at, at + AT_ONCE)));
  }
  return parts.join('');
}
