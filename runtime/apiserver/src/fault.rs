//! Faults that a server shows on purpose. Entry point: [`Faults`], a hook of [`Rule`]s.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//! use windlass_apiserver::{AnswerFault, EventFault, Faults, RequestFault, Rule, Server, Verb};
//!
//! let faults = Arc::new(Faults::default());
//! let server = Server::builder().cluster("alpha").cluster("beta").hook(faults.clone()).bind("127.0.0.1:0").await?;
//!
//! // For five seconds, three in ten lists of alpha are refused.
//! let busy = RequestFault::Status { code: 429, retry_after: Some("2".into()) };
//! faults.add(Rule::new(busy).cluster("alpha").verb(Verb::List).chance(0.3).lasting(Duration::from_secs(5)));
//! // The third event of ConfigMaps breaks its watch in the middle.
//! faults.add(Rule::new(EventFault::CutInside).resource("configmaps").after(2).times(1));
//! // Everything that beta answers takes its time, until the rule is removed.
//! let slow = faults.add(Rule::new(AnswerFault::Slow { bytes_per_second: 100 }).cluster("beta"));
//! faults.remove(slow);
//! # server.shutdown().await;
//! # Ok(())
//! # }
//! ```

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::call::Call;
use crate::hook::{AnswerVerdict, FrameVerdict, Hook, Reply, ReplyBody, RequestVerdict};
use crate::status::ApiError;

mod bomb;
mod damage;
mod rule;

pub use damage::Damage;
pub use rule::{AnswerFault, EventFault, Fault, RequestFault, Rule};

/// Most rules at a time; further ones are not taken.
const MAX_RULES: usize = 10_000;
/// What an endless answer or line consists of.
const ENDLESS: &[u8] = &[b'a'; 16 * 1024];

/// Names a rule of one [`Faults`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

/// A rule that is in force.
struct Active {
    id: RuleId,
    rule: Rule,
    until: Option<Instant>,
    /// How often it could have struck, chance aside.
    seen: u64,
    struck: u64,
    /// The rule's own, so that one rule's luck does not depend on another's.
    rng: fastrand::Rng,
}

impl Active {
    fn strikes(&mut self) -> bool {
        self.seen += 1;
        let strikes = self.seen > self.rule.skip
            && self.struck < self.rule.times
            && (self.rule.chance >= 1.0 || self.rng.f64() < self.rule.chance);
        self.struck += u64::from(strikes);
        strikes
    }
}

/// A hook of rules: of those that are about a request, an answer or an event, the first that strikes decides.
pub struct Faults {
    seed: u64,
    rules: Mutex<Rules>,
}

#[derive(Default)]
struct Rules {
    active: Vec<Active>,
    last: u64,
}

impl Default for Faults {
    /// No rules, and the same luck every time.
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Faults {
    /// No rules; the luck of those that are added follows from the seed and from the order in which they are.
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            rules: Mutex::default(),
        }
    }

    /// Puts a rule behind the others.
    pub fn add(&self, rule: Rule) -> RuleId {
        let now = Instant::now();
        let mut rules = self.rules.lock();
        rules.active.retain(|active| !active.is_over(now));
        rules.last += 1;
        let id = RuleId(rules.last);
        if rules.active.len() < MAX_RULES {
            rules.active.push(Active {
                id,
                until: rule.lasting.map(|time| now + time),
                rule,
                seen: 0,
                struck: 0,
                rng: fastrand::Rng::with_seed(self.seed.wrapping_add(id.0)),
            });
        }
        id
    }

    /// Takes a rule out. Returns how often it has struck; 0 for one that is not there.
    pub fn remove(&self, id: RuleId) -> u64 {
        let mut rules = self.rules.lock();
        let at = rules.active.iter().position(|active| active.id == id);
        at.map_or(0, |at| rules.active.remove(at).struck)
    }

    /// How often a rule has struck; 0 for one that is not there.
    pub fn struck(&self, id: RuleId) -> u64 {
        let rules = self.rules.lock();
        let found = rules.active.iter().find(|active| active.id == id);
        found.map_or(0, |active| active.struck)
    }

    /// Takes all rules out. What is silent already stays so.
    pub fn clear(&self) {
        self.rules.lock().active.clear();
    }

    /// The first fault that `pick` accepts, of the rules that are about a call, in their order, and that strikes.
    fn strike<F>(
        &self,
        cluster: &str,
        call: &Call,
        pick: impl Fn(&Fault) -> Option<F>,
    ) -> Option<F> {
        let mut rules = self.rules.lock();
        if rules.active.is_empty() {
            return None;
        }
        let now = Instant::now();
        rules.active.iter_mut().find_map(|active| {
            let fault = pick(&active.rule.fault)?;
            let meant = !active.is_over(now) && active.rule.is_about(cluster, call);
            (meant && active.strikes()).then_some(fault)
        })
    }
}

impl Active {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

impl Hook for Faults {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        let fault = self.strike(cluster, call, |fault| match fault {
            Fault::Request(fault) => Some(fault.clone()),
            _ => None,
        });
        match fault {
            None => RequestVerdict::Proceed,
            Some(RequestFault::Delay(time)) => RequestVerdict::Delay(time),
            Some(RequestFault::Status { code, retry_after }) => {
                RequestVerdict::Reply(refusal(code, retry_after))
            }
            Some(RequestFault::Cut) => RequestVerdict::Cut,
            Some(RequestFault::Silence) => RequestVerdict::Silence,
            Some(RequestFault::Stale { changes }) => RequestVerdict::Behind(changes),
        }
    }

