//! What a cluster knows of itself when it is a workspace of kcp: [`Place`], which marks every object that the cluster stores.

use serde_json::{Value, json};

use crate::resource::CollectionId;
use crate::selector::Labels;

/// Tells the logical cluster of an object.
pub(crate) const CLUSTER: &str = "kcp.io/cluster";
/// Tells the path of the workspace of an object.
pub(crate) const PATH: &str = "kcp.io/path";
/// Labels below this prefix make a claimed object visible to the export that claims it.
pub(crate) const CLAIMED: &str = "claimed.internal.apis.kcp.io/";

/// Kinds whose objects tell the path of their workspace.
const WITH_PATH: [(&str, &str); 4] = [
    ("apis.kcp.io", "apiexports"),
    ("apis.kcp.io", "apibindings"),
    ("core.kcp.io", "logicalclusters"),
    ("tenancy.kcp.io", "workspacetypes"),
];

/// Where in the tree of workspaces a cluster stands, and who may see which of its objects.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Name of the logical cluster.
    pub(crate) cluster: Box<str>,
    /// Path of the workspace, such as `root:org:team`.
    pub(crate) path: Box<str>,
    /// What was claimed and accepted.
    pub(crate) claims: Vec<Claim>,
}

/// An accepted claim on some objects of a kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub(crate) collection: CollectionId,
    pub(crate) selector: Labels,
    /// The label that claimed objects get.
    pub(crate) label: (Box<str>, Box<str>),
}

impl Place {
    /// Gives an object that is about to be stored the annotations and labels that kcp gives it.
    pub(crate) fn mark(&self, id: &CollectionId, object: &mut Value) {
        let metadata = &mut object["metadata"];
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][CLUSTER] = (*self.cluster).into();
        if WITH_PATH.contains(&(&id.group, &id.plural)) {
            metadata["annotations"][PATH] = (*self.path).into();
        }
        self.mark_claimed(id, metadata);
    }

    fn mark_claimed(&self, id: &CollectionId, metadata: &mut Value) {
        let before = metadata["labels"].as_object();
        let claims: Vec<_> = self
            .claims
            .iter()
            .filter(|claim| claim.collection == *id)
            .filter(|claim| {
                let get = |key: &str| before.and_then(|labels| labels.get(key)?.as_str());
                claim.selector.matches(get)
            })
            .map(|claim| &claim.label)
            .collect();
        let marked = before.is_some_and(|labels| labels.keys().any(|key| key.starts_with(CLAIMED)));
        if claims.is_empty() && !marked {
            return;
        }
        if !metadata["labels"].is_object() {
            metadata["labels"] = json!({});
        }
        let Some(labels) = metadata["labels"].as_object_mut() else {
            return;
        };
        labels.retain(|key, _| !key.starts_with(CLAIMED));
        for (key, value) in claims {
            labels.insert(key.to_string(), (**value).into());
        }
        if labels.is_empty()
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove("labels");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps() -> CollectionId {
        CollectionId {
            group: "".into(),
            plural: "configmaps".into(),
            identity: "".into(),
        }
    }

    #[test]
    fn a_claimed_object_carries_the_label_for_as_long_as_the_claim_selects_it() {
        let mut place = Place {
            cluster: "abc".into(),
            path: "root:a".into(),
            claims: vec![Claim {
                collection: maps(),
                selector: Labels::parse("app=x").unwrap(),
                label: (format!("{CLAIMED}e").into(), "c".into()),
            }],
        };
        let label = format!("/metadata/labels/{}e", CLAIMED.replace('/', "~1"));
        let mut map = json!({"metadata": {"name": "m", "labels": {"app": "x"}}});
        place.mark(&maps(), &mut map);
        assert_eq!(map.pointer(&label), Some(&json!("c")));
        assert_eq!(map["metadata"]["annotations"][CLUSTER], "abc");
        place.claims.clear();
        place.mark(&maps(), &mut map);
        assert_eq!(map["metadata"]["labels"], json!({"app": "x"}));
    }
}
