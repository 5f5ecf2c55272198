//! How many connections clusters need, and what bounds their calls.

use super::faults::Faults;
use super::fixture::{Log, bytes, client, config_map, key, object, recording};
use anyhow::Result;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{Call, FrameVerdict, Hook, RequestVerdict, Server, Verb};
use windlass_fleet::api::{ApiCode, GetOptions, ListOptions, Operation, ReadMode, WriteOptions};
use windlass_fleet::cluster::{ConnectionCounts, KubeconfigPolicy, RateLimit, TransportOptions};
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::{
    Action, Client, Context, Controller, ControllerName, Grant, GroupVersionKind, TenantName,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

const CLUSTERS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

fn bounded(transport: TransportOptions) -> ManagerOptions {
    ManagerOptions {
        transport,
        ..ManagerOptions::default()
    }
}

fn live() -> GetOptions {
    GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    }
}

async fn watched_on(server: windlass_apiserver::Builder) -> Result<(TestFleet, ConnectionCounts)> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start_on(server, &CLUSTERS, |b| b.controller(recording(&log))).await?;
    for cluster in CLUSTERS {
        fleet.add(cluster)?;
    }
    let mut clusters = Vec::new();
    for cluster in CLUSTERS {
        clusters.push(fleet.ready(cluster).await?);
    }
    for (cluster, called) in clusters.iter().zip(CLUSTERS) {
        let made = bytes(&object("made", json!({})));
        client(cluster)
            .create(&config_map(), made, &WriteOptions::default())
            .await?;
        log.ran(&request(called, "made"), 1).await?;
    }
    let counts = clusters[0].status().connections;
    Ok((fleet, counts))
}

#[tokio::test]
async fn ten_clusters_of_one_server_share_one_http2_connection() -> Result<()> {
    let (fleet, counts) = watched_on(Server::builder().tls()).await?;
    assert_eq!((counts.http2.open, counts.http2.made), (1, 1));
    assert_eq!((counts.http1.made, counts.shared_by), (0, CLUSTERS.len()));
    assert_eq!(fleet.server.connections().accepted, 1);
    fleet.stop().await
}

#[tokio::test]
async fn watches_take_four_fifths_of_the_streams_that_a_peer_allows_and_calls_go_on() -> Result<()>
{
    // Ten watches, of which four fit on each connection of five streams.
    let (fleet, counts) = watched_on(Server::builder().tls().max_streams(5)).await?;
    assert!((3..=5).contains(&counts.http2.open), "{counts:?}");
    assert_eq!(counts.http1.made, 0);
    fleet.stop().await
}

#[tokio::test]
async fn over_http1_every_watch_has_a_connection_and_calls_share_the_others() -> Result<()> {
    let (fleet, counts) = watched_on(Server::builder().tls().http1_only()).await?;
    let open = counts.http1.open;
    assert!(
        (CLUSTERS.len() + 1..=CLUSTERS.len() + 12).contains(&open),
        "{counts:?}"
    );
    assert_eq!(counts.http2.made, 0);
    fleet.stop().await?;
    Ok(())
}

#[tokio::test]
async fn sockets_end_with_the_last_cluster_that_uses_them() -> Result<()> {
    let (fleet, _) = watched_on(Server::builder().tls()).await?;
    for cluster in CLUSTERS {
        fleet.provider.remove(&name(cluster));
    }
    wait("no open connection", || {
        Seen::of(fleet.server.connections().open, |open| *open == 0)
    })
    .await?;
    fleet.stop().await
}

/// Connections that nobody uses are no reason for a cluster not to be reached.
#[tokio::test]
async fn under_the_cap_unused_connections_make_room_for_those_that_are_needed() -> Result<()> {
    let names = ["a", "b", "c", "d"];
    let options = bounded(TransportOptions {
        max_sockets: Some(2),
        connect_timeout: Duration::from_secs(1),
        ..TransportOptions::default()
    });
    for server in [
        Server::builder().tls(),
        Server::builder().tls().http1_only(),
    ] {
        let options = options.clone();
        let fleet = TestFleet::start_on(server, &names, |b| b.options(options)).await?;
        let text = fleet.server.kubeconfig();
        // Each is somebody else to the server, and so has connections of its own.
        for cluster in names {
            let text = text.replace("user: {}", &format!("user: {{token: of-{cluster}}}"));
            fleet.add_from(cluster, &text, &KubeconfigPolicy::file())?;
        }
        for _ in 0..2 {
            for cluster in names {
                let client = client(&fleet.ready(cluster).await?);
                client.get(&config_map(), &key("a"), &live()).await?;
            }
        }
        let used = fleet.handle.sockets().map(|sockets| sockets.used);
        assert!(used <= Some(2), "{used:?}");
        fleet.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn credentials_that_are_exchanged_during_a_first_list_fail_no_read() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.controller(recording(&log))
    })
    .await?;
    let client = client(&fleet.engage("alpha").await?);
    faults.on_frame(|call, _| {
        let stalls = call.resource == "secrets" && call.asks_for_all();
        stalls.then_some(FrameVerdict::Silence)
    });
    let secrets = GroupVersionKind::new("", "v1", "Secret");
    let options = ListOptions::default();
    let exchanged = async {
        let lists = || fleet.asked("alpha", "secrets").0;
        wait("a list", || Seen::of(lists(), |n| *n == 1)).await?;
        faults.heal();
        let text = fleet.server.kubeconfig();
        let text = text.replace("user: {}", "user: {token: another}");
        fleet.add_from("alpha", &text, &KubeconfigPolicy::file())
    };
    let (read, exchanged) = tokio::join!(client.list(&secrets, &options), exchanged);
    exchanged?;
    read?;
    assert_eq!(fleet.asked("alpha", "secrets").0, 2);
    fleet.stop().await
}

