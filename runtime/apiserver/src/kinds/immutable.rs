//! What an update may not change: [`check`], by one table of the fields of all built-in kinds.
//!
//! Fields with conditions of their own are in [`updates`](super::updates).

use serde_json::Value;

use crate::crd;
use crate::resource::Resource;
use crate::status::FieldError;

/// A field that stays as it is.
struct Fixed {
    /// Its place, with dots.
    path: &'static str,
    /// Fields directly below it that may change.
    but: &'static [&'static str],
    when: When,
    /// The place that the error names.
    named: &'static str,
    answer: Answer,
}

#[derive(Clone, Copy)]
enum When {
    Always,
    /// From the first value on.
    Set,
    /// Once the object says `immutable: true`.
    Sealed,
    /// Once the definition is established.
    Established,
}

#[derive(Clone, Copy)]
enum Answer {
    Invalid(&'static str),
    Forbidden(&'static str),
}

const IMMUTABLE: &str = "field is immutable";

const fn fixed(path: &'static str) -> Fixed {
    Fixed {
        path,
        but: &[],
        when: When::Always,
        named: path,
        answer: Answer::Invalid(IMMUTABLE),
    }
}

const fn sealed(path: &'static str) -> Fixed {
    Fixed {
        when: When::Sealed,
        answer: Answer::Forbidden("field is immutable when `immutable` is set"),
        ..fixed(path)
    }
}

const fn established(path: &'static str) -> Fixed {
    Fixed {
        when: When::Established,
        ..fixed(path)
    }
}

/// A field of an event that its stored form calls `named`.
const fn event(path: &'static str, named: &'static str) -> Fixed {
    Fixed {
        named,
        ..fixed(path)
    }
}

const ROLE: Fixed = Fixed {
    answer: Answer::Invalid("cannot change roleRef"),
    ..fixed("roleRef")
};

/// By group and plural.
static KINDS: &[(&str, &str, &[Fixed])] = &[
    (
        "",
        "configmaps",
        &[sealed("immutable"), sealed("data"), sealed("binaryData")],
    ),
    (
        "",
        "secrets",
        &[fixed("type"), sealed("immutable"), sealed("data")],
    ),
    (
        "",
        "nodes",
        &[
            Fixed {
                when: When::Set,
                answer: Answer::Forbidden(
                    "node updates may not change podCIDR except from \"\" to valid",
                ),
                ..fixed("spec.podCIDRs")
            },
            Fixed {
                when: When::Set,
                answer: Answer::Forbidden(
                    "node updates may not change providerID except from \"\" to valid",
                ),
                ..fixed("spec.providerID")
            },
        ],
    ),
    (
        "",
        "persistentvolumes",
        &[
            Fixed {
                but: &[
                    "accessModes",
                    "capacity",
                    "claimRef",
                    "mountOptions",
                    "nodeAffinity",
                    "persistentVolumeReclaimPolicy",
                    "storageClassName",
                    "volumeAttributesClassName",
                    "volumeMode",
                ],
                named: "spec.persistentvolumesource",
                answer: Answer::Forbidden(
                    "spec.persistentvolumesource is immutable after creation",
                ),
                ..fixed("spec")
            },
            Fixed {
                named: "volumeMode",
                ..fixed("spec.volumeMode")
            },
            Fixed {
                when: When::Set,
                named: "nodeAffinity",
                answer: Answer::Invalid(
                    "field is immutable, except for updating from beta label to GA",
                ),
                ..fixed("spec.nodeAffinity")
            },
        ],
    ),
    (
        "",
        "persistentvolumeclaims",
        &[Fixed {
            named: "volumeMode",
            ..fixed("spec.volumeMode")
        }],
    ),
    ("apps", "controllerrevisions", &[fixed("data")]),
    ("apps", "daemonsets", &[fixed("spec.selector")]),
    ("apps", "deployments", &[fixed("spec.selector")]),
    ("apps", "replicasets", &[fixed("spec.selector")]),
    (
        "apps",
        "statefulsets",
        &[Fixed {
            but: &[
                "minReadySeconds",
                "ordinals",
                "persistentVolumeClaimRetentionPolicy",
                "replicas",
                "revisionHistoryLimit",
                "template",
                "updateStrategy",
            ],
            answer: Answer::Forbidden(
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ),
            ..fixed("spec")
        }],
    ),
    (
        "batch",
        "jobs",
        &[
            fixed("spec.selector"),
            fixed("spec.completionMode"),
            fixed("spec.podFailurePolicy"),
            fixed("spec.backoffLimitPerIndex"),
            fixed("spec.managedBy"),
            fixed("spec.successPolicy"),
        ],
    ),
    (
        "discovery.k8s.io",
        "endpointslices",
        &[fixed("addressType")],
    ),
    (
        "events.k8s.io",
        "events",
        &[
            event("regarding", "involvedObject"),
            event("reason", "reason"),
            event("note", "message"),
            event("deprecatedSource", "source"),
            event("deprecatedFirstTimestamp", "firstTimestamp"),
            event("deprecatedLastTimestamp", "lastTimestamp"),
            event("deprecatedCount", "count"),
            // The server checks it twice.
            event("reason", "reason"),
            event("type", "type"),
            event("eventTime", "eventTime"),
            event("action", "action"),
            event("related", "related"),
            event("reportingController", "reportingController"),
            event("reportingInstance", "reportingInstance"),
        ],
    ),
    (
        "networking.k8s.io",
        "ingressclasses",
        &[fixed("spec.controller")],
    ),
    ("rbac.authorization.k8s.io", "clusterrolebindings", &[ROLE]),
    ("rbac.authorization.k8s.io", "rolebindings", &[ROLE]),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        &[
            Fixed {
                answer: Answer::Forbidden("may not be changed in an update."),
                ..fixed("value")
            },
            fixed("preemptionPolicy"),
        ],
    ),
    (
        "storage.k8s.io",
        "storageclasses",
        &[
            fixed("parameters"),
            fixed("provisioner"),
            fixed("reclaimPolicy"),
            fixed("volumeBindingMode"),
        ],
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &[
            established("spec.scope"),
            established("spec.names.kind"),
            fixed("spec.group"),
            fixed("spec.names.plural"),
        ],
    ),
];

/// Adds an error for each fixed field that differs.
pub(super) fn check(resource: &Resource, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let rows = KINDS
        .iter()
        .filter(|(group, plural, _)| resource.is(group, plural))
        .flat_map(|(_, _, fields)| *fields);
    for field in rows {
        let (before, after) = (at(old, field.path), at(new, field.path));
        let applies = match field.when {
            When::Always => true,
            When::Set => !empty(before) && *before != "",
            When::Sealed => old["immutable"] == true,
            When::Established => crd::is_established(old),
        };
        if !applies || same_but(before, after, field.but) {
            continue;
        }
        errors.push(match field.answer {
            Answer::Invalid(detail) => FieldError::invalid(field.named, after, detail),
            Answer::Forbidden(detail) => FieldError::forbidden(field.named, detail),
        });
    }
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, name| &value[name])
}

