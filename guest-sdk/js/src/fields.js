/**
 * How writes change the fields of an object in memory. Entry points: `combined`, `merged` and `appliedTo`. No function changes what it gets.
 *
 * @module
 */

/**
 * The stored object with one part replaced: its status, or the rest. There may be none.
 *
 * @param {any} stored
 * @param {any} given
 * @param {boolean} isStatus
 */
export function combined(stored, given, isStatus) {
  const { status } = (isStatus ? given : stored) ?? {};
  const { status: _, ...rest } = isStatus ? stored : given;
  return status == null ? rest : { ...rest, status };
}

/**
 * The object with the time of deletion of the stored one: only a server sets it.
 *
 * @param {any} stored
 * @param {any} object
 */
export function deletedAs(stored, object) {
  const { deletionTimestamp: _, ...metadata } = object.metadata;
  const at = stored?.metadata.deletionTimestamp;
  return { ...object, metadata: at == null ? metadata : { ...metadata, deletionTimestamp: at } };
}

/** @param {any} object */
export const isDeleting = (object) => object?.metadata.deletionTimestamp != null;

/**
 * @param {any} stored
 * @param {any} object
 */
export function addsFinalizer(stored, object) {
  const there = stored.metadata.finalizers ?? [];
  return (object.metadata.finalizers ?? []).some((/** @type {string} */ name) => !there.includes(name));
}

/**
 * A field of the metadata that a write names: an empty one is none.
 *
 * @param {any} object
 * @param {'uid' | 'resourceVersion'} field
 * @returns {string | undefined}
 */
export const named = ({ metadata }, field) => metadata[field] || undefined;

/**
 * The part whose changes `metadata.generation` counts.
 *
 * @param {any} object
 */
export function wanted({ metadata: _metadata, status: _status, ...rest }) {
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
export function merged(target, patch) {
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
export function appliedTo(stored, before, now) {
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
