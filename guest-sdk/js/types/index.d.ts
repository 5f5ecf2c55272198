/**
 * Write a Windlass guest in JavaScript or TypeScript: a module that exports `reconciler`, and `mapper` where a watch needs one.
 *
 * Every call is synchronous; the host runs other guests meanwhile. Objects are plain, as `JSON.parse` returns them.
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
  // Other properties depend on the kind.
  [field: string]: any;
}

/** `metadata` of an object: the fields that controllers use. */
export interface ObjectMeta {
  name: string;
  /** Absent from cluster-scoped objects. */
  namespace?: string;
  /** Unique in time and space; set by the API server. */
  uid?: string;
  /** Changes with every write; set by the API server. */
  resourceVersion?: string;
  /** Changes with the desired state; set by the API server. */
  generation?: number;
  /** RFC 3339; set by the API server. */
  creationTimestamp?: string;
  /** RFC 3339; set while finalizers hold an object that is being deleted. */
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  /** The finalizers that must be removed before the object is deleted. */
  finalizers?: string[];
  /** The owners of this object. */
  ownerReferences?: OwnerReference[];
  [field: string]: any;
}

/** Refers to the owner of an object. Made by {@link controllerReference}. */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  /** Whether the owner manages the object. */
  controller?: boolean;
  /** Whether a foreground deletion of the owner waits for the object. */
  blockOwnerDeletion?: boolean;
}

/**
 * A kind. Any object can be used as one. `T` is the type of the kind's objects.
 *
 * @see {@link kind} to give one a type
 */
export interface Kind<T extends KubernetesObject = KubernetesObject> {
  apiVersion: string;
  kind: string;
  /** Never set: it only carries the type. */
  readonly $type?: T;
}

/** Makes a kind whose objects have a type: `const Pods = kind<Pod>('v1', 'Pod')`. */
export function kind<T extends KubernetesObject = KubernetesObject>(apiVersion: string, kind: string): Kind<T>;

/**
 * A cluster as an object of the local cluster, which a guest watches and lists as it does any kind: one for each cluster that a rule opens.
 * Its labels are those of the cluster, its annotations the properties. The host makes it, and nobody writes it.
 */
export interface FleetCluster extends KubernetesObject {
  spec: {
    /** The cluster's name in requests and for `fleet.open`. The name of the object differs only where it could not be one. */
    name: string;
    /** The Provider that found it. */
    provider?: string;
  };
  status: {
    state: 'Connecting' | 'Syncing' | 'Ready' | 'Degraded';
    /** Whether the cluster answers and its caches are filled. */
    ready: boolean;
    /** Why it is in that state, for people. */
    reason: string;
    conditions: Condition[];
  };
}

/** The kind of clusters. */
export const FleetCluster: Kind<FleetCluster>;

/** Namespace and name of an object. */
export interface ObjectKey {
  /** Absent for cluster-scoped objects. */
  namespace?: string;
  name: string;
}

/** A reference to an object: its key, or the object itself. */
export type KeyLike = ObjectKey | { metadata: ObjectKey };

/** The key of an object. */
export function keyOf(object: { metadata: ObjectKey }): ObjectKey;

/** The owner reference that makes `owner` the controller of an object. `owner` must have been read, because its uid is needed. */
export function controllerReference(owner: KubernetesObject): OwnerReference;

/**
 * Makes `owner` the controller of `object` and keeps its other owners. `object` is deleted after `owner`, and an event on `object`
 * enqueues `owner`. `owner` must have been read, because its uid is needed.
 *
 * @throws ApiError with the code `conflict` if another object is its controller already
 */
export function setController(object: KubernetesObject, owner: KubernetesObject): void;

/** The owner reference of an owner that does not manage the object. `owner` must have been read, because its uid is needed. */
export function ownerReference(owner: KubernetesObject): OwnerReference;

/** Adds `owner` to the owners of `object`, unless it is one. The object is deleted after its last owner. */
export function setOwner(object: KubernetesObject, owner: KubernetesObject): void;

/** The owner reference of the object's controller, if it has one. */
export function controllerOf(object: { metadata: ObjectMeta }): OwnerReference | undefined;

/** Whether the object is being deleted and waits for its finalizers. */
export function isDeleting(object: { metadata: ObjectMeta }): boolean;

/** Whether the object has this finalizer. */
export function hasFinalizer(object: { metadata: ObjectMeta }, finalizer: string): boolean;

/** A condition in the status of an object. */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  /** The `metadata.generation` that the condition is about. */
  observedGeneration?: number;
  /** When the status became what it is: RFC 3339, whole seconds. */
  lastTransitionTime: string;
  /** One CamelCase word. */
  reason: string;
  /** For people. */
  message: string;
}

