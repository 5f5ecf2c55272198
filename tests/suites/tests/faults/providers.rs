//! Providers whose hub or clusters fail. Entry points: [`Provided::start`] and the tests.
//!
//! The hub is a simulated server of its own and the manager's local cluster; the clusters that its objects name are those of the rig.

use crate::oracle;
use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Faults, RequestFault, Rule, Server};
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::{AllowServers, ClusterConfig, ClusterState, KubeconfigPolicy};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::cluster_api::{ClusterApi, ClusterApiOptions};
use windlass_fleet::provider::cluster_profiles::{
    AccessStrategy, ClusterProfiles, ClusterProfilesOptions,
};
use windlass_fleet::provider::kubeconfig_secrets::{
    DEFAULT_LABEL, KubeconfigSecrets, KubeconfigSecretsOptions,
};
use windlass_harness::eventually::{Seen, wait};

/// The kinds of objects that stand for clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Secrets,
    ClusterApi,
    Profiles,
}

const SORTS: [Sort; 3] = [Sort::Secrets, Sort::ClusterApi, Sort::Profiles];

impl Sort {
    fn provider(self) -> Result<Arc<dyn Provider>> {
        let policy = KubeconfigPolicy {
            allow_servers: AllowServers::parse(&["127.0.0.1"])?,
            ..KubeconfigPolicy::object()
        };
        let namespaces: BTreeSet<String> = ["default".to_owned()].into();
        Ok(match self {
            Self::Secrets => Arc::new(KubeconfigSecrets::new(
                "secrets",
                KubeconfigSecretsOptions {
                    namespaces,
                    policy,
                    ..KubeconfigSecretsOptions::default()
                },
            )),
            Self::ClusterApi => Arc::new(ClusterApi::new(
                "capi",
                ClusterApiOptions {
                    namespaces,
                    policy,
                    ..ClusterApiOptions::default()
                },
            )),
            Self::Profiles => Arc::new(ClusterProfiles::new(
                "profiles",
                ClusterProfilesOptions {
                    namespaces,
                    policy,
                    ..ClusterProfilesOptions::new(AccessStrategy::secret("windlass")?)
                },
            )),
        })
    }

    /// The object that stands for a cluster, unless its Secret does.
    fn object(self, name: &str) -> Option<Value> {
        let metadata = json!({"name": name, "namespace": "default"});
        match self {
            Self::Secrets => None,
            Self::ClusterApi => Some(
                json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata,
                "status": {"initialization": {"controlPlaneInitialized": true}}}),
            ),
            Self::Profiles => Some(
                json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": metadata,
                "status": {"conditions": [{"type": "ControlPlaneHealthy", "status": "True"}]}}),
            ),
        }
    }

    fn secret(self, name: &str, kubeconfig: &str) -> Value {
        let (name, labels, key) = match self {
            Self::Secrets => (
                name.to_owned(),
                json!({DEFAULT_LABEL: "true"}),
                "kubeconfig",
            ),
            Self::ClusterApi => (
                format!("{name}-kubeconfig"),
                json!({"cluster.x-k8s.io/cluster-name": name}),
                "value",
            ),
            Self::Profiles => (
                format!("{name}-access"),
                json!({"x-k8s.io/cluster-inventory-consumer": "windlass", "x-k8s.io/cluster-profile": name}),
                "Config",
            ),
        };
        let text = k8s_openapi::ByteString(kubeconfig.as_bytes().to_vec());
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default", "labels": labels},
            "data": {key: text}})
    }

    /// The name that a cluster is engaged under.
    fn engaged(self, name: &str) -> String {
        match self {
            Self::Secrets => name.to_owned(),
            Self::ClusterApi | Self::Profiles => format!("default/{name}"),
        }
    }
}

/// A kind of the hub whose fields nobody checks.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn refused(error: windlass_apiserver::ApiError) -> anyhow::Error {
    anyhow!("{error:?}")
}

