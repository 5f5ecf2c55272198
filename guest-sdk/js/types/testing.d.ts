/**
 * Tests of a guest without WebAssembly: a fleet in memory, or a script of the calls that it should make, and their answers.
 *
 * @packageDocumentation
 */

import type { RawDescription, RawMapper, RawReconciler } from './contract.js';
import type { ClusterInfo } from './fleet.js';
import type { BodyOptions, Headers, Request as HttpRequest } from './http.js';
import type {
  ApiCode,
  ApiError,
  ApplyOptions,
  Cluster,
  DeleteOptions,
  EventOptions,
  GetOptions,
  KeyLike,
  Kind,
  KubernetesObject,
  ListOptions,
  ObjectKey,
  Operation,
  PatchOptions,
  Page,
  Request,
  Selection,
  WriteOptions,
} from './index.js';

/** The outcome of a reconcile. What a guest throws by mistake is thrown; `retry` is of a `Retry` and of an `ApiError`, `terminal` of a `TerminalError`. */
export type Outcome = { outcome: 'done' } | { outcome: 'requeue'; afterMs: number } | { outcome: 'retry' | 'terminal'; message: string };

/** A line in the log, its values printed. */
export interface Line {
  level: 'debug' | 'info' | 'warn' | 'error';
  message: string;
  fields: Record<string, string>;
}

/** An event that the guest recorded. */
export interface Recorded {
  cluster: string;
  about: { apiVersion: string; kind: string } & ObjectKey;
  type: 'normal' | 'warning';
  reason: string;
  action: string;
  note: string;
}

/** A call that the guest should make next. */
export interface Expected<A> {
  /** Sets the result of the call. */
  answers(answer: A): void;
  /** Sets the error of the call. */
  fails(code: ApiCode, rest?: { message?: string; status?: number; reason?: string; details?: any; retryAfter?: number }): void;
}

/** The calls that the guest should make in one cluster, by the methods of the same name. */
export interface ExpectedCluster {
  /** Default answer: the object is absent. */
  get<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, options?: GetOptions): Expected<T | undefined>;
  /** One page; `listAll` asks for each. Default answer: nothing is selected. */
  list<T extends KubernetesObject>(kind: Kind<T>, options?: ListOptions): Expected<readonly T[] | Partial<Page<T>>>;
  /** Default answer: what was sent. */
  create<T extends KubernetesObject>(object: T, options?: WriteOptions): Expected<T>;
  /** Default answer: what was sent. */
  update<T extends KubernetesObject>(object: T, options?: WriteOptions): Expected<T>;
  /** Default answer: what was sent. */
  updateStatus<T extends KubernetesObject>(object: T, options?: WriteOptions): Expected<T>;
  /** Needs an answer. */
  patch<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike, patch: object, options?: PatchOptions): Expected<T>;
  /** Default answer: what was sent. */
  apply<T extends KubernetesObject>(object: T, options?: ApplyOptions): Expected<T>;
  /** Default answer: the object existed. */
  delete(kind: Kind, key: KeyLike, options?: DeleteOptions): Expected<boolean>;
  deleteCollection(kind: Kind, selection?: Selection, options?: DeleteOptions): Expected<void>;
  /** Needs an answer: for each operation its value, or an ApiError. */
  batch(operations: readonly Operation<any>[]): Expected<readonly (unknown | ApiError)[]>;
}

/** The calls that the guest should make of `windlass-sdk/fleet`. */
export interface ExpectedFleet {
  /** Default answer: none. */
  clusters(options?: { labelSelector?: string }): Expected<readonly ClusterInfo[]>;
  /** Needed only to fail: a cluster that the script names can be opened at any time. */
  open(name: string): Pick<Expected<never>, 'fails'>;
  /** As the `batch` of a cluster. */
  batch(operations: readonly (readonly [cluster: string, operation: Operation<any>])[]): Expected<readonly (unknown | ApiError)[]>;
}

/** What a guest asks a server that is no API server. */
export interface ServedRequest {
  readonly method: string;
  readonly url: string;
  /** Those that the guest gives. The host adds others. */
  readonly headers: Headers;
  readonly body: Uint8Array;
  readonly timeoutMs?: number;
  /** The body as text. */
  text(): string;
  /** The body, read as JSON. */
  json<T = any>(): T;
}

/** What the server answers. */
export interface ServedAnswer extends Omit<BodyOptions, 'timeoutMs'> {
  /** Default: 200. */
  status?: number;
}

/** Stands for servers that are no API servers. An ApiError that it throws is that of the guest's call. */
export type Serve = (request: ServedRequest) => ServedAnswer;

/** The calls that the guest should make of `windlass-sdk/http`. */
export interface ExpectedHttp {
  /** Needs an answer. A body is compared as text, and one of JSON by its value. */
  send(request: HttpRequest): Expected<ServedAnswer>;
}

/**
 * The calls that a guest should make, in their order, and a host that answers them.
 *
 * Another call than the next one throws, and so does the end of a reconcile that has not made all calls. The script records events
 * and log lines.
 *
 * ```js
 * const script = new Script({ config: { greeting: 'salut' } });
 * const alpha = script.cluster('alpha');
 * alpha.get(ConfigMap, key).answers(asking);
 * alpha.apply(wanted, { force: true });
 * assert.deepEqual(script.reconcile(reconciler, { cluster: 'alpha', key }), { outcome: 'done' });
 * assert.equal(script.events[0].reason, 'Greeted');
 * ```
 */
