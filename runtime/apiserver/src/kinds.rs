//! What single kinds do that the rest do not: [`default`], [`validate`] and the hooks around writes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::base64;
use crate::crd;
use crate::metadata;
use crate::part::Part;
use crate::resource::{CollectionId, Resource};
use crate::schema::validate as by_schema;
use crate::schema::{Schema, decode};
use crate::state::State;
use crate::status::{ApiError, FieldError};

mod api_services;
mod certificates;
mod containers;
mod events;
mod immutable;
mod reviews;
mod services;
mod updates;
mod workloads;

pub(crate) use reviews::review;

/// The empty object of a built-in kind, as its code makes it.
pub(crate) fn zero(resource: &Resource) -> Value {
    let mut zero = decode::zero(resource.schema());
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "events") => events::fill(&mut zero, &events::CORE),
        ("events.k8s.io", "events") => events::fill(&mut zero, &events::NEW),
        ("authentication.k8s.io", "token") => zero["spec"]["boundObjectRef"] = Value::Null,
        _ => {}
    }
    zero
}

/// Defaults that no schema can say, and the decoding of write-only fields.
pub(crate) fn default(resource: &Resource, body: &mut Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            if let Some(name) = body["metadata"]["name"]
                .as_str()
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
            {
                if !body["metadata"]["labels"].is_object() {
                    body["metadata"]["labels"] = json!({});
                }
                body["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            }
        }
        ("", "secrets") => secret(body),
        ("", "services") => services::default(body),
        ("", "pods") => workloads::default_pod(body),
        ("", "events") => events::fill(body, &events::CORE),
        ("events.k8s.io", "events") => events::fill(body, &events::NEW),
        ("apps", "daemonsets") => workloads::default_daemon_set(body),
        ("batch", "jobs") => workloads::default_job(body),
        ("batch", "cronjobs") => workloads::default_cron_job(body),
        ("apps", _) | ("", "replicationcontrollers") => workloads::default_template(body),
        ("rbac.authorization.k8s.io", _) => rbac(body),
        ("apiextensions.k8s.io", "customresourcedefinitions") => crd::default(body),
        ("apiregistration.k8s.io", "apiservices") => api_services::default(body),
        ("authentication.k8s.io", "token") => token_request(body),
        _ => {}
    }
}

fn secret(body: &mut Value) {
    let Some(object) = body.as_object_mut() else {
        return;
    };
    let Some(Value::Object(plain)) = object.remove("stringData") else {
        return;
    };
    let data = object.entry("data").or_insert_with(|| json!({}));
    for (key, value) in plain {
        data[key] = base64::encode(value.as_str().unwrap_or_default().as_bytes()).into();
    }
}

fn token_request(body: &mut Value) {
    let seconds = &mut body["spec"]["expirationSeconds"];
    if seconds.is_null() {
        *seconds = json!(3600);
    }
}

fn rbac(body: &mut Value) {
    if let Some(role) = body
        .get_mut("roleRef")
        .filter(|role| role.get("apiGroup").is_none())
    {
        role["apiGroup"] = "rbac.authorization.k8s.io".into();
    }
    for subject in body
        .get_mut("subjects")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if subject.get("apiGroup").is_none()
            && matches!(subject["kind"].as_str(), Some("User" | "Group"))
        {
            subject["apiGroup"] = "rbac.authorization.k8s.io".into();
        }
    }
}

/// A node registers with its status.
pub(crate) fn keeps_status_on_create(resource: &Resource) -> bool {
    resource.is("", "nodes")
}

/// Whether something must still be done before the object may go.
pub(crate) fn has_finalizers(resource: &Resource, object: &Value) -> bool {
    let any = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    any(&object["metadata"]["finalizers"])
        || (resource.is("", "namespaces") && any(&object["spec"]["finalizers"]))
}

/// Namespaces and CRDs have their own way to end.
pub(crate) fn has_own_deletion(resource: &Resource) -> bool {
    resource.is("", "namespaces") || *resource.collection().plural == *"customresourcedefinitions"
}

/// What a delete changes in the object beside its metadata.
pub(crate) fn begin_delete(resource: &Resource, object: &mut Value) {
    if resource.is("", "namespaces") {
        object["status"]["phase"] = "Terminating".into();
    }
    if *resource.collection().plural == *"customresourcedefinitions"
        && object["metadata"].get("deletionTimestamp").is_none()
    {
        crd::begin_delete(object);
    }
}

