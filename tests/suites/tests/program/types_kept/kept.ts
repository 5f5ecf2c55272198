/** Objects that a server stored survive their types: each is read, changed and written, and no other field differs. */

import { type Kind, type KubernetesObject } from 'windlass-sdk';
import { Fleet } from 'windlass-sdk/testing';
import { Cluster } from './cluster';
import { ClusterClass } from './cluster_class';
import { ConfigMap } from './config_map';
import { CustomResourceDefinition } from './custom_resource_definition';
import { Deployment } from './deployment';
import { Issuer } from './issuer';
import { MachineDeployment } from './machine_deployment';
import { Odd } from './odd';
import { Pod } from './pod';

/** Of the program that runs this. */
declare const read: (file: string) => any;
declare const same: (after: unknown, expected: unknown) => void;

/** Changes the object of a file as a guest does, and compares it with what is expected. */
function survives<T extends KubernetesObject>(file: string, kind: Kind<T>, change: (object: T) => void): void {
  const before = read(`${file}.json`);
  const alpha = new Fleet().cluster('alpha');
  alpha.put(before);
  const object = alpha.client.get(kind, before.metadata);
  if (!object) throw new Error(`no ${file}`);
  (object.metadata.labels ??= {})['kept'] = 'yes';
  change(object);
  alpha.client.update(object);
  const after: any = alpha.get(kind, before.metadata);
  const expected = read(`${file}.changed.json`);
  for (const { metadata } of [after, expected]) {
    for (const ofServers of ['resourceVersion', 'generation', 'creationTimestamp', 'managedFields']) delete metadata[ofServers];
  }
  same(after, expected);
}

const changeOdd = (odd: Odd) => {
  odd.spec.ports![1]!.port = 8443;
};
survives('odd', Odd, changeOdd);
survives('stored_odd', Odd, changeOdd);
survives('cluster', Cluster, (cluster) => {
  cluster.spec.topology!.version = 'v1.35.0';
});
survives('cluster_class', ClusterClass, (of) => {
  of.spec.variables![0]!.required = false;
});
survives('config_map', ConfigMap, (page) => {
  page.data!['b'] = '2';
});
survives('custom_resource_definition', CustomResourceDefinition, (definition) => {
  definition.spec.versions[0]!.served = false;
});
survives('deployment', Deployment, (servers) => {
  servers.spec!.replicas = 3;
});
survives('issuer', Issuer, (issuer) => {
  issuer.spec.acme!.server = 'https://other.example.com';
});
survives('machine_deployment', MachineDeployment, (machines) => {
  machines.spec.replicas = 3;
});
survives('pod', Pod, (pod) => {
  pod.spec!.containers[0]!.image = 'nginx:2';
});
