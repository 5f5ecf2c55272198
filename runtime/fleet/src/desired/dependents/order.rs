//! What must exist before other objects can, and what must go after them. Entry points: [`is_ground`] and [`remove`].

use super::super::applied::Desired;
use super::super::calls::Calls;
use crate::api::{ApiCode, ApiError, DeleteOptions, Operation, Propagation};
use crate::kind::GroupVersionKind;
use crate::object::Object;

/// Whether other objects need this one to exist: a Namespace, or the definition of a kind.
pub(super) fn is_ground(object: &Object) -> bool {
    let kind = object.gvk();
    is_definition(&kind) || (&*kind.group, &*kind.kind) == ("", "Namespace")
}

/// Whether this is the kind of definitions of kinds.
pub(super) fn is_definition(kind: &GroupVersionKind) -> bool {
    (&*kind.group, &*kind.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Whether the cluster does not know a kind whose definition is desired.
pub(super) fn is_defined(error: &ApiError, kind: &GroupVersionKind, wanted: &[Desired]) -> bool {
    let defines = |desired: &Desired| {
        let spec = &desired.object.0["spec"];
        is_ground(&desired.object)
            && spec["group"] == *kind.group
            && spec["names"]["kind"] == *kind.kind
    };
    error.code == ApiCode::UnknownKind && wanted.iter().any(defines)
}

/// Deletes these objects and what they own, and not newer ones of the same names; Namespaces and definitions of kinds after all others. Returns the
/// results for those that were not being deleted yet.
pub(super) async fn remove<'a>(
    calls: &impl Calls,
    objects: &'a [Object],
) -> Vec<(&'a Object, Result<(), ApiError>)> {
    let mut removed = Vec::new();
    for last in [false, true] {
        let doomed = objects.iter().filter(|each| is_ground(each) == last);
        let doomed: Vec<&Object> = doomed.filter(|each| !each.is_deleting()).collect();
        if doomed.is_empty() {
            continue;
        }
        let operations = doomed.iter().map(|object| deletion(object)).collect();
        let replies = calls.batch(operations).await;
        for (object, reply) in doomed.into_iter().zip(replies) {
            let result = match reply {
                Err(error) if error.code != ApiCode::NotFound => Err(error),
                _ => Ok(()),
            };
            removed.push((object, result));
        }
    }
    removed
}

fn deletion(object: &Object) -> Operation {
    let options = DeleteOptions {
        uid: object.text_at("/metadata/uid").map(str::to_owned),
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    Operation::Delete(object.gvk(), object.key(), options)
}
