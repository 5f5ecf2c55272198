/** Never run: the sources are what the declarations say. */

import * as fleet from '../src/fleet.js';
import * as index from '../src/index.js';
import * as testing from '../src/testing.js';

type Declared<M> = { [N in keyof M]: M[N] };

export const declared: [Declared<typeof import('./index.js')>, Declared<typeof import('./fleet.js')>, Declared<typeof import('./testing.js')>] = [
  index,
  fleet,
  testing,
];
