//! Calls of servers that are no API servers: what the grant allows, and that nothing else gets out.

mod wasi;

use crate::fixture::{Stage, config_map};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass_fleet::outbound::{HttpGrant, HttpRule, HttpRuleText};
use windlass_harness::outside::Outside;

/// A rule for plain calls of a port of this machine.
fn text(port: u16) -> HttpRuleText {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    HttpRuleText {
        hosts: list(&["localhost"]),
        ports: vec![port],
        methods: list(&["GET", "POST"]),
        plain: true,
        addresses: list(&["127.0.0.0/8"]),
        ..HttpRuleText::default()
    }
}

fn grant(text: HttpRuleText) -> Result<HttpGrant> {
    Ok(HttpGrant::new(vec![HttpRule::new(text)?], None))
}

/// The answers to these requests, of a guest with this grant.
async fn answers(stage: &Stage, name: &str, http: HttpGrant, asked: Value) -> Result<Vec<Value>> {
    let guest = stage
        .guest("test-calls")
        .name(name)
        .config(json!({"http": asked}));
    let running = guest.http(http).run().await?;
    stage.apply("alpha", config_map(name, json!({})))?;
    let answer = running.answer("alpha", name).await?;
    answer.as_array().cloned().context("a list")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_calls_what_a_rule_allows_and_never_sees_its_headers() -> Result<()> {
    let (stage, server) = (Stage::start(&["alpha"]).await?, Outside::start().await?);
    let port = server.port;
    let http = grant(HttpRuleText {
        headers: vec![("Authorization".into(), "Bearer s3cret".into())],
        ..text(port)
    })?;
    let url = |path: &str| format!("http://localhost:{port}{path}");
    let asked = json!([
        {"method": "GET", "url": url("/echo?a=b")},
        {"method": "POST", "url": url("/echo"), "body": "{}", "headers": [["X-Key", "k"], ["Authorization", "own"]]},
        {"method": "GET", "url": url("/status/429")},
        {"method": "DELETE", "url": url("/echo")},
        {"method": "GET", "url": "https://api.example.com/v1"},
    ]);
    let answers = answers(&stage, "http-allowed", http, asked).await?;
    let echo: Value = serde_json::from_str(answers[0]["body"].as_str().context("a body")?)?;
    assert_eq!(echo["target"], "/echo?a=b");
    assert_eq!(echo["headers"]["authorization"], "Bearer s3cret");
    assert!(
        echo["headers"]["user-agent"]
            .as_str()
            .is_some_and(|agent| agent.starts_with("windlass/"))
    );
    let echo: Value = serde_json::from_str(answers[1]["body"].as_str().context("a body")?)?;
    assert_eq!(
        (&echo["body"], &echo["headers"]["x-key"]),
        (&"{}".into(), &"k".into())
    );
    assert_eq!(
        echo["headers"]["authorization"], "Bearer s3cret",
        "the rule's wins"
    );
    assert_eq!(answers[2]["status"], 429);
    for (at, missing) in [
        (3, "methods: [DELETE]"),
        (
            4,
            "{hosts: [api.example.com], methods: [GET], paths: [\"/v1\"]}",
        ),
    ] {
        assert_eq!(answers[at]["code"], "denied");
        let message = answers[at]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains(missing) && !message.contains("s3cret"),
            "{message}"
        );
    }
    Ok(())
}

