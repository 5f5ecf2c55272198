//! Field selectors. Entry point: [`FieldSelector`].

use super::{MAX, SelectorError};
use std::fmt;
use std::sync::Arc;

/// A field selector: fields that must, or must not, have a value; none at all matches everything. Cheap to clone.
///
/// Kept in canonical order, so that selectors that mean the same are equal, hash the same and print the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FieldSelector {
    /// Sorted, and each only once.
    requirements: Arc<[FieldRequirement]>,
}

/// One field that must, or must not, have a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// The field, for example `metadata.name`.
    pub field: Box<str>,
    /// The value to compare with; an absent field counts as the empty value.
    pub value: Box<str>,
    /// Whether the value is required (`=`) or excluded (`!=`).
    pub equal: bool,
}

impl FieldSelector {
    /// Reads kubectl's `--field-selector`: `field=value`, `field==value` and `field!=value`, separated by commas. In values `\,`,
    /// `\=` and `\\` stand for the second character. The empty text matches everything.
    ///
    /// # Errors
    /// [`SelectorError`] when the grammar is broken.
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        let error = |problem: String| SelectorError::new("field", selector, problem);
        if selector.len() > MAX {
            return Err(error(format!("use at most {MAX} bytes")));
        }
        let terms = split_terms(selector)
            .into_iter()
            .filter(|term| !term.is_empty());
        let requirements: Result<Vec<_>, String> = terms.map(requirement).collect();
        Ok(Self::new(requirements.map_err(error)?))
    }

    /// The selector for the one object of a name.
    #[must_use]
    pub fn name(name: &str) -> Self {
        Self::new(vec![FieldRequirement {
            field: "metadata.name".into(),
            value: name.into(),
            equal: true,
        }])
    }

    pub(crate) fn new(mut requirements: Vec<FieldRequirement>) -> Self {
        requirements.sort();
        requirements.dedup();
        Self {
            requirements: requirements.into(),
        }
    }

    /// What must hold, sorted.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The value that a field must have, if the selector requires one.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|requirement| requirement.equal && &*requirement.field == field)
            .map(|requirement| &*requirement.value)
    }

    /// Whether every requirement holds; `value` returns the value of a field.
    pub(crate) fn matches<V: AsRef<str>>(&self, mut value: impl FnMut(&str) -> V) -> bool {
        self.requirements.iter().all(|requirement| {
            (value(&requirement.field).as_ref() == &*requirement.value) == requirement.equal
        })
    }
}

/// Splits at the commas that no backslash precedes.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in selector.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

fn requirement(term: &str) -> Result<FieldRequirement, String> {
    let missing = || {
        format!(
            "expected field=value or field!=value, found {:?}",
            term.chars().take(80).collect::<String>()
        )
    };
    let at = term.find(['=', '!']).ok_or_else(missing)?;
    let (field, rest) = term.split_at(at);
    if field.is_empty() || field.contains('\\') {
        return Err(missing());
    }
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        (true, value)
    } else {
        return Err(missing());
    };
    Ok(FieldRequirement {
        field: field.into(),
        value: unescape(value)?.into(),
        equal,
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                _ => return Err("a backslash must stand before ',', '=' or a backslash".to_owned()),
            },
            '=' => return Err("write '=' in a value as \\=".to_owned()),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

impl fmt::Display for FieldSelector {
    /// The canonical form, which API servers take as `fieldSelector` and which parses to the same selector.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            i,
            FieldRequirement {
                field,
                value,
                equal,
            },
        ) in self.requirements.iter().enumerate()
        {
            let value = value
                .replace('\\', "\\\\")
                .replace(',', "\\,")
                .replace('=', "\\=");
            write!(
                f,
                "{}{field}{}{value}",
                if i == 0 { "" } else { "," },
                if *equal { "=" } else { "!=" }
            )?;
        }
        Ok(())
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(selector: &str) -> Result<Self, SelectorError> {
        Self::parse(selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_print_in_a_canonical_form() {
        for (selector, printed) in [
            ("b!=2,a==1,a=1", "a=1,b!=2"),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            ("a=", "a="),
            (",,a=1,", "a=1"),
            ("", ""),
        ] {
            let parsed = FieldSelector::parse(selector).unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(FieldSelector::parse(printed).unwrap(), parsed);
        }
        for bad in ["a", "=x", "a!x", "a=b=c", r"a=\x", r"a=x\", r"a\=b"] {
            assert!(FieldSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn requirements_can_be_looked_at_and_held_against_fields() {
        let selector =
            FieldSelector::parse("metadata.name=a,metadata.namespace!=kube-system").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("metadata.namespace"), None);
        let value = |name: &'static str, namespace: &'static str| {
            move |field: &str| {
                if field == "metadata.name" {
                    name
                } else {
                    namespace
                }
            }
        };
        assert!(selector.matches(value("a", "default")));
        assert!(
            !selector.matches(value("a", "kube-system"))
                && !selector.matches(value("b", "default"))
        );
        assert_eq!(
            FieldSelector::name("a,b").to_string(),
            r"metadata.name=a\,b"
        );
    }
}
