//! Servers that misbehave, and what watches, caches and discovery make of it.

use super::fixture::{
    Log, backs_off, caches, client, config_map, get, key, object, patient, recording,
};
use super::keys::wait_idle;
use anyhow::Result;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use windlass_apiserver::{Call, FrameVerdict, Hook, RequestVerdict, Verb};
use windlass_fleet::api::{ApiCode, DeleteOptions, GetOptions, ListOptions, ReadMode, Selection};
use windlass_fleet::cluster::{CacheOptions, ClusterState};
use windlass_fleet::{Action, ClusterName, Context, Grant, GroupVersionKind};
use windlass_harness::eventually::{DEADLINE, Seen, eventually, wait};
use windlass_harness::fleet::{TestFleet, name, request};

type OnRequest = Box<dyn Fn(&Call) -> Option<RequestVerdict> + Send>;
type OnFrame = Box<dyn Fn(&Call, &str) -> Option<FrameVerdict> + Send>;

/// Misbehaves as it is told, from when it is told.
#[derive(Default)]
pub(crate) struct Faults {
    on_request: Mutex<Option<OnRequest>>,
    on_frame: Mutex<Option<OnFrame>>,
    /// Sent in place of the frames to come, one for one.
    frames: Mutex<Vec<Bytes>>,
    /// Whether watches hear of no deletion.
    hide_deletions: AtomicBool,
    /// Lists and watches of ConfigMaps so far.
    asked: Mutex<(usize, usize)>,
}

impl Faults {
    pub(crate) fn on_request(
        &self,
        fault: impl Fn(&Call) -> Option<RequestVerdict> + Send + 'static,
    ) {
        *self.on_request.lock() = Some(Box::new(fault));
    }

    pub(crate) fn on_frame(
        &self,
        fault: impl Fn(&Call, &str) -> Option<FrameVerdict> + Send + 'static,
    ) {
        *self.on_frame.lock() = Some(Box::new(fault));
    }

    /// Ends all misbehaviour.
    pub(crate) fn heal(&self) {
        *self.on_request.lock() = None;
        *self.on_frame.lock() = None;
    }

    fn asked(&self) -> (usize, usize) {
        *self.asked.lock()
    }

    fn send_instead(&self, line: &serde_json::Value) {
        self.frames.lock().push(Bytes::from(format!("{line}\n")));
    }
}

impl Hook for Faults {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if call.resource == "configmaps" {
            let mut asked = self.asked.lock();
            match call.verb {
                _ if call.asks_for_all() => asked.0 += 1,
                Verb::Watch => asked.1 += 1,
                _ => {}
            }
        }
        let fault = self.on_request.lock();
        fault
            .as_ref()
            .and_then(|fault| fault(call))
            .unwrap_or_default()
    }

    fn frame(&self, _: &str, call: &Call, frame: &Bytes) -> FrameVerdict {
        let text = String::from_utf8_lossy(frame);
        let fault = self.on_frame.lock();
        if let Some(verdict) = fault.as_ref().and_then(|fault| fault(call, &text)) {
            return verdict;
        }
        let deletion = frame.windows(9).any(|word| word == b"\"DELETED\"");
        if deletion && self.hide_deletions.load(Ordering::SeqCst) {
            return FrameVerdict::Drop;
        }
        let instead = (call.resource == "configmaps").then(|| self.frames.lock().pop());
        match instead.flatten() {
            Some(line) => FrameVerdict::Replace(line),
            None => FrameVerdict::Send,
        }
    }
}

pub(crate) fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

pub(crate) fn refusal(code: u16, reason: &str) -> RequestVerdict {
    RequestVerdict::Answer {
        code,
        retry_after: None,
        body: Bytes::from(status(code, reason).to_string()),
    }
}

/// A fleet of one cluster with an object that has run, whose watch is open.
async fn watching(log: &Arc<Log>) -> Result<(TestFleet, Arc<Faults>)> {
    let faults = Arc::new(Faults::default());
    let fleet =
        TestFleet::start_with(faults.clone(), &["alpha"], |b| b.controller(recording(log))).await?;
    fleet.apply("alpha", object("before", json!({})))?;
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "before"), 1).await?;
    wait("an open watch", || {
        Seen::of(fleet.simulated("alpha").watchers(), |n| *n == 1)
    })
    .await?;
    Ok((fleet, faults))
}

