//! Compares caches with their servers, for events that were never sent. Entry point: [`compare`].
//!
//! No watch tells of an event that its server lost. So from time to time the versions of a whole kind are listed, page by page and
//! without keeping them, and held against the store. What differs may only be on its way, so it is looked at again a
//! little later; what differs then is a reason to list anew, or to rebuild all caches of the server.

use super::store::{Store, number};
use super::watch::StoreCall;
use crate::api::ApiError;
use crate::http::answer::refusal;
use crate::http::transport::Connection;
use crate::json::{Identity, JsonError, List};
use crate::request::ObjectKey;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long an event may be on its way.
const UNDER_WAY: Duration = Duration::from_secs(5);
/// Most differences that are looked at again; one is enough for a list.
const MAX_SUSPECTS: usize = 100;

/// Why a store could not be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompareError {
    #[error("the list for the comparison failed")]
    Refused(#[from] ApiError),
    #[error("the list for the comparison is not understood")]
    Garbage(#[from] JsonError),
}

/// What a comparison has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing that events on their way do not explain.
    InStep,
    /// The store lacks what its server has, or holds what it has not.
    Differs,
    /// The server has an older state of an object than the store, which within one history cannot be.
    HistoryLost,
}

/// A difference between a store and its server that may not last.
#[derive(Debug, PartialEq, Eq)]
enum Suspect {
    /// The server has this version, the store an older one or none.
    Missing(ObjectKey, u64),
    /// The store holds this version, the server has none though it is further.
    Ghost(ObjectKey, u64),
    /// The store holds this version, the server has an older one though it is further.
    TakenBack(ObjectKey, u64),
    /// Both have this version, and the server has it of an object with this uid: what the store holds was never on the server.
    Forged(ObjectKey, u64, Box<str>),
    /// The server is not as far as the store.
    Behind,
}

/// Holds a store against its server. A difference counts if it lasts longer than an event takes.
///
/// # Errors
/// What the server answered instead of a list.
pub(crate) async fn compare(
    store: &Store,
    connection: &Connection,
    page: usize,
) -> Result<Outcome, CompareError> {
    // A store that has not come as far is being filled, and one without numbers cannot be compared.
    if !store.is_synced() || number(&store.version()).is_none() {
        return Ok(Outcome::InStep);
    }
    let mut suspects = suspects(store, connection, page).await?;
    if suspects.is_empty() {
        return Ok(Outcome::InStep);
    }
    tokio::time::sleep(UNDER_WAY).await;
    suspects.retain(|suspect| lasts(store, suspect));
    Ok(verdict(&suspects))
}

fn verdict(lasting: &[Suspect]) -> Outcome {
    let taken_back = |suspect: &Suspect| matches!(suspect, Suspect::TakenBack(..));
    match lasting {
        [] => Outcome::InStep,
        some if some.iter().any(taken_back) => Outcome::HistoryLost,
        _ => Outcome::Differs,
    }
}

