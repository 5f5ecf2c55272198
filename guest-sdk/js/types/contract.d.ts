/**
 * The contract with the host, `windlass:runtime@0.1.0`: `wit/` in TypeScript, in the form that componentize-qjs passes.
 * A guest uses the types of `index.d.ts` instead.
 *
 * An absent `option` is `undefined` on the way in and `null` on the way out. A `result` that is an error is thrown: an
 * api-error is the `payload` of an `Error`. Within a list, a result is a value.
 */

export interface Gvk {
  group: string;
  version: string;
  kind: string;
}

export interface Key {
  namespace?: string | null;
  name: string;
}

export interface RawRequest {
  cluster: string;
  key: Key;
}

export interface GetArguments {
  mode: 'cached' | 'live';
  projection: 'full' | 'metadata';
  subresource?: string;
}

export interface ListArguments {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  index?: [string, string];
  limit: number;
  continueToken?: string;
  mode: 'cached' | 'live';
  projection: 'full' | 'metadata';
}

export interface RawPage {
  items: string[];
  continueToken?: string | null;
  resourceVersion: string;
}

export interface RawSelection {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
}

export interface WriteArguments {
  subresource?: string;
  dryRun: boolean;
}

export interface ApplyArguments extends WriteArguments {
  force: boolean;
}

export interface DeleteArguments {
  uid?: string;
  resourceVersion?: string;
  propagation?: 'background' | 'foreground' | 'orphan';
  gracePeriodSeconds?: number;
  dryRun: boolean;
}

export interface RawEvent {
  kind: Gvk;
  key: Key;
  eventType: 'normal' | 'warning';
  reason: string;
  action: string;
  note: string;
}

export type PatchWord = 'json-patch' | 'merge' | 'strategic-merge';

/** A call of a batch; `val` are the arguments of the function of that name. */
export type RawOperation =
  | { tag: 'get'; val: [Gvk, Key, GetArguments] }
  | { tag: 'create'; val: [Gvk, string, WriteArguments] }
  | { tag: 'update'; val: [Gvk, string, WriteArguments] }
  | { tag: 'patch'; val: [Gvk, Key, PatchWord, string, WriteArguments] }
  | { tag: 'apply'; val: [Gvk, string, ApplyArguments] }
  | { tag: 'delete'; val: [Gvk, Key, DeleteArguments] }
  | { tag: 'list'; val: [Gvk, ListArguments] };

export type RawReply = { tag: 'nothing' } | { tag: 'object'; val: string } | { tag: 'page'; val: RawPage };

export interface RawApiError {
  code: import('./index.js').ApiCode;
  httpStatus: number;
  reason: string;
  message: string;
  details?: string | null;
  retryAfterMs?: number | null;
}

export type RawResult<T> = { tag: 'ok'; val: T } | { tag: 'err'; val: RawApiError };

/** The resource `cluster`. */
export interface RawCluster {
  name(): string;
  get(kind: Gvk, key: Key, options: GetArguments): string | null | undefined;
  list(kind: Gvk, options: ListArguments): RawPage;
  create(kind: Gvk, object: string, options: WriteArguments): string;
  update(kind: Gvk, object: string, options: WriteArguments): string;
  patch(kind: Gvk, key: Key, patchType: PatchWord, patch: string, options: WriteArguments): string;
  apply(kind: Gvk, object: string, options: ApplyArguments): string;
  delete(kind: Gvk, key: Key, options: DeleteArguments): void;
  deleteCollection(kind: Gvk, selection: RawSelection, options: DeleteArguments): void;
  recordEvent(event: RawEvent): void;
  batch(operations: RawOperation[]): RawResult<RawReply>[];
}

export interface RawClusterInfo {
  name: string;
  labels: [string, string][];
  properties: [string, string][];
  ready: boolean;
}

export interface Fleet {
  clusters(labelSelector: string | undefined): RawClusterInfo[];
  open(name: string): RawCluster;
  batch(operations: [string, RawOperation][]): RawResult<RawReply>[];
}

export interface RawHttpRequest {
  method: string;
  url: string;
  headers: [string, string][];
  body: Uint8Array;
  timeoutMs?: number;
  options: [string, string][];
}

export interface RawHttpResponse {
  status: number;
  headers: [string, string][];
  body: Uint8Array;
}

export interface Http {
  send(request: RawHttpRequest): RawHttpResponse;
}

/** The imports of a component. */
export interface Host {
  config(): string;
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string, fields: [string, string][]): void;
  now(): string;
  fleet: Fleet;
  http: Http;
}

export type RawEnqueue = { tag: 'primary' | 'controller-owner' | 'any-owner' | 'same-name' | 'mapped' } | { tag: 'by-index'; val: string };

export interface RawWatch {
  kind: Gvk;
  enqueue: RawEnqueue;
  clusters: 'as-configured' | 'local' | 'provider' | 'all';
  labelSelector?: string;
  fieldSelector?: string;
  changes: ('generation' | 'labels' | 'annotations' | 'status')[];
  metadataOnly: boolean;
  options: [string, string][];
}

export interface RawIndex {
  kind: Gvk;
  name: string;
  path: string;
  namespacePath?: string;
  options: [string, string][];
}

export interface RawDescription {
  title: string;
  primary?: Gvk;
  watches: RawWatch[];
  indexes: RawIndex[];
  options: [string, string][];
}

export type RawAction = { tag: 'done' } | { tag: 'requeue-after-ms'; val: number };

export type RawFailure = { tag: 'retry' | 'terminal'; val: string };

/** The export `reconciler` of a component. */
export interface RawReconciler {
  describe(): RawDescription;
  reconcile(request: RawRequest, cluster: RawCluster): RawAction;
}

/** The optional export `mapper` of a component. */
export interface RawMapper {
  mapObjects(cluster: RawCluster, kind: Gvk, objects: string[]): RawRequest[];
}
