/**
 * The host's functions inside a component: the imports of every world. Bundlers that do not build for node
 * take this file for `#host`. They keep the imports, for componentize-qjs.
 *
 * @module
 */

import { now } from 'windlass:runtime/clock@0.1.0';
import { get as config } from 'windlass:runtime/config@0.1.0';
import { write as log } from 'windlass:runtime/log@0.1.0';
import { getRandomBytes } from 'wasi:random/random@0.2.0';

export { config, log, now };

/** What a generator of random numbers begins with. */
export const seed = () => getRandomBytes(16);
