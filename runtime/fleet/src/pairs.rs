//! Names with their values: the labels or the properties of a cluster. Entry point: [`Pairs`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names with their values, sorted by name. Cheap to clone.
///
/// A map of a few entries takes half a kilobyte, and there are thousands of clusters: this takes little more than its text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs(Arc<[(Box<str>, Box<str>)]>);

impl Pairs {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        self.0.get(at.ok()?).map(|(_, value)| &**value)
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a map.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.iter().map(owned).collect()
    }

    /// The first ones by name, at most so many.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        Self(self.0.iter().take(count).cloned().collect())
    }

    /// The same with one more; a value that its name had is replaced.
    #[must_use]
    pub fn with(&self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let mut all = self.to_map();
        all.insert(name.into(), value.into());
        all.into()
    }
}

impl From<BTreeMap<String, String>> for Pairs {
    fn from(map: BTreeMap<String, String>) -> Self {
        let boxed = |(name, value): (String, String)| (name.into(), value.into());
        Self(map.into_iter().map(boxed).collect())
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl crate::selector::LabelSet for Pairs {
    fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key).map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::Pairs;

    #[test]
    fn a_value_is_found_by_its_name_and_the_last_one_counts() {
        let pairs = Pairs::default()
            .with("b", "2")
            .with("a", "1")
            .with("b", "3");
        assert_eq!(
            (pairs.get("a"), pairs.get("b"), pairs.get("c")),
            (Some("1"), Some("3"), None)
        );
        assert!(pairs.iter().eq([("a", "1"), ("b", "3")]));
        assert_eq!(Pairs::from(pairs.to_map()), pairs);
        assert!(Pairs::default().is_empty() && pairs.len() == 2);
    }
}