/// A rig whose clusters are found in a hub.
struct Provided {
    rig: Rig,
    hub: Server,
    sort: Sort,
}

impl Provided {
    /// Starts a manager. No object stands for a cluster yet.
    async fn start(sort: Sort, mut setup: Setup) -> Result<Self> {
        let hub = Server::builder().cluster("hub").bind("127.0.0.1:0").await?;
        let admin = hub.cluster("hub").context("it is there")?;
        for kind in [
            definition("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
            definition(
                "multicluster.x-k8s.io",
                "v1alpha1",
                "ClusterProfile",
                "clusterprofiles",
            ),
        ] {
            admin.apply(kind).map_err(refused)?;
        }
        let config = ClusterConfig::from_url(&hub.url("hub"))?;
        let local = ClusterSpec::new(ClusterName::local(), config);
        let provider = sort.provider()?;
        setup.build = Box::new(|builder| builder.local(local).provider(provider));
        Ok(Self {
            rig: Rig::idle(setup).await?,
            hub,
            sort,
        })
    }

    fn admin(&self) -> windlass_apiserver::Cluster {
        self.hub.cluster("hub").expect("the hub is there")
    }

    /// A kubeconfig of a simulated cluster.
    fn kubeconfig(&self, cluster: &str) -> String {
        let text = self.rig.server.kubeconfig();
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("current-context"));
        let lines: Vec<&str> = lines.collect();
        format!("{}\ncurrent-context: {cluster}\n", lines.join("\n"))
    }

    /// Has the hub say that a cluster is reached so.
    fn tell(&self, cluster: &str, kubeconfig: &str) -> Result<()> {
        let secret = self.sort.secret(cluster, kubeconfig);
        let objects = self.sort.object(cluster).into_iter().chain([secret]);
        for object in objects {
            self.admin().apply(object).map_err(refused)?;
        }
        Ok(())
    }

    /// Has the hub name a simulated cluster, whose children are right from now on.
    fn add(&self, cluster: &str) -> Result<()> {
        self.tell(cluster, &self.kubeconfig(cluster))?;
        self.rig.keep(cluster);
        Ok(())
    }

    /// Takes a cluster off the hub.
    fn remove(&self, cluster: &str) -> Result<()> {
        self.rig.keep_no_more(cluster);
        let secret = self.sort.secret(cluster, "");
        for object in self.sort.object(cluster).into_iter().chain([secret]) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
            let name = text(&object["metadata"]["name"]);
            let deleted = self.admin().delete(&version, &kind, "default", &name);
            deleted.map_err(refused)?;
        }
        Ok(())
    }

    /// Names of the clusters that are engaged, the hub left out.
    fn names(&self) -> Vec<String> {
        let clusters = self.rig.handle.clusters().into_iter();
        let names = clusters.map(|cluster| cluster.name.to_string());
        names.filter(|name| !name.is_empty()).collect()
    }

    async fn has(&self, wanted: &[&str]) -> Result<()> {
        let mut wanted: Vec<String> = wanted.iter().map(|name| self.sort.engaged(name)).collect();
        wanted.sort();
        wait("the clusters of the hub", || {
            let problems = self.rig.handle.provider_problems();
            Seen::of((self.names(), problems), |(names, _)| *names == wanted)
        })
        .await
        .map(drop)
    }

    /// Asks the oracle, takes all clusters off the hub, and holds that nobody watches them any more.
    async fn finish(self) -> Result<()> {
        oracle::settled(&self.rig).await?;
        for cluster in self.rig.kept() {
            self.remove(&cluster)?;
        }
        self.has(&[]).await?;
        for cluster in self.rig.server.clusters() {
            let simulated = self.rig.simulated(&cluster);
            wait("closed watches", || {
                Seen::of(simulated.watchers(), |n| *n == 0)
            })
            .await?;
        }
        Ok(())
    }
}

