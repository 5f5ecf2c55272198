//! Deletes: [`State::delete`], with preconditions, finalizers, grace and propagation.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Outcome, WriteOptions};
use crate::convert;
use crate::kinds;
use crate::part::Part;
use crate::resource::Resource;
use crate::state::State;
use crate::status::{ApiError, FieldError, Subject};
use crate::store::{Object, key};

/// The fate of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// `DeleteOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

/// What a delete led to.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The object, in the version of the request; still there unless `gone`.
    pub(crate) object: Value,
    pub(crate) gone: bool,
}

impl DeleteOptions {
    /// Reads a `DeleteOptions` object.
    ///
    /// # Errors
    /// 400 for a propagation policy that does not exist.
    pub(crate) fn read(body: &Value) -> Result<Self, ApiError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let propagation = match body["propagationPolicy"].as_str() {
            None if body["orphanDependents"] == true => Some(Propagation::Orphan),
            None if body["orphanDependents"] == false => Some(Propagation::Background),
            None | Some("") => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
                let error =
                    FieldError::not_supported("propagationPolicy", &Value::from(other), &supported);
                let subject = Subject {
                    group: "meta.k8s.io",
                    plural: "",
                    kind: "DeleteOptions",
                };
                return Err(ApiError::invalid(subject, "", &[error]));
            }
        };
        Ok(Self {
            grace: body["gracePeriodSeconds"].as_i64(),
            propagation,
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            dry_run: body["dryRun"]
                .as_array()
                .is_some_and(|list| list.iter().any(|value| value == "All")),
        })
    }
}

impl State {
    /// Deletes an object, or begins to where something has still to be done before it may go.
    ///
    /// # Errors
    /// 404, 409 for a precondition that does not hold, 403 for namespaces that must stay.
    pub(crate) fn delete(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        let live = Arc::clone(self.object(resource, namespace, name)?);
        check_preconditions(resource, &live, options)?;
        if resource.is("", "namespaces")
            && matches!(name, "default" | "kube-system" | "kube-public")
        {
            return Err(ApiError::forbidden(
                resource.subject(),
                name,
                "this namespace may not be deleted",
            ));
        }
        let old = live.value();
        let mut new = old.clone();
        let grace = grace_of(resource, &old, options);
        set_propagation_finalizers(resource, &mut new, options.propagation);
        kinds::begin_delete(resource, &mut new);
        let id = resource.collection();
        if !kinds::has_finalizers(resource, &new) && grace == 0 {
            let key = key(namespace, name);
            if options.dry_run {
                return Ok(Deleted {
                    object: convert::from_storage(&live, resource),
                    gone: true,
                });
            }
            // Watchers see a pod that is being deleted before it is gone.
            if resource.is("", "pods") {
                mark_deleting(&mut new, 0, self.now());
                if new != old {
                    self.commit(&id, new);
                }
            }
            let last = self.discard(&id, &key).unwrap_or(live);
            return Ok(Deleted {
                object: convert::from_storage(&last, resource),
                gone: true,
            });
        }
        if kinds::has_own_deletion(resource) {
            mark_terminating(&mut new, self.now());
        } else {
            mark_deleting(&mut new, grace, self.later(grace));
        }
        if options.dry_run || new == old {
            return Ok(Deleted {
                object: convert::value_from_storage(new, resource),
                gone: false,
            });
        }
        let stored = self.commit(&id, new);
        Ok(Deleted {
            object: convert::from_storage(&stored, resource),
            gone: false,
        })
    }

    /// The object of an [`Outcome`], for callers that treat a delete as a write.
    pub(crate) fn delete_quietly(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) {
        if let Err(error) = self.delete(resource, namespace, name, options) {
            tracing::debug!(%error, resource = %resource.plural, namespace, name, "clean-up could not delete");
        }
    }

    /// Changes an object on the server's own account, outside of field ownership.
    pub(crate) fn amend(
        &mut self,
        resource: &Arc<Resource>,
        live: &Arc<Object>,
        change: impl FnOnce(&mut Value),
    ) -> Result<Outcome, ApiError> {
        let mut new = convert::from_storage(live, resource);
        change(&mut new);
        let options = WriteOptions {
            manager: "kube-controller-manager".into(),
            ..WriteOptions::default()
        };
        self.replace(resource, Part::Main, live, new, None, &options, Vec::new())
    }
}

pub(super) fn check_preconditions(
    resource: &Resource,
    live: &Object,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let refuse = |why: &str| {
        let subject = Subject {
            group: &resource.group,
            plural: &resource.kind,
            kind: &resource.kind,
        };
        Err(ApiError::conflict(subject, &live.head.name, why))
    };
    if let Some(uid) = options.uid.as_ref().filter(|uid| **uid != *live.head.uid) {
        let text = "The object might have been deleted and then recreated";
        return refuse(&format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). {text}",
            live.head.uid
        ));
    }
    let current = live.head.version.to_string();
    if let Some(version) = options
        .version
        .as_ref()
        .filter(|version| **version != current)
    {
        let text = "The object might have been modified";
        return refuse(&format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({current}). {text}"
        ));
    }
    Ok(())
}

/// Seconds that an object may stay to wind down: pods on a node only, and only once.
fn grace_of(resource: &Resource, old: &Value, options: &DeleteOptions) -> i64 {
    let on_node = old["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let finished = matches!(
        old["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if !resource.is("", "pods") || !on_node || finished {
        return 0;
    }
    let asked = options
        .grace
        .or_else(|| old["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or(30)
        .max(0);
    let running = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    running.map_or(asked, |running| asked.min(running))
}

fn set_propagation_finalizers(
    resource: &Resource,
    new: &mut Value,
    propagation: Option<Propagation>,
) {
    let mut finalizers: Vec<Value> = new["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|one| one == name);
    let policy = match propagation {
        Some(policy) => policy,
        None if has(ORPHAN) => Propagation::Orphan,
        None if has(FOREGROUND) => Propagation::Foreground,
        None if resource.is("", "replicationcontrollers") || resource.is("batch", "jobs") => {
            Propagation::Orphan
        }
        None => Propagation::Background,
    };
    let wanted = match policy {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    finalizers.retain(|one| {
        (one != ORPHAN && one != FOREGROUND) || wanted.is_some_and(|wanted| one == wanted)
    });
    if let Some(wanted) = wanted.filter(|wanted| !finalizers.iter().any(|one| one == wanted)) {
        finalizers.push(wanted.into());
    }
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Namespaces and CRDs get a deletion timestamp only, without grace period and generation.
fn mark_terminating(new: &mut Value, now: String) {
    if new["metadata"].get("deletionTimestamp").is_none() {
        new["metadata"]["deletionTimestamp"] = now.into();
    }
}

fn mark_deleting(new: &mut Value, grace: i64, at: String) {
    let metadata = &mut new["metadata"];
    if metadata.get("deletionTimestamp").is_none() {
        metadata["deletionTimestamp"] = at.into();
        if let Some(generation) = metadata["generation"].as_i64() {
            metadata["generation"] = (generation + 1).into();
        }
    }
    metadata["deletionGracePeriodSeconds"] = json!(grace);
}
