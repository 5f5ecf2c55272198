//! Secrets and ConfigMaps that belong to an object, in either direction. Entry points: [`Flow::run`], [`remove`] and [`asking`].
//!
//! One that was brought to the other side has the label [`RELATED`], and a label for each object that needs it. It goes with the last.

mod carry;

use crate::config::{Config, Published, Related, RelatedKind, Side};
use crate::mark::{self, RELATED, is_unused};
use crate::names::related_name;
use crate::template::{Facts, Values};
use crate::trouble::Trouble;
use crate::work::Work;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use windlass_sdk::prelude::*;
use windlass_sdk::{DeleteOptions, GroupVersionKind};

/// The way of related objects from one side to the other.
pub(crate) struct Flow<'a> {
    work: &'a Work<'a>,
    source: &'a Object,
    /// Where they come from.
    side: Side,
    from: &'a Cluster,
    to: &'a Cluster,
    from_namespace: &'a str,
    to_namespace: &'a str,
}

impl<'a> Flow<'a> {
    /// From the workspace to the namespace of the copy.
    pub(crate) fn down(
        work: &'a Work<'a>,
        source: &'a Object,
        compute: &'a Cluster,
        namespace: &'a str,
    ) -> Self {
        Self {
            work,
            source,
            side: Side::Consumer,
            from: work.workspace,
            to: compute,
            from_namespace: work.origin.namespace(),
            to_namespace: namespace,
        }
    }

    /// From the namespace of the copy to the workspace.
    pub(crate) fn up(
        work: &'a Work<'a>,
        source: &'a Object,
        compute: &'a Cluster,
        namespace: &'a str,
    ) -> Self {
        Self {
            side: Side::Service,
            from: compute,
            to: work.workspace,
            from_namespace: namespace,
            to_namespace: work.origin.namespace(),
            ..Self::down(work, source, compute, namespace)
        }
    }

    /// Brings what `object` names, the object of this side, and takes back what it does not name any more. Returns what the consumer
    /// has to know, if something does not come.
    pub(crate) fn run(&self, object: &Object) -> Result<Option<Trouble>, Trouble> {
        let (mut brought, mut trouble) = (BTreeSet::new(), None);
        for related in of_side(self.work.published, self.side) {
            match self.bring(related, object, &mut brought) {
                Ok(told) => trouble = trouble.or(told),
                Err(claim @ Trouble::Claim(_)) => trouble = trouble.or(Some(claim)),
                Err(other) => return Err(other),
            }
        }
        if !matches!(trouble, Some(Trouble::Claim(_))) {
            let kinds = kinds(self.work.published, self.side);
            let error = |error, kind| self.write_error(error, kind);
            sweep(self.work, self.to, &kinds, &brought, false, &error)?;
        }
        Ok(trouble)
    }

    fn bring(
        &self,
        related: &Related,
        object: &Object,
        brought: &mut BTreeSet<(RelatedKind, String)>,
    ) -> Result<Option<Trouble>, Trouble> {
        let mut trouble = None;
        for origin in self.names(related, object)? {
            let key = ObjectKey::namespaced(self.from_namespace, &*origin);
            let there = self.from.of(related.kind.kind()).get_live(&key);
            let there = there.map_err(|error| self.read_error(error, related.kind))?;
            let Some(there) = there else {
                if self.side == Side::Consumer {
                    trouble.get_or_insert(missing(related.kind, &key));
                }
                continue;
            };
            // What was brought here is nobody's to bring back.
            if there.label(RELATED).is_some() {
                continue;
            }
            let name = related_name(self.work.published, related, &self.work.facts, &origin);
            let key = ObjectKey::namespaced(self.to_namespace, &*name);
            match self.carry(related.kind, &there, &key) {
                Ok(()) => {
                    brought.insert((related.kind, name));
                }
                Err(taken @ (Trouble::Taken { .. } | Trouble::Consumer { .. })) => {
                    trouble.get_or_insert(taken);
                }
                Err(other) => return Err(other),
            }
        }
        Ok(trouble)
    }

    /// The names on their own side.
    fn names(&self, related: &Related, object: &Object) -> Result<Vec<String>, Trouble> {
        if let Some(selector) = &related.selector {
            let matching = ListOptions::default()
                .namespace(self.from_namespace)
                .labels(selector.text())
                .metadata_only();
            let matching = self.from.of(related.kind.kind()).list(&matching);
            let matching = matching.map_err(|error| self.read_error(error, related.kind))?;
            let own = matching
                .into_iter()
                .filter(|one| one.label(RELATED).is_none());
            return Ok(own.map(|one| one.key().name).collect());
        }
        Ok(named(related, object, &self.work.facts))
    }

    fn read_error(&self, error: ApiError, kind: RelatedKind) -> Trouble {
        failed(self.side, error, kind)
    }

    fn write_error(&self, error: ApiError, kind: RelatedKind) -> Trouble {
        match self.side {
            Side::Consumer => failed(Side::Service, error, kind),
            Side::Service => failed(Side::Consumer, error, kind),
        }
    }
}

/// Of a call to the cluster of a side.
fn failed(side: Side, error: ApiError, kind: RelatedKind) -> Trouble {
    match side {
        Side::Consumer => Trouble::workspace(error, kind.resource()),
        Side::Service => Trouble::compute(error),
    }
}

fn missing(kind: RelatedKind, key: &ObjectKey) -> Trouble {
    let (kind, name) = (kind.name(), &key.name);
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let message = format!(
        "there is no {kind} {name:?} in the namespace {namespace:?}, which this object needs: make it"
    );
    Trouble::consumer("RelatedMissing", message)
}

