//! Several running programs that share the clusters of a fleet: who works on which, and what happens when one dies, stops or drains.

#[path = "sharded/relay.rs"]
mod relay;

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, address_in};
use crate::witness::{Deed, Witness};
use anyhow::{Context, Result, ensure};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::coordination::v1::Lease;
use kube_client::api::{Api, ListParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use relay::Relay;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};
use windlass_harness::testenv::{Environment, Spec};

/// Short ones: how soon a dead member's clusters run elsewhere is measured in the time of the simulation.
const LEASE: Duration = Duration::from_secs(3);
const MEMBERS: usize = 3;
const CLUSTERS: usize = 60;
/// How often the clusters are looked at while no shard moves.
const ATTEMPTS: usize = 10;
/// How long the local cluster's API server is away: as many Leases as a minute is by default.
const AWAY: Duration = Duration::from_secs(12);

/// A process of the fleet. Its reconciler has its name, and so have its writes.
struct Member {
    name: String,
    project: Project,
    program: Program,
    address: String,
}

/// A fleet of in-memory clusters beside a real local one, and what they see.
struct Stage {
    /// The kubeconfig of the local cluster.
    hub: String,
    witness: Arc<Witness>,
    provider: String,
    clusters: Vec<(String, ConfigMaps)>,
    server: Server,
    environment: Option<Environment>,
    _project: Project,
}

impl Stage {
    /// With a real local cluster.
    async fn real() -> Result<Self> {
        let environment = Environment::start([Spec::new("hub")]).await?;
        let mut stage = Self::memory(CLUSTERS).await?;
        stage.hub = environment.server("hub").kubeconfig();
        stage.environment = Some(environment);
        Ok(stage)
    }

    async fn memory(clusters: usize) -> Result<Self> {
        let witness = Arc::new(Witness::default());
        let names: Vec<String> = (0..clusters).map(|at| format!("c{at:02}")).collect();
        let builder = Server::builder().hook(witness.clone());
        let builder = names.iter().fold(builder, |one, name| one.cluster(name));
        let server = builder.bind("127.0.0.1:0").await?;
        let provider = server.kubeconfig();
        server.add_cluster("hub");
        let project = Project::new()?;
        let file = project.write("fleet.kubeconfig", &provider)?;
        let clusters = names.into_iter().map(async |name| {
            let maps = ConfigMaps::in_context(&file, &name).await?;
            anyhow::Ok((name, maps))
        });
        Ok(Self {
            clusters: try_join_all(clusters).await?,
            hub: server.kubeconfig(),
            witness,
            provider,
            server,
            environment: None,
            _project: project,
        })
    }

    /// A process with a reconciler of its own name.
    async fn member(&self, at: usize) -> Result<Member> {
        self.member_with(at, &format!("windlass-{at}")).await
    }

    async fn member_with(&self, at: usize, name_of_reconciler: &str) -> Result<Member> {
        let project = Project::new()?;
        project.write("clusters/fleet.kubeconfig", &self.provider)?;
        project.write("hub.kubeconfig", &self.hub)?;
        let manager = "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: manager}\nspec:\n  \
             local: {kubeconfig: ./hub.kubeconfig, context: hub}\n  drainTimeout: 10s\n  \
             sharding: {enabled: true, namespace: default, name: test, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n";
        let name = format!("windlass-{at}");
        project.write_config(&[
            manager.to_owned(),
            reconciler(name_of_reconciler, &guest("hello")),
        ])?;
        let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
        let variables = [("POD_NAME", name.as_str())];
        let mut program = Program::start_with(project.path(), args, &variables)?;
        let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
        Ok(Member {
            name,
            project,
            program,
            address,
        })
    }

    /// Asks for a greeting in every cluster.
    async fn ask(&self, name: &str) -> Result<()> {
        let all = self
            .clusters
            .iter()
            .map(|(_, maps)| maps.ask(name, "world"));
        try_join_all(all).await.map(drop)
    }

    /// Waits until every cluster has it.
    async fn expect_greeted(&self, name: &str) -> Result<()> {
        let all = self.clusters.iter();
        let all = all.map(|(_, maps)| maps.expect_greeted(name));
        try_join_all(all).await.map(drop)
    }

