//! Places Workloads of the hub on clusters that they select and that have processors left.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use windlass_sdk::prelude::*;
use windlass_sdk::{ClusterScope, ConditionStatus, FleetCluster, GroupVersionKind, Mapper, fleet};

/// The label of the guest's Deployments. Others are never changed.
const PLACED: &str = "example.windlass.dev/placed";
/// The label of a cluster with the number of its processors.
const CPUS: &str = "cpus";
/// How long a cluster that is not ready, or not in the fleet, keeps what it has.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

#[derive(Serialize, Deserialize)]
struct Workload {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}
windlass_sdk::kind!(Workload, "example.windlass.dev/v1", "Workload");

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    image: String,
    replicas: i64,
    cpus: i64,
    cluster_selector: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Status {
    #[serde(default)]
    clusters: Vec<Share>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Share {
    name: String,
    replicas: i64,
    /// Since when the cluster is not in the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    away_since: Option<String>,
}

impl Workload {
    fn replicas_in(&self, cluster: &str) -> i64 {
        let share = self
            .status
            .clusters
            .iter()
            .find(|share| share.name == cluster);
        share.map_or(0, |share| share.replicas)
    }

    fn is_placed(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|condition| {
            condition.kind == "Placed" && condition.status == ConditionStatus::True
        })
    }
}

struct Guest;
windlass_sdk::guest!(Guest, mapper);

fn deployment_kind() -> GroupVersionKind {
    GroupVersionKind::new("apps/v1", "Deployment")
}

impl Reconciler for Guest {
    fn describe() -> Result<Description> {
        let workloads = || Watch::new::<Workload>().clusters(ClusterScope::Local);
        let deployments = Watch::of(deployment_kind())
            .labels(PLACED)
            .clusters(ClusterScope::Provider);
        Ok(Description::new("places workloads on clusters")
            .primary_watch(workloads())
            .watch(workloads().enqueue(Enqueue::Mapped))
            .watch(Watch::new::<FleetCluster>().enqueue(Enqueue::Mapped))
            .watch(deployments.enqueue(Enqueue::SameName)))
    }

    /// A request of the hub decides where a Workload runs, one of another cluster makes it so there.
    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let workload = fleet::local()?.get::<Workload>(&request.key)?;
        match (request.cluster.as_str(), workload) {
            ("", Some(workload)) => place(cluster, workload),
            ("", None) => Ok(Action::Done),
            (_, workload) => run(request, cluster, workload.as_ref()),
        }
    }
}

impl Mapper for Guest {
    fn map(hub: &Cluster, kind: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let cluster_changed = *kind == FleetCluster::KIND.into();
        let mut requests = Vec::new();
        if !cluster_changed {
            // It starts or ends where it ran or runs, and others that wait may have its room.
            for object in objects {
                let shares = object.at("/status/clusters").and_then(Value::as_array);
                let names = shares
                    .into_iter()
                    .flatten()
                    .filter_map(|share| share["name"].as_str());
                requests.extend(names.map(|name| Request {
                    cluster: name.to_owned(),
                    key: object.key(),
                }));
            }
        }
        let workloads = hub.list::<Workload>(&ListOptions::default())?.into_iter();
        let asked = workloads.filter(|workload| cluster_changed || !workload.is_placed());
        requests.extend(asked.map(|workload| Request {
            cluster: String::new(),
            key: workload.key(),
        }));
        Ok(requests)
    }
}

fn run(request: &Request, cluster: &Cluster, workload: Option<&Workload>) -> Result<Action> {
    let replicas = workload.map_or(0, |workload| workload.replicas_in(&request.cluster));
    let deployments = cluster.of(deployment_kind());
    match (workload, deployments.get(&request.key)?) {
        (_, Some(present)) if present.label(PLACED).is_none() => {
            if replicas > 0 {
                return Err(Error::retry(format!(
                    "Deployment {} is there and not the scheduler's",
                    request.key
                )));
            }
        }
        (Some(workload), present) if replicas > 0 => {
            if present.is_none() {
                cluster.ensure(&namespace_of(workload))?;
            }
            cluster.ensure(&deployment(workload, replicas))?;
        }
        (_, Some(_)) => {
            deployments.delete(&request.key)?;
        }
        (_, None) => {}
    }
    Ok(Action::Done)
}

