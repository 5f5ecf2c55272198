/**
 * The base of a guest: QuickJS without the guest's module. Written by `windlass dev`.
 *
 * The first call of `describe` takes the module as the config. `windlass dev` keeps the memory that this call leaves.
 */

import * as client from 'windlass:runtime/client@0.1.0';
import * as clock from 'windlass:runtime/clock@0.1.0';
import * as config from 'windlass:runtime/config@0.1.0';
import * as log from 'windlass:runtime/log@0.1.0';
import * as random from 'wasi:random/random@0.2.0';

const hosts = {
  'windlass:runtime/client@0.1.0': client,
  'windlass:runtime/clock@0.1.0': clock,
  'windlass:runtime/config@0.1.0': config,
  'windlass:runtime/log@0.1.0': log,
  'wasi:random/random@0.2.0': random,
};

let isLoading = false;
/** Whether the module called the host while it was loaded. A build has no host, and fails. */
let hasCalled = false;

const noticed =
  (call) =>
  (...of) => {
    hasCalled ||= isLoading;
    return call(...of);
  };

/** The functions of the host, and its classes as they are. */
function required(name) {
  if (!Object.hasOwn(hosts, name)) throw new Error(`there is no ${name}`);
  const functions = Object.entries(hosts[name]).map(([of, it]) => [of, /^[a-z]/.test(of) ? noticed(it) : it]);
  return Object.fromEntries(functions);
}

/** What a module of CommonJS exports. Its lines keep their numbers, by which stacks name them. */
function loaded(text) {
  const module = { exports: {} };
  isLoading = true;
  (0, eval)(`(function (module, exports, require) {"use strict";${text}\n})`)(module, module.exports, required);
  isLoading = false;
  if (hasCalled) throw new Error('the module calls the host while it is loaded');
  const { reconciler: made } = module.exports;
  const isWhole = [made?.describe, made?.reconcile].every((it) => typeof it === 'function');
  if (!isWhole) throw new Error('the module exports no reconciler');
  return module.exports;
}

let mapper;
export let reconciler = {
  describe() {
    ({ reconciler, mapper } = loaded(config.get()));
    return { title: '', watches: [], indexes: [], options: [] };
  },
};