    /// The processes that have written in each cluster since then.
    fn writers(&self, since: Instant) -> BTreeMap<String, BTreeSet<String>> {
        let mut writers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let entries = self.witness.entries().into_iter();
        for entry in entries.filter(|entry| entry.deed == Deed::Write && entry.at >= since) {
            let who = entry.who.trim_start_matches("windlass:team-a/").to_owned();
            writers.entry(entry.cluster).or_default().insert(who);
        }
        writers
    }

    /// Of the local cluster.
    async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::from_yaml(&self.hub)?;
        let options = KubeConfigOptions {
            context: Some("hub".to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Client::try_from(config)?)
    }

    /// The names of the Leases of a member.
    async fn lives(&self, member: &str) -> Result<BTreeSet<String>> {
        let leases = Api::<Lease>::namespaced(self.client().await?, "default");
        let label = ListParams::default().labels("windlass.dev/sharding=test");
        let named = leases
            .list(&label)
            .await?
            .items
            .into_iter()
            .filter_map(|lease| {
                let annotations = lease.metadata.annotations?;
                let state: Json =
                    serde_json::from_str(annotations.get("windlass.dev/member")?).ok()?;
                (state["name"] == member).then_some(lease.metadata.name?)
            });
        Ok(named.collect())
    }
}

impl Member {
    fn http(&self) -> Http {
        Http {
            address: self.address.clone(),
        }
    }

    async fn command(&self, args: &[&str]) -> Result<Finished> {
        let at = ["--admin", &self.address];
        let args = args.iter().copied().chain(at);
        Program::run(self.project.path(), args, SOON).await
    }

