//! Finds caches that differ from their servers although their watches run. Entry point: [`check`].
//!
//! No watch shows an event that its server never sent. So the versions of a whole kind are listed at intervals and compared with the
//! store. A difference may be an event on its way, so it counts only if it is still there [`EVENT_DELAY`] later. Then the store is
//! listed again, or all caches of the server are rebuilt.
//!
//! Cost: a list of the kind's metadata, page by page, of which a hash for each key is kept. The store keeps changing meanwhile.
//!
//! Not guaranteed: two keys with equal hashes hide a deletion until the next check, which has other hashes. Stores without integer
//! versions are not checked.

use super::store::{Store, Unfit, number};
use super::watch::StoreCall;
use crate::api::ApiError;
use crate::http::status::error_for_status;
use crate::http::transport::Connection;
use crate::json::{JsonError, List, ObjectVersion};
use crate::request::ObjectKey;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long an event may be on its way.
const EVENT_DELAY: Duration = Duration::from_secs(5);
/// Most differences that are checked again; one is enough for a new list.
const MAX_SUSPECTS: usize = 100;

/// Why a store could not be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error("the list for the drift check failed")]
    Refused(#[from] ApiError),
    #[error("the list for the drift check is malformed")]
    Malformed(#[from] JsonError),
    #[error("an item of the list: {0}")]
    Unfit(#[from] Unfit),
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drift {
    /// The store agrees with its server, except for events on their way.
    None,
    /// The store lacks an object or a state of its server, or has one that the server lacks.
    Differs,
    /// The server has an older state of an object than the store, which is impossible within one history.
    HistoryLost,
}

/// A difference between a store and its server that may not last.
#[derive(Debug, PartialEq, Eq)]
enum Suspect {
    /// The server has this version, the store an older one or none.
    Missing(ObjectKey, u64),
    /// The store has this version, and the server's later list lacks the object.
    Extra(ObjectKey, u64),
    /// The store has this version, and the server's later list has an older one.
    Older(ObjectKey, u64),
    /// Both have this version, but the server's object has this uid: the cached one was damaged on its way.
    OtherUid(ObjectKey, u64, Box<str>),
    /// The server's list is older than the store.
    ServerBehind,
}

/// Compares a store with its server.
///
/// # Errors
/// [`CheckError`]: the server did not answer with a list.
pub(crate) async fn check(
    store: &Store,
    connection: &Connection,
    page: usize,
) -> Result<Drift, CheckError> {
    let Some(before) = store.newest_version().filter(|_| store.is_synced()) else {
        return Ok(Drift::None);
    };
    let mut suspects = suspects(store, connection, page, before).await?;
    if suspects.is_empty() {
        return Ok(Drift::None);
    }
    tokio::time::sleep(EVENT_DELAY).await;
    suspects.retain(|suspect| lasts(store, suspect));
    Ok(result(&suspects))
}

fn result(lasting: &[Suspect]) -> Drift {
    let is_older = |suspect: &Suspect| matches!(suspect, Suspect::Older(..));
    match lasting {
        [] => Drift::None,
        some if some.iter().any(is_older) => Drift::HistoryLost,
        _ => Drift::Differs,
    }
}

async fn suspects(
    store: &Store,
    connection: &Connection,
    page: usize,
    before: u64,
) -> Result<Vec<Suspect>, CheckError> {
    let mut comparison = Comparison::default();
    let mut token: Option<String> = None;
    let mut pages = 0_usize;
    let version = loop {
        let call = StoreCall::MetadataPage {
            limit: page,
            token: token.as_deref(),
        }
        .call(store);
        let timeout = connection.options().call_timeout;
        let answer = connection.send(call, timeout).await;
        let answer = error_for_status(answer.map_err(ApiError::from)?)?;
        let list = List::split(answer.body)?;
        for item in list.items() {
            comparison.add(store, &store.version_in(item)?);
        }
        pages += 1;
        match list.continue_token {
            // An honest server needs at most a page for each object, and some for new ones.
            Some(next) if pages <= store.size().0 + 1000 => token = Some(next),
            _ => break list.resource_version,
        }
    };
    Ok(comparison.finish(store, &version, before))
}

/// Whether a difference is still there.
fn lasts(store: &Store, suspect: &Suspect) -> bool {
    match suspect {
        Suspect::Missing(key, version) => store.version_of(key).is_none_or(|held| held < *version),
        Suspect::Extra(key, version) | Suspect::Older(key, version) => {
            store.version_of(key) == Some(*version)
        }
        Suspect::OtherUid(key, version, uid) => has_other_uid(store, key, *version, uid),
        Suspect::ServerBehind => true,
    }
}

/// Whether the store has this version of an object with another uid.
fn has_other_uid(store: &Store, key: &ObjectKey, version: u64, uid: &str) -> bool {
    store
        .get(key)
        .is_some_and(|(object, held)| held == version && object.uid() != uid)
}

/// A list in comparison with a store.
#[derive(Default)]
struct Comparison {
    /// Hashes of the listed keys.
    listed: HashSet<u64>,
    hasher: RandomState,
    suspects: Vec<Suspect>,
    /// Keys with an older version in the list than in the store, and the store's version. Whether they are suspects depends on the
    /// list's version, which is known at its end.
    older: Vec<(ObjectKey, u64)>,
}

impl Comparison {
    fn add(&mut self, store: &Store, listed: &ObjectVersion<'_>) {
        if !store.keeps(&listed.key) {
            return;
        }
        self.listed.insert(self.hasher.hash_one(&listed.key));
        let Some(version) = number(&listed.version) else {
            return;
        };
        match store.version_of(&listed.key) {
            Some(held) if held == version => {
                if has_other_uid(store, &listed.key, version, &listed.uid) {
                    let uid = listed.uid.as_ref().into();
                    self.suspect(Suspect::OtherUid(listed.key.clone(), version, uid));
                }
            }
            Some(held) if held > version => {
                if self.older.len() < MAX_SUSPECTS {
                    self.older.push((listed.key.clone(), held));
                }
            }
            _ => self.suspect(Suspect::Missing(listed.key.clone(), version)),
        }
    }

    fn suspect(&mut self, suspect: Suspect) {
        if self.suspects.len() < MAX_SUSPECTS {
            self.suspects.push(suspect);
        }
    }

    /// The differences that events may explain. `before`: the store's newest version when the list began.
    fn finish(mut self, store: &Store, version: &str, before: u64) -> Vec<Suspect> {
        let Some(list) = number(version) else {
            return Vec::new();
        };
        if before > list {
            return vec![Suspect::ServerBehind];
        }
        for (key, held) in std::mem::take(&mut self.older) {
            if held <= list {
                self.suspect(Suspect::Older(key, held));
            }
        }
        let mut extras = Vec::new();
        store.each_version(|key, version| {
            let unlisted = || !self.listed.contains(&self.hasher.hash_one(key));
            if version <= list && extras.len() < MAX_SUSPECTS && unlisted() {
                extras.push(Suspect::Extra(key.clone(), version));
            }
        });
        for extra in extras {
            self.suspect(extra);
        }
        self.suspects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Projection;
    use crate::cache::store::{LeftOut, StoreKey};
    use crate::json::Object;
    use crate::kind::{GroupVersionKind, Resource};
    use bytes::Bytes;
    use std::sync::Arc;

    fn text(name: &str, version: u64) -> String {
        format!(
            r#"{{"kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","resourceVersion":"{version}"}}}}"#
        )
    }

    fn store(objects: &[(&str, u64)], version: u64) -> Store {
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let resource = Resource {
            kind: kind.clone(),
            plural: "configmaps".into(),
            namespaced: true,
        };
        let store = Store::new(
            StoreKey::whole(kind, None, Projection::Full),
            Arc::new(resource),
            LeftOut::default(),
            false,
        );
        let objects = objects
            .iter()
            .map(|(name, version)| Object::parse(Bytes::from(text(name, *version))).unwrap());
        store
            .replace(objects.collect(), version.to_string())
            .unwrap();
        store
    }

    /// The suspects that a list at a version causes.
    fn compared(store: &Store, listed: &[(&str, u64)], version: u64) -> Vec<Suspect> {
        let mut comparison = Comparison::default();
        for (name, version) in listed {
            let text = text(name, *version);
            comparison.add(store, &ObjectVersion::scan(text.as_bytes()).unwrap());
        }
        comparison.finish(store, &version.to_string(), store.newest_version().unwrap())
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("ns", name)
    }

    #[test]
    fn a_store_in_step_causes_no_suspect() {
        let store = store(&[("a", 5), ("b", 6)], 10);
        assert_eq!(compared(&store, &[("a", 5), ("b", 6)], 12), []);
    }

    #[test]
    fn a_missed_event_is_suspect_until_it_comes() {
        let store = store(&[("a", 5), ("b", 6), ("c", 7)], 10);
        let suspects = compared(&store, &[("a", 5), ("b", 11), ("d", 12)], 12);
        assert_eq!(
            suspects,
            [
                Suspect::Missing(key("b"), 11),
                Suspect::Missing(key("d"), 12),
                Suspect::Extra(key("c"), 7)
            ]
        );
        assert!(suspects.iter().all(|suspect| lasts(&store, suspect)));
        for (name, version) in [("b", 11), ("d", 12)] {
            store.apply(Object::parse(Bytes::from(text(name, version))).unwrap());
        }
        store.delete(&Object::parse(Bytes::from(text("c", 13))).unwrap());
        assert!(!suspects.iter().any(|suspect| lasts(&store, suspect)));
    }

    #[test]
    fn an_event_since_the_list_is_not_suspect() {
        let store = store(&[("a", 5)], 10);
        store.apply(Object::parse(Bytes::from(text("a", 15))).unwrap());
        store.apply(Object::parse(Bytes::from(text("new", 16))).unwrap());
        let listed = [("a", 5)];
        let mut comparison = Comparison::default();
        for (name, version) in listed {
            comparison.add(
                &store,
                &ObjectVersion::scan(text(name, version).as_bytes()).unwrap(),
            );
        }
        assert_eq!(comparison.finish(&store, "12", 10), []);
    }

    #[test]
    fn an_older_state_in_a_newer_list_shows_that_history_was_lost() {
        let store = store(&[("a", 9)], 10);
        assert_eq!(
            compared(&store, &[("a", 5)], 12),
            [Suspect::Older(key("a"), 9)]
        );
        assert_eq!(result(&[Suspect::Older(key("a"), 9)]), Drift::HistoryLost);
    }

    #[test]
    fn a_cached_object_with_another_uid_is_suspect_until_a_list_replaces_it() {
        let damaged = text("a", 5).replace(r#""uid":"a""#, r#""uid":"damaged""#);
        let store = store(&[("b", 6)], 4);
        store.apply(Object::parse(Bytes::from(damaged)).unwrap());
        let suspects = compared(&store, &[("a", 5), ("b", 6)], 12);
        assert_eq!(suspects, [Suspect::OtherUid(key("a"), 5, "a".into())]);
        assert!(lasts(&store, &suspects[0]));
        let listed = [("a", 5), ("b", 6)]
            .map(|(name, version)| store.ingest_listed(text(name, version).as_bytes()).unwrap());
        store.replace(listed.into(), "12".into()).unwrap();
        assert!(!lasts(&store, &suspects[0]));
        assert_eq!(compared(&store, &[("a", 5), ("b", 6)], 12), []);
    }

    #[test]
    fn a_list_that_is_older_than_the_store_shows_that_the_server_is_behind() {
        let store = store(&[("a", 5)], 10);
        assert_eq!(compared(&store, &[("a", 5)], 8), [Suspect::ServerBehind]);
    }
}
