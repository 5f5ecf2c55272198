//! The kind of a CustomResourceDefinition or of an API server. Entry points: [`Kind::of_definition`] and [`Kind::published`].

use super::Language;
use super::merge::merged;
use super::naming::{pascal, snake, unused};
use super::reserved::is_type;
use super::schema::{Reader, Struct, entries, items, text};
use windlass_files::{Node, Value};
use windlass_fleet::GroupVersionKind;

/// Why there are no types.
#[derive(Debug, thiserror::Error)]
pub enum TypesError {
    /// It is another document.
    #[error("this is no CustomResourceDefinition of apiextensions.k8s.io/v1")]
    OtherDocument,
    /// The version is not there.
    #[error("{name} has no version {version:?}: it has {}", versions.join(", "))]
    UnknownVersion {
        /// The definition.
        name: String,
        /// The one that was asked for.
        version: String,
        /// The ones that are there.
        versions: Vec<String>,
    },
    /// There is no schema.
    #[error("{name} has no schema for {version}")]
    SchemaMissing {
        /// The definition.
        name: String,
        /// Its version.
        version: String,
    },
    /// The server publishes no schema of the kind.
    #[error("the server publishes no schema of {0}: kubectl api-resources lists its kinds")]
    Unpublished(GroupVersionKind),
}

/// A kind with the structs of its objects.
#[derive(Debug)]
pub struct Kind {
    /// As objects have it.
    pub(super) gvk: GroupVersionKind,
    /// Whether it is of the schemas that an API server publishes.
    pub(super) is_published: bool,
    /// The first one is the object.
    pub(super) structs: Vec<Struct>,
}

impl Kind {
    /// Of a CustomResourceDefinition: of the version that is asked for, or else of the one that is stored.
    ///
    /// # Errors
    /// When the document is no CustomResourceDefinition, or has no schema for that version.
    pub fn of_definition(definition: &Node, version: Option<&str>) -> Result<Self, TypesError> {
        let (group, kind) = defined(definition).ok_or(TypesError::OtherDocument)?;
        let named = definition.get("metadata").map(|it| text(it, "name"));
        let crd = named.unwrap_or_else(|| kind.to_owned());
        let spec = definition.get("spec");
        let versions = || items(spec.and_then(|spec| spec.get("versions")));
        let is_stored =
            |one: &Node| one.get("storage").map(|it| &it.value) == Some(&Value::Bool(true));
        let found = versions().find(|one| match version {
            Some(version) => text(one, "name") == version,
            None => is_stored(one),
        });
        let Some(found) = found else {
            return Err(TypesError::UnknownVersion {
                name: crd,
                version: version.unwrap_or("that is stored").to_owned(),
                versions: versions().map(|one| text(one, "name")).collect(),
            });
        };
        let version = text(found, "name");
        let schema = found.get("schema").and_then(|it| it.get("openAPIV3Schema"));
        let Some(schema) = schema.filter(|it| matches!(it.value, Value::Map(_))) else {
            return Err(TypesError::SchemaMissing { name: crd, version });
        };
        let mut reader = Reader::new(&pascal(kind));
        reader.root(schema);
        Ok(Self {
            gvk: GroupVersionKind::new(group, &version, kind),
            is_published: false,
            structs: merged(reader.structs),
        })
    }

    /// Of the document of OpenAPI 3 that an API server has for a version of a group.
    ///
    /// # Errors
    /// When the kind is not in it.
    pub fn published(document: &Node, kind: &GroupVersionKind) -> Result<Self, TypesError> {
        let schemas = document.get("components").and_then(|it| it.get("schemas"));
        let is_it = |schema: &&Node| {
            let mut kinds = items(schema.get("x-kubernetes-group-version-kind"));
            // A kind that belongs to every group, such as DeleteOptions, has many.
            let only = kinds.next().filter(|_| kinds.next().is_none());
            only.is_some_and(|one| {
                text(one, "group") == *kind.group
                    && text(one, "version") == *kind.version
                    && text(one, "kind") == *kind.kind
            })
        };
        let found = entries(schemas).map(|(_, schema)| schema).find(is_it);
        let (Some(schemas), Some(schema)) = (schemas, found) else {
            return Err(TypesError::Unpublished(kind.clone()));
        };
        let mut reader = Reader::of_published(&pascal(&kind.kind), schemas);
        reader.root(schema);
        Ok(Self {
            gvk: kind.clone(),
            is_published: true,
            structs: merged(reader.structs),
        })
    }

    /// As objects have it.
    pub fn gvk(&self) -> &GroupVersionKind {
        &self.gvk
    }

    /// The name of the type of its objects: `Website`.
    pub fn type_name(&self, language: Language) -> String {
        let name = self.name();
        let mut names = self
            .names(&name, |name| is_type(name, language))
            .into_iter();
        names.next().unwrap_or(name)
    }

