//! Passes values to the host that exceed a limit; its config says which. Entry point: [`Huge`].

use serde::Deserialize;
use windlass_sdk::prelude::*;
use windlass_sdk::{
    Event, EventType, GetOptions, GroupVersionKind, Operation, PatchType, WriteOptions,
};

/// The value that is too large.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Title,
    Watches,
    Refusal,
    LogLine,
    LogField,
    Object,
    Patch,
    Name,
    Kind,
    Selector,
    Batch,
    Event,
    Failure,
}

/// The configuration.
#[derive(Deserialize)]
struct Config {
    what: What,
    /// Bytes, watches or operations.
    size: usize,
}

/// The guest.
struct Huge;
windlass_sdk::guest!(Huge);

impl Reconciler for Huge {
    fn describe() -> Result<Description> {
        let Config { what, size } = config()?;
        let description = Description::new("hands the host too much").primary_watch(watch());
        Ok(match what {
            What::Title => Description::new("x".repeat(size)).primary_watch(watch()),
            What::Watches => (1..size).fold(description, |all, _| all.watch(watch())),
            What::Refusal => return Err(Error::terminal("x".repeat(size))),
            _ => description,
        })
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Config { what, size } = config()?;
        let (kind, key, cluster) = (maps(), &request.key, cluster.raw());
        if let What::Batch = what {
            let read = Operation::Get((kind, key.clone(), GetOptions::default()));
            let replies = cluster.batch(&vec![read; size]);
            let refused = replies.into_iter().find_map(std::result::Result::err);
            return refused.map_or(Ok(Action::Done), |error| Err(error.into()));
        }
        let huge = "x".repeat(size);
        match what {
            What::LogLine => info!(&huge),
            What::LogField => info!("a huge field", field = huge),
            What::Object => drop(cluster.create(&kind, &huge, &WriteOptions::default())?),
            What::Patch => {
                let options = WriteOptions::default();
                drop(cluster.patch(&kind, key, PatchType::Merge, &huge, &options)?);
            }
            What::Name => drop(cluster.get(&kind, &key.sibling(huge), &GetOptions::default())?),
            What::Kind => {
                let kind = GroupVersionKind::new("v1", &huge);
                drop(cluster.get(&kind, key, &GetOptions::default())?);
            }
            What::Selector => {
                let selected = ListOptions {
                    label_selector: Some(huge),
                    ..ListOptions::default()
                };
                drop(cluster.list(&kind, &selected)?);
            }
            What::Event => cluster.record_event(&Event {
                kind,
                key: key.clone(),
                event_type: EventType::Normal,
                reason: "Huge".to_owned(),
                action: "Tell".to_owned(),
                note: huge,
            }),
            _ => return Err(Error::retry(huge)),
        }
        Ok(Action::Done)
    }
}

fn maps() -> GroupVersionKind {
    GroupVersionKind::new("v1", "ConfigMap")
}

fn watch() -> Watch {
    Watch::of(maps()).labels("test.windlass.dev/run")
}
