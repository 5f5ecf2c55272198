/**
 * The other clusters. A guest that imports this needs a world with `fleet`, which the host links when a rule of the reconciler
 * names clusters.
 *
 * @packageDocumentation
 */

import type { Cluster, Operation, Result } from './index.js';

/** The facts about a cluster that need no request to it. */
export interface ClusterInfo {
  /** `""` is the local cluster. */
  name: string;
  /** Labels that its provider gave it. */
  labels: Record<string, string>;
  /** Properties that its provider gave it. */
  properties: Record<string, string>;
  /** Whether the cluster answers and its caches are filled. */
  ready: boolean;
}

/** The granted clusters, sorted by name; those whose labels match, as kubectl's `-l`. */
export function clusters(options?: { labelSelector?: string }): ClusterInfo[];

/** Opens a cluster until the current call ends. Throws an ApiError: `denied`, or `cluster-gone` when there is none. */
export function open(name: string): Cluster;

/** Opens the local (hub) cluster. */
export function local(): Cluster;

/** As {@link Cluster.batch}, each operation in the cluster named with it. */
export function batch<const O extends readonly (readonly [cluster: string, operation: Operation<any>])[]>(
  operations: O,
): { -readonly [I in keyof O]: Result<O[I][1] extends Operation<infer R> ? R : never> };