#[tokio::test]
async fn rubbish_in_a_watch_is_resumed_behind_without_a_list_or_a_loss() -> Result<()> {
    let log = Arc::new(Log::default());
    let (fleet, faults) = watching(&log).await?;
    let before = faults.asked();
    faults.send_instead(&json!("rubbish"));
    fleet.apply("alpha", object("garbled", json!({})))?;
    log.ran(&request("alpha", "garbled"), 1).await?;
    assert_eq!(faults.asked(), (before.0, before.1 + 1));
    fleet.stop().await
}

#[tokio::test]
async fn an_error_event_lists_anew_if_it_is_a_410_and_resumes_if_it_may_pass() -> Result<()> {
    let log = Arc::new(Log::default());
    let (fleet, faults) = watching(&log).await?;
    let before = faults.asked();
    faults.send_instead(&json!({"type": "ERROR", "object": status(500, "InternalError")}));
    fleet.apply("alpha", object("after-500", json!({})))?;
    log.ran(&request("alpha", "after-500"), 1).await?;
    assert_eq!(faults.asked().0, before.0);
    faults.send_instead(&json!({"type": "ERROR", "object": status(410, "Expired")}));
    fleet.apply("alpha", object("after-410", json!({})))?;
    log.ran(&request("alpha", "after-410"), 1).await?;
    assert_eq!(faults.asked().0, before.0 + 1);
    wait_idle(&fleet).await?;
    assert_eq!(log.count(&request("alpha", "before")), 1);
    fleet.stop().await
}

#[tokio::test]
async fn a_list_of_several_pages_whose_token_expires_begins_again_once() -> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    let paged = caches(CacheOptions {
        streaming_lists: false,
        ..CacheOptions::default()
    });
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| {
        b.options(paged).controller(recording(&log))
    })
    .await?;
    for n in 0..1100 {
        fleet.apply("alpha", object(&format!("n{n}"), json!({})))?;
    }
    let expired = AtomicBool::new(false);
    faults.on_request(move |call| {
        let goes_on = call.verb == Verb::List && call.query.contains("continue=");
        let first = goes_on && !expired.swap(true, Ordering::SeqCst);
        first.then(|| refusal(410, "Expired"))
    });
    let cluster = fleet.engage("alpha").await?;
    wait("all objects", || {
        Seen::of(cluster.status().objects, |n| *n >= 1100)
    })
    .await?;
    assert_eq!(
        faults.asked().0,
        2 + 1,
        "a page and a 410, then one of four times as many"
    );
    log.ran(&request("alpha", "n1099"), 1).await?;
    fleet.stop().await
}

#[tokio::test]
async fn watches_that_end_as_soon_as_they_begin_degrade_a_cluster() -> Result<()> {
    let log = Arc::new(Log::default());
    let (fleet, faults) = watching(&log).await?;
    faults.on_request(|call| {
        (call.verb == Verb::Watch).then(|| RequestVerdict::Answer {
            code: 200,
            retry_after: None,
            body: Bytes::new(),
        })
    });
    fleet.simulated("alpha").cut_watches();
    let cluster = fleet
        .handle
        .fleet()
        .cluster(&name("alpha"))
        .expect("engaged");
    wait("a degraded cluster", || {
        Seen::of(cluster.status().state.as_str(), |state| {
            *state == "Degraded"
        })
    })
    .await?;
    *faults.on_request.lock() = None;
    fleet.apply("alpha", object("after", json!({})))?;
    log.ran(&request("alpha", "after"), 1).await?;
    fleet.ready("alpha").await?;
    fleet.stop().await
}

#[tokio::test]
async fn another_server_with_a_shorter_past_under_the_same_address_is_a_new_cluster() -> Result<()>
{
    let log = Arc::new(Log::default());
    let (fleet, _) = watching(&log).await?;
    for n in 0..50 {
        fleet.apply("alpha", object("busy", json!({"n": n.to_string()})))?;
    }
    fleet.apply("alpha", object("last", json!({})))?;
    log.ran(&request("alpha", "last"), 1).await?;
    let before = fleet.ready("alpha").await?;
    assert!(fleet.server.remove_cluster("alpha"));
    fleet.server.add_cluster("alpha");
    fleet.apply("alpha", object("new", json!({})))?;
    wait("a cluster of its own", || {
        let now = fleet.handle.fleet().cluster(before.name());
        let other = now.is_some_and(|now| !Arc::ptr_eq(&now, &before));
        Seen::of(other, |other| *other)
    })
    .await?;
    log.ran(&request("alpha", "new"), 1).await?;
    let cluster = fleet.ready("alpha").await?;
    let client = client(&cluster);
    assert_eq!(get(&client, "before", ReadMode::Cached).await?, None);
    assert!(get(&client, "new", ReadMode::Cached).await?.is_some());
    fleet.stop().await
}

