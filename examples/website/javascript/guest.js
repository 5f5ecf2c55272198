/** Runs websites: for each a page, its servers, their address, and an entry for the gateway. */

import { defineReconciler, dependents, kind } from 'windlass-sdk';

const Website = kind('example.windlass.dev/v1', 'Website');
const ConfigMap = kind('v1', 'ConfigMap');
const Deployment = kind('apps/v1', 'Deployment');
const Service = kind('v1', 'Service');

// A Website cannot own the entry, which is in another namespace: the finalizer waits for its deletion.
const parts = dependents({ kinds: [ConfigMap, Deployment, Service], finalizer: 'example.windlass.dev/gateway' });

export const reconciler = defineReconciler({
  describe: () => ({ title: 'runs websites', watches: [{ kind: Website }, ...parts.watches], indexes: parts.indexes }),

  reconcile({ key }, cluster) {
    const site = cluster.get(Website, key);
    if (!site) return;
    const { html, host, replicas } = site.spec;
    const labels = { website: key.name };
    const server = {
      name: 'server',
      image: 'nginx:1.29',
      ports: [{ containerPort: 80 }],
      volumeMounts: [{ name: 'page', mountPath: '/usr/share/nginx/html' }],
    };
    const volumes = [{ name: 'page', configMap: { name: key.name } }];
    const template = { metadata: { labels }, spec: { containers: [server], volumes } };
    const address = `${key.name}.${key.namespace}.svc`;
    const entry = { namespace: 'gateway', name: `${key.namespace}.${key.name}` };
    const desired = [
      { ...ConfigMap, metadata: key, data: { 'index.html': html } },
      { ...Deployment, metadata: key, spec: { replicas, selector: { matchLabels: labels }, template } },
      { ...Service, metadata: key, spec: { selector: labels, ports: [{ port: 80 }] } },
      { ...ConfigMap, metadata: entry, data: { host, address } },
    ];
    return parts.reconcile(cluster, site, desired, { status: { url: `http://${host}` } });
  },
});
