/**
 * Selectors over objects in memory, as kubectl writes them. Entry points: `labelsMatch` and `fieldsMatch`.
 *
 * @module
 */

import { invalid } from './store.js';

/**
 * Whether labels match: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`.
 *
 * @param {string | undefined} selector
 * @param {Record<string, string>} [labels]
 */
export const labelsMatch = (selector, labels = {}) => split(selector).every((each) => requirementMatches(each, labels));

/**
 * Whether an object matches a selector on `metadata.name` and `metadata.namespace`.
 *
 * @param {string | undefined} selector
 * @param {any} object
 */
export function fieldsMatch(selector, { metadata }) {
  return split(selector).every((requirement) => {
    const [, path, operator, value] = /^([^=!]*)(!=|==?)(.*)$/.exec(requirement) ?? [];
    if (path === undefined) throw invalid(`"${requirement}" is not a field selector`);
    const field = /^metadata\.(name|namespace)$/.exec(path.trim())?.[1];
    if (!field) throw invalid(`a cluster in memory does not select by the field "${path.trim()}"`);
    return (metadata[field] === value.trim()) === (operator !== '!=');
  });
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
 * @param {Record<string, string>} labels
 */
function requirementMatches(requirement, labels) {
  const [, key, operator, value] = /^([^=!]+)(!=|==?)(.*)$/.exec(requirement) ?? [];
  if (key !== undefined) return (labels[key.trim()] === value.trim()) === (operator !== '!=');
  if (requirement.includes('(')) {
    const [, key, operator, values] = /^(\S+)\s+(in|notin)\s*\((.*)\)$/.exec(requirement) ?? [];
    if (key === undefined) throw invalid(`"${requirement}" is not a label selector`);
    const isIn = key in labels && values.split(',').some((value) => value.trim() === labels[key]);
    return isIn === (operator === 'in');
  }
  return requirement.startsWith('!') ? !(requirement.slice(1).trim() in labels) : requirement in labels;
}
