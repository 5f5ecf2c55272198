/** Code that cases share: where they run, their kinds, and how values and errors are logged. Entry points: `Scene` and `refuse`. */

import { ApiError, type Cluster, type KubernetesObject, type ObjectKey, kind, log } from 'windlass-sdk';

/** The parts of a ConfigMap that matter here. */
export interface ConfigMap extends KubernetesObject {
  data?: Record<string, string>;
}
export const ConfigMap = kind<ConfigMap>('v1', 'ConfigMap');

/** The parts of a Deployment that matter here. */
export interface Deployment extends KubernetesObject {
  spec: { replicas: number; template: { spec: { containers: { image: string }[]; terminationGracePeriodSeconds?: number } } };
  status?: { replicas?: number; readyReplicas?: number };
}
export const Deployment = kind<Deployment>('apps/v1', 'Deployment');

/** Where a case runs. */
export interface Scene {
  /** The request's cluster. */
  cluster: Cluster;
  /** The object that asks for the case. */
  primary: ConfigMap;
  /** The request's namespace. */
  namespace: string;
  /** The key of an object in it. */
  at(name: string): ObjectKey;
}

/** A ConfigMap with this data; without any, it has none. */
export function configMap(key: ObjectKey, data?: Record<string, string>): ConfigMap {
  return { ...ConfigMap, metadata: { ...key }, ...(data && { data }) };
}

/** A value of a line; what is not there is `none`. */
export function shown(value: unknown): unknown {
  return value ?? 'none';
}

/** The names of objects or clusters, joined by commas. */
export function named(those: Iterable<KubernetesObject | { name: string }>): string {
  const name = (one: KubernetesObject | { name: string }): string => ('metadata' in one ? one.metadata.name : one.name);
  return Array.from(those, name).join(',');
}

/** Makes a call, and logs the api-error that it ends in. */
export function refuse(call: string, make: () => unknown): void {
  try {
    make();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    refused(call, error);
  }
}

/** Logs a call that failed, with all fields of its error. */
export function refused(call: string, { code, status, reason, message, details, retryAfter }: ApiError): void {
  const [about, field] = [shown(details?.name), shown(details?.causes?.[0]?.field)];
  log.info(call, { code, status, reason, message, about, field, wait: shown(retryAfter) });
}
