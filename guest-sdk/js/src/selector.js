/**
 * Selectors over objects in memory, as kubectl writes them. Entry points: `labelSelector` and `fieldSelector`, which refuse a wrong one.
 *
 * @module
 */

import { invalid } from './store.js';

/** @typedef {Record<string, string>} Labels */

/** The forms of a requirement on labels. */
const COMPARISON = /^([\w./-]+)\s*(!=|==?)\s*([\w./-]*)$/;
const MEMBERSHIP = /^([\w./-]+)\s+(in|notin)\s*\(\s*([\w./-]*(?:\s*,\s*[\w./-]*)*)\s*\)$/;
const EXISTENCE = /^(!?)\s*([\w./-]+)$/;

/**
 * Tells whether labels match: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`.
 *
 * @param {string | undefined} selector
 * @returns {(labels?: Labels) => boolean}
 */
export function labelSelector(selector) {
  const requirements = split(selector).map(labelRequirement);
  return (labels = {}) => requirements.every((matches) => matches(labels));
}

/**
 * Tells whether an object matches a selector on `metadata.name` and `metadata.namespace`.
 *
 * @param {string | undefined} selector
 * @returns {(object: any) => boolean}
 */
export function fieldSelector(selector) {
  const requirements = split(selector).map(fieldRequirement);
  return (object) => requirements.every((matches) => matches(object));
}

/**
 * At the commas that are not inside parentheses.
 *
 * @param {string | undefined} selector
 */
function split(selector = '') {
  const parts = selector.split(/,(?![^(]*\))/).map((part) => part.trim());
  return parts.filter((part) => part !== '');
}

/**
 * @param {string} requirement
 * @returns {(labels: Labels) => boolean}
 */
function labelRequirement(requirement) {
  const compared = COMPARISON.exec(requirement);
  if (compared) {
    const [, key, operator, value] = compared;
    return (labels) => (Object.hasOwn(labels, key) && labels[key] === value) === (operator !== '!=');
  }
  const within = MEMBERSHIP.exec(requirement);
  if (within) {
    const [, key, operator, values] = within;
    const among = values.split(',').map((value) => value.trim());
    return (labels) => (Object.hasOwn(labels, key) && among.includes(labels[key])) === (operator === 'in');
  }
  const [, not, key] = EXISTENCE.exec(requirement) ?? [];
  if (key === undefined) throw invalid(`"${requirement}" is not a label selector`);
  return (labels) => Object.hasOwn(labels, key) === (not === '');
}

/**
 * @param {string} requirement
 * @returns {(object: any) => boolean}
 */
function fieldRequirement(requirement) {
  const [, path, operator, value] = /^([^=!]*)(!=|==?)([^=]*)$/.exec(requirement) ?? [];
  if (path === undefined) throw invalid(`"${requirement}" is not a field selector`);
  const field = /^metadata\.(name|namespace)$/.exec(path.trim())?.[1];
  if (!field) throw invalid(`a cluster in memory does not select by the field "${path.trim()}"`);
  return ({ metadata }) => (metadata[field] === value.trim()) === (operator !== '!=');
}
