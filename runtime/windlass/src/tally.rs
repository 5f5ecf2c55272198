//! What was done, read from the metrics that were counted anyway. Entry point: [`Tally::of`].

use std::collections::BTreeMap;

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
}

impl Tally {
    /// Reads the text that `/metrics` answers.
    pub(crate) fn of(exposition: &str) -> Self {
        let mut tally = Self::default();
        for line in exposition.lines() {
            let Some(series) = line
                .strip_prefix(RECONCILES)
                .and_then(|rest| rest.strip_prefix('{'))
            else {
                continue;
            };
            let Some((labels, value)) = series.rsplit_once("} ") else {
                continue;
            };
            let value = value
                .split(' ')
                .next()
                .and_then(|value| value.parse::<f64>().ok())
                .unwrap_or_default();
            let labels = labels_of(labels);
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            let owner = Owner {
                tenant: label("tenant"),
                reconciler: label("reconciler"),
                cluster: label("cluster"),
            };
            let counts = tally.counts.entry(owner).or_default();
            match label("result").as_str() {
                "error" | "terminal" => counts.failed += value as u64,
                _ => counts.succeeded += value as u64,
            }
        }
        tally
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
    }
}