/// Requests that must not reach the server, or this machine in another way.
#[tokio::test(flavor = "multi_thread")]
async fn what_reaches_for_more_is_refused() -> Result<()> {
    let (stage, server) = (Stage::start(&["alpha"]).await?, Outside::start().await?);
    let port = server.port;
    // Every name of this machine is a host of the rule, and no address is but public ones.
    let hosts = [
        "localhost",
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.1",
        "::ffff:127.0.0.1",
    ];
    let http = grant(HttpRuleText {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        ports: vec![80, port],
        addresses: Vec::new(),
        paths: vec!["/open".into()],
        ..text(port)
    })?;
    let urls = [
        "http://localhost:PORT/open",
        "http://127.0.0.1:PORT/open",
        "http://[::ffff:127.0.0.1]:PORT/open",
        "http://[::1]:PORT/open",
        "http://0.0.0.0:PORT/open",
        "http://169.254.169.254/open",
        "http://10.0.0.1/open",
        "http://2130706433:PORT/open",
        "http://0x7f000001:PORT/open",
        "http://0177.0.0.1:PORT/open",
        "http://127.1:PORT/open",
        "http://api.example.com@127.0.0.1:PORT/open",
        "http://127.0.0.1%2f@api.example.com/open",
        "http://localhost:PORT/open/../status/200",
        "http://localhost:PORT/open/%2e%2e/status/200",
        "http://localhost:PORT/open/..%2fstatus/200",
        "http://localhost:PORT/open\r\nX-Own: 1",
        "file:///etc/passwd",
        "gopher://localhost:PORT/open",
        "//localhost:PORT/open",
    ];
    let mut asked: Vec<Value> = urls
        .iter()
        .map(|url| json!({"method": "GET", "url": url.replace("PORT", &port.to_string())}))
        .collect();
    let open = format!("http://localhost:{port}/open");
    asked.push(json!({"method": "GET", "url": open, "headers": [["X-A", "1\r\nHost: evil"]]}));
    asked.push(json!({"method": "GET", "url": open, "headers": [["Host", "evil"]]}));
    asked.push(json!({"method": "GET\r\nX: 1", "url": open}));
    let answers = answers(&stage, "http-refused", http, asked.into()).await?;
    for (answer, url) in answers.iter().zip(urls) {
        let code = answer["code"].as_str().unwrap_or_default();
        assert!(code == "denied" || code == "invalid", "{url}: {answer}");
    }
    assert!(
        answers.iter().all(|answer| answer.get("status").is_none()),
        "{answers:?}"
    );
    assert_eq!(server.heads(), [""; 0], "nothing arrived");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_followed_as_its_rule_says_and_each_hop_is_checked() -> Result<()> {
    let (stage, server, other) = (
        Stage::start(&["alpha"]).await?,
        Outside::start().await?,
        Outside::start().await?,
    );
    let to = |port: u16, path: &str| format!("http://localhost:{port}{path}");
    let http = grant(HttpRuleText {
        redirects: 2,
        headers: vec![("Authorization".into(), "Bearer s3cret".into())],
        ..text(server.port)
    })?;
    let (own, port) = (to(server.port, "/to?"), server.port);
    let asked = json!([
        {"method": "GET", "url": format!("{own}{own}/echo")},
        {"method": "GET", "url": format!("{own}{own}{own}/echo")},
        {"method": "GET", "url": format!("{own}{}", to(other.port, "/echo"))},
        {"method": "GET", "url": format!("{own}http://169.254.169.254/latest/meta-data")},
        {"method": "GET", "url": format!("{own}http://user@localhost:{port}/echo")},
        {"method": "POST", "url": format!("{own}/echo")},
    ]);
    let answers = answers(&stage, "http-redirected", http, asked).await?;
    assert_eq!(answers[0]["status"], 200, "{answers:?}");
    assert_eq!(answers[1]["code"], "unavailable", "{answers:?}");
    assert_eq!(answers[2]["code"], "denied", "{answers:?}");
    assert_eq!(answers[3]["code"], "denied", "{answers:?}");
    assert_eq!(answers[4]["code"], "unavailable", "{answers:?}");
    assert_eq!(
        answers[5]["status"], 302,
        "a POST is not repeated: {answers:?}"
    );
    assert_eq!(other.heads(), [""; 0], "no other server has the header");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn large_and_slow_answers_end_at_the_limits_of_the_guest() -> Result<()> {
    let (stage, server) = (Stage::start(&["alpha"]).await?, Outside::start().await?);
    let url = |path: &str| format!("http://localhost:{}{path}", server.port);
    let asked = json!([
        {"method": "GET", "url": url("/large?1000")},
        {"method": "GET", "url": url("/large?200000")},
        {"method": "GET", "url": url("/slow"), "ms": 300},
        {"method": "GET", "url": url("/never"), "ms": 300},
        {"method": "POST", "url": url("/never"), "ms": 300},
        {"method": "GET", "url": url("/large?1000")},
    ]);
    let guest = stage
        .guest("test-calls")
        .name("http-limits")
        .config(json!({"http": asked}));
    let guest = guest
        .http(grant(text(server.port))?)
        .limits(|limits| limits.response_bytes = 100_000);
    let running = guest.run().await?;
    stage.apply("alpha", config_map("http-limits", json!({})))?;
    let answers = running.answer("alpha", "http-limits").await?;
    assert_eq!(answers[0]["status"], 200, "{answers}");
    assert_eq!(answers[1]["code"], "limit-exceeded", "{answers}");
    for at in [2, 3, 4] {
        assert_eq!(answers[at]["code"], "timeout", "{answers}");
    }
    assert_eq!(answers[5]["status"], 200, "{answers}");
    let status = running.guest.status();
    assert_eq!(
        (status.http_calls["2xx"], status.http_calls["failed"]),
        (2, 4)
    );
    assert_eq!(status.limit_hits["responseBytes"], 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_bounds_what_its_guests_call() -> Result<()> {
    let (stage, server) = (Stage::start(&["alpha"]).await?, Outside::start().await?);
    let bound = |change: &dyn Fn(&mut HttpRuleText)| {
        let mut bound = text(server.port);
        change(&mut bound);
        let rules = vec![HttpRule::new(text(server.port))?];
        anyhow::Ok(HttpGrant::new(rules, Some(vec![HttpRule::new(bound)?])))
    };
    let asked =
        json!([{"method": "POST", "url": format!("http://localhost:{}/echo", server.port)}]);
    let only_reads = bound(&|text| text.methods = vec!["GET".into()])?;
    let answer = &answers(&stage, "http-method", only_reads, asked.clone()).await?[0];
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("the Tenant's spec.http does not allow"),
        "{answer}"
    );
    let only_public = bound(&|text| text.addresses.clear())?;
    let answer = &answers(&stage, "http-address", only_public, asked.clone()).await?[0];
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains("no public address"), "{answer}");
    let all = bound(&|_| {})?;
    assert_eq!(
        answers(&stage, "http-bounded", all, asked).await?[0]["status"],
        200
    );
    Ok(())
}