    async fn shards(&self) -> Result<Json> {
        let (status, text) = self.http().get("/api/v1/shards").await?;
        ensure!(status == 200, "{text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// The owner of each cluster, as this process knows it.
    async fn owners(&self) -> Result<BTreeMap<String, String>> {
        let (_, text) = self.http().get("/api/v1/clusters").await?;
        let answer: Json = serde_json::from_str(&text)?;
        let clusters = answer["items"].as_array().context("clusters")?;
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let owners = clusters
            .iter()
            .map(|one| (text(&one["name"]), text(&one["owner"])));
        Ok(owners.collect())
    }
}

/// Waits until these members, and no others, hold all shards, and each of them says the same.
async fn settled(members: &[&Member]) -> Result<()> {
    let names: BTreeSet<&str> = members.iter().map(|one| one.name.as_str()).collect();
    let is_settled = |views: &Vec<Result<Json>>| {
        let views: Option<Vec<&Json>> = views.iter().map(|view| view.as_ref().ok()).collect();
        let Some(views) = views else { return false };
        let holds = |item: &&Json| item["shards"] != 0;
        views.iter().all(|view| {
            let items = view["items"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            let holders = items.iter().filter(holds);
            let holders: BTreeSet<&str> =
                holders.filter_map(|item| item["name"].as_str()).collect();
            let is_calm = items.iter().all(|item| item["next"] == 0);
            let is_whole = view["shardsWithoutOwner"] == 0 && view["clustersWithoutOwner"] == 0;
            view["items"] == views[0]["items"] && holders == names && is_calm && is_whole
        })
    };
    eventually(SOON, "all shards to be held", || async {
        let views = join_all(members.iter().map(|member| member.shards())).await;
        Ok(Seen::of(views, is_settled))
    })
    .await
    .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers"]
async fn processes_share_the_clusters_whatever_happens_to_one_of_them() -> Result<()> {
    let stage = Stage::real().await?;
    let members = try_join_all((0..MEMBERS).map(|at| stage.member(at))).await?;
    let mut members: [Member; MEMBERS] = members.try_into().ok().context("the members")?;
    let asked = each_cluster_has_one_writer(&stage, &members).await?;
    every_process_tells_the_same(&members, &asked).await?;

    let [first, second, third] = &mut members;
    a_stopped_member_writes_nothing_when_it_goes_on(&stage, second).await?;
    settled(&[first, second, third]).await?;

    third.program.signal("KILL")?;
    stage.ask("killed").await?;
    stage.expect_greeted("killed").await?;
    settled(&[first, second]).await?;

    a_drained_member_stays_without_clusters(&stage, first, second).await?;
    let [first, second, _] = members;
    for member in [second, first] {
        member.program.signal("TERM")?;
        member.program.wait(SOON).await?.expect_code(0)?;
        assert!(
            stage.lives(&member.name).await?.is_empty(),
            "{}",
            member.name
        );
    }
    Ok(())
}

/// The one that owns it. Returns the name of what was asked for in each.
async fn each_cluster_has_one_writer(stage: &Stage, members: &[Member]) -> Result<String> {
    for attempt in 0..ATTEMPTS {
        settled(&members.iter().collect::<Vec<_>>()).await?;
        let (before, since) = (moves(members).await?, Instant::now());
        let name = format!("first-{attempt}");
        stage.ask(&name).await?;
        stage.expect_greeted(&name).await?;
        let owners = members[0].owners().await?;
        // A member that had no processor for a while has lost its shards, and rightly so.
        if moves(members).await? == before {
            assert_one_writer(stage, &owners, &stage.writers(since))?;
            return Ok(name);
        }
    }
    anyhow::bail!("shards moved each time")
}

/// Shards that the members have taken or given away.
async fn moves(members: &[Member]) -> Result<Vec<Json>> {
    let views = try_join_all(members.iter().map(Member::shards)).await?;
    Ok(views
        .into_iter()
        .map(|view| view["moves"].clone())
        .collect())
}

fn assert_one_writer(
    stage: &Stage,
    owners: &BTreeMap<String, String>,
    writers: &BTreeMap<String, BTreeSet<String>>,
) -> Result<()> {
    for (cluster, _) in &stage.clusters {
        let owner = owners.get(cluster).context("an owner")?;
        let of_cluster = writers.get(cluster).context("a writer")?;
        assert_eq!(of_cluster, &BTreeSet::from([owner.clone()]), "{cluster}");
    }
    let working: BTreeSet<&String> = owners.values().collect();
    assert_eq!(working.len(), MEMBERS, "{owners:?}");
    Ok(())
}

/// As a table, and about the keys of others.
async fn every_process_tells_the_same(members: &[Member], asked: &str) -> Result<()> {
    let tables = members.iter().map(async |member| {
        let shown = member.command(&["get", "shards"]).await?.expect_code(0)?;
        anyhow::Ok(shown.stdout)
    });
    let tables = try_join_all(tables).await?;
    assert!(
        tables.iter().all(|table| *table == tables[0]),
        "{tables:#?}"
    );
    assert!(tables[0].contains("windlass-2  Working"), "{}", tables[0]);
    let owners = members[0].owners().await?;
    let (cluster, owner) = owners.iter().next_back().context("a cluster")?;
    for member in members {
        let key = format!("cluster://{cluster}/default/{asked}");
        let requeued = member.command(&["requeue", &key]).await?;
        if member.name == *owner {
            requeued.expect_code(0)?;
            continue;
        }
        let refused = requeued.expect_code(1)?;
        let remedy = format!("the process {owner} works on the cluster {cluster:?}: ask that one");
        assert!(refused.stderr.contains(&remedy), "{}", refused.stderr);
        let explained = member.command(&["get", "keys", &key]).await?;
        assert!(explained.expect_code(1)?.stderr.contains(&remedy));
    }
    Ok(())
}

async fn a_stopped_member_writes_nothing_when_it_goes_on(
    stage: &Stage,
    member: &Member,
) -> Result<()> {
    let before = stage.lives(&member.name).await?;
    member.program.signal("STOP")?;
    let stopped = Instant::now();
    // Its watches hold all of that when it goes on.
    stage.ask("stopped").await?;
    stage.expect_greeted("stopped").await?;
    // Not a wait: how long it is stopped.
    tokio::time::sleep((LEASE * 2).saturating_sub(stopped.elapsed())).await;
    let resumed = Instant::now();
    member.program.signal("CONT")?;
    // In its next life it may hold shards. It takes longer to get some than to see its Lease here.
    eventually(SOON, "its next life", || async {
        let now = stage.lives(&member.name).await?;
        Ok(Seen::of(now, |now| {
            now.difference(&before).next().is_some()
        }))
    })
    .await?;
    let writers = stage.writers(resumed);
    let late = writers.values().any(|who| who.contains(&member.name));
    assert!(!late, "{writers:?}");
    Ok(())
}

async fn a_drained_member_stays_without_clusters(
    stage: &Stage,
    other: &Member,
    member: &Member,
) -> Result<()> {
    let drained = member.command(&["drain"]).await?.expect_code(0)?;
    assert_eq!(drained.stdout, "windlass-1 holds no shards\n");
    settled(&[other]).await?;
    let since = Instant::now();
    stage.ask("drained").await?;
    stage.expect_greeted("drained").await?;
    let all: BTreeSet<String> = stage.writers(since).into_values().flatten().collect();
    assert_eq!(all, BTreeSet::from([other.name.clone()]));
    let (status, ready) = member.http().get("/readyz?verbose").await?;
    assert!(
        status == 200 && ready.contains("0 of 256 shards are held here, 2 living members"),
        "{ready}"
    );
    assert!(
        other
            .command(&["get", "shards"])
            .await?
            .stdout
            .contains("windlass-1  Draining")
    );
    // There is nobody to take those of the last one.
    let alone = other.command(&["drain"]).await?.expect_code(1)?;
    assert!(
        alone.stderr.contains("the only process that lives"),
        "{}",
        alone.stderr
    );
    Ok(())
}

/// One process, then four, each of them restarted, then two, while the load goes on; and their Leases' server is away.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers"]
async fn a_fleet_under_load_grows_is_restarted_shrinks_and_outlives_its_api_server() -> Result<()> {
    let stage = Stage::real().await?;
    let is_over = AtomicBool::new(false);
    let load = async {
        let mut asked = 0;
        while !is_over.load(Ordering::SeqCst) {
            let (_, maps) = &stage.clusters[asked % CLUSTERS];
            maps.ask(&format!("load-{asked}"), "world").await?;
            asked += 1;
            // Not a wait: the pace of the load.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for number in 0..asked {
            let (_, maps) = &stage.clusters[number % CLUSTERS];
            maps.expect_greeted(&format!("load-{number}")).await?;
        }
        assert!(asked > CLUSTERS, "{asked}");
        anyhow::Ok(())
    };
    let changes = async {
        let mut members = vec![stage.member(0).await?];
        settled(&members.iter().collect::<Vec<_>>()).await?;
        members.extend(try_join_all((1..4).map(|at| stage.member(at))).await?);
        settled(&members.iter().collect::<Vec<_>>()).await?;
        for at in 0..4 {
            end(members.remove(0)).await?;
            members.push(stage.member(at).await?);
            settled(&members.iter().collect::<Vec<_>>()).await?;
        }
        end(members.remove(0)).await?;
        end(members.remove(0)).await?;
        settled(&members.iter().collect::<Vec<_>>()).await?;
        without_the_api_server(&stage).await?;
        settled(&members.iter().collect::<Vec<_>>()).await?;
        is_over.store(true, Ordering::SeqCst);
        anyhow::Ok(members)
    };
    let (members, ()) = tokio::try_join!(changes, load)?;
    for member in members {
        end(member).await?;
    }
    Ok(())
}

async fn end(member: Member) -> Result<()> {
    member.program.signal("TERM")?;
    member.program.wait(SOON).await?.expect_code(0).map(drop)
}

/// Nobody writes once the Leases have ended.
async fn without_the_api_server(stage: &Stage) -> Result<()> {
    let environment = stage.environment.as_ref().context("a real one")?;
    let hub = environment.server("hub");
    hub.kill();
    let ended = Instant::now() + LEASE;
    // Not a wait: how long it is away.
    tokio::time::sleep(AWAY).await;
    let writers = stage.writers(ended);
    hub.restart().await?;
    assert!(writers.is_empty(), "{writers:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_ask_the_process_that_works_on_a_cluster_or_all_of_them() -> Result<()> {
    let stage = Stage::memory(8).await?;
    let members = (0..2).map(|at| stage.member_with(at, "hello"));
    let members = try_join_all(members).await?;
    settled(&[&members[0], &members[1]]).await?;
    stage.ask("a").await?;
    stage.expect_greeted("a").await?;
    let pods = members.iter();
    let pods = pods.map(|member| (member.name.clone(), member.address.clone()));
    let server = stage.server.address().to_string();
    let relay = Relay::start(&server, pods.collect()).await?;
    let person = Project::new()?;
    person.write("kubeconfig", stage.hub.replace(&server, &relay.address))?;
    person.write("token", "of a person")?;
    let command = async |args: &[&str]| {
        let at = "--kubeconfig kubeconfig --context hub -n default --lease test --token token";
        let args = args.iter().copied().chain(at.split(' '));
        Program::run(person.path(), args, SOON).await
    };

    // Of a key: its owner.
    let owners = members[0].owners().await?;
    for (cluster, _) in &stage.clusters {
        let key = format!("cluster://{cluster}/default/a");
        command(&["requeue", &key]).await?.expect_code(0)?;
        let explained = command(&["get", "keys", &key]).await?.expect_code(0)?;
        assert!(
            explained.stdout.contains("nothing is left to do"),
            "{}",
            explained.stdout
        );
        command(&["pause", &key]).await?.expect_code(0)?;
    }
    // Of lists: each of them.
    let expected = stage.clusters.iter();
    let expected = expected.map(|(cluster, _)| format!("cluster://{cluster}/default/a"));
    let expected: Vec<String> = expected.collect();
    eventually(SOON, "the paused keys of both", || async {
        let args = ["get", "keys", "--state", "paused", "-o", "json"];
        let paused = command(&args).await?.expect_code(0)?;
        let paused: Json = serde_json::from_str(&paused.stdout)?;
        let keys = paused["items"].as_array().cloned().unwrap_or_default();
        let keys = keys.iter().filter_map(|item| item["key"].as_str());
        let keys: Vec<String> = keys.map(str::to_owned).collect();
        Ok(Seen::of(keys, |keys| *keys == expected))
    })
    .await?;
    // Of a cluster: what its owner says, because only the owner caches its objects.
    let shown = command(&["get", "clusters", "-o", "json"]).await?;
    let shown: Json = serde_json::from_str(&shown.expect_code(0)?.stdout)?;
    let rows = shown["items"].as_array().context("clusters")?;
    let has_owner = rows.iter().all(|row| row["owner"] != "");
    let is_cached = |row: &&Json| row["name"] == "" || row["objects"].as_u64() > Some(0);
    assert!(
        rows.len() == 9 && has_owner && rows.iter().all(|row| is_cached(&row)),
        "{rows:?}"
    );
    let shown = command(&["get", "reconcilers", "-o", "json"]).await?;
    let shown: Json = serde_json::from_str(&shown.expect_code(0)?.stdout)?;
    let reconcilers = shown["items"].as_array().context("reconcilers")?;
    assert_eq!(reconcilers.len(), 1, "{reconcilers:?}");
    let counts = (&reconcilers[0]["clusters"], &reconcilers[0]["pausedKeys"]);
    assert_eq!(counts, (&8.into(), &8.into()));
    let held = command(&["release", "hello"]).await?.expect_code(0)?;
    assert!(
        held.stdout.contains("no object holds a finalizer"),
        "{}",
        held.stdout
    );
    let refused = command(&["rollback", "hello"]).await?.expect_code(1)?;
    for member in &members {
        let named = format!("{}: ", member.name);
        assert!(refused.stderr.contains(&named), "{}", refused.stderr);
    }

    // One that does not answer is missed.
    members[1].program.signal("KILL")?;
    let partial = command(&["get", "tenants"]).await?.expect_code(1)?;
    assert!(
        partial.stderr.contains("without windlass-1: "),
        "{}",
        partial.stderr
    );
    assert!(partial.stdout.contains("team-a"), "{}", partial.stdout);
    settled(&[&members[0]]).await?;
    command(&["get", "tenants"]).await?.expect_code(0)?;
    let mut of_dead = owners.iter();
    let (cluster, _) = of_dead
        .rfind(|(_, owner)| **owner == members[1].name)
        .context("a cluster")?;
    let key = format!("cluster://{cluster}/default/a");
    command(&["resume", &key]).await?.expect_code(0)?;
    Ok(())
}
