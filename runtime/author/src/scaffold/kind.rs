//! The kind that a new project has of its own: its names and its types. Entry points: [`NewKind`] and [`Typed`].

use super::{DEFINITION, Lang};
use crate::types::package::{self, package};
use crate::types::{Kind, Language, place, plural};
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use std::collections::BTreeMap;
use std::str::FromStr;
use windlass_files::split;
use windlass_fleet::GroupVersionKind;
use windlass_fleet::grant::flow;

/// The group and the version of a kind that is named without them.
const GROUP: &str = "example.dev";
const VERSION: &str = "v1alpha1";

/// The longest name of a kind, whose plural is a label too.
const LONGEST_KIND: usize = 60;
const LONGEST_LABEL: usize = 63;

/// The longest name of a definition: its kind's plural and group.
const LONGEST_DEFINITION: usize = 253;

/// Groups that are Kubernetes' own: API servers refuse definitions in them without an approval.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];

/// Names that YAML reads as values.
const VALUES: [&str; 9] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes"];

/// A kind that a project defines, as `Website` or `example.dev/v1alpha1/Website`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKind(GroupVersionKind);

impl FromStr for NewKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (group, version, kind) = match text.split('/').collect::<Vec<_>>()[..] {
            [kind] => (GROUP, VERSION, kind),
            [group, version, kind] => (group, version, kind),
            _ => {
                return Err(format!(
                    "a new kind is written as Website, or with its group and version as {GROUP}/{VERSION}/Website"
                ));
            }
        };
        check_kind(kind)?;
        check_group(group, kind)?;
        let is_numbered = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
        if !is_label(version) || !version.strip_prefix('v').is_some_and(is_numbered) {
            return Err(format!(
                "{version:?} cannot be the version of a kind: it is written as v1, v1beta1 or {VERSION}"
            ));
        }
        Ok(Self(GroupVersionKind::new(group, version, kind)))
    }
}

/// What is against the name of a kind.
fn check_kind(kind: &str) -> Result<(), String> {
    let is_name = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.chars().all(|letter| letter.is_ascii_alphanumeric())
        && kind.len() <= LONGEST_KIND;
    if !is_name {
        return Err(format!(
            "{kind:?} cannot be the name of a kind: at most {LONGEST_KIND} letters and digits, beginning with a capital, such as Website; \
             its group and version stand before it, as in {GROUP}/{VERSION}/Website"
        ));
    }
    if VALUES.iter().any(|value| kind.eq_ignore_ascii_case(value)) {
        return Err(format!(
            "{kind} cannot be the name of a kind: YAML reads it as a value; choose another name"
        ));
    }
    if kind == "ConfigMap" {
        return Err(
            "the new controller makes ConfigMaps of each object: choose another name for its kind"
                .to_owned(),
        );
    }
    Ok(())
}

/// What is against the group of a kind.
fn check_group(group: &str, kind: &str) -> Result<(), String> {
    let is_protected = |end: &&&str| group == **end || group.ends_with(&format!(".{end}"));
    if !group.contains('.') || !group.split('.').all(is_label) {
        return Err(format!(
            "{group:?} cannot be the group of a kind: it is a domain of yours, such as {GROUP}"
        ));
    }
    if let Some(end) = PROTECTED.iter().find(is_protected) {
        return Err(format!(
            "{group:?} cannot be the group of a kind: groups in {end} are Kubernetes' own; take a domain of yours, such as {GROUP}"
        ));
    }
    let plural = plural(&kind.to_ascii_lowercase());
    if format!("{plural}.{group}").len() > LONGEST_DEFINITION {
        return Err(format!(
            "{group:?} cannot be the group of a kind: the name of its definition, {plural}.GROUP, may have at most \
             {LONGEST_DEFINITION} characters; take a shorter domain"
        ));
    }
    Ok(())
}

/// Whether a text is a label of a DNS name.
fn is_label(text: &str) -> bool {
    let inside = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    text.chars().all(|letter| inside(letter) || letter == '-')
        && text.starts_with(inside)
        && text.ends_with(inside)
        && text.len() <= LONGEST_LABEL
}

impl NewKind {
    /// The names that a template has for the kind, before there is a definition.
    pub(super) fn names(&self) -> Vec<(&'static str, String)> {
        let singular = self.0.kind.to_ascii_lowercase();
        vec![
            ("group", self.0.group.to_string()),
            ("version", self.0.version.to_string()),
            ("kind", self.0.kind.to_string()),
            ("plural", plural(&singular)),
            ("singular", singular),
            // As `windlass rules` writes it.
            ("group_of_rules", flow(&json!(&*self.0.group))),
        ]
    }
}

