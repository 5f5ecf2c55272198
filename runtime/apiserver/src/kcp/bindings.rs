//! Bindings: the controller that serves an export's kinds in a workspace, and [`Grant`], what a binding lets its export do there.

use std::sync::Arc;

use serde_json::{Value, json};

use super::export::{ClaimedKind, ExportId, Exported, ExportedKind, event_group};
use super::kinds::{self, APIS};
use super::queue::Subject;
use super::slices::EXPORT;
use super::{Kcp, conditions, hold, is_deleting, items, let_go, text};
use crate::cluster::Cluster;
use crate::place::Claim;
use crate::resource::CollectionId;
use crate::selector::Labels;
use crate::write::delete::DeleteOptions;

/// A binding stays until the objects of what it bound are gone.
const FINALIZER: &str = "apis.kcp.io/apibinding-finalizer";

/// What a binding lets its export do in a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) export: ExportId,
    /// Kinds that are served in the workspace because of it.
    pub(crate) bound: Vec<CollectionId>,
    pub(crate) accepted: Vec<Accepted>,
    /// Marks of claimed objects.
    claims: Vec<Claim>,
    /// The binding is being deleted.
    pub(crate) closing: bool,
}

/// A claim that was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) group: String,
    pub(crate) plural: String,
    /// Those that both sides name.
    pub(crate) verbs: Vec<String>,
    /// Labels that the claim's selector asks for by value, which new objects get.
    pub(crate) labels: Vec<(String, String)>,
}

pub(super) fn bindings() -> CollectionId {
    kinds::collection(APIS, "apibindings")
}

/// Why a binding is not bound: the condition that says so, a reason and a message.
struct Unbound {
    condition: &'static str,
    reason: &'static str,
    message: String,
}

impl Kcp {
    pub(super) fn look_at_binding(&self, cluster: &str, name: &str) {
        let Some(binding) = self.object(cluster, &bindings(), name) else {
            return self.forget_binding(cluster, name);
        };
        if is_deleting(&binding) {
            return self.unbind(cluster, name, &binding);
        }
        let reference = &binding["spec"]["reference"]["export"];
        let export = self.export_of(cluster, reference);
        if text(&binding["status"]["phase"]).is_empty() {
            self.amend(cluster, &bindings(), name, |binding| {
                hold(binding, FINALIZER);
                binding["metadata"]["labels"][EXPORT] = export.hash().into();
                binding["status"]["phase"] = "Binding".into();
                wait(
                    binding,
                    "WaitingForEstablished",
                    "Waiting for API(s) to be established",
                );
            });
            let accepted = self
                .exported(&export)
                .map(|exported| accepted(&exported, &binding));
            let (accepted, claims) = accepted.unwrap_or_default();
            let grant = Grant {
                bound: Vec::new(),
                export: export.clone(),
                accepted,
                claims,
                closing: false,
            };
            self.set_grant(cluster, name, Some(grant));
            return self.wake_slices_of(&export);
        }
        match self.bind(cluster, name, &binding, &export) {
            Ok(exported) => self.say_bound(cluster, name, &export, &exported),
            Err(why) => self.amend(cluster, &bindings(), name, |binding| {
                let failed = Err(("Error", why.reason, why.message.as_str()));
                conditions::set(binding, why.condition, failed);
                if why.condition == "BindingUpToDate" {
                    wait(binding, why.reason, &why.message);
                }
            }),
        }
        self.wake_slices_of(&export);
    }

