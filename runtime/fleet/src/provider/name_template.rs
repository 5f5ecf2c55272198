//! Names of clusters from kubeconfig files, by a template. Entry point: [`NameTemplate::parse`].

use std::fmt;
use std::path::Path;

/// Endings of kubeconfig files, in the order in which they are cut off.
const ENDINGS: [&str; 3] = [".yaml", ".yml", ".kubeconfig"];

/// A template of names, such as `{file}+{context}`. Default: `{context}`.
///
/// | field | stands for |
/// |---|---|
/// | `{path}` | the file's path, as it was given |
/// | `{file}` | the file's name without `.yaml`, `.yml` and `.kubeconfig`, and else without its last ending |
/// | `{context}` | the context |
/// | `{cluster}` | the cluster of the context, as the kubeconfig names it |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameTemplate {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Path,
    File,
    Context,
    Cluster,
}

const FIELDS: [(&str, Field); 4] = [
    ("path", Field::Path),
    ("file", Field::File),
    ("context", Field::Context),
    ("cluster", Field::Cluster),
];

/// Why a text is no template of names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameTemplateError {
    /// A field that there is not.
    #[error("there is no field {{{0}}}: use {{path}}, {{file}}, {{context}} and {{cluster}}")]
    Unknown(String),
    /// A brace without its other half.
    #[error("a brace has no other half: write fields as {{context}}")]
    Brace,
    /// The text has no field.
    #[error("without a field all clusters would have one name: write {{context}} in it")]
    NoField,
}

/// One context of one file: the values of a template's fields.
pub(super) struct Named<'a> {
    pub(super) path: &'a Path,
    pub(super) context: &'a str,
    pub(super) cluster: &'a str,
}

impl NameTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// [`NameTemplateError`].
    pub fn parse(text: &str) -> Result<Self, NameTemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            let field = from.strip_prefix('{').ok_or(NameTemplateError::Brace)?;
            let (field, after) = field.split_once('}').ok_or(NameTemplateError::Brace)?;
            let mut fields = FIELDS.iter();
            let known = fields.find(|(name, _)| *name == field);
            let (_, known) = known.ok_or_else(|| NameTemplateError::Unknown(field.to_owned()))?;
            parts.extend([Part::Text(before.to_owned()), Part::Field(*known)]);
            rest = after;
        }
        if parts.is_empty() {
            return Err(NameTemplateError::NoField);
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts })
    }

    /// The name of a context. Not checked: it may be too long for a cluster.
    pub(super) fn name(&self, of: &Named<'_>) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(Field::Path) => of.path.display().to_string(),
            Part::Field(Field::File) => file(of.path),
            Part::Field(Field::Context) => of.context.to_owned(),
            Part::Field(Field::Cluster) => of.cluster.to_owned(),
        };
        self.parts.iter().map(text).collect()
    }

    /// A template that tells more contexts apart than this one.
    pub(super) fn finer(&self) -> &'static str {
        let has = |field| self.parts.contains(&Part::Field(field));
        if has(Field::File) && has(Field::Context) {
            "{path}+{context}"
        } else {
            "{file}+{context}"
        }
    }
}

impl Default for NameTemplate {
    fn default() -> Self {
        Self {
            parts: vec![Part::Field(Field::Context)],
        }
    }
}

impl fmt::Display for NameTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Field(field) => {
                    let mut fields = FIELDS.iter();
                    let name = fields.find(|(_, known)| known == field);
                    write!(f, "{{{}}}", name.map_or("", |(name, _)| name))?;
                }
            }
        }
        Ok(())
    }
}

/// The name of a kubeconfig file without its endings.
fn file(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut stem = &*name;
    for ending in ENDINGS {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    if stem.len() < name.len() && !stem.is_empty() {
        return stem.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(template: &str, path: &str) -> String {
        NameTemplate::parse(template).unwrap().name(&Named {
            path: Path::new(path),
            context: "prod-eu",
            cluster: "eu",
        })
    }

    #[test]
    fn fields_are_replaced_by_their_values() {
        let path = "clusters/a.kubeconfig";
        assert_eq!(name("{context}", path), "prod-eu");
        assert_eq!(name("{file}+{context}", path), "a+prod-eu");
        assert_eq!(
            name("{path}+{context}", path),
            "clusters/a.kubeconfig+prod-eu"
        );
        assert_eq!(name("the {cluster}!", path), "the eu!");
        let default = NameTemplate::default();
        assert_eq!(default.to_string(), "{context}");
        let text = "x{file}-{cluster}y";
        assert_eq!(NameTemplate::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn a_file_is_named_without_its_endings() {
        for (path, file) in [
            ("a.kubeconfig", "a"),
            ("x/a.kubeconfig.yaml", "a"),
            ("eu.west.kubeconfig.yml", "eu.west"),
            ("kubeconfig.yaml", "kubeconfig"),
            ("me/.kube/config", "config"),
            ("hub.conf", "hub"),
            (".kubeconfig", ".kubeconfig"),
        ] {
            assert_eq!(name("{file}", path), file);
        }
    }

    #[test]
    fn a_text_that_is_no_template_is_refused_with_the_remedy() {
        for (text, message) in [
            ("{name}", "there is no field {name}: use {path}, {file}"),
            ("{context", "a brace has no other half"),
            ("context}", "a brace has no other half"),
            ("{a{context}", "there is no field {a{context}"),
            ("prod", "all clusters would have one name"),
            ("", "all clusters would have one name"),
        ] {
            let refused = NameTemplate::parse(text).unwrap_err().to_string();
            assert!(refused.contains(message), "{text}: {refused}");
        }
    }

    #[test]
    fn a_duplicate_is_helped_by_a_template_with_more_fields() {
        let finer = |text| NameTemplate::parse(text).unwrap().finer();
        assert_eq!(finer("{context}"), "{file}+{context}");
        assert_eq!(finer("{file}"), "{file}+{context}");
        assert_eq!(finer("{file}-{context}"), "{path}+{context}");
    }
}
