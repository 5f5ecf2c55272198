//! The required configuration. Its schema is in `config.schema.json`; [`Config::read`] checks what a schema cannot.

use crate::path::Path;
use crate::selector::Selector;
use crate::template::{Template, Variable};
use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// What is published.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) resources: Vec<Published>,
}

/// A kind that consumers use.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) source: Source,
    #[serde(default)]
    pub(crate) projection: Projection,
    #[serde(default)]
    pub(crate) down: Down,
    #[serde(default)]
    pub(crate) up: Up,
    #[serde(default)]
    pub(crate) related: Vec<Related>,
    #[serde(default)]
    pub(crate) deletion: Deletion,
}

/// The kind in workspaces.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Source {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) scope: Scope,
    /// Objects without these labels are left alone.
    pub(crate) selector: Option<Selector>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Scope {
    #[default]
    Namespaced,
    Cluster,
}

/// The kind on the compute cluster, and the name there.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Projection {
    pub(crate) api_version: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) scope: Option<Scope>,
    pub(crate) namespace: Option<Template>,
    pub(crate) name: Option<Template>,
    pub(crate) max_name_length: usize,
}

impl Default for Projection {
    fn default() -> Self {
        Self {
            api_version: None,
            kind: None,
            scope: None,
            namespace: None,
            name: None,
            max_name_length: 253,
        }
    }
}

/// What goes down.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Down {
    /// Empty: everything but metadata and status.
    pub(crate) fields: Vec<Path>,
    /// Keys; one that ends in `*` is the beginning of keys.
    pub(crate) labels: Vec<String>,
    pub(crate) annotations: Vec<String>,
    pub(crate) mutations: Vec<Mutation>,
}

/// What goes up.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Up {
    /// Empty: the whole status.
    pub(crate) fields: Vec<Path>,
    pub(crate) mutations: Vec<Mutation>,
    /// The type of the condition that this guest writes; empty: none, and Events tell what is wrong.
    pub(crate) condition: String,
}

impl Default for Up {
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            mutations: Vec::new(),
            condition: "Synced".to_owned(),
        }
    }
}

/// A change of what goes down or up: one of the three.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Mutation {
    pub(crate) path: Path,
    pub(crate) set: Option<Value>,
    #[serde(default)]
    pub(crate) delete: bool,
    pub(crate) template: Option<Template>,
}

/// Secrets or ConfigMaps that belong to an object: found by one of `path`, `name` and `selector`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Related {
    pub(crate) kind: RelatedKind,
    pub(crate) origin: Side,
    pub(crate) path: Option<Path>,
    pub(crate) name: Option<Template>,
    pub(crate) selector: Option<Selector>,
    /// The name on the other side.
    pub(crate) rename: Option<Template>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum RelatedKind {
    Secret,
    ConfigMap,
}

/// Who makes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Side {
    Consumer,
    Service,
}

/// What happens to the copy when the consumer's object is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Deletion {
    #[default]
    Delete,
    Orphan,
}

impl RelatedKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }

    /// Its plural, for people.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        }
    }

    pub(crate) fn kind(self) -> GroupVersionKind {
        GroupVersionKind::new("v1", self.name())
    }
}

