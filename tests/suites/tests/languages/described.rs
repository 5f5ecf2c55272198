//! That a component describes itself as the native reconciler does, and refuses what it refuses. Entry point:
//! [`as_the_native_one`].

use crate::book::Book;
use crate::components::sandbox;
use crate::subject::{Component, Subject, parts};
use anyhow::{Context, Result};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_sandbox::Guest;

/// Longest call.
const TIME: Duration = Duration::from_secs(20);

pub(crate) async fn as_the_native_one(component: &Component) -> Result<()> {
    let language = component.name;
    let inspection = component.revision.inspect(sandbox(), "{}", &[]).await?;
    assert_eq!(
        inspection.world,
        "windlass:runtime/http-mapped-fleet-reconcile@0.1.0"
    );
    assert_eq!(inspection.title, "walks through the contract");

    let book = Arc::new(Book::default());
    let native = parts(&Subject::Native, &book, Arc::default(), TIME).await?;
    let guest = Subject::Guest(component.clone());
    let guest = parts(&guest, &book, Arc::default(), TIME).await?;
    assert_eq!(guest.primary, native.primary, "{language}");
    assert_eq!(guest.indexes, native.indexes, "{language}");
    assert_eq!(guest.watches.len(), native.watches.len(), "{language}");
    for (guest, native) in guest.watches.into_iter().zip(native.watches) {
        let (guest, native) = (comparable(guest), comparable(native));
        assert!(
            guest == native,
            "{language} watches {} otherwise",
            native.kind
        );
    }

    let refusing = Component {
        config: json!({"refuse": "told to \"refuse\""}),
        ..component.clone()
    };
    let options = refusing.options("of-refusing", TIME);
    let refused = Guest::new(sandbox(), options, refusing.revision).await;
    let refused = refused.err().context("a config that is to be refused")?;
    // An exception of JavaScript says where it was, too.
    let refused = refused.to_string();
    let (why, _) = refused
        .split_once(" at describe ")
        .unwrap_or((&refused, ""));
    assert_eq!(
        why, "the guest refuses to start: told to \"refuse\"",
        "{language}"
    );

    for (part, place) in [
        ("description", "the description"),
        ("watch", "watch 6 (v1/Service)"),
        ("index", "index \"service\" of v1/ConfigMap"),
    ] {
        let later = Component {
            config: json!({"later": part}),
            ..component.clone()
        };
        let options = later.options("of-later", TIME);
        let refused = Guest::new(sandbox(), options, later.revision).await;
        let refused = refused.err().context("an option that no host knows")?;
        let refused = refused.to_string();
        assert!(
            refused.contains(place) && refused.contains("later"),
            "{language}: {refused}"
        );
    }
    Ok(())
}

/// A watch whose mapper, which each has for itself, is left out.
fn comparable(mut watch: Watch) -> Watch {
    if let Enqueue::Mapped(_) = watch.enqueue {
        watch.enqueue = Enqueue::ByIndex("mapped by code".to_owned());
    }
    watch
}
