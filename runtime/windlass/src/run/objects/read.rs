//! Reads objects of the local cluster. Entry points: [`objects`] and [`values`].

use crate::config::kinds::Kind;
use crate::config::kinds::status::ReconcilerStatus;
use crate::config::objects::{Object, Objects, ValueSource, Values};
use crate::config::record::{ObjectRecord, Record};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_fleet::hub::{Hub, HubObject, HubWatch, WatchSelection};
use windlass_fleet::{GroupVersionKind, ObjectKey};

/// The fields of an object of our kinds.
#[derive(Deserialize)]
struct Fields {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Json>,
    #[serde(default)]
    status: Option<Json>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    generation: i64,
    creation_timestamp: String,
}

/// The status of a Reconciler.
#[derive(Deserialize)]
struct Status {
    tenant: Option<String>,
}

/// The status that some process has written.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    status: Option<ReconcilerStatus>,
}

/// The data of a Secret or a ConfigMap.
#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// The objects of the kinds, and the namespaces.
pub(super) fn objects(kinds: &BTreeMap<Kind, HubWatch>, namespaces: &HubWatch) -> Objects {
    let of = |(kind, watch): (&Kind, &HubWatch)| {
        let objects = watch.objects().into_iter();
        let objects = objects.filter_map(|object| read(*kind, &object));
        objects.collect::<Vec<Object>>()
    };
    let namespaces = namespaces.objects();
    let namespaces = namespaces
        .iter()
        .map(|namespace| (namespace.key().name.to_string(), namespace.labels()));
    Objects {
        objects: kinds.iter().flat_map(of).collect(),
        namespaces: namespaces.collect(),
        values: BTreeMap::new(),
    }
}

fn read(kind: Kind, object: &HubObject) -> Option<Object> {
    // The server has checked its shape.
    let fields: Fields = object.parse().ok()?;
    let key = object.key();
    // A status of another shape is replaced.
    let status = fields.status.filter(|_| kind == Kind::Reconciler);
    let record = status.clone().map(serde_json::from_value);
    let record: Record = record.and_then(Result::ok).unwrap_or_default();
    let status: Option<Status> = status.and_then(|status| serde_json::from_value(status).ok());
    let uid = object.uid();
    Some(Object {
        kind,
        namespace: key.namespace.map(|namespace| namespace.to_string()),
        name: key.name.to_string(),
        uid: uid.clone(),
        generation: fields.metadata.generation,
        created: fields.metadata.creation_timestamp,
        recorded_tenant: status.and_then(|status| status.tenant),
        record: Arc::new(ObjectRecord { uid, record }),
        is_deleting: object.is_deleting(),
        spec: fields.spec,
    })
}

/// The names of the Reconcilers of which a revision serves, by the status that the process that leads has written.
pub(super) fn serving(reconcilers: &HubWatch) -> BTreeSet<String> {
    let objects = reconcilers.objects().into_iter();
    let serves = |object: &HubObject| {
        let written = object.parse::<Written>().ok();
        let status = written.and_then(|written| written.status);
        status.is_some_and(|status| !status.revision.is_empty())
    };
    let serving = objects.filter(serves);
    serving.map(|object| object.key().to_string()).collect()
}

/// Watches the one object that a Reconciler names.
pub(super) fn watch(hub: &Hub, source: &ValueSource) -> HubWatch {
    let selection = WatchSelection {
        namespaces: [source.namespace.clone()].into(),
        name: Some(source.name.clone()),
        ..WatchSelection::default()
    };
    hub.watch(GroupVersionKind::new("", "v1", source.kind), selection)
}

/// The texts of a Secret or a ConfigMap. Values of a Secret that are no text are left out.
pub(super) fn values(watch: &HubWatch, source: &ValueSource) -> Values {
    let key = ObjectKey::namespaced(&source.namespace, &source.name);
    // Before the object is read.
    let is_known = watch.knows(&key);
    let Some(object) = watch.get(&key) else {
        return match (is_known, watch.problem()) {
            (true, _) => Values::Absent,
            (false, Some(problem)) => Values::Unreadable(problem),
            (false, None) => Values::Unknown,
        };
    };
    let data: Option<Data> = object.parse().ok();
    let data = data.and_then(|data| data.data).unwrap_or_default();
    let texts = data.into_iter().filter_map(|(key, value)| {
        let value = match source.kind {
            "Secret" => String::from_utf8(STANDARD.decode(value).ok()?).ok()?,
            _ => value,
        };
        Some((key, value))
    });
    Values::Present(texts.collect())
}
