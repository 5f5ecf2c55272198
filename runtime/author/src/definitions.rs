//! The CustomResourceDefinitions in a project's manifests: how they differ from what its types describe, and which files of types are stale.
//! Entry points: [`Manifest::all`], [`write()`], [`differences()`] and [`stale()`].

mod differences;
mod manifests;
mod stale;
mod walk;

pub use differences::{Difference, differences};
pub use manifests::{Manifest, write};
pub use stale::{Stale, stale};

use serde_json::Value as Json;

/// The name of an object.
pub fn name(object: &Json) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
