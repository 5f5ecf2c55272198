//! What an APIExport offers: [`Exported`], and the controller that keeps it true to the export and its schemas.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha224, Sha256};

use super::kinds::{self, APIS};
use super::queue::Subject;
use super::seen::Seen;
use super::slices::EXPORT;
use super::{Kcp, conditions, is_deleting, items, put, text};
use crate::crd;
use crate::place::CLAIMED;
use crate::resource::{CollectionId, Resource};

/// An export that has this annotation gets no endpoint slice of its own.
const NO_SLICE: &str = "apiexports.apis.kcp.io/skip-endpointslice";

/// An export, by the name of its logical cluster and its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExportId {
    pub(crate) cluster: Box<str>,
    pub(crate) name: Box<str>,
}

/// What an export offers and claims.
#[derive(Debug)]
pub(crate) struct Exported {
    /// What its virtual workspace serves.
    pub(crate) seen: Arc<Seen>,
    pub(crate) identity: String,
    pub(crate) kinds: Vec<ExportedKind>,
    pub(crate) claims: Vec<ClaimedKind>,
    /// As written, for the status of bindings.
    pub(crate) written_claims: Value,
    /// Names of schemas that are not there.
    pub(crate) missing: Vec<String>,
}

/// One kind of an export.
#[derive(Debug, Clone)]
pub(crate) struct ExportedKind {
    pub(crate) collection: CollectionId,
    /// Name and uid of its schema.
    pub(crate) schema: (String, String),
    pub(crate) storage: String,
    pub(crate) versions: Vec<Arc<Resource>>,
}

/// One kind that an export claims.
#[derive(Debug)]
pub(crate) struct ClaimedKind {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) identity: String,
    pub(crate) verbs: Vec<String>,
    /// The label of objects that were granted.
    pub(crate) label: (Box<str>, Box<str>),
    /// Empty where no such kind is known.
    pub(crate) versions: Vec<Arc<Resource>>,
}

impl ExportId {
    /// The value by which bindings of an export are selected.
    pub(crate) fn hash(&self) -> String {
        hash(&format!("{}:{}", self.cluster, self.name))
    }
}

/// The group, but the core one for events of either group.
pub(crate) fn event_group<'a>(group: &'a str, plural: &str) -> &'a str {
    if plural == "events" && group == "events.k8s.io" {
        ""
    } else {
        group
    }
}

/// A hash that fits into a label.
pub(super) fn hash(text: &str) -> String {
    let bytes = Sha224::digest(text.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn exports() -> CollectionId {
    kinds::collection(APIS, "apiexports")
}

fn schemas() -> CollectionId {
    kinds::collection(APIS, "apiresourceschemas")
}

impl Kcp {
    pub(crate) fn exported(&self, id: &ExportId) -> Option<Arc<Exported>> {
        self.exports.read().get(id).cloned()
    }

    /// A schema came or went.
    pub(super) fn look_at_exports_of(&self, cluster: &str) {
        let Some(found) = self.cluster(cluster) else {
            return;
        };
        let names: Vec<Box<str>> = found.with(|state| {
            let all = state.store.range(&exports(), "");
            all.map(|export| export.head.name.clone()).collect()
        });
        for name in names {
            self.queue.push(cluster, Subject::Export, &name);
        }
    }

    pub(super) fn look_at_export(&self, cluster: &str, name: &str) {
        let id = ExportId {
            cluster: cluster.into(),
            name: name.into(),
        };
        let export = self
            .object(cluster, &exports(), name)
            .filter(|export| !is_deleting(export));
        let Some(export) = export else {
            if self.exports.write().remove(&id).is_some() {
                self.wake_users_of(&id, "");
            }
            return;
        };
        let identity = match export["status"]["identityHash"].as_str() {
            Some(known) if !known.is_empty() => known.to_owned(),
            _ => new_identity(),
        };
        self.amend(cluster, &exports(), name, |export| {
            export["status"]["identityHash"] = identity.as_str().into();
            conditions::set(export, "IdentityValid", Ok(()));
        });
        self.ensure_slice(cluster, &export);
        let exported = self.read_export(&id, &export, identity);
        let identity = exported.identity.clone();
        self.exports.write().insert(id.clone(), Arc::new(exported));
        self.wake_users_of(&id, &identity);
    }

    /// Every export has an endpoint slice of its name.
    fn ensure_slice(&self, cluster: &str, export: &Value) {
        let metadata = &export["metadata"];
        if metadata["annotations"].get(NO_SLICE).is_some() {
            return;
        }
        let Some(found) = self.cluster(cluster) else {
            return;
        };
        let owner = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "name": metadata["name"], "uid": metadata["uid"]});
        let reference =
            json!({"name": metadata["name"], "path": metadata["annotations"][crate::place::PATH]});
        let slice = json!({"metadata": {"name": metadata["name"], "ownerReferences": [owner]}, "spec": {"export": reference}});
        put(&found, APIS, "apiexportendpointslices", slice);
    }

    fn read_export(&self, id: &ExportId, export: &Value, identity: String) -> Exported {
        let before = self.exported(id);
        let (mut kinds, mut missing) = (Vec::new(), Vec::new());
        // The older version of the kind lists names alone.
        let names = items(&export["spec"]["resources"]).map(|resource| &resource["schema"]);
        let older = items(&export["spec"]["latestResourceSchemas"]);
        for name in names.chain(older).map(text) {
            match self.object(&id.cluster, &schemas(), &name) {
                Some(schema) => kinds.push(kind_of(&schema, &identity, before.as_deref())),
                None => missing.push(name),
            }
        }
        let claims =
            items(&export["spec"]["permissionClaims"]).map(|claim| self.read_claim(id, claim));
        let claims: Vec<ClaimedKind> = claims.collect();
        Exported {
            seen: Arc::new(seen(id, &kinds, &claims)),
            identity,
            kinds,
            claims,
            written_claims: export["spec"]["permissionClaims"].clone(),
            missing,
        }
    }

    fn read_claim(&self, id: &ExportId, claim: &Value) -> ClaimedKind {
        let (group, plural) = (text(&claim["group"]), text(&claim["resource"]));
        let identity = text(&claim["identityHash"]);
        let versions = if identity.is_empty() {
            kinds::versions(&group, &plural)
        } else {
            self.kind_of_identity(&group, &plural, &identity)
        };
        let label = format!("{CLAIMED}{}", id.hash());
        let value = hash(&format!("{group}/{plural}/{identity}"));
        ClaimedKind {
            verbs: items(&claim["verbs"]).map(text).collect(),
            label: (label.into(), value.into()),
            group,
            plural,
            identity,
            versions,
        }
    }

    fn kind_of_identity(&self, group: &str, plural: &str, identity: &str) -> Vec<Arc<Resource>> {
        let exports = self.exports.read();
        let mut kinds = exports.values().flat_map(|exported| &exported.kinds);
        let found = kinds.find(|kind| {
            let id = &kind.collection;
            (&*id.group, &*id.plural, &*id.identity) == (group, plural, identity)
        });
        found.map(|kind| kind.versions.clone()).unwrap_or_default()
    }

    /// Bindings and slices of an export, and exports that claim what it exports.
    fn wake_users_of(&self, id: &ExportId, identity: &str) {
        for (cluster, binding) in self.everywhere(&super::bindings::bindings()) {
            if self.export_of(&cluster, &binding["spec"]["reference"]["export"]) == *id {
                let name = text(&binding["metadata"]["name"]);
                self.queue.push(&cluster, Subject::Binding, &name);
            }
        }
        self.wake_slices_of(id);
        let claiming: Vec<ExportId> = self
            .exports
            .read()
            .iter()
            .filter(|(other, exported)| {
                let missing =
                    |claim: &ClaimedKind| claim.identity == identity && claim.versions.is_empty();
                *other != id && !identity.is_empty() && exported.claims.iter().any(missing)
            })
            .map(|(other, _)| other.clone())
            .collect();
        for other in claiming {
            self.queue
                .push(&other.cluster, Subject::Export, &other.name);
        }
    }

    /// The export that a reference in an object of `cluster` means, whether or not it is there.
    pub(super) fn export_of(&self, cluster: &str, reference: &Value) -> ExportId {
        let path = text(&reference["path"]);
        let found = self.resolve(&path, cluster).unwrap_or(path);
        ExportId {
            cluster: found.into(),
            name: text(&reference["name"]).into(),
        }
    }
}

