//! A guest as a process of its own, whose author sets breakpoints. Entry point: [`serve`].
//!
//! `windlass dev --native NAME` serves the fleet with this process in place of the component. Its calls take the same way, with the same
//! grants and limits. An ignored test is a process that every editor and debugger can start:
//!
//! ```no_run
//! # struct Hello;
//! # impl windlass_sdk::Reconciler for Hello {
//! #     fn describe() -> windlass_sdk::Result<windlass_sdk::Description> { Ok(windlass_sdk::Description::new("")) }
//! #     fn reconcile(_: &windlass_sdk::Request, _: &windlass_sdk::Cluster) -> windlass_sdk::Result<windlass_sdk::Action> {
//! #         Ok(windlass_sdk::Action::Done)
//! #     }
//! # }
//! #[test]
//! #[ignore = "needs windlass dev --native"]
//! fn native() {
//!     windlass_sdk::native::serve::<Hello>();
//! }
//! ```

mod host;
mod results;

pub(crate) use host::{Host, Lent};

use crate::cluster::Cluster;
use crate::error::settled;
use crate::raw::Handle;
use crate::types::{GroupVersionKind, ObjectKey, Request};
use crate::{Mapper, Object, Reconciler, Result, json};
use results::{action, description, requests};
use serde_json::{Value, json as value};
use std::path::Path;

/// Where the program says, in the guest's folder, how it is reached.
const SOCKET: &str = ".windlass/native";

/// What a task comes to, as a line has it.
type Outcome = std::result::Result<Value, Value>;

type Map = fn(&Cluster, &GroupVersionKind, &[Object]) -> Result<Vec<Request>>;

/// Does what the host asks for, until the host ends. Start it in the guest's folder.
///
/// # Panics
/// When no `windlass dev --native` runs, and where a component would trap.
pub fn serve<G: Reconciler>() {
    serve_tasks::<G>(None);
}

/// As [`serve`], for a guest that is a [`Mapper`] too.
///
/// # Panics
/// As [`serve`].
pub fn serve_mapper<G: Reconciler + Mapper>() {
    serve_tasks::<G>(Some(G::map));
}

fn serve_tasks<G: Reconciler>(map: Option<Map>) {
    let host = Host::connect(Path::new(SOCKET)).unwrap_or_else(|error| {
        panic!("no host at {SOCKET}: {error}; start `windlass dev --native NAME` first, and this in the guest's folder")
    });
    let _entered = host.enter();
    while let Some(task) = host.next_task() {
        let outcome = match outcome::<G>(&host, &task, map) {
            Ok(result) => value!({ "Ok": result }),
            Err(error) => value!({ "Err": error }),
        };
        host.give_back(&outcome);
    }
}

fn outcome<G: Reconciler>(host: &Host, task: &Value, map: Option<Map>) -> Outcome {
    if let Some(asked) = task.get("Reconcile") {
        let cluster = cluster(host, asked);
        return action(settled(G::reconcile(&request(&asked["request"]), &cluster)));
    }
    if let Some(asked) = task.get("MapObjects") {
        return mapped(host, asked, map).map_err(|error| error.report().into());
    }
    let described = G::describe();
    described
        .map(|it| description(&it))
        .map_err(|error| error.report().into())
}

fn mapped(host: &Host, asked: &Value, map: Option<Map>) -> Result<Value> {
    let map =
        map.ok_or_else(|| crate::Error::retry("it is no mapper: use native::serve_mapper"))?;
    let texts = asked["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let objects = texts.iter().map(|text| json::from_str(&string(text)));
    let objects = objects.collect::<std::result::Result<Vec<Object>, _>>()?;
    let made = map(&cluster(host, asked), &kind(&asked["kind"]), &objects)?;
    Ok(requests(&made))
}

/// The cluster that a task lends.
fn cluster(host: &Host, asked: &Value) -> Cluster {
    let number = asked["cluster"].as_u64().unwrap_or_default();
    Cluster::from_handle(Handle::Lent(host.lent(number)))
}

fn request(value: &Value) -> Request {
    let key = &value["key"];
    Request {
        cluster: string(&value["cluster"]),
        key: ObjectKey {
            namespace: key["namespace"].as_str().map(str::to_owned),
            name: string(&key["name"]),
        },
    }
}

fn kind(value: &Value) -> GroupVersionKind {
    GroupVersionKind {
        group: string(&value["group"]),
        version: string(&value["version"]),
        kind: string(&value["kind"]),
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
