//! Which member holds which shards: the text of the assignment. Entry point: [`Assignment::parse`].
//!
//! Invariants:
//! * A shard has at most one holder. A text that says otherwise is damaged.
//! * A text is at most [`MAX_TEXT`] long, so that the object stays within the limits of an API server.

use super::MAX_MEMBERS;
use super::set::{MAX_SHARDS, RangesError, ShardSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest text in bytes. An API server accepts 256 KiB for all annotations of an object.
pub(crate) const MAX_TEXT: usize = 200_000;

/// Longest incarnation that is accepted, in bytes.
const MAX_INCARNATION: usize = 64;

/// The shards of a fleet and their holders, by incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    shards: u16,
    shares: BTreeMap<Arc<str>, Share>,
}

/// The shards of one incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Share {
    /// The shards that it holds: it alone may run their keys.
    pub(crate) holds: ShardSet,
    /// The shards of others that it is ready to take over.
    pub(crate) next: ShardSet,
}

/// Why a text is not an assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    /// The object has no text.
    #[error("the annotation is missing")]
    Missing,
    /// The text is too long.
    #[error("the text has {0} bytes: more than {MAX_TEXT}")]
    TooLong(usize),
    /// The text is not JSON of this form.
    #[error("the text is not an assignment: {0}")]
    Json(String),
    /// The number of shards is out of bounds.
    #[error("{0} is not a number of shards: use 1 to {MAX_SHARDS}")]
    Shards(u16),
    /// There are too many members.
    #[error("the text has {0} members: more than {MAX_MEMBERS}")]
    TooMany(usize),
    /// The name of an incarnation is out of bounds.
    #[error("an incarnation has 1 to {MAX_INCARNATION} bytes, and not {0}")]
    Incarnation(usize),
    /// A set of shards cannot be read.
    #[error(transparent)]
    Ranges(#[from] RangesError),
    /// Two members hold one shard.
    #[error("the shards {0} have two holders")]
    TwoHolders(String),
}

#[derive(Serialize, Deserialize)]
struct Text {
    shards: u16,
    #[serde(default)]
    members: BTreeMap<Arc<str>, Ranges>,
}

#[derive(Serialize, Deserialize)]
struct Ranges {
    #[serde(default)]
    holds: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    next: String,
}

