//! The messages between the host and the process of a guest: the functions and types of the contract, as serde writes them. Entry points:
//! [`Task`], what the host asks for, and [`Message`], what the process sends meanwhile.
//!
//! Each message is a line. Records are objects. Cases of enums and variants are in CamelCase, with a value as `{"Case": value}`, without
//! one as `"Case"`. Results are `{"Ok": value}` or `{"Err": value}`. Objects of Kubernetes are texts, as in the contract.

use super::NativeError;
use crate::contract::handle::{ClusterHandle, Refused};
use crate::contract::windlass::runtime::client::{
    ApplyOptions, DeleteOptions, Event, GetOptions, HostCluster, ListOptions, Operation, PatchType,
    ReadMode, Selection, WriteOptions,
};
use crate::contract::windlass::runtime::log::Level;
use crate::contract::windlass::runtime::types::{self, GroupVersionKind, Host as _, ObjectKey};
use crate::contract::windlass::runtime::{clock, config, fleet, http, log};
use crate::instance::call::Call;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wasmtime::component::Resource;

/// What the process shall do.
#[derive(Debug, Serialize)]
pub(super) enum Task {
    /// Return a `Result<Description, String>`.
    Describe,
    /// Return a `Result<Action, Failure>`.
    Reconcile {
        request: types::Request,
        /// A handle.
        cluster: u32,
    },
    /// Return a `Result<Vec<Request>, String>`.
    MapObjects {
        /// A handle.
        cluster: u32,
        kind: GroupVersionKind,
        objects: Vec<String>,
    },
}

/// What the process sends.
#[derive(Debug, Deserialize)]
pub(super) enum Message {
    /// A call, which is answered by a line: the value of its function, or `{"Trap": text}` where a component would trap.
    Call(Box<Function>),
    /// The result of the task, after which the process makes no further call.
    Return(Box<RawValue>),
}

/// A host function with its arguments. Handles are numbers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Function {
    Name {
        cluster: u32,
    },
    Get {
        cluster: u32,
        kind: GroupVersionKind,
        key: ObjectKey,
        options: GetOptions,
    },
    List {
        cluster: u32,
        kind: GroupVersionKind,
        options: ListOptions,
    },
    Create {
        cluster: u32,
        kind: GroupVersionKind,
        object: String,
        options: WriteOptions,
    },
    Update {
        cluster: u32,
        kind: GroupVersionKind,
        object: String,
        options: WriteOptions,
    },
    Patch {
        cluster: u32,
        kind: GroupVersionKind,
        key: ObjectKey,
        patch_type: PatchType,
        patch: String,
        options: WriteOptions,
    },
    Apply {
        cluster: u32,
        kind: GroupVersionKind,
        object: String,
        options: ApplyOptions,
    },
    Delete {
        cluster: u32,
        kind: GroupVersionKind,
        key: ObjectKey,
        options: DeleteOptions,
    },
    DeleteCollection {
        cluster: u32,
        kind: GroupVersionKind,
        selection: Selection,
        options: DeleteOptions,
    },
    RecordEvent {
        cluster: u32,
        event: Event,
    },
    Batch {
        cluster: u32,
        operations: Vec<Operation>,
    },
    /// The process needs the handle no longer.
    Drop {
        cluster: u32,
    },
    /// `fleet.clusters`.
    Clusters {
        label_selector: Option<String>,
    },
    /// `fleet.open`.
    Open {
        name: String,
    },
    /// `fleet.batch`.
    BatchFleet {
        operations: Vec<(String, Operation)>,
    },
    /// `http.send`.
    Http {
        request: http::Request,
    },
    Config,
    Now,
    Log {
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    },
}

/// Where a component would trap.
#[derive(Serialize)]
enum Broken {
    Trap(String),
}

impl Function {
    /// Makes cached reads live ones.
    pub(super) fn read_live(&mut self) {
        match self {
            Self::Get { options, .. } => options.mode = ReadMode::Live,
            Self::List { options, .. } => options.mode = ReadMode::Live,
            Self::Batch { operations, .. } => operations.iter_mut().for_each(make_live),
            Self::BatchFleet { operations } => {
                operations.iter_mut().for_each(|(_, one)| make_live(one));
            }
            _ => {}
        }
    }

