//! Label selectors: what they are, how they print and match. Entry point: [`LabelSelector`].

use super::parse::parse;
use super::{MAX, SelectorError};
use serde::{Deserialize, Serialize};
use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A set of labels that a selector can be matched against.
pub trait LabelSet {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<Cow<'_, str>>;
}

impl<K: Borrow<str> + Ord, V: AsRef<str>> LabelSet for BTreeMap<K, V> {
    fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key).map(|value| Cow::Borrowed(value.as_ref()))
    }
}

impl LabelSet for crate::json::Labels<'_> {
    fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key)
    }
}

/// A label selector: requirements that must all hold; none at all matches everything. Cheap to clone.
///
/// Kept in canonical order, so that selectors that mean the same are equal, hash the same and print the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LabelSelector {
    /// Sorted, and each only once.
    requirements: Arc<[Requirement]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Requirement {
    pub(super) key: Box<str>,
    pub(super) test: Test,
}

/// What must hold for one label. The sets are never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Test {
    In(BTreeSet<Box<str>>),
    NotIn(BTreeSet<Box<str>>),
    Exists,
    Absent,
}

impl Requirement {
    fn holds(&self, labels: &impl LabelSet) -> bool {
        let value = labels.label(&self.key);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(&*value)),
            Test::NotIn(values) => !value.is_some_and(|value| values.contains(&*value)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
        }
    }
}

impl LabelSelector {
    /// Reads kubectl's `-l`: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, separated by commas. The empty text
    /// matches everything.
    ///
    /// # Errors
    /// [`SelectorError`] when the grammar is broken, or a key or value is not one that labels can have.
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        let error = |problem: String| SelectorError::new("label", selector, problem);
        if selector.len() > MAX {
            return Err(error(format!("use at most {MAX} bytes")));
        }
        parse(selector).map(Self::new).map_err(error)
    }

    /// Selects objects that have a label. A key that labels cannot have selects nothing.
    pub(crate) fn exists(key: &str) -> Self {
        Self::new(vec![Requirement {
            key: key.into(),
            test: Test::Exists,
        }])
    }

    /// Selects objects that have a label with this value. A key or a value that labels cannot have selects nothing.
    pub(crate) fn equal(key: &str, value: &str) -> Self {
        Self::new(vec![Requirement {
            key: key.into(),
            test: Test::In([value.into()].into()),
        }])
    }

    fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort();
        requirements.dedup();
        Self {
            requirements: requirements.into(),
        }
    }

    /// Whether every requirement holds. A label that is absent satisfies `!=` and `notin`, as in Kubernetes.
    #[must_use]
    pub fn matches(&self, labels: &impl LabelSet) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.holds(labels))
    }
}

impl From<LabelSelector> for String {
    fn from(selector: LabelSelector) -> Self {
        selector.to_string()
    }
}

impl TryFrom<String> for LabelSelector {
    type Error = SelectorError;

    fn try_from(text: String) -> Result<Self, SelectorError> {
        Self::parse(&text)
    }
}

impl fmt::Display for LabelSelector {
    /// The canonical form, which API servers take as `labelSelector` and which parses to the same selector.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, test } = self;
        let set = |values: &BTreeSet<Box<str>>| {
            values
                .iter()
                .map(|value| &**value)
                .collect::<Vec<_>>()
                .join(",")
        };
        match test {
            Test::In(values) if values.len() == 1 => write!(f, "{key}={}", set(values)),
            Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", set(values)),
            Test::In(values) => write!(f, "{key} in ({})", set(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", set(values)),
            Test::Exists => write!(f, "{key}"),
            Test::Absent => write!(f, "!{key}"),
        }
    }
}

impl std::str::FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(selector: &str) -> Result<Self, SelectorError> {
        Self::parse(selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        LabelSelector::parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn requirements_match_as_in_kubernetes() {
        let labels = [("app", "web"), ("tier", ""), ("example.com/x", "1")];
        for selector in [
            "",
            "app",
            "app=web",
            "app==web",
            "app = web , tier",
            "app in (db, web)",
            "app notin (db)",
            "app!=db",
            "none!=x",
            "none notin (x)",
            "!none",
            "tier=",
            "tier in (,x)",
            "example.com/x=1",
            "tier==",
        ] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in [
            "none",
            "app=db",
            "app!=web",
            "!app",
            "app in (db)",
            "app notin (web,db)",
            "app,none",
            "tier!=",
            "none=",
        ] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn words_of_the_grammar_can_be_labels() {
        assert!(matches(
            "in in (in,notin),notin",
            &[("in", "notin"), ("notin", "")]
        ));
        assert!(matches("notin notin (in)", &[]));
        assert!(matches("in=in", &[("in", "in")]));
    }

    #[test]
    fn selectors_print_in_a_canonical_form() {
        for (selector, printed) in [
            ("b = 2,a==1", "a=1,b=2"),
            ("a in (z,y , z)", "a in (y,z)"),
            ("a in (x)", "a=x"),
            ("a notin (x)", "a!=x"),
            ("! a , a,!a", "a,!a"),
            ("a=", "a="),
            ("a in (,x)", "a in (,x)"),
            ("", ""),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.to_string(), printed);
            assert_eq!(LabelSelector::parse(printed).unwrap(), parsed);
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for selector in [
            ",", "a,", ",a", "a,,b", "=x", "a b", "a in", "a in x", "a in ()", "a in (x",
            "a notin", "a=b c", "!", "!a=b", "a=(b)", "a>1", "a!b", "a/b/c=1", "-a=1", "/a=1",
            "a/=1", "A_/x=1", "a=-x", "a=x-", "a=é", "a='x'",
        ] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
        assert!(LabelSelector::parse(&format!("a={}", "x".repeat(64))).is_err());
        assert!(LabelSelector::parse(&format!("{}=x", "a".repeat(64))).is_err());
        assert!(
            LabelSelector::parse(&format!(
                "{}/{}={}",
                "p".repeat(253),
                "a".repeat(63),
                "x".repeat(63)
            ))
            .is_ok()
        );
        assert!(LabelSelector::parse(&"a,".repeat(5000)).is_err());
    }
}
