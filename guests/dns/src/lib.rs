//! Keeps records of DNS at an API outside of Kubernetes. Entry point: [`Dns`].
//!
//! A write is a PUT of the whole record, so that doing it twice is the same as once. The API's token is no matter of this guest: the operator has
//! the host add it (`spec.http` of the Reconciler).

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use windlass_sdk::http;
use windlass_sdk::prelude::*;

/// Holds the object until its record is gone.
const FINALIZER: &str = "dns.example.windlass.dev/record";
/// How long to wait when the API asks for patience without saying how long.
const PATIENCE: Duration = Duration::from_secs(10);

/// A record that somebody asks for.
#[derive(Serialize, Deserialize)]
struct DnsRecord {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}
windlass_sdk::kind!(DnsRecord, "example.windlass.dev/v1", "DnsRecord");

#[derive(Serialize, Deserialize)]
struct Spec {
    zone: String,
    name: String,
    address: String,
}

#[derive(Serialize, Deserialize, Default)]
struct Status {
    /// Where the record is. It stays when the spec names another one, until that is gone.
    #[serde(default)]
    url: Option<String>,
}

/// A record as the API has it.
#[derive(Serialize, Deserialize, PartialEq)]
struct Record {
    address: String,
}

#[derive(Deserialize)]
struct Settings {
    /// Without a slash at its end.
    api: String,
}

struct Dns;
windlass_sdk::guest!(Dns);

impl Reconciler for Dns {
    fn describe() -> Result<Description> {
        Ok(Description::new("keeps records of DNS").primary::<DnsRecord>())
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(wanted) = cluster.get::<DnsRecord>(&request.key)? else {
            return Ok(Action::Done);
        };
        let Settings { api } = config()?;
        let Spec {
            zone,
            name,
            address,
        } = &wanted.spec;
        let url = format!("{api}/v1/zones/{zone}/records/{name}");
        if wanted.metadata.is_deleting() {
            if wanted.metadata.has_finalizer(FINALIZER) {
                remove(wanted.status.url.as_deref().unwrap_or(&url))?;
                cluster.remove_finalizer(&wanted, FINALIZER)?;
            }
            return Ok(Action::Done);
        }
        // Added before the record is made, so that no record outlives its object.
        cluster.ensure_finalizer(&wanted, FINALIZER)?;
        if let Some(before) = wanted.status.url.as_deref().filter(|before| *before != url) {
            remove(before)?;
        }
        cluster.set_status::<DnsRecord>(&request.key, &json!({"url": url}))?;
        let record = Record {
            address: address.clone(),
        };
        if read(&url)?.is_none_or(|there| there != record) {
            settled(http::Request::put(url.as_str()).json(&record)?.send()?)?;
            cluster.event(
                &wanted,
                "RecordWritten",
                format!("{name}.{zone} is {address}"),
            );
        }
        Ok(Action::Done)
    }
}

fn read(url: &str) -> Result<Option<Record>> {
    let answer = http::get(url)?;
    if answer.status == 404 {
        return Ok(None);
    }
    settled(answer)?.json().map(Some)
}

fn remove(url: &str) -> Result<()> {
    let answer = http::Request::delete(url).send()?;
    if answer.status != 404 {
        settled(answer)?;
    }
    Ok(())
}

/// The answer of a call that did what it was to do. At the limit of the API the run ends, to go on when the API allows it.
fn settled(answer: http::Response) -> Result<http::Response> {
    answer.success().map_err(|refused| match refused.status {
        429 => Error::not_ready(refused.to_string(), refused.retry_after.unwrap_or(PATIENCE)),
        400 | 422 => Error::terminal(refused.to_string()),
        _ => Error::retry(refused.to_string()),
    })
}