/** What {@link setCondition} sets. */
export interface ConditionChange {
  type: string;
  /** `true` is `True`, `false` is `False`. */
  status: boolean | 'True' | 'False' | 'Unknown';
  /** One CamelCase word. */
  reason: string;
  /** For people. Default: empty. */
  message?: string;
  /** Default: the `metadata.generation` of the object. */
  observedGeneration?: number;
}

/** The condition of this type in `status.conditions`, if there is one. */
export function condition(object: KubernetesObject, type: string): Condition | undefined;

/**
 * Sets a condition in the `status.conditions` of an object that was read, and returns whether that changed anything. Write it with
 * {@link Cluster.setStatus}. The transition time changes only if the status does; the order of the conditions and fields unknown
 * here are kept.
 */
export function setCondition(object: KubernetesObject, condition: ConditionChange): boolean;

/**
 * Why an object is not ready; `undefined` if it is. Deployments, StatefulSets, Services, Jobs and PersistentVolumeClaims are ready by
 * their own rules, other objects by their condition `Ready`, else `Available`. An object without them is ready once it exists.
 */
export function readiness(object: KubernetesObject): string | undefined;

/** What a write that may have nothing to do did. */
export interface Written<T> {
  effect: 'created' | 'updated' | 'unchanged';
  /** The object as it is stored. */
  object: T;
}

/** Options of {@link dependents}. */
export interface DependentsOptions {
  /** The kinds of the dependents. An object of one of them that is no longer desired is deleted. */
  kinds: readonly Kind<any>[];
  /**
   * Those of the kinds whose objects are deleted and created again if the server does not take a change (HTTP 422), as of a field that is immutable. Default:
   * none.
   */
  recreate?: readonly Kind<any>[];
  /** Held by the primary object until its deletion is done. Needed for clean-ups, and for dependents that it cannot own. */
  finalizer?: string;
  /** Why an object is not ready; nothing if it is. Default: {@link readiness}. */
  ready?: (object: any) => string | undefined;
  /** When to look again while something is not ready and no event comes. Default: 10 s. */
  recheck?: Delay;
}

/** The objects that a primary object should have. Made by {@link dependents}. */
export interface Dependents {
  /** For the description: an event on a dependent asks for its owner. */
  readonly watches: Watch[];
  /** For the description. */
  readonly indexes: Index[];
  /**
   * Applies the desired objects, deletes those that are no longer desired, and sets the conditions `Ready` and `Progressing` of the
   * primary object, which must have been read. Returns what `reconcile` returns. If the primary object is being deleted, it calls `cleanup`, deletes the
   * dependents that are not owned, and removes the finalizer.
   *
   * A failure of one keeps none of the others from being applied or deleted.
   *
   * `status` are further fields of the primary object's status. `cleanup` may throw {@link NotReady}; it may run several times.
   */
  reconcile(
    cluster: Cluster,
    primary: KubernetesObject,
    desired: readonly KubernetesObject[],
    options?: { status?: object; cleanup?: () => void },
  ): Requeue | undefined;
}

/**
 * Declares the kinds of the objects that primary objects should have. A dependent of the same namespace, or of a cluster-scoped primary object, is owned by
 * it; another one has only the label `windlass.dev/owner`.
 *
 * ```js
 * const parts = dependents({ kinds: [Deployment, Service] });
 * describe: () => ({ title: 'runs websites', watches: [{ kind: Website }, ...parts.watches], indexes: parts.indexes }),
 * reconcile({ key }, cluster) {
 *   const site = cluster.get(Website, key);
 *   if (site) return parts.reconcile(cluster, site, [deployment(site), service(site)]);
 * },
 * ```
 */
export function dependents(options: DependentsOptions): Dependents;

/** Names an object to reconcile. Contains neither the object nor the event that caused it. */
export interface Request {
  /** `""` is the local cluster. */
  cluster: string;
  key: ObjectKey;
}

/** The result of a reconcile, made by {@link requeueAfter}. A reconcile that returns nothing is done until an event. */
export interface Requeue {
  requeueAfterMs: number;
}

/** A delay: milliseconds, or the sum of these units: `{ minutes: 5 }`. */
export type Delay = number | { hours?: number; minutes?: number; seconds?: number; milliseconds?: number };

/**
 * Runs again after this delay, or earlier after an event. Fractions of a millisecond are rounded up. 0 means at once, but at most
 * every 100 ms for a key. The longest delay is about 49 days.
 *
 * @throws RangeError for less than 0 and for NaN
 */
export function requeueAfter(delay: Delay): Requeue;

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
  /** Whether the guest needs only `apiVersion`, `kind` and `metadata`: the host then keeps no more. Default: false. */
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
  /** The path of the referenced object's namespace; default: the object's own namespace. */
  namespacePath?: string;
  /** For hosts of later versions; an unknown key fails the load. */
  options?: Record<string, string>;
}

