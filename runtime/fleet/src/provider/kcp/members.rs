//! The workspaces behind an endpoint, of the objects that it lists. Entry point: [`Members::read`].

use super::Workspaces;
use crate::cache::store::Excerpt;
use crate::cluster::RefusedClaims;
use crate::grant::BINDING_LABELS;
use crate::hub::HubObject;
use crate::pairs::Pairs;
use crate::provider::readiness::{Condition, is_true};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Most labels of a workspace.
const MOST_LABELS: usize = 100;
/// The property of a workspace's path.
pub(super) const PATH: &str = "path";
const PATH_ANNOTATION: &str = "kcp.io/path";
/// A part of the labels that kcp puts on bindings for itself.
const INTERNAL: &str = "internal.apis.kcp.io/";

/// A workspace behind an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// Whether it is to be engaged. A workspace that is engaged stays so.
    pub(super) is_ready: bool,
    pub(super) labels: Pairs,
    pub(super) properties: Pairs,
    pub(super) refused_claims: Arc<RefusedClaims>,
}

/// The workspaces behind an endpoint, by logical cluster. In boxes, because the nodes of such a map are half empty.
#[derive(Default)]
pub(super) struct Members(BTreeMap<Arc<str>, Box<Known>>);

/// A workspace with the objects that tell of it. It is not read again as long as these are the same.
struct Known {
    objects: Vec<HubObject>,
    member: Member,
}

impl Known {
    fn is_of(&self, objects: &[HubObject]) -> bool {
        let mut pairs = self.objects.iter().zip(objects);
        self.objects.len() == objects.len() && pairs.all(|(known, now)| known.is(now))
    }
}

/// A workspace, as one object tells of it.
#[derive(Default)]
struct One {
    path: Option<String>,
    is_ready: bool,
    labels: BTreeMap<String, String>,
    refused_claims: RefusedClaims,
}

/// What is kept of a binding: an endpoint has one for each of thousands of workspaces, and the rest of its text takes more than all else
/// that is kept of a workspace.
pub(super) const BINDING: Excerpt = Excerpt::new("binding", |text| {
    let mut kept: Kept = serde_json::from_slice(text).ok()?;
    if let Some(conditions) = &mut kept.binding.status.conditions {
        conditions.retain(|condition| condition.name == READY);
    }
    serde_json::to_vec(&kept).ok()
});
const READY: &str = "Ready";

/// Shared by the workspaces that refuse nothing: nearly all.
static NONE_REFUSED: LazyLock<Arc<RefusedClaims>> = LazyLock::new(Arc::default);

/// The part of a binding's text that is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    api_version: String,
    kind: String,
    metadata: Json,
    #[serde(flatten)]
    binding: Binding,
}

#[derive(Serialize, Deserialize)]
struct Binding {
    #[serde(default)]
    spec: BindingSpec,
    #[serde(default)]
    status: BindingStatus,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BindingSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permission_claims: Option<Vec<Claim>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BindingStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conditions: Option<Vec<Condition>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    export_permission_claims: Option<Vec<Claim>>,
}

#[derive(Serialize, Deserialize)]
struct Claim {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resource: String,
    /// Of the binding's own claims alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    state: String,
}

impl Members {
    /// The workspaces, by logical cluster.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Member)> {
        let known = self.0.iter();
        known.map(|(workspace, known)| (workspace, &known.member))
    }

    /// Replaces the workspaces by those that the objects of a list tell of.
    pub(super) fn read(&mut self, workspaces: &Workspaces, objects: Vec<HubObject>) {
        let mut by_workspace: BTreeMap<Arc<str>, Vec<HubObject>> = BTreeMap::new();
        for object in objects {
            if let Some(workspace) = object.workspace() {
                by_workspace
                    .entry(workspace.clone())
                    .or_default()
                    .push(object);
            }
        }
        let mut before = std::mem::take(&mut self.0);
        for (workspace, objects) in by_workspace {
            let known = before.remove(&workspace);
            let known = known
                .filter(|known| known.is_of(&objects))
                .unwrap_or_else(|| {
                    let member = member(workspaces, &workspace, &objects);
                    Box::new(Known { objects, member })
                });
            self.0.insert(workspace, known);
        }
    }
}

