//! Keeps a ConfigMap with the text of each {{kind}}, and a copy of it in another namespace. Entry point: [`Guest`].

use serde_json::json;
use windlass_sdk::prelude::*;

/// The kinds of the objects that a {{kind}} should have. It cannot own the copy, which is in another namespace: the finalizer
/// waits for its deletion. A controller without such objects needs no finalizer.
fn parts() -> Dependents<'static> {
    Dependents::new()
        .kind("v1", "ConfigMap")
        .finalizer("{{group}}/copy")
}

/// The guest.
struct Guest;
windlass_sdk::guest!(Guest);

impl Reconciler for Guest {
    /// Watches the kind, and its dependents: an event on one of them enqueues its owner.
    fn describe() -> Result<Description> {
        let description = Description::new("keeps a ConfigMap for each {{kind}}");
        let description = description.primary::<types::{{stem}}::{{type}}>();
        Ok(description.dependents(&parts()))
    }

    /// Brings the dependents of one object to their desired state. Called again until it succeeds, and after every change that may
    /// matter. A request names an object and never an event. An error (`?`) is retried with growing delay.
    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        // Reads come from the host's cache.
        let Some(object) = cluster.get::<types::{{stem}}::{{type}}>(&request.key)? else {
            return Ok(Action::Done);
        };
        // The name of the object alone may be that of a ConfigMap of somebody else.
        let name = format!("{}-{{singular}}", request.key.name);
        let mut keys = vec![request.key.sibling(&name)];
        if let Some(namespace) = &object.spec.copy_to {
            let from = request.key.namespace.as_deref().unwrap_or_default();
            keys.push(ObjectKey::namespaced(namespace, format!("{from}.{name}")));
        }
        let desired = keys.iter().map(|key| {
            Object(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": Metadata::of(key),
                "data": {"text": object.spec.text},
            }))
        });
        // Applies what differs, deletes what is no longer desired, and sets the conditions Ready and Progressing.
        let status = json!({"observedGeneration": object.metadata.generation});
        parts().status(status).reconcile(cluster, &object, desired)
    }
}

#[cfg(test)]
mod tests;