    /// The name of the constant of the kind in languages whose constants are in capitals, and the beginning of others: `WEBSITE`.
    pub fn constant(&self, language: Language) -> String {
        let constant = snake(&self.gvk.kind).to_uppercase();
        if language == Language::Python && self.type_name(language) == constant {
            constant + "_KIND"
        } else {
            constant
        }
    }

    /// As a name of code: `Website`.
    pub(super) fn name(&self) -> String {
        pascal(&self.gvk.kind)
    }

    /// The names of the structs, whose beginning is the kind's. A name that has a meaning already is not taken: the object's gets `Kind` after it,
    /// any other a number.
    pub(super) fn names(&self, kind: &str, is_reserved: impl Fn(&str) -> bool) -> Vec<String> {
        let object = if is_reserved(kind) {
            format!("{kind}Kind")
        } else {
            kind.to_owned()
        };
        let mut names = vec![object];
        for one in self.structs.iter().skip(1) {
            let name = unused(format!("{kind}{}", one.suffix), |name| {
                is_reserved(name) || names.iter().any(|taken| taken == name)
            });
            names.push(name);
        }
        names
    }
}

/// The group and the kind of a CustomResourceDefinition.
pub(crate) fn defined(definition: &Node) -> Option<(&str, &str)> {
    let of = |field: &str, value: &str| definition.get(field)?.as_text().filter(|it| *it == value);
    of("kind", "CustomResourceDefinition")?;
    of("apiVersion", "apiextensions.k8s.io/v1")?;
    let spec = definition.get("spec")?;
    let kind = spec.get("names")?.get("kind")?.as_text()?;
    Some((spec.get("group")?.as_text()?, kind))
}

#[cfg(test)]
mod tests {
    use super::super::schema::Type;
    use super::*;
    use windlass_files::split;

    /// Of the properties of a kind, as YAML.
    fn of(properties: &str) -> Kind {
        let text = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: odds.x.dev}}\nspec: {{group: x.dev, \
             names: {{kind: Odd}}, versions: [{{name: v1, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {properties}}}}}}}]}}\n"
        );
        let document = split(&text)[0].parse(&"odd.yaml".into()).unwrap();
        Kind::of_definition(&document, None).unwrap()
    }

    fn names(kind: &Kind) -> Vec<String> {
        kind.names("Odd", |_| false)
    }

    #[test]
    fn equal_structs_are_one_with_the_name_of_the_nearest_place() {
        let env = "{type: array, items: {type: object, properties: {name: {type: string, description: Its name.}}}}";
        let other = env.replace("Its name", "Another name");
        let container =
            format!("{{type: object, description: NUMBER, properties: {{env: {env}}}}}");
        let [one, two] = ["One.", "Two."].map(|number| container.replace("NUMBER", number));
        let kind = of(&format!(
            "{{deep: {{type: object, properties: {{init: {one}, main: {two}}}}}, env: {env}, vars: {other}}}"
        ));
        assert_eq!(
            names(&kind),
            ["Odd", "OddDeep", "OddDeepInit", "OddEnv", "OddVar"]
        );
        let types: Vec<_> = kind.structs[1]
            .fields
            .iter()
            .map(|field| &field.of)
            .collect();
        assert_eq!(types, [&Type::Struct(2), &Type::Struct(2)]);
        let list = Type::List(Box::new(Type::Struct(3)));
        assert_eq!(
            [&kind.structs[0].fields[1].of, &kind.structs[2].fields[0].of],
            [&list, &list]
        );
        assert_eq!(
            kind.structs[2].description, "",
            "two places say different things of it"
        );
    }

    #[test]
    fn fields_are_in_the_order_of_the_schema() {
        let text = "{type: string}";
        let kind = of(&format!(
            "{{zone: {text}, host: {text}, port: {text}, area: {text}}}"
        ));
        let fields = kind.structs[0].fields.iter().map(|field| &*field.name);
        assert_eq!(fields.collect::<Vec<_>>(), ["zone", "host", "port", "area"]);
    }

    #[test]
    fn an_item_has_a_singular_name_unless_a_field_beside_it_has_that() {
        let of_item = |field: &str| {
            format!(
                "{field}: {{type: array, items: {{type: object, properties: {{{field}: {{type: string}}}}}}}}"
            )
        };
        let [ports, rules] = ["ports", "rules"].map(of_item);
        let kind = of(&format!(
            "{{{ports}, {rules}, rule: {{type: object, properties: {{}}}}}}"
        ));
        assert_eq!(names(&kind), ["Odd", "OddPort", "OddRules", "OddRule"]);
    }

    #[test]
    fn a_name_with_a_meaning_is_not_taken() {
        let inner = "{type: object, properties: {a: {type: string}}}";
        let kind = of(&format!("{{like: {inner}}}"));
        let names = kind.names("Promise", |name| ["Promise", "PromiseLike"].contains(&name));
        assert_eq!(names, ["PromiseKind", "PromiseLike2"]);
    }
}
