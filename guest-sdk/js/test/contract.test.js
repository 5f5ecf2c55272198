/** The TypeScript declarations match `wit/`. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

const read = (/** @type {string} */ path) => readFileSync(new URL(path, import.meta.url), 'utf8');
const wit = readdirSync(new URL('../../../wit', import.meta.url))
  .filter((name) => name.endsWith('.wit'))
  .map((name) => read(`../../../wit/${name}`))
  .join('\n')
  .replace(/\/\/.*/g, '');
const declared = read('../types/contract.d.ts') + read('../types/index.d.ts');

const camel = (/** @type {string} */ name) => name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());

/**
 * The first words of the members of every type of a sort.
 *
 * @param {string} sort
 */
function members(sort) {
  let plain = wit; // without the types of members
  for (let before = ''; before !== plain;) [before, plain] = [plain, plain.replace(/<[^<>]*>|\([^()]*\)/g, '')];
  const types = [...plain.matchAll(new RegExp(`\\b${sort} %?[\\w-]+ \\{([^}]*)\\}`, 'g'))];
  assert(types.length > 0);
  return types.flatMap(([, body]) => Array.from(body.matchAll(/(?:^|,)\s*%?([\w-]+)/g), ([, name]) => name));
}

test('every field of a record is declared', () => {
  const missing = members('record').filter((name) => !new RegExp(`\\b${camel(name)}\\??:`).test(declared));
  assert.deepEqual(missing, []);
});

test('every case of an enum and a variant is declared', () => {
  const missing = [...members('enum'), ...members('variant')].filter((name) => !declared.includes(`'${name}'`));
  assert.deepEqual(missing, []);
});

test('every function is declared', () => {
  const names = Array.from(wit.matchAll(/%?([\w-]+): func\(/g), ([, name]) => name);
  // The functions `get` and `write` are declared under the name of their interface.
  const missing = names.filter((name) => !new RegExp(`\\b${camel(name)}\\(`).test(declared) && !['get', 'write'].includes(name));
  assert(names.length > 10);
  assert.deepEqual(missing, []);
});

test('the imports are of the package’s version', () => {
  const [, version] = /package windlass:runtime@([\d.]+);/.exec(wit) ?? [];
  const components = ['component', 'component-fleet', 'component-http'].map((name) => read(`../src/host/${name}.js`));
  const sources = components.join('') + read('../types/imports.d.ts');
  const imported = Array.from(sources.matchAll(/windlass:runtime\/[\w-]+@([\d.]+)/g), ([, version]) => version);
  assert.deepEqual([...new Set(imported)], [version]);
});
