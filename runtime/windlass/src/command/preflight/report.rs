//! The answers of a preflight. No I/O. Entry point: [`Report::new`].

#[cfg(test)]
mod tests;

use crate::config::rbac::{Subject, manifests, name_by_content, yaml};
use crate::output::Column::{Always, Wide};
use crate::output::{Cell, Table, Tone, age, printable};
use crate::status::tables::cluster_name;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use windlass_fleet::grant::RuleSet;

/// Names of clusters that are printed in one place, unless the output is wide.
const NAMES: usize = 5;

/// The whole report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Whether nothing is missing, unreachable or unanswered.
    pub(super) ok: bool,
    clusters: Vec<ClusterReport>,
    /// The hubs that Providers read with credentials of their own.
    hubs: Vec<ClusterReport>,
    problems: Vec<ProviderProblem>,
    grants: Vec<GrantSet>,
}

/// What is known about a cluster, or about a hub.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterReport {
    /// Its name; empty for the local cluster. Of a hub, words that are no name of a cluster.
    pub(super) name: String,
    /// Its Provider; `None` for the local cluster.
    pub(super) provider: Option<String>,
    /// The server's URL.
    pub(super) server: String,
    /// Whether the server answers with these credentials.
    pub(super) reachable: bool,
    /// Why it is not reachable.
    pub(super) reason: Option<String>,
    /// The server's version.
    pub(super) version: Option<String>,
    /// The UID by which the server is recognised.
    pub(super) identity: Option<String>,
    /// When the credentials expire, in seconds since the epoch, if that is known.
    pub(super) credentials_until: Option<u64>,
    /// The user of the credentials, if the server tells it.
    pub(super) user: Option<String>,
    /// What is needed there and users may not do.
    pub(super) missing: Vec<Missing>,
    /// Why some rights are not checked, if that is so.
    pub(super) unchecked: Option<String>,
}

/// What a reconciler, a Provider or the manager itself needs and a user may not do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Missing {
    /// The Provider, if this is its hub.
    pub(super) provider: Option<String>,
    /// The reconciler. Without it and without a Provider: the manager itself.
    pub(super) reconciler: Option<String>,
    /// The user whom its tenant impersonates; `None`: the user of the credentials.
    pub(super) impersonates: Option<String>,
    /// The resources whose watches cannot run.
    pub(super) watches: Vec<String>,
    /// The missing permissions, as rules.
    pub(super) rules: RuleSet,
}

/// Everything that was asked.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The clusters, sorted by name.
    pub(super) clusters: Vec<ClusterReport>,
    /// The hubs that Providers read with credentials of their own, sorted by name.
    pub(super) hubs: Vec<ClusterReport>,
}

/// A problem of a Provider.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ProviderProblem {
    /// The Provider.
    pub(super) provider: String,
    /// The part of it that cannot be used.
    pub(super) subject: String,
    /// What is wrong, and what to do.
    pub(super) message: String,
}

/// Roles that grant what one user lacks in some clusters.
#[derive(Debug, Serialize)]
struct GrantSet {
    /// The user; `None`: the server does not tell the user of the credentials.
    user: Option<String>,
    /// The clusters that need it.
    clusters: Vec<String>,
    /// The roles and bindings.
    manifests: Vec<Json>,
}

impl ClusterReport {
    fn is_ok(&self) -> bool {
        self.reachable && self.missing.is_empty() && self.unchecked.is_none()
    }
}

impl Report {
    /// Puts the answers of clusters and hubs and the problems of Providers together.
    pub(super) fn new(checked: Checked, problems: Vec<ProviderProblem>) -> Self {
        let Checked { clusters, hubs } = checked;
        let all = || clusters.iter().chain(&hubs);
        Self {
            ok: problems.is_empty() && all().all(ClusterReport::is_ok),
            grants: grants(all()),
            clusters,
            hubs,
            problems,
        }
    }

    fn clusters_and_hubs(&self) -> impl Iterator<Item = &ClusterReport> {
        self.clusters.iter().chain(&self.hubs)
    }

    /// The report for people. `wide`: with every cluster's name and identity.
    pub(super) fn text(&self, wide: bool, now: SystemTime) -> String {
        let mut text = String::new();
        if self.clusters.is_empty() {
            text.push_str(
                "there is no cluster: no Provider has found one, and there is no local cluster\n",
            );
        }
        if self.clusters_and_hubs().next().is_some() {
            text.push_str(&self.table(now, wide).to_string());
        }
        if !self.problems.is_empty() {
            text.push_str(&format!("\n{}", self.provider_problems()));
        }
        for (missing, clusters) in self.by_missing() {
            text.push_str(&format!(
                "\n{}\n",
                heading(missing, &names(&clusters, wide))
            ));
            for rule in missing.rules.rules() {
                text.push_str(&format!("  {}\n", printable(&rule.to_string())));
            }
        }
        for grant in &self.grants {
            let clusters: Vec<&str> = grant.clusters.iter().map(String::as_str).collect();
            text.push_str(&format!("\n{}", grant.text(&names(&clusters, wide))));
        }
        text
    }