async fn suspects(
    store: &Store,
    connection: &Connection,
    page: usize,
) -> Result<Vec<Suspect>, CompareError> {
    let mut comparison = Comparison::default();
    let before = store.newest_version();
    let mut token: Option<String> = None;
    let mut pages = 0_usize;
    let version = loop {
        let call = StoreCall::Metadata {
            limit: page,
            token: token.as_deref(),
        }
        .call(store);
        let timeout = connection.options().call_timeout;
        let answer = connection.send(call, timeout).await;
        let answer = refusal(answer.map_err(ApiError::from)?)?;
        let list = List::split(answer.body)?;
        for item in list.items() {
            comparison.look_at(store, &Identity::scan(item)?);
        }
        pages += 1;
        match list.continue_token {
            // A list may have as many pages as there are objects, and some that came since.
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
        Suspect::Ghost(key, version) | Suspect::TakenBack(key, version) => {
            store.version_of(key) == Some(*version)
        }
        Suspect::Forged(key, version, uid) => is_other(store, key, *version, uid),
        Suspect::Behind => true,
    }
}

/// Whether the store holds this version of an object under another uid.
fn is_other(store: &Store, key: &ObjectKey, version: u64, uid: &str) -> bool {
    store
        .get(key)
        .is_some_and(|(object, held)| held == version && object.uid() != uid)
}

/// A list as it is held against a store.
#[derive(Default)]
struct Comparison {
    /// Hashes of the keys that were listed: two that are equal hide a difference until the next comparison, with other hashes.
    listed: HashSet<u64>,
    hasher: RandomState,
    suspects: Vec<Suspect>,
    /// Of what is listed in an older version than is held: known to be wrong once the list's version is known.
    older: Vec<(ObjectKey, u64)>,
}

impl Comparison {
    fn look_at(&mut self, store: &Store, listed: &Identity<'_>) {
        self.listed.insert(self.hasher.hash_one(&listed.key));
        let Some(version) = number(&listed.version) else {
            return;
        };
        match store.version_of(&listed.key) {
            Some(held) if held == version => {
                if is_other(store, &listed.key, version, &listed.uid) {
                    let uid = listed.uid.as_ref().into();
                    self.suspect(Suspect::Forged(listed.key.clone(), version, uid));
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

    /// `before` is the highest version that the store had seen when the list began.
    fn finish(mut self, store: &Store, version: &str, before: Option<u64>) -> Vec<Suspect> {
        let Some(list) = number(version) else {
            return Vec::new();
        };
        if before.is_some_and(|before| before > list) {
            return vec![Suspect::Behind];
        }
        for (key, held) in std::mem::take(&mut self.older) {
            if held <= list {
                self.suspect(Suspect::TakenBack(key, held));
            }
        }
        let mut ghosts = Vec::new();
        store.each_version(|key, version| {
            let unlisted = || !self.listed.contains(&self.hasher.hash_one(key));
            if version <= list && ghosts.len() < MAX_SUSPECTS && unlisted() {
                ghosts.push(Suspect::Ghost(key.clone(), version));
            }
        });
        for ghost in ghosts {
            self.suspect(ghost);
        }
        self.suspects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Projection;
    use crate::cache::store::StoreKey;
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
        );
        let objects = objects
            .iter()
            .map(|(name, version)| Object::parse(Bytes::from(text(name, *version))).unwrap());
        store
            .replace(objects.collect(), version.to_string())
            .unwrap();
        store
    }

    /// What a list at a version makes of a store.
    fn compared(store: &Store, listed: &[(&str, u64)], version: u64) -> Vec<Suspect> {
        let mut comparison = Comparison::default();
        for (name, version) in listed {
            let text = text(name, *version);
            comparison.look_at(store, &Identity::scan(text.as_bytes()).unwrap());
        }
        comparison.finish(store, &version.to_string(), number(&store.version()))
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("ns", name)
    }

    #[test]
    fn a_store_in_step_gives_no_suspect() {
        let store = store(&[("a", 5), ("b", 6)], 10);
        assert_eq!(compared(&store, &[("a", 5), ("b", 6)], 12), []);
    }

    #[test]
    fn what_was_added_changed_or_deleted_unseen_is_suspect_until_the_event_comes() {
        let store = store(&[("a", 5), ("b", 6), ("c", 7)], 10);
        let suspects = compared(&store, &[("a", 5), ("b", 11), ("d", 12)], 12);
        assert_eq!(
            suspects,
            [
                Suspect::Missing(key("b"), 11),
                Suspect::Missing(key("d"), 12),
                Suspect::Ghost(key("c"), 7)
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
    fn what_the_store_has_heard_of_since_the_list_is_not_suspect() {
        let store = store(&[("a", 5)], 10);
        store.apply(Object::parse(Bytes::from(text("a", 15))).unwrap());
        store.apply(Object::parse(Bytes::from(text("new", 16))).unwrap());
        let listed = [("a", 5)];
        let mut comparison = Comparison::default();
        for (name, version) in listed {
            comparison.look_at(
                &store,
                &Identity::scan(text(name, version).as_bytes()).unwrap(),
            );
        }
        assert_eq!(comparison.finish(&store, "12", Some(10)), []);
    }

    #[test]
    fn a_state_that_a_newer_list_has_taken_back_shows_that_history_was_lost() {
        let store = store(&[("a", 9)], 10);
        assert_eq!(
            compared(&store, &[("a", 5)], 12),
            [Suspect::TakenBack(key("a"), 9)]
        );
        assert_eq!(
            verdict(&[Suspect::TakenBack(key("a"), 9)]),
            Outcome::HistoryLost
        );
    }

    #[test]
    fn a_true_version_under_another_uid_is_suspect_until_a_list_has_put_it_right() {
        let forged = text("a", 5).replace(r#""uid":"a""#, r#""uid":"forged""#);
        let store = store(&[("b", 6)], 4);
        store.apply(Object::parse(Bytes::from(forged)).unwrap());
        let suspects = compared(&store, &[("a", 5), ("b", 6)], 12);
        assert_eq!(suspects, [Suspect::Forged(key("a"), 5, "a".into())]);
        assert!(lasts(&store, &suspects[0]));
        let listed = [("a", 5), ("b", 6)]
            .map(|(name, version)| store.ingest_listed(text(name, version).as_bytes()).unwrap());
        store.replace(listed.into(), "12".into()).unwrap();
        assert!(!lasts(&store, &suspects[0]));
        assert_eq!(compared(&store, &[("a", 5), ("b", 6)], 12), []);
    }

    #[test]
    fn a_list_from_before_the_store_tells_that_the_server_is_behind() {
        let store = store(&[("a", 5)], 10);
        assert_eq!(compared(&store, &[("a", 5)], 8), [Suspect::Behind]);
    }
}
