//! The copy on the compute cluster. Entry points: [`locate`] and [`keep`].
//!
//! A copy is made by a server-side apply without force, so it overwrites nothing of anybody, and corrected by one with force and with
//! the copy's uid, so it touches no other object of the name. Fields that others add stay.

use crate::digest::digest;
use crate::mark::{self, APPLIED, CLUSTER, NAMESPACE, NAMESPACE_OF};
use crate::names::place;
use crate::project::is_within;
use crate::trouble::Trouble;
use crate::work::Work;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_sdk::prelude::*;
use windlass_sdk::{ApplyOptions, now};

/// An annotation of namespaces that were made here: when the last copy began in it. A change after the look at the namespace is noticed by it.
const LAST: &str = "sync.windlass.dev/last";
/// Letters of the digest of what was applied.
const DIGEST: usize = 26;

/// A namespace of the compute cluster.
#[derive(Serialize, Deserialize)]
pub(crate) struct Namespace {
    pub(crate) metadata: Metadata,
}
windlass_sdk::kind!(Namespace, "v1", "Namespace");

/// Where the copy of an object is, or will be.
pub(crate) struct Located {
    pub(crate) key: ObjectKey,
    pub(crate) there: Option<Object>,
}

/// Finds the copy: at its place, or at the place that it was given by another configuration, where it stays.
pub(crate) fn locate(
    work: &Work<'_>,
    compute: &Cluster,
    source: &Object,
) -> Result<Located, Trouble> {
    let of_kind = compute.of(work.published.target_kind());
    let key = place(work.published, &work.facts);
    let is_ours = |copy: &Object| work.origin.owns(copy, Some(source));
    let found = |copy: Object| Located {
        key: copy.key(),
        there: Some(copy),
    };
    let cached = of_kind.get(&key).map_err(Trouble::compute)?;
    if let Some(copy) = cached.filter(is_ours) {
        return Ok(found(copy));
    }
    let marked = ListOptions::default().labels(work.origin.copies()).live();
    let marked = of_kind.list(&marked).map_err(Trouble::compute)?;
    if let Some(copy) = marked.into_iter().find(is_ours) {
        return Ok(found(copy));
    }
    match of_kind.get_live(&key).map_err(Trouble::compute)? {
        None => Ok(Located { key, there: None }),
        Some(_) => {
            warn!("the place of a copy is taken", key = key);
            let what = &work.published.target_kind().kind;
            Err(Trouble::Taken {
                reason: "NameTaken",
                message: format!(
                    "the service has a {what} {key} already that does not belong to this object: choose another name for this object, or ask those who run the service"
                ),
            })
        }
    }
}

/// Makes the namespace of a new copy, or says in it that one begins.
pub(crate) fn namespace(work: &Work<'_>, compute: &Cluster, name: &str) -> Result<(), Trouble> {
    let key = ObjectKey::cluster_scoped(name);
    let digest = work.origin.namespace_digest();
    let there = compute
        .get_live::<Namespace>(&key)
        .map_err(Trouble::compute)?;
    let Some(there) = there else {
        let metadata = Metadata::of(&key)
            .label(NAMESPACE_OF, digest)
            .annotation(CLUSTER, &*work.origin.cluster)
            .annotation(NAMESPACE, work.origin.namespace());
        let made = compute.create(&Namespace { metadata });
        return made.map(drop).map_err(Trouble::compute);
    };
    let label = there.metadata.labels.get(NAMESPACE_OF);
    if work.published.projection.namespace.is_none() && label != Some(&digest) {
        return Err(Trouble::Provider(Error::retry(format!(
            "the namespace {name} of the compute cluster was not made for {}: delete it, or set projection.namespace",
            work.origin.key
        ))));
    }
    if label.is_some() {
        let began = json!({"metadata": {"annotations": {LAST: now()}}});
        let noted = compute.patch::<Namespace>(&key, &began);
        noted.map_err(Trouble::compute)?;
    }
    Ok(())
}

/// Makes the copy, or corrects it. Returns it.
pub(crate) fn keep(
    work: &Work<'_>,
    compute: &Cluster,
    source: &Object,
    located: Located,
    wanted: &Value,
) -> Result<Object, Trouble> {
    let mut body = Object::new(&work.published.target_kind(), &located.key);
    for (field, value) in wanted.as_object().into_iter().flatten() {
        if field != "metadata" {
            body.0[field.as_str()] = value.clone();
        }
    }
    let metadata = &mut body.0["metadata"];
    for part in ["labels", "annotations"] {
        let chosen = wanted["metadata"][part].as_object();
        for (key, value) in chosen.into_iter().flatten() {
            metadata[part][key.as_str()] = value.clone();
        }
    }
    // After what the consumer has a say in.
    work.origin.mark(metadata, source);
    let applied = digest([&*wanted.to_string()], DIGEST);
    mark::set(metadata, "annotations", APPLIED, &applied);
    let Some(there) = located.there else {
        let made = compute.apply_with(&body, &ApplyOptions::default());
        info!("made", key = located.key);
        return made.map_err(Trouble::compute);
    };
    if there.is_deleting() || is_within(&body.0, &there.0) {
        return Ok(there);
    }
    body.0["metadata"]["uid"] = there.0["metadata"]["uid"].clone();
    info!("corrected", key = located.key);
    compute.force_apply(&body).map_err(Trouble::compute)
}
