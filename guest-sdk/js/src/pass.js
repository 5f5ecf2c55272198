/**
 * One pass over the dependents of a living object. Entry point: `Pass`.
 *
 * @module
 */

/** @import { Desired } from './applied.js' */
/** @import { Own } from './dependents.js' */
/** @import * as sdk from '../types/index.js' */

import { ApiError } from './errors.js';
import { isDeleting } from './finalizers.js';
import { keyOf, named } from './object.js';
import { operation } from './operation.js';

/** Failures that a message names. */
const MOST = 3;
/** Characters of what a message says of one failure. */
const LONGEST = 200;
/** HTTP's status for an object that the server does not take as it is. */
const UNPROCESSABLE = 422;

/**
 * A desired object, and as what it is applied.
 *
 * @typedef {[Desired, sdk.KubernetesObject]} Change
 */

/** @typedef {[...Change, sdk.ApiError]} Refused a change that the server does not take, and why */

/** A failure of one keeps none of the others from being applied and deleted. */
export class Pass {
  /** @type {string[]} What is not there yet, each with the reason. */
  waiting = [];
  /** @type {string[]} */
  #failures = [];
  /** @type {sdk.ApiError | undefined} */
  #first;
  #own;
  #cluster;
  #wanted;
  #found;
  /** @type {Map<string, sdk.KubernetesObject>} */
  #present;

  /**
   * @param {Own} own
   * @param {sdk.Cluster} cluster
   * @param {readonly Desired[]} wanted
   * @param {readonly sdk.KubernetesObject[]} found
   */
  constructor(own, cluster, wanted, found) {
    this.#own = own;
    this.#cluster = cluster;
    this.#wanted = wanted;
    this.#found = found;
    this.#present = new Map(found.map((object) => [identity(object), object]));
  }

  /** Applies what differs: first what others need to exist. What a server keeps in another form is applied once more, with a note of it. */
  applyAll() {
    const applied = [true, false].flatMap((first) => {
      const wanted = this.#wanted.filter(({ object }) => isGround(object) === first);
      return this.#apply(wanted.flatMap((each) => this.#change(each)));
    });
    const notes = applied.flatMap((each) => {
      const stored = /** @type {sdk.KubernetesObject} */ (this.#find(each.object));
      return each.isHeldBy(stored) ? [] : [/** @type {Change} */ ([each, each.noted(stored)])];
    });
    this.#apply(notes);
  }

  /**
   * What to apply; nothing if there is nothing to do, or not yet.
   *
   * @param {Desired} each
   * @returns {Change[]}
   */
  #change(each) {
    const present = this.#find(each.object);
    if (present && each.isHeldBy(present)) return [];
    if (present && isDeleting(present) && this.#mayRecreate(each.object)) {
      this.waiting.push(recreated(each.object));
      return [];
    }
    return [[each, each.next(present)]];
  }

