//! What clients see of programmed faults, fault by fault.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use windlass_apiserver::{
    AnswerFault, Cluster, Damage, EventFault, Fault, Faults, RequestFault, Rule, Server, Verb,
};

const DEADLINE: Duration = Duration::from_secs(20);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A cluster with a ConfigMap `a`, and what goes wrong with it.
struct Place {
    _server: Server,
    alpha: Cluster,
    faults: Arc<Faults>,
    /// URL of its ConfigMaps.
    maps: String,
}

impl Place {
    async fn new() -> Result<Self, Failure> {
        let faults = Arc::new(Faults::default());
        let server = Server::builder()
            .cluster("alpha")
            .hook(faults.clone())
            .bind("127.0.0.1:0")
            .await?;
        let alpha = server.cluster("alpha").ok_or("no alpha")?;
        alpha.create(map("a"))?;
        let maps = format!(
            "{}/api/v1/namespaces/default/configmaps",
            server.url("alpha")
        );
        Ok(Self {
            _server: server,
            alpha,
            faults,
            maps,
        })
    }

    async fn list_with(&self, fault: impl Into<Fault>) -> Result<Response<Incoming>, Failure> {
        let rule = self.faults.add(Rule::new(fault));
        let answer = get(self.maps.clone()).await;
        assert!(answer.is_err() || self.faults.remove(rule) == 1);
        answer
    }

    /// A watch from now on whose next event, of a new object, is struck by a fault.
    async fn watch_with(
        &self,
        name: &str,
        fault: impl Into<Fault>,
    ) -> Result<Response<Incoming>, Failure> {
        let version = self.alpha.version();
        let watch = get(format!("{}?watch=1&resourceVersion={version}", self.maps)).await?;
        self.faults.add(Rule::new(fault).times(1));
        self.alpha.create(map(name))?;
        Ok(watch)
    }
}

async fn get(url: String) -> Result<Response<Incoming>, Failure> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::get(url).body(Empty::<Bytes>::new())?;
    Ok(tokio::time::timeout(DEADLINE, client.request(request)).await??)
}

async fn whole(answer: Response<Incoming>) -> Result<Bytes, Failure> {
    let read = answer.into_body().collect();
    Ok(tokio::time::timeout(DEADLINE, read).await??.to_bytes())
}

