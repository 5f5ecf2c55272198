//! How workspaces go: first those who asked to work on them, then what is inside, then themselves.

use serde_json::Value;

use super::kinds::{self, CORE, TENANCY};
use super::queue::Subject;
use super::workspaces::{CLUSTER, FINALIZER, copy, logical_clusters, workspaces};
use super::{Kcp, let_go, text};
use crate::cluster::Cluster;
use crate::resource::CollectionId;
use crate::write::delete::DeleteOptions;

impl Kcp {
    pub(super) fn delete_workspace(&self, cluster: &str, name: &str, chosen: &str) {
        let Some(inside) = self.cluster(chosen) else {
            return self.amend(cluster, &workspaces(), name, |workspace| {
                let_go(workspace, FINALIZER);
            });
        };
        delete(&inside, CORE, "logicalclusters", CLUSTER);
        let status = self
            .object(chosen, &logical_clusters(), CLUSTER)
            .map(|own| own["status"].clone())
            .unwrap_or_default();
        self.amend(cluster, &workspaces(), name, |workspace| {
            for field in ["phase", "terminators"] {
                copy(&status, &mut workspace["status"], field);
            }
        });
    }

    /// Something in a workspace is gone: bindings that are being deleted may go on, and so may the workspace.
    pub(super) fn look_at_waiting(&self, cluster: &str) {
        let Some(found) = self.cluster(cluster) else {
            return;
        };
        let deleting: Vec<Box<str>> = found.with(|state| {
            let id = super::bindings::bindings();
            let all = state.store.range(&id, "");
            all.filter(|binding| binding.head.deleting)
                .map(|binding| binding.head.name.clone())
                .collect()
        });
        for name in deleting {
            self.queue.push(cluster, Subject::Binding, &name);
        }
        let own = self.object(cluster, &logical_clusters(), CLUSTER);
        if let Some(own) = own.filter(|own| own["status"]["phase"] == "Deleting") {
            self.empty(&found, &own);
        }
    }

    /// Deletes what a workspace holds, and the workspace with the last of it.
    fn empty(&self, cluster: &Cluster, own: &Value) {
        let stays =
            |id: &CollectionId| *id == logical_clusters() || *id == crate::state::namespaces();
        let left = cluster.with(|state| {
            let ids: Vec<CollectionId> = state
                .store
                .collections()
                .filter(|id| !stays(id))
                .cloned()
                .collect();
            for id in &ids {
                let Some(resource) = state.registry.of_collection(id).cloned() else {
                    continue;
                };
                let doomed: Vec<_> = state.store.range(id, "").cloned().collect();
                for head in doomed.iter().map(|object| &object.head) {
                    if !head.deleting {
                        let options = DeleteOptions::default();
                        state.delete_quietly(&resource, &head.namespace, &head.name, &options);
                    }
                }
            }
            ids.iter()
                .any(|id| state.store.range(id, "").next().is_some())
        });
        if left {
            return;
        }
        cluster.with(|state| {
            let namespaces: Vec<_> = state
                .store
                .range(&crate::state::namespaces(), "")
                .map(|object| object.head.name.clone())
                .collect();
            for name in namespaces {
                state.discard(&crate::state::namespaces(), &name);
            }
            state.discard(&logical_clusters(), CLUSTER);
        });
        let name = cluster.name();
        let path = self.members.write().remove(name).map(|member| member.path);
        self.clusters
            .forget(name, path.as_deref().unwrap_or_default());
        cluster.inner.closed.cancel();
        let owner = &own["spec"]["owner"];
        let (above, name) = (text(&owner["cluster"]), text(&owner["name"]));
        self.queue.push(&above, Subject::Workspace, &name);
    }

    /// Deletes a workspace as a request to the workspace above it would; returns whether there was one.
    pub(crate) fn delete_workspace_at(&self, path: &str) -> bool {
        let above = path.rsplit_once(':');
        let Some((above, name)) = above else {
            return false;
        };
        let Some(parent) = self.workspace(above) else {
            return false;
        };
        let there = delete(&parent, TENANCY, "workspaces", name);
        self.settle();
        there
    }
}

fn delete(cluster: &Cluster, group: &str, plural: &str, name: &str) -> bool {
    let Some(resource) = kinds::versions(group, plural).into_iter().next() else {
        return false;
    };
    cluster.with(|state| {
        let there = state.object(&resource, "", name).is_ok();
        state.delete_quietly(&resource, "", name, &DeleteOptions::default());
        there
    })
}