export class Script {
  /** `config` is the reconciler's configuration, default `{}`; `now` is the time, default 2026-01-31T09:30:00.000Z. */
  constructor(options?: { config?: unknown; now?: string | Date });
  /** The events that the guest recorded. */
  readonly events: Recorded[];
  /** The lines that the guest logged. */
  readonly lines: Line[];
  /** The calls that the guest should make to the fleet. */
  readonly fleet: ExpectedFleet;
  /** The calls that the guest should make of servers that are no API servers. */
  readonly http: ExpectedHttp;
  /** The calls that the guest should make in a cluster. */
  cluster(name: string): ExpectedCluster;
  /** Runs a reconcile in its cluster; all calls expected so far must be made. */
  reconcile(reconciler: RawReconciler, request: Request): Outcome;
  /** Runs `describe`, and fills in every default. Throws the guest's errors. */
  describe(reconciler: RawReconciler): RawDescription;
  /** Runs a mapper; all calls expected so far must be made. Throws the errors of the guest. */
  map(mapper: RawMapper, cluster: string, kind: Kind, objects: readonly KubernetesObject[]): Request[];
}

/** The kind of call that a test counts, or lets fail. */
export type Verb = 'get' | 'list' | 'create' | 'update' | 'patch' | 'apply' | 'delete' | 'deleteCollection';

/**
 * Clusters in memory: those of the program `windlass`, which a process of tests starts when it first needs one. They answer as a real API
 * server does, and check as one. They serve the built-in kinds, those whose CustomResourceDefinitions are in the folder of the tests, and
 * those that a test defines or puts. Reads from the cache are as new as live ones.
 *
 * ```js
 * const fleet = new Fleet({ config: { greeting: 'salut' } });
 * const alpha = fleet.cluster('alpha');
 * alpha.put({ ...ConfigMap, metadata: { ...key, labels: { greet: 'world' } } });
 * assert.deepEqual(alpha.reconcile(reconciler, key), { outcome: 'done' });
 * assert.equal(alpha.get(ConfigMap, { ...key, name: 'a-greeting' }).data.greeting, 'salut, world');
 * assert.equal(alpha.reconciledWrites(reconciler, key), 0);
 * ```
 */
export class Fleet {
  /** `config` is the reconciler's configuration, default `{}`; `now` is the time, default 2026-01-31T09:30:00.000Z. */
  constructor(options?: { config?: unknown; now?: string | Date });
  /** The lines that the guest logged. */
  readonly lines: Line[];
  /** The cluster of that name, made when it is asked for first. `labels` and `properties` are added to those that it has. */
  cluster(name: string, options?: { labels?: Record<string, string>; properties?: Record<string, string> }): TestCluster;
  /** Sets the time. */
  now(time: string | Date): void;
  /** Serves a kind without a schema in all clusters. Namespaced, unless the options say otherwise. */
  define(kind: Kind, options?: { namespaced?: boolean }): void;
  /** Answers what guests ask servers that are no API servers. Without this, every such call is denied. */
  serve(answer: Serve): void;
  /** Runs `describe`, and fills in every default. Throws the guest's errors. */
  describe(reconciler: RawReconciler): RawDescription;
  /** Runs a part of a guest that logs, reads its config, or opens clusters. */
  run<T>(call: () => T): T;
}

/** How an API server fails: no connection is made, or every request is answered with an error. */
export type ServerFailure = 'unreachable' | 'errors';

/** A cluster in memory. Its methods act for the test: they are not counted as calls of the guest, and do not fail by `failNext`. */
export interface TestCluster {
  readonly name: string;
  /** The events that the guest recorded here. */
  readonly events: Recorded[];
  /** The calls that the guest made here, failed ones too. */
  readonly calls: Verb[];
  /** How many of them were writes. */
  readonly writes: number;
  /** The guest's client, for a test of a part of a guest. */
  readonly client: Cluster;
  /**
   * Stores an object as another writer would: creates it, or replaces the fields that it names, its status too. Its namespace is made, and
   * a kind that is not served is defined without a schema. An object with a `deletionTimestamp` is deleted then.
   */
  put(object: KubernetesObject): void;
  /** Merges a patch (RFC 7386) into an object and its status as another writer would. */
  patch(kind: Kind, key: KeyLike, patch: object): void;
  /** An object as it is stored now. */
  get<T extends KubernetesObject>(kind: Kind<T>, key: KeyLike): T | undefined;
  /** Every object that the test and the guest have made, by kind, namespace and name. */
  objects(): KubernetesObject[];
  /** Deletes an object as another writer would, and the objects that had no other owner. */
  remove(kind: Kind, key: KeyLike): void;
  /** Changes labels of the cluster: `null` removes one. */
  label(labels: Record<string, string | null>): void;
  /**
   * Takes the cluster out of the fleet: a guest neither sees nor opens it. It keeps its objects, which this still answers; `Fleet.cluster` lets it join
   * again.
   */
  leave(): void;
  /**
   * Makes the cluster's API server fail, until it heals. Guests get the errors of their calls, and see that one that is not reached is not ready. The test
   * itself still reads and writes.
   */
  fail(failure: ServerFailure): void;
  /** Ends the failure of the cluster's API server. */
  heal(): void;
  /** Lets the next call of this kind fail. Several errors are used in order, one for each call. */
  failNext(verb: Verb, error: ApiError): void;
  /** Runs a reconcile for an object of this cluster. */
  reconcile(reconciler: RawReconciler, key: KeyLike): Outcome;
  /** Runs a reconcile, and returns the number of its writes here: 0 for a second one. Throws if it fails. */
  reconciledWrites(reconciler: RawReconciler, key: KeyLike): number;
  /** Runs a mapper. Throws its errors. */
  map(mapper: RawMapper, kind: Kind, objects: readonly KubernetesObject[]): Request[];
}
