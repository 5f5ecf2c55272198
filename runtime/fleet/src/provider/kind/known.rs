//! What is known of each cluster of the last list, and when its kubeconfig is read next. It does no I/O and takes the time as an
//! argument. Entry point: [`Known`].

use super::Pace;
use super::command::ConfigError;
use crate::backoff::Backoff;
use crate::cluster::ClusterConfig;
use crate::engage::{ClusterSpec, ServerChange};
use crate::name::ClusterName;
use crate::provider::Problem;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// The clusters of the last successful list.
pub(super) struct Known {
    pace: Pace,
    clusters: BTreeMap<ClusterName, Entry>,
    /// How many lists there were.
    lists: u64,
}

/// A cluster of the list.
struct Entry {
    /// The list in which it appeared. A kubeconfig that was asked for earlier is of another cluster.
    since: u64,
    /// How it was reached when its kubeconfig was last read with success.
    config: Option<ClusterConfig>,
    /// Why its kubeconfig could not be read the last time.
    problem: Option<String>,
    /// When its kubeconfig is read next; `None` while it is being read.
    due: Option<Instant>,
    /// Whether its kubeconfig was read, with success or without.
    was_read: bool,
    backoff: Backoff,
}

/// A kubeconfig that is being read.
pub(super) struct Reading {
    pub(super) name: ClusterName,
    since: u64,
}

