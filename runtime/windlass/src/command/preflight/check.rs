//! Asks one cluster everything. Entry point: [`check`].

use super::needs::Ask;
use super::report::{ClusterReport, Missing};
use crate::config::rbac::{Findings, Question, Review};
use futures::{StreamExt, stream};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use windlass_fleet::Cluster;
use windlass_fleet::cluster::{self, Scope};
use windlass_fleet::grant::{Identity, Right, RuleSet};

/// Questions to one cluster at once.
const QUESTIONS_AT_ONCE: usize = 8;

/// The time that all clusters have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// When it ends.
    pub(super) until: Instant,
    /// How long it is, for people.
    pub(super) length: Duration,
}

/// Waits for a cluster, then asks about it and about rights there. What is not answered within the limit is reported as such. `name` is
/// the name in the report.
pub(super) async fn check(
    cluster: Arc<Cluster>,
    name: String,
    provider: Option<String>,
    asks: Vec<Ask>,
    limit: Limit,
    permits: Arc<Semaphore>,
) -> ClusterReport {
    let mut report = ClusterReport {
        name,
        provider,
        server: cluster.config().server(),
        ..ClusterReport::default()
    };
    let reached = timeout_at(limit.until, cluster.reached()).await;
    let reason = match reached {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.message),
        Err(_) => {
            let reason = cluster.status().reason;
            Some(format!("no answer within {:?}: {reason}", limit.length))
        }
    };
    if reason.is_some() {
        return ClusterReport { reason, ..report };
    }
    report.reachable = true;
    let answers = async {
        // The semaphore is never closed.
        let _permit = permits.acquire().await;
        ask(&cluster, &asks, &mut report).await;
    };
    if timeout_at(limit.until, answers).await.is_err() {
        let problem = format!("not answered within {:?}", limit.length);
        report.unchecked.get_or_insert(problem);
    }
    report.identity = cluster.identity();
    report.credentials_until = cluster.status().credentials_until;
    report
}

async fn ask(cluster: &Cluster, asks: &[Ask], report: &mut ClusterReport) {
    // It is for people, and nothing depends on it.
    report.version = cluster.server_version().await.ok();
    if matches!(cluster.scope(), Scope::Workspace(_)) {
        report.unchecked = refused_claims(cluster, asks);
        return;
    }
    report.user = user(cluster).await;
    for ask in asks {
        let findings = match ask.user.as_ref().map(|user| user.identity()).transpose() {
            Ok(identity) => review(cluster, ask.permissions(), identity.as_ref()).await,
            Err(error) => Findings {
                problem: Some(error.to_string()),
                ..Findings::default()
            },
        };
        report.missing.extend(missing(ask, &findings.missing));
        if let Some(problem) = findings.problem {
            let problem = match &ask.user {
                Some(user) => format!("in the name of {:?}: {problem}", user.user),
                None => problem,
            };
            report.unchecked.get_or_insert(problem);
        }
    }
}

/// What the owner of a workspace does not let the export use. kcp answers no question about rights there, and lets its owner use the rest.
fn refused_claims(cluster: &Cluster, asks: &[Ask]) -> Option<String> {
    let refused = cluster.refused_claims();
    let needed = refused.iter().filter(|(group, resource)| {
        let is_it = |one: &Right| *one.group == **group && one.resource_parts().0 == &**resource;
        asks.iter().any(|ask| ask.permissions().iter().any(is_it))
    });
    let needed: Vec<&str> = needed.map(|(_, resource)| &**resource).collect();
    (!needed.is_empty()).then(|| {
        let needed = needed.join(", ");
        format!("its APIBinding does not accept the claims on {needed}: its owner must accept them")
    })
}

/// The name of the credentials' user. Servers before 1.28 do not tell it.
async fn user(cluster: &Cluster) -> Option<String> {
    let review = cluster.review(cluster::Review::User, &json!(null), None);
    let status = review.await.ok()?;
    status["userInfo"]["username"].as_str().map(str::to_owned)
}

/// What a user lacks: the credentials' own, or one whom they impersonate.
async fn review(cluster: &Cluster, permissions: RuleSet, identity: Option<&Identity>) -> Findings {
    let mut review = Review::new(permissions);
    loop {
        let questions = review.questions();
        if questions.is_empty() {
            return review.findings();
        }
        let answers = questions.into_iter().map(|question| async move {
            let answer = answer(cluster, &question, identity).await;
            (question, answer)
        });
        let mut answers = stream::iter(answers).buffer_unordered(QUESTIONS_AT_ONCE);
        while let Some((question, answer)) = answers.next().await {
            review.answer(&question, answer);
        }
    }
}

async fn answer(
    cluster: &Cluster,
    question: &Question,
    identity: Option<&Identity>,
) -> Result<Json, String> {
    let kind = match question {
        Question::Rules(_) => cluster::Review::Rules,
        Question::Access(_) => cluster::Review::Access,
    };
    let answer = cluster.review(kind, &question.spec(), identity).await;
    answer.map_err(|error| error.message)
}

/// The part of the missing permissions that each needs.
fn missing(ask: &Ask, missing: &RuleSet) -> Vec<Missing> {
    let lacks = ask.needs.iter().map(|need| {
        let mut rules = need.permissions.and(missing);
        rules.reduce();
        let watches = need.watches.and(missing).into_iter();
        let watches: BTreeSet<_> = watches.map(|right| right.resource.to_string()).collect();
        Missing {
            provider: need.provider.clone(),
            reconciler: need.reconciler.clone(),
            impersonates: ask.user.as_ref().map(|user| user.user.clone()),
            watches: watches.into_iter().collect(),
            rules,
        }
    });
    lacks.filter(|lack| !lack.rules.is_empty()).collect()
}
