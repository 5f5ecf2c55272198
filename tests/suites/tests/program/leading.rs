//! Several running programs and one lease: takeover, paused leaders, drains under load.

use crate::notices::told;
use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::Http;
use crate::witness::{Deed, Entry, Witness};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(3);

/// Of what [`Candidate::refuse`] asks for.
const REFUSAL: &str = "the guest refuses to start";

/// A Manager whose lease lives in the namespace `default` of the local cluster.
fn manager(local: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec:\n  {local}\n  drainTimeout: 10s\n  \
         leaderElection: {{enabled: true, namespace: default, name: test, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}}\n"
    )
}

/// A program that stands for election.
struct Candidate {
    project: Project,
    program: Program,
    address: String,
    who: Who,
}

/// By what a program is known.
#[derive(Clone)]
struct Who {
    /// In its writes.
    manager: String,
    /// In the lease.
    identity: String,
}

impl Candidate {
    async fn start(name: &str, provider: &str, hub: &str, local: &str) -> Result<Self> {
        let project = Project::new()?;
        project.write("clusters/fleet.kubeconfig", provider)?;
        project.write("hub.kubeconfig", hub)?;
        project.write_config(&[manager(local), reconciler(name, &guest("hello"))])?;
        let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
        let mut program = Program::start(project.path(), args)?;
        let field = |line: String, field: &str| -> Result<String> {
            let line: Json = serde_json::from_str(&line)?;
            Ok(line[field]
                .as_str()
                .with_context(|| format!("{field} in {line}"))?
                .to_owned())
        };
        let address = field(program.line_with("admin endpoints", SOON).await?, "address")?;
        let identity = field(
            program.line_with("waiting for the lease", SOON).await?,
            "candidate",
        )?;
        let who = Who {
            manager: format!("windlass:team-a/{name}"),
            identity,
        };
        Ok(Self {
            project,
            program,
            address,
            who,
        })
    }

    /// Changes its document to one that the guest cannot live with: see [`REFUSAL`].
    fn refuse(&self, local: &str) -> Result<()> {
        let name = self.who.manager.rsplit('/').next().unwrap_or_default();
        let document = reconciler(name, &guest("hello"));
        let document = document.replace("greeting: hello", "greeting: [hello]");
        let documents = [manager(local), document];
        self.project.write_config(&documents).map(drop)
    }

    async fn leads(&mut self) -> Result<()> {
        self.program.line_with("\"leading\"", SOON).await.map(drop)
    }

    async fn metric(&self) -> Result<Option<String>> {
        let (_, metrics) = Http {
            address: self.address.clone(),
        }
        .get("/metrics")
        .await?;
        let line = metrics
            .lines()
            .find(|line| line.starts_with("leader_election_master_status"));
        Ok(line.map(str::to_owned))
    }

    async fn writes(&self, witness: &Witness, more: usize) -> Result<()> {
        let before = witness.count(&Deed::Written, &self.who.manager);
        eventually(SOON, "writes", || async {
            Ok(Seen::of(
                witness.count(&Deed::Written, &self.who.manager),
                |now| *now >= before + more,
            ))
        })
        .await
        .map(drop)
    }
}

/// An in-memory fleet of one cluster, a hub beside it, and what they see.
struct Stage {
    server: Server,
    witness: Arc<Witness>,
    provider: String,
    hub: String,
}

impl Stage {
    async fn new() -> Result<Self> {
        let witness = Arc::new(Witness::default());
        let server = Server::builder()
            .hook(witness.clone())
            .cluster("alpha")
            .bind("127.0.0.1:0")
            .await?;
        let provider = server.kubeconfig();
        server.add_cluster("hub");
        let hub = server.kubeconfig();
        Ok(Self {
            server,
            witness,
            provider,
            hub,
        })
    }

