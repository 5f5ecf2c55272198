//! What is asked of etcd itself, by its JSON gateway. Entry point: [`compact`].

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_secs(30);

/// Compacts to the newest revision.
pub(super) async fn compact(url: &str) -> Result<()> {
    // The key is one zero byte: the answer's header is all that is wanted.
    let now = call(url, "/v3/kv/range", &json!({"key": "AA=="})).await?;
    let revision = now["header"]["revision"]
        .as_str()
        .context("etcd told no revision")?;
    let compaction = json!({"revision": revision, "physical": true});
    call(url, "/v3/kv/compaction", &compaction).await?;
    Ok(())
}

/// One call over HTTP/1.0, whose answer ends with the connection.
async fn call(url: &str, path: &str, body: &Value) -> Result<Value> {
    let address = url.strip_prefix("http://").context("etcd serves HTTP")?;
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = tokio::time::timeout(DEADLINE, async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    })
    .await
    .context("etcd did not answer")??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200"), "etcd answered {status}: {body}");
    serde_json::from_str(body).context("etcd answered no JSON")
}