fn of_side(published: &Published, side: Side) -> impl Iterator<Item = &Related> {
    let related = published.related.iter();
    related.filter(move |related| related.origin == side)
}

fn kinds(published: &Published, side: Side) -> BTreeSet<RelatedKind> {
    of_side(published, side)
        .map(|related| related.kind)
        .collect()
}

/// The names that a path or a template gives.
fn named(related: &Related, object: &Object, facts: &Facts) -> Vec<String> {
    let mut names = match (&related.path, &related.name) {
        (Some(path), _) => path.texts(&object.0),
        (None, Some(template)) => {
            let values = Values {
                facts,
                object: &object.0,
                value: "",
                hash: "",
            };
            // Without the field that it needs there is nothing to bring.
            let name = template.fill(&values, &mut str::to_owned);
            name.into_iter().collect()
        }
        (None, None) => Vec::new(),
    };
    names.sort();
    names.dedup();
    names
}

/// Puts the names that related objects have on the other side in the place of their names on this one.
pub(crate) fn rewrite(work: &Work<'_>, side: Side, object: &mut Value) {
    for related in of_side(work.published, side) {
        let Some(path) = &related.path else { continue };
        path.change(object, &mut |name| {
            if let Some(origin) = name.as_str().filter(|name| !name.is_empty()) {
                *name = json!(related_name(work.published, related, &work.facts, origin));
            }
        });
    }
}

/// Takes back from a cluster what was brought there for an object. Returns the namespaces of it.
pub(crate) fn remove(work: &Work<'_>, cluster: &Cluster) -> Result<Vec<String>, Trouble> {
    let (from, to) = if cluster.name().is_empty() {
        (Side::Consumer, Side::Service)
    } else {
        (Side::Service, Side::Consumer)
    };
    let error = |error, kind| failed(to, error, kind);
    let kinds = kinds(work.published, from);
    sweep(work, cluster, &kinds, &BTreeSet::new(), true, &error)
}

/// Takes back from a cluster what was brought there for an object, but what is kept. Returns the namespaces of it.
fn sweep(
    work: &Work<'_>,
    cluster: &Cluster,
    kinds: &BTreeSet<RelatedKind>,
    kept: &BTreeSet<(RelatedKind, String)>,
    live: bool,
    error: &dyn Fn(ApiError, RelatedKind) -> Trouble,
) -> Result<Vec<String>, Trouble> {
    let (user, mut namespaces) = (work.origin.user(), Vec::new());
    for kind in kinds {
        let mut brought = ListOptions::default().labels(&*user).metadata_only();
        if live {
            brought = brought.live();
        }
        let of_kind = cluster.of(kind.kind());
        let brought = of_kind.list(&brought).map_err(|it| error(it, *kind))?;
        for mut one in brought {
            let key = one.key();
            if one.label(RELATED).is_none() || kept.contains(&(*kind, key.name.clone())) {
                continue;
            }
            namespaces.extend(key.namespace.clone());
            let metadata = &mut one.0["metadata"];
            let version = metadata["resourceVersion"].clone();
            mark::unset(metadata, "annotations", &user);
            let taken = if is_unused(&one) {
                let options = DeleteOptions {
                    uid: one.identity().uid.map(str::to_owned),
                    resource_version: version.as_str().map(str::to_owned),
                    ..DeleteOptions::default()
                };
                cluster.delete_with(&kind.kind(), &key, &options).map(drop)
            } else {
                let marks = json!({user.as_str(): null});
                let patch = json!({"metadata": {"resourceVersion": version, "labels": marks, "annotations": marks}});
                of_kind.patch(&key, &patch).map(drop)
            };
            taken.map_err(|it| error(it, *kind))?;
        }
    }
    Ok(namespaces)
}

/// The requests of the objects that a Secret or ConfigMap of a cluster belongs to.
///
/// # Errors
/// If the objects cannot be listed.
pub(crate) fn asking(
    config: &Config,
    cluster: &Cluster,
    kind: &GroupVersionKind,
    changed: &Object,
) -> Result<Vec<Request>> {
    let is_compute = cluster.name().is_empty();
    if changed.label(RELATED).is_some() {
        return Ok(if is_compute {
            mark::users_there(changed)
        } else {
            mark::users_here(&cluster.name(), changed)
        });
    }
    let key = changed.key();
    let side = if is_compute {
        Side::Service
    } else {
        Side::Consumer
    };
    let mut requests = Vec::new();
    for published in &config.resources {
        let mut related = of_side(published, side).filter(|one| one.kind.kind() == *kind);
        let beside = ListOptions::default().namespace(key.namespace.clone().unwrap_or_default());
        let (of_kind, beside) = if is_compute {
            (published.target_kind(), beside.labels(mark::OBJECT))
        } else {
            (published.source_kind(), beside)
        };
        let related: Vec<_> = related.by_ref().collect();
        if related.is_empty() {
            continue;
        }
        for object in cluster.of(of_kind).list(&beside)? {
            let request = if is_compute {
                mark::request_of(&object)
            } else {
                published.selects(&object).then(|| Request {
                    cluster: cluster.name(),
                    key: object.key(),
                })
            };
            let Some(request) = request else { continue };
            let facts = Facts::of(config, &request)?;
            let is_needed = |one: &&Related| match &one.selector {
                Some(selector) => selector.matches(changed),
                None => named(one, &object, &facts).contains(&key.name),
            };
            if related.iter().any(is_needed) {
                requests.push(request);
            }
        }
    }
    Ok(requests)
}
