/**
 * Converts a description into the contract's form. Entry point: `description`.
 *
 * @module
 */

/** @import { RawDescription, RawEnqueue, RawIndex, RawWatch } from '../types/contract.js' */

import * as check from './check.js';

const WATCH = ['kind', 'enqueue', 'clusters', 'labelSelector', 'fieldSelector', 'changes', 'metadataOnly', 'options'];
const WAYS = /** @type {const} */ (['primary', 'controller-owner', 'any-owner', 'same-name', 'mapped']);
const CLUSTERS = /** @type {const} */ (['as-configured', 'local', 'provider', 'all']);
const CHANGES = /** @type {const} */ (['generation', 'labels', 'annotations', 'status']);

/**
 * @param {unknown} value
 * @returns {RawDescription}
 */
export function description(value) {
  const given = check.bag('description', value, ['title', 'primary', 'watches', 'indexes', 'options']);
  const watches = check.array('watches', given.watches).map((each, at) => watch(`watches[${at}]`, each));
  return {
    title: check.text('title', given.title),
    primary:
      given.primary === undefined ? watches.find(({ enqueue }) => enqueue.tag === 'primary')?.kind : check.gvk('primary', given.primary),
    watches,
    indexes: check.array('indexes', given.indexes).map((each, at) => index(`indexes[${at}]`, each)),
    options: check.pairs('options', given.options),
  };
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {RawWatch}
 */
function watch(what, value) {
  const given = check.bag(what, value, WATCH);
  const changes = check.array(`${what}.changes`, given.changes);
  return {
    kind: check.gvk(`${what}.kind`, given.kind),
    enqueue: enqueue(`${what}.enqueue`, given.enqueue ?? 'primary'),
    clusters: check.oneOf(`${what}.clusters`, CLUSTERS, given.clusters ?? 'as-configured'),
    labelSelector: check.optionalText(`${what}.labelSelector`, given.labelSelector),
    fieldSelector: check.optionalText(`${what}.fieldSelector`, given.fieldSelector),
    changes: changes.map((each, at) => check.oneOf(`${what}.changes[${at}]`, CHANGES, each)),
    metadataOnly: check.flag(`${what}.metadataOnly`, given.metadataOnly),
    options: check.pairs(`${what}.options`, given.options),
  };
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {RawEnqueue}
 */
function enqueue(what, value) {
  if (typeof value === 'string') return { tag: check.oneOf(what, WAYS, value) };
  const { byIndex } = check.bag(what, value, ['byIndex']);
  return { tag: 'by-index', val: check.text(`${what}.byIndex`, byIndex) };
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {RawIndex}
 */
function index(what, value) {
  const given = check.bag(what, value, ['kind', 'name', 'path', 'namespacePath', 'options']);
  return {
    kind: check.gvk(`${what}.kind`, given.kind),
    name: check.text(`${what}.name`, given.name),
    path: check.text(`${what}.path`, given.path),
    namespacePath: check.optionalText(`${what}.namespacePath`, given.namespacePath),
    options: check.pairs(`${what}.options`, given.options),
  };
}
