/**
 * Write a Windlass guest in JavaScript or TypeScript: a module that exports `reconciler`, and `mapper` where a watch needs one.
 *
 * Every call is synchronous; the host runs other guests while one waits. Objects are plain, as `JSON.parse` makes them.
 *
 * @packageDocumentation
 */

import type { RawMapper, RawOperation, RawReconciler } from './contract.js';

/** A Kubernetes object. */
export interface KubernetesObject {
  /** `v1`, `apps/v1`, … */
  apiVersion: string;
  /** `ConfigMap`, … */
  kind: string;
  metadata: ObjectMeta;
  // What else there is depends on the kind.
  [field: string]: any;
}

/** `metadata` of an object, as far as controllers use it. */
export interface ObjectMeta {
  name: string;
  /** Absent from cluster-scoped objects. */
  namespace?: string;
  /** Unique in time and space; set by the API server. */
  uid?: string;
  /** Changes with every write; set by the API server. */
  resourceVersion?: string;
  /** Changes with the wanted state; set by the API server. */
  generation?: number;
  /** RFC 3339; set by the API server. */
  creationTimestamp?: string;
  /** RFC 3339; set while finalizers hold an object that is being deleted. */
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  /** What must be removed before the object goes. */
  finalizers?: string[];
  /** What this object goes with. */
  ownerReferences?: OwnerReference[];
  [field: string]: any;
}

/** Names an object that another object goes with. Made by {@link controllerReference}. */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  /** Whether the owner is the one that manages the object. */
  controller?: boolean;
  /** Whether a foreground deletion of the owner waits for the object. */
  blockOwnerDeletion?: boolean;
}

/**
 * A kind, as objects name theirs; any object will do. `T` is the type of its objects.
 *
 * @see {@link kind} to give one a type
 */
export interface Kind<T extends KubernetesObject = KubernetesObject> {
  apiVersion: string;
  kind: string;
  /** Never there: it carries the type. */
  readonly $type?: T;
}

/** Makes a kind whose objects have a type: `const Pods = kind<Pod>('v1', 'Pod')`. */
export function kind<T extends KubernetesObject = KubernetesObject>(apiVersion: string, kind: string): Kind<T>;

/** Namespace and name of an object. */
export interface ObjectKey {
  /** Absent for cluster-scoped objects. */
  namespace?: string;
  name: string;
}

/** What names an object: its key, or the object itself. */
export type KeyLike = ObjectKey | { metadata: ObjectKey };

/** The key of an object. */
export function keyOf(object: { metadata: ObjectKey }): ObjectKey;

/** The owner reference that makes `owner` the controller of an object. `owner` must have been read: it needs its uid. */
export function controllerReference(owner: KubernetesObject): OwnerReference;

/**
 * Makes `owner` the controller of `object`, beside the owners that it has: `object` is deleted after it, and an event on `object` asks
 * for it. `owner` must have been read: it needs its uid.
 *
 * @throws ApiError with the code `conflict` if another object is its controller already
 */
export function setController(object: KubernetesObject, owner: KubernetesObject): void;

/** The owner reference of the object's controller, if it has one. */
export function controllerOf(object: { metadata: ObjectMeta }): OwnerReference | undefined;

/** What to look at: identity only, never the object or the event that caused it. */
export interface Request {
  /** `""` is the local cluster. */
  cluster: string;
  key: ObjectKey;
}

/** What a reconcile may return; nothing: done until an event. Made by {@link requeueAfter}. */
export interface Requeue {
  requeueAfterMs: number;
}

/**
 * Runs again after so many milliseconds, or earlier if an event asks for it. Fractions are rounded up; 0: at once, but a key
 * runs at most every 100 ms this way. What is longer than 4294967295 (about 49 days) is as long as that.
 *
 * @throws RangeError for less than 0 and for NaN
 */
export function requeueAfter(milliseconds: number): Requeue;

/** How an event on a watched object becomes requests. */
export type Enqueue =
  /** The object itself. */
  | 'primary'
  /** The owner of the primary kind that controls it. */
  | 'controller-owner'
  /** Every owner of the primary kind. */
  | 'any-owner'
  /** The primary object of the same namespace and name. */
  | 'same-name'
  /** The export `mapper` decides. */
  | 'mapped'
  /** Every primary object whose index of this name holds the object's name or `namespace/name`. */
  | { byIndex: string };

