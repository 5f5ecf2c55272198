//! A line about each call: what it does, to what, where. Entry points: the `Display` implementations.

use super::{Asked, Event, HttpRequest, Key, Kind, Operation, Text};
use serde::Deserialize;
use std::fmt;

impl fmt::Display for Asked {
    /// One line: what it does, to what, where.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do { cluster, operation } => write!(f, "{operation} in {}", In(cluster)),
            Self::DeleteCollection {
                cluster,
                kind,
                selection,
                ..
            } => {
                write!(f, "delete all {kind}")?;
                selected(f, &selection.namespace, &selection.label_selector)?;
                write!(f, " in {}", In(cluster))
            }
            Self::RecordEvent { cluster, event } => {
                let Event {
                    kind, key, reason, ..
                } = event;
                write!(
                    f,
                    "record event {reason} of {kind} {key} in {}",
                    In(cluster)
                )
            }
            Self::Batch {
                cluster,
                operations,
            } => {
                let count = operations.len();
                write!(f, "batch of {count} in {}", In(cluster))?;
                first(f, operations.iter())
            }
            Self::Clusters { label_selector } => {
                f.write_str("list clusters")?;
                selected(f, &None, label_selector)
            }
            Self::Open { cluster } => write!(f, "open {}", In(cluster)),
            Self::Http(HttpRequest { method, url, .. }) => {
                let (url, _) = url.split_once('?').unwrap_or((url, ""));
                write!(f, "{method} {url}")
            }
            Self::FleetBatch { operations } => {
                let count = operations.len();
                write!(f, "batch of {count} over the fleet")?;
                first(f, operations.iter().map(|(_, operation)| operation))
            }
        }
    }
}

/// Most operations of a batch that are named.
const NAMED: usize = 3;

fn first<'a>(
    f: &mut fmt::Formatter<'_>,
    operations: impl ExactSizeIterator<Item = &'a Operation>,
) -> fmt::Result {
    let more = operations.len() > NAMED;
    for (index, operation) in operations.take(NAMED).enumerate() {
        f.write_str(if index == 0 { ": " } else { ", " })?;
        write!(f, "{operation}")?;
    }
    f.write_str(if more { ", …" } else { "" })
}

fn selected(
    f: &mut fmt::Formatter<'_>,
    namespace: &Option<String>,
    labels: &Option<String>,
) -> fmt::Result {
    if let Some(namespace) = namespace {
        write!(f, " of {namespace}")?;
    }
    if let Some(labels) = labels {
        write!(f, " with {labels}")?;
    }
    Ok(())
}

struct In<'a>(&'a str);

impl fmt::Display for In<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => f.write_str("the local cluster"),
            name => f.write_str(name),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get { kind, key, options } => {
                write!(f, "get {kind} {key}{}", Sub(&options.subresource))
            }
            Self::List { kind, options } => {
                write!(f, "list {kind}")?;
                selected(f, &options.namespace, &options.label_selector)
            }
            Self::Create {
                kind,
                object,
                options,
            } => write!(
                f,
                "create {kind} {}{}",
                named(object),
                Sub(&options.subresource)
            ),
            Self::Update {
                kind,
                object,
                options,
            } => write!(
                f,
                "update {kind} {}{}",
                named(object),
                Sub(&options.subresource)
            ),
            Self::Patch {
                kind, key, options, ..
            } => write!(f, "patch {kind} {key}{}", Sub(&options.subresource)),
            Self::Apply {
                kind,
                object,
                options,
            } => write!(
                f,
                "apply {kind} {}{}",
                named(object),
                Sub(&options.subresource)
            ),
            Self::Delete { kind, key, .. } => write!(f, "delete {kind} {key}"),
        }
    }
}

struct Sub<'a>(&'a Option<String>);

impl fmt::Display for Sub<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(subresource) => write!(f, "/{subresource}"),
            None => Ok(()),
        }
    }
}

/// The name of an object, from its text.
fn named(object: &Text) -> Key {
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        namespace: Option<String>,
        name: Option<String>,
        generate_name: Option<String>,
    }
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    let object: Option<Object> = serde_json::from_str(object.as_str()).ok();
    let metadata = object.map(|object| object.metadata).unwrap_or_default();
    let generated = metadata.generate_name.map(|prefix| format!("{prefix}…"));
    Key {
        namespace: metadata.namespace,
        name: metadata.name.or(generated).unwrap_or("?".to_owned()),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