    async fn candidate(&self, name: &str) -> Result<Candidate> {
        let local = "local: {kubeconfig: ./hub.kubeconfig, context: hub}";
        Candidate::start(name, &self.provider, &self.hub, local).await
    }

    fn holder(&self) -> Result<String> {
        let hub = self.server.cluster("hub").context("the hub")?;
        let lease = hub
            .get("coordination.k8s.io/v1", "Lease", "default", "test")
            .map_err(|e| anyhow::anyhow!("{e:?}"))?;
        Ok(lease.context("a lease")?["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// Asks for one greeting after the other until it is stopped.
    async fn load(&self, project: &Project) -> Result<Load> {
        let alpha =
            ConfigMaps::in_context(&project.path().join("clusters/fleet.kubeconfig"), "alpha")
                .await?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let asking = tokio::spawn(async move {
            let mut asked = Vec::new();
            while !stopped.is_cancelled() {
                let name = format!("load-{}", asked.len());
                alpha.ask(&name, "world").await?;
                asked.push(name);
                // Not a wait: the pace of the load.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok((alpha, asked))
        });
        Ok(Load { stop, asking })
    }
}

/// A load that runs.
struct Load {
    stop: CancellationToken,
    asking: tokio::task::JoinHandle<Result<(ConfigMaps, Vec<String>)>>,
}

impl Load {
    /// Ends it and tells what was asked for.
    async fn end(self) -> Result<(ConfigMaps, Vec<String>)> {
        self.stop.cancel();
        self.asking.await?
    }
}

/// Every write happened while the lease named its writer.
fn assert_written_under_the_lease(entries: &[Entry], candidates: &[&Who]) {
    let mut holder = "";
    for entry in entries {
        if entry.deed == Deed::Lease {
            holder = &entry.who;
            continue;
        }
        let writer = candidates
            .iter()
            .find(|candidate| candidate.manager == entry.who);
        let writer = writer.map_or("somebody else", |candidate| &candidate.identity);
        assert_eq!(writer, holder, "{entry:?} of {entries:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_leader_loses_its_lease_and_writes_nothing_when_it_goes_on() -> Result<()> {
    let stage = Stage::new().await?;
    let mut first = stage.candidate("first").await?;
    first.leads().await?;
    let mut second = stage.candidate("second").await?;
    second
        .program
        .line_with("the lease has another holder", SOON)
        .await?;
    let load = stage.load(&first.project).await?;
    first.writes(&stage.witness, 5).await?;
    assert!(
        first
            .metric()
            .await?
            .is_some_and(|line| line.ends_with(" 1") || line.ends_with(" 1.0"))
    );
    assert!(
        second
            .metric()
            .await?
            .is_some_and(|line| line.ends_with(" 0") || line.ends_with(" 0.0"))
    );
    let follower = Http {
        address: second.address.clone(),
    };
    eventually(SOON, "a follower that is ready", || async {
        Ok(Seen::of(follower.get("/readyz").await?, |(status, _)| {
            *status == 200
        }))
    })
    .await?;
    assert_eq!(stage.witness.count(&Deed::Write, &second.who.manager), 0);

    first.program.signal("STOP")?;
    let stopped = Instant::now();
    second.leads().await?;
    let entries = stage.witness.entries();
    let last = |who: &str| {
        entries
            .iter()
            .rfind(|entry| entry.deed == Deed::Lease && entry.who == who)
            .map(|entry| entry.at)
    };
    let taken = entries
        .iter()
        .find(|entry| entry.deed == Deed::Lease && entry.who == second.who.identity)
        .context("a takeover")?;
    let renewed = last(&first.who.identity).context("a renewal")?;
    assert!(
        taken.at - renewed >= LEASE,
        "{:?} after the last renewal",
        taken.at - renewed
    );
    // The machine is shared: the bound is a lease, a look, and room for other work.
    assert!(
        taken.at - stopped <= LEASE + Duration::from_secs(5),
        "{:?} after the stop",
        taken.at - stopped
    );
    second.writes(&stage.witness, 5).await?;

    // Its watches have told it of all that was asked for meanwhile, so it has every reason to write.
    first.program.signal("CONT")?;
    second.writes(&stage.witness, 5).await?;
    let who = [first.who.clone(), second.who.clone()];
    let finished = first.program.wait(SOON).await?.expect_code(1)?;
    assert!(
        finished.stderr.contains("leader election lost"),
        "{}",
        finished.stderr
    );
    let (alpha, asked) = load.end().await?;
    for name in &asked {
        alpha.expect_greeted(name).await?;
    }
    second.program.signal("TERM")?;
    second.program.wait(SOON).await?.expect_code(0)?;
    assert_written_under_the_lease(&stage.witness.entries(), &[&who[0], &who[1]]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_under_load_ends_in_time_with_every_write_answered_and_the_lease_given_back()
-> Result<()> {
    for signal in ["TERM", "INT"] {
        let stage = Stage::new().await?;
        let mut only = stage.candidate("only").await?;
        only.leads().await?;
        let load = stage.load(&only.project).await?;
        only.writes(&stage.witness, 5).await?;
        // So that some are under way whenever the signal comes.
        stage.witness.slow_writes(Duration::from_millis(300));
        only.writes(&stage.witness, 5).await?;
        only.program.signal(signal)?;
        let signalled = Instant::now();
        let finished = only.program.wait(SOON).await?.expect_code(0)?;
        assert!(
            signalled.elapsed() < Duration::from_secs(15),
            "{:?}: {}",
            signalled.elapsed(),
            finished.stderr
        );
        assert_eq!(stage.holder()?, "");
        let (alpha, asked) = load.end().await?;
        let entries = stage.witness.entries();
        assert_written_under_the_lease(&entries, &[&only.who]);
        let count = |deed: Deed| entries.iter().filter(|entry| entry.deed == deed).count();
        assert_eq!(
            count(Deed::Write),
            count(Deed::Written),
            "a write was cut off half way"
        );
        assert_eq!(
            entries
                .last()
                .map(|entry| (&entry.deed, entry.who.as_str())),
            Some((&Deed::Lease, ""))
        );

        // What was left undone is done by the next one, which need not wait for a lease to end.
        stage.witness.slow_writes(Duration::ZERO);
        let mut next = stage.candidate("next").await?;
        next.leads().await?;
        for name in &asked {
            alpha.expect_greeted(name).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_process_tells_of_its_own_refusals_whether_it_leads_or_not() -> Result<()> {
    let stage = Stage::new().await?;
    let mut first = stage.candidate("shared").await?;
    first.leads().await?;
    let second = stage.candidate("shared").await?;
    let hub = stage.server.cluster("hub").context("the hub")?;
    // The document is one, the files are two: first only the follower has the new one.
    for candidate in [&second, &first] {
        candidate.refuse("local: {kubeconfig: ./hub.kubeconfig, context: hub}")?;
        let by = &candidate.who.identity;
        let event = told(&hub, "Warning", REFUSAL, by, 1).await?;
        assert_eq!(event["reportingInstance"], *by);
    }
    Ok(())
}

/// The longest time between two of the next renewals of the lease, while probes are answered, and how long the longest of these took.
async fn renewals(stage: &Stage, http: &Http) -> Result<(Duration, Duration)> {
    const RENEWALS: usize = 6;
    let times = || {
        let entries = stage.witness.entries();
        let leases = entries.iter().filter(|entry| entry.deed == Deed::Lease);
        leases.map(|entry| entry.at).collect::<Vec<_>>()
    };
    let (from, slowest) = (times().len(), Cell::new(Duration::ZERO));
    eventually(SOON, "renewals", || async {
        for path in ["/livez", "/readyz"] {
            let asked = Instant::now();
            let (status, body) = http.get(path).await?;
            assert_eq!(status, 200, "{path}: {body}");
            slowest.set(slowest.get().max(asked.elapsed()));
        }
        Ok(Seen::of(times().len(), |now| *now >= from + RENEWALS))
    })
    .await?;
    let times = times();
    let gaps = times[from..].windows(2).map(|pair| pair[1] - pair[0]);
    Ok((gaps.max().context("renewals")?, slowest.get()))
}

/// A tenant with a guest that never returns.
fn looping(tenant: &str) -> String {
    let document = reconciler(&format!("loops-{tenant}"), &guest("test-loop"));
    let document = document.replace("tenant: team-a", &format!("tenant: {tenant}"));
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {tenant}}}\n{document}  limits: {{timeout: 60s}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_in_time_while_tenants_compute_without_end() -> Result<()> {
    let stage = Stage::new().await?;
    let mut only = stage.candidate("only").await?;
    only.leads().await?;
    let http = Http {
        address: only.address.clone(),
    };
    eventually(SOON, "readiness", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, _)| {
            *status == 200
        }))
    })
    .await?;
    let idle = renewals(&stage, &http).await?;

    let tenants = ["team-b", "team-c", "team-d"];
    let mut documents = vec![
        manager("local: {kubeconfig: ./hub.kubeconfig, context: hub}"),
        reconciler("only", &guest("hello")),
    ];
    documents.extend(tenants.map(looping));
    only.project.write_config(&documents)?;
    let kubeconfig = only.project.path().join("clusters/fleet.kubeconfig");
    let alpha = ConfigMaps::in_context(&kubeconfig, "alpha").await?;
    // For each of them more calls than threads.
    for at in 0..4 {
        alpha.ask(&format!("m{at}"), "world").await?;
    }
    let computed = async || -> Result<Vec<f64>> {
        let (_, body) = http.get("/api/v1/tenants").await?;
        let answer: Json = serde_json::from_str(&body)?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let loops = items.iter().filter(|item| item["name"] != "team-a");
        let used = loops.map(|item| item["usage"]["cpuSeconds"].as_f64());
        Ok(used.map(Option::unwrap_or_default).collect())
    };
    let are_busy = |used: &Vec<f64>| used.len() == 3 && used.iter().all(|used| *used > 0.2);
    let before = eventually(SOON, "loops of all tenants", || async {
        Ok(Seen::of(computed().await?, are_busy))
    })
    .await?;
    let began = Instant::now();
    let busy = renewals(&stage, &http).await?;
    let (took, after) = (began.elapsed().as_secs_f64(), computed().await?);
    let used: f64 = after.iter().sum::<f64>() - before.iter().sum::<f64>();
    assert!(
        used > took / 4.0,
        "the loops computed for {used} s of {took} s"
    );
    // Well before the renew deadline, which is two seconds; a loop that held a renewal up would hold it up for a minute.
    let bound = |idle: Duration| 2 * idle + Duration::from_millis(500);
    assert!(busy.0 <= bound(idle.0), "{:?}, idle {:?}", busy.0, idle.0);
    assert!(busy.1 <= bound(idle.1), "{:?}, idle {:?}", busy.1, idle.1);
    assert!(
        only.metric().await?.is_some_and(|line| line.contains(" 1")),
        "it leads"
    );
    let entries = stage.witness.entries();
    let leases = entries.iter().filter(|entry| entry.deed == Deed::Lease);
    for lease in leases {
        assert_eq!(lease.who, only.who.identity);
    }
    // Who leads works meanwhile.
    for at in 0..4 {
        alpha.expect_greeted(&format!("m{at}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_election_without_a_local_cluster_is_refused_with_the_remedy() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[
        manager("concurrency: {global: 64}"),
        reconciler("hello", &guest("hello")),
    ])?;
    let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(1)?;
    assert!(
        finished
            .stderr
            .contains("leader election needs a local cluster"),
        "{}",
        finished.stderr
    );
    Ok(())
}