    /// Serves what the export offers in the workspace and notes what the export may do there.
    fn bind(
        &self,
        cluster: &str,
        name: &str,
        binding: &Value,
        export: &ExportId,
    ) -> Result<Arc<Exported>, Unbound> {
        let invalid = |reason, message| Unbound {
            condition: "APIExportValid",
            reason,
            message,
        };
        let Some(exported) = self.exported(export) else {
            let path = text(&binding["spec"]["reference"]["export"]["path"]);
            let message = format!("APIExport {path}|{} not found", export.name);
            return Err(invalid("APIExportNotFound", message));
        };
        if let Some(missing) = exported.missing.first() {
            let message = format!(
                "Invalid APIExport. Please contact the APIExport owner to resolve: APIResourceSchema {missing:?} not found"
            );
            return Err(invalid("InternalError", message));
        }
        let Some(found) = self.cluster(cluster) else {
            return Ok(exported);
        };
        for kind in &exported.kinds {
            if let Some(owner) = self.owner_of_kind(cluster, name, kind) {
                let id = &kind.collection;
                return Err(Unbound {
                    condition: "BindingUpToDate",
                    reason: "NamingConflicts",
                    message: format!(
                        "Unable to bind APIs because they are bound by other APIBindings or CRDs: {}.{} is bound by {owner}",
                        id.plural, id.group
                    ),
                });
            }
        }
        let bound: Vec<CollectionId> = exported
            .kinds
            .iter()
            .map(|kind| kind.collection.clone())
            .collect();
        let before = self.grant(cluster, name);
        found.with(|state| {
            for id in before.iter().flat_map(|grant| &grant.bound) {
                if !bound.contains(id) {
                    state.registry.set_custom(&id.group, &id.plural, Vec::new());
                    state.store.end_watches(id);
                }
            }
            for kind in &exported.kinds {
                let id = &kind.collection;
                state
                    .registry
                    .set_custom(&id.group, &id.plural, kind.versions.clone());
            }
        });
        let (accepted, claims) = accepted(&exported, binding);
        let grant = Grant {
            export: export.clone(),
            bound,
            accepted,
            claims,
            closing: false,
        };
        self.set_grant(cluster, name, Some(grant));
        Ok(exported)
    }

    fn say_bound(&self, cluster: &str, name: &str, export: &ExportId, exported: &Exported) {
        let resources: Vec<Value> = exported.kinds.iter().map(bound_resource).collect();
        self.amend(cluster, &bindings(), name, |binding| {
            hold(binding, FINALIZER);
            binding["metadata"]["labels"][EXPORT] = export.hash().into();
            let applied = applied_claims(exported, binding);
            let unexpected = unexpected_claims(exported, binding);
            let status = &mut binding["status"];
            status["phase"] = "Bound".into();
            status["apiExportClusterName"] = (*export.cluster).into();
            status["boundResources"] = resources.into();
            status["appliedPermissionClaims"] = applied.into();
            if status["appliedPermissionClaims"] == json!([])
                && let Some(status) = status.as_object_mut()
            {
                status.remove("appliedPermissionClaims");
            }
            if exported.written_claims.is_array() {
                status["exportPermissionClaims"] = exported.written_claims.clone();
            }
            for met in [
                "APIExportValid",
                "BindingUpToDate",
                "InitialBindingCompleted",
                "PermissionClaimsApplied",
                "Ready",
            ] {
                conditions::set(binding, met, Ok(()));
            }
            let valid = match &unexpected {
                None => Ok(()),
                Some(message) => Err(("Error", "InvalidPermissionClaims", message.as_str())),
            };
            conditions::set(binding, "PermissionClaimsValid", valid);
        });
    }

    /// Who else in the workspace has the kind.
    fn owner_of_kind(&self, cluster: &str, name: &str, kind: &ExportedKind) -> Option<String> {
        let id = &kind.collection;
        let same = |other: &CollectionId| other.group == id.group && other.plural == id.plural;
        let other = self.member(cluster, |member| {
            let mut grants = member.grants.iter().filter(|(other, _)| ***other != *name);
            grants
                .find(|(_, grant)| grant.bound.iter().any(same))
                .map(|(other, _)| format!("APIBinding {other}"))
        });
        let definition = format!("{}.{}", id.plural, id.group);
        other.flatten().or_else(|| {
            self.object(cluster, &crate::crd::collection(), &definition)
                .map(|_| format!("CustomResourceDefinition {definition}"))
        })
    }

    fn grant(&self, cluster: &str, name: &str) -> Option<Arc<Grant>> {
        self.member(cluster, |member| member.grants.get(name).cloned())
            .flatten()
    }