/// A cluster with one object, and a controller that reads the object from the server and tries again after many minutes.
async fn reading(log: &Arc<Log>) -> Result<TestFleet> {
    let read = patient(log, |context: Context| async move {
        let client = context.client(&Arc::new(Grant::all()));
        let live = GetOptions {
            mode: ReadMode::Live,
            ..GetOptions::default()
        };
        client
            .get(&config_map(), &context.request.key, &live)
            .await?;
        Ok(Action::Done)
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(read)).await?;
    fleet.engage("alpha").await?;
    Ok(fleet)
}

#[tokio::test]
async fn keys_that_failed_by_credentials_run_when_good_ones_come() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = reading(&log).await?;
    fleet.server.set_tokens(Some(&["one"]));
    // The watch goes on: only calls are refused.
    fleet.apply("alpha", object("a", json!({})))?;
    backs_off(&fleet).await?;
    assert_eq!(log.count(&request("alpha", "a")), 1);
    fleet.add("alpha")?;
    log.ran(&request("alpha", "a"), 2).await?;
    wait_idle(&fleet).await?;
    fleet.stop().await
}

#[tokio::test]
async fn keys_that_failed_by_their_server_run_when_it_is_back() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = reading(&log).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    wait_idle(&fleet).await?;
    fleet.simulated("alpha").down(true);
    assert_eq!(fleet.handle.requeue(&request("alpha", "a"), None), 1);
    backs_off(&fleet).await?;
    fleet.reaches("alpha", ClusterState::Degraded).await?;
    fleet.simulated("alpha").down(false);
    log.ran(&request("alpha", "a"), 3).await?;
    wait_idle(&fleet).await?;
    fleet.stop().await
}

#[tokio::test]
async fn unknown_kinds_refresh_discovery_once_in_a_while_though_it_fails() -> Result<()> {
    let log = Arc::new(Log::default());
    let (fleet, faults) = watching(&log).await?;
    let cluster = fleet
        .handle
        .fleet()
        .cluster(&ClusterName::new("alpha")?)
        .expect("engaged");
    let client = client(&cluster);
    faults.on_request(|call| call.path.starts_with("/apis").then(|| refusal(503, "Down")));
    let asked = || {
        let requests = fleet.simulated("alpha").requests();
        requests.iter().filter(|call| call.path == "/apis").count()
    };
    let before = asked();
    let widgets = GroupVersionKind::new("example.com", "v1", "Widget");
    for _ in 0..5 {
        let answer = client
            .get(&widgets, &key("a"), &GetOptions::default())
            .await;
        let error = answer.expect_err("nobody knows it");
        assert_eq!(error.code, ApiCode::Unavailable, "not: it is not served");
    }
    assert!(asked() <= before + 1);
    assert_eq!(
        client
            .list(&config_map(), &ListOptions::default())
            .await?
            .items
            .len(),
        fleet
            .simulated("alpha")
            .list("v1", "ConfigMap", "")
            .map_err(|e| anyhow::anyhow!("{e:?}"))?
            .len()
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_refresh_whose_caller_has_gone_keeps_kinds_away_for_a_moment_alone() -> Result<()> {
    let log = Arc::new(Log::default());
    let (fleet, faults) = watching(&log).await?;
    let engaged = fleet.handle.fleet().cluster(&ClusterName::new("alpha")?);
    let client = client(&engaged.expect("engaged"));
    let asked = Arc::new(Notify::new());
    let heard = asked.clone();
    faults.on_request(move |call| {
        let is_it = call.path.starts_with("/apis");
        is_it.then(|| heard.notify_one());
        is_it.then_some(RequestVerdict::Silence)
    });
    let widgets = GroupVersionKind::new("example.com", "v1", "Widget");
    let (of, options) = (key("a"), GetOptions::default());
    tokio::select! {
        answer = client.get(&widgets, &of, &options) => panic!("discovery does not answer: {answer:?}"),
        () = asked.notified() => {}
    }
    faults.heal();
    let began = Instant::now();
    eventually(DEADLINE, "another refresh", || async {
        let answer = client.get(&widgets, &of, &options).await;
        let code = answer.err().map(|error| error.code);
        Ok(Seen::of(code, |code| *code == Some(ApiCode::UnknownKind)))
    })
    .await?;
    // One that was answered counts for half a minute.
    assert!(began.elapsed() < Duration::from_secs(20));
    fleet.stop().await
}

/// The answer of a server without aggregated discovery: one version of each group.
fn groups(names: &[&str]) -> RequestVerdict {
    let group = |name: &&str| json!({"name": name, "versions": [{"groupVersion": format!("{name}/v1"), "version": "v1"}]});
    let groups: Vec<_> = names.iter().map(group).collect();
    answer(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}).to_string())
}

