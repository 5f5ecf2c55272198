//! A guest with a client of its own, over `wasi:http`: it has what the interface `http` has, and no more.

use super::{grant, text};
use crate::fixture::{RunningGuest, Setup, Stage, config_map, sandbox};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::outbound::{HttpGrant, HttpRequest, HttpResponse, HttpRuleText};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::guests::compiled;
use windlass_harness::outside::Outside;
use windlass_sandbox::recording::{Asked, Recording, Step};
use windlass_sandbox::{
    By, CacheOptions, Door, Doorkeeper, Fate, HostCall, HttpFate, Options, RecordOptions, Sandbox,
};

/// A guest that makes these calls, and their answers. Its runs are recorded.
async fn called(
    stage: &Stage,
    name: &str,
    http: HttpGrant,
    asked: Value,
) -> Result<(RunningGuest, Vec<Value>)> {
    let guest = stage
        .guest("test-wasi-http")
        .name(name)
        .config(json!({"http": asked}))
        .limits(|limits| limits.response_bytes = 100_000)
        .record(RecordOptions {
            failures: 10,
            sample: 10,
            every: Duration::ZERO,
            bytes: 16 << 20,
        });
    let running = guest.http(http).run().await?;
    stage.apply("alpha", config_map(name, json!({})))?;
    let answer = running.answer("alpha", name).await?;
    Ok((running, answer.as_array().cloned().context("a list")?))
}

/// The recording of its run.
async fn recorded(running: &RunningGuest) -> Result<Recording> {
    let kept = wait("a recording", || {
        let kept = running.guest.recordings();
        Seen::of(kept, |kept| !kept.is_empty())
    });
    let file = kept.await?.remove(0).file.map_err(anyhow::Error::msg)?;
    Ok(Recording::parse(&file)?)
}