  /**
   * Applies these, and returns those that are stored.
   *
   * @param {readonly Change[]} changes
   * @returns {Desired[]}
   */
  #apply(changes) {
    /** @type {Desired[]} */
    const applied = [];
    /** @type {Refused[]} */
    const refused = [];
    this.#batch(changes, (object) => operation.apply(object, { force: true })).forEach((result, at) => {
      const [each, object] = changes[at];
      if (result.status === 'fulfilled') {
        this.#present.set(identity(object), result.value);
        applied.push(each);
      } else if (result.reason.status === UNPROCESSABLE && this.#isOther(each)) {
        refused.push([...changes[at], result.reason]);
      } else {
        this.#notApplied(object, result.reason);
      }
    });
    this.#recreate(refused);
    return applied;
  }

  /**
   * Whether an object is to be deleted and created again. One that was made of the same fields is not: it would be made in the same way again, and
   * refused again.
   *
   * @param {Desired} each
   */
  #isOther(each) {
    const present = this.#find(each.object);
    return this.#mayRecreate(each.object) && present !== undefined && !each.wasAppliedTo(present);
  }

  /**
   * @param {readonly (Change | Refused)[]} changes
   * @param {(object: sdk.KubernetesObject) => sdk.Operation<any>} of
   * @returns {sdk.Result<any>[]}
   */
  #batch(changes, of) {
    return changes.length > 0 ? this.#cluster.batch(changes.map(([, object]) => of(object))) : [];
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {sdk.ApiError} error
   */
  #notApplied(object, error) {
    const why = this.#waitsFor(object, error);
    if (why) this.waiting.push(`${named(object)}: ${why}`);
    else this.#fail(named(object), error);
  }

  /**
   * What an object waits for that could not be applied; nothing if that is a failure.
   *
   * @param {sdk.KubernetesObject} object
   * @param {sdk.ApiError} error
   */
  #waitsFor(object, error) {
    const { namespace } = object.metadata;
    const { kind, causes } = detailsOf(error);
    if (error.code === 'not-found' && kind === 'namespaces') return `its namespace ${namespace} does not exist`;
    if (causes.some(({ reason }) => reason === 'NamespaceTerminating')) return `its namespace ${namespace} is being deleted`;
    return isDefined(error, object, this.#wanted) ? 'its kind is not served yet' : undefined;
  }

  /** @param {sdk.KubernetesObject} object */
  #mayRecreate(object) {
    return this.#own.recreate.some((kind) => isKind(kind, object));
  }

  /**
   * Deletes these objects, so that they are created again when they are gone. The server is asked before whether it would create them: an object that is
   * wrong altogether is not lost. One that is refused for what the object has itself, such as a port, tells nothing: the change is the failure then.
   *
   * @param {readonly Refused[]} refused
   */
  #recreate(refused) {
    /** @type {sdk.KubernetesObject[]} */
    const doomed = [];
    this.#batch(refused, (object) => operation.create(object, { dryRun: true })).forEach((result, at) => {
      const [, object, error] = refused[at];
      if (result.status === 'rejected' && result.reason.code !== 'already-exists') {
        this.#fail(named(object), result.reason.status === UNPROCESSABLE ? error : result.reason);
      } else doomed.push(/** @type {sdk.KubernetesObject} */ (this.#find(object)));
    });
    for (const { object, error } of remove(this.#cluster, doomed)) {
      if (error && error.code !== 'conflict') this.#notDeleted(object, error);
      else this.waiting.push(recreated(object));
    }
  }

  /** Deletes what is no longer desired. */
  deleteOthers() {
    const names = new Set(this.#wanted.map(({ object }) => identity(object)));
    for (const { object, error } of remove(
      this.#cluster,
      this.#found.filter((each) => !names.has(identity(each))),
    )) {
      if (error) this.#notDeleted(object, error);
    }
  }

  /**
   * @param {sdk.KubernetesObject} object
   * @param {sdk.ApiError} error
   */
  #notDeleted(object, error) {
    this.#fail(`${named(object)} cannot be deleted`, error);
  }

  /**
   * @param {string} what
   * @param {sdk.ApiError} error
   */
  #fail(what, error) {
    this.#failures.push(`${what}: ${plain(error)}`);
    this.#first ??= error;
  }

  /** The first failure, with a message that names several. */
  failed() {
    if (!this.#first) return undefined;
    const more = this.#failures.length - MOST;
    const message = this.#failures.slice(0, MOST).join('; ') + (more > 0 ? `; and ${more} more` : '');
    const { code, status, reason, details, retryAfter } = this.#first;
    return new ApiError({ code, message, status, reason, details, retryAfter });
  }

  /** What is stored and not ready, each with the reason. */
  notReady() {
    return this.#wanted.flatMap(({ object }) => {
      const stored = this.#find(object);
      const why = stored && this.#own.ready(stored);
      return why ? [`${named(object)}: ${why}`] : [];
    });
  }

  /** @param {sdk.KubernetesObject} object */
  #find(object) {
    return this.#present.get(identity(object));
  }
}

