//! The user that calls impersonate. Entry point: [`Identity::new`].

use http::header::{HeaderName, HeaderValue};
use std::fmt;
use std::sync::Arc;

/// Longest name of a user or group, in bytes.
const MAX_NAME: usize = 253;
/// Most groups.
const MAX_GROUPS: usize = 64;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// A user and groups to impersonate: the API server checks *their* rights, besides the grant. The credentials stay the cluster's, and
/// need the verb `impersonate` for the user and the groups. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// Ready to be sent: no value contains a line break.
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

/// Why a user cannot be impersonated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A header cannot carry the name unchanged.
    #[error(
        "{name:?} cannot name a user or group to a server: use 1 to {MAX_NAME} printable ASCII characters, without spaces at the ends"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Too many groups.
    #[error("there are {count} groups: at most {MAX_GROUPS} are sent with a call")]
    Groups {
        /// How many.
        count: usize,
    },
}

impl Identity {
    /// A user and groups.
    ///
    /// # Errors
    /// [`IdentityError`] when a header cannot carry a name, or there are too many.
    pub fn new<T: AsRef<str>>(user: &str, groups: &[T]) -> Result<Self, IdentityError> {
        if groups.len() > MAX_GROUPS {
            return Err(IdentityError::Groups {
                count: groups.len(),
            });
        }
        let groups = groups
            .iter()
            .map(|group| Ok((GROUP, value(group.as_ref())?)));
        let headers: Result<_, IdentityError> = [Ok((USER, value(user)?))]
            .into_iter()
            .chain(groups)
            .collect();
        Ok(Self { headers: headers? })
    }

    /// The headers of impersonation, in the order in which they are sent.
    pub(crate) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// Whether a header is one of impersonation.
    pub(crate) fn is_told_by(name: &HeaderName) -> bool {
        name.as_str().starts_with("impersonate-")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.headers.iter().map(|(_, name)| name))
            .finish()
    }
}

fn value(name: &str) -> Result<HeaderValue, IdentityError> {
    let printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let fits = (1..=MAX_NAME).contains(&name.len()) && printable && name.trim() == name;
    let value = fits.then(|| HeaderValue::from_str(name).ok()).flatten();
    value.ok_or_else(|| IdentityError::Name {
        name: name.chars().take(MAX_NAME).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(user: &str, groups: &[&str]) -> Result<Vec<String>, IdentityError> {
        let identity = Identity::new(user, groups)?;
        let line = |(name, value): &(HeaderName, HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        Ok(identity.headers().iter().map(line).collect())
    }

    #[test]
    fn a_user_and_groups_are_a_header_each() {
        assert_eq!(
            sent("team-a@example.com", &["team:a", "all teams"]).unwrap(),
            [
                "impersonate-user: team-a@example.com",
                "impersonate-group: team:a",
                "impersonate-group: all teams"
            ]
        );
        assert_eq!(sent("a", &[]).unwrap(), ["impersonate-user: a"]);
    }

    #[test]
    fn nothing_in_a_name_can_begin_another_header() {
        let long = "x".repeat(254);
        for name in [
            "",
            " a",
            "a ",
            "a\r\nImpersonate-Group: system:masters",
            "a\nb",
            "a\0",
            "a\tb",
            "ü",
            "\u{7f}",
            &long,
        ] {
            assert!(sent(name, &[]).is_err(), "user {name:?}");
            assert!(sent("a", &[name]).is_err(), "group {name:?}");
        }
        assert!(sent("a", &["g"; 65]).is_err() && sent("a", &["g"; 64]).is_ok());
    }
}
