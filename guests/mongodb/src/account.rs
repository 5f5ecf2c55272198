//! What the operator's pods need in the namespace of a database: they run with a service account that has to be there. Entry point: [`keep`].

use crate::condition::Trouble;
use crate::kinds::Database;
use crate::place::Place;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_sdk::prelude::*;

/// The name that the operator gives its pods' service account.
const NAME: &str = "mongodb-database";
const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Serialize, Deserialize)]
pub(crate) struct ServiceAccount {
    pub(crate) metadata: Metadata,
}
windlass_sdk::kind!(ServiceAccount, "v1", "ServiceAccount");

#[derive(Serialize, Deserialize)]
pub(crate) struct Role {
    pub(crate) metadata: Metadata,
    pub(crate) rules: Value,
}
windlass_sdk::kind!(Role, "rbac.authorization.k8s.io/v1", "Role");

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleBinding {
    pub(crate) metadata: Metadata,
    pub(crate) role_ref: Value,
    pub(crate) subjects: Value,
}
windlass_sdk::kind!(RoleBinding, "rbac.authorization.k8s.io/v1", "RoleBinding");

/// Makes the service account and its rights, unless they are there. While a database runs, its pods have them.
pub(crate) fn keep(compute: &Cluster, place: &Place, copy: &Database) -> Result<(), Trouble> {
    if copy.status["phase"] == "Running" || copy.metadata.is_deleting() {
        return Ok(());
    }
    let metadata = place.label(Metadata::of(&place.copy.sibling(NAME)));
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch", "delete"]},
    ]);
    let subject = json!({"kind": "ServiceAccount", "name": NAME, "namespace": place.namespace()});
    make(
        compute,
        &ServiceAccount {
            metadata: metadata.clone(),
        },
    )?;
    make(
        compute,
        &Role {
            metadata: metadata.clone(),
            rules,
        },
    )?;
    make(
        compute,
        &RoleBinding {
            metadata,
            role_ref: json!({"apiGroup": GROUP, "kind": "Role", "name": NAME}),
            subjects: json!([subject]),
        },
    )
}

/// Makes an object, unless one of its name is there.
fn make<T: Resource>(compute: &Cluster, object: &T) -> Result<(), Trouble> {
    match compute.create(object) {
        Err(error) if error.code == ApiCode::AlreadyExists => Ok(()),
        made => made.map(drop).map_err(Trouble::compute),
    }
}