/** One kind to watch. */
export interface Watch {
  kind: Kind;
  /** Default: `primary`. */
  enqueue?: Enqueue;
  /** In which clusters; default: `as-configured`, those that the operator chose. */
  clusters?: 'as-configured' | 'local' | 'provider' | 'all';
  /** As kubectl's `-l`; default: every object. */
  labelSelector?: string;
  /** As kubectl's `--field-selector`, on metadata.name and metadata.namespace; default: every object. */
  fieldSelector?: string;
  /** Which changes count; default: every one. Creation and deletion always count. */
  changes?: ('generation' | 'labels' | 'annotations' | 'status')[];
  /** Whether `apiVersion`, `kind` and `metadata` are enough: the host then keeps no more. Default: false. */
  metadataOnly?: boolean;
  /** For hosts of later versions; an unknown key fails the load. */
  options?: Record<string, string>;
}

/** A lookup by the value of a field, kept by the host. */
export interface Index {
  kind: Kind;
  /** Unique for the kind. */
  name: string;
  /** Dot-separated names, `['quoted']` ones, `[*]` for every element: `spec.volumes[*].configMap.name`. */
  path: string;
  /** Where the namespace of the object referred to stands; default: the object's own. */
  namespacePath?: string;
  /** For hosts of later versions; an unknown key fails the load. */
  options?: Record<string, string>;
}

/** What a guest wants. It narrows what the operator granted; anything outside the grant fails the load. */
export interface Description {
  /** For people. */
  title: string;
  /** The kind that requests name; default: that of the watch that enqueues `primary`. */
  primary?: Kind;
  watches?: Watch[];
  indexes?: Index[];
  /** For hosts of later versions; an unknown key fails the load. */
  options?: Record<string, string>;
}

/** What a guest does. */
export interface ReconcilerDefinition {
  /**
   * Says what to watch. Called when the guest is loaded and when its config or grants change; every call to a cluster is denied
   * meanwhile, {@link config} works. What it throws fails the load.
   */
  describe(): Description;
  /**
   * Makes what `request` names as it should be: reads, compares, writes what differs. At most one call runs for a request at a
   * time, each perhaps in a fresh instance: keep nothing in variables.
   *
   * What it throws is tried again with growing delay, a {@link TerminalError} only when an event asks for it.
   */
  reconcile(request: Request, cluster: Cluster): Requeue | void;
}

/** Makes what a guest exports as `reconciler`. */
export function defineReconciler(definition: ReconcilerDefinition): RawReconciler;

/**
 * Makes what a guest exports as `mapper`, for watches that enqueue `mapped`: turns objects that changed in `cluster` (an update:
 * the old and the new one) into requests. A request without a cluster is of this one. Reads come from the cache only. What it
 * throws is tried again.
 */
export function defineMapper(
  map: (cluster: Cluster, kind: Kind, objects: KubernetesObject[]) => (ObjectKey | { cluster?: string; key: KeyLike })[],
): RawMapper;

/** How to read one object. */
export interface GetOptions {
  /** From the API server instead of the host's cache. Default: false. */
  live?: boolean;
  /** Only `apiVersion`, `kind` and `metadata`. Default: false. */
  metadataOnly?: boolean;
  /** `status`, `scale`, …: always read live. */
  subresource?: string;
}

/** What to list, and how. */
export interface ListOptions {
  /** Default: every namespace that is granted. */
  namespace?: string;
  /** As kubectl's `-l`. */
  labelSelector?: string;
  /** As kubectl's `--field-selector`. Cached reads know metadata.name, metadata.namespace and declared indexes. */
  fieldSelector?: string;
  /** Name and value of an index of the description; cached reads only. */
  index?: [name: string, value: string];
  /** Most objects of a page; default: the host's page size. */
  limit?: number;
  /** From the page before. */
  continueToken?: string | null;
  /** From the API server instead of the host's cache. Default: false. */
  live?: boolean;
  /** Only `apiVersion`, `kind` and `metadata` of each. Default: false. */
  metadataOnly?: boolean;
}

/** One page of a list. */
export interface Page<T> {
  items: T[];
  /** Asks for the next page; absent from the last. */
  continueToken?: string;
  /** The version that the list is of. */
  resourceVersion: string;
}