impl Known {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            clusters: BTreeMap::new(),
            lists: 0,
        }
    }

    /// Takes over a list: only this removes a cluster.
    pub(super) fn list(&mut self, names: BTreeSet<ClusterName>, now: Instant) {
        self.lists += 1;
        self.clusters.retain(|name, _| names.contains(name));
        for name in names {
            self.clusters.entry(name).or_insert_with(|| Entry {
                since: self.lists,
                config: None,
                problem: None,
                due: Some(now),
                was_read: false,
                backoff: self.pace.backoff(),
            });
        }
    }

    /// When the next kubeconfig is to be read.
    pub(super) fn next(&self) -> Option<Instant> {
        self.clusters.values().filter_map(|entry| entry.due).min()
    }

    /// Begins to read the kubeconfig that has been due for longest; `None` if none is due.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Reading> {
        let due = |(_, entry): &(_, &mut Entry)| entry.due.is_some_and(|due| due <= now);
        let waiting = self.clusters.iter_mut().filter(due);
        let (name, entry) = waiting.min_by_key(|(_, entry)| entry.due)?;
        entry.due = None;
        Some(Reading {
            name: name.clone(),
            since: entry.since,
        })
    }

    /// Stores what was read. True if the cluster is another one than before although its address is the same, as of a cluster that was
    /// made anew with a fixed port.
    pub(super) fn end(
        &mut self,
        reading: &Reading,
        config: Result<ClusterConfig, ConfigError>,
        now: Instant,
        rng: &mut Rng,
    ) -> bool {
        let entry = self.clusters.get_mut(&reading.name);
        let Some(entry) = entry.filter(|entry| entry.since == reading.since) else {
            return false;
        };
        entry.was_read = true;
        match config {
            Ok(config) => {
                entry.backoff.reset();
                entry.due = Some(now + Pace::after(self.pace.read, rng));
                entry.problem = None;
                let before = entry.config.replace(config.clone());
                // kind gives each cluster an authority of its own, and never another one.
                before.is_some_and(|before| {
                    before.same_server(&config) && !before.same_authority(&config)
                })
            }
            Err(error) => {
                entry.due = Some(now + entry.backoff.next(rng));
                entry.problem = Some(error.to_string());
                false
            }
        }
    }

    /// Whether the kubeconfig of every cluster was read, with success or without.
    pub(super) fn all_read(&self) -> bool {
        self.clusters.values().all(|entry| entry.was_read)
    }

    /// The clusters whose kubeconfig was read, as it was when that last succeeded.
    pub(super) fn specs(&self) -> BTreeMap<ClusterName, ClusterSpec> {
        let clusters = self.clusters.iter();
        let spec = |(name, entry): (&ClusterName, &Entry)| {
            let mut spec = ClusterSpec::new(name.clone(), entry.config.clone()?);
            // Another server under the name is another cluster: the one before was deleted.
            spec.on_server_change = ServerChange::Stop;
            Some((name.clone(), spec))
        };
        clusters.filter_map(spec).collect()
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.clusters.iter().filter_map(|(name, entry)| {
            Some(Problem {
                subject: name.to_string(),
                message: entry.problem.clone()?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::KubeconfigPolicy;
    use crate::provider::kind::PACE;
    use crate::provider::kind::command::RunError;
    use std::time::Duration;

    fn name(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    fn names(of: &[&str]) -> BTreeSet<ClusterName> {
        of.iter().map(|of| name(of)).collect()
    }

    fn at(port: u16) -> Result<ClusterConfig, ConfigError> {
        Ok(ClusterConfig::from_url(&format!("https://127.0.0.1:{port}")).unwrap())
    }

    fn fails() -> Result<ClusterConfig, ConfigError> {
        Err(ConfigError::Run(RunError::NoProgram("kind".into())))
    }

    struct World {
        known: Known,
        now: Instant,
        rng: Rng,
    }

    impl World {
        fn new(listed: &[&str]) -> Self {
            let mut known = Known::new(PACE);
            let now = Instant::now();
            known.list(names(listed), now);
            let rng = Rng::with_seed(1);
            Self { known, now, rng }
        }

        /// Begins whatever is due.
        fn begin(&mut self) -> Vec<Reading> {
            std::iter::from_fn(|| self.known.begin(self.now)).collect()
        }

        fn end(&mut self, reading: &Reading, config: Result<ClusterConfig, ConfigError>) -> bool {
            self.known.end(reading, config, self.now, &mut self.rng)
        }

        fn servers(&self) -> Vec<String> {
            let specs = self.known.specs().into_values();
            let text = |spec: ClusterSpec| format!("{} {}", spec.name, spec.config.server());
            specs.map(text).collect()
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_that_fails_hides_no_other_and_is_tried_again_later_and_later() {
        let mut world = World::new(&["bad", "good"]);
        let reads = world.begin();
        assert_eq!(reads.len(), 2);
        assert!(world.begin().is_empty(), "each is read once at a time");
        assert!(!world.known.all_read());
        world.end(&reads[0], fails());
        world.end(&reads[1], at(1));
        assert!(world.known.all_read());
        assert_eq!(world.servers(), ["good https://127.0.0.1:1/"]);
        let problems: Vec<Problem> = world.known.problems().collect();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].subject, "bad");

        let mut delay = Duration::ZERO;
        for _ in 0..10 {
            world.now = world.known.clusters[&name("bad")].due.unwrap();
            let reads = world.begin();
            for reading in &reads {
                let outcome = if reading.name == name("bad") {
                    fails()
                } else {
                    at(1)
                };
                world.end(reading, outcome);
            }
            delay = world.known.clusters[&name("bad")].due.unwrap() - world.now;
            assert!(delay <= PACE.most);
        }
        assert!(delay >= PACE.most / 2, "{delay:?}");
        world.now += PACE.most;
        for reading in world.begin() {
            world.end(&reading, at(2));
        }
        assert!(world.known.problems().next().is_none());
    }

    #[tokio::test]
    async fn a_failure_keeps_the_last_good_configuration() {
        let mut world = World::new(&["a"]);
        let reading = world.begin().remove(0);
        world.end(&reading, at(1));
        world.now += PACE.read * 2;
        let reading = world.begin().remove(0);
        world.end(&reading, fails());
        assert_eq!(world.servers(), ["a https://127.0.0.1:1/"]);
    }

    #[tokio::test]
    async fn what_was_read_of_a_cluster_before_it_left_does_not_count_for_the_next_of_its_name() {
        let mut world = World::new(&["a"]);
        let old = world.begin().remove(0);
        world.known.list(names(&[]), world.now);
        assert!(world.known.all_read() && world.servers().is_empty());
        world.known.list(names(&["a"]), world.now);
        world.end(&old, at(1));
        assert!(world.servers().is_empty());
        let new = world.begin().remove(0);
        world.end(&new, at(2));
        assert_eq!(world.servers(), ["a https://127.0.0.1:2/"]);
    }

    #[tokio::test]
    async fn another_authority_at_the_same_address_is_another_cluster() {
        let trusting = |how: &str| {
            let text = format!(
                "current-context: a\n\
                 clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1', {how}}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: a}}}}]\n"
            );
            let policy = KubeconfigPolicy::file();
            Ok(ClusterConfig::from_kubeconfig_text(&text, None, None, &policy).unwrap())
        };
        let (one, two) = ("tls-server-name: a", "insecure-skip-tls-verify: true");
        let mut world = World::new(&["a"]);
        for (how, is_another) in [(one, false), (one, false), (two, true), (two, false)] {
            let reading = world.begin().remove(0);
            assert_eq!(world.end(&reading, trusting(how)), is_another);
            world.now += PACE.read * 2;
        }
    }

    #[tokio::test]
    async fn the_one_that_has_waited_longest_is_read_first() {
        let mut world = World::new(&["b"]);
        let start = world.now;
        world.now += Duration::from_secs(1);
        world.known.list(names(&["a", "b"]), world.now);
        assert_eq!(world.known.next(), Some(start));
        let order: Vec<String> = world.begin().iter().map(|r| r.name.to_string()).collect();
        assert_eq!(order, ["b", "a"]);
    }
}
