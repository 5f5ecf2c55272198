/**
 * Selectors over objects in memory, as kubectl writes them. Entry points: `labelSelector` and `fieldSelector`, which refuse a wrong one.
 *
 * @module
 */

import { invalid } from './store.js';

/** @typedef {Record<string, string>} Labels */

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
  const [, key, operator, value] = /^([^=!]+)(!=|==?)(.*)$/.exec(requirement) ?? [];
  if (key !== undefined) return (labels) => (labels[key.trim()] === value.trim()) === (operator !== '!=');
  if (requirement.includes('(')) {
    const [, key, operator, values] = /^(\S+)\s+(in|notin)\s*\((.*)\)$/.exec(requirement) ?? [];
    if (key === undefined) throw invalid(`"${requirement}" is not a label selector`);
    const among = values.split(',').map((value) => value.trim());
    return (labels) => (Object.hasOwn(labels, key) && among.includes(labels[key])) === (operator === 'in');
  }
  if (!requirement.startsWith('!')) return (labels) => Object.hasOwn(labels, requirement);
  const absent = requirement.slice(1).trim();
  return (labels) => !Object.hasOwn(labels, absent);
}

/**
 * @param {string} requirement
 * @returns {(object: any) => boolean}
 */
function fieldRequirement(requirement) {
  const [, path, operator, value] = /^([^=!]*)(!=|==?)(.*)$/.exec(requirement) ?? [];
  if (path === undefined) throw invalid(`"${requirement}" is not a field selector`);
  const field = /^metadata\.(name|namespace)$/.exec(path.trim())?.[1];
  if (!field) throw invalid(`a cluster in memory does not select by the field "${path.trim()}"`);
  return ({ metadata }) => (metadata[field] === value.trim()) === (operator !== '!=');
}
