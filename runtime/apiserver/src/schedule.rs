//! Random faults that can be repeated: [`Schedule`] depends only on its seed.
//!
//! ```
//! use std::time::Duration;
//! use windlass_apiserver::{Schedule, Shape};
//!
//! let shape = Shape {
//!     clusters: vec!["alpha".into(), "beta".into()],
//!     resources: vec!["configmaps".into()],
//!     length: Duration::from_secs(10),
//!     steps: 20,
//! };
//! assert_eq!(Schedule::random(7, &shape), Schedule::random(7, &shape));
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use crate::call::Verb;
use crate::cluster::Backup;
use crate::fault::{AnswerFault, Damage, EventFault, Fault, Faults, RequestFault, Rule};
use crate::server::Server;

/// What a random schedule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Clusters that it disturbs.
    pub clusters: Vec<String>,
    /// Plurals of the resources that it forbids to list and to watch, one at a time.
    pub resources: Vec<String>,
    /// From its begin until its last fault has ended.
    pub length: Duration,
    /// How many things go wrong.
    pub steps: usize,
}

/// Things that go wrong, in the order in which they do.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    steps: Vec<Step>,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When, from the begin.
    pub at: Duration,
    /// The cluster that it happens to.
    pub cluster: String,
    /// What.
    pub disturbance: Disturbance,
}

/// What can happen to a cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Disturbance {
    /// Requests, answers or events go wrong.
    Fault(Rule),
    /// Its watches break.
    CutWatches,
    /// Its past is forgotten.
    Compact,
    /// Nobody reaches it for so long.
    Down(Duration),
    /// It is restarted: its watches break and its past is forgotten.
    Restart,
    /// Its data are lost and restored ([`Cluster::restore`](crate::Cluster::restore)) as they were at the begin, or at the last
    /// time that this or a [`Disturbance::RollBack`] happened.
    Restore,
    /// The same, with versions that go back too ([`Cluster::roll_back`](crate::Cluster::roll_back)).
    RollBack,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {:?}", self.at, self.cluster, self.disturbance)
    }
}

impl Schedule {
    /// A schedule of all sorts of faults. The same seed and shape make the same one.
    pub fn random(seed: u64, shape: &Shape) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut steps: Vec<Step> = (0..shape.steps)
            .filter_map(|_| step(&mut rng, shape))
            .collect();
        steps.sort_by(|a, b| (a.at, &a.cluster).cmp(&(b.at, &b.cluster)));
        Self { steps }
    }

    /// The same without the steps at some places.
    #[must_use]
    pub fn without(mut self, places: &BTreeSet<usize>) -> Self {
        let mut at = 0..;
        // A range without an end has a next number.
        self.steps
            .retain(|_| at.next().is_none_or(|at| !places.contains(&at)));
        self
    }

    /// Its steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Plays it, and returns when its last fault has ended. `faults` must be the server's hook. Dropping the future leaves the
    /// clusters as they are at that moment.
    pub async fn play(&self, server: &Server, faults: &Faults) {
        let began = Instant::now();
        let mut backups: BTreeMap<&str, Backup> = BTreeMap::new();
        let restored = |step: &&Step| {
            matches!(
                step.disturbance,
                Disturbance::Restore | Disturbance::RollBack
            )
        };
        for step in self.steps.iter().filter(restored) {
            if let Some(cluster) = server.cluster(&step.cluster) {
                backups.insert(&step.cluster, cluster.backup());
            }
        }
        let mut away: Vec<(Instant, &str)> = Vec::new();
        let mut end = began;
        for step in &self.steps {
            come_back(server, &mut away, began + step.at).await;
            tokio::time::sleep_until(began + step.at).await;
            let Some(cluster) = server.cluster(&step.cluster) else {
                continue;
            };
            match &step.disturbance {
                Disturbance::Fault(rule) => {
                    end = end.max(Instant::now() + rule.lasting.unwrap_or_default());
                    faults.add(rule.clone());
                }
                Disturbance::CutWatches => cluster.cut_watches(),
                Disturbance::Compact => cluster.compact(),
                Disturbance::Down(time) => {
                    cluster.down(true);
                    away.push((Instant::now() + *time, &step.cluster));
                    away.sort_by_key(|(back, _)| std::cmp::Reverse(*back));
                }
                Disturbance::Restart => {
                    cluster.compact();
                    cluster.cut_watches();
                }
                Disturbance::Restore | Disturbance::RollBack => {
                    match backups.get(step.cluster.as_str()) {
                        Some(backup) if step.disturbance == Disturbance::Restore => {
                            cluster.restore(backup);
                        }
                        Some(backup) => cluster.roll_back(backup),
                        None => {}
                    }
                    backups.insert(&step.cluster, cluster.backup());
                }
            }
        }
        let last = away.first().map_or(end, |(back, _)| *back);
        come_back(server, &mut away, last).await;
        tokio::time::sleep_until(end).await;
    }
}

