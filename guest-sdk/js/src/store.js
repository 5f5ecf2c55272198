/**
 * The objects of a cluster in memory, and how writes change them. Entry point: `Store`.
 *
 * @module
 */

/** @import { Gvk, Key } from '../types/contract.js' */

import { isDeepStrictEqual } from 'node:util';
import { ApiError } from './errors.js';

/** @typedef {{ group: string, kind: string, object: any }} Entry */

/** What a server sets, for every object: tests compare whole objects. */
const TIME = '2026-01-01T00:00:00Z';

export class Store {
  /** @type {Map<string, Entry>} By group, kind, namespace and name, without the version: an object can be read in several. */
  #objects = new Map();
  /** @type {Map<string, any>} What was applied last: fields that are no longer applied go. */
  #applied = new Map();
  /** Grows with every change of any object. */
  version = 0;

  /**
   * @param {Gvk} kind
   * @param {Key} key
   */
  get(kind, key) {
    return this.#objects.get(identity(kind, key))?.object;
  }

  /** All objects, by kind, namespace and name. */
  all() {
    const sorted = [...this.#objects].sort(([a], [b]) => (a < b ? -1 : 1));
    return sorted.map(([, { object }]) => object);
  }

  /** @param {Gvk} kind */
  ofKind({ group, kind }) {
    const sorted = [...this.#objects].sort(([a], [b]) => (a < b ? -1 : 1));
    return sorted.filter(([, entry]) => entry.group === group && entry.kind === kind).map(([, { object }]) => object);
  }

  /**
   * Stores an object of the test, without preconditions.
   *
   * @param {Gvk} kind
   * @param {any} object
   */
  put(kind, object) {
    const stored = this.get(kind, keyOf(object));
    const metadata = merged(stored?.metadata ?? {}, object.metadata);
    const next = { ...stored, ...object, metadata };
    this.#save(kind, stored ? deletedAs(stored, next) : next);
  }

  /**
   * @param {Gvk} kind
   * @param {any} object
   * @param {boolean} dry
   */
  create(kind, object, dry) {
    const key = keyOf(object);
    if (this.get(kind, key)) throw failure('already-exists', 409, `${shown(kind, key)} already exists`);
    if (versionOf(object) !== undefined) throw invalid('metadata.resourceVersion must not be set on objects to be created');
    const { uid: _, ...metadata } = object.metadata;
    return this.#saveUnless(dry, kind, { ...object, metadata });
  }

  /**
   * Replaces the main part or the status; the other keeps what is stored.
   *
   * @param {Gvk} kind
   * @param {any} object
   * @param {boolean} isStatus
   * @param {boolean} dry
   */
  update(kind, object, isStatus, dry) {
    const key = keyOf(object);
    const stored = this.#stored(kind, key);
    const given = versionOf(object);
    if (given !== undefined && given !== stored.metadata.resourceVersion) {
      throw failure('conflict', 409, `${shown(kind, key)} has changed: read it again`);
    }
    const next = combined(stored, object, isStatus);
    // The status is replaced whole.
    if (isStatus && object.status == null) delete next.status;
    return this.#saveUnless(dry, kind, next);
  }

  /**
   * @param {Gvk} kind
   * @param {Key} key
   * @param {any} patch
   * @param {boolean} isStatus
   * @param {boolean} dry
   */
  patch(kind, key, patch, isStatus, dry) {
    return this.update(kind, merged(this.#stored(kind, key), patch), isStatus, dry);
  }

  /**
   * @param {Gvk} kind
   * @param {any} object
   * @param {boolean} isStatus
   * @param {boolean} dry
   */
  apply(kind, object, isStatus, dry) {
    const key = keyOf(object);
    const stored = this.get(kind, key);
    if (!stored && isStatus) throw absent(kind, key);
    const applied = appliedTo(stored, this.#applied.get(identity(kind, key)), object);
    const next = stored ? combined(stored, applied, isStatus) : applied;
    if (!dry) this.#applied.set(identity(kind, key), structuredClone(object));
    return this.#saveUnless(dry, kind, next);
  }

  /**
   * @param {Gvk} kind
   * @param {Key} key
   * @param {{ uid?: string, resourceVersion?: string, dryRun: boolean }} options
   */
  delete(kind, key, { uid, resourceVersion, dryRun }) {
    const { metadata } = this.#stored(kind, key);
    if ((uid != null && metadata.uid !== uid) || (resourceVersion != null && metadata.resourceVersion !== resourceVersion)) {
      throw failure('conflict', 409, `${shown(kind, key)} is not the object that the precondition names`);
    }
    if (!dryRun) this.remove(kind, key);
  }

  /**
   * Deletes an object, or marks it for deletion if finalizers hold it. Then deletes what it alone owned.
   *
   * @param {Gvk} kind
   * @param {Key} key
   */
  remove(kind, key) {
    const object = this.get(kind, key);
    if (!object) return;
    if (object.metadata.finalizers?.length > 0) {
      if (object.metadata.deletionTimestamp == null) {
        this.#save(kind, { ...object, metadata: { ...object.metadata, deletionTimestamp: TIME } });
      }
      return;
    }
    this.#objects.delete(identity(kind, key));
    this.#applied.delete(identity(kind, key));
    this.version += 1;
    const { uid } = object.metadata;
    for (const { group, kind, object } of [...this.#objects.values()]) {
      const owners = object.metadata.ownerReferences ?? [];
      const isOrphan = owners.length > 0 && owners.every((/** @type {any} */ owner) => owner.uid === uid);
      if (isOrphan) this.remove({ group, version: '', kind }, keyOf(object));
    }
  }

  /**
   * @param {Gvk} kind
   * @param {Key} key
   */
  #stored(kind, key) {
    const stored = this.get(kind, key);
    if (!stored) throw absent(kind, key);
    return stored;
  }

  /**
   * The end of a guest's write.
   *
   * @param {boolean} dry
   * @param {Gvk} kind
   * @param {any} object
   */
  #saveUnless(dry, kind, object) {
    const next = deletedAs(this.get(kind, keyOf(object)), object);
    return dry ? next : this.#save(kind, next);
  }

  /**
   * Stores an object with the metadata that a server sets. An unchanged object keeps its version.
   *
   * @param {Gvk} kind
   * @param {any} given
   */
  #save(kind, given) {
    const key = keyOf(given);
    const at = identity(kind, key);
    const stored = this.#objects.get(at)?.object;
    const object = structuredClone(given);
    const { metadata } = object;
    if (stored) {
      const { uid, creationTimestamp, resourceVersion, generation = 1 } = stored.metadata;
      const isOther = !isDeepStrictEqual(wanted(stored), wanted(object));
      Object.assign(metadata, { uid, creationTimestamp, resourceVersion, generation: generation + (isOther ? 1 : 0) });
      if (isDeepStrictEqual(stored, object)) return structuredClone(object);
    } else {
      const uid = metadata.uid ?? `00000000-0000-4000-8000-${String(this.version + 1).padStart(12, '0')}`;
      Object.assign(metadata, { uid, creationTimestamp: TIME, generation: 1 });
    }
    this.version += 1;
    metadata.resourceVersion = String(this.version);
    this.#objects.set(at, { group: kind.group, kind: kind.kind, object });
    const answer = structuredClone(object);
    if (metadata.deletionTimestamp != null) this.remove(kind, key);
    return answer;
  }
}

/**
 * The key of an object.
 *
 * @param {any} object
 * @returns {Key}
 */
export function keyOf(object) {
  const { namespace, name } = object.metadata ?? {};
  if (typeof name !== 'string' || name === '') throw invalid('metadata.name is required');
  return { namespace, name };
}

/** @param {string} message */
export const invalid = (message) => failure('invalid', 422, message);

/**
 * @param {import('../types/index.js').ApiCode} code
 * @param {number} status
 * @param {string} message
 */
const failure = (code, status, message) => new ApiError({ code, status, message });

/**
 * @param {Gvk} kind
 * @param {Key} key
 */
const absent = (kind, key) => failure('not-found', 404, `${shown(kind, key)} not found`);

/**
 * @param {Gvk} kind
 * @param {Key} key
 */
const shown = ({ kind }, { namespace, name }) => `${kind} ${namespace == null ? '' : `${namespace}/`}${name}`;

/**
 * Sorts by group, kind, namespace and name: no name has a character that is less than the separator.
 *
 * @param {Gvk} kind
 * @param {Key} key
 */
const identity = ({ group, kind }, { namespace, name }) => [group, kind, namespace ?? '', name].join('\u0000');

/**
 * The stored object with one part replaced.
 *
 * @param {any} stored
 * @param {any} given
 * @param {boolean} isStatus
 */
function combined(stored, given, isStatus) {
  const status = isStatus ? given.status : stored.status;
  const next = isStatus ? stored : given;
  // An object stored without a status has none to protect: which kinds have the subresource is not known here.
  return status === undefined ? { ...next } : { ...next, status };
}

/**
 * The object with the time of deletion of the stored one: only a server sets it.
 *
 * @param {any} stored
 * @param {any} object
 */
function deletedAs(stored, object) {
  const { deletionTimestamp: _, ...metadata } = object.metadata;
  const at = stored?.metadata.deletionTimestamp;
  return { ...object, metadata: at == null ? metadata : { ...metadata, deletionTimestamp: at } };
}

/**
 * The version that a write names: an empty one is none.
 *
 * @param {any} object
 * @returns {string | undefined}
 */
const versionOf = ({ metadata }) => metadata.resourceVersion || undefined;

/**
 * The part whose changes `metadata.generation` counts.
 *
 * @param {any} object
 */
function wanted({ metadata: _metadata, status: _status, ...rest }) {
  return rest;
}

/** @param {unknown} value */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * RFC 7386.
 *
 * @param {any} target
 * @param {any} patch
 * @returns {any}
 */
function merged(target, patch) {
  if (!isObject(patch)) return patch;
  const next = isObject(target) ? { ...target } : {};
  for (const [field, change] of Object.entries(patch)) {
    if (change === null) delete next[field];
    else next[field] = merged(next[field], change);
  }
  return next;
}

/**
 * Applies `now`, where `before` was applied last: its fields are set, those of `before` that it lacks go, all others stay. Lists are
 * replaced whole.
 *
 * @param {any} stored
 * @param {any} before
 * @param {any} now
 * @returns {any}
 */
function appliedTo(stored, before, now) {
  if (!isObject(stored) || !isObject(now)) return now;
  const next = { ...stored };
  for (const [field, old] of Object.entries(isObject(before) ? before : {})) {
    if (field in now) continue;
    const rest = isObject(next[field]) && isObject(old) ? appliedTo(next[field], old, {}) : {};
    // Only what was applied goes; what other writers set in the same object stays.
    if (Object.keys(rest).length > 0) next[field] = rest;
    else delete next[field];
  }
  for (const [field, value] of Object.entries(now)) next[field] = appliedTo(next[field], before?.[field], value);
  return next;
}
