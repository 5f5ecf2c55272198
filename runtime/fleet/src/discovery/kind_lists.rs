//! What equal servers serve is kept once: a list of kinds takes 20 to 100 KB, and most servers of a fleet are alike. Entry point: [`shared`].

use super::Known;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, LazyLock, Weak};

/// One for the whole process. It has at most one list for each connected server.
static LISTS: LazyLock<Mutex<Lists>> = LazyLock::new(Mutex::default);

/// Lists that are in use, by their digests.
#[derive(Default)]
struct Lists(HashMap<u64, Weak<Known>>);

/// The same list as everybody has who knows the same. One with group versions that do not answer is for its server alone.
pub(super) fn shared(known: Known) -> Arc<Known> {
    if known.failed.is_empty() {
        let digest = digest(&known);
        LISTS.lock().shared(digest, known)
    } else {
        Arc::new(known)
    }
}

impl Lists {
    fn shared(&mut self, digest: u64, known: Known) -> Arc<Known> {
        let kept = self.0.get(&digest).and_then(Weak::upgrade);
        match kept {
            Some(kept) if *kept == known => kept,
            _ => {
                let known = Arc::new(known);
                self.0.retain(|_, list| list.strong_count() > 0);
                self.0.insert(digest, Arc::downgrade(&known));
                known
            }
        }
    }
}

/// Equal for equal lists, in whichever order their kinds are.
fn digest(known: &Known) -> u64 {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let each = known.by_kind.values().map(|kind| hasher.hash_one(kind));
    each.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kinds: &[&str]) -> Known {
        let mut known = Known::default();
        for kind in kinds {
            known.add("example.dev", "v1", kind, &kind.to_lowercase(), true);
        }
        known
    }

    #[test]
    fn equal_lists_are_one_and_are_forgotten_with_their_last_user() {
        let mut lists = Lists::default();
        let mut share = |kinds: &[&str]| lists.shared(digest(&of(kinds)), of(kinds));
        let one = share(&["Website", "Database"]);
        let same = share(&["Database", "Website"]);
        let other = share(&["Website"]);
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        assert_eq!(lists.0.len(), 2);
        drop((one, same));
        let last = of(&["Queue"]);
        let _last = lists.shared(digest(&last), last);
        assert_eq!(lists.0.len(), 2, "{:?}", lists.0.keys());
        assert!(*other == of(&["Website"]));
    }

    #[test]
    fn lists_that_differ_in_the_preferred_version_alone_are_two() {
        let version = |first: &str, second: &str| {
            let mut known = Known::default();
            known.add("example.dev", first, "Website", "websites", true);
            known.add("example.dev", second, "Website", "websites", true);
            known
        };
        let mut lists = Lists::default();
        let mut share = |known: Known| lists.shared(digest(&known), known);
        let one = share(version("v1", "v2"));
        let other = share(version("v2", "v1"));
        assert!(!Arc::ptr_eq(&one, &other));
    }
}