    fn table(&self, now: SystemTime, wide: bool) -> Table {
        let columns = [
            Always("CLUSTER"),
            Always("PROVIDER"),
            Always("REACHABLE"),
            Always("VERSION"),
            Wide("IDENTITY"),
            Always("EXPIRES"),
            Always("RIGHTS"),
            Always("REASON"),
        ];
        let mut table = Table::with(&columns, wide);
        let text = |value: &Option<String>| Cell::text(value.as_deref().unwrap_or_default());
        for cluster in self.clusters_and_hubs() {
            let reachable = if cluster.reachable {
                Cell::toned("yes", Tone::Good)
            } else {
                Cell::toned("no", Tone::Bad)
            };
            table.row([
                Cell::text(cluster_name(&cluster.name)),
                text(&cluster.provider),
                reachable,
                text(&cluster.version),
                text(&cluster.identity),
                expiry(cluster.credentials_until, now),
                rights(cluster),
                text(&cluster.reason.clone().or_else(|| cluster.unchecked.clone())),
            ]);
        }
        table
    }

    fn provider_problems(&self) -> Table {
        let mut table = Table::new(&["PROVIDER", "SUBJECT", "PROBLEM"]);
        for problem in &self.problems {
            table.row([
                Cell::text(&problem.provider),
                Cell::text(&problem.subject),
                Cell::toned(&problem.message, Tone::Bad),
            ]);
        }
        table
    }

    /// What is missing, each with the clusters where it is.
    fn by_missing(&self) -> BTreeMap<&Missing, Vec<&str>> {
        let mut by_missing: BTreeMap<&Missing, Vec<&str>> = BTreeMap::new();
        for cluster in self.clusters_and_hubs() {
            for missing in &cluster.missing {
                by_missing.entry(missing).or_default().push(&cluster.name);
            }
        }
        by_missing
    }
}

/// The roles that would grant everything that is missing, once for each distinct set.
fn grants<'a>(clusters: impl Iterator<Item = &'a ClusterReport>) -> Vec<GrantSet> {
    let mut sets: BTreeMap<(Option<&str>, RuleSet), Vec<String>> = BTreeMap::new();
    for cluster in clusters {
        let mut by_user: BTreeMap<Option<&str>, RuleSet> = BTreeMap::new();
        for missing in &cluster.missing {
            let user = missing.impersonates.as_deref().or(cluster.user.as_deref());
            let all = by_user.entry(user).or_default();
            all.extend(missing.rules.clone());
        }
        for (user, mut permissions) in by_user {
            permissions.reduce();
            let clusters = sets.entry((user, permissions)).or_default();
            clusters.push(cluster.name.clone());
        }
    }
    let sets = sets.into_iter();
    sets.map(|((user, permissions), clusters)| {
        let subject = user.map(Subject::of_user);
        GrantSet {
            user: user.map(str::to_owned),
            clusters,
            manifests: manifests(
                &permissions,
                &name_by_content("windlass", &permissions, subject.as_ref()),
                subject.as_ref(),
            ),
        }
    })
    .collect()
}

impl GrantSet {
    /// The roles as YAML, after a comment that names the user and the clusters.
    fn text(&self, clusters: &str) -> String {
        let bound = match &self.user {
            Some(user) => format!("# for {}, in {clusters}", printable(user)),
            None => format!(
                "# in {clusters}; the server does not tell the user of the credentials: bind the roles to that user"
            ),
        };
        format!("---\n{bound}\n{}", yaml(&self.manifests))
    }
}

fn heading(missing: &Missing, clusters: &str) -> String {
    let subject = match (&missing.provider, &missing.reconciler) {
        (Some(name), _) => format!("Provider {name}"),
        (None, Some(name)) => format!("reconciler {name}"),
        (None, None) => "the manager itself".to_owned(),
    };
    let user = match &missing.impersonates {
        Some(user) => format!("as {}, ", printable(user)),
        None => String::new(),
    };
    let watches = if missing.watches.is_empty() {
        String::new()
    } else {
        format!(
            " (its watches of {} cannot run)",
            missing.watches.join(", ")
        )
    };
    let missing = Tone::Bold.paint(format_args!("{subject} may not, {user}in {clusters}"));
    format!("{missing}{}:", printable(&watches))
}

/// Names of clusters for a sentence.
fn names(clusters: &[&str], wide: bool) -> String {
    let most = if wide { clusters.len() } else { NAMES };
    let shown = clusters.iter().take(most);
    let shown: Vec<_> = shown.map(|name| printable(cluster_name(name))).collect();
    let more = clusters.len() - shown.len();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn rights(cluster: &ClusterReport) -> Cell {
    if !cluster.reachable {
        return Cell::text("");
    }
    match (cluster.missing.is_empty(), &cluster.unchecked) {
        (true, None) => Cell::toned("all", Tone::Good),
        (true, Some(_)) => Cell::toned("not checked", Tone::Warn),
        (false, _) => Cell::toned("missing", Tone::Bad),
    }
}

/// When credentials expire. An hour before that it is a warning.
fn expiry(until: Option<u64>, now: SystemTime) -> Cell {
    const SOON: u64 = 3600;
    let Some(until) = until else {
        return Cell::text("");
    };
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(until);
    match until.duration_since(now).map(|left| left.as_secs()) {
        Ok(left) if left < SOON => Cell::toned(format_args!("in {}", age(left)), Tone::Warn),
        Ok(left) => Cell::text(format_args!("in {}", age(left))),
        Err(_) => Cell::toned("expired", Tone::Bad),
    }
}
