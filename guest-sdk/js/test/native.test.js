/** A guest as a process of its own: the lines that it and a host exchange. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const GUEST = `
import { TerminalError, config, defineMapper, defineReconciler, kind, log, now, operation, requeueAfter } from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';
import * as http from 'windlass-sdk/http';

const Pod = kind('v1', 'Pod');
export const reconciler = defineReconciler({
  describe: () => ({ title: config().title, watches: [{ kind: Pod, enqueue: { byIndex: 'x' }, changes: ['status'] }] }),
  reconcile({ key }, cluster) {
    if (key.name === 'wrong') throw new TerminalError(cluster.name);
    if (key.name === 'trap') now();
    if (key.name === 'http') throw new TerminalError(http.post('https://a.example.com/', { json: 'ü' }).text());
    const [alpha] = fleet.clusters({ labelSelector: 'a=b' });
    const pod = fleet.open(alpha.name).get(Pod, key, { live: true });
    cluster.batch([operation.patch(Pod, pod, []), operation.delete(Pod, pod)]);
    cluster.event(pod, 'Seen', 'it is seen', { type: 'warning' });
    log.warn('seen', { key: key.name });
    return requeueAfter({ seconds: 1 });
  },
});
export const mapper = defineMapper((cluster, kind, objects) => objects);
`;

const pod = { group: '', version: 'v1', kind: 'Pod' };
const key = { namespace: 'n', name: 'a' };
const object = '{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":"a"}}';
const write = { dry_run: false };

/** What the host asks for, and then each line of the guest with the host's answer to it. */
const EXCHANGES = [
  [
    'Describe',
    [{ Call: 'Config' }, '{"title":"all"}'],
    [
      {
        Return: {
          Ok: {
            title: 'all',
            watches: [
              { kind: pod, enqueue: { ByIndex: 'x' }, clusters: 'AsConfigured', changes: ['Status'], metadata_only: false, options: [] },
            ],
            indexes: [],
            options: [],
          },
        },
      },
    ],
  ],
  [
    { Reconcile: { request: { cluster: '', key }, cluster: 3 } },
    [
      { Call: { Clusters: { label_selector: 'a=b' } } },
      { Ok: [{ name: 'alpha', labels: [['a', 'b']], properties: [], ready: true }] },
    ],
    [{ Call: { Open: { name: 'alpha' } } }, { Ok: 4 }],
    [{ Call: { Get: { cluster: 4, kind: pod, key, options: { mode: 'Live', projection: 'Full' } } } }, { Ok: object }],
    [
      {
        Call: {
          Batch: {
            cluster: 3,
            operations: [{ Patch: [pod, key, 'JsonPatch', '[]', write] }, { Delete: [pod, key, write] }],
          },
        },
      },
      [{ Ok: { Object: object } }, { Err: { code: 'NotFound', http_status: 404, reason: 'NotFound', message: 'no' } }],
    ],
    [
      {
        Call: {
          RecordEvent: {
            cluster: 3,
            event: { kind: pod, key, event_type: 'Warning', reason: 'Seen', action: 'Reconcile', note: 'it is seen' },
          },
        },
      },
      null,
    ],
    [{ Call: { Log: { level: 'Warn', message: 'seen', fields: [['key', 'a']] } } }, null],
    [{ Return: { Ok: { RequeueAfterMs: 1000 } } }],
  ],
  [
    { Reconcile: { request: { cluster: '', key: { namespace: null, name: 'wrong' } }, cluster: 5 } },
    [{ Call: { Name: { cluster: 5 } } }, 'beta'],
    [{ Return: { Err: { Terminal: 'beta' } } }],
  ],
  [
    { Reconcile: { request: { cluster: '', key: { name: 'trap' } }, cluster: 6 } },
    [{ Call: 'Now' }, { Trap: 'too many calls' }],
    [{ Return: { Err: { Retry: 'too many calls' } } }],
  ],
  [
    { Reconcile: { request: { cluster: '', key: { name: 'http' } }, cluster: 7 } },
    [
      {
        Call: {
          Http: {
            request: {
              method: 'POST',
              url: 'https://a.example.com/',
              headers: [['content-type', 'application/json']],
              body: [0x22, 0xc3, 0xbc, 0x22],
              options: [],
            },
          },
        },
      },
      { Ok: { status: 200, headers: [], body: [0xc3, 0xa4] } },
    ],
    [{ Return: { Err: { Terminal: 'ä' } } }],
  ],
  [
    { MapObjects: { cluster: 7, kind: pod, objects: [object] } },
    [{ Call: { Name: { cluster: 7 } } }, 'beta'],
    [{ Return: { Ok: [{ cluster: 'beta', key }] } }],
  ],
];

/** A folder of a guest, which is removed after the test. */
function folder(/** @type {import('node:test').TestContext} */ context) {
  const made = mkdtempSync(join(tmpdir(), 'windlass-'));
  context.after(() => rmSync(made, { recursive: true }));
  mkdirSync(join(made, 'node_modules'));
  mkdirSync(join(made, '.windlass'));
  symlinkSync(fileURLToPath(new URL('..', import.meta.url)), join(made, 'node_modules/windlass-sdk'));
  writeFileSync(join(made, 'guest.mjs'), GUEST);
  return made;
}

/** @param {string} cwd */
const start = (cwd) => spawn(process.execPath, ['--import', 'windlass-sdk/native', 'guest.mjs'], { cwd, stdio: ['ignore', 'inherit', 'pipe'] });

test('a process does what the host asks for, and ends with it', { timeout: 60_000 }, async (context) => {
  const cwd = folder(context);
  const server = createServer().listen(join(cwd, 'socket'));
  writeFileSync(join(cwd, '.windlass/native'), join(cwd, 'socket'));
  const child = start(cwd);
  const ended = once(child, 'exit');
  const [socket] = await once(server, 'connection');
  const lines = createInterface(socket)[Symbol.asyncIterator]();
  const send = (/** @type {unknown} */ message) => socket.write(`${JSON.stringify(message)}\n`);
  for (const [task, ...exchange] of EXCHANGES) {
    send(task);
    for (const [said, answer] of /** @type {any[][]} */ (exchange)) {
      const { value } = await lines.next();
      assert.deepEqual(JSON.parse(value), said);
      if (answer !== undefined) send(answer);
    }
  }
  socket.end();
  server.close();
  assert.deepEqual(await ended, [0, null]);
});

test('a process whose host has gone in the middle of a run ends', { timeout: 60_000 }, async (context) => {
  const cwd = folder(context);
  const server = createServer().listen(join(cwd, 'socket'));
  writeFileSync(join(cwd, '.windlass/native'), join(cwd, 'socket'));
  const ended = once(start(cwd), 'exit');
  const [socket] = await once(server, 'connection');
  socket.write('"Describe"\n');
  await once(socket, 'data');
  socket.destroy();
  server.close();
  assert.deepEqual(await ended, [0, null]);
});

test('a process without a host says what to start', { timeout: 60_000 }, async (context) => {
  const child = start(folder(context));
  let said = '';
  child.stderr.on('data', (text) => (said += text));
  const [code] = await once(child, 'close');
  assert.notEqual(code, 0);
  assert.match(said, /there is no .windlass\/native here: start windlass dev --native NAME first/);
});
