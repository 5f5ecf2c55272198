//! Credentials that end, change, fail or may not be used. Entry points: [`Credentials`] and the tests.

use crate::oracle;
use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Faults, RequestFault, Rule, Verb};
use windlass_fleet::cluster::{
    AllowServers, ClusterConfig, ClusterState, ConfigError, ExecPolicy, KubeconfigPolicy,
    TransportOptions,
};
use windlass_harness::eventually::{Seen, wait};

fn secured(clusters: &[&str]) -> Setup {
    Setup::of(clusters).tls()
}

/// For objects whose writers the operator trusts as with a shell of the process.
fn trusted() -> KubeconfigPolicy {
    KubeconfigPolicy {
        exec: ExecPolicy::Allow,
        files: true,
        allow_servers: AllowServers::any(),
        ..KubeconfigPolicy::object()
    }
}

/// The server's kubeconfig with another user: YAML or JSON in one line.
fn kubeconfig(rig: &Rig, user: &str) -> String {
    let text = rig.server.kubeconfig();
    let (clusters, _) = text.rsplit_once("  user: ").expect("a user");
    format!("{clusters}  user: {user}\n")
}

/// What a credential plugin gives, in a folder of its own, and how often it was asked.
struct Plugin {
    folder: tempfile::TempDir,
}

impl Plugin {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self { folder })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// From now on it prints this.
    fn gives(&self, status: &serde_json::Value) -> Result<()> {
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
        let next = self.file("next");
        std::fs::write(&next, credential.to_string())?;
        Ok(std::fs::rename(next, self.file("credential"))?)
    }

    /// The user of a kubeconfig that runs a script, which notes that it was run.
    fn user(&self, script: &str) -> String {
        let script = format!("echo run >> {}; {script}", self.file("runs").display());
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": ["-c", script], "interactiveMode": "Never"}})
        .to_string()
    }

    /// The user that runs what prints what it [`gives`](Self::gives).
    fn printing(&self) -> String {
        self.user(&format!("cat {}", self.file("credential").display()))
    }

    fn runs(&self) -> usize {
        let runs = std::fs::read_to_string(self.file("runs")).unwrap_or_default();
        runs.lines().count()
    }
}

/// Lists that were made because a watch could not be resumed, of all clusters.
fn relists(rig: &Rig) -> Result<u64> {
    let metrics = rig.metrics()?;
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with("windlass_cluster_relists_total{"));
    counts
        .map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?))
        .sum()
}

