//! Types of k8s-openapi as resources: they implement [`Resource`] and [`Typed`].

use super::{Identity, Kind, OwnerReference, Resource, Typed};
use crate::types::GroupVersionKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference as OpenApiOwner};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl<T> Resource for T
where
    T: k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned,
{
    fn kind(&self) -> GroupVersionKind {
        T::KIND_OF.into()
    }

    fn identity(&self) -> Identity<'_> {
        let metadata = self.metadata();
        Identity {
            name: metadata.name.as_deref().unwrap_or_default(),
            namespace: metadata.namespace.as_deref(),
            uid: metadata.uid.as_deref(),
            resource_version: metadata.resource_version.as_deref(),
        }
    }
}

/// Both traits have a constant `KIND`; this one tells them apart.
trait KindOf {
    const KIND_OF: Kind;
}

impl<T: k8s_openapi::Resource> KindOf for T {
    const KIND_OF: Kind = Kind {
        api_version: T::API_VERSION,
        kind: T::KIND,
    };
}

impl<T> Typed for T
where
    T: k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned,
{
    const KIND: Kind = T::KIND_OF;
}

impl From<OwnerReference> for OpenApiOwner {
    fn from(owner: OwnerReference) -> Self {
        Self {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ObjectKey;
    use k8s_openapi::api::apps::v1::Deployment;

    #[test]
    fn a_deployment_of_k8s_openapi_is_a_resource() {
        let metadata = ObjectMeta {
            name: Some("web".into()),
            namespace: Some("default".into()),
            uid: Some("u1".into()),
            ..ObjectMeta::default()
        };
        let deployment = Deployment {
            metadata,
            ..Deployment::default()
        };
        assert_eq!(
            Resource::kind(&deployment).to_string(),
            "apps/v1/Deployment"
        );
        assert_eq!(deployment.key(), ObjectKey::namespaced("default", "web"));
        let owner = OpenApiOwner::from(deployment.controller_reference());
        assert_eq!((owner.uid.as_str(), owner.controller), ("u1", Some(true)));
    }
}
