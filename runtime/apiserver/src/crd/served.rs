//! What a CRD serves: [`resources`].

use std::sync::Arc;

use serde_json::{Value, json};

use super::versions;
use crate::builtin::{OBJECT_META, builtin};
use crate::resource::{Resource, Scale};
use crate::rules::Rules;
use crate::schema::{NodeId, Schemas};

/// One resource per served version, the most stable first; `identity` is that of the export that the kind comes from, mostly empty.
pub(crate) fn resources(crd: &Value, identity: &str) -> Vec<Arc<Resource>> {
    let storage = versions(crd)
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
        .unwrap_or_default();
    let mut served: Vec<&Value> = versions(crd)
        .filter(|version| version["served"] == true)
        .collect();
    served.sort_by_key(|version| {
        std::cmp::Reverse(stability(version["name"].as_str().unwrap_or_default()))
    });
    served
        .into_iter()
        .map(|version| Arc::new(resource(crd, version, storage, identity)))
        .collect()
}

/// Sorts `v2` over `v1` over `v1beta2` over `v1alpha1` over anything else.
fn stability(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    if let Some(major) = number(rest) {
        return (3, major, 0);
    }
    for (rank, word) in [(2, "beta"), (1, "alpha")] {
        if let Some((major, minor)) = rest
            .split_once(word)
            .and_then(|(major, minor)| Some((number(major)?, number(minor)?)))
        {
            return (rank, major, minor);
        }
    }
    (0, 0, 0)
}

fn resource(crd: &Value, version: &Value, storage: &str, identity: &str) -> Resource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
    let spec = &crd["spec"];
    let names = &spec["names"];
    let (schemas, root) = schemas(version, spec["preserveUnknownFields"] == true);
    let path = |value: &Value| -> Vec<String> {
        text(value)
            .split('.')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let scale = version.pointer("/subresources/scale").map(|scale| Scale {
        spec_replicas: path(&scale["specReplicasPath"]),
        status_replicas: path(&scale["statusReplicasPath"]),
        selector: scale.get("labelSelectorPath").map(path),
    });
    let (group, version_name, kind) = (
        text(&spec["group"]),
        text(&version["name"]),
        text(&names["kind"]),
    );
    let reversed: Vec<&str> = group.split('.').rev().collect();
    Resource {
        definition: format!("{}.{version_name}.{kind}", reversed.join(".")),
        storage_group: group.clone(),
        storage_version: storage.to_owned(),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        verbs: [
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ]
        .map(str::to_owned)
        .to_vec(),
        status: version.pointer("/subresources/status").is_some(),
        scale,
        subresources: Vec::new(),
        printer_columns: version["additionalPrinterColumns"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
        custom: true,
        rules: Rules::read(schemas.at(root)),
        written: version
            .pointer("/schema/openAPIV3Schema")
            .cloned()
            .map(Box::new),
        schemas: Some(Arc::new(schemas)),
        root: Some(root),
        group,
        version: version_name,
        kind,
        identity: identity.to_owned(),
    }
}

/// The schema of a version, with the metadata that every object has.
pub(super) fn schemas(version: &Value, preserve: bool) -> (Schemas, NodeId) {
    let mut schemas = Schemas::default();
    let definitions = &builtin().definitions;
    let meta: serde_json::Map<String, Value> = definitions
        .iter()
        .filter(|(name, _)| name.contains(".apimachinery.pkg.apis.meta.v1."))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    schemas.define(&meta);
    let mut written = version
        .pointer("/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}));
    if preserve {
        written["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    let root = schemas.add(&written);
    let text = schemas.add(&json!({"type": "string"}));
    schemas.set_property(root, "apiVersion", text);
    schemas.set_property(root, "kind", text);
    if let Some(meta) = schemas.named(OBJECT_META) {
        schemas.set_property(root, "metadata", meta);
    }
    (schemas, root)
}

#[cfg(test)]
mod tests {
    use super::stability;

    #[test]
    fn versions_sort_by_stability_then_number() {
        let mut versions = ["v1alpha1", "foo", "v2", "v1beta2", "v1", "v1beta10"];
        versions.sort_by_key(|version| std::cmp::Reverse(stability(version)));
        assert_eq!(
            versions,
            ["v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
        );
    }
}
