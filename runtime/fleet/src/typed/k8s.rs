//! The types of `k8s-openapi` as kinds, for native reconcilers; the program uses none of them. Entry point: [`Typed`].

use super::{Kind, Typed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl<T: k8s_openapi::Resource + Serialize + DeserializeOwned> Typed for T {
    const KIND: Kind = Kind::new(T::API_VERSION, <T as k8s_openapi::Resource>::KIND);
}

impl Kind {
    /// The owner reference that makes an object of this kind the controller of another object: the other object is deleted
    /// after its owner, and [`owns`](crate::controller::Builder::owns) turns its events into requests for the owner.
    /// `owner` is metadata that was read from a server, because only a server sets `uid`.
    #[must_use]
    pub fn controller_reference(self, owner: &ObjectMeta) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            name: owner.name.clone().unwrap_or_default(),
            uid: owner.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}