/**
 * The text about an object that is deleted to be created again.
 *
 * @param {sdk.KubernetesObject} object
 */
const recreated = (object) => `${named(object)}: it is deleted, and then created again`;

/** @param {sdk.KubernetesObject} object */
export function identity(object) {
  const { namespace = '', name } = keyOf(object);
  return `${object.apiVersion}/${object.kind}/${namespace}/${name}`;
}

/**
 * @param {sdk.Kind} kind
 * @param {sdk.Kind} object
 */
export const isKind = (kind, object) => kind.apiVersion === object.apiVersion && kind.kind === object.kind;

/**
 * Whether other objects need this one to exist: a Namespace, or the definition of a kind.
 *
 * @param {sdk.KubernetesObject} object
 */
function isGround({ apiVersion, kind }) {
  return (kind === 'Namespace' && apiVersion === 'v1') || isDefinition({ apiVersion, kind });
}

/**
 * Whether this is the kind of definitions of kinds.
 *
 * @param {sdk.Kind} kind
 */
export const isDefinition = ({ apiVersion, kind }) =>
  kind === 'CustomResourceDefinition' && apiVersion.startsWith('apiextensions.k8s.io/');

/**
 * Whether the cluster does not know a kind whose definition is desired.
 *
 * @param {sdk.ApiError} error
 * @param {sdk.Kind} kind
 * @param {readonly Desired[]} wanted
 */
function isDefined(error, { apiVersion, kind }, wanted) {
  const group = apiVersion.split('/').slice(0, -1).join('/');
  return (
    error.code === 'unknown-kind' &&
    wanted.some(({ object }) => isGround(object) && object.spec?.group === group && object.spec?.names?.kind === kind)
  );
}

/**
 * Deletes these objects and what they own, and not newer ones of the same names; Namespaces and definitions of kinds after all others. Returns those that
 * were not being deleted yet.
 *
 * @param {sdk.Cluster} cluster
 * @param {readonly sdk.KubernetesObject[]} objects
 * @returns {{ object: sdk.KubernetesObject, error?: sdk.ApiError }[]}
 */
export function remove(cluster, objects) {
  return [false, true].flatMap((last) => {
    const doomed = objects.filter((object) => !isDeleting(object) && isGround(object) === last);
    if (doomed.length === 0) return [];
    const deletes = doomed.map((object) => operation.delete(object, object, { uid: object.metadata.uid, propagation: 'background' }));
    return cluster.batch(deletes).map((result, at) => {
      const failed = result.status === 'rejected' && result.reason.code !== 'not-found';
      return failed ? { object: doomed[at], error: /** @type {any} */ (result).reason } : { object: doomed[at] };
    });
  });
}

/**
 * What the API server says of a failure.
 *
 * @param {sdk.ApiError} error
 * @returns {{ kind?: string, causes: { reason?: string, message?: string, field?: string }[] }}
 */
function detailsOf({ details }) {
  const { kind, causes } = /** @type {any} */ (details ?? {});
  return { kind, causes: Array.isArray(causes) ? causes : [] };
}

/**
 * A failure's message: the first field that is wrong, without the value that a server prints of it.
 *
 * @param {sdk.ApiError} error
 */
export function plain(error) {
  const texts = detailsOf(error).causes.map(({ message = '', field }) => {
    const said = message.slice(message.lastIndexOf('}: ') < 0 ? 0 : message.lastIndexOf('}: ') + 3);
    return bounded(field ? `${field}: ${said}` : said);
  });
  return texts.length > 0 ? summary(texts) : bounded(error.message);
}

/** @param {string} text */
function bounded(text) {
  const characters = [...text];
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join('')}…` : text;
}

/** @param {readonly string[]} texts */
export const summary = ([first, ...more]) => (more.length > 0 ? `${first}, and ${more.length} more` : first);
