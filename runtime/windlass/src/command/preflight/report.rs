//! The answers of a preflight. No I/O. Entry point: [`Report::new`].

use crate::config::rbac::{Permissions, Subject, lines, manifests, yaml};
use crate::output::{Cell, Table, Tone, age, printable};
use crate::status::tables::cluster_name;
use serde::Serialize;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Names of clusters that are printed in one place, unless the output is wide.
const NAMES: usize = 5;

/// The whole report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Whether nothing is missing, unreachable or unanswered.
    pub(super) ok: bool,
    clusters: Vec<ClusterReport>,
    problems: Vec<ProviderProblem>,
    grants: Vec<GrantSet>,
}

/// What is known about a cluster.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterReport {
    /// Its name; empty for the local cluster.
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
    /// What reconcilers need there and users may not do.
    pub(super) missing: Vec<Missing>,
    /// Why some rights are not checked, if that is so.
    pub(super) unchecked: Option<String>,
}

/// What a reconciler, or the manager itself, needs and a user may not do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Missing {
    /// The reconciler; `None`: the manager itself.
    pub(super) reconciler: Option<String>,
    /// The user whom its tenant impersonates; `None`: the user of the credentials.
    pub(super) impersonates: Option<String>,
    /// The resources whose watches cannot run.
    pub(super) watches: Vec<String>,
    /// The missing permissions, as rules.
    pub(super) rules: Permissions,
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
    /// Puts the answers of clusters and the problems of Providers together.
    pub(super) fn new(clusters: Vec<ClusterReport>, problems: Vec<ProviderProblem>) -> Self {
        Self {
            ok: problems.is_empty() && clusters.iter().all(ClusterReport::is_ok),
            grants: grants(&clusters),
            clusters,
            problems,
        }
    }

    /// The report for people. `wide`: with every cluster's name.
    pub(super) fn text(&self, wide: bool, now: SystemTime) -> String {
        let mut text = match self.clusters.is_empty() {
            true => {
                "there is no cluster: no Provider has found one, and there is no local cluster\n"
                    .to_owned()
            }
            false => self.table(now).to_string(),
        };
        if !self.problems.is_empty() {
            text.push_str(&format!("\n{}", self.provider_problems()));
        }
        for (missing, clusters) in self.by_missing() {
            text.push_str(&format!(
                "\n{}\n",
                heading(missing, &names(&clusters, wide))
            ));
            for line in lines(&missing.rules) {
                text.push_str(&format!("  {}\n", printable(&line)));
            }
        }
        for grant in &self.grants {
            let clusters: Vec<&str> = grant.clusters.iter().map(String::as_str).collect();
            text.push_str(&format!("\n{}", grant.text(&names(&clusters, wide))));
        }
        text
    }

    fn table(&self, now: SystemTime) -> Table {
        let mut table = Table::new(&[
            "CLUSTER",
            "PROVIDER",
            "REACHABLE",
            "VERSION",
            "IDENTITY",
            "EXPIRES",
            "RIGHTS",
            "REASON",
        ]);
        let text = |value: &Option<String>| Cell::text(value.as_deref().unwrap_or_default());
        for cluster in &self.clusters {
            let reachable = match cluster.reachable {
                true => Cell::toned("yes", Tone::Good),
                false => Cell::toned("no", Tone::Bad),
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
        for cluster in &self.clusters {
            for missing in &cluster.missing {
                by_missing.entry(missing).or_default().push(&cluster.name);
            }
        }
        by_missing
    }
}

/// The roles that would grant everything that is missing, once for each distinct set.
fn grants(clusters: &[ClusterReport]) -> Vec<GrantSet> {
    let mut sets: BTreeMap<(Option<&str>, Permissions), Vec<String>> = BTreeMap::new();
    for cluster in clusters {
        let mut by_user: BTreeMap<Option<&str>, Permissions> = BTreeMap::new();
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
                &role_name(user, &permissions),
                subject.as_ref(),
            ),
        }
    })
    .collect()
}

