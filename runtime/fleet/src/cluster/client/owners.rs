//! Owners of what is written into another cluster than the request's. Entry point: [`Client::check_owners`].
//!
//! An owner is in the cluster of what it owns. An object whose owner is elsewhere has none that its cluster knows: the garbage collector deletes it, and
//! the reconciler makes it again, for ever.
//!
//! It is found for objects that are created, updated or applied, as far as the caches of the request's cluster have the owner, which they have if it is
//! of the kind that is reconciled. Patches are not looked at.

use super::Client;
use crate::api::{ApiCode, ApiError, Json};
use crate::json::Object;
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;

impl Client {
    /// Refuses an object for another cluster one of whose owners is an object of the request's cluster, as far as caches know it.
    pub(super) fn check_owners(&self, object: &Json) -> Result<(), ApiError> {
        let Some(home) = &self.home else {
            return Ok(());
        };
        let (Some(backend), Ok(object)) = (home.backend(), Object::parse(object.clone())) else {
            return Ok(());
        };
        // Another name of the same cluster. Workspaces and namespaces of one server are apart.
        if self.cluster.is_server_of(home) && self.part().part() == home.scope().part() {
            return Ok(());
        }
        for owner in object.owners() {
            let kind = GroupVersionKind::from_api_version(&owner.api_version, &owner.kind);
            let stores = backend.stores.of_kind(&kind);
            let keys = [object.key().namespace, None].map(|namespace| ObjectKey {
                namespace,
                name: owner.name.as_ref().into(),
            });
            let is_there = stores.iter().any(|store| {
                let keys = keys
                    .iter()
                    .filter_map(|key| home.scope().stored_key(key).ok());
                let mut found = keys.filter_map(|key| store.get(&key));
                found.any(|(found, _)| found.uid() == owner.uid)
            });
            if is_there {
                return Err(ApiError::host(
                    ApiCode::Invalid,
                    format!(
                        "the owner {} {} is an object of the cluster {:?}, and an owner has to be in the cluster of what it owns ({:?}), which would delete \
                         it: label the object instead, and delete it with a finalizer of yours",
                        owner.kind,
                        owner.name,
                        home.name().as_str(),
                        self.cluster_name().as_str()
                    ),
                ));
            }
        }
        Ok(())
    }
}
