//! Runs websites: for each a page, its servers, their address, and an entry for the gateway. Entry point: [`Guest`].

use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_sdk::prelude::*;

/// What a Website asks for.
#[derive(Serialize, Deserialize)]
struct Website {
    metadata: Metadata,
    spec: Spec,
}
windlass_sdk::kind!(Website, "example.windlass.dev/v1", "Website");

#[derive(Serialize, Deserialize)]
struct Spec {
    html: String,
    host: String,
    replicas: u32,
}

/// A Website cannot own the entry, which is in another namespace: the finalizer waits for its deletion.
fn parts() -> Dependents<'static> {
    Dependents::new()
        .kind("v1", "ConfigMap")
        .kind("apps/v1", "Deployment")
        .kind("v1", "Service")
        .finalizer("example.windlass.dev/gateway")
}

struct Guest;
windlass_sdk::guest!(Guest);

impl Reconciler for Guest {
    fn describe() -> Result<Description> {
        let description = Description::new("runs websites").primary::<Website>();
        Ok(description.dependents(&parts()))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(site) = cluster.get::<Website>(&request.key)? else {
            return Ok(Action::Done);
        };
        let (html, host, replicas) = (&site.spec.html, &site.spec.host, site.spec.replicas);
        let (metadata, name) = (Metadata::of(&request.key), &request.key.name);
        let namespace = request.key.namespace.as_deref().unwrap_or_default();
        let labels = json!({"website": name});
        let server = json!({
            "name": "server",
            "image": "nginx:1.29",
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}],
        });
        let pod = json!({"containers": [server], "volumes": [{"name": "page", "configMap": {"name": name}}]});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let servers = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
        let entry = json!({"namespace": "gateway", "name": format!("{namespace}.{name}")});
        let address = format!("{name}.{namespace}.svc");
        let desired = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"index.html": html}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": servers}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 80}]}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": entry, "data": {"host": host, "address": address}}),
        ];
        let parts = parts().status(json!({"url": format!("http://{host}")}));
        parts.reconcile(cluster, &site, desired.map(Object))
    }
}
