"""Runs websites: for each a page, its servers, their address, and an entry for the gateway."""

from windlass import Action, Cluster, Dependents, Description, Key, Reconciler, Request, Watch, new_object

WEBSITE = "example.windlass.dev/v1/Website"
CONFIG_MAP, DEPLOYMENT, SERVICE = "v1/ConfigMap", "apps/v1/Deployment", "v1/Service"

# A Website cannot own the entry, which is in another namespace: the finalizer waits for its deletion.
PARTS = Dependents([CONFIG_MAP, DEPLOYMENT, SERVICE], finalizer="example.windlass.dev/gateway")


class Guest(Reconciler):
    def describe(self) -> Description:
        return Description("runs websites", watches=[Watch(WEBSITE), *PARTS.watches], indexes=PARTS.indexes)

    def reconcile(self, request: Request, cluster: Cluster) -> Action | None:
        site = cluster.get(WEBSITE, request.key)
        if site is None:
            return None
        spec, name, labels = site["spec"], request.name, {"website": request.name}
        server = {
            "name": "server",
            "image": "nginx:1.29",
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}],
        }
        volumes = [{"name": "page", "configMap": {"name": name}}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": [server], "volumes": volumes}}
        servers = {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template}
        entry = {"host": spec["host"], "address": f"{name}.{request.namespace}.svc"}
        desired = [
            new_object(CONFIG_MAP, request.key) | {"data": {"index.html": spec["html"]}},
            new_object(DEPLOYMENT, request.key) | {"spec": servers},
            new_object(SERVICE, request.key) | {"spec": {"selector": labels, "ports": [{"port": 80}]}},
            new_object(CONFIG_MAP, Key("gateway", f"{request.namespace}.{name}")) | {"data": entry},
        ]
        return PARTS.reconcile(cluster, site, desired, status={"url": f"http://{spec['host']}"})
