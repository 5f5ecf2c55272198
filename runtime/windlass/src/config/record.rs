//! What outlives a process about a Reconciler: the revisions that served, and an operator's rollback. Entry point: [`Record`].
//!
//! An object has it in its `status`, which every process reads. A document of a file has it in a folder of this user.

use crate::config::kinds::status::RollbackStatus;
use serde::{Deserialize, Serialize};
use windlass_fleet::Digest;

/// A revision, and where a process that has not loaded it finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownRevision {
    /// The digest of the component.
    pub(crate) digest: Digest,
    /// The image of the component, with the digest of its manifest; none: it was a file.
    pub(crate) image: Option<String>,
}

/// A rollback. It ends when the guest that the document names is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rollback {
    /// The revision that serves.
    pub(crate) to: KnownRevision,
    /// The revision in place of which it serves; none: the guest could not be read when the rollback began.
    pub(crate) instead_of: Option<Digest>,
}

/// What the next process has to know of a Reconciler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Text", into = "Text")]
pub(crate) struct Record {
    /// The revision that serves, or served last.
    pub(crate) revision: Option<KnownRevision>,
    /// The revision that served before.
    pub(crate) previous: Option<KnownRevision>,
    /// The rollback that is in effect.
    pub(crate) rollback: Option<Rollback>,
}

/// The record of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectRecord {
    /// `metadata.uid` of the object.
    pub(crate) uid: String,
    /// What its status says.
    pub(crate) record: Record,
}

/// A record as text: these fields of a Reconciler's status.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Text {
    revision: String,
    image: String,
    previous_revision: String,
    previous_image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollback: Option<RollbackStatus>,
}

impl KnownRevision {
    /// None: the digest is none.
    fn read(digest: &str, image: String) -> Option<Self> {
        Some(Self {
            digest: Digest::parse(digest)?,
            image: Some(image).filter(|image| !image.is_empty()),
        })
    }

    fn print(this: Option<Self>) -> (String, String) {
        let print = |known: Self| (known.digest.to_string(), known.image.unwrap_or_default());
        this.map(print).unwrap_or_default()
    }
}

impl Rollback {
    /// Whether the rollback goes on with this revision in the guest's file. It does while the file cannot be read, and when the file has the
    /// revision that serves: the file of this process may be older than the one that the operator rolled back from.
    pub(crate) fn holds(&self, file: Option<Digest>) -> bool {
        file.is_none() || file == self.instead_of || file == Some(self.to.digest)
    }

    fn read(text: RollbackStatus) -> Option<Self> {
        Some(Self {
            to: KnownRevision::read(&text.revision, text.image)?,
            instead_of: Digest::parse(&text.instead_of),
        })
    }
}

impl From<Rollback> for RollbackStatus {
    fn from(rollback: Rollback) -> Self {
        let (revision, image) = KnownRevision::print(Some(rollback.to));
        let instead_of = rollback.instead_of.map(|digest| digest.to_string());
        Self {
            revision,
            image,
            instead_of: instead_of.unwrap_or_default(),
        }
    }
}

impl From<Text> for Record {
    /// What is no digest counts as absent.
    fn from(text: Text) -> Self {
        Self {
            revision: KnownRevision::read(&text.revision, text.image),
            previous: KnownRevision::read(&text.previous_revision, text.previous_image),
            rollback: text.rollback.and_then(Rollback::read),
        }
    }
}

impl From<Record> for Text {
    fn from(record: Record) -> Self {
        let (revision, image) = KnownRevision::print(record.revision);
        let (previous_revision, previous_image) = KnownRevision::print(record.previous);
        Self {
            revision,
            image,
            previous_revision,
            previous_image,
            rollback: record.rollback.map(RollbackStatus::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_is_read_from_a_status_as_it_is_written() {
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let record = Record {
            revision: Some(KnownRevision {
                digest: one,
                image: Some("r.io/x:1@sha256:00".to_owned()),
            }),
            previous: None,
            rollback: Some(Rollback {
                to: KnownRevision {
                    digest: one,
                    image: None,
                },
                instead_of: Some(other),
            }),
        };
        let mut status = serde_json::to_value(&record).unwrap();
        assert_eq!(status["rollback"]["insteadOf"], other.to_string());
        // With the other fields of a status.
        status["conditions"] = json!([]);
        status["tenant"] = "a".into();
        assert_eq!(serde_json::from_value::<Record>(status).unwrap(), record);
        // What somebody else wrote there.
        let wrong = json!({"revision": "x", "rollback": {"revision": "UP"}});
        let wrong: Record = serde_json::from_value(wrong).unwrap();
        assert_eq!(wrong, Record::default());
    }

    #[test]
    fn a_rollback_ends_with_a_third_revision_alone() {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let rollback = Rollback {
            to: KnownRevision {
                digest: digest("good"),
                image: None,
            },
            instead_of: Some(digest("bad")),
        };
        for (file, holds) in [
            (None, true),
            (Some("bad"), true),
            (Some("good"), true),
            (Some("next"), false),
        ] {
            assert_eq!(rollback.holds(file.map(digest)), holds, "{file:?}");
        }
    }
}