fn echoed(answer: &Value) -> Result<Value> {
    let body = answer["body"]
        .as_str()
        .with_context(|| answer.to_string())?;
    serde_json::from_str(body).with_context(|| answer.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_guest_calls_what_a_rule_allows_and_its_run_is_played_again() -> Result<()>
{
    let (stage, server) = (Stage::start(&["alpha"]).await?, Outside::start().await?);
    let url = |path: &str| format!("http://localhost:{}{path}", server.port);
    let http = grant(HttpRuleText {
        headers: vec![("Authorization".into(), "Bearer s3cret".into())],
        ..text(server.port)
    })?;
    let asked = json!([
        {"method": "GET", "url": url("/echo?a=b")},
        {"method": "POST", "url": url("/echo"), "body": "{}", "headers": [["X-Key", "k"], ["Authorization", "own"]]},
        {"method": "POST", "url": url("/echo"), "body": "{}", "early": true, "headers": [["content-length", "2"]]},
        {"method": "GET", "url": url("/status/429")},
        {"method": "POST", "url": url("/echo"), "body": "x".repeat(70_000)},
        {"method": "POST", "url": url("/echo"), "body": "{}", "headers": [["content-length", "3"]]},
    ]);
    let (running, answers) = called(&stage, "wasi-allowed", http, asked).await?;
    let echo = echoed(&answers[0])?;
    assert_eq!(
        (&echo["method"], &echo["target"]),
        (&"GET".into(), &"/echo?a=b".into())
    );
    assert_eq!(echo["headers"]["authorization"], "Bearer s3cret");
    assert_eq!(answers[0]["headers"]["content-type"], "application/json");
    let echo = echoed(&answers[1])?;
    assert_eq!(
        (&echo["body"], &echo["headers"]["x-key"]),
        (&"{}".into(), &"k".into())
    );
    assert_eq!(
        echo["headers"]["authorization"], "Bearer s3cret",
        "the rule's wins"
    );
    assert_eq!(echoed(&answers[2])?["body"], "{}");
    assert_eq!(answers[3]["status"], 429);
    assert!(answers[4]["bytes"].as_u64() > Some(70_000), "{answers:?}");
    assert_eq!(
        answers[5]["code"],
        "ErrorCode::HttpRequestBodySize(Some(2))"
    );
    let status = running.guest.status();
    assert_eq!((status.http_calls["2xx"], status.http_calls["4xx"]), (4, 1));

    let recording = recorded(&running).await?;
    let is_told = |step: &Step| {
        let Step::Call { asked, .. } = step else {
            return false;
        };
        let Asked::Http(request) = &**asked else {
            return false;
        };
        let mut headers = request.headers.iter();
        headers.any(|(_, value)| value.contains("s3cret"))
    };
    assert!(!recording.steps.iter().any(is_told), "{recording:?}");
    let revision = running.guest.revision();
    let replayed = sandbox().replay(&revision, &recording, By::Order).await?;
    assert_eq!(replayed.divergence, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_guest_reaches_nothing_else() -> Result<()> {
    let (stage, server) = (Stage::start(&["alpha"]).await?, Outside::start().await?);
    let url = |path: &str| format!("http://localhost:{}{path}", server.port);
    let http = grant(HttpRuleText {
        paths: vec!["/open".into()],
        ..text(server.port)
    })?;
    let asked = json!([
        {"method": "DELETE", "url": url("/open")},
        {"method": "GET", "url": url("/echo")},
        {"method": "GET", "url": url("/open/../echo")},
        {"method": "GET", "url": "https://api.example.com/open"},
        {"method": "POST", "url": url("/echo"), "body": "{}"},
        {"method": "GET", "url": "http://user@localhost/open"},
        {"method": "GET", "url": url("/open"), "headers": [["Host", "evil"]]},
        {"method": "GET", "url": url("/open"), "headers": [["X-A", "1\r\nHost: evil"]]},
    ]);
    let (running, answers) = called(&stage, "wasi-denied", http, asked).await?;
    for answer in &answers[..5] {
        assert_eq!(
            answer["code"], "ErrorCode::HttpRequestDenied",
            "{answers:?}"
        );
    }
    assert_eq!(answers[5]["code"], "internal", "{answers:?}");
    assert_eq!(
        answers[6]["header"], "HeaderError::Forbidden",
        "{answers:?}"
    );
    assert_eq!(
        answers[7]["header"], "HeaderError::InvalidSyntax",
        "{answers:?}"
    );
    let status = running.guest.status();
    assert_eq!(status.http_calls["denied"], 5);
    let missing = "methods: [DELETE]";
    let is_said =
        |step: &Step| matches!(step, Step::Log { message, .. } if message.contains(missing));
    assert!(
        recorded(&running).await?.steps.iter().any(is_said),
        "the log has the rule"
    );
    // Without the addresses of the rule, this machine is not reached.
    let http = grant(HttpRuleText {
        addresses: Vec::new(),
        ..text(server.port)
    })?;
    let asked = json!([{"method": "GET", "url": url("/echo")}]);
    let (_, answers) = called(&stage, "wasi-loopback", http, asked).await?;
    assert_eq!(
        answers[0]["code"], "ErrorCode::HttpRequestDenied",
        "{answers:?}"
    );
    assert_eq!(server.heads(), [""; 0], "nothing arrived");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_or_too_slow_ends_at_the_limits_of_the_guest() -> Result<()> {
    let (stage, server) = (Stage::start(&["alpha"]).await?, Outside::start().await?);
    let url = |path: &str| format!("http://localhost:{}{path}", server.port);
    let asked = json!([
        {"method": "GET", "url": url("/large?90000")},
        {"method": "GET", "url": url("/large?200000")},
        {"method": "GET", "url": url("/never"), "ms": 300},
        {"method": "POST", "url": url("/slow"), "ms": 300, "body": "x"},
        {"method": "POST", "url": url("/echo"), "body": "x".repeat(3 << 20)},
        {"method": "GET", "url": url("/large?90000")},
    ]);
    let (running, answers) =
        called(&stage, "wasi-limits", grant(text(server.port))?, asked).await?;
    for at in [0, 5] {
        assert_eq!(answers[at]["bytes"], 90_000, "{answers:?}");
    }
    assert_eq!(answers[1]["code"], "internal");
    for at in [2, 3] {
        assert_eq!(answers[at]["code"], "ErrorCode::HttpResponseTimeout");
    }
    assert_eq!(
        answers[4]["code"],
        "ErrorCode::HttpRequestBodySize(Some(2097152))"
    );
    assert_eq!(running.guest.status().limit_hits["responseBytes"], 1);
    Ok(())
}

/// Answers in place of servers, as `windlass test` and `windlass plan` do.
struct StandIn;

impl Door for StandIn {
    fn decide(&self, _: &HostCall<'_>) -> Fate {
        Fate::Pass
    }

    fn outside(&self, request: &HttpRequest) -> HttpFate {
        HttpFate::Ended(Ok(HttpResponse {
            status: 201,
            headers: Vec::new(),
            body: request.body.clone(),
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stand_in_answers_a_client_of_the_guest_where_a_rule_allows_the_call() -> Result<()> {
    let setup = Setup {
        sandbox: Some(Sandbox::new(Options {
            instances: 4,
            cache: Some(CacheOptions::new(compiled())),
            door: Doorkeeper::new(Arc::new(StandIn)),
            ..Options::default()
        })?),
        ..Setup::default()
    };
    let (stage, server) = (
        Stage::with(&["alpha"], setup).await?,
        Outside::start().await?,
    );
    let url = |path: &str| format!("http://localhost:{}{path}", server.port);
    let asked = json!([
        {"method": "POST", "url": url("/echo"), "body": "as sent"},
        {"method": "DELETE", "url": url("/echo")},
    ]);
    let (_, answers) = called(&stage, "wasi-door", grant(text(server.port))?, asked).await?;
    assert_eq!(
        (&answers[0]["status"], &answers[0]["body"]),
        (&201.into(), &"as sent".into())
    );
    assert_eq!(answers[1]["code"], "ErrorCode::HttpRequestDenied");
    assert_eq!(server.heads(), [""; 0], "nothing arrived");
    Ok(())
}
