/** Objects that a server stored survive their types: each is read, changed and written, and no other field differs. */

import { type Kind, type KubernetesObject, defineReconciler } from 'windlass-sdk';
import { Script } from 'windlass-sdk/testing';
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

/** Changes the object of a file as a guest does, and compares what it sends with what is expected. */
function survives<T extends KubernetesObject>(file: string, kind: Kind<T>, change: (object: T) => void): void {
  const before: T = read(`${file}.json`);
  const script = new Script();
  const alpha = script.cluster('alpha');
  alpha.get(kind, before).answers(before);
  alpha.update(read(`${file}.changed.json`));
  const changes = defineReconciler({
    describe: () => ({ title: 'changes', watches: [{ kind }] }),
    reconcile({ key }, cluster) {
      const object = cluster.get(kind, key);
      if (!object) throw new Error(`no ${file}`);
      (object.metadata.labels ??= {})['kept'] = 'yes';
      change(object);
      cluster.update(object);
    },
  });
  const { namespace, name } = before.metadata;
  script.reconcile(changes, { cluster: 'alpha', key: { namespace, name } });
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