/** The watches and indexes that a guest needs. They narrow the grants of the operator; anything outside the grant fails the load. */
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

/** The functions of a guest. */
export interface ReconcilerDefinition {
  /**
   * Returns what to watch. Called when the guest is loaded and when its config or grants change. Every call to a cluster is denied;
   * {@link config} works. An error fails the load.
   */
  describe(): Description;
  /**
   * Brings the object that `request` names to its desired state: reads, compares, writes the differences. At most one call runs for
   * a request at a time. Each call may have a fresh instance: keep nothing in variables.
   *
   * An error is retried with growing delay, a {@link TerminalError} only after an event.
   */
  reconcile(request: Request, cluster: Cluster): Requeue | void;
}

/** Makes the export `reconciler` of a guest. */
export function defineReconciler(definition: ReconcilerDefinition): RawReconciler;

/**
 * Makes the export `mapper` of a guest, for watches that enqueue `mapped`. The function turns objects that changed in `cluster` (the
 * old and the new one of an update) into requests. A request without a cluster is for `cluster`. Reads come only from the cache. An
 * error is retried.
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

/** Options of a list. */
export interface ListOptions {
  /** Default: every granted namespace. */
  namespace?: string;
  /** As kubectl's `-l`. */
  labelSelector?: string;
  /** As kubectl's `--field-selector`. Cached reads support metadata.name, metadata.namespace and declared indexes. */
  fieldSelector?: string;
  /** Name and value of an index of the description; cached reads only. */
  index?: [name: string, value: string];
  /** The largest number of objects in a page; default: the host's page size. */
  limit?: number;
  /** The token of the previous page. */
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
  /** The version of the list. */
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
  /** Decides about the dependents; default: the default of the kind, `background` for most. */
  propagation?: 'background' | 'foreground' | 'orphan';
  /** Default: the default of the kind. */
  gracePeriodSeconds?: number;
  /** The server checks and answers, and deletes nothing. Default: false. */
  dryRun?: boolean;
}

/** The objects of a kind to delete; without options: every granted object. */
export interface Selection {
  namespace?: string;
  /** As kubectl's `-l`. */
  labelSelector?: string;
  /** As kubectl's `--field-selector`. */
  fieldSelector?: string;
}

/** Options of an event. */
export interface EventOptions {
  /** `warning` if a person should look at it. Default: `normal`. */
  type?: 'normal' | 'warning';
  /** The action in CamelCase. Default: `Reconcile`. */
  action?: string;
}

/**
 * One cluster's API, within the grants of the operator. Valid until the call that received it ends.
 *
 * A failed call throws an {@link ApiError}. A call that no rule grants has the code `denied`, and the message contains the missing rule.
 * Arguments that the contract cannot carry throw a `TypeError` or a `RangeError`.
 */
export interface Cluster {
  /** `""` is the local cluster. */
  readonly name: string;
  /** Reads an object; `undefined` if there is none. */
  get<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, options?: GetOptions): T | undefined;
  /** Reads one page of objects. */
  list<T extends KubernetesObject>(kind: Kind<T>, options?: ListOptions): Page<T>;
  /** Iterates over every selected object. Reads a page only when it is needed. */
  listAll<T extends KubernetesObject>(kind: Kind<T>, options?: ListOptions): Generator<T, void, undefined>;
  /** Creates an object and returns it as stored. */
  create<T extends KubernetesObject>(object: T, options?: WriteOptions): T & KubernetesObject;
  /**
   * Replaces an object and returns it as stored. If `metadata.resourceVersion` is set and is not the current version, the error is
   * `conflict`.
   */
  update<T extends KubernetesObject>(object: T, options?: WriteOptions): T & KubernetesObject;
  /** Replaces only the status of an object. */
  updateStatus<T extends KubernetesObject>(object: T, options?: WriteOptions): T & KubernetesObject;
  /** Patches an object and returns it as stored. */
  patch<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, patch: object, options?: PatchOptions): T;
  /**
   * Server-side apply: creates or changes the object so that it has these fields, and drops those that this reconciler applied
   * before and are no longer there. Returns it as stored.
   */
  apply<T extends KubernetesObject>(object: T, options?: ApplyOptions): T & KubernetesObject;
  /**
   * {@link apply} with `force`, only if something differs: a field that is not as desired, or one that was applied by `ensure` before and is no
   * longer desired. The annotation `windlass.dev/applied` has a fingerprint of what was applied.
   */
  ensure<T extends KubernetesObject>(object: T): Written<T & KubernetesObject>;
  /**
   * Reads an object, or begins one with only its kind and key, and lets `change` change it in place. Writes it only if that changed it; the
   * error is `conflict` if another wrote it meanwhile.
   */
  createOrUpdate<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, change: (object: T) => void): Written<T>;
  /**
   * Gives the status these fields; `null` removes one. Reads the object and patches only what differs, at the version that was read: the
   * error is `conflict` if another wrote it meanwhile.
   */
  setStatus<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, status: object): Written<T>;
  /** Adds a finalizer to an object that was read, unless it has it or is being deleted. The error is `conflict` if it has changed. */
  ensureFinalizer<T extends KubernetesObject>(object: T, finalizer: string): Written<T>;
  /** Removes a finalizer from an object that was read, if it has it. The error is `conflict` if the object has changed. */
  removeFinalizer<T extends KubernetesObject>(object: T, finalizer: string): Written<T>;
  /** Deletes an object; returns whether there was one. */
  delete(kind: Kind, key: KeyLike, options?: DeleteOptions): boolean;
  /** Deletes every selected object of a kind. */
  deleteCollection(kind: Kind, selection?: Selection, options?: DeleteOptions): void;
  /**
   * Records an event about an object, as `kubectl describe` shows it. `reason` is one CamelCase word. Recorded in the background;
   * never fails a reconcile.
   */
  event(about: Kind & { metadata: ObjectKey }, reason: string, note: string, options?: EventOptions): void;
  /** Runs the operations concurrently in the host. Returns the results in the same order, as `Promise.allSettled` does. */
  batch<const O extends readonly Operation<any>[]>(operations: O): Settled<O>;
}