/// What is logged by this thread, and by the tasks of a runtime that runs on it alone.
#[derive(Clone, Default)]
struct Logged(Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn open_sockets(rig: &Rig, wanted: usize) -> Result<()> {
    wait("old sockets to be closed", || {
        Seen::of(rig.server.connections(), |now| now.open == wanted)
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn new_credentials_and_authorities_are_exchanged_in_place_and_old_sockets_closed()
-> Result<()> {
    let rig = Rig::start(secured(&["alpha", "beta"])).await?;
    let engaged = || ["alpha", "beta"].map(|name| rig.engaged(name).expect("engaged"));
    let before = engaged();
    assert_eq!(
        rig.server.connections().accepted,
        1,
        "clusters of one server share one connection"
    );
    rig.server.set_tokens(Some(&["one"]));
    for made in 2..=3 {
        if made == 3 {
            rig.server.rotate_ca()?;
        }
        for cluster in ["alpha", "beta"] {
            rig.add(cluster)?;
            rig.put(
                cluster,
                "seed-0",
                &format!("changed with connection {made}"),
            )?;
        }
        oracle::settled(&rig).await?;
        open_sockets(&rig, 1).await?;
        assert_eq!(rig.server.connections().accepted, made);
    }
    let same = |(a, b): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(a, b);
    assert!(before.iter().zip(engaged().iter()).all(same));
    assert_eq!(relists(&rig)?, 0, "watches resume without a list");
    let counts = rig.status("alpha")?.connections;
    assert_eq!((counts.http2.open, counts.http2.made), (1, 1));
    assert_eq!((counts.http1.made, counts.shared_by), (0, 2));
    rig.finish().await
}

#[tokio::test]
async fn no_key_runs_at_a_server_of_another_authority_before_it_has_said_who_it_is() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::start(secured(&["alpha"]).hook(faults.clone())).await?;
    let before = rig.engaged("alpha").context("engaged")?;
    // A key has something to write, and tries again and again.
    let refused = Rule::new(RequestFault::Cut).verb(Verb::Patch);
    let refused = faults.add(refused.resource("configmaps"));
    rig.put("alpha", "seed-0", "never written")?;
    wait("a write that fails", || {
        Seen::of(faults.struck(refused), |n| *n >= 1)
    })
    .await?;
    // Another server takes the address, with another authority and other tokens.
    rig.simulated("alpha").down(true);
    rig.server.rotate_ca()?;
    rig.server.set_tokens(Some(&["two"]));
    assert!(rig.server.remove_cluster("alpha"));
    rig.server.add_cluster("alpha");
    faults.clear();
    let late = Rule::new(RequestFault::Delay(Duration::from_secs(2)));
    faults.add(late.verb(Verb::Get).resource("namespaces"));
    rig.put("alpha", "foreign", "of the other server")?;
    rig.add("alpha")?;
    wait("a cluster of its own", || {
        let now = rig.engaged("alpha");
        let other = now.is_some_and(|now| !Arc::ptr_eq(&now, &before));
        Seen::of(other, |other| *other)
    })
    .await?;
    oracle::settled(&rig).await?;
    let calls = rig.simulated("alpha").requests();
    let own: Vec<&str> = calls.iter().map(|call| &*call.name).collect();
    assert!(own.contains(&"foreign-out"), "{own:?}");
    assert!(!own.contains(&"seed-0-out"), "{own:?}");
    rig.finish().await
}

#[tokio::test]
async fn a_cluster_whose_token_ended_holds_its_keys_until_it_gets_another() -> Result<()> {
    let rig = Rig::start(secured(&["alpha", "beta"])).await?;
    let before = rig.engaged("alpha").context("engaged")?;
    rig.server.set_tokens(Some(&["one"]));
    for cluster in ["alpha", "beta"] {
        rig.simulated(cluster).cut_watches();
        let status = rig.reaches(cluster, ClusterState::Degraded).await?;
        assert!(
            status.reason.contains(&format!(
                "/clusters/{cluster} answers 401 (Unauthorized) to requests without credentials"
            )),
            "its kubeconfig has a user without any, and the two share their connections: {}",
            status.reason
        );
    }
    rig.add("beta")?;
    rig.put("alpha", "seed-0", "changed meanwhile")?;
    rig.put("beta", "seed-0", "changed meanwhile")?;
    rig.add("alpha")?;
    rig.ready("alpha").await?;
    oracle::settled(&rig).await?;
    assert!(Arc::ptr_eq(
        &before,
        &rig.engaged("alpha").context("engaged")?
    ));
    rig.finish().await
}

#[tokio::test]
async fn a_token_file_is_read_again_when_its_token_is_refused() -> Result<()> {
    let rig = Rig::start(secured(&["alpha"])).await?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), "one")?;
    rig.server.set_tokens(Some(&["one"]));
    let user = json!({"tokenFile": file.path()}).to_string();
    rig.add_from("alpha", &kubeconfig(&rig, &user), &KubeconfigPolicy::file())?;
    rig.put("alpha", "seed-0", "written with the first token")?;
    oracle::settled(&rig).await?;
    let accepted = rig.server.connections().accepted;
    std::fs::write(file.path(), "two")?;
    rig.server.set_tokens(Some(&["two"]));
    rig.put("alpha", "seed-0", "written with the second token")?;
    oracle::settled(&rig).await?;
    assert_eq!(
        rig.server.connections().accepted,
        accepted,
        "a new token needs no new connection"
    );
    rig.finish().await
}

#[tokio::test]
async fn a_plugin_is_run_again_when_what_it_gave_has_ended_or_is_refused() -> Result<()> {
    let rig = Rig::start(secured(&["alpha"])).await?;
    let plugin = Plugin::new()?;
    rig.server.set_tokens(Some(&["one"]));
    plugin.gives(&json!({"token": "one", "expirationTimestamp": "2100-01-01T00:00:00Z"}))?;
    let text = kubeconfig(&rig, &plugin.printing());
    rig.add_from("alpha", &text, &trusted())?;
    rig.put("alpha", "seed-0", "written with the first token")?;
    oracle::settled(&rig).await?;
    assert_eq!(plugin.runs(), 1, "a credential that has not ended is kept");
    assert!(rig.status("alpha")?.credentials_until.is_some());
    // Refused before its end.
    rig.server.set_tokens(Some(&["two"]));
    plugin.gives(&json!({"token": "two", "expirationTimestamp": "2000-01-01T00:00:00Z"}))?;
    rig.put("alpha", "seed-0", "written with the second token")?;
    oracle::settled(&rig).await?;
    let runs = plugin.runs();
    assert!(runs >= 2);
    // Ended by its own word: what is half a second old is asked for anew by the next call.
    plugin.gives(&json!({"token": "two", "expirationTimestamp": "2100-01-01T00:00:00Z"}))?;
    let mut writes = 0;
    wait("the plugin to run again", || {
        writes += 1;
        let put = rig.put("alpha", "seed-0", &format!("write {writes}"));
        Seen::of(put.map(|()| plugin.runs()).unwrap_or(0), |n| *n > runs)
    })
    .await?;
    oracle::settled(&rig).await?;
    rig.finish().await
}

#[tokio::test]
async fn a_new_certificate_of_a_plugin_gives_up_the_connections_of_the_old() -> Result<()> {
    let rig = Rig::start(secured(&["alpha"])).await?;
    let plugin = Plugin::new()?;
    rig.server.set_tokens(Some(&[]));
    let give = |until: &str| -> Result<()> {
        let issued = rig
            .server
            .issue_certificate("robot", Duration::from_secs(3600))?;
        let issued = issued.context("tls has an authority")?;
        plugin.gives(&json!({"clientCertificateData": issued.certificate,
            "clientKeyData": issued.key, "expirationTimestamp": until}))
    };
    // Ended as soon as it is there: the next call asks for another.
    give("2000-01-01T00:00:00Z")?;
    let text = kubeconfig(&rig, &plugin.printing());
    rig.add_from("alpha", &text, &KubeconfigPolicy::file())?;
    wait("the plugin to run", || Seen::of(plugin.runs(), |n| *n >= 1)).await?;
    give("2100-01-01T00:00:00Z")?;
    rig.put("alpha", "seed-0", "written with the second certificate")?;
    oracle::settled(&rig).await?;
    open_sockets(&rig, 1).await?;
    assert!(rig.server.connections().accepted >= 2);
    assert_eq!(relists(&rig)?, 0, "watches resume without a list");
    rig.finish().await
}

#[tokio::test]
async fn a_plugin_that_hangs_delays_its_own_cluster_alone() -> Result<()> {
    let mut setup = secured(&["alpha", "beta"]);
    setup.manager.transport = TransportOptions {
        plugin_timeout: Duration::from_secs(1),
        ..TransportOptions::default()
    };
    let rig = Rig::start(setup).await?;
    let plugin = Plugin::new()?;
    rig.server.set_tokens(Some(&["one"]));
    rig.add("beta")?;
    let hanging = plugin.user("sleep 600");
    rig.add_from(
        "alpha",
        &kubeconfig(&rig, &hanging),
        &KubeconfigPolicy::file(),
    )?;
    rig.put("beta", "seed-0", "written while alpha waits")?;
    rig.put("alpha", "seed-0", "waits for credentials")?;
    let reason = "the credential plugin did not end";
    wait("the reason in the status", || {
        let status = rig.status("alpha").map(|status| status.reason);
        Seen::of(status.unwrap_or_default(), |now| now.contains(reason))
    })
    .await?;
    rig.add("alpha")?;
    rig.ready("alpha").await?;
    rig.finish().await
}

#[tokio::test]
async fn plugins_and_files_of_a_secret_are_refused_unless_it_is_trusted() -> Result<()> {
    let rig = Rig::start(secured(&["alpha"])).await?;
    let plugin = Plugin::new()?;
    let file = kubeconfig(
        &rig,
        &json!({"tokenFile": plugin.file("token")}).to_string(),
    );
    let text = kubeconfig(&rig, &plugin.user("exit 1"));
    let read = |text: &str, from: &_| ClusterConfig::from_kubeconfig_text(text, None, None, from);
    let refused = read(&text, &KubeconfigPolicy::object()).err();
    assert!(matches!(refused, Some(ConfigError::Exec(_))), "{refused:?}");
    let refused = read(&file, &KubeconfigPolicy::object()).err();
    let is_file = matches!(refused, Some(ConfigError::FileReference { .. }));
    assert!(is_file, "{refused:?}");
    // A provider that comes upon it keeps what it had.
    assert!(
        rig.add_from("alpha", &text, &KubeconfigPolicy::object())
            .is_err()
    );
    rig.put("alpha", "seed-0", "written with what there was")?;
    oracle::settled(&rig).await?;
    assert_eq!(plugin.runs(), 0);
    assert!(read(&text, &trusted()).is_ok());
    assert!(read(&file, &trusted()).is_ok());
    rig.finish().await
}

#[tokio::test]
async fn no_token_no_output_of_a_plugin_and_no_body_reaches_a_log_or_a_status() -> Result<()> {
    let logged = Logged::default();
    let writer = logged.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("trace,windlass_apiserver=off")
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
    let rig = Rig::start(secured(&["alpha", "beta"])).await?;
    let plugin = Plugin::new()?;
    rig.server.set_tokens(Some(&["hush-token"]));
    rig.add("beta")?;
    rig.put("beta", "seed-0", "hush-body")?;
    plugin.gives(&json!({"token": "hush-wrong"}))?;
    let failing = "cat $0; echo hush-output; echo hush-error >&2; exit 1";
    let users = [
        plugin.user(failing),
        plugin.user("echo hush-garbage"),
        plugin.printing(),
        json!({"token": "hush-refused"}).to_string(),
        json!({"username": "robot", "password": "hush-password"}).to_string(),
    ];
    let mut told = String::new();
    for user in users {
        rig.add_from("alpha", &kubeconfig(&rig, &user), &KubeconfigPolicy::file())?;
        rig.simulated("alpha").cut_watches();
        let before = rig.metrics()?;
        let failures = |metrics: &str| {
            let line = "windlass_cluster_watch_failures_total{cluster=\"alpha\"}";
            metrics
                .lines()
                .find(|l| l.starts_with(line))
                .map(str::to_owned)
        };
        wait("the watch to fail", || {
            let now = rig.metrics().unwrap_or_default();
            Seen::of(failures(&now) != failures(&before), |failed| *failed)
        })
        .await?;
        told += &format!("{:?}", rig.status("alpha")?);
    }
    told += &String::from_utf8_lossy(&logged.0.lock());
    rig.add("alpha")?;
    rig.finish().await?;
    assert!(
        told.contains("credential plugin"),
        "nothing was told at all"
    );
    let secrets: Vec<&str> = told.lines().filter(|line| line.contains("hush-")).collect();
    assert!(secrets.is_empty(), "{secrets:#?}");
    Ok(())
}
