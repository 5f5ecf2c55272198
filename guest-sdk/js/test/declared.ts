/** Never run: checks that the sources match the declarations. */

import * as fleet from '../src/fleet.js';
import * as http from '../src/http.js';
import * as index from '../src/index.js';
import * as testing from '../src/testing.js';

type Declared<M> = { [N in keyof M]: M[N] };

export const declared: [
  Declared<typeof import('../types/index.js')>,
  Declared<typeof import('../types/fleet.js')>,
  Declared<typeof import('../types/http.js')>,
  Declared<typeof import('../types/testing.js')>,
] = [index, fleet, http, testing];
