//! A guest of the contract 0.1.0 in Rust, on bindings of the pinned WIT and nothing else; what it does is told in `../README.md`.
//! Entry point: [`Pinned`].

#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
mod bindings {
    wit_bindgen::generate!({
        path: "../wit",
        world: "mapped-fleet-reconcile",
    });
    export!(Pinned with_types_in self);
    use super::Pinned;
}

use bindings::exports::windlass::runtime::{mapper, reconciler};
use bindings::windlass::runtime::client::{
    ApplyOptions, Cluster, DeleteOptions, Event, EventType, GetOptions, ListOptions, Operation,
    PatchType, Projection, ReadMode, Reply, WriteOptions,
};
use bindings::windlass::runtime::types::{
    Action, ApiCode, ApiError, Failure, GroupVersionKind, ObjectKey, Request,
};
use bindings::windlass::runtime::{clock, config, fleet, log};
use reconciler::{ClusterScope, Description, Enqueue, Index, Watch};

/// The guest.
struct Pinned;

impl reconciler::Guest for Pinned {
    fn describe() -> Result<Description, String> {
        let watch = |kind: &str, enqueue, label: Option<&str>| Watch {
            kind: core(kind),
            enqueue,
            clusters: ClusterScope::AsConfigured,
            label_selector: label.map(str::to_owned),
            field_selector: None,
            changes: Vec::new(),
            metadata_only: label.is_some(),
            options: Vec::new(),
        };
        Ok(Description {
            title: "a guest of the contract 0.1.0".to_owned(),
            primary: Some(core("ConfigMap")),
            watches: vec![
                watch("ConfigMap", Enqueue::ControllerOwner, None),
                watch("Secret", Enqueue::Mapped, Some("contract.windlass.dev/ask")),
            ],
            indexes: vec![Index {
                kind: core("ConfigMap"),
                name: "color".to_owned(),
                path: "data.color".to_owned(),
                namespace_path: None,
                options: Vec::new(),
            }],
            options: Vec::new(),
        })
    }

    fn reconcile(request: Request, cluster: Cluster) -> Result<Action, Failure> {
        let key = request.key;
        match get(&cluster, &key, ReadMode::Cached) {
            Ok(true) => {}
            Ok(false) => return Err(Failure::Terminal(format!("there is no {}", key.name))),
            Err(error) => return Err(retry(error)),
        }
        make(&cluster, &key).map_err(retry)
    }
}

impl mapper::Guest for Pinned {
    fn map_objects(
        cluster: Cluster,
        kind: GroupVersionKind,
        objects: Vec<String>,
    ) -> Result<Vec<Request>, String> {
        if kind.kind != "Secret" || objects.is_empty() {
            return Err(format!("{} {}", objects.len(), kind.kind));
        }
        let key = named(&Some("default".to_owned()), "case".to_owned());
        let cluster = cluster.name();
        Ok(vec![Request { cluster, key }])
    }
}

/// All that a reconcile does where the object is there.
fn make(cluster: &Cluster, key: &ObjectKey) -> Result<Action, ApiError> {
    let red = ListOptions {
        namespace: key.namespace.clone(),
        label_selector: None,
        field_selector: None,
        index: Some(("color".to_owned(), "red".to_owned())),
        limit: 0,
        continue_token: None,
        mode: ReadMode::Cached,
        projection: Projection::Full,
    };
    let red = cluster.list(&core("ConfigMap"), &red)?.items.len();

    let made = named(&key.namespace, format!("{}-made", key.name));
    let write = WriteOptions {
        subresource: None,
        dry_run: false,
    };
    let object = config_map(&made, &config::get());
    match cluster.create(&core("ConfigMap"), &object, &write) {
        Err(error) if error.code != ApiCode::AlreadyExists => return Err(error),
        _ => {}
    }
    let patch = r#"{"data": {"patched": "yes"}}"#;
    cluster.patch(&core("ConfigMap"), &made, PatchType::Merge, patch, &write)?;

    let absent = named(&key.namespace, "absent".to_owned());
    let deleting = DeleteOptions {
        uid: None,
        resource_version: None,
        propagation: None,
        grace_period_seconds: None,
        dry_run: false,
    };
    let absent = match cluster.delete(&core("ConfigMap"), &absent, &deleting) {
        Err(error) if error.code == ApiCode::NotFound => error.http_status,
        Err(error) => return Err(error),
        Ok(()) => 200,
    };

    let reading = (core("ConfigMap"), made, live());
    let replies = cluster.batch(&[Operation::Get(reading)]);
    let read = match replies.as_slice() {
        [Ok(Reply::Object(object))] => object.contains("patched"),
        _ => false,
    };

    let clusters = fleet::clusters(None)?;
    let names: Vec<&str> = clusters.iter().map(|info| info.name.as_str()).collect();
    let opened = fleet::open(names.first().unwrap_or(&""))?.name();

    let data = format!(
        r#"{{"red": "{red}", "absent": "{absent}", "read": "{read}", "clusters": "{}", "opened": "{opened}", "now": "{}"}}"#,
        names.join(" "),
        clock::now().len(),
    );
    let seen = named(&key.namespace, format!("{}-seen", key.name));
    let apply = ApplyOptions {
        subresource: None,
        force: true,
        dry_run: false,
    };
    cluster.apply(&core("ConfigMap"), &config_map(&seen, &data), &apply)?;
    cluster.record_event(&Event {
        kind: core("ConfigMap"),
        key: key.clone(),
        event_type: EventType::Normal,
        reason: "Seen".to_owned(),
        action: "Reconcile".to_owned(),
        note: "a guest of the contract 0.1.0 was here".to_owned(),
    });
    log::write(
        log::Level::Info,
        "seen",
        &[("name".to_owned(), key.name.clone())],
    );
    Ok(Action::RequeueAfterMs(60_000))
}

/// Whether an object is there.
fn get(cluster: &Cluster, key: &ObjectKey, mode: ReadMode) -> Result<bool, ApiError> {
    let options = GetOptions { mode, ..live() };
    Ok(cluster.get(&core("ConfigMap"), key, &options)?.is_some())
}

fn live() -> GetOptions {
    GetOptions {
        mode: ReadMode::Live,
        projection: Projection::Full,
        subresource: None,
    }
}

fn core(kind: &str) -> GroupVersionKind {
    GroupVersionKind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    }
}

fn named(namespace: &Option<String>, name: String) -> ObjectKey {
    let namespace = namespace.clone();
    ObjectKey { namespace, name }
}

fn config_map(key: &ObjectKey, data: &str) -> String {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let name = &key.name;
    format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"namespace": "{namespace}", "name": "{name}"}}, "data": {data}}}"#
    )
}

fn retry(error: ApiError) -> Failure {
    Failure::Retry(error.message)
}