/// The next piece of a watch; `None` at its end.
async fn piece(watch: &mut Response<Incoming>) -> Result<Option<Bytes>, Failure> {
    match tokio::time::timeout(DEADLINE, watch.body_mut().frame()).await? {
        None => Ok(None),
        Some(frame) => Ok(Some(frame?.into_data().map_err(|_| "trailers in a watch")?)),
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_refusal_has_its_status_and_whatever_retry_after() -> Result<(), Failure> {
    let place = Place::new().await?;
    for text in ["3", "-1", "99999999999999999999", "soon"] {
        let fault = RequestFault::Status {
            code: 429,
            retry_after: Some(text.into()),
        };
        let answer = place.list_with(fault).await?;
        assert_eq!(
            (
                answer.status().as_u16(),
                answer.headers()["retry-after"].to_str()?
            ),
            (429, text)
        );
        let status: Value = serde_json::from_slice(&whole(answer).await?)?;
        assert_eq!(status["reason"], "TooManyRequests");
    }
    Ok(())
}

#[tokio::test]
async fn silence_lasts_for_as_long_as_the_client_waits() -> Result<(), Failure> {
    let place = Place::new().await?;
    place
        .faults
        .add(Rule::new(RequestFault::Silence).verb(Verb::List));
    let short = Duration::from_millis(100);
    assert!(
        tokio::time::timeout(short, get(place.maps.clone()))
            .await
            .is_err()
    );
    assert_eq!(get(format!("{}/a", place.maps)).await?.status(), 200);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_is_to_something_that_was_done() -> Result<(), Failure> {
    let place = Place::new().await?;
    place
        .faults
        .add(Rule::new(AnswerFault::Lost).verb(Verb::Delete));
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::delete(format!("{}/a", place.maps)).body(Empty::<Bytes>::new())?;
    assert!(client.request(request).await.is_err());
    assert_eq!(place.alpha.get("v1", "ConfigMap", "default", "a")?, None);
    Ok(())
}

#[tokio::test]
async fn answers_break_in_the_middle_crawl_and_never_end() -> Result<(), Failure> {
    let place = Place::new().await?;
    let cut = place.list_with(AnswerFault::CutInside).await?;
    assert!(whole(cut).await.is_err());

    let size = whole(get(place.maps.clone()).await?).await?.len();
    let began = Instant::now();
    let rate = u32::try_from(size)? * 2;
    let slow = place
        .list_with(AnswerFault::Slow {
            bytes_per_second: rate,
        })
        .await?;
    assert_eq!(whole(slow).await?.len(), size);
    assert!(began.elapsed() >= Duration::from_millis(400));

    let mut endless = place.list_with(AnswerFault::Endless).await?;
    let mut read = 0;
    while read < 10 << 20 {
        read += piece(&mut endless).await?.ok_or("it ended")?.len();
    }

    let bomb = place.list_with(AnswerFault::Bomb { size: 1 << 20 }).await?;
    assert_eq!(bomb.headers()["content-encoding"], "gzip");
    assert!(whole(bomb).await?.len() < 10 << 10);

    let garbage = place
        .list_with(AnswerFault::Damaged(Damage::BadUtf8))
        .await?;
    assert!(std::str::from_utf8(&whole(garbage).await?).is_err());
    Ok(())
}

#[tokio::test]
async fn a_stale_replica_lists_gets_and_watches_what_was() -> Result<(), Failure> {
    let place = Place::new().await?;
    let then = place.alpha.version();
    place.alpha.create(map("b"))?;
    place.alpha.delete("v1", "ConfigMap", "default", "a")?;
    let rule = place
        .faults
        .add(Rule::new(RequestFault::Stale { changes: 2 }));
    let list: Value = serde_json::from_slice(&whole(get(place.maps.clone()).await?).await?)?;
    assert_eq!(
        (
            &list["metadata"]["resourceVersion"],
            list["items"].as_array().map(Vec::len)
        ),
        (&json!(then.to_string()), Some(1))
    );
    assert_eq!(get(format!("{}/a", place.maps)).await?.status(), 200);
    assert_eq!(get(format!("{}/b", place.maps)).await?.status(), 404);
    let mut watch = get(format!("{}?watch=1&resourceVersion={then}", place.maps)).await?;
    let short = Duration::from_millis(100);
    assert!(
        tokio::time::timeout(short, piece(&mut watch))
            .await
            .is_err()
    );
    place.faults.remove(rule);
    assert_eq!(get(format!("{}/a", place.maps)).await?.status(), 404);
    Ok(())
}

#[tokio::test]
async fn events_are_dropped_broken_and_turned_into_errors() -> Result<(), Failure> {
    let place = Place::new().await?;
    let mut watch = place.watch_with("dropped", EventFault::Drop).await?;
    place.alpha.create(map("after"))?;
    let line = piece(&mut watch).await?.ok_or("it ended")?;
    assert!(line.windows(5).any(|word| word == b"after"));

    let place = Place::new().await?;
    let mut watch = place.watch_with("halved", EventFault::CutInside).await?;
    let half = piece(&mut watch).await?.ok_or("it ended")?;
    assert!(!half.ends_with(b"\n"));
    assert!(piece(&mut watch).await.is_err());

    let place = Place::new().await?;
    let mut watch = place
        .watch_with("expired", EventFault::Error { code: 410 })
        .await?;
    let error: Value = serde_json::from_slice(&piece(&mut watch).await?.ok_or("it ended")?)?;
    assert_eq!(
        (&error["type"], &error["object"]["reason"]),
        (&json!("ERROR"), &json!("Expired"))
    );

    let place = Place::new().await?;
    let mut watch = place.watch_with("endless", EventFault::EndlessLine).await?;
    let mut read = 0;
    while read < 1 << 20 {
        let piece = piece(&mut watch).await?.ok_or("it ended")?;
        assert!(!piece.contains(&b'\n'));
        read += piece.len();
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_that_falls_silent_stays_so_and_a_late_one_comes() -> Result<(), Failure> {
    let place = Place::new().await?;
    let late = Duration::from_millis(200);
    let began = Instant::now();
    let mut watch = place.watch_with("late", EventFault::Delay(late)).await?;
    piece(&mut watch).await?.ok_or("it ended")?;
    assert!(began.elapsed() >= late);

    let place = Place::new().await?;
    let mut watch = place.watch_with("silent", EventFault::Silence).await?;
    place.alpha.create(map("after-silence"))?;
    let short = Duration::from_millis(100);
    assert!(
        tokio::time::timeout(short, piece(&mut watch))
            .await
            .is_err()
    );
    place.alpha.cut_watches();
    assert!(piece(&mut watch).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_put_back_has_the_objects_of_its_backup() -> Result<(), Failure> {
    let place = Place::new().await?;
    let backup = place.alpha.backup();
    let (then, uid) = (place.alpha.version(), place.alpha.uid());
    for restored in [false, true] {
        place.alpha.create(map("lost"))?;
        let from = place.alpha.version() - 1;
        let mut watch = get(format!("{}?watch=1&resourceVersion={from}", place.maps)).await?;
        piece(&mut watch).await?.ok_or("it ended")?;
        let before = place.alpha.version();
        if restored {
            place.alpha.restore(&backup);
            assert!(place.alpha.version() > before);
        } else {
            place.alpha.roll_back(&backup);
            assert_eq!(place.alpha.version(), then);
        }
        assert!(piece(&mut watch).await.is_err());
        assert_eq!(place.alpha.uid(), uid);
        assert_eq!(get(format!("{}/lost", place.maps)).await?.status(), 404);
        assert_eq!(get(format!("{}/a", place.maps)).await?.status(), 200);
    }
    Ok(())
}
