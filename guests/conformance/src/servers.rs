//! The case about servers that are no API servers. Entry point: [`http`].

use crate::Scene;
use crate::words::{NONE, refused};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass_sdk::http::{self, Request};
use windlass_sdk::prelude::*;

/// The body of the call that has one.
#[derive(Serialize, Deserialize)]
struct Wanted {
    count: u32,
    text: String,
}

/// Calls that a rule allows, one without an answer, and calls that no rule allows.
pub(crate) fn http(scene: &Scene) -> Result<()> {
    let server = scene.primary.value("server");
    let answer = Request::get(format!("{server}/status/429"))
        .header("x-key", "k")
        .send()?;
    info!(
        "answered",
        status = answer.status,
        wait = answer.header("retry-after").unwrap_or(NONE),
        body = answer.text(),
    );
    if let Err(failed) = answer.success() {
        info!(
            "failed",
            status = failed.status,
            message = failed,
            wait = failed
                .retry_after
                .map_or(NONE.to_owned(), |after| after.as_millis().to_string()),
        );
    }
    post(server)?;
    let late = Request::get(format!("{server}/never")).timeout(Duration::from_millis(100));
    let calls = [
        ("late", late.send()),
        ("method", Request::delete(format!("{server}/body")).send()),
        ("host", http::get("https://api.example.com/v1")),
    ];
    for (call, answer) in calls {
        if let Err(error) = answer {
            refused(call, &error);
        }
    }
    Ok(())
}

/// A call with a body and a header that is the operator's.
fn post(server: &str) -> Result<()> {
    let wanted = Wanted {
        count: 3,
        text: "żółty".into(),
    };
    let answer = Request::post(format!("{server}/body"))
        .header("x-key", "k")
        .header("authorization", "own")
        .json(&wanted)?
        .send()?
        .success()?;
    let got: Wanted = answer.json()?;
    info!(
        "posted",
        status = answer.status,
        type = answer.header("content-type").unwrap_or(NONE),
        count = got.count,
        text = got.text,
    );
    Ok(())
}
