/**
 * The host's functions for other clusters outside of a component.
 *
 * @module
 */

/** @import { Fleet } from '../../types/contract.js' */

import { host } from './native.js';

/** @type {Fleet['clusters']} */
export const clusters = (labelSelector) => host().fleet.clusters(labelSelector);

/** @type {Fleet['open']} */
export const open = (name) => host().fleet.open(name);

/** @type {Fleet['batch']} */
export const batch = (operations) => host().fleet.batch(operations);
