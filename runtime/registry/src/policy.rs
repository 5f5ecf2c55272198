//! Where a tenant's guests may come from, and who must have signed them. Entry point: [`GuestPolicy`].

use crate::reference::{Reference, SCHEME, is_host};
use crate::signature::{KeylessSigner, PublicKey};
use windlass_fleet::name::NamePattern;

/// A tenant's policy. Default: any registry, signed or not. With neither keys nor signers no image need be signed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GuestPolicy {
    /// The registries; none: those that the caller takes for absent ones.
    pub registries: Option<Vec<ImagePattern>>,
    /// The keys of which one must have signed, if no signer has.
    pub keys: Vec<PublicKey>,
    /// Those who sign without a key of their own, of whom one must have signed, if no key has.
    pub signers: Vec<KeylessSigner>,
}

/// Why a policy refuses a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// An image of a registry that the policy does not name.
    #[error(
        "{0} is not of a registry that the tenant may use: add it to spec.guests.registries of the Tenant"
    )]
    Elsewhere(String),
    /// A file, where the policy wants images.
    #[error(
        "{0} is a file, and spec.guests of the Tenant asks for images: push it with windlass push and name it in spec.guest.image"
    )]
    File(String),
}

impl GuestPolicy {
    /// Whether images of this name may be used. `any_by_default`: without a list, all registries may.
    ///
    /// # Errors
    /// [`PolicyError::Elsewhere`]
    pub(crate) fn check(&self, image: &Reference, any_by_default: bool) -> Result<(), PolicyError> {
        let allowed = match &self.registries {
            Some(patterns) => patterns.iter().any(|pattern| pattern.covers(image)),
            None => any_by_default,
        };
        if allowed {
            Ok(())
        } else {
            Err(PolicyError::Elsewhere(image.to_string()))
        }
    }

    /// Whether somebody must have signed an image.
    pub(crate) fn wants_signatures(&self) -> bool {
        !self.keys.is_empty() || !self.signers.is_empty()
    }

    /// Whether a file may be a guest: one that no registry has, and nobody has signed.
    ///
    /// # Errors
    /// [`PolicyError::File`]
    pub fn check_file(&self, path: &std::path::Path) -> Result<(), PolicyError> {
        if self.registries.is_none() && !self.wants_signatures() {
            Ok(())
        } else {
            Err(PolicyError::File(path.display().to_string()))
        }
    }
}

/// A host, and the first parts of a name. Covers every name that begins with these parts. `*` stands for any characters of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct ImagePattern {
    host: NamePattern,
    parts: Vec<NamePattern>,
}

impl ImagePattern {
    /// Reads `HOST[:PORT][/PART…]`. `None`: it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_suffix('/').unwrap_or(text).split('/');
        let host = parts.next()?;
        let parts: Vec<&str> = parts.collect();
        let is_plain = |part: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*._-".contains(&byte);
            !part.is_empty() && part.bytes().all(plain)
        };
        // With something in place of the stars it is a host.
        let is_host = is_host(&host.replace('*', "a")) || host == "*";
        if text.starts_with(SCHEME) || !is_host || !parts.iter().all(is_plain) {
            return None;
        }
        Some(Self {
            host: NamePattern::new(host),
            parts: parts.into_iter().map(NamePattern::new).collect(),
        })
    }

    fn covers(&self, image: &Reference) -> bool {
        let mut parts = image.name().split('/');
        self.host.matches(image.host())
            && self
                .parts
                .iter()
                .all(|pattern| parts.next().is_some_and(|part| pattern.matches(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(patterns: &[&str]) -> GuestPolicy {
        let patterns = patterns.iter().map(|one| ImagePattern::parse(one).unwrap());
        GuestPolicy {
            registries: Some(patterns.collect()),
            ..GuestPolicy::default()
        }
    }

    fn allows(patterns: &[&str], image: &str) -> bool {
        let image = Reference::parse(image).unwrap();
        policy(patterns).check(&image, true).is_ok()
    }

    #[test]
    fn a_pattern_covers_whole_parts_of_names() {
        assert!(allows(&["ghcr.io/acme"], "ghcr.io/acme/guest:1"));
        assert!(allows(&["ghcr.io/acme"], "ghcr.io/acme/a/b/guest:1"));
        assert!(allows(&["ghcr.io/acme/*"], "ghcr.io/acme/guest:1"));
        assert!(allows(
            &["*.example.com/team-*"],
            "r.example.com/team-a/guest:1"
        ));
        assert!(allows(&["ghcr.io", "r:5000/a"], "r:5000/a:1"));
        assert!(allows(&["*"], "anything.example/a:1"));
        for (pattern, image) in [
            ("ghcr.io/acme", "ghcr.io/acmeevil/guest:1"),
            ("ghcr.io/acme/*", "ghcr.io/acme:1"),
            ("ghcr.io/acme", "ghcr.io.evil.com/acme/guest:1"),
            ("ghcr.io/acme", "evil.com/ghcr.io/acme/guest:1"),
            ("ghcr.io/acme", "ghcr.io:8443/acme/guest:1"),
            ("*.example.com", "example.com/guest:1"),
            ("ghcr.io/*/guest", "ghcr.io/a/b/guest:1"),
        ] {
            assert!(!allows(&[pattern], image), "{pattern} {image}");
        }
    }

    #[test]
    fn an_absent_list_is_what_the_caller_takes_it_for_and_an_empty_one_allows_none() {
        let image = Reference::parse("ghcr.io/acme/guest:1").unwrap();
        assert!(GuestPolicy::default().check(&image, true).is_ok());
        assert!(GuestPolicy::default().check(&image, false).is_err());
        assert!(policy(&[]).check(&image, true).is_err());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "acme",
            "oci://ghcr.io",
            "https://ghcr.io",
            "ghcr.io//a",
            "a b.io",
            "ghcr.io/a:1",
        ] {
            assert_eq!(ImagePattern::parse(text), None, "{text}");
        }
    }
}