    /// Calls the function, and returns the line that answers.
    pub(super) async fn answer(self, call: &mut Call) -> Vec<u8> {
        match self.called(call).await {
            Ok(line) => line,
            Err(trap) => line(&Broken::Trap(format!("{trap:#}"))),
        }
    }

    async fn called(self, call: &mut Call) -> wasmtime::Result<Vec<u8>> {
        use HostCluster as client;
        Ok(match self {
            Self::Name { cluster } => line(&client::name(call, handle(cluster))?),
            Self::Get {
                cluster,
                kind,
                key,
                options,
            } => {
                let answer = client::get(call, handle(cluster), kind, key, options).await;
                result(call, answer)?
            }
            Self::List {
                cluster,
                kind,
                options,
            } => {
                let answer = client::list(call, handle(cluster), kind, options).await;
                result(call, answer)?
            }
            Self::Create {
                cluster,
                kind,
                object,
                options,
            } => {
                let answer = client::create(call, handle(cluster), kind, object, options).await;
                result(call, answer)?
            }
            Self::Update {
                cluster,
                kind,
                object,
                options,
            } => {
                let answer = client::update(call, handle(cluster), kind, object, options).await;
                result(call, answer)?
            }
            Self::Patch {
                cluster,
                kind,
                key,
                patch_type,
                patch,
                options,
            } => {
                let cluster = handle(cluster);
                let answer =
                    client::patch(call, cluster, kind, key, patch_type, patch, options).await;
                result(call, answer)?
            }
            Self::Apply {
                cluster,
                kind,
                object,
                options,
            } => {
                let answer = client::apply(call, handle(cluster), kind, object, options).await;
                result(call, answer)?
            }
            Self::Delete {
                cluster,
                kind,
                key,
                options,
            } => {
                let answer = client::delete(call, handle(cluster), kind, key, options).await;
                result(call, answer)?
            }
            Self::DeleteCollection {
                cluster,
                kind,
                selection,
                options,
            } => {
                let cluster = handle(cluster);
                let answer =
                    client::delete_collection(call, cluster, kind, selection, options).await;
                result(call, answer)?
            }
            Self::RecordEvent { cluster, event } => {
                line(&client::record_event(call, handle(cluster), event)?)
            }
            Self::Batch {
                cluster,
                operations,
            } => line(&client::batch(call, handle(cluster), operations).await?),
            Self::Drop { cluster } => line(&client::drop(call, Resource::new_own(cluster)).await?),
            Self::Clusters { label_selector } => {
                let answer = fleet::Host::clusters(call, label_selector).await;
                result(call, answer)?
            }
            Self::Open { name } => {
                let opened = fleet::Host::open(call, name);
                result(call, opened.map(|cluster| cluster.rep()))?
            }
            Self::Http { request } => {
                let answer = http::Host::send(call, request).await;
                result(call, answer)?
            }
            Self::BatchFleet { operations } => line(&fleet::Host::batch(call, operations).await?),
            Self::Config => line(&config::Host::get(call)?),
            Self::Now => line(&clock::Host::now(call)?),
            Self::Log {
                level,
                message,
                fields,
            } => line(&log::Host::write(call, level, message, fields)?),
        })
    }
}

fn make_live(operation: &mut Operation) {
    match operation {
        Operation::Get((_, _, options)) => options.mode = ReadMode::Live,
        Operation::List((_, options)) => options.mode = ReadMode::Live,
        _ => {}
    }
}

/// A handle, lent to a host function.
fn handle(number: u32) -> Resource<ClusterHandle> {
    Resource::new_borrow(number)
}

/// The line of a result. A trap is no result.
fn result<T: Serialize>(call: &mut Call, answer: Result<T, Refused>) -> wasmtime::Result<Vec<u8>> {
    let answer: Result<T, types::ApiError> = match answer {
        Ok(value) => Ok(value),
        Err(refused) => Err(call.convert_api_error(refused)?),
    };
    Ok(line(&answer))
}

/// A message without the end of its line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    // Texts, numbers, lists and records: nothing in a message fails to be JSON.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Reads a message, or a part of one.
pub(super) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, NativeError> {
    serde_json::from_slice(text).map_err(NativeError::Message)
}