fn answer(body: &str) -> RequestVerdict {
    RequestVerdict::Answer {
        code: 200,
        retry_after: None,
        body: Bytes::from(body.to_owned()),
    }
}

#[tokio::test]
async fn a_group_that_does_not_answer_discovery_fails_alone_and_is_asked_again() -> Result<()> {
    let faults = Arc::new(Faults::default());
    faults.on_request(|call| {
        let group = call.path.strip_prefix("/apis/").unwrap_or_default();
        let group = group.strip_suffix(".example.com/v1").unwrap_or_default();
        Some(match (&*call.path, group) {
            ("/apis", _) => groups(&[
                "broken.example.com",
                "bad.example.com",
                "slow.example.com",
                "secret.example.com",
                "busy.example.com",
                "html.example.com",
                "empty.example.com",
                "hung.example.com",
                "hung-too.example.com",
                "hung-as-well.example.com",
                "apps",
            ]),
            (_, "broken") => refusal(500, "Broken"),
            (_, "bad") => refusal(502, "Bad"),
            (_, "slow") => refusal(504, "Slow"),
            (_, "secret") => refusal(403, "Secret"),
            (_, "busy") => refusal(429, "Busy"),
            (_, "html") => answer("<html>"),
            (_, "empty") => answer(r#"{"kind": "APIResourceList", "resources": null}"#),
            (_, "hung" | "hung-too" | "hung-as-well") => RequestVerdict::Silence,
            _ => return None,
        })
    });
    let mut options = caches(CacheOptions {
        look_again: Duration::from_millis(500),
        ..CacheOptions::default()
    });
    options.transport.call_timeout = Duration::from_secs(2);
    let fleet = TestFleet::start_with(faults.clone(), &["alpha"], |b| b.options(options)).await?;
    let began = Instant::now();
    let cluster = fleet.engage("alpha").await?;
    assert!(began.elapsed() < Duration::from_secs(10));
    let reason = cluster.status().reason;
    assert!(
        reason.contains("discovery of /apis/bad.example.com/v1 fails: Bad; 8 other"),
        "{reason}"
    );
    let client = client(&cluster);
    let list = |group: &str, kind: &str| {
        let (client, kind) = (client.clone(), GroupVersionKind::new(group, "v1", kind));
        async move { client.list(&kind, &ListOptions::default()).await.map(drop) }
    };
    list("apps", "Deployment").await?;
    for (group, code) in [
        ("broken", ApiCode::Unavailable),
        ("bad", ApiCode::Unavailable),
        ("slow", ApiCode::Timeout),
        ("secret", ApiCode::Forbidden),
        ("busy", ApiCode::Throttled),
        ("html", ApiCode::Other),
        ("hung", ApiCode::Timeout),
        ("hung-as-well", ApiCode::Timeout),
        ("empty", ApiCode::UnknownKind),
    ] {
        let group = format!("{group}.example.com");
        let error = list(&group, "Widget").await.expect_err("it is not known");
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(&group), "{error}");
    }
    // Its kinds are known once it answers, without a kind of another group being asked for.
    faults.on_request(|call| {
        let widgets = json!({"name": "widgets", "kind": "Widget", "namespaced": true});
        let list = json!({"kind": "APIResourceList", "resources": [widgets]});
        (call.path == "/apis/broken.example.com/v1").then(|| answer(&list.to_string()))
    });
    wait("all groups", || {
        let reason = cluster.status().reason;
        Seen::of(reason, |reason| !reason.contains("discovery"))
    })
    .await?;
    let error = list("broken.example.com", "Widget").await;
    let error = error.expect_err("it is listed, and not served");
    assert!(!error.message.contains("discovery"), "{error}");
    fleet.stop().await
}

#[tokio::test]
async fn a_deleted_collection_is_gone_from_caches_before_their_watches_tell() -> Result<()> {
    let log = Arc::new(Log::default());
    let (fleet, faults) = watching(&log).await?;
    let cluster = fleet.ready("alpha").await?;
    let client = client(&cluster);
    faults.hide_deletions.store(true, Ordering::SeqCst);
    let selection = Selection {
        namespace: Some("default".into()),
        ..Default::default()
    };
    client
        .delete_collection(&config_map(), &selection, &DeleteOptions::default())
        .await?;
    assert_eq!(get(&client, "before", ReadMode::Cached).await?, None);
    log.ran(&request("alpha", "before"), 2).await?;
    fleet.stop().await
}