    fn answer(&self, cluster: &str, call: &Call, body: &Bytes) -> AnswerVerdict {
        let fault = self.strike(cluster, call, |fault| match fault {
            Fault::Answer(fault) => Some(fault.clone()),
            _ => None,
        });
        let ok = |body| {
            AnswerVerdict::Reply(Reply {
                code: 200,
                headers: Vec::new(),
                body,
            })
        };
        match fault {
            None => AnswerVerdict::Send,
            Some(AnswerFault::Lost) => AnswerVerdict::Lose,
            Some(AnswerFault::CutInside) => ok(ReplyBody::Cut(body.slice(..body.len() / 2))),
            Some(AnswerFault::Slow { bytes_per_second }) => ok(ReplyBody::Slow {
                bytes: body.clone(),
                per_second: bytes_per_second,
            }),
            Some(AnswerFault::Damaged(damage)) => ok(ReplyBody::Whole(damage.to_answer(body))),
            Some(AnswerFault::Endless) => ok(ReplyBody::Endless(Bytes::from_static(ENDLESS))),
            Some(AnswerFault::Bomb { size }) => AnswerVerdict::Reply(Reply {
                code: 200,
                headers: vec![("content-encoding", "gzip".into())],
                body: ReplyBody::Whole(bomb::zeros(size)),
            }),
        }
    }

    fn frame(&self, cluster: &str, call: &Call, frame: &Bytes) -> FrameVerdict {
        let fault = self.strike(cluster, call, |fault| match fault {
            Fault::Event(fault) => Some(fault.clone()),
            _ => None,
        });
        match fault {
            None => FrameVerdict::Send,
            Some(EventFault::Delay(time)) => FrameVerdict::Delay(time),
            Some(EventFault::Drop) => FrameVerdict::Drop,
            Some(EventFault::End) => FrameVerdict::End,
            Some(EventFault::Cut) => FrameVerdict::Cut,
            Some(EventFault::CutInside) => FrameVerdict::CutAfter(frame.slice(..frame.len() / 2)),
            Some(EventFault::Silence) => FrameVerdict::Silence,
            Some(EventFault::Damaged(damage)) => FrameVerdict::Replace(damage.to_event(frame)),
            Some(EventFault::Error { code }) => {
                let status = error(code).to_status();
                let line = serde_json::json!({"type": "ERROR", "object": status});
                FrameVerdict::Replace(format!("{line}\n").into())
            }
            Some(EventFault::EndlessLine) => FrameVerdict::Endless(Bytes::from_static(ENDLESS)),
        }
    }
}

fn error(code: u16) -> ApiError {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    ApiError::new(code, reason, "refused on purpose")
}

fn refusal(code: u16, retry_after: Option<String>) -> Reply {
    Reply {
        code,
        headers: retry_after
            .map(|text| ("retry-after", text))
            .into_iter()
            .collect(),
        body: ReplyBody::Whole(error(code).to_status().to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Verb;
    use std::time::Duration;

    fn list(resource: &str) -> Call {
        Call::parse("GET", &format!("/api/v1/{resource}"), "")
    }

    fn struck(faults: &Faults, cluster: &str, resource: &str) -> bool {
        matches!(
            faults.request(cluster, &list(resource)),
            RequestVerdict::Cut
        )
    }

    #[test]
    fn a_rule_strikes_where_it_is_meant_to_and_as_often() {
        let faults = Faults::default();
        let rule = Rule::new(RequestFault::Cut)
            .cluster("alpha")
            .cluster("beta")
            .verb(Verb::List)
            .resource("pods")
            .after(1)
            .times(2);
        let id = faults.add(rule);
        assert!(!struck(&faults, "gamma", "pods") && !struck(&faults, "alpha", "nodes"));
        let often: Vec<bool> = ["alpha", "beta", "alpha", "alpha"]
            .iter()
            .map(|cluster| struck(&faults, cluster, "pods"))
            .collect();
        assert_eq!(often, [false, true, true, false]);
        assert_eq!((faults.struck(id), faults.remove(id)), (2, 2));
        assert_eq!(faults.remove(id), 0);
    }

    #[test]
    fn the_first_rule_that_strikes_decides_and_others_are_asked_about_other_things() {
        let faults = Faults::default();
        let event = faults.add(Rule::new(EventFault::Drop));
        faults.add(Rule::new(RequestFault::Delay(Duration::ZERO)).times(1));
        faults.add(Rule::new(RequestFault::Cut));
        let verdict = faults.request("alpha", &list("pods"));
        assert!(matches!(verdict, RequestVerdict::Delay(_)));
        assert!(struck(&faults, "alpha", "pods"));
        assert_eq!(faults.struck(event), 0);
        faults.clear();
        assert!(!struck(&faults, "alpha", "pods"));
    }

    #[test]
    fn luck_follows_from_the_seed() {
        let played = |seed| -> Vec<bool> {
            let faults = Faults::seeded(seed);
            faults.add(Rule::new(RequestFault::Cut).chance(0.5));
            (0..64).map(|_| struck(&faults, "alpha", "pods")).collect()
        };
        assert_eq!(played(7), played(7));
        assert_ne!(played(7), played(8));
        let often = played(7).iter().filter(|struck| **struck).count();
        assert!((16..48).contains(&often), "{often}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_that_has_lasted_strikes_no_more() {
        let faults = Faults::default();
        faults.add(Rule::new(RequestFault::Cut).lasting(Duration::from_secs(5)));
        assert!(struck(&faults, "alpha", "pods"));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!struck(&faults, "alpha", "pods"));
    }
}
