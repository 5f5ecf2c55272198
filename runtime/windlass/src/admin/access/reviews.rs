//! Asks the local cluster who a token's user is, and what the user may do. Entry point: [`Reviews::caller`].
//!
//! A token must be for one of the process's audiences. So a token that someone uses elsewhere does not work here, and this process cannot use
//! its callers' tokens elsewhere.

use super::super::Refused;
use super::Caller;
use super::cache::{Cache, TokenDigest};
use crate::app::App;
use axum::http::StatusCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{Cluster, Review};

/// Time for all questions about one request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions to the local cluster at once, however many strangers call.
const AT_ONCE: usize = 8;

/// A user, as the local cluster describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct User {
    username: Arc<str>,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// A request that a user makes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// `get` or `post`.
    pub(super) verb: &'static str,
    /// The path that rights are about, without a query.
    pub(super) path: String,
}

/// The questions to the local cluster, and its latest answers.
pub(super) struct Reviews {
    cache: Mutex<Cache>,
    permits: Semaphore,
}

impl Default for Reviews {
    fn default() -> Self {
        Self {
            cache: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
        }
    }
}

impl Reviews {
    /// The user of a token, if it may make a request.
    ///
    /// # Errors
    /// 401 if the token has no user here, 403 if its user may not make the request, 503 if the local cluster cannot say.
    pub(super) async fn caller(
        &self,
        app: &App,
        token: Option<&str>,
        audiences: &[String],
        question: Question,
    ) -> Result<Caller, Refused> {
        let Some(token) = token else {
            return Err(unknown(audiences, "the request has none"));
        };
        let digest = digest(token, audiences);
        let now = Instant::now();
        let (user, allowed) = {
            let cache = self.cache.lock();
            let allowed = cache.answer(&digest, &question, now);
            (cache.user(&digest, now), allowed)
        };
        let (user, allowed) = match (user, allowed) {
            (Some(user), Some(allowed)) => (user, allowed),
            (user, _) => {
                let asked = self.ask(app, token, digest, audiences, &question, user);
                timeout(PATIENCE, asked)
                    .await
                    .unwrap_or_else(|_| Err(no_answer("it does not answer in time")))?
            }
        };
        if allowed {
            Ok(Caller {
                name: user.username.clone(),
            })
        } else {
            Err(forbidden(&user, &question))
        }
    }

    async fn ask(
        &self,
        app: &App,
        token: &str,
        digest: TokenDigest,
        audiences: &[String],
        question: &Question,
        known: Option<Arc<User>>,
    ) -> Result<(Arc<User>, bool), Refused> {
        let local = app.manager.fleet().cluster(&ClusterName::local());
        let local = local.ok_or_else(|| no_answer("there is none: name one in spec.local"))?;
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let user = match known {
            Some(user) => user,
            None => {
                let user = Arc::new(user_of(&local, token, audiences).await?);
                let mut cache = self.cache.lock();
                cache.put_user(digest, user.clone(), Instant::now());
                user
            }
        };
        let allowed = may(&local, &user, question).await?;
        let mut cache = self.cache.lock();
        cache.put_answer(&digest, question.clone(), allowed);
        Ok((user, allowed))
    }
}

/// The key of a token in the cache: other audiences may be the wrong ones.
fn digest(token: &str, audiences: &[String]) -> TokenDigest {
    let mut hash = Sha256::new();
    for audience in audiences {
        hash.update(audience);
        hash.update([0]);
    }
    hash.update([0]);
    hash.update(token);
    hash.finalize().into()
}

/// The status of a TokenReview.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: User,
    audiences: Vec<String>,
}

async fn user_of(local: &Cluster, token: &str, audiences: &[String]) -> Result<User, Refused> {
    let spec = json!({"token": token, "audiences": audiences});
    let status = review(local, Review::Token, &spec).await?;
    let status = TokenStatus::deserialize(status).unwrap_or_default();
    if !status.authenticated || status.user.username.is_empty() {
        return Err(unknown(
            audiences,
            "the local cluster does not know this one",
        ));
    }
    // A server that does not know audiences names none.
    if !status.audiences.iter().any(|of| audiences.contains(of)) {
        return Err(unknown(audiences, "this one is for another audience"));
    }
    Ok(status.user)
}

async fn may(local: &Cluster, user: &User, question: &Question) -> Result<bool, Refused> {
    let spec = access(user, question);
    let status = review(local, Review::AccessOfUser, &spec).await?;
    Ok(status["allowed"] == true)
}

/// The `spec` of a SubjectAccessReview.
fn access(user: &User, question: &Question) -> Json {
    json!({
        "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
        "nonResourceAttributes": {"verb": question.verb, "path": question.path},
    })
}

async fn review(local: &Cluster, kind: Review, spec: &Json) -> Result<Json, Refused> {
    let answer = local.review(kind, spec, None).await;
    answer.map_err(|error| no_answer(&error.message))
}

fn no_answer(reason: &str) -> Refused {
    let message = format!(
        "the local cluster cannot be asked about callers, see windlass rbac --local: {reason}"
    );
    Refused(StatusCode::SERVICE_UNAVAILABLE, message)
}

fn unknown(audiences: &[String], reason: &str) -> Refused {
    let audience = audiences.first().map_or("", String::as_str);
    let message = format!(
        "a token of the local cluster for the audience {audience} is needed, and {reason}: kubectl create token ACCOUNT --audience {audience}"
    );
    Refused(StatusCode::UNAUTHORIZED, message)
}

fn forbidden(user: &User, question: &Question) -> Refused {
    let (name, Question { verb, path }) = (&user.username, question);
    let message =
        format!("the user {name:?} may not {verb} {path}: bind a role of windlass rbac --callers");
    Refused(StatusCode::FORBIDDEN, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_asked_about_as_the_cluster_describes_it() {
        let described =
            json!({"username": "jane", "uid": "1", "groups": ["ops"], "extra": {"k": ["v"]}});
        let user = User::deserialize(described).unwrap();
        let question = Question {
            verb: "post",
            path: "/windlass/api/v1/requeue".to_owned(),
        };
        let expected = json!({
            "user": "jane", "uid": "1", "groups": ["ops"], "extra": {"k": ["v"]},
            "nonResourceAttributes": {"verb": "post", "path": "/windlass/api/v1/requeue"},
        });
        assert_eq!(access(&user, &question), expected);
    }

    #[test]
    fn a_token_is_another_one_for_other_audiences() {
        let audiences = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let of = |token: &str, all: &[&str]| digest(token, &audiences(all));
        assert_eq!(of("t", &["a", "b"]), of("t", &["a", "b"]));
        for other in [
            of("t", &["a"]),
            of("t", &["ab"]),
            of("bt", &["a"]),
            of("u", &["a", "b"]),
        ] {
            assert_ne!(other, of("t", &["a", "b"]));
        }
    }
}