impl Assignment {
    /// No shard has a holder.
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            shards,
            shares: BTreeMap::new(),
        }
    }

    /// Reads the text of an assignment.
    ///
    /// # Errors
    /// [`Damage`].
    pub(crate) fn parse(text: &str) -> Result<Self, Damage> {
        if text.len() > MAX_TEXT {
            return Err(Damage::TooLong(text.len()));
        }
        let text: Text =
            serde_json::from_str(text).map_err(|error| Damage::Json(error.to_string()))?;
        if !(1..=MAX_SHARDS).contains(&text.shards) {
            return Err(Damage::Shards(text.shards));
        }
        if text.members.len() > MAX_MEMBERS {
            return Err(Damage::TooMany(text.members.len()));
        }
        let mut assignment = Self::new(text.shards);
        for (incarnation, ranges) in text.members {
            assignment.read(incarnation, &ranges)?;
        }
        Ok(assignment)
    }

    fn read(&mut self, incarnation: Arc<str>, ranges: &Ranges) -> Result<(), Damage> {
        if !(1..=MAX_INCARNATION).contains(&incarnation.len()) {
            return Err(Damage::Incarnation(incarnation.len()));
        }
        let share = Share {
            holds: ShardSet::parse(&ranges.holds, self.shards)?,
            next: ShardSet::parse(&ranges.next, self.shards)?,
        };
        let twice = self.held() & share.holds;
        if !twice.is_empty() {
            return Err(Damage::TwoHolders(twice.to_string()));
        }
        self.shares.insert(incarnation, share);
        Ok(())
    }

    /// The text: compact JSON.
    pub(crate) fn text(&self) -> String {
        let ranges = |share: &Share| Ranges {
            holds: share.holds.to_string(),
            next: share.next.to_string(),
        };
        let members = self.shares.iter();
        let text = Text {
            shards: self.shards,
            members: members
                .map(|(incarnation, share)| (incarnation.clone(), ranges(share)))
                .collect(),
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// The number of shards.
    pub(crate) fn shards(&self) -> u16 {
        self.shards
    }

    /// Every incarnation that is named, with its shards.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (&Arc<str>, &Share)> {
        self.shares.iter()
    }

    /// The shards of an incarnation.
    pub(crate) fn share(&self, incarnation: &str) -> Share {
        self.shares.get(incarnation).copied().unwrap_or_default()
    }

    /// Whether an incarnation is named.
    pub(crate) fn names(&self, incarnation: &str) -> bool {
        self.shares.contains_key(incarnation)
    }

    /// The incarnation that holds a shard.
    #[cfg(test)]
    pub(crate) fn holder(&self, shard: u16) -> Option<&Arc<str>> {
        let mut shares = self.shares.iter();
        let found = shares.find(|(_, share)| share.holds.contains(shard));
        found.map(|(incarnation, _)| incarnation)
    }

    /// The shards that have a holder.
    pub(crate) fn held(&self) -> ShardSet {
        let shares = self.shares.values();
        shares.fold(ShardSet::EMPTY, |all, share| all | share.holds)
    }

    /// Makes `incarnation` the holder of these shards.
    pub(crate) fn give(&mut self, shards: ShardSet, incarnation: &Arc<str>) {
        self.release(shards);
        if !shards.is_empty() {
            let share = self.shares.entry(incarnation.clone()).or_default();
            share.holds |= shards;
            share.next -= shards;
        }
    }

    /// Leaves these shards without a holder.
    pub(crate) fn release(&mut self, shards: ShardSet) {
        for share in self.shares.values_mut() {
            share.holds -= shards;
        }
    }

    /// Sets the shards that `incarnation` is ready to take over.
    pub(crate) fn set_next(&mut self, incarnation: &Arc<str>, next: ShardSet) {
        self.shares.entry(incarnation.clone()).or_default().next = next;
    }

    /// Removes incarnations without shards.
    pub(crate) fn tidy(&mut self) {
        self.shares.retain(|_, share| *share != Share::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        r#"{"shards":256,"members":{"a1":{"holds":"0-12,15"},"b2":{"holds":"16-255","next":"3"}}}"#;

    fn set(text: &str) -> ShardSet {
        ShardSet::parse(text, MAX_SHARDS).unwrap()
    }

    #[test]
    fn an_assignment_round_trips_through_its_text() {
        let read = Assignment::parse(TEXT).unwrap();
        assert_eq!(read.text(), TEXT);
        assert_eq!(read.holder(15).map(|holder| &**holder), Some("a1"));
        assert_eq!(read.holder(13), None);
        assert_eq!(read.share("b2").next, set("3"));
        assert_eq!(set("13-14"), ShardSet::first(256) - read.held());
    }

    #[test]
    fn a_shard_that_is_given_has_one_holder() {
        let mut assignment = Assignment::parse(TEXT).unwrap();
        assignment.give(set("3-4"), &"b2".into());
        assignment.give(ShardSet::EMPTY, &"c3".into());
        assert_eq!(assignment.share("a1").holds, set("0-2,5-12,15"));
        assert_eq!(assignment.share("b2").holds, set("3-4,16-255"));
        assert!(assignment.share("b2").next.is_empty() && !assignment.names("c3"));
        assignment.release(set("0-15"));
        assignment.tidy();
        assert!(!assignment.names("a1"));
        assert_eq!(Assignment::parse(&assignment.text()), Ok(assignment));
    }

    #[test]
    fn a_damaged_text_is_an_error_with_a_short_message() {
        let long = format!("{{\"shards\":256,\"x\":\"{}\"}}", "x".repeat(MAX_TEXT));
        let name = format!(r#"{{"shards":4,"members":{{"{}":{{}}}}}}"#, "i".repeat(65));
        for text in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"shards":0}"#,
            r#"{"shards":1025}"#,
            r#"{"shards":70000}"#,
            r#"{"shards":-1}"#,
            r#"{"shards":8,"members":{"a":{"holds":"0-8"}}}"#,
            r#"{"shards":8,"members":{"a":{"holds":"0-3"},"b":{"holds":"3"}}}"#,
            r#"{"shards":8,"members":{"a":{"holds":3}}}"#,
            r#"{"shards":8,"members":{"":{"holds":""}}}"#,
            long.as_str(),
            name.as_str(),
        ] {
            let damage = Assignment::parse(text).unwrap_err();
            assert!(damage.to_string().len() < 200, "{damage}");
        }
    }

    #[test]
    fn every_cut_of_a_text_is_an_error_and_no_panic() {
        for end in 0..TEXT.len() {
            assert!(Assignment::parse(&TEXT[..end]).is_err());
        }
    }
}
