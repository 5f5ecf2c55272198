//! The types of kube and of k8s-openapi as objects of the client, for native reconcilers; the program uses none of them. Entry point: [`Typed`].

use super::Typed;
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl<T: Resource<DynamicType = ()> + Serialize + DeserializeOwned> Typed for T {
    fn gvk() -> GroupVersionKind {
        GroupVersionKind::new(&T::group(&()), &T::version(&()), &T::kind(&()))
    }
}

impl From<&kube_core::GroupVersionKind> for GroupVersionKind {
    fn from(kind: &kube_core::GroupVersionKind) -> Self {
        Self::new(&kind.group, &kind.version, &kind.kind)
    }
}

impl From<&GroupVersionKind> for kube_core::GroupVersionKind {
    fn from(kind: &GroupVersionKind) -> Self {
        Self::gvk(&kind.group, &kind.version, &kind.kind)
    }
}

impl ObjectKey {
    /// The key of an object. The name of an object that is not named yet is empty.
    #[must_use]
    pub fn of(object: &impl Resource) -> Self {
        let metadata = object.meta();
        Self {
            namespace: metadata.namespace.as_deref().map(Into::into),
            name: metadata.name.as_deref().unwrap_or_default().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde::Deserialize;
    use std::borrow::Cow;

    /// What `#[derive(CustomResource)]` makes, by hand: the derive would give kube-core features that the program's build does not have.
    #[derive(Serialize, Deserialize)]
    struct Website {
        metadata: ObjectMeta,
    }

    impl Resource for Website {
        type DynamicType = ();
        type Scope = kube_core::NamespaceResourceScope;

        fn kind((): &()) -> Cow<'_, str> {
            "Website".into()
        }

        fn group((): &()) -> Cow<'_, str> {
            "example.com".into()
        }

        fn version((): &()) -> Cow<'_, str> {
            "v1".into()
        }

        fn plural((): &()) -> Cow<'_, str> {
            "websites".into()
        }

        fn meta(&self) -> &ObjectMeta {
            &self.metadata
        }

        fn meta_mut(&mut self) -> &mut ObjectMeta {
            &mut self.metadata
        }
    }

    #[test]
    fn a_type_of_kube_has_a_kind_and_its_objects_have_keys() {
        let kind = Website::gvk();
        assert_eq!(kind.to_string(), "example.com/v1/Website");
        let of_kube = kube_core::GroupVersionKind::from(&kind);
        assert_eq!(GroupVersionKind::from(&of_kube), kind);
        let mut website = Website {
            metadata: ObjectMeta::default(),
        };
        website.metadata.name = Some("home".into());
        assert_eq!(ObjectKey::of(&website), ObjectKey::cluster_scoped("home"));
        website.metadata.namespace = Some("default".into());
        assert_eq!(
            ObjectKey::of(&website),
            ObjectKey::namespaced("default", "home")
        );
    }
}