impl Published {
    pub(crate) fn source_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.source.api_version, &self.source.kind)
    }

    pub(crate) fn target_kind(&self) -> GroupVersionKind {
        let (source, projection) = (&self.source, &self.projection);
        let api_version = projection.api_version.as_ref();
        let kind = projection.kind.as_ref();
        GroupVersionKind::new(
            api_version.unwrap_or(&source.api_version),
            kind.unwrap_or(&source.kind),
        )
    }

    pub(crate) fn target_scope(&self) -> Scope {
        self.projection.scope.unwrap_or(self.source.scope)
    }

    /// Whether an object is one that this publishes.
    pub(crate) fn selects(&self, source: &Object) -> bool {
        let selector = self.source.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(source))
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let mutations = self.down.mutations.iter().chain(&self.up.mutations);
        let related = self.related.iter();
        let names = [&self.projection.namespace, &self.projection.name];
        names
            .into_iter()
            .flatten()
            .chain(mutations.filter_map(|one| one.template.as_ref()))
            .chain(related.flat_map(|one| one.name.iter().chain(&one.rename)))
    }

    /// What is wrong with it, with the field before it.
    fn problem(&self) -> Option<String> {
        let names = [
            ("projection.namespace", &self.projection.namespace),
            ("projection.name", &self.projection.name),
        ];
        for (field, template) in names {
            let Some(template) = template else { continue };
            if template.has_fields() || template.uses(Variable::Value) {
                return Some(format!(
                    "{field}: a name cannot change, so it has no fields of the object and no {{value}}: use the other variables"
                ));
            }
        }
        if self.target_scope() == Scope::Cluster && self.projection.namespace.is_some() {
            return Some("projection.namespace: the scope is Cluster: leave it out".to_owned());
        }
        let is_namespaced =
            self.source.scope == Scope::Namespaced && self.target_scope() == Scope::Namespaced;
        if !self.related.is_empty() && !is_namespaced {
            return Some("related: objects without a namespace have none: leave it out".to_owned());
        }
        let down = self.down.mutations.iter().map(|one| (one, true));
        let up = self.up.mutations.iter().map(|one| (one, false));
        let mutation = down
            .chain(up)
            .find_map(|(one, is_down)| one.problem(is_down));
        let fields = || {
            let down = self.down.fields.iter().map(|path| (path, true));
            let up = self.up.fields.iter().map(|path| (path, false));
            down.chain(up).find_map(|(path, is_down)| {
                let is_meta = ["apiVersion", "kind", "metadata", "status"].contains(&path.first());
                let is_wrong = if is_down {
                    is_meta
                } else {
                    path.first() != "status"
                };
                let side = if is_down { "down" } else { "up" };
                let rule = if is_down {
                    "is outside metadata and status"
                } else {
                    "begins with status"
                };
                (is_wrong || !path.is_plain()).then(|| {
                    format!(
                        "{side}.fields: {path}: a path here {rule}, and has no brackets with items"
                    )
                })
            })
        };
        let related = || self.related.iter().find_map(Related::problem);
        mutation.or_else(fields).or_else(related)
    }
}

impl Mutation {
    fn problem(&self, is_down: bool) -> Option<String> {
        let side = if is_down { "down" } else { "up" };
        let problem = |what: &str| Some(format!("{side}.mutations: {}: {what}", self.path));
        let given = [self.set.is_some(), self.delete, self.template.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            return problem("give one of set, delete: true and template");
        }
        match (is_down, self.path.first(), self.path.second()) {
            (false, "status", Some(_)) => None,
            (false, ..) => problem("a path here begins with status"),
            (true, "metadata", Some("labels" | "annotations")) => None,
            (true, "apiVersion" | "kind" | "status" | "metadata", _) => {
                problem("of these, only metadata.labels and metadata.annotations go down")
            }
            (true, ..) => None,
        }
    }
}

impl Related {
    fn problem(&self) -> Option<String> {
        let problem = |what: &str| Some(format!("related: {what}"));
        let given = [
            self.path.is_some(),
            self.name.is_some(),
            self.selector.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return problem("give one of path, name and selector");
        }
        if self.rename.as_ref().is_some_and(Template::has_fields) {
            return problem(
                "rename has no fields of the object: use {value}, the name on its own side",
            );
        }
        if self.origin == Side::Service {
            // What a consumer writes must not choose which Secret comes back.
            let path = self.path.as_ref();
            if let Some(path) = path.filter(|path| path.first() != "status") {
                return Some(format!(
                    "related: {path}: of origin service, a path begins with status"
                ));
            }
            if self.name.as_ref().is_some_and(Template::has_fields) {
                return problem("of origin service, a name has no fields of the object");
            }
        }
        None
    }
}

