//! Cases about calls that fail, by the code of their errors. Entry points: a function for each.

use crate::Scene;
use crate::words::{ConfigMap, refused};
use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, Operation};

/// Errors of a server, errors of the host, and answers that cannot be read.
pub(crate) fn codes(scene: &Scene) {
    for answer in [
        "400", "401", "403", "409", "410", "418", "429", "500", "503", "504", "cut", "endless",
    ] {
        let key = scene.at(&format!("answers-{answer}"));
        if let Err(error) = scene.cluster.get_live::<ConfigMap>(&key) {
            refused(answer, &error);
        }
    }
    for (api_version, kind) in [("v1", "Pod"), ("apps/v1", "Submarine")] {
        let none = scene.cluster.of(GroupVersionKind::new(api_version, kind));
        if let Err(error) = none.get(&scene.at("nothing")) {
            refused(kind, &error);
        }
    }
}

/// More operations than a batch may have.
pub(crate) fn limits(scene: &Scene) {
    let operations = vec![Operation::get::<ConfigMap>(&scene.at("apple")); 21];
    let replies = scene.cluster.batch(&operations);
    info!("limits", replies = replies.len());
    if let Some(Err(error)) = replies.first() {
        refused("too many", error);
    }
}

/// A call that the host ends at its deadline.
pub(crate) fn cancelled(scene: &Scene) {
    let key = scene.at("answers-never");
    if let Err(error) = scene.cluster.get_live::<ConfigMap>(&key) {
        refused("cancelled", &error);
    }
}