/// A workspace, of all objects that tell of it.
fn member(workspaces: &Workspaces, workspace: &str, objects: &[HubObject]) -> Member {
    let all: Vec<One> = objects
        .iter()
        .map(|object| One::of(workspaces, object))
        .collect();
    let path = all.iter().find_map(|one| one.path.clone());
    let mut labels = BTreeMap::new();
    for one in all.iter().rev() {
        labels.extend(one.labels.clone());
    }
    while labels.len() > MOST_LABELS {
        labels.pop_last();
    }
    let mut properties = BTreeMap::from([("logicalCluster".to_owned(), workspace.to_owned())]);
    properties.extend(path.map(|path| (PATH.to_owned(), path)));
    if workspaces.are_bound() {
        let bindings: Vec<Arc<str>> = objects.iter().map(|object| object.key().name).collect();
        properties.insert("binding".to_owned(), bindings.join(","));
    }
    // What any binding lets the export use, it may use.
    let mut refused = all.iter().map(|one| one.refused_claims.clone());
    let first = refused.next().unwrap_or_default();
    let refused = refused.fold(first, |these, those| &these & &those);
    Member {
        is_ready: all.iter().any(|one| one.is_ready),
        labels: labels.into(),
        properties: properties.into(),
        refused_claims: if refused.is_empty() {
            NONE_REFUSED.clone()
        } else {
            refused.into()
        },
    }
}

impl One {
    fn of(workspaces: &Workspaces, object: &HubObject) -> Self {
        let path = object.annotations().remove(PATH_ANNOTATION);
        if !workspaces.are_bound() {
            return Self {
                path,
                is_ready: true,
                ..Self::default()
            };
        }
        let labels = object.labels().into_iter();
        let mut one = Self {
            path,
            labels: labels
                .filter(|(key, _)| !key.contains(INTERNAL))
                .map(|(key, value)| (format!("{BINDING_LABELS}{key}"), value))
                .collect(),
            ..Self::default()
        };
        // What cannot be read is not ready.
        if let Ok(binding) = object.parse::<Binding>() {
            one.is_ready = is_true(&binding.status.conditions.unwrap_or_default(), READY);
            let accepted = binding.spec.permission_claims.unwrap_or_default();
            let is_accepted = |claim: &Claim| {
                let same = |own: &Claim| {
                    own.state == "Accepted"
                        && (&own.group, &own.resource) == (&claim.group, &claim.resource)
                };
                accepted.iter().any(same)
            };
            let claims = binding.status.export_permission_claims.unwrap_or_default();
            let refused = claims.into_iter().filter(|claim| !is_accepted(claim));
            one.refused_claims = refused.map(|claim| (claim.group, claim.resource)).collect();
        }
        one
    }
}

impl Workspaces {
    /// Whether its workspaces are those with a binding.
    fn are_bound(&self) -> bool {
        matches!(self, Self::EndpointSlice(_) | Self::Export { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_excerpt_of_a_binding_says_of_its_workspace_what_the_whole_says() {
        let claim = |resource: &str| json!({"group": "", "resource": resource, "state": "Accepted", "selector": {"matchAll": true}});
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "message": "x".repeat(500)});
        let whole = json!({
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
            "metadata": {"name": "widgets", "resourceVersion": "1", "labels": {"team": "a"},
                "annotations": {"kcp.io/cluster": "abc", "kcp.io/path": "root:a"}},
            "spec": {"reference": {"export": {"path": "root", "name": "widgets"}}, "permissionClaims": [claim("secrets")]},
            "status": {
                "boundResources": [{"resource": "widgets", "schema": {"name": "x".repeat(500)}}],
                "conditions": [condition("InitialBindingCompleted"), condition("Ready")],
                "exportPermissionClaims": [claim("secrets"), claim("configmaps")],
            },
        });
        let text = serde_json::to_vec(&whole).unwrap();
        let short = BINDING.shortened(&text).unwrap();
        assert!(short.len() * 3 < text.len(), "{} bytes", short.len());
        let of = |text: Vec<u8>| {
            let object = crate::json::Object::parse(text.into()).unwrap();
            let workspaces = Workspaces::EndpointSlice("widgets".to_owned());
            member(&workspaces, "abc", &[HubObject::new(object)])
        };
        let member = of(text);
        assert!(
            member.is_ready && member.refused_claims.len() == 1,
            "{member:?}"
        );
        assert_eq!(of(short), member);
    }
}
