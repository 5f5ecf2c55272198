//! The kinds of a fork: those that the other cluster serves.
//!
//! Built-in kinds are served as every cluster here serves them. A custom kind has its schema, rules and defaults once its definition has
//! been read; where that may not be read, and for kinds of other servers behind the API server, every field is allowed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{JSON, read};
use crate::builtin::builtin;
use crate::call::Call;
use crate::cluster::Cluster;
use crate::origin::{OriginError, Source};
use crate::registry::Registry;
use crate::resource::Resource;
use crate::rules::Rules;
use crate::state::Wanted;
use crate::status::ApiError;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// A resource as discovery names it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Named {
    /// Absent in aggregated discovery.
    name: String,
    resource: String,
    kind: String,
    response_kind: Option<Kind>,
    singular_name: String,
    singular_resource: String,
    namespaced: bool,
    scope: String,
    #[serde(deserialize_with = "or_none")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "or_none")]
    categories: Vec<String>,
    #[serde(deserialize_with = "or_none")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "or_none")]
    subresources: Vec<Subresource>,
}

/// Endpoints of kcp write `null` for an empty list.
fn or_none<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Kind {
    kind: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Subresource {
    subresource: String,
}

/// The resources of one version of a group, its subresources by their parents.
struct Version {
    group: String,
    version: String,
    resources: Vec<Named>,
}

impl Cluster {
    /// Reads what the other cluster serves, unless that was done.
    pub(super) async fn copy_kinds(&self, source: &Source) -> Result<(), ApiError> {
        if self.with(|state| state.copied.as_ref().is_none_or(|copied| copied.kinds)) {
            return Ok(());
        }
        let versions = versions(source).await?;
        let registry = registry(&versions);
        let mut served: HashMap<_, Vec<String>> = HashMap::new();
        for version in &versions {
            for named in &version.resources {
                let kind = (version.group.clone(), named.name.clone());
                served
                    .entry(kind)
                    .or_default()
                    .push(version.version.clone());
            }
        }
        self.with(|state| {
            state.registry = registry;
            if let Some(copied) = &mut state.copied {
                copied.kinds = true;
                copied.versions = served;
            }
        });
        Ok(())
    }

    /// The resource of a request, once its definition has been read if it has one.
    pub(super) async fn copy_definition(
        &self,
        source: &Source,
        call: &Call,
    ) -> Result<Option<Arc<Resource>>, ApiError> {
        let find = || {
            self.with(|state| {
                let found = state.resource(&call.group, &call.version, &call.resource)?;
                state.registry.of_collection(&found.collection()).cloned()
            })
        };
        let Some(resource) = find().filter(|found| found.custom) else {
            return Ok(find());
        };
        let definitions = self.with(|state| {
            let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
            state.resource(group, "v1", plural)
        });
        let Some(definitions) = definitions else {
            return Ok(Some(resource));
        };
        let name = format!("{}.{}", resource.plural, resource.group);
        let wanted = Wanted::One(String::new(), name);
        match self.copy(source, &definitions, wanted.clone()).await {
            Ok(()) => {}
            Err(error) if error.code == 403 => {
                tracing::warn!(cluster = self.name(), kind = %resource.kind, "the definition may not be read: every field is allowed");
                let id = definitions.collection();
                self.with(|state| {
                    let copied = state.copied.as_mut();
                    copied.map(|copied| copied.complete(&id, wanted))
                });
            }
            Err(error) => return Err(error),
        }
        Ok(find())
    }
}

/// Everything that the other cluster serves.
async fn versions(source: &Source) -> Result<Vec<Version>, ApiError> {
    let mut found = Vec::new();
    for path in ["/api", "/apis"] {
        let body = source.origin.read(path.to_owned(), AGGREGATED).await;
        let document: Value = match body {
            Ok(body) => read(&body)?,
            // An endpoint of kcp may serve no core group.
            Err(error) if error.is_absent() => continue,
            Err(error) => return Err(error.into()),
        };
        if document["kind"] == "APIGroupDiscoveryList" {
            found.extend(aggregated(&document)?);
        } else {
            for (group, version) in named_versions(&document) {
                found.extend(one_version(source, group, version).await?);
            }
        }
    }
    Ok(found)
}

fn texts<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[field].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn aggregated(document: &Value) -> Result<Vec<Version>, ApiError> {
    let mut found = Vec::new();
    for group in texts(document, "items") {
        for version in texts(group, "versions") {
            let resources = texts(version, "resources").map(named);
            found.push(Version {
                group: text(&group["metadata"]["name"]),
                version: text(&version["version"]),
                resources: resources.collect::<Result<_, _>>()?,
            });
        }
    }
    Ok(found)
}

fn named(value: &Value) -> Result<Named, ApiError> {
    let unreadable = |error: serde_json::Error| {
        OriginError::Unreachable(format!("the server's discovery cannot be read: {error}"))
    };
    let mut named = Named::deserialize(value).map_err(unreadable)?;
    if !named.resource.is_empty() {
        named.name = std::mem::take(&mut named.resource);
        named.singular_name = std::mem::take(&mut named.singular_resource);
        named.namespaced = named.scope == "Namespaced";
        named.kind = named.response_kind.take().unwrap_or_default().kind;
    }
    Ok(named)
}

/// The group versions of plain discovery.
fn named_versions(document: &Value) -> Vec<(String, String)> {
    let core = texts(document, "versions").map(|version| (String::new(), text(version)));
    let groups = texts(document, "groups").flat_map(|group| {
        let versions = texts(group, "versions");
        versions.map(|version| (text(&group["name"]), text(&version["version"])))
    });
    core.chain(groups).collect()
}

/// The resources of one version of plain discovery. One that does not answer, as behind an API service that is down, is left out.
async fn one_version(
    source: &Source,
    group: String,
    version: String,
) -> Result<Option<Version>, ApiError> {
    let path = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let body = match source.origin.read(path, JSON).await {
        Ok(body) => body,
        Err(OriginError::Answered { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let document: Value = read(&body)?;
    let all = texts(&document, "resources").map(named);
    let all: Vec<Named> = all.collect::<Result<_, _>>()?;
    let (mut resources, mut below) = (Vec::new(), BTreeMap::<String, Vec<Subresource>>::new());
    for mut named in all {
        match named.name.split_once('/') {
            None => resources.push(named),
            Some((parent, _)) => {
                let parent = parent.to_owned();
                let subresource = named.name.split_off(parent.len() + 1);
                let below = below.entry(parent).or_default();
                below.push(Subresource { subresource });
            }
        }
    }
    for resource in &mut resources {
        resource.subresources = below.remove(&resource.name).unwrap_or_default();
    }
    Ok(Some(Version {
        group,
        version,
        resources,
    }))
}

/// What a fork of a cluster serves.
fn registry(versions: &[Version]) -> Registry {
    let (mut base, mut others) = (Vec::new(), BTreeMap::<_, Vec<Arc<Resource>>>::new());
    for version in versions {
        for named in &version.resources {
            let known = builtin().resources.iter().find(|known| {
                known.is(&version.group, &named.name) && known.version == version.version
            });
            if let Some(known) = known {
                base.push(known.clone());
                continue;
            }
            // Two versions of a built-in kind are more than two names of it. The one that is known is served alone.
            let mut builtins = builtin().resources.iter();
            if builtins.any(|known| known.is(&version.group, &named.name)) {
                continue;
            }
            let key = (version.group.clone(), named.name.clone());
            others.entry(key).or_default().push(named.resource(version));
        }
    }
    let mut registry = Registry::on(base);
    for ((group, plural), mut versions) in others {
        // Objects are kept in the version that the server prefers.
        let preferred = versions.first().map(|first| first.version.clone());
        for resource in &mut versions {
            if let (Some(resource), Some(preferred)) = (Arc::get_mut(resource), &preferred) {
                resource.storage_version.clone_from(preferred);
            }
        }
        registry.set_custom(&group, &plural, versions);
    }
    registry
}

impl Named {
    /// A resource without a schema.
    fn resource(&self, of: &Version) -> Arc<Resource> {
        let singular = if self.singular_name.is_empty() {
            self.kind.to_lowercase()
        } else {
            self.singular_name.clone()
        };
        let mut below = self.subresources.iter();
        Arc::new(Resource {
            group: of.group.clone(),
            version: of.version.clone(),
            plural: self.name.clone(),
            singular,
            kind: self.kind.clone(),
            list_kind: format!("{}List", self.kind),
            namespaced: self.namespaced,
            short_names: self.short_names.clone(),
            categories: self.categories.clone(),
            verbs: self.verbs.clone(),
            status: below.any(|below| below.subresource == "status"),
            scale: None,
            subresources: Vec::new(),
            printer_columns: Vec::new(),
            custom: true,
            definition: format!("{}.{}.{}", of.group, of.version, self.kind),
            written: None,
            schemas: None,
            root: None,
            storage_group: of.group.clone(),
            storage_version: of.version.clone(),
            rules: Rules::default(),
            identity: String::new(),
        })
    }
}
