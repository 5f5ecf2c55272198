/**
 * The reconciler's configuration, and the time. Entry points: `config` and `now`.
 *
 * @module
 */

import * as host from '#host';

export const config = () => JSON.parse(host.config());

export const now = () => new Date(host.now());
