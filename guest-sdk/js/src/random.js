/**
 * `Math.random` in a component. A build keeps the memory of the engine, and in it the state of the engine's generator: every instance would
 * draw the same numbers. So an instance has a generator of its own, whose seed is of the host. Entry points: `fresh`, and `begun` at the first
 * call of the host.
 *
 * @module
 */

import { seed } from '#host';

let hasBegun = false;

/** From now on there is a host to ask. While a build loads the guest there is none, and the engine's numbers must do. */
export function begun() {
  hasBegun = true;
}

/**
 * Draws as the engine does until there is a host, and then from a generator with a seed of the host, which is asked at the first draw.
 *
 * @param {() => number} engine
 * @param {() => Uint8Array} seed 16 bytes
 * @returns {() => number}
 */
export function fresh(engine, seed) {
  /** @type {(() => number) | undefined} */
  let draw;
  return () => {
    if (!hasBegun) return engine();
    draw ??= generator(new Uint32Array(Uint8Array.from(seed()).buffer));
    return draw();
  };
}

/**
 * The generator sfc32: numbers from 0 to 1, without 1, with 53 bits.
 *
 * @param {Uint32Array} state four words
 */
function generator(state) {
  const word = () => {
    const [a, b, c, count] = state;
    const next = (a + b + count) >>> 0;
    state.set([b ^ (b >>> 9), c + (c << 3), ((c << 21) | (c >>> 11)) + next, count + 1]);
    return next;
  };
  // What a seed has in one word alone is then in all of them.
  for (let left = 12; left > 0; left--) word();
  return () => ((word() >>> 5) * 2 ** 26 + (word() >>> 6)) / 2 ** 53;
}

if (seed) Math.random = fresh(Math.random, seed);
