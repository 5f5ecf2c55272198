//! The CustomResourceDefinitions in a project's manifests: how they differ from what its types describe, and which files of types are stale.
//! Entry points: [`Manifest::all`], [`write()`], [`differences()`] and [`stale()`].

mod differences;
mod manifests;
mod stale;
mod walk;

pub(crate) use differences::{Difference, differences};
pub(crate) use manifests::{Manifest, write};
pub(crate) use stale::{Stale, stale};

use serde_json::Value as Json;

/// The name of an object.
pub(crate) fn name(object: &Json) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
