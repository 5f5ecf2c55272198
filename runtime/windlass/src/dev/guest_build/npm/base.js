/**
 * The base of a guest: QuickJS without the guest's module. Written by `windlass dev`.
 *
 * The first call of `describe` takes the module as the config. `windlass dev` keeps the memory that this call leaves.
 */

import * as client from 'windlass:runtime/client@0.1.0';
import * as clock from 'windlass:runtime/clock@0.1.0';
import * as config from 'windlass:runtime/config@0.1.0';
import * as log from 'windlass:runtime/log@0.1.0';

const hosts = {
  'windlass:runtime/client@0.1.0': client,
  'windlass:runtime/clock@0.1.0': clock,
  'windlass:runtime/config@0.1.0': config,
  'windlass:runtime/log@0.1.0': log,
};

/** What the guest's module exports. */
let guest;

/** Runs a module of CommonJS. Its lines keep their numbers, by which stacks name them. */
function take(text) {
  const module = { exports: {} };
  const require = (name) => {
    if (!Object.hasOwn(hosts, name)) throw new Error(`there is no ${name}`);
    return hosts[name];
  };
  (0, eval)(`(function (module, exports, require) {${text}\n})`)(module, module.exports, require);
  return module.exports;
}

export const reconciler = {
  describe() {
    if (guest) return guest.reconciler.describe();
    guest = take(config.get());
    return { title: '', watches: [], indexes: [], options: [] };
  },
  reconcile: (request, cluster) => guest.reconciler.reconcile(request, cluster),
};
