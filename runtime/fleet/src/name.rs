//! Names: of clusters, tenants and controllers, and patterns over them. Entry point: [`ClusterName`].

use std::fmt;
use std::sync::Arc;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is longer than names of this sort may be.
    #[error("{what} name of {length} bytes is too long: use at most {limit}")]
    TooLong {
        /// What sort of name.
        what: &'static str,
        /// Length found, in bytes.
        length: usize,
        /// Length allowed, in bytes.
        limit: usize,
    },
    /// The text has a byte that names of this sort may not have.
    #[error("{what} name {name:?} has the character {character:?}: {allowed}")]
    Character {
        /// What sort of name.
        what: &'static str,
        /// The name, cut to 80 characters.
        name: String,
        /// The first character that is refused.
        character: char,
        /// What is allowed instead.
        allowed: &'static str,
    },
    /// The text is empty.
    #[error("{what} name is empty")]
    Empty {
        /// What sort of name.
        what: &'static str,
    },
}

/// The name of an engaged cluster: at most 253 printable ASCII bytes. The empty name is the local (hub) cluster.
///
/// Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Longest name, in bytes.
    pub const MAX: usize = 253;

    /// Checks and makes a name.
    ///
    /// # Errors
    /// [`NameError`] when the text is over [`Self::MAX`] bytes or has a byte that is not printable ASCII.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        let name = name.as_ref();
        Self::check(name)?;
        Ok(Self(name.into()))
    }

    /// As [`Self::new`], of a text that is shared and not copied.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn shared(name: Arc<str>) -> Result<Self, NameError> {
        Self::check(&name)?;
        Ok(Self(name))
    }

    fn check(name: &str) -> Result<(), NameError> {
        if name.len() > Self::MAX {
            return Err(NameError::TooLong {
                what: "cluster",
                length: name.len(),
                limit: Self::MAX,
            });
        }
        match name.chars().find(|c| !(' '..='~').contains(c)) {
            Some(character) => Err(NameError::Character {
                what: "cluster",
                name: name.chars().take(80).collect(),
                character,
                allowed: "use printable ASCII characters",
            }),
            None => Ok(()),
        }
    }

    /// The local (hub) cluster, `""`.
    #[must_use]
    pub fn local() -> Self {
        Self("".into())
    }

    /// Whether this names the local cluster.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0.is_empty()
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

macro_rules! dns_name {
    ($(#[$doc:meta])* $name:ident, $max:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Longest name, in bytes.
            pub const MAX: usize = $max;

            /// Checks and makes a name.
            ///
            /// # Errors
            /// [`NameError`] when the text is empty, too long, or is not made of lower-case letters, digits, `-` and `.`.
            pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
                let name = name.as_ref();
                $check(name)?;
                Ok(Self(name.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

fn check_dns(what: &'static str, name: &str, limit: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what });
    }
    if name.len() > limit {
        return Err(NameError::TooLong {
            what,
            length: name.len(),
            limit,
        });
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    match name.chars().find(|c| !allowed(*c)) {
        Some(character) => Err(NameError::Character {
            what,
            name: name.chars().take(80).collect(),
            character,
            allowed: "use lower-case letters, digits, '-' and '.'",
        }),
        None => Ok(()),
    }
}

dns_name! {
    /// The owner of controllers: grants, limits, a share of the queue. At most 50 bytes, so that the field manager
    /// `windlass:<tenant>/<reconciler>` stays within the 128 that API servers allow. Cheap to clone.
    TenantName, 50, |name| check_dns("tenant", name, Self::MAX)
}

dns_name! {
    /// The name of a controller, which is its reconciler's name. At most 63 bytes; or `<namespace>/<name>`, of at most 63 and 253 bytes,
    /// for a reconciler that is an object of a namespace. Cheap to clone.
    ControllerName, 317, |name: &str| match name.split_once('/') {
        Some((namespace, name)) => check_dns("namespace", namespace, Self::MAX_BARE)
            .and_then(|()| check_dns("reconciler", name, Self::MAX_OBJECT)),
        None => check_dns("reconciler", name, Self::MAX_BARE),
    }
}

impl ControllerName {
    /// Longest name without a namespace, and longest namespace, in bytes.
    const MAX_BARE: usize = 63;
    /// Longest name of an object, in bytes.
    const MAX_OBJECT: usize = 253;

    /// Whether it is the name of an object of a namespace.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.0.contains('/')
    }
}

impl Default for TenantName {
    /// The tenant `default`.
    fn default() -> Self {
        Self("default".into())
    }
}

/// A pattern over names in which `*` matches any run of characters, the empty one included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct NamePattern(Arc<str>);

impl NamePattern {
    /// Makes a pattern; every text is one.
    #[must_use]
    pub fn new(pattern: impl AsRef<str>) -> Self {
        Self(pattern.as_ref().into())
    }

    /// The pattern that matches every name.
    #[must_use]
    pub fn any() -> Self {
        Self::new("*")
    }

    /// The pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `name` matches. Takes time linear in `name` times the number of stars.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let parts: Vec<&str> = parts.collect();
        let Some((last, middle)) = parts.split_last() else {
            return rest.is_empty();
        };
        for part in middle {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_bounded_and_printable() {
        assert!(ClusterName::new("a".repeat(253)).is_ok());
        assert!(matches!(
            ClusterName::new("a".repeat(254)),
            Err(NameError::TooLong { length: 254, .. })
        ));
        assert!(matches!(
            ClusterName::new("a\nb"),
            Err(NameError::Character {
                character: '\n',
                ..
            })
        ));
        assert!(matches!(
            ClusterName::new("é"),
            Err(NameError::Character { .. })
        ));
        assert!(ClusterName::new("").unwrap().is_local());
        assert_eq!(
            ClusterName::new("dir/a.kubeconfig+ctx").unwrap().as_str(),
            "dir/a.kubeconfig+ctx"
        );
    }

    #[test]
    fn tenant_and_controller_names_are_dns_like() {
        assert!(TenantName::new("team-a").is_ok());
        assert!(TenantName::new("a".repeat(51)).is_err());
        assert!(ControllerName::new("").is_err());
        assert!(ControllerName::new("Upper").is_err());
        assert!(ControllerName::new("a".repeat(64)).is_err());
    }

    #[test]
    fn the_reconciler_of_a_namespace_has_the_name_of_an_object() {
        let object = format!("{}/{}", "n".repeat(63), "a".repeat(253));
        assert!(ControllerName::new(&object).unwrap().is_namespaced());
        assert!(!ControllerName::new("a").unwrap().is_namespaced());
        for bad in ["/a", "a/", "a/b/c", "A/b", "a/B", &format!("{object}a")] {
            assert!(ControllerName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_star_matches_any_run() {
        let hit = |p: &str, n: &str| NamePattern::new(p).matches(n);
        assert!(
            hit("*", "") && hit("*", "x") && hit("prod-*", "prod-eu") && hit("*-eu", "prod-eu")
        );
        assert!(hit("a*b*c", "a1b2c") && hit("a*b*c", "abbc") && hit("a**", "a"));
        assert!(
            !hit("a", "ab")
                && !hit("prod-*", "dev-eu")
                && !hit("a*b*c", "acb")
                && !hit("ab*ba", "aba")
        );
    }
}
