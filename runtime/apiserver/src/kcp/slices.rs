//! Endpoint slices of exports: which URLs serve an export's virtual workspace, one per shard that has a consumer.

use serde_json::{Value, json};

use super::bindings::bindings;
use super::export::ExportId;
use super::kinds::{self, APIS};
use super::queue::Subject;
use super::shard::Shard;
use super::{Kcp, conditions, text};
use crate::resource::CollectionId;

/// The label by which bindings of an export are found.
pub(super) const EXPORT: &str = "internal.apis.kcp.io/export";

fn slices() -> CollectionId {
    kinds::collection(APIS, "apiexportendpointslices")
}

/// The base URL of an export's virtual workspace on a shard.
pub(super) fn url(shard: &Shard, export: &ExportId) -> String {
    let ExportId { cluster, name } = export;
    format!("{}/services/apiexport/{cluster}/{name}", shard.url)
}

impl Kcp {
    pub(super) fn wake_slices_of(&self, export: &ExportId) {
        for (cluster, slice) in self.everywhere(&slices()) {
            if self.export_of(&cluster, &slice["spec"]["export"]) == *export {
                let name = text(&slice["metadata"]["name"]);
                self.queue.push(&cluster, Subject::Slice, &name);
            }
        }
    }

    pub(super) fn look_at_slice(&self, cluster: &str, name: &str) {
        let Some(slice) = self.object(cluster, &slices(), name) else {
            // That of an export comes back.
            return self.queue.push(cluster, Subject::Export, name);
        };
        let reference = &slice["spec"]["export"];
        let export = self.export_of(cluster, reference);
        let known = self.exported(&export).is_some();
        let urls: Vec<Value> = if known {
            let shards = self.shards.iter();
            let used = shards.filter(|shard| has_consumer(shard, &export));
            used.map(|shard| json!({"url": url(shard, &export)}))
                .collect()
        } else {
            Vec::new()
        };
        self.amend(cluster, &slices(), name, |slice| {
            let why = format!(
                "Error getting APIExport {}|{}",
                text(&reference["path"]),
                export.name
            );
            let valid = if known {
                Ok(())
            } else {
                Err(("Error", "APIExportNotFound", why.as_str()))
            };
            conditions::set(slice, "APIExportValid", valid);
            conditions::set(slice, "PartitionValid", Ok(()));
            match slice["status"].as_object_mut() {
                Some(status) if urls.is_empty() => {
                    status.remove("endpoints");
                }
                _ => slice["status"]["endpoints"] = urls.into(),
            }
        });
    }
}

fn has_consumer(shard: &Shard, export: &ExportId) -> bool {
    let value = export.hash();
    shard.all.with(|state| {
        let id = bindings();
        let mut all = state.store.range(&id, "");
        all.any(|binding| binding.label(EXPORT) == Some(value.as_str()))
    })
}
