/** Random numbers of a component. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { begun, fresh } from '../src/random.js';

/** @param {number} last */
const seed = (last) => () => new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);

test('numbers are the engine’s until there is a host, and then differ with its seed', () => {
  let asked = 0;
  const random = fresh(
    () => 7,
    () => {
      asked += 1;
      return seed(1)();
    },
  );
  assert.equal(random(), 7);
  assert.equal(asked, 0, 'a build has no host');
  begun();
  const draw = (/** @type {() => number} */ from) => Array.from({ length: 1000 }, from);
  const [one, same, other] = [draw(random), draw(fresh(Math.random, seed(1))), draw(fresh(Math.random, seed(2)))];
  assert.equal(asked, 1);
  assert.deepEqual(one, same);
  assert.equal(new Set([...one, ...other]).size, 2000);
  assert.ok(one.every((number) => number >= 0 && number < 1));
  const mean = one.reduce((sum, number) => sum + number) / one.length;
  assert.ok(Math.abs(mean - 0.5) < 0.05, `a mean of ${mean}`);
});