/// Whether two values are the same for a server, which stores no difference between an absent list and an empty one.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    same_but(one, other, &[])
}

fn same_but(one: &Value, other: &Value, but: &[&str]) -> bool {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => left
            .keys()
            .chain(right.keys())
            .filter(|name| !but.contains(&name.as_str()))
            .all(|name| same(&one[name.as_str()], &other[name.as_str()])),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(one, other)| same(one, other))
        }
        _ => one == other || (empty(one) && empty(other)),
    }
}

fn empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;
    use serde_json::json;

    #[test]
    fn every_row_names_a_kind_and_a_field_that_are_served() {
        for (group, plural, fields) in KINDS {
            let mut resources = builtin().resources.iter();
            let resource = resources.find(|resource| resource.is(group, plural));
            let schema = resource.unwrap_or_else(|| panic!("{plural}")).schema();
            for field in *fields {
                let mut names = field
                    .path
                    .split('.')
                    .chain(field.but.iter().copied().take(1));
                let found = names.try_fold(schema, |schema, name| schema.property(name));
                assert!(found.is_some(), "{plural} has no {}", field.path);
            }
        }
    }

    #[test]
    fn an_absent_list_is_an_empty_one() {
        assert!(same(
            &json!({"a": [], "b": [{"c": null}]}),
            &json!({"b": [{}]})
        ));
        assert!(!same(&json!({"a": [1]}), &json!({"a": []})));
        assert!(same_but(
            &json!({"a": 1, "b": 1}),
            &json!({"a": 2, "b": 1}),
            &["a"]
        ));
    }
}
