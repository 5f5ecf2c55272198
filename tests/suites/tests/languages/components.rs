//! The reconciler's components, a language each. Entry point: [`load`].

use anyhow::Result;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;
use windlass_harness::guests;
use windlass_sandbox::{CacheOptions, Options, Revision, Sandbox};

/// The engine of all tests of this process. It need not compile what `guests/<language>/build` has compiled: a language that brings its
/// runtime along takes a minute in a build without optimisation.
pub(crate) fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let options = Options {
            instances: 32,
            describe_timeout: Duration::from_secs(5),
            cache: Some(CacheOptions::new(guests::compiled())),
            ..Options::default()
        };
        Sandbox::new(options).expect("an engine")
    })
}

/// A language's component, loaded once.
pub(crate) async fn load(language: &'static str) -> Result<Revision> {
    static LOADED: Mutex<BTreeMap<&str, Revision>> = Mutex::new(BTreeMap::new());
    if let Some(revision) = LOADED.lock().get(language) {
        return Ok(revision.clone());
    }
    let revision = sandbox().load(guests::conformance(language)?).await?;
    LOADED.lock().insert(language, revision.clone());
    Ok(revision)
}