/// Brings the clusters back that are away no longer than `until`, each in its time. The next one stands last.
async fn come_back(server: &Server, away: &mut Vec<(Instant, &str)>, until: Instant) {
    while let Some((back, name)) = away.pop_if(|(back, _)| *back <= until) {
        tokio::time::sleep_until(back).await;
        // One that went away again meanwhile stays so for its longest time.
        let again = away.iter().any(|(_, other)| *other == name);
        if let Some(cluster) = server.cluster(name).filter(|_| !again) {
            cluster.down(false);
        }
    }
}

fn step(rng: &mut Rng, shape: &Shape) -> Option<Step> {
    let cluster = rng.choice(&shape.clusters)?.clone();
    let length = u64::try_from(shape.length.as_millis()).unwrap_or(u64::MAX);
    let at = rng.u64(0..=length);
    let left = Duration::from_millis(length - at);
    let lasting = Duration::from_millis(rng.u64(200..=4_000)).min(left);
    let disturbance = match rng.u8(0..20) {
        0 => Disturbance::CutWatches,
        1 => Disturbance::Compact,
        2 => Disturbance::Restart,
        3 => Disturbance::Down(lasting),
        4 if rng.bool() => Disturbance::Restore,
        4 => Disturbance::RollBack,
        5..=9 => Disturbance::Fault(of_requests(rng, shape).cluster(&cluster).lasting(lasting)),
        10..=13 => Disturbance::Fault(of_answers(rng).cluster(&cluster).lasting(lasting)),
        _ => Disturbance::Fault(of_events(rng).cluster(&cluster).lasting(lasting)),
    };
    Some(Step {
        at: Duration::from_millis(at),
        cluster,
        disturbance,
    })
}

fn with_luck(rng: &mut Rng, fault: impl Into<Fault>) -> Rule {
    Rule::new(fault).chance(rng.choice([0.05, 0.2, 0.5, 1.0]).unwrap_or(1.0))
}

fn of_requests(rng: &mut Rng, shape: &Shape) -> Rule {
    const WRITES: [Verb; 2] = [Verb::Patch, Verb::Create];
    let retry_after = [None, Some("1"), Some("0"), Some("-5"), Some("soon")];
    let refused = |rng: &mut Rng, codes: &[u16]| RequestFault::Status {
        code: rng.choice(codes).copied().unwrap_or(503),
        retry_after: rng.choice(retry_after).flatten().map(str::to_owned),
    };
    match rng.u8(0..9) {
        0 => with_luck(rng, RequestFault::Delay(Duration::from_millis(300))),
        1 => {
            let fault = refused(rng, &[429, 500, 503, 504]);
            with_luck(rng, fault)
        }
        2 => {
            let fault = refused(rng, &[410]);
            with_luck(rng, fault).verb(Verb::List).verb(Verb::Watch)
        }
        3 => {
            let fault = refused(rng, &[409]);
            with_luck(rng, fault).verb(WRITES[0]).verb(WRITES[1])
        }
        4 => {
            let fault = refused(rng, &[401, 403, 404]);
            with_luck(rng, fault)
        }
        5 => with_luck(rng, RequestFault::Cut),
        6 => with_luck(rng, RequestFault::Silence),
        7 => {
            let fault = refused(rng, &[403]);
            let rule = Rule::new(fault).verb(Verb::List).verb(Verb::Watch);
            match rng.choice(&shape.resources) {
                Some(resource) => rule.resource(resource),
                None => rule,
            }
        }
        _ => {
            let changes = rng.u64(1..50);
            with_luck(rng, RequestFault::Stale { changes })
        }
    }
}