/// A name that depends on the content: a role of another content, such as one of `windlass rbac`, is never overwritten.
fn role_name(user: Option<&str>, permissions: &Permissions) -> String {
    let mut hash = Sha256::new();
    for line in user
        .into_iter()
        .map(str::to_owned)
        .chain(lines(permissions))
    {
        hash.update(line);
        hash.update("\n");
    }
    let digits = hash
        .finalize()
        .into_iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"));
    format!("windlass-{}", digits.collect::<String>())
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
    let subject = match &missing.reconciler {
        Some(name) => format!("reconciler {name}"),
        None => "the manager itself".to_owned(),
    };
    let user = match &missing.impersonates {
        Some(user) => format!("as {}, ", printable(user)),
        None => String::new(),
    };
    let watches = match missing.watches.is_empty() {
        true => String::new(),
        false => format!(
            " (its watches of {} cannot run)",
            missing.watches.join(", ")
        ),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rbac::permissions;

    fn reached(name: &str, missing: Vec<Missing>) -> ClusterReport {
        ClusterReport {
            name: name.to_owned(),
            provider: Some("fleet".to_owned()),
            reachable: true,
            version: Some("v1.36.0".to_owned()),
            identity: Some("1-2-3".to_owned()),
            user: Some("system:serviceaccount:ops:windlass".to_owned()),
            missing,
            ..ClusterReport::default()
        }
    }

    fn missing(reconciler: &str, impersonates: Option<&str>, rules: &str) -> Missing {
        Missing {
            reconciler: Some(reconciler.to_owned()),
            impersonates: impersonates.map(str::to_owned),
            watches: Vec::new(),
            rules: permissions(rules),
        }
    }

    fn plain(report: &Report, wide: bool) -> String {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        anstream::adapter::strip_str(&report.text(wide, now)).to_string()
    }

    const PATCH: &str =
        r#"[{apiGroups: [""], resources: [configmaps], verbs: [patch], namespaces: ["*"]}]"#;

    #[test]
    fn a_fleet_without_a_problem_is_a_table_and_nothing_else() {
        let mut expiring = reached("beta", Vec::new());
        expiring.credentials_until = Some(1600);
        let report = Report::new(vec![reached("", Vec::new()), expiring], Vec::new());
        assert!(report.ok);
        assert_eq!(
            plain(&report, false),
            "CLUSTER  PROVIDER  REACHABLE  VERSION  IDENTITY  EXPIRES  RIGHTS  REASON\n\
             (local)  fleet     yes        v1.36.0  1-2-3     -        all     -\n\
             beta     fleet     yes        v1.36.0  1-2-3     in 10m   all     -\n"
        );
    }

    #[test]
    fn a_set_of_missing_rights_is_printed_once_for_all_its_clusters() {
        let names: Vec<String> = (0..8).map(|index| format!("c{index}")).collect();
        let lacks = |name: &String| reached(name, vec![missing("hello", None, PATCH)]);
        let mut clusters: Vec<_> = names.iter().map(lacks).collect();
        clusters.push(reached("good", Vec::new()));
        let report = Report::new(clusters, Vec::new());
        assert!(!report.ok);
        let text = plain(&report, false);
        let some = "c0, c1, c2, c3, c4 and 3 more";
        assert!(text.contains(&format!(
            "\nreconciler hello may not, in {some}:\n  \
             {{apiGroups: [\"\"], resources: [configmaps], verbs: [patch], namespaces: [\"*\"]}}\n\n\
             ---\n# for system:serviceaccount:ops:windlass, in {some}\n"
        )), "{text}");
        assert_eq!(text.matches("kind: ClusterRole\n").count(), 1, "{text}");
        assert!(
            text.ends_with(
                "subjects:\n  - {kind: ServiceAccount, namespace: ops, name: windlass}\n"
            ),
            "{text}"
        );
        assert!(plain(&report, true).contains("c6, c7:\n"));
    }

    #[test]
    fn each_user_and_set_has_a_role_of_its_own_name() {
        let rule = |verb: &str| PATCH.replace("patch", verb);
        let report = Report::new(
            vec![
                reached(
                    "a",
                    vec![missing("x", None, PATCH), missing("y", None, &rule("get"))],
                ),
                reached("b", vec![missing("x", None, PATCH)]),
                reached("c", vec![missing("x", Some("team-bot"), PATCH)]),
            ],
            Vec::new(),
        );
        let names = report
            .grants
            .iter()
            .map(|grant| grant.manifests[0]["metadata"]["name"].to_string());
        let names: std::collections::BTreeSet<String> = names.collect();
        assert_eq!((report.grants.len(), names.len()), (3, 3), "{names:?}");
        let both = report
            .grants
            .iter()
            .find(|grant| grant.clusters == ["a"])
            .unwrap();
        assert_eq!(
            both.manifests[0]["rules"][0]["verbs"],
            serde_json::json!(["get", "patch"])
        );
        let text = plain(&report, false);
        assert!(
            text.contains("reconciler x may not, as team-bot, in c:\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "subjects:\n  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: team-bot}\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_reached_or_checked_says_why() {
        let dead = ClusterReport {
            name: "dead".to_owned(),
            reason: Some("connection refused".to_owned()),
            ..ClusterReport::default()
        };
        let unsure = ClusterReport {
            unchecked: Some("forbidden".to_owned()),
            user: None,
            ..reached("unsure", vec![missing("x", None, PATCH)])
        };
        let problem = ProviderProblem {
            provider: "fleet".to_owned(),
            subject: "a.kubeconfig".to_owned(),
            message: "it is empty".to_owned(),
        };
        let report = Report::new(vec![dead, unsure], vec![problem]);
        assert!(!report.ok);
        let text = plain(&report, false);
        for line in [
            "dead     -         no         -        -         -        -        connection refused\n",
            "unsure   fleet     yes        v1.36.0  1-2-3     -        missing  forbidden\n",
            "fleet     a.kubeconfig  it is empty\n",
            "the server does not tell the user of the credentials",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert!(!text.contains("RoleBinding"), "{text}");
    }

    #[test]
    fn programs_get_the_same() {
        let report = Report::new(
            vec![reached("a", vec![missing("x", None, PATCH)])],
            Vec::new(),
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["ok"], false);
        assert_eq!(json["clusters"][0]["credentialsUntil"], Json::Null);
        assert_eq!(
            json["clusters"][0]["missing"][0]["rules"],
            serde_json::json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "namespaces": ["*"]}])
        );
        assert_eq!(json["grants"][0]["clusters"], serde_json::json!(["a"]));
        assert_eq!(
            json["grants"][0]["manifests"][1]["kind"],
            "ClusterRoleBinding"
        );
    }
}
