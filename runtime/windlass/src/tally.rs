//! What was done, read from the metrics that were counted anyway. Entry point: [`Tally::of`].

use crate::view::BlameView;
use std::collections::BTreeMap;

/// The metric of failures by whose fault they were, as it is exposed.
const FAILURES: &str = "windlass_reconcile_failures_total";

/// The metric of finished attempts, as it is exposed.
const RECONCILES: &str = "controller_runtime_reconcile_total";

/// Finished attempts by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// That ended well.
    pub(crate) succeeded: u64,
    /// That failed, for now or for good.
    pub(crate) failed: u64,
}

impl Counts {
    /// All of them.
    pub(crate) fn attempts(&self) -> u64 {
        self.succeeded + self.failed
    }

    fn add(&mut self, other: Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
    }
}

/// Whose attempts, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    tenant: String,
    reconciler: String,
    cluster: String,
}

/// Finished attempts of every reconciler in every cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally {
    counts: BTreeMap<Owner, Counts>,
    /// By tenant and reconciler.
    blamed: BTreeMap<(String, String), BlameView>,
}

impl Tally {
    /// Reads the text that `/metrics` answers.
    pub(crate) fn of(exposition: &str) -> Self {
        let mut tally = Self::default();
        for line in exposition.lines() {
            if let Some((labels, value)) = series_of(line, FAILURES) {
                tally.blame(&labels, value);
            }
            let Some((labels, value)) = series_of(line, RECONCILES) else {
                continue;
            };
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            let owner = Owner {
                tenant: label("tenant"),
                reconciler: label("reconciler"),
                cluster: label("cluster"),
            };
            let counts = tally.counts.entry(owner).or_default();
            match label("result").as_str() {
                "error" | "terminal" => counts.failed += value,
                _ => counts.succeeded += value,
            }
        }
        tally
    }

    fn blame(&mut self, labels: &BTreeMap<&str, String>, value: u64) {
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let owner = (label("tenant"), label("reconciler"));
        let blamed = self.blamed.entry(owner).or_default();
        match label("blame").as_str() {
            "guest" => blamed.guest += value,
            "host" => blamed.host += value,
            _ => blamed.api += value,
        }
    }

    /// Failures of one reconciler, in all clusters, by whose fault they were.
    pub(crate) fn blamed(&self, tenant: &str, reconciler: &str) -> BlameView {
        let owner = (tenant.to_owned(), reconciler.to_owned());
        self.blamed.get(&owner).copied().unwrap_or_default()
    }

    /// Of one reconciler, in all clusters.
    pub(crate) fn of_reconciler(&self, tenant: &str, reconciler: &str) -> Counts {
        self.sum(|owner| owner.tenant == tenant && owner.reconciler == reconciler)
    }

    /// In one cluster, of all reconcilers.
    pub(crate) fn in_cluster(&self, cluster: &str) -> Counts {
        self.sum(|owner| owner.cluster == cluster)
    }

    fn sum(&self, of: impl Fn(&Owner) -> bool) -> Counts {
        let mut sum = Counts::default();
        self.counts
            .iter()
            .filter(|(owner, _)| of(owner))
            .for_each(|(_, counts)| sum.add(*counts));
        sum
    }
}

/// The labels and the value of a line, if it is of this metric.
fn series_of<'a>(line: &'a str, metric: &str) -> Option<(BTreeMap<&'a str, String>, u64)> {
    let series = line.strip_prefix(metric)?.strip_prefix('{')?;
    let (labels, value) = series.rsplit_once("} ")?;
    let value = value.split(' ').next()?.parse::<f64>().unwrap_or_default();
    Some((labels_of(labels), value as u64))
}

/// Reads `a="x",b="y"`.
fn labels_of(text: &str) -> BTreeMap<&str, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = after.char_indices();
        let mut end = after.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped)) => value.push(escaped),
                    None => break,
                },
                other => value.push(other),
            }
        }
        labels.insert(name.trim_start_matches(','), value);
        rest = &after[end..];
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_by_reconciler_and_cluster() {
        let text = "\
# TYPE controller_runtime_reconcile counter
controller_runtime_reconcile_total{tenant=\"t\",reconciler=\"r\",cluster=\"alpha\",result=\"success\"} 3
controller_runtime_reconcile_total{tenant=\"t\",reconciler=\"r\",cluster=\"alpha\",result=\"requeue_after\"} 1
controller_runtime_reconcile_total{tenant=\"t\",reconciler=\"r\",cluster=\"b\\\"eta}\",result=\"error\"} 2
controller_runtime_reconcile_total{tenant=\"t\",reconciler=\"s\",cluster=\"alpha\",result=\"terminal\"} 1
windlass_reconcile_failures_total{controller=\"r\",tenant=\"t\",reconciler=\"r\",blame=\"guest\",reason=\"trap\"} 2
windlass_reconcile_failures_total{controller=\"r\",tenant=\"t\",reconciler=\"r\",blame=\"guest\",reason=\"error\"} 1
windlass_reconcile_failures_total{controller=\"r\",tenant=\"t\",reconciler=\"r\",blame=\"api\",reason=\"error\"} 4
controller_runtime_reconcile_time_seconds_sum{tenant=\"t\",reconciler=\"r\"} 7
# EOF
";
        let tally = Tally::of(text);
        assert_eq!(
            tally.of_reconciler("t", "r"),
            Counts {
                succeeded: 4,
                failed: 2
            }
        );
        assert_eq!(
            tally.in_cluster("alpha"),
            Counts {
                succeeded: 4,
                failed: 1
            }
        );
        assert_eq!(tally.in_cluster("b\"eta}").attempts(), 2);
        assert_eq!(tally.in_cluster("gone"), Counts::default());
        let blamed = BlameView {
            guest: 3,
            host: 0,
            api: 4,
        };
        assert_eq!(tally.blamed("t", "r"), blamed);
        assert_eq!(tally.blamed("t", "s"), BlameView::default());
    }
}
