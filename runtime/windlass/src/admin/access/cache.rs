//! What the local cluster said about tokens and their users, for some seconds. No I/O. Entry point: [`Cache`].

use super::reviews::{Question, User};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an answer counts. A revoked token or right works no longer than this, and a new right waits no longer.
pub(super) const KEPT: Duration = Duration::from_secs(10);
/// Most users at a time.
const MOST: usize = 256;
/// Most answers about one user: more than the API has paths.
const MOST_ANSWERS: usize = 32;

/// A token, for these audiences.
pub(super) type TokenDigest = [u8; 32];

/// The users of tokens. What is no token of a user is not kept, so strangers displace nobody.
#[derive(Default)]
pub(super) struct Cache {
    known: HashMap<TokenDigest, Known>,
}

struct Known {
    user: Arc<User>,
    /// For the user and all answers about it.
    until: Instant,
    answers: HashMap<Question, bool>,
}

impl Cache {
    /// The user of a token.
    pub(super) fn user(&self, token: &TokenDigest, now: Instant) -> Option<Arc<User>> {
        let known = self.known.get(token)?;
        (now < known.until).then(|| known.user.clone())
    }

    /// Whether the user of a token may make a request.
    pub(super) fn answer(
        &self,
        token: &TokenDigest,
        question: &Question,
        now: Instant,
    ) -> Option<bool> {
        let known = self.known.get(token)?;
        (now < known.until).then(|| known.answers.get(question).copied())?
    }

    /// Keeps the user of a token. If there are too many, the one that has been known for the longest time goes.
    pub(super) fn put_user(&mut self, token: TokenDigest, user: Arc<User>, now: Instant) {
        self.known.retain(|_, known| now < known.until);
        if self.known.len() >= MOST && !self.known.contains_key(&token) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.until);
            if let Some(oldest) = oldest.map(|(token, _)| *token) {
                self.known.remove(&oldest);
            }
        }
        let known = Known {
            user,
            until: now + KEPT,
            answers: HashMap::new(),
        };
        self.known.insert(token, known);
    }

    /// Keeps an answer for as long as its user.
    pub(super) fn put_answer(&mut self, token: &TokenDigest, question: Question, allowed: bool) {
        if let Some(known) = self.known.get_mut(token)
            && known.answers.len() < MOST_ANSWERS
        {
            known.answers.insert(question, allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(path: &str) -> Question {
        Question {
            verb: "get",
            path: path.to_owned(),
        }
    }

    fn token(of: usize) -> TokenDigest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&of.to_le_bytes());
        digest
    }

    #[test]
    fn answers_end_with_their_user() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        assert!(cache.user(&token(1), start).is_none());
        cache.put_answer(&token(1), question("/a"), true);
        assert_eq!(cache.answer(&token(1), &question("/a"), start), None);
        cache.put_user(token(1), Arc::default(), start);
        cache.put_answer(&token(1), question("/a"), true);
        cache.put_answer(&token(1), question("/b"), false);
        let last = start + KEPT - Duration::from_millis(1);
        let answers =
            |now| ["/a", "/b", "/c"].map(|path| cache.answer(&token(1), &question(path), now));
        assert_eq!(answers(last), [Some(true), Some(false), None]);
        assert!(cache.user(&token(1), last).is_some());
        assert_eq!(answers(start + KEPT), [None; 3]);
        assert!(cache.user(&token(1), start + KEPT).is_none());
    }

    #[test]
    fn the_oldest_user_goes_when_there_are_too_many() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        let at = |of: usize| start + Duration::from_millis(of as u64);
        for of in 0..=MOST {
            cache.put_user(token(of), Arc::default(), at(of));
        }
        assert_eq!(cache.known.len(), MOST);
        assert!(cache.user(&token(0), at(MOST)).is_none());
        assert!(cache.user(&token(1), at(MOST)).is_some());
        for path in 0..2 * MOST_ANSWERS {
            cache.put_answer(&token(1), question(&path.to_string()), true);
        }
        assert_eq!(cache.known[&token(1)].answers.len(), MOST_ANSWERS);
    }
}
