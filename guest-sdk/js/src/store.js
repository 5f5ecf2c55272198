/**
 * The objects of a cluster in memory, and how writes change them. Entry point: `Store`.
 *
 * @module
 */

/** @import { Gvk, Key } from '../types/contract.js' */

import { isDeepStrictEqual } from 'node:util';
import { ApiError } from './errors.js';
import { addsFinalizer, appliedTo, combined, deletedAs, isDeleting, merged, named, wanted } from './fields.js';

/** @typedef {{ group: string, kind: string, object: any }} Entry */

/** What a server sets, for every object: tests compare whole objects. */
const TIME = '2026-01-01T00:00:00Z';

export class Store {
  /** @type {Map<string, Entry>} By group, kind, namespace and name, without the version: an object can be read in several. */
  #objects = new Map();
  /** @type {Map<string, { main?: any, status?: any }>} What was applied last to each part: fields that are no longer applied go. */
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
    return this.#sorted().map(({ object }) => object);
  }

  /** @param {Gvk} kind */
  ofKind({ group, kind }) {
    const entries = this.#sorted().filter((entry) => entry.group === group && entry.kind === kind);
    return entries.map(({ object }) => object);
  }

  #sorted() {
    const sorted = [...this.#objects].sort(([a], [b]) => (a < b ? -1 : 1));
    return sorted.map(([, entry]) => entry);
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
    if (named(object, 'resourceVersion') !== undefined) throw invalid('metadata.resourceVersion must not be set on objects to be created');
    const { uid: _, ...metadata } = object.metadata;
    return this.#saveUnless(dry, kind, combined(undefined, { ...object, metadata }, false));
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
    const stored = this.#stored(kind, keyOf(object));
    checkMeant(kind, stored, object);
    return this.#saveUnless(dry, kind, combined(stored, object, isStatus));
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
    checkMeant(kind, stored, object);
    const at = identity(kind, key);
    const part = isStatus ? 'status' : 'main';
    const before = this.#applied.get(at);
    const next = appliedTo(stored, before?.[part], object);
    const saved = this.#saveUnless(dry, kind, combined(stored, next, isStatus));
    if (this.#objects.has(at) && !dry) this.#applied.set(at, { ...before, [part]: structuredClone(object) });
    return saved;
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
   * Deletes an object, or marks it for deletion if finalizers hold it. Then deletes what has no other owner.
   *
   * @param {Gvk} kind
   * @param {Key} key
   */
  remove(kind, key) {
    const object = this.get(kind, key);
    if (!object) return;
    if (object.metadata.finalizers?.length > 0) {
      if (!isDeleting(object)) {
        this.#save(kind, { ...object, metadata: { ...object.metadata, deletionTimestamp: TIME } });
      }
      return;
    }
    this.#objects.delete(identity(kind, key));
    this.#applied.delete(identity(kind, key));
    this.version += 1;
    this.#collect(object.metadata.uid);
  }

  /**
   * Takes an owner that is gone out of all objects, and deletes those that it was the last one of.
   *
   * @param {string} uid
   */
  #collect(uid) {
    for (const entry of this.#sorted()) {
      const [of, key] = [{ ...entry, version: '' }, keyOf(entry.object)];
      // As it is now: a removal before may have changed it, or taken it away.
      const object = this.get(of, key);
      const { ownerReferences: owners, ...metadata } = object?.metadata ?? {};
      if (!Array.isArray(owners)) continue;
      const others = owners.filter((owner) => owner?.uid !== uid);
      if (others.length === owners.length) continue;
      if (others.length > 0) metadata.ownerReferences = others;
      this.#save(of, { ...object, metadata });
      if (others.length === 0) this.remove(of, key);
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
    const stored = this.get(kind, keyOf(object));
    const next = deletedAs(stored, object);
    if (isDeleting(stored) && addsFinalizer(stored, next)) {
      throw invalid('metadata.finalizers: no new finalizers can be added if the object is being deleted');
    }
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
      const isOther = !isDeepStrictEqual(wanted(stored), wanted(object)) || isDeleting(object) !== isDeleting(stored);
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
    if (isDeleting(object)) this.remove(kind, key);
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
 * Refuses a write of another object, or of another version, than the stored one. There may be none.
 *
 * @param {Gvk} kind
 * @param {any} stored
 * @param {any} object
 */
function checkMeant(kind, stored, object) {
  const [uid, version] = [named(object, 'uid'), named(object, 'resourceVersion')];
  const shownKey = shown(kind, keyOf(object));
  if (uid !== undefined && uid !== stored?.metadata.uid) throw failure('conflict', 409, `${shownKey} is not the object with the uid ${uid}`);
  if (version !== undefined && stored && version !== stored.metadata.resourceVersion) {
    throw failure('conflict', 409, `${shownKey} has changed: read it again`);
  }
}
