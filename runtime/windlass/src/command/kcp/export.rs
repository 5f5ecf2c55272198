//! From CustomResourceDefinitions to an APIExport of kcp and its APIResourceSchemas. Entry point: [`Export`].
//!
//! An APIResourceSchema never changes. So its name is derived from its content, and a definition that changes makes a new schema, which the
//! export names from then on.

use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use windlass_fleet::Digest;

/// Fields that versions of both kinds have.
const KEPT: [&str; 7] = [
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "subresources",
    "additionalPrinterColumns",
];

/// Why a definition cannot be published.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExportError {
    /// Another kind of object.
    #[error("{0} is no CustomResourceDefinition of apiextensions.k8s.io/v1: give definitions only")]
    Kind(String),
    /// Two definitions of one kind.
    #[error("{0} is there twice: give it once")]
    Twice(String),
    /// Versions that a webhook converts, which kcp does not call.
    #[error(
        "{0} has several versions, which a webhook converts, and kcp calls none: choose one of them, {1}, with --version {0}=VERSION"
    )]
    Webhook(String, String),
    /// A version that the definition does not serve.
    #[error(
        "{0} does not serve the version {1}, but {2}: choose one of these with --version {0}=VERSION"
    )]
    Version(String, String, String),
    /// A version of a definition that was not given.
    #[error(
        "{0} is not among the definitions, so --version says nothing of it: give it, or correct its name"
    )]
    Absent(String),
    /// No schema.
    #[error("{0} has no schema in version {1}: kcp needs one")]
    Schema(String, String),
}

/// The versions that are asked for: of single definitions by their names, and of all others.
#[derive(Debug, Default)]
pub(super) struct Versions {
    of: BTreeMap<String, String>,
    others: Option<String>,
}

impl Versions {
    /// Of `VERSION` and `NAME=VERSION`. The last one counts.
    pub(super) fn parse<S: AsRef<str>>(texts: &[S]) -> Self {
        let mut all = Self::default();
        for text in texts.iter().map(AsRef::as_ref) {
            match text.split_once('=') {
                Some((name, version)) => drop(all.of.insert(name.to_owned(), version.to_owned())),
                None => all.others = Some(text.to_owned()),
            }
        }
        all
    }

    fn wanted(&self, name: &str) -> Option<&str> {
        self.of
            .get(name)
            .or(self.others.as_ref())
            .map(String::as_str)
    }
}

/// An export with its schemas.
pub(super) struct Export {
    name: String,
    versions: Versions,
    /// The names of the definitions.
    definitions: BTreeSet<String>,
    schemas: Vec<Json>,
    claims: Vec<Claim>,
}

/// A kind that the export asks consumers for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    resource: String,
    group: String,
}

impl Claim {
    /// Of `secrets`, or of `events.events.k8s.io`.
    pub(super) fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self {
            resource: resource.to_owned(),
            group: group.to_owned(),
        }
    }
}