fn place(hub: &Cluster, mut workload: Workload) -> Result<Action> {
    let spec = &workload.spec;
    let used = used_by_others(hub, &workload)?;
    // Read first, so that a cluster that joins meanwhile is not taken for one that is not selected.
    let known = hub.list::<FleetCluster>(&ListOptions::default())?;
    let known: BTreeSet<_> = known.into_iter().map(|known| known.spec.name).collect();
    let selected = ListOptions::default().labels(&spec.cluster_selector);
    let selected = match hub.list::<FleetCluster>(&selected) {
        // What runs stays until the selector can be read.
        Err(error) if error.code == ApiCode::Invalid => {
            let condition = Condition::new("Placed", false, "BadSelector").message(error.message);
            report(hub, workload, condition)?;
            return Ok(Action::Done);
        }
        selected => selected?,
    };
    let mut rooms = BTreeMap::new();
    let mut again: Option<SignedDuration> = None;
    // What it has, while it may keep that.
    let mut kept = |since: &str, room: i64| -> Result<i64> {
        let left = patience_left(since)?;
        if room > 0 && left.is_positive() {
            again = Some(again.map_or(left, |again| again.min(left)));
            return Ok(room);
        }
        Ok(0)
    };
    for cluster in selected {
        let name = cluster.spec.name.clone();
        let cpus = cluster.metadata.labels.get(CPUS);
        let all: i64 = cpus.and_then(|cpus| cpus.parse().ok()).unwrap_or(0);
        let mut room = (all - used.get(&name).unwrap_or(&0)).max(0) / spec.cpus;
        if !cluster.status.ready {
            let ready = cluster.condition("Ready")?;
            let since = ready.and_then(|ready| ready.last_transition_time);
            room = room.min(workload.replicas_in(&name));
            room = kept(&since.unwrap_or_default(), room)?;
        }
        rooms.insert(name, room);
    }
    // A cluster that is not in the fleet has left, or no Provider has reported it yet since the start.
    let mut away = BTreeMap::new();
    for share in &workload.status.clusters {
        let name = &share.name;
        if !known.contains(name) && !rooms.contains_key(name) {
            let since = share.away_since.clone().unwrap_or_else(now);
            rooms.insert(name.clone(), kept(&since, share.replicas)?);
            away.insert(name.clone(), since);
        }
    }
    // What runs stays, as far as it may. The rest goes where most room is.
    let mut left = spec.replicas;
    let mut runs: Vec<(String, i64, i64)> = Vec::new();
    for (name, room) in rooms {
        let stay = workload.replicas_in(&name).min(room).min(left);
        left -= stay;
        runs.push((name, stay, room - stay));
    }
    runs.sort_by_key(|(_, _, room)| Reverse(*room));
    for (_, replicas, room) in &mut runs {
        let more = left.min(*room);
        *replicas += more;
        left -= more;
    }
    runs.retain(|(_, replicas, _)| *replicas > 0);
    runs.sort();
    let wanted = spec.replicas;
    let shares = runs.into_iter().map(|(name, replicas, _)| Share {
        away_since: away.remove(&name),
        name,
        replicas,
    });
    workload.status.clusters = shares.collect();
    let condition = match left {
        0 => Condition::new("Placed", true, "Done"),
        _ => Condition::new("Placed", false, "NoRoom")
            .message(format!("{left} of {wanted} replicas have no cluster")),
    };
    report(hub, workload, condition)?;
    let again = again.and_then(|left| Duration::try_from(left).ok());
    Ok(again.map_or(Action::Done, Action::requeue_after))
}

fn report(hub: &Cluster, mut workload: Workload, condition: Condition) -> Result<()> {
    workload.set_condition(condition)?;
    hub.set_status::<Workload>(&workload.key(), &workload.status)?;
    Ok(())
}

fn used_by_others(hub: &Cluster, workload: &Workload) -> Result<BTreeMap<String, i64>> {
    let mut used = BTreeMap::new();
    for other in hub.list::<Workload>(&ListOptions::default())? {
        if other.key() != workload.key() {
            for share in other.status.clusters {
                *used.entry(share.name).or_default() += share.replicas * other.spec.cpus;
            }
        }
    }
    Ok(used)
}

fn patience_left(since: &str) -> Result<SignedDuration> {
    let since: Timestamp = since
        .parse()
        .context("the time since when a cluster is away")?;
    let now: Timestamp = now().parse().context("the time")?;
    Ok(PATIENCE - now.duration_since(since))
}

fn namespace_of(workload: &Workload) -> Object {
    let name = &workload.metadata.namespace;
    Object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

fn deployment(workload: &Workload, replicas: i64) -> Object {
    let Workload { metadata, spec, .. } = workload;
    let labels = json!({"app": metadata.name});
    let container = json!({
        "name": "app", "image": spec.image, "resources": {"requests": {"cpu": spec.cpus.to_string()}},
    });
    Object(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": metadata.namespace, "name": metadata.name, "labels": {PLACED: "yes"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }))
}