const GOOD: [&str; 4] = ["a", "b", "c", "d"];

#[tokio::test]
async fn dead_slow_and_forbidden_clusters_of_a_hub_delay_no_other() -> Result<()> {
    for sort in SORTS {
        let faults = Arc::new(Faults::default());
        let clusters = ["a", "b", "c", "d", "forbidden", "slow"];
        let provided = Provided::start(sort, Setup::of(&clusters).hook(faults.clone())).await?;
        let rig = &provided.rig;
        let forbidden = RequestFault::Status {
            code: 403,
            retry_after: None,
        };
        let no = faults.add(Rule::new(forbidden).cluster("forbidden"));
        let late = RequestFault::Delay(Duration::from_secs(3));
        let slow = faults.add(Rule::new(late).cluster("slow"));
        // Names that come first in every order.
        provided.tell(
            "0-dead",
            &provided
                .kubeconfig("a")
                .replace(&rig.server.address().to_string(), "127.0.0.1:1"),
        )?;
        let broken = provided.sort.secret("0-broken", "{");
        provided.admin().apply(broken).map_err(refused)?;
        if let Some(object) = sort.object("0-broken") {
            provided.admin().apply(object).map_err(refused)?;
        }
        for bad in ["forbidden", "slow"] {
            provided.tell(bad, &provided.kubeconfig(bad))?;
        }
        for good in GOOD {
            rig.put(good, "seed-0", "first")?;
            provided.add(good)?;
        }
        oracle::children_right_within(rig, Duration::from_secs(20)).await?;
        let dead = sort.engaged("0-dead");
        rig.reaches(&dead, ClusterState::Connecting).await?;
        provided
            .has(&["0-dead", "a", "b", "c", "d", "forbidden", "slow"])
            .await?;
        let problems = rig.handle.provider_problems();
        assert!(
            problems.iter().any(|one| one.subject == "default/0-broken"),
            "{problems:?}"
        );

        // What is repaired joins without another word of the hub.
        faults.remove(no);
        faults.remove(slow);
        for repaired in ["forbidden", "slow"] {
            rig.put(repaired, "seed-0", "repaired")?;
            rig.keep(repaired);
        }
        provided.remove("0-dead")?;
        provided.remove("0-broken")?;
        oracle::settled(rig).await?;
        provided.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_a_hub_changed_while_it_was_away_is_caught_up_with() -> Result<()> {
    for sort in SORTS {
        let clusters = ["a", "b", "c", "d", "new"];
        let provided = Provided::start(sort, Setup::of(&clusters)).await?;
        let rig = &provided.rig;
        for good in GOOD {
            rig.put(good, "seed-0", "first")?;
            provided.add(good)?;
        }
        oracle::right_within(rig, oracle::WITHIN).await?;
        let before = rig.ready(&sort.engaged("a")).await?;

        provided.admin().down(true);
        provided.remove("d")?;
        provided.add("new")?;
        rig.put("new", "seed-0", "first")?;
        // It forgets the past: its watches cannot go on where they were.
        provided.admin().compact();
        // Nobody leaves, and work on what is engaged goes on.
        rig.keep_no_more("new");
        for round in 0..3 {
            for good in ["a", "b", "c"] {
                rig.put(good, "seed-0", &format!("round {round}"))?;
            }
            oracle::children_right_within(rig, oracle::WITHIN).await?;
        }
        provided.has(&GOOD).await?;

        provided.admin().down(false);
        provided.has(&["a", "b", "c", "new"]).await?;
        rig.keep("new");
        let now = rig.ready(&sort.engaged("a")).await?;
        assert!(Arc::ptr_eq(&before, &now), "{sort:?}: undisturbed");
        provided.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_thousand_secrets_written_and_deleted_at_once_end_as_the_hub_has_them() -> Result<()> {
    const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];
    let provided = Provided::start(Sort::Secrets, Setup::of(&CLUSTERS)).await?;
    let texts = CLUSTERS.map(|cluster| provided.kubeconfig(cluster));
    let admin = provided.admin();
    let name = |n: usize| format!("s-{n:04}");
    for n in 0..1000 {
        let secret = Sort::Secrets.secret(&name(n), &texts[n % 4]);
        admin.apply(secret).map_err(refused)?;
        // Some are gone again before anybody can have seen them, some are moved.
        if n % 3 == 0 {
            let deleted = admin.delete("v1", "Secret", "default", &name(n));
            deleted.map_err(refused)?;
        } else if n % 3 == 1 {
            let moved = Sort::Secrets.secret(&name(n), &texts[(n + 1) % 4]);
            admin.apply(moved).map_err(refused)?;
        }
    }
    let left: Vec<String> = (0..1000).filter(|n| n % 3 != 0).map(name).collect();
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    provided.has(&left).await?;
    provided.rig.ready_clusters(left.len()).await?;
    for name in &left {
        let deleted = admin.delete("v1", "Secret", "default", name);
        deleted.map_err(refused)?;
    }
    provided.has(&[]).await?;
    assert_eq!(provided.rig.handle.provider_problems(), []);
    provided.finish().await
}

#[tokio::test]
async fn credentials_exchanged_again_and_again_under_load_fail_no_write() -> Result<()> {
    for sort in SORTS {
        let provided = Provided::start(sort, Setup::of(&["a", "b", "c", "d", "z"]).tls()).await?;
        let rig = &provided.rig;
        let with = |cluster: &str, round: usize| {
            let text = provided.kubeconfig(cluster);
            let (head, _) = text.split_once("users:").expect("users");
            let user = format!("users:\n- name: admin\n  user: {{token: \"t{round}\"}}\n");
            format!("{head}{user}current-context: {cluster}\n")
        };
        rig.server.set_tokens(Some(&["t0"]));
        for good in GOOD {
            rig.put(good, "seed-0", "first")?;
            provided.tell(good, &with(good, 0))?;
            rig.keep(good);
        }
        oracle::right_within(rig, oracle::WITHIN).await?;
        let before: Vec<_> = GOOD
            .iter()
            .map(|name| rig.engaged(&sort.engaged(name)))
            .collect();
        for round in 1..=10 {
            // As an issuer does: the token before is good until the new one is in use.
            let tokens = [format!("t{}", round - 1), format!("t{round}")];
            rig.server
                .set_tokens(Some(&[&tokens[0][..], &tokens[1][..]]));
            for good in GOOD {
                provided.tell(good, &with(good, round))?;
                for n in 0..10 {
                    rig.put(good, &format!("load-{n}"), &format!("round {round}"))?;
                }
            }
            // Once a later object counts, the new credentials have been taken up.
            let canary = format!("z-{round}");
            provided.tell(&canary, &with("z", round))?;
            provided.has(&["a", "b", "c", "d", &canary]).await?;
            provided.remove(&canary)?;
            oracle::right_within(rig, oracle::WITHIN).await?;
        }
        let errors = failures(rig)?;
        assert_eq!(errors, 0, "{sort:?}");
        for (name, before) in GOOD.iter().zip(before) {
            let now = rig.engaged(&sort.engaged(name));
            let same = before.zip(now).is_some_and(|(a, b)| Arc::ptr_eq(&a, &b));
            assert!(same, "{sort:?}: credentials are exchanged in place");
        }
        rig.server.set_tokens(None);
        provided.finish().await?;
    }
    Ok(())
}

/// Runs that failed so far.
fn failures(rig: &Rig) -> Result<u64> {
    let text = rig.metrics()?;
    let of_errors = text
        .lines()
        .filter(|line| line.starts_with("controller_runtime_reconcile_errors_total{"));
    of_errors
        .map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()? as u64))
        .sum()
}