impl State {
    /// Fields that the server sets when an object is created.
    pub(crate) fn prepare_create(&mut self, resource: &Arc<Resource>, body: &mut Value) {
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "namespaces") => {
                body["spec"]["finalizers"] = json!(["kubernetes"]);
                body["status"] = json!({"phase": "Active"});
            }
            ("", "services") => {
                self.allocate_cluster_ip(body);
                body["status"] = json!({"loadBalancer": {}});
            }
            ("", "pods") => {
                workloads::admit_pod(&mut body["spec"]);
                body["status"] =
                    json!({"phase": "Pending", "qosClass": workloads::qos_class(&body["spec"])});
                workloads::hold_at_gates(body);
            }
            ("", "nodes") => {
                let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
                let mut taints = body["spec"]["taints"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                if !taints.contains(&taint) {
                    taints.push(taint);
                }
                body["spec"]["taints"] = taints.into();
            }
            ("", "persistentvolumeclaims" | "persistentvolumes") => {
                body["status"] = json!({"phase": "Pending"})
            }
            ("apiextensions.k8s.io", "customresourcedefinitions") => crd::begin(body),
            ("apiregistration.k8s.io", "apiservices") => api_services::begin(body),
            ("certificates.k8s.io", "certificatesigningrequests") => certificates::begin(body),
            ("batch", "jobs") => workloads::select_job_pods(body),
            _ if !resource.custom => {
                // Fields that the server sets on a built-in kind of this shape.
                if resource
                    .schema()
                    .property("status")
                    .is_some_and(Schema::zero)
                    && body.get("status").is_none()
                {
                    body["status"] = decode::zero(resource.schema())["status"].clone();
                }
                workloads::zero_counts(resource, body);
            }
            _ => {}
        }
    }

    /// Fields that the server keeps when an object is changed.
    pub(crate) fn prepare_update(
        &mut self,
        resource: &Resource,
        part: Part,
        old: &Value,
        new: &mut Value,
    ) {
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "namespaces") if part != Part::Finalize => new["spec"] = old["spec"].clone(),
            ("", "services") => {
                services::keep_addresses(old, new);
                self.allocate_cluster_ip(new);
            }
            ("certificates.k8s.io", "certificatesigningrequests") => {
                certificates::update(part, old, new);
            }
            ("apps", "deployments") if part == Part::Status => {
                new["metadata"]["labels"] = old["metadata"]["labels"].clone()
            }
            _ => {}
        }
        if let Some(metadata) = new["metadata"].as_object_mut() {
            metadata.retain(|_, value| !value.is_null());
        }
    }
}

impl State {
    /// What admission has against a valid update.
    ///
    /// # Errors
    /// 403 for a claim that grows and is not bound, or whose class does not let it grow.
    pub(crate) fn admit_update(
        &self,
        resource: &Resource,
        new: &Value,
        old: &Value,
    ) -> Result<(), ApiError> {
        if !resource.is("", "persistentvolumeclaims")
            || updates::claimed(new) <= updates::claimed(old)
        {
            return Ok(());
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        if old["status"]["phase"] != "Bound" {
            let why = "Only bound persistent volume claims can be expanded";
            return Err(ApiError::forbidden(resource.subject(), name, why));
        }
        let class = new["spec"]["storageClassName"].as_str().unwrap_or_default();
        let classes = CollectionId {
            group: "storage.k8s.io".into(),
            plural: "storageclasses".into(),
            identity: "".into(),
        };
        let grows = self
            .store
            .get(&classes, class)
            .is_some_and(|class| class.value()["allowVolumeExpansion"] == true);
        if grows {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(ApiError::forbidden(resource.subject(), name, why))
    }
}

/// Everything wrong with an object; `change` is what it replaces, and the part that is written.
pub(crate) fn validate(
    resource: &Resource,
    new: &Value,
    change: Option<(&Value, Part)>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let old = change.map(|(old, _)| old);
    metadata::validate(
        resource,
        &new["metadata"],
        old.map(|old| &old["metadata"]),
        &mut errors,
    );
    if resource.custom {
        by_schema::custom(new, resource.schema(), &mut errors);
        resource
            .rules
            .check(new, old, resource.schema(), &mut errors);
        return errors;
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps" | "secrets") => keys(new, &mut errors),
        ("", "pods") => workloads::validate_pod(new, old.is_none(), &mut errors),
        ("", "services") => services::validate(new, old, &mut errors),
        ("apps", "deployments" | "replicasets" | "daemonsets" | "statefulsets") => {
            workloads::validate(resource, new, &mut errors)
        }
        ("batch", "jobs" | "cronjobs") => {
            by_schema::required(new, resource.schema(), &mut errors);
            workloads::validate_job(new, &mut errors);
        }
        ("apiregistration.k8s.io", "apiservices") => api_services::validate(new, &mut errors),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            certificates::validate(new, change, &mut errors);
        }
        ("coordination.k8s.io", "leases") => lease(new, &mut errors),
        ("apiextensions.k8s.io", "customresourcedefinitions") => crd::validate(new, &mut errors),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            role_binding(new, &mut errors)
        }
        _ => by_schema::required(new, resource.schema(), &mut errors),
    }
    if let Some((old, part)) = change {
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "pods") if part == Part::EphemeralContainers => {
                updates::ephemeral_containers(new, old, &mut errors);
            }
            ("", "pods") => updates::pod(new, old, &mut errors),
            ("", "persistentvolumeclaims") => updates::claim(new, old, &mut errors),
            ("batch", "jobs") => updates::job(new, old, &mut errors),
            _ => {}
        }
        immutable::check(resource, new, old, &mut errors);
    }
    errors
}

/// The names in a map of data.
fn keys(new: &Value, errors: &mut Vec<FieldError>) {
    for key in ["data", "binaryData"].iter().flat_map(|field| {
        new[*field]
            .as_object()
            .into_iter()
            .flatten()
            .map(move |(key, _)| (field, key))
    }) {
        let (field, key) = key;
        let fine = !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        if !fine {
            let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            errors.push(FieldError::invalid(
                format!("{field}[{key}]"),
                &Value::from(key.as_str()),
                detail,
            ));
        }
    }
}

fn lease(new: &Value, errors: &mut Vec<FieldError>) {
    if let Some(seconds) = new["spec"]["leaseDurationSeconds"]
        .as_i64()
        .filter(|seconds| *seconds <= 0)
    {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            &seconds.into(),
            "must be greater than 0",
        ));
    }
    if let Some(count) = new["spec"]["leaseTransitions"]
        .as_i64()
        .filter(|count| *count < 0)
    {
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            &count.into(),
            "must be greater than or equal to 0",
        ));
    }
}

fn role_binding(new: &Value, errors: &mut Vec<FieldError>) {
    if new["roleRef"]["name"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        errors.push(FieldError::required("roleRef.name", ""));
    }
}