/** Options of create and update. */
export interface WriteOptions {
  /** `status`, `scale`, …; default: the object itself. */
  subresource?: string;
  /** The server checks and answers, and stores nothing. Default: false. */
  dryRun?: boolean;
}

/** Options of a server-side apply. */
export interface ApplyOptions extends WriteOptions {
  /** Take fields over that another manager owns, instead of the error `conflict`. Default: false. */
  force?: boolean;
}

/** Options of a patch. */
export interface PatchOptions extends WriteOptions {
  /**
   * `json-patch`: a list of operations (RFC 6902); `merge`: a partial object, null removes (RFC 7386); `strategic-merge`:
   * Kubernetes' own, not for custom resources. Default: `json-patch` for a list, `merge` for an object.
   */
  type?: 'json-patch' | 'merge' | 'strategic-merge';
}

/** Options of a delete. */
export interface DeleteOptions {
  /** Only if the object has this uid; otherwise the error `conflict`. */
  uid?: string;
  /** Only if the object has this version; otherwise the error `conflict`. */
  resourceVersion?: string;
  /** What happens to dependents; default: the kind's own, `background` for most. */
  propagation?: 'background' | 'foreground' | 'orphan';
  /** Default: the kind's own. */
  gracePeriodSeconds?: number;
  /** The server checks and answers, and deletes nothing. Default: false. */
  dryRun?: boolean;
}

/** Which objects of a kind to delete; no option: every one that is granted. */
export interface Selection {
  namespace?: string;
  /** As kubectl's `-l`. */
  labelSelector?: string;
  /** As kubectl's `--field-selector`. */
  fieldSelector?: string;
}

/** Options of an event. */
export interface EventOptions {
  /** `warning`: somebody should look. Default: `normal`. */
  type?: 'normal' | 'warning';
  /** What was done, in CamelCase. Default: `Reconcile`. */
  action?: string;
}

/**
 * One cluster's API, within what the operator granted. Valid until the call that received it ends.
 *
 * A failed call throws an {@link ApiError}; what no rule grants is its code `denied`, and its message holds the missing rule.
 * Arguments that the contract cannot take are a `TypeError` or a `RangeError`.
 */
export interface Cluster {
  /** `""` is the local cluster. */
  readonly name: string;
  /** Reads an object; `undefined` if there is none. */
  get<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, options?: GetOptions): T | undefined;
  /** Reads one page of objects. */
  list<T extends KubernetesObject>(kind: Kind<T>, options?: ListOptions): Page<T>;
  /** Iterates over every object that is selected, asking for a page when the one before is used up. */
  listAll<T extends KubernetesObject>(kind: Kind<T>, options?: ListOptions): Generator<T, void, undefined>;
  /** Creates an object and returns it as stored. */
  create<T extends KubernetesObject>(object: T, options?: WriteOptions): T & KubernetesObject;
  /**
   * Replaces an object and returns it as stored. With `metadata.resourceVersion` only if that is still its version; otherwise
   * the error `conflict`.
   */
  update<T extends KubernetesObject>(object: T, options?: WriteOptions): T & KubernetesObject;
  /** Replaces the status of an object, and nothing else of it. */
  updateStatus<T extends KubernetesObject>(object: T, options?: WriteOptions): T & KubernetesObject;
  /** Patches an object and returns it as stored. */
  patch<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, patch: object, options?: PatchOptions): T;
  /**
   * Server-side apply: creates or changes the object so that it has these fields, and drops those that this reconciler applied
   * before and are no longer there. Returns it as stored.
   */
  apply<T extends KubernetesObject>(object: T, options?: ApplyOptions): T & KubernetesObject;
  /** Deletes an object; returns whether there was one. */
  delete(kind: Kind, key: KeyLike, options?: DeleteOptions): boolean;
  /** Deletes every object of a kind that is selected. */
  deleteCollection(kind: Kind, selection?: Selection, options?: DeleteOptions): void;
  /**
   * Tells people about an object, as `kubectl describe` shows it. `reason` is one CamelCase word. Recorded in the background;
   * never fails a reconcile.
   */
  event(about: Kind & { metadata: ObjectKey }, reason: string, note: string, options?: EventOptions): void;
  /** Runs the operations concurrently in the host; results in the same order, as of `Promise.allSettled`. */
  batch<const O extends readonly Operation<any>[]>(operations: O): Settled<O>;
}