impl Config {
    /// Reads it.
    ///
    /// # Errors
    /// If it cannot be used; the error names the field.
    pub(crate) fn read() -> Result<Self> {
        let config: Self = config()?;
        let mut kinds = Vec::new();
        for (index, published) in config.resources.iter().enumerate() {
            let kind = published.source_kind();
            let twice = kinds.contains(&kind);
            let twice = twice.then(|| "source: the kind is published already".to_owned());
            if let Some(problem) = twice.or_else(|| published.problem()) {
                return Err(Error::terminal(format!(
                    "config.resources[{index}].{problem}"
                )));
            }
            kinds.push(kind);
        }
        Ok(config)
    }

    /// Whether a template needs what the provider says of clusters.
    pub(crate) fn needs_properties(&self) -> bool {
        let mut templates = self.resources.iter().flat_map(Published::templates);
        templates.any(|one| one.uses(Variable::Path) || one.uses(Variable::LogicalCluster))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;
    use windlass_sdk::testing::TestFleet;

    /// A published resource: HttpBin, with more fields.
    pub(crate) fn published(more: Value) -> Published {
        let mut resource = json!({"source": {"apiVersion": "example.com/v1", "kind": "HttpBin"}});
        for (field, value) in more.as_object().into_iter().flatten() {
            resource[field] = value.clone();
        }
        serde_json::from_value(resource).unwrap()
    }

    fn problem(more: &Value) -> String {
        let mut resource = json!({"source": {"apiVersion": "example.com/v1", "kind": "HttpBin"}});
        for (field, value) in more.as_object().into_iter().flatten() {
            resource[field] = value.clone();
        }
        let fleet = TestFleet::new().config(&json!({"resources": [resource]}));
        let read = fleet.enter(Config::read);
        read.map(|_| String::new())
            .unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn what_a_schema_cannot_say_is_said() {
        for (wrong, expected) in [
            (
                json!({"projection": {"name": "{.spec.x}"}}),
                "a name cannot change",
            ),
            (
                json!({"projection": {"scope": "Cluster", "namespace": "x"}}),
                "projection.namespace",
            ),
            (
                json!({"down": {"mutations": [{"path": "spec.x"}]}}),
                "one of set, delete",
            ),
            (
                json!({"down": {"mutations": [{"path": "metadata.name", "set": "x"}]}}),
                "metadata.labels",
            ),
            (
                json!({"up": {"mutations": [{"path": "spec.x", "set": 1}]}}),
                "begins with status",
            ),
            (json!({"up": {"fields": ["phase"]}}), "begins with status"),
            (json!({"down": {"fields": ["spec.a[0]"]}}), "no brackets"),
            (
                json!({"related": [{"kind": "Secret", "origin": "service", "path": "spec.x"}]}),
                "begins with status",
            ),
            (
                json!({"related": [{"kind": "Secret", "origin": "service", "name": "{.spec.x}"}]}),
                "no fields",
            ),
            (
                json!({"related": [{"kind": "Secret", "origin": "consumer"}]}),
                "one of path",
            ),
            (
                json!({"source": {"apiVersion": "v1", "kind": "K", "scope": "Cluster"},
                "related": [{"kind": "Secret", "origin": "consumer", "name": "x"}]}),
                "without a namespace",
            ),
        ] {
            let said = problem(&wrong);
            assert!(
                said.contains(expected) && said.starts_with("config.resources[0]."),
                "{wrong}: {said}"
            );
        }
        assert_eq!(
            problem(&json!({"down": {"mutations": [{"path": "metadata.labels.a", "set": "b"}]}})),
            ""
        );
    }

    #[test]
    fn the_target_is_the_source_unless_it_is_projected() {
        assert_eq!(
            published(json!({})).target_kind().to_string(),
            "example.com/v1/HttpBin"
        );
        let other = json!({"projection": {"apiVersion": "apps.example.com/v2", "kind": "Bin"}});
        assert_eq!(
            published(other).target_kind().to_string(),
            "apps.example.com/v2/Bin"
        );
    }
}
