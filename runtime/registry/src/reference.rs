//! The name of an image: `HOST[:PORT]/NAME[:TAG][@sha256:…]`. Entry point: [`Reference::parse`].
//!
//! The host is always written: a short name means another image for each tool that completes it.

use crate::digest::ImageDigest;
use std::fmt;
use std::net::Ipv6Addr;

/// What may stand before a reference, so that it is not taken for a file.
pub const SCHEME: &str = "oci://";
/// Longest name behind the host, in bytes, and longest tag, as registries have them.
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;
/// Longest name of a host, in bytes, with its port.
const MAX_HOST: usize = 253 + 6;

/// An image in a registry. It has a tag, a digest, or both; then the digest counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    host: String,
    name: String,
    tag: Option<String>,
    digest: Option<ImageDigest>,
}

/// Why a text names no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// No host, or a short name.
    #[error(
        "{0:?} does not begin with the host of a registry: write for example registry.example.com/team/guest:1.0"
    )]
    Host(String),
    /// A name that no registry takes.
    #[error(
        "{0:?} is not a name of an image: lower-case letters, digits and `.`, `_` or `-` between them, parts divided by `/`"
    )]
    Name(String),
    /// A tag that no registry takes.
    #[error("{0:?} is not a tag: letters, digits, `.`, `_` and `-`, at most {MAX_TAG}")]
    Tag(String),
    /// Another hash, or none.
    #[error("{0:?} is not a digest: write sha256: and 64 hexadecimal digits")]
    Digest(String),
    /// Nothing says which image of that name.
    #[error("{0:?} has neither a tag nor a digest: write one behind it, for example :1.0")]
    Bare(String),
}

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    /// [`ReferenceError`]
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let bare = text.strip_prefix(SCHEME).unwrap_or(text);
        let (rest, digest) = match bare.split_once('@') {
            Some((rest, digest)) => {
                let parsed = ImageDigest::parse(digest);
                let parsed = parsed.ok_or_else(|| ReferenceError::Digest(digest.to_owned()))?;
                (rest, Some(parsed))
            }
            None => (bare, None),
        };
        let host = rest.split_once('/').filter(|(host, _)| is_host(host));
        let (host, rest) = host.ok_or_else(|| ReferenceError::Host(text.to_owned()))?;
        let (name, tag) = match rest.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (rest, None),
        };
        if name.len() > MAX_NAME || !name.split('/').all(is_part) {
            return Err(ReferenceError::Name(name.to_owned()));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(tag.to_owned()));
        }
        if tag.is_none() && digest.is_none() {
            return Err(ReferenceError::Bare(text.to_owned()));
        }
        Ok(Self {
            host: host.to_owned(),
            name: name.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }

    /// The same image, pinned.
    #[must_use]
    pub fn at(&self, digest: ImageDigest) -> Self {
        Self {
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// The registry, with its port if one is written.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The name in its registry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag, if one is written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if one is written.
    #[must_use]
    pub fn digest(&self) -> Option<ImageDigest> {
        self.digest
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Whether a text is `HOST[:PORT]` of a registry: a name with a dot, `localhost`, an IPv6 address in brackets, or anything with a port.
#[must_use]
pub fn is_host(text: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if let Some((address, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_rest = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().is_ok() && is_rest;
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let is_label = |label: &str| {
        let edges = label.starts_with('-') || label.ends_with('-');
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && !edges && label.bytes().all(plain)
    };
    text.len() <= MAX_HOST
        && name.split('.').all(is_label)
        && port.is_none_or(is_port)
        && (name.contains('.') || name == "localhost" || port.is_some())
}

/// Letters and digits, with single dots, one or two underscores, or dashes between them.
fn is_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let edges = [part.bytes().next(), part.bytes().next_back()];
    let between = part.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let is_divider = |divider: &str| {
        matches!(divider, "" | "." | "_" | "__") || divider.bytes().all(|byte| byte == b'-')
    };
    edges.iter().all(|edge| edge.is_some_and(is_plain)) && between.into_iter().all(is_divider)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = tag.bytes();
    tag.len() <= MAX_TAG
        && bytes.next().is_some_and(is_word)
        && bytes.all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_reference_prints_as_it_was_written() {
        for text in [
            "ghcr.io/acme/guest:1.0",
            "localhost/guest:latest",
            "registry:5000/a/b__c/d-e.f:V_1",
            &format!("10.0.0.1:5000/guest@{DIGEST}"),
            "[fd00::1]:5000/team/guest:1.0",
            &format!("[::1]/guest@{DIGEST}"),
            &format!("ghcr.io/acme/guest:1.0@{DIGEST}"),
        ] {
            let read = Reference::parse(text).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(Reference::parse(&format!("oci://{text}")), Ok(read));
        }
    }

    #[test]
    fn what_names_no_image_is_refused_with_its_part() {
        type Of = fn(String) -> ReferenceError;
        let cases: [(&str, &str, Of); 14] = [
            ("guest:1.0", "guest:1.0", ReferenceError::Host),
            ("acme/guest:1.0", "acme/guest:1.0", ReferenceError::Host),
            (
                "ghcr.io:0/guest:1",
                "ghcr.io:0/guest:1",
                ReferenceError::Host,
            ),
            (
                "me:pw@ghcr.io/guest:1",
                "ghcr.io/guest:1",
                ReferenceError::Digest,
            ),
            ("fd00::1/guest:1", "fd00::1/guest:1", ReferenceError::Host),
            ("[fd00]/guest:1", "[fd00]/guest:1", ReferenceError::Host),
            (
                "[::1]5000/guest:1",
                "[::1]5000/guest:1",
                ReferenceError::Host,
            ),
            ("ghcr.io/Acme/guest:1", "Acme/guest", ReferenceError::Name),
            ("ghcr.io/a//b:1", "a//b", ReferenceError::Name),
            ("ghcr.io/../v2:1", "../v2", ReferenceError::Name),
            ("ghcr.io/a._b:1", "a._b", ReferenceError::Name),
            ("ghcr.io/a:", "", ReferenceError::Tag),
            ("ghcr.io/a:b/c", "b/c", ReferenceError::Tag),
            ("ghcr.io/a", "ghcr.io/a", ReferenceError::Bare),
        ];
        for (text, part, error) in cases {
            assert_eq!(
                Reference::parse(text),
                Err(error(part.to_owned())),
                "{text}"
            );
        }
    }
}