/** One call of a batch, made by {@link operation}. `R` is what the method of that name returns. */
export type Operation<R> = RawOperation & { readonly $result?: R };

/** What became of one call of a batch. */
export type Result<R> = { status: 'fulfilled'; value: R } | { status: 'rejected'; reason: ApiError };

/** What became of the calls of a batch. */
export type Settled<O extends readonly Operation<any>[]> = {
  -readonly [I in keyof O]: Result<O[I] extends Operation<infer R> ? R : never>;
};

/** Calls for {@link Cluster.batch}, with the arguments and, but for a delete, the results of the methods of the same name. */
export const operation: {
  get<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, options?: GetOptions): Operation<T | undefined>;
  list<T extends KubernetesObject>(kind: Kind<T>, options?: ListOptions): Operation<Page<T>>;
  create<T extends KubernetesObject>(object: T, options?: WriteOptions): Operation<T & KubernetesObject>;
  update<T extends KubernetesObject>(object: T, options?: WriteOptions): Operation<T & KubernetesObject>;
  patch<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, patch: object, options?: PatchOptions): Operation<T>;
  apply<T extends KubernetesObject>(object: T, options?: ApplyOptions): Operation<T & KubernetesObject>;
  /** Answers nothing; in a batch an absent object is the error `not-found`. */
  delete(kind: Kind, key: KeyLike, options?: DeleteOptions): Operation<undefined>;
};

/** The values of a batch's results; throws the first failure. */
export function values<const R extends readonly Result<any>[]>(
  results: R,
): { -readonly [I in keyof R]: Extract<R[I], { status: 'fulfilled' }>['value'] };

/** Why a call failed. */
export type ApiCode =
  /** The object does not exist (404). A get returns `undefined` and a delete `false` instead. */
  | 'not-found'
  /** An object of this name exists already (409). */
  | 'already-exists'
  /** The object has changed since it was read, or another manager owns a field (409). */
  | 'conflict'
  /** The object or the call is not valid (400, 422). */
  | 'invalid'
  /** The host's credentials were refused (401). */
  | 'unauthorized'
  /** Refused by the API server (403). */
  | 'forbidden'
  /** Refused by the host: no rule grants it. */
  | 'denied'
  /** The cluster does not serve this kind. */
  | 'unknown-kind'
  /** Too many requests (429). */
  | 'throttled'
  /** A resource version or continue token is too old (410): start over. */
  | 'expired'
  /** No answer within the deadline. */
  | 'timeout'
  /** The server cannot be reached or is failing (5xx). */
  | 'unavailable'
  /** A limit of the host was hit. */
  | 'limit-exceeded'
  /** The cluster left the fleet. */
  | 'cluster-gone'
  /** The host is ending this call: return now. */
  | 'cancelled'
  /** Anything else: see the status. */
  | 'other';

/** A call to a cluster that failed. */
export class ApiError extends Error {
  constructor(of: { code: ApiCode; message: string; status?: number; reason?: string; details?: any; retryAfter?: number });
  readonly name: 'ApiError';
  /** What to decide on. */
  readonly code: ApiCode;
  /** HTTP status; 0 where there was no answer. */
  readonly status: number;
  /** The API server's machine-readable reason, or the host's. */
  readonly reason: string;
  /** The API server's `details`: field errors, causes. */
  readonly details?: any;
  /** How many milliseconds the server asked to wait. The host honours it by itself. */
  readonly retryAfter?: number;
}

/** Thrown by a reconcile that is worth another try only when an event asks for it. */
export class TerminalError extends Error {
  /** From an error: its message, and the error as cause. */
  constructor(message: string | Error, options?: ErrorOptions);
  readonly name: 'TerminalError';
}

/** The reconciler's `config` as the operator wrote it; `{}` where there is none. */
export function config<T = any>(): T;

/** The time. */
export function now(): Date;

/** Values of a log line; what is not a string prints as JSON, an error with its causes. */
export type Fields = Record<string, unknown>;

/**
 * The host's log: a constant message, values in fields. The host adds tenant, reconciler, cluster and reconcile id.
 * `console` writes here too.
 */
export const log: {
  /** For the guest's author. */
  debug(message: string, fields?: Fields): void;
  /** What was done. */
  info(message: string, fields?: Fields): void;
  /** Odd, and handled. */
  warn(message: string, fields?: Fields): void;
  /** Not handled. */
  error(message: string, fields?: Fields): void;
};
