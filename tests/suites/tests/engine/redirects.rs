//! Servers that answer with a redirect to another host, which would get their credentials. Entry point: the test.

use super::faults::Faults;
use super::fixture::{Log, bytes, client, config_map, key, object, recording};
use anyhow::{Context as _, Result};
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use windlass_apiserver::{Reply, ReplyBody, RequestVerdict, Server, Verb};
use windlass_fleet::api::{
    ApiError, ApplyOptions, DeleteOptions, GetOptions, ListOptions, ReadMode, WriteOptions,
};
use windlass_fleet::cluster::{ClusterState, KubeconfigPolicy};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, request};

/// An answer that names the same path on another host.
fn elsewhere(code: u16, host: &str, path: &str) -> RequestVerdict {
    RequestVerdict::Reply(Reply {
        code,
        headers: vec![("location", format!("{host}{path}"))],
        body: ReplyBody::Whole(Bytes::new()),
    })
}

fn is_redirect<T>(code: u16, what: &str, answer: Result<T, ApiError>) -> Result<()> {
    let error = answer.err().context("a redirect is an error")?;
    assert_eq!(error.http_status, code, "{what}: {error:?}");
    Ok(())
}

#[tokio::test]
async fn no_redirect_is_followed_so_that_no_other_host_gets_a_request_or_a_token() -> Result<()> {
    for code in [301, 302, 303, 307, 308] {
        let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
        let server = Server::builder().hook(faults.clone());
        let fleet =
            TestFleet::start_on(server, &["alpha"], |b| b.controller(recording(&log))).await?;
        let other = Server::builder()
            .cluster("alpha")
            .bind("127.0.0.1:0")
            .await?;
        let host = other.url("alpha");
        fleet.server.set_tokens(Some(&["secret"]));
        let text = fleet.server.kubeconfig();
        let (head, _) = text.split_once("users:").context("users")?;
        let user = "users:\n- name: admin\n  user: {token: secret}\n";
        let text = format!("{head}{user}");
        fleet.apply("alpha", object("first", json!({})))?;

        // Its first lists are redirected.
        let to = host.clone();
        faults.on_request(move |call| {
            let is_list = matches!(call.verb, Verb::List | Verb::Watch);
            is_list.then(|| elsewhere(code, &to, &call.path))
        });
        fleet.add_from("alpha", &text, &KubeconfigPolicy::file())?;
        let expected = code.to_string();
        wait("the reason of a cluster whose lists are redirected", || {
            Seen::of(fleet.status("alpha").ok(), |status| {
                status.as_ref().is_some_and(|status| {
                    status.state != ClusterState::Ready && status.reason.contains(&expected)
                })
            })
        })
        .await?;
        faults.heal();
        log.ran(&request("alpha", "first"), 1).await?;
        let cluster = fleet.ready("alpha").await?;

        // Then its watches, reads and writes.
        let to = host.clone();
        faults.on_request(move |call| Some(elsewhere(code, &to, &call.path)));
        let simulated = fleet.simulated("alpha");
        let watches = simulated.count(Verb::Watch, "configmaps");
        simulated.cut_watches();
        wait("a watch to be tried again", || {
            Seen::of(simulated.count(Verb::Watch, "configmaps"), |n| *n > watches)
        })
        .await?;
        let (client, made) = (client(&cluster), bytes(&object("made", json!({}))));
        let live = ListOptions {
            mode: ReadMode::Live,
            ..ListOptions::default()
        };
        let one = GetOptions {
            mode: ReadMode::Live,
            ..GetOptions::default()
        };
        let read = client.get(&config_map(), &key("first"), &one).await;
        is_redirect(code, "get", read)?;
        is_redirect(code, "list", client.list(&config_map(), &live).await)?;
        let options = WriteOptions::default();
        let created = client.create(&config_map(), made.clone(), &options).await;
        is_redirect(code, "create", created)?;
        let updated = client.update(&config_map(), made.clone(), &options).await;
        is_redirect(code, "update", updated)?;
        let applied = client
            .apply(&config_map(), made, &ApplyOptions::default())
            .await;
        is_redirect(code, "apply", applied)?;
        let deleted = client
            .delete(&config_map(), &key("first"), &DeleteOptions::default())
            .await;
        is_redirect(code, "delete", deleted)?;
        assert_eq!(other.connections().accepted, 0, "{code}");

        faults.heal();
        fleet.apply("alpha", object("second", json!({})))?;
        log.ran(&request("alpha", "second"), 1).await?;
        fleet.stop().await?;
    }
    Ok(())
}