fn damage(rng: &mut Rng) -> Damage {
    let all = [
        Damage::Garbage,
        Damage::Other,
        Damage::BadUtf8,
        Damage::NoVersion,
        Damage::SameUid,
    ];
    rng.choice(all).unwrap_or(Damage::Garbage)
}

fn of_answers(rng: &mut Rng) -> Rule {
    let fault = match rng.u8(0..6) {
        0 => AnswerFault::Lost,
        1 => AnswerFault::CutInside,
        2 => AnswerFault::Slow {
            bytes_per_second: rng.choice([1, 100, 10_000]).unwrap_or(1),
        },
        3 => AnswerFault::Bomb { size: 16 << 20 },
        _ => AnswerFault::Damaged(damage(rng)),
    };
    with_luck(rng, fault)
}

fn of_events(rng: &mut Rng) -> Rule {
    let fault = match rng.u8(0..10) {
        0 => EventFault::Delay(Duration::from_millis(rng.u64(10..500))),
        1 => EventFault::Drop,
        2 => EventFault::Cut,
        3 | 4 => EventFault::CutInside,
        5 => EventFault::Silence,
        6 => EventFault::End,
        7 => EventFault::Error {
            code: rng.choice([410, 500, 504]).unwrap_or(410),
        },
        _ => EventFault::Damaged(damage(rng)),
    };
    with_luck(rng, fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::mem::discriminant;

    fn shape() -> Shape {
        Shape {
            clusters: vec!["alpha".into(), "beta".into()],
            resources: vec!["configmaps".into()],
            length: Duration::from_secs(10),
            steps: 400,
        }
    }

    #[test]
    fn a_schedule_follows_from_its_seed_alone() {
        let first = Schedule::random(7, &shape());
        assert_eq!(first, Schedule::random(7, &shape()));
        assert_ne!(first, Schedule::random(8, &shape()));
        let clusters: BTreeSet<&str> = first
            .steps()
            .iter()
            .map(|step| step.cluster.as_str())
            .collect();
        assert_eq!(clusters, ["alpha", "beta"].into());
    }

    #[test]
    fn a_long_schedule_has_every_sort_of_fault_within_its_length() {
        let schedule = Schedule::random(7, &shape());
        let mut kinds = Vec::new();
        for step in schedule.steps() {
            let lasting = match &step.disturbance {
                Disturbance::Fault(rule) => rule.lasting.unwrap_or_default(),
                Disturbance::Down(time) => *time,
                _ => Duration::ZERO,
            };
            assert!(step.at + lasting <= Duration::from_secs(10), "{step}");
            kinds.push(discriminant(&step.disturbance));
        }
        kinds.dedup_by(|a, b| a == b);
        let distinct = kinds.iter().enumerate();
        let distinct = distinct.filter(|(at, kind)| !kinds[..*at].contains(kind));
        assert_eq!(distinct.count(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_schedule_takes_away_it_brings_back() -> Result<(), crate::server::BindError> {
        let server = Server::builder()
            .cluster("alpha")
            .cluster("beta")
            .bind("127.0.0.1:0")
            .await?;
        let (faults, began) = (Faults::default(), Instant::now());
        Schedule::random(7, &shape()).play(&server, &faults).await;
        for name in server.clusters() {
            assert!(
                server
                    .cluster(&name)
                    .is_some_and(|cluster| !cluster.is_down())
            );
        }
        assert!(began.elapsed() <= Duration::from_secs(11));
        Ok(())
    }
}
