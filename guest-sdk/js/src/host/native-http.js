/**
 * The host's function for servers that are no API servers outside of a component.
 *
 * @module
 */

/** @import { Http } from '../../types/contract.js' */

import { host } from './native.js';

/** @type {Http['send']} */
export const send = (request) => host().http.send(request);