    /// Notes what a binding grants, and marks objects that came to be claimed or are so no longer.
    fn set_grant(&self, cluster: &str, name: &str, grant: Option<Grant>) {
        let mut members = self.members.write();
        let Some(member) = members.get_mut(cluster) else {
            return;
        };
        // Objects keep the marks of a binding that is gone until they are written next.
        let gone = grant.is_none();
        match grant {
            Some(grant) => member.grants.insert(name.into(), Arc::new(grant)),
            None => member.grants.remove(name),
        };
        let claims: Vec<Claim> = member
            .grants
            .values()
            .flat_map(|grant| grant.claims.iter().cloned())
            .collect();
        let cluster = member.cluster.clone();
        drop(members);
        if gone {
            cluster.with(|state| {
                if let Some(place) = &mut state.place {
                    place.claims = claims;
                }
            });
        } else {
            mark(&cluster, claims);
        }
    }

    /// Deletes the objects of what was bound; the binding goes after the last of them.
    fn unbind(&self, cluster: &str, name: &str, binding: &Value) {
        let export = self.export_of(cluster, &binding["spec"]["reference"]["export"]);
        let before = self.grant(cluster, name);
        let bound = before
            .as_ref()
            .map(|grant| grant.bound.clone())
            .unwrap_or_default();
        if let Some(grant) = before.filter(|grant| !grant.closing) {
            let closing = Grant {
                closing: true,
                ..Grant::clone(&grant)
            };
            self.set_grant(cluster, name, Some(closing));
        }
        let Some(found) = self.cluster(cluster) else {
            return;
        };
        let left: usize = bound.iter().map(|id| delete_all(&found, id)).sum();
        self.amend(cluster, &bindings(), name, |binding| {
            if left == 0 {
                let_go(binding, FINALIZER);
                return;
            }
            let message =
                format!("Some content in the workspace has finalizers remaining: {left} objects");
            let waiting = Err(("Error", "SomeFinalizersRemain", message.as_str()));
            conditions::set(binding, "BindingResourceDeleteSuccess", waiting);
        });
        if self.object(cluster, &bindings(), name).is_none() {
            self.forget_binding(cluster, name);
        }
        self.wake_slices_of(&export);
    }

    fn forget_binding(&self, cluster: &str, name: &str) {
        let (Some(grant), Some(found)) = (self.grant(cluster, name), self.cluster(cluster)) else {
            return;
        };
        found.with(|state| {
            for id in &grant.bound {
                state.registry.set_custom(&id.group, &id.plural, Vec::new());
                state.store.end_watches(id);
            }
        });
        self.set_grant(cluster, name, None);
        // What it bound may have been in the way of others.
        let others = self.member(cluster, |member| {
            let names = member.grants.keys();
            names.map(ToString::to_string).collect::<Vec<_>>()
        });
        for other in others.into_iter().flatten() {
            self.queue.push(cluster, Subject::Binding, &other);
        }
        self.wake_slices_of(&grant.export);
    }
}

/// Says that the first binding is not done, if it never was.
fn wait(binding: &mut Value, reason: &str, message: &str) {
    if conditions::is_true(binding, "InitialBindingCompleted") {
        return;
    }
    for kind in ["InitialBindingCompleted", "Ready"] {
        conditions::set(binding, kind, Err(("Info", reason, message)));
    }
}

fn bound_resource(kind: &ExportedKind) -> Value {
    let id = &kind.collection;
    let schema = json!({"name": kind.schema.0, "UID": kind.schema.1, "identityHash": id.identity});
    json!({"group": id.group, "resource": id.plural, "schema": schema, "storageVersions": [kind.storage]})
}

/// Deletes every object of a kind; returns how many are still there.
fn delete_all(cluster: &Cluster, id: &CollectionId) -> usize {
    cluster.with(|state| {
        let Some(resource) = state.registry.of_collection(id).cloned() else {
            return 0;
        };
        let doomed: Vec<_> = state.store.range(id, "").cloned().collect();
        for object in doomed.iter().filter(|object| !object.head.deleting) {
            let head = &object.head;
            state.delete_quietly(
                &resource,
                &head.namespace,
                &head.name,
                &DeleteOptions::default(),
            );
        }
        state.store.range(id, "").count()
    })
}

