//! One verb on one resource. Entry point: [`Right`].

use super::rule::{covers_entry, resource_parts};
use super::{Access, Rule, Verb};
use std::sync::Arc;

/// A verb on a resource, in one cluster.
///
/// It says which calls it is about as a rule of RBAC does: with a name it is about calls whose URL has that name, so a name and
/// `deletecollection` are about no call at all, and a name and `create` about the server-side apply of an object that is absent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// `None`: in every namespace, and on cluster-scoped resources.
    pub namespace: Option<Arc<str>>,
    /// `""` for the core group, `*` for all.
    pub group: Arc<str>,
    /// With its subresource; `*` for all with their subresources, `*/status` for one subresource of all.
    pub resource: Arc<str>,
    /// `None`: every object.
    pub name: Option<Arc<str>>,
    /// The verb.
    pub verb: Verb,
}

impl Right {
    /// A right on all objects in all namespaces.
    #[must_use]
    pub fn new(group: &str, resource: &str, verb: Verb) -> Self {
        Self {
            namespace: None,
            group: group.into(),
            resource: resource.into(),
            name: None,
            verb,
        }
    }

    /// The same right in this namespace, or in all of them.
    #[must_use]
    pub fn within<'a>(self, namespace: impl Into<Option<&'a str>>) -> Self {
        Self {
            namespace: namespace.into().map(Into::into),
            ..self
        }
    }

    /// The same right on the objects of a name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.into()),
            ..self
        }
    }

    /// The right to make a call.
    pub(super) fn of(access: &Access<'_>) -> Self {
        let resource = match access.subresource {
            Some(subresource) => format!("{}/{subresource}", access.resource),
            None => access.resource.to_owned(),
        };
        Self {
            namespace: access.namespace.map(Into::into),
            group: access.group.into(),
            resource: resource.into(),
            name: access.name.map(Into::into),
            verb: access.verb,
        }
    }

    /// The resource and the subresource.
    #[must_use]
    pub fn resource_parts(&self) -> (&str, Option<&str>) {
        resource_parts(&self.resource)
    }

    /// Whether everything that another right allows is allowed by this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let all = |own: &Option<Arc<str>>, its: &Option<Arc<str>>| own.is_none() || own == its;
        (self.verb == other.verb || self.verb == Verb::ANY)
            && all(&self.namespace, &other.namespace)
            && all(&self.name, &other.name)
            && (&*self.group == "*" || self.group == other.group)
            && covers_entry(&self.resource, &other.resource)
    }

    /// The rule that grants it in the cluster of the request.
    #[must_use]
    pub fn rule(&self) -> Rule {
        Rule {
            api_groups: vec![self.group.clone()],
            resources: vec![self.resource.clone()],
            verbs: vec![self.verb.as_str().into()],
            resource_names: self.name.iter().cloned().collect(),
            namespaces: vec![self.namespace.clone().unwrap_or_else(|| "*".into())],
            clusters: None,
        }
    }
}
