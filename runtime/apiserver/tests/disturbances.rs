//! What a test can do to a cluster while clients talk to it: compaction, cut watches, a dead server, hooks, the log of requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use windlass_apiserver::{Call, Cluster, FrameVerdict, Hook, RequestVerdict, Server, Verb};

const DEADLINE: Duration = Duration::from_secs(20);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn client(http2: bool) -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new())
        .http2_only(http2)
        .build_http()
}

async fn get(url: String) -> Result<Response<Incoming>, Failure> {
    let request = Request::get(url).body(Empty::new())?;
    Ok(tokio::time::timeout(DEADLINE, client(false).request(request)).await??)
}

async fn body(response: Response<Incoming>) -> Result<Value, Failure> {
    let bytes = tokio::time::timeout(DEADLINE, response.into_body().collect())
        .await??
        .to_bytes();
    Ok(serde_json::from_slice(&bytes)?)
}

/// The next line of a watch; `None` at its end.
async fn line(watch: &mut Response<Incoming>) -> Result<Option<Value>, Failure> {
    let Some(frame) = tokio::time::timeout(DEADLINE, watch.body_mut().frame()).await? else {
        return Ok(None);
    };
    let data = frame?.into_data().map_err(|_| "trailers in a watch")?;
    Ok(Some(serde_json::from_slice(&data)?))
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn served() -> Result<(Server, Cluster, String), Failure> {
    let server = Server::builder()
        .cluster("alpha")
        .cluster("beta")
        .bind("127.0.0.1:0")
        .await?;
    let alpha = server.cluster("alpha").ok_or("no alpha")?;
    let maps = format!(
        "{}/api/v1/namespaces/default/configmaps",
        server.url("alpha")
    );
    Ok((server, alpha, maps))
}

#[tokio::test]
async fn after_a_compaction_the_past_is_gone_and_running_watches_go_on() -> Result<(), Failure> {
    let (_server, alpha, maps) = served().await?;
    let old = alpha.version();
    alpha.create(map("a"))?;
    alpha.create(map("b"))?;
    let mut running = get(format!("{maps}?watch=1&resourceVersion={old}")).await?;
    assert_eq!(line(&mut running).await?.ok_or("ended")?["type"], "ADDED");
    let page = body(get(format!("{maps}?limit=1")).await?).await?;
    let token = page["metadata"]["continue"]
        .as_str()
        .ok_or("no token")?
        .to_owned();
    alpha.create(map("c"))?;
    alpha.compact();
    let mut late = get(format!("{maps}?watch=1&resourceVersion={old}")).await?;
    let gone = line(&mut late).await?.ok_or("ended")?;
    assert_eq!(
        (&gone["type"], &gone["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(line(&mut late).await?, None);
    let expired = get(format!("{maps}?limit=1&continue={token}")).await?;
    assert_eq!(expired.status(), 410);
    let again = body(expired).await?["metadata"]["continue"]
        .as_str()
        .ok_or("no second token")?
        .to_owned();
    assert_eq!(
        get(format!("{maps}?limit=1&continue={again}"))
            .await?
            .status(),
        200
    );
    assert_eq!(
        line(&mut running).await?.ok_or("ended")?["object"]["metadata"]["name"],
        "b"
    );
    Ok(())
}

#[tokio::test]
async fn a_watch_from_a_version_to_come_is_silent_until_the_cluster_reaches_it()
-> Result<(), Failure> {
    let (_server, alpha, maps) = served().await?;
    let backup = alpha.backup();
    for n in 0..3 {
        alpha.create(map(&format!("lost-{n}")))?;
    }
    let seen = alpha.version();
    alpha.roll_back(&backup);
    let bookmarks = "watch=1&timeoutSeconds=3&allowWatchBookmarks=true";
    let mut silent = get(format!("{maps}?{bookmarks}&resourceVersion={seen}")).await?;
    let mut watch = get(format!("{maps}?watch=1&resourceVersion={seen}")).await?;
    assert_eq!(line(&mut silent).await?, None, "not even a bookmark");
    for n in 0..4 {
        alpha.create(map(&format!("new-{n}")))?;
    }
    let first = line(&mut watch).await?.ok_or("ended")?;
    assert_eq!(first["object"]["metadata"]["name"], "new-3");
    Ok(())
}

#[tokio::test]
async fn cut_watches_break_and_new_ones_resume() -> Result<(), Failure> {
    let (_server, alpha, maps) = served().await?;
    let mut watch = get(format!(
        "{maps}?watch=1&resourceVersion={}",
        alpha.version()
    ))
    .await?;
    let seen = alpha.create(map("a"))?["metadata"]["resourceVersion"]
        .as_str()
        .ok_or("no version")?
        .to_owned();
    assert_eq!(line(&mut watch).await?.ok_or("ended")?["type"], "ADDED");
    alpha.cut_watches();
    assert!(
        line(&mut watch).await.is_err(),
        "a cut watch must break, not end"
    );
    alpha.create(map("b"))?;
    let mut resumed = get(format!("{maps}?watch=1&resourceVersion={seen}")).await?;
    assert_eq!(
        line(&mut resumed).await?.ok_or("ended")?["object"]["metadata"]["name"],
        "b"
    );
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_down_answers_nobody_and_the_others_do() -> Result<(), Failure> {
    let (server, alpha, maps) = served().await?;
    let mut watch = get(format!("{maps}?watch=1")).await?;
    alpha.down(true);
    assert!(line(&mut watch).await.is_err());
    assert!(get(maps.clone()).await.is_err());
    assert_eq!(
        get(format!("{}/readyz", server.url("beta")))
            .await?
            .status(),
        200
    );
    alpha.down(false);
    assert_eq!(get(maps).await?.status(), 200);
    Ok(())
}

#[tokio::test]
async fn requests_are_logged_and_counted() -> Result<(), Failure> {
    let (_server, alpha, maps) = served().await?;
    get(maps.clone()).await?;
    get(format!("{maps}?watch=1")).await?;
    get(format!("{maps}/none")).await?;
    assert_eq!(
        (
            alpha.count(Verb::List, "configmaps"),
            alpha.count(Verb::Watch, "configmaps")
        ),
        (1, 1)
    );
    let last = alpha.requests().pop().ok_or("no request")?;
    assert_eq!(
        (last.verb, last.namespace.as_str(), last.name.as_str()),
        (Verb::Get, "default", "none")
    );
    Ok(())
}

#[tokio::test]
async fn clusters_share_a_port_and_nothing_else() -> Result<(), Failure> {
    let (server, alpha, _) = served().await?;
    let beta = server.cluster("beta").ok_or("no beta")?;
    alpha.create(map("a"))?;
    assert_eq!(beta.get("v1", "ConfigMap", "default", "a")?, None);
    assert_ne!(alpha.uid(), beta.uid());
    assert_eq!(
        get(format!("{}/api/v1/namespaces", server.url("gamma")))
            .await?
            .status(),
        404
    );
    let own = server.expose("alpha", "127.0.0.1:0").await?;
    assert_eq!(
        get(format!(
            "http://{own}/api/v1/namespaces/default/configmaps/a"
        ))
        .await?
        .status(),
        200
    );
    assert!(server.remove_cluster("alpha"));
    assert_eq!(
        get(format!(
            "http://{own}/api/v1/namespaces/default/configmaps/a"
        ))
        .await?
        .status(),
        404
    );
    Ok(())
}

#[tokio::test]
async fn http2_is_spoken_without_an_upgrade() -> Result<(), Failure> {
    let (_server, alpha, maps) = served().await?;
    let client = client(true);
    let ask =
        |url: String| client.request(Request::get(url).body(Empty::new()).unwrap_or_default());
    let mut watches = Vec::new();
    for _ in 0..50 {
        watches.push(ask(format!("{maps}?watch=1")).await?);
    }
    alpha.create(map("a"))?;
    for watch in &mut watches {
        assert_eq!(watch.version(), http::Version::HTTP_2);
        assert_eq!(line(watch).await?.ok_or("ended")?["type"], "ADDED");
    }
    Ok(())
}

#[tokio::test]
async fn shutdown_ends_watches_and_returns() -> Result<(), Failure> {
    let (server, _, maps) = served().await?;
    let mut watch = get(format!("{maps}?watch=1")).await?;
    tokio::time::timeout(DEADLINE, server.shutdown()).await?;
    assert_eq!(line(&mut watch).await?, None);
    Ok(())
}

/// Refuses lists, and turns the second frame of a watch into rubbish.
#[derive(Default)]
struct Trouble {
    frames: std::sync::atomic::AtomicUsize,
}

impl Hook for Trouble {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        match (cluster, call.verb) {
            ("alpha", Verb::List) => RequestVerdict::Answer {
                code: 503,
                retry_after: Some(7),
                body: Bytes::from_static(b"{}"),
            },
            ("alpha", Verb::Get) => RequestVerdict::Cut,
            _ => RequestVerdict::Proceed,
        }
    }

    fn frame(&self, _: &str, _: &Call, _: &Bytes) -> FrameVerdict {
        match self
            .frames
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst)
        {
            0 => FrameVerdict::Drop,
            1 => FrameVerdict::Replace(Bytes::from_static(b"\"rubbish\"\n")),
            2 => FrameVerdict::Send,
            _ => FrameVerdict::Cut,
        }
    }
}

#[tokio::test]
async fn a_hook_decides_about_requests_and_frames() -> Result<(), Failure> {
    let server = Server::builder()
        .cluster("alpha")
        .hook(Arc::new(Trouble::default()))
        .bind("127.0.0.1:0")
        .await?;
    let alpha = server.cluster("alpha").ok_or("no alpha")?;
    let maps = format!(
        "{}/api/v1/namespaces/default/configmaps",
        server.url("alpha")
    );
    let refused = get(maps.clone()).await?;
    assert_eq!(
        (
            refused.status().as_u16(),
            refused.headers()["retry-after"].to_str()?
        ),
        (503, "7")
    );
    assert!(get(format!("{maps}/a")).await.is_err());
    let mut watch = get(format!("{maps}?watch=1")).await?;
    for name in ["dropped", "replaced", "sent"] {
        alpha.create(map(name))?;
    }
    assert_eq!(line(&mut watch).await?, Some(json!("rubbish")));
    assert_eq!(
        line(&mut watch).await?.ok_or("ended")?["object"]["metadata"]["name"],
        "sent"
    );
    alpha.create(map("cut"))?;
    assert!(line(&mut watch).await.is_err());
    Ok(())
}
