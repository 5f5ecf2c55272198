/**
 * Keeps records of DNS at an API outside of Kubernetes. A write is a PUT of the whole record, so that doing it twice is the same as once. The API's token
 * is no matter of this guest: the operator has the host add it (`spec.http` of the Reconciler).
 */

import { type KubernetesObject, NotReady, TerminalError, config, defineReconciler, hasFinalizer, isDeleting, kind } from 'windlass-sdk';
import * as http from 'windlass-sdk/http';

interface DnsRecord extends KubernetesObject {
  spec: { zone: string; name: string; address: string };
  /** Where the record is. It stays when the spec names another one, until that is gone. */
  status?: { url?: string };
}
const DnsRecord = kind<DnsRecord>('example.windlass.dev/v1', 'DnsRecord');

/** Holds the object until its record is gone. */
const FINALIZER = 'dns.example.windlass.dev/record';
/** How long to wait when the API asks for patience without saying how long. */
const PATIENCE = 10_000;

export const reconciler = defineReconciler({
  describe: () => ({ title: 'keeps records of DNS', watches: [{ kind: DnsRecord }] }),

  reconcile({ key }, cluster) {
    const wanted = cluster.get(DnsRecord, key);
    if (!wanted) return;
    const { zone, name, address } = wanted.spec;
    const url = `${config<{ api: string }>().api}/v1/zones/${zone}/records/${name}`;
    const before = wanted.status?.url;
    if (isDeleting(wanted)) {
      if (!hasFinalizer(wanted, FINALIZER)) return;
      remove(before ?? url);
      cluster.removeFinalizer(wanted, FINALIZER);
      return;
    }
    // Added before the record is made, so that no record outlives its object.
    cluster.ensureFinalizer(wanted, FINALIZER);
    if (before !== undefined && before !== url) remove(before);
    cluster.setStatus(DnsRecord, key, { url });
    if (read(url)?.address === address) return;
    settled(http.put(url, { json: { address } }));
    cluster.event(wanted, 'RecordWritten', `${name}.${zone} is ${address}`);
  },
});

function read(url: string): { address: string } | undefined {
  const answer = http.get(url);
  return answer.status === 404 ? undefined : settled(answer).json();
}

function remove(url: string) {
  const answer = http.delete(url);
  if (answer.status !== 404) settled(answer);
}

/** The answer of a call that did what it was to do. At the limit of the API the run ends, to go on when the API allows it. */
function settled(answer: http.Response): http.Response {
  try {
    return answer.success();
  } catch (error) {
    if (!(error instanceof http.HttpStatusError)) throw error;
    if (error.status === 429) throw new NotReady(error.message, error.retryAfterMs ?? PATIENCE);
    if ([400, 422].includes(error.status)) throw new TerminalError(error);
    throw error;
  }
}