/** One call of a batch, made by {@link operation}. `R` is the result type of the method of that name. */
export type Operation<R> = RawOperation & { readonly $result?: R };

/** The result of one call of a batch. */
export type Result<R> = { status: 'fulfilled'; value: R } | { status: 'rejected'; reason: ApiError };

/** The results of the calls of a batch. */
export type Settled<O extends readonly Operation<any>[]> = {
  -readonly [I in keyof O]: Result<O[I] extends Operation<infer R> ? R : never>;
};

/** Calls for {@link Cluster.batch}, with the arguments of the methods of the same name. The results are the same too, except of a delete. */
export const operation: {
  get<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, options?: GetOptions): Operation<T | undefined>;
  list<T extends KubernetesObject>(kind: Kind<T>, options?: ListOptions): Operation<Page<T>>;
  create<T extends KubernetesObject>(object: T, options?: WriteOptions): Operation<T & KubernetesObject>;
  update<T extends KubernetesObject>(object: T, options?: WriteOptions): Operation<T & KubernetesObject>;
  patch<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, patch: object, options?: PatchOptions): Operation<T>;
  apply<T extends KubernetesObject>(object: T, options?: ApplyOptions): Operation<T & KubernetesObject>;
  /** Returns nothing; in a batch an absent object is the error `not-found`. */
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
  /** The code to branch on. */
  readonly code: ApiCode;
  /** HTTP status; 0 where there was no answer. */
  readonly status: number;
  /** The API server's machine-readable reason, or the host's. */
  readonly reason: string;
  /** The API server's `details`: field errors, causes. */
  readonly details?: any;
  /** The delay in milliseconds that the server asked for. The host keeps to it by itself. */
  readonly retryAfter?: number;
}

/** Thrown by a reconcile that is to run again only after an event. */
export class TerminalError extends Error {
  /** From an error: its message, and the error as cause. */
  constructor(message: string | Error, options?: ErrorOptions);
  readonly name: 'TerminalError';
}

/** Thrown by a reconcile that is to run again with growing delay, as after any error. It is not logged with its stack. */
export class Retry extends Error {
  constructor(message: string, options?: ErrorOptions);
  readonly name: 'Retry';
}

/**
 * Thrown by a reconcile that waits for something: it runs again after this delay, or earlier after an event, and counts as succeeded. The
 * message is in the log.
 */
export class NotReady extends Error {
  constructor(message: string, after: Delay);
  readonly name: 'NotReady';
  /** Milliseconds. */
  readonly after: number;
}

/** The reconciler's `config` as the operator wrote it; `{}` if there is none. */
export function config<T = any>(): T;

/** The time. */
export function now(): Date;

/** Values of a log line. Strings print as they are, errors with their causes, other values as JSON. */
export type Fields = Record<string, unknown>;

/**
 * The host's log: a constant message, values in fields. The host adds tenant, reconciler, cluster and reconcile id.
 * `console` writes here too.
 */
export const log: {
  /** For the guest's author. */
  debug(message: string, fields?: Fields): void;
  /** A step that was done. */
  info(message: string, fields?: Fields): void;
  /** A problem that was handled. */
  warn(message: string, fields?: Fields): void;
  /** A problem that was not handled. */
  error(message: string, fields?: Fields): void;
};
