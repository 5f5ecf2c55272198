//! Keeps a ConfigMap with the size of each Shelf. Entry point: [`Guest`].

use serde_json::json;
use types::shelf::{Shelf, ShelfStatus};
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

struct Guest;
windlass_sdk::guest!(Guest);

impl Reconciler for Guest {
    fn describe() -> Result<Description> {
        let labels = GroupVersionKind::new("v1", "ConfigMap");
        let owned = Watch::of(labels).enqueue(Enqueue::ControllerOwner);
        Ok(Description::new("labels shelves")
            .primary::<Shelf>()
            .watch(owned))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(shelf) = cluster.get::<Shelf>(&request.key)? else {
            return Ok(Action::Done);
        };
        let text = format!("room for {}", shelf.spec.size);
        let metadata = Metadata::of(&request.key).owner(shelf.controller_reference());
        cluster.ensure(&Object(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text},
        })))?;
        let status = ShelfStatus {
            phase: Some("Labelled".to_owned()),
            ..ShelfStatus::default()
        };
        cluster.set_status::<Shelf>(&request.key, &json!(status))?;
        Ok(Action::Done)
    }
}