fn new_identity() -> String {
    let bytes = Sha256::digest(uuid::Uuid::new_v4().as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A kind as a schema has it; what was read before is kept, as schemas never change.
fn kind_of(schema: &Value, identity: &str, before: Option<&Exported>) -> ExportedKind {
    let (name, uid) = (
        text(&schema["metadata"]["name"]),
        text(&schema["metadata"]["uid"]),
    );
    let mut known = before.into_iter().flat_map(|exported| &exported.kinds);
    if let Some(kind) = known.find(|kind| kind.schema.1 == uid) {
        return kind.clone();
    }
    // A version has its schema where a CRD has an object around it.
    let mut definition = json!({ "spec": schema["spec"] });
    for version in definition["spec"]["versions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let written = version["schema"].take();
        version["schema"] = json!({ "openAPIV3Schema": written });
    }
    crd::default(&mut definition);
    let storage = items(&definition["spec"]["versions"])
        .find(|version| version["storage"] == true)
        .map(|version| text(&version["name"]))
        .unwrap_or_default();
    ExportedKind {
        collection: CollectionId {
            group: text(&schema["spec"]["group"]).into(),
            plural: text(&schema["spec"]["names"]["plural"]).into(),
            identity: identity.into(),
        },
        schema: (name, uid),
        storage,
        versions: crd::resources(&definition, identity),
    }
}

/// What an export's virtual workspace serves: its kinds, those that it claims, and its bindings.
fn seen(id: &ExportId, kinds: &[ExportedKind], claims: &[ClaimedKind]) -> Seen {
    let mut seen = Seen::default();
    for kind in kinds {
        let at = &kind.collection;
        seen.add(&at.group, &at.plural, &kind.versions, None);
    }
    for claim in claims {
        if (claim.group.as_str(), claim.plural.as_str()) == (APIS, "apibindings") {
            continue;
        }
        let label = Some(&claim.label);
        seen.add(&claim.group, &claim.plural, &claim.versions, label);
        if claim.plural == "events" && matches!(claim.group.as_str(), "" | "events.k8s.io") {
            for group in ["", "events.k8s.io"] {
                seen.add(group, "events", &kinds::versions(group, "events"), label);
            }
        }
    }
    let own = (EXPORT.into(), id.hash().into());
    let versions = kinds::versions(APIS, "apibindings");
    seen.add(APIS, "apibindings", &versions, Some(&own));
    seen
}