impl Export {
    /// An export of nothing.
    pub(super) fn new(name: &str, versions: Versions) -> Self {
        Self {
            name: name.to_owned(),
            versions,
            definitions: BTreeSet::new(),
            schemas: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// Adds the kind of a definition: all versions that it serves, or the one that is asked for.
    ///
    /// # Errors
    /// [`ExportError`].
    pub(super) fn add(&mut self, definition: &Json) -> Result<(), ExportError> {
        let name = name_of(definition);
        let schema = schema_of(definition, self.versions.wanted(&name))?;
        let is_same = |known: &Json| {
            let spec = |schema: &Json| {
                (
                    schema["spec"]["group"].clone(),
                    schema["spec"]["names"]["plural"].clone(),
                )
            };
            spec(known) == spec(&schema)
        };
        if self.schemas.iter().any(is_same) {
            return Err(ExportError::Twice(name));
        }
        self.definitions.insert(name);
        self.schemas.push(schema);
        Ok(())
    }

    /// Checks that each version that is asked for by name is of a definition that was added.
    ///
    /// # Errors
    /// [`ExportError::Absent`].
    pub(super) fn check(&self) -> Result<(), ExportError> {
        let mut named = self.versions.of.keys();
        let absent = named.find(|name| !self.definitions.contains(*name));
        absent.map_or(Ok(()), |name| Err(ExportError::Absent(name.clone())))
    }

    /// Asks consumers for a kind.
    pub(super) fn claim(&mut self, claim: Claim) {
        if !self.claims.contains(&claim) {
            self.claims.push(claim);
        }
    }

    /// The schemas, then the export.
    pub(super) fn manifests(&self) -> Vec<Json> {
        let resource = |schema: &Json| {
            let spec = &schema["spec"];
            json!({"group": spec["group"], "name": spec["names"]["plural"], "schema": schema["metadata"]["name"], "storage": {"crd": {}}})
        };
        let resources: Vec<Json> = self.schemas.iter().map(resource).collect();
        let claim = |claim: &Claim| json!({"group": claim.group, "resource": claim.resource, "verbs": ["*"]});
        let mut spec = json!({"resources": resources});
        if !self.claims.is_empty() {
            spec["permissionClaims"] = self.claims.iter().map(claim).collect();
        }
        let export = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": self.name}, "spec": spec});
        self.schemas.iter().cloned().chain([export]).collect()
    }
}

fn name_of(definition: &Json) -> String {
    let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
    match text(&definition["metadata"]["name"]) {
        name if name.is_empty() => text(&definition["kind"]),
        name => name,
    }
}

/// The APIResourceSchema of a definition.
fn schema_of(definition: &Json, version: Option<&str>) -> Result<Json, ExportError> {
    let name = name_of(definition);
    let is_definition = definition["apiVersion"] == "apiextensions.k8s.io/v1"
        && definition["kind"] == "CustomResourceDefinition";
    if !is_definition {
        return Err(ExportError::Kind(name));
    }
    let spec = &definition["spec"];
    let versions = versions_of(&name, spec, version)?;
    let has_several = versions.len() > 1;
    let mut spec = json!({"group": spec["group"], "names": names_of(spec), "scope": spec["scope"], "versions": versions});
    if has_several {
        // kcp asks for it. A webhook was refused before.
        spec["conversion"] = json!({"strategy": "None"});
    }
    let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
    let digest = Digest::of(spec.to_string().as_bytes()).short();
    let (plural, group) = (text(&spec["names"]["plural"]), text(&spec["group"]));
    Ok(
        json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v{digest}.{plural}.{group}")}, "spec": spec}),
    )
}

/// The names of a kind, with those that kube-apiserver makes of the others and kcp does not.
fn names_of(spec: &Json) -> Json {
    let mut names = spec["names"].clone();
    if let Some(kind) = names["kind"].as_str().map(str::to_owned) {
        for (field, made) in [
            ("listKind", format!("{kind}List")),
            ("singular", kind.to_lowercase()),
        ] {
            if names[field].as_str().unwrap_or_default().is_empty() {
                names[field] = made.into();
            }
        }
    }
    names
}

/// The versions that are served, or the one that is asked for.
fn versions_of(name: &str, spec: &Json, wanted: Option<&str>) -> Result<Vec<Json>, ExportError> {
    let all = spec["versions"].as_array().into_iter().flatten();
    let mut served: Vec<&Json> = all.filter(|version| version["served"] == true).collect();
    let names = |versions: &[&Json]| -> String {
        let names: Vec<&str> = versions
            .iter()
            .filter_map(|version| version["name"].as_str())
            .collect();
        names.join(", ")
    };
    let webhook = spec["conversion"]["strategy"] == "Webhook";
    if let Some(wanted) = wanted {
        let known = names(&served);
        served.retain(|version| version["name"] == wanted);
        if served.is_empty() {
            return Err(ExportError::Version(
                name.to_owned(),
                wanted.to_owned(),
                known,
            ));
        }
    } else if webhook && served.len() > 1 {
        return Err(ExportError::Webhook(name.to_owned(), names(&served)));
    }
    let stores = served.iter().any(|version| version["storage"] == true);
    let mut versions = Vec::new();
    for (at, version) in served.into_iter().enumerate() {
        let mut published = Map::new();
        for field in KEPT {
            if let Some(value) = version.get(field) {
                published.insert(field.to_owned(), value.clone());
            }
        }
        if !stores {
            // The version that is stored elsewhere is not published.
            published.insert("storage".to_owned(), (at == 0).into());
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_null() {
            let version = version["name"].as_str().unwrap_or_default();
            return Err(ExportError::Schema(name.to_owned(), version.to_owned()));
        }
        published.insert("schema".to_owned(), schema.clone());
        versions.push(Json::Object(published));
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str, storage: bool) -> Json {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object"}}, "selectableFields": []})
    }

    fn definition(versions: &[Json], strategy: &str) -> Json {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"}, "status": {"conditions": []},
            "spec": {"group": "example.com", "scope": "Namespaced", "conversion": {"strategy": strategy},
                "names": {"kind": "Widget", "plural": "widgets"}, "versions": versions}})
    }

    fn published(definition: &Json, version: Option<&str>) -> Result<Vec<Json>, ExportError> {
        let versions: Vec<&str> = version.into_iter().collect();
        let mut export = Export::new("things", Versions::parse(&versions));
        export.add(definition)?;
        export.claim(Claim::parse("secrets"));
        export.claim(Claim::parse("events.events.k8s.io"));
        Ok(export.manifests())
    }

    #[test]
    fn a_definition_becomes_a_schema_and_an_export_that_names_it() {
        let all = published(&definition(&[version("v1", true)], "None"), None).unwrap();
        let [schema, export] = all.as_slice() else {
            panic!("{all:?}");
        };
        let name = schema["metadata"]["name"].as_str().unwrap();
        assert!(name.ends_with(".widgets.example.com"), "{name}");
        assert_eq!(
            schema["spec"]["versions"],
            json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"type": "object"}}])
        );
        assert_eq!(export["spec"]["resources"][0]["schema"], name);
        let claim = |group: &str, resource: &str| json!({"group": group, "resource": resource, "verbs": ["*"]});
        let claims = json!([claim("", "secrets"), claim("events.k8s.io", "events")]);
        assert_eq!(export["spec"]["permissionClaims"], claims);
    }

    #[test]
    fn another_content_has_another_name_and_the_same_has_the_same() {
        let name =
            |definition: &Json| published(definition, None).unwrap()[0]["metadata"]["name"].clone();
        let one = definition(&[version("v1", true)], "None");
        let mut with_status = one.clone();
        with_status["status"] = json!({"storedVersions": ["v1"]});
        assert_eq!(name(&one), name(&with_status));
        let mut other = one.clone();
        other["spec"]["scope"] = "Cluster".into();
        assert_ne!(name(&one), name(&other));
    }

    #[test]
    fn versions_that_a_webhook_converts_are_refused_until_one_is_chosen() {
        let both = definition(&[version("v1", true), version("v1beta1", false)], "Webhook");
        let refused = ExportError::Webhook("widgets.example.com".into(), "v1, v1beta1".into());
        assert_eq!(published(&both, None), Err(refused));
        let chosen = published(&both, Some("v1beta1")).unwrap();
        let versions = chosen[0]["spec"]["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 1);
        assert_eq!(
            (&versions[0]["name"], &versions[0]["storage"]),
            (&json!("v1beta1"), &json!(true))
        );
        let absent = published(&both, Some("v2"));
        assert!(
            matches!(absent, Err(ExportError::Version(..))),
            "{absent:?}"
        );
        let plain = definition(&[version("v1", true), version("v1beta1", false)], "None");
        let schema = &published(&plain, None).unwrap()[0]["spec"];
        assert_eq!(schema["versions"].as_array().unwrap().len(), 2);
        assert_eq!(schema["conversion"], json!({"strategy": "None"}));
    }

    #[test]
    fn each_definition_may_have_a_version_of_its_own() {
        let both = [version("v1", true), version("v1beta1", false)];
        let widgets = definition(&both, "Webhook");
        let mut gadgets = definition(&[version("v2", true)], "None");
        gadgets["metadata"]["name"] = "gadgets.example.com".into();
        gadgets["spec"]["names"] = json!({"kind": "Gadget", "plural": "gadgets"});
        let publish = |versions: &[&str]| {
            let mut export = Export::new("things", Versions::parse(versions));
            export.add(&widgets)?;
            export.add(&gadgets)?;
            export.check()?;
            let name = |schema: &Json| schema["spec"]["versions"][0]["name"].clone();
            Ok::<_, ExportError>(export.schemas.iter().map(name).collect::<Vec<_>>())
        };
        let of_widgets = "widgets.example.com=v1beta1";
        assert_eq!(publish(&[of_widgets]).unwrap(), ["v1beta1", "v2"]);
        assert_eq!(publish(&["v2", of_widgets]).unwrap(), ["v1beta1", "v2"]);
        let refused = publish(&["v1beta1"]).unwrap_err().to_string();
        assert!(
            refused.contains("--version gadgets.example.com="),
            "{refused}"
        );
        let absent = ExportError::Absent("widget.example.com".into());
        let misspelt = ["widget.example.com=v1", of_widgets];
        assert_eq!(publish(&misspelt), Err(absent));
    }

    #[test]
    fn names_that_a_server_would_make_are_there() {
        let all = published(&definition(&[version("v1", true)], "None"), None).unwrap();
        let names = json!({"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"});
        assert_eq!(all[0]["spec"]["names"], names);
        let mut own = definition(&[version("v1", true)], "None");
        own["spec"]["names"]["listKind"] = "Widgets".into();
        let all = published(&own, None).unwrap();
        assert_eq!(all[0]["spec"]["names"]["listKind"], "Widgets");
    }

    #[test]
    fn what_is_no_definition_or_is_there_twice_is_refused() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        assert_eq!(published(&pod, None), Err(ExportError::Kind("p".into())));
        let one = definition(&[version("v1", true)], "None");
        let mut export = Export::new("things", Versions::default());
        export.add(&one).unwrap();
        let twice = ExportError::Twice("widgets.example.com".into());
        assert_eq!(export.add(&one), Err(twice));
        let mut bare = version("v1", true);
        bare["schema"] = Json::Null;
        let bare = published(&definition(&[bare], "None"), None);
        assert!(matches!(bare, Err(ExportError::Schema(..))), "{bare:?}");
    }
}