/// A hook that never answers a get of what is not called `answered`.
struct Silent;

impl Hook for Silent {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if call.verb == Verb::Get && call.resource == "configmaps" && call.name != "answered" {
            RequestVerdict::Silence
        } else {
            RequestVerdict::Proceed
        }
    }
}

#[tokio::test]
async fn calls_under_way_are_bounded_for_each_cluster_and_watches_go_on() -> Result<()> {
    let log = Arc::new(Log::default());
    let options = bounded(TransportOptions {
        in_flight: 2,
        ..TransportOptions::default()
    });
    let server = Server::builder().hook(Arc::new(Silent));
    let start = TestFleet::start_on(server, &["alpha"], |b| {
        b.options(options).controller(recording(&log))
    });
    let fleet = start.await?;
    let client = client(&fleet.engage("alpha").await?);
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get(&config_map(), &key("a"), &live()).await })
        })
        .collect();
    let asked = || fleet.simulated("alpha").count(Verb::Get, "configmaps");
    wait("calls under way", || Seen::of(asked(), |n| *n >= 2)).await?;
    fleet.apply("alpha", object("meanwhile", json!({})))?;
    log.ran(&request("alpha", "meanwhile"), 1).await?;
    assert_eq!(asked(), 2, "calls beyond the bound wait for others to end");
    for call in calls {
        call.abort();
    }
    fleet.stop().await
}

/// A controller of a tenant that works on the one ConfigMap of the tenant's name.
fn of_tenant<W, Fut>(tenant: &'static str, work: W) -> Controller
where
    W: Fn(Client) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let grant = Arc::new(Grant::all());
    let reconcile = move |context: Context| {
        let (client, work) = (context.client(&grant), work.clone());
        async move {
            if &*context.request.key.name == tenant {
                work(client).await;
            }
            Ok(Action::Done)
        }
    };
    Controller::builder(ControllerName::new("c").expect("a valid name"))
        .tenant(TenantName::new(tenant).expect("a valid name"))
        .for_kind(config_map())
        .build(Arc::new(reconcile))
        .expect("a valid controller")
}

#[tokio::test]
async fn a_tenant_whose_calls_are_never_answered_leaves_slots_to_others() -> Result<()> {
    const SLOTS: usize = 8;
    /// Three quarters.
    const OF_ONE: usize = 6;
    let many = of_tenant("many", |client| async move {
        let read = Operation::Get(config_map(), key("silent"), live());
        client.batch(vec![read; 2 * SLOTS]).await;
    });
    let answers = Arc::new(Mutex::new(Vec::new()));
    let seen = answers.clone();
    let few = of_tenant("few", move |client| {
        let seen = seen.clone();
        async move {
            let read = client.get(&config_map(), &key("answered"), &live()).await;
            // Discovery is asked anew, with a slot of the host's own.
            let unknown = GroupVersionKind::new("none.example.com", "v1", "None");
            let none = client.get(&unknown, &key("x"), &live()).await;
            let code = none.err().map(|error| error.code);
            seen.lock().push((read.is_ok(), code));
        }
    });
    let options = bounded(TransportOptions {
        in_flight: SLOTS,
        ..TransportOptions::default()
    });
    let server = Server::builder().hook(Arc::new(Silent));
    let fleet = TestFleet::start_on(server, &["alpha"], |b| {
        b.options(options).controller(many).controller(few)
    })
    .await?;
    fleet.engage("alpha").await?;
    fleet.apply("alpha", object("many", json!({})))?;
    let silent = || {
        let calls = fleet.simulated("alpha").requests().into_iter();
        calls.filter(|call| call.name == "silent").count()
    };
    wait("as many calls as one tenant may have", || {
        Seen::of(silent(), |n| *n >= OF_ONE)
    })
    .await?;
    fleet.apply("alpha", object("few", json!({})))?;
    wait("the answers", || {
        Seen::of(answers.lock().clone(), |all| !all.is_empty())
    })
    .await?;
    assert_eq!(*answers.lock(), [(true, Some(ApiCode::UnknownKind))]);
    assert_eq!(silent(), OF_ONE, "further calls of the same tenant wait");
    // Ends the calls.
    fleet.provider.remove(&name("alpha"));
    fleet.stop().await
}

#[tokio::test]
async fn calls_of_one_cluster_begin_at_its_rate() -> Result<()> {
    let log = Arc::new(Log::default());
    let rate = RateLimit {
        per_second: 100.0,
        burst: 5,
    };
    let options = bounded(TransportOptions {
        rate: Some(rate),
        ..TransportOptions::default()
    });
    let fleet = TestFleet::start(&["alpha"], |b| {
        b.options(options).controller(recording(&log))
    })
    .await?;
    let cluster = fleet.engage("alpha").await?;
    let client = client(&cluster);
    let began = Instant::now();
    for _ in 0..30 {
        client.get(&config_map(), &key("a"), &live()).await?;
    }
    // Twenty-five turns of 10 ms after a burst of five; no machine is too slow for that.
    assert!(began.elapsed() >= Duration::from_millis(240));
    fleet.stop().await
}
