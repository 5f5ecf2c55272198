/**
 * Runs a guest as a process of its own, for a debugger: `node --inspect-brk --import windlass-sdk/native src/reconciler.js` in the guest's
 * folder, beside `windlass dev --native NAME`. No entry point: loading this file does it, once node has loaded the guest.
 *
 * The calls of the guest are synchronous, as in a component. Between its runs the process is idle, as any program of node.
 *
 * @module
 */

/** @import * as contract from '../types/contract.js' */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { Channel } from './host/channel.js';
import { during } from './host/native.js';
import { fleet, http, cluster as remote, record, variant } from './host/wire.js';

/** @typedef {{ reconciler: contract.RawReconciler, mapper?: contract.RawMapper }} Guest */

/** The file of the guest's folder with the path of the socket. */
const FILE = '.windlass/native';

// Threads of the guest are given the options of the process too.
if (isMainThread) setImmediate(begin);

async function begin() {
  const { reconciler, mapper } = await import(pathToFileURL(createRequire(import.meta.url).resolve(process.argv[1])).href);
  if (reconciler === undefined) throw new Error('it exports no reconciler: export const reconciler = defineReconciler({…})');
  const channel = new Channel({ socket: socket() });
  channel.listen(
    (task) => channel.send(JSON.stringify({ Return: done({ reconciler, mapper }, JSON.parse(task), channel) })),
    (why) => console.error(why),
  );
}

function socket() {
  try {
    return readFileSync(FILE, 'utf8').trim();
  } catch (error) {
    const hint = 'start windlass dev --native NAME first, and this process in the folder of the guest';
    throw new Error(`there is no ${FILE} here: ${hint}`, { cause: error });
  }
}

/**
 * Does what the host asks for, and returns the result.
 *
 * @param {Guest} guest
 * @param {any} task
 * @param {Channel} channel
 */
function done({ reconciler, mapper }, task, channel) {
  /** @param {unknown} called */
  const call = (called) => {
    const answer = JSON.parse(channel.ask(JSON.stringify({ Call: called })));
    if (typeof answer?.Trap === 'string') throw new Error(answer.Trap);
    return answer;
  };
  /** @type {contract.Host} */
  const host = {
    config: () => call('Config'),
    now: () => call('Now'),
    log: (level, message, fields) => call({ Log: { level: variant(level), message, fields } }),
    fleet: fleet(call),
    http: http(call),
  };
  return during(host, () => {
    if (task === 'Describe') return result(() => described(reconciler.describe()));
    const { Reconcile: reconcile, MapObjects: map } = task;
    if (reconcile) return result(() => variant(reconciler.reconcile(reconcile.request, remote(call, reconcile.cluster))));
    return result(() => mapper?.mapObjects(remote(call, map.cluster), map.kind, map.objects));
  });
}

/**
 * The result of a call: it throws texts and failures, as the contract says. What else it throws ends the process.
 *
 * @param {() => unknown} call
 */
function result(call) {
  try {
    return { Ok: call() };
  } catch (thrown) {
    if (thrown instanceof Error) throw thrown;
    return { Err: typeof thrown === 'string' ? thrown : variant(thrown) };
  }
}

/** @param {contract.RawDescription} description */
const described = ({ watches, indexes, ...rest }) => ({ ...rest, watches: watches.map(record), indexes: indexes.map(record) });