/// Puts claims in the place of those before, and their labels on the objects that they select.
fn mark(cluster: &Cluster, claims: Vec<Claim>) {
    cluster.with(|state| {
        let Some(place) = &mut state.place else {
            return;
        };
        if place.claims == claims {
            return;
        }
        let mut touched: Vec<CollectionId> = place
            .claims
            .iter()
            .chain(&claims)
            .map(|claim| claim.collection.clone())
            .collect();
        touched.sort();
        touched.dedup();
        place.claims = claims;
        let place = place.clone();
        for id in &touched {
            let values: Vec<Value> = state
                .store
                .range(id, "")
                .map(|object| object.value())
                .collect();
            for before in values {
                let mut after = before.clone();
                place.mark(id, &mut after);
                if before != after {
                    state.commit(id, after);
                }
            }
        }
    });
}

/// The claims of the binding that were accepted and that the export makes, and how their objects are marked.
fn accepted(exported: &Exported, binding: &Value) -> (Vec<Accepted>, Vec<Claim>) {
    let (mut accepted, mut marks) = (Vec::new(), Vec::new());
    for claim in items(&binding["spec"]["permissionClaims"]) {
        if claim["state"] != "Accepted" {
            continue;
        }
        // Of the claims on events of the two groups the one on the core group counts, for both.
        let core = |kind: &&ClaimedKind| event_group(&kind.group, &kind.plural) == kind.group;
        let Some(kind) = made(exported, claim).filter(core) else {
            continue;
        };
        let both = items(&claim["verbs"])
            .map(text)
            .filter(|verb| kind.verbs.contains(verb));
        accepted.push(Accepted {
            group: kind.group.clone(),
            plural: kind.plural.clone(),
            verbs: both.collect(),
            labels: claim["selector"]["matchLabels"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), text(value)))
                .collect(),
        });
        let identity = &kind.identity;
        marks.push(Claim {
            collection: CollectionId {
                group: kind.group.as_str().into(),
                plural: kind.plural.as_str().into(),
                identity: identity.as_str().into(),
            },
            selector: selector(&claim["selector"]),
            label: kind.label.clone(),
        });
    }
    (accepted, marks)
}

/// The claim of the export that a claim of a binding is about.
fn made<'e>(exported: &'e Exported, claim: &Value) -> Option<&'e ClaimedKind> {
    exported.claims.iter().find(|made| {
        claim["group"].as_str().unwrap_or_default() == made.group
            && claim["resource"] == made.plural.as_str()
            && claim["identityHash"].as_str().unwrap_or_default() == made.identity
    })
}

fn applied_claims(exported: &Exported, binding: &Value) -> Vec<Value> {
    items(&binding["spec"]["permissionClaims"])
        .filter(|claim| claim["state"] == "Accepted" && made(exported, claim).is_some())
        .map(|claim| {
            let mut applied = claim.clone();
            if let Some(fields) = applied.as_object_mut() {
                fields.remove("state");
            }
            applied
        })
        .collect()
}

fn unexpected_claims(exported: &Exported, binding: &Value) -> Option<String> {
    let unexpected: Vec<String> = items(&binding["spec"]["permissionClaims"])
        .filter(|claim| claim["state"] == "Accepted" && made(exported, claim).is_none())
        .map(|claim| {
            format!(
                "unexpected/invalid claim for {}.{} (identity {:?})",
                text(&claim["resource"]),
                text(&claim["group"]),
                text(&claim["identityHash"])
            )
        })
        .collect();
    let count = unexpected.len();
    (count > 0).then(|| {
        format!(
            "{count} unexpected and/or invalid permission claims (showing first {count}): {}",
            unexpected.join(", ")
        )
    })
}

/// A claim's selector.
fn selector(written: &Value) -> Labels {
    if written["matchAll"] == true || !written.is_object() {
        return Labels::default();
    }
    Labels::of_object(written)
}