/// The types of a project's kind.
pub(super) struct Typed {
    /// Where they are in the project.
    folder: String,
    /// Names and texts of their files, as `windlass types` writes them.
    files: Vec<(String, String)>,
    /// The names that a template has for them.
    pub(super) names: Vec<(&'static str, String)>,
}

impl Typed {
    /// Of a definition.
    ///
    /// # Errors
    /// When the text is no definition.
    pub(super) fn of(definition: &str, lang: Lang) -> Result<Self> {
        let (language, folder) = match lang {
            Lang::Rust => (Language::Rust, format!("{}/src/", package::NAME)),
            Lang::Typescript | Lang::Javascript => (Language::Typescript, "src/".to_owned()),
            Lang::Python => (Language::Python, String::new()),
            Lang::Go => (Language::Go, String::new()),
            Lang::C => (Language::C, String::new()),
        };
        let documents = split(definition);
        let document = documents.first().context("there is no definition")?;
        let document = document.parse(&DEFINITION.into());
        let document = document.map_err(|problem| anyhow!("{problem}"))?;
        let kind = Kind::of_definition(&document, None)?;
        let all = place(std::slice::from_ref(&kind), language, |_| None)?;
        let types = all.into_iter().next().context("a kind has types")?;
        let file = types.file();
        let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
        let names = vec![
            ("type", kind.type_name(language)),
            ("constant", kind.constant(language)),
            ("stem", stem.to_owned()),
            ("types", format!("{folder}{file}")),
        ];
        Ok(Self {
            folder,
            files: types.files,
            names,
        })
    }

    /// Adds them to the files of a project; in Rust as the package that it depends on.
    ///
    /// # Errors
    /// When the project cannot have the package.
    pub(super) fn add_to(self, files: &mut BTreeMap<String, String>) -> Result<()> {
        if let Some(project) = files.get("Cargo.toml") {
            let modules = self.files.iter().map(|(name, _)| name.clone());
            let made = package(project, &modules.collect::<Vec<_>>())?;
            files.insert(format!("{}/Cargo.toml", package::NAME), made.manifest);
            files.insert(format!("{}lib.rs", self.folder), made.library);
            files.extend(made.project.map(|text| ("Cargo.toml".to_owned(), text)));
        }
        let of_types = self.files.into_iter();
        files.extend(of_types.map(|(name, text)| (format!("{}{name}", self.folder), text)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_alone_or_with_its_group_and_version() {
        let names = |text: &str| {
            let kind: NewKind = text.parse().unwrap();
            let names = kind.names().into_iter();
            names.map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            names("LoadTest"),
            [
                "example.dev",
                "v1alpha1",
                "LoadTest",
                "loadtests",
                "loadtest",
                "example.dev"
            ]
        );
        assert_eq!(
            names("my.group/v1/Policy"),
            ["my.group", "v1", "Policy", "policies", "policy", "my.group"]
        );
    }

    #[test]
    fn what_is_no_new_kind_is_refused_with_what_to_do() {
        for (text, expected) in [
            ("website", "beginning with a capital, such as Website"),
            ("Web-Site", "letters and digits"),
            ("Site.v1.my.group", "as in example.dev/v1alpha1/Website"),
            ("", "letters and digits"),
            ("v1/Site", "is written as Website, or"),
            ("No", "choose another name"),
            ("ConfigMap", "choose another name"),
            ("mygroup/v1/Site", "it is a domain of yours"),
            ("My.group/v1/Site", "it is a domain of yours"),
            ("apps.k8s.io/v1/Site", "take a domain of yours"),
            ("my.group/1/Site", "v1, v1beta1 or v1alpha1"),
            ("my.group/v1_2/Site", "v1, v1beta1 or v1alpha1"),
            (&"S".repeat(61), "at most 60"),
        ] {
            let said = text.parse::<NewKind>().unwrap_err();
            assert!(said.contains(expected), "{expected} in {said}");
        }
    }

    #[test]
    fn a_group_is_as_long_as_the_name_of_a_definition_may_be() {
        let site = |letters: usize| {
            let group = format!("{}{}", "a23456789.".repeat(24), "x".repeat(letters));
            format!("{group}/v1/Site").parse::<NewKind>()
        };
        // With `sites.` in front these are 253 characters.
        assert!(site(7).is_ok());
        let said = site(8).unwrap_err();
        assert!(
            said.contains("sites.GROUP") && said.contains("at most 253"),
            "{said}"
        );
    }

    #[test]
    fn a_group_that_is_a_number_in_yaml_has_quotes() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("demo");
        let kind = "1.5/v1/Foo".parse().unwrap();
        super::super::write(&folder, Lang::Go, Some(&kind)).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(read("seed/crd.yaml").contains("  group: \"1.5\"\n"));
        let rules = read("windlass.yaml");
        assert_eq!(
            rules.matches("{apiGroups: [\"1.5\"], ").count(),
            2,
            "{rules}"
        );
    }
}
