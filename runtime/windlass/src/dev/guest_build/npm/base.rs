//! Makes a guest in JavaScript of a base, which is QuickJS without the guest's module. Entry point: [`Base::make`].
//!
//! componentize-qjs compiles QuickJS each time that it makes a component, which takes more than a second. So it makes the base, once, and
//! the base takes the guest's module in a call: see [`Sandbox::snapshot`]. A module that cannot be a function, because it awaits something
//! for instance, is left to componentize-qjs.

use super::Componentizer;
use super::bundle::Bundler;
use crate::dev::guest_build::settings::World;
use crate::dev::guest_build::{BuildError, built_path, io_error};
use std::path::{Path, PathBuf};
use windlass_sandbox::Sandbox;

/// The module of the base.
const TEXT: &str = include_str!("base.js");

/// What it has besides in a world with other clusters.
const FLEET: &str = "
import * as fleet from 'windlass:runtime/fleet@0.1.0';
hosts['windlass:runtime/fleet@0.1.0'] = fleet;
";

/// What it has besides in a world with a mapper.
const MAPPER: &str = "
export const mapper = {
  mapObjects: (cluster, kind, objects) => guest.mapper.mapObjects(cluster, kind, objects),
};
";

/// A base, and the guest that is to be made of it.
pub(super) struct Base<'a> {
    pub(super) bundler: &'a Bundler<'a>,
    pub(super) componentizer: &'a Componentizer<'a>,
}

impl Base<'_> {
    /// Makes the base unless it is there, and of it the guest with this module. None: the guest cannot be made of it.
    pub(super) async fn make(
        &self,
        sandbox: &Sandbox,
        module: &Path,
    ) -> Result<Option<PathBuf>, BuildError> {
        let (base, function) = tokio::join!(self.component(), self.bundler.function(module));
        let (base, Some(function)) = (base?, function?) else {
            return Ok(None);
        };
        let guest = built_path(self.bundler.guest);
        match sandbox.snapshot(&base, &guest, &function).await {
            Ok(bytes) => {
                let made = self.bundler.work.join("javascript-base/guest.wasm");
                std::fs::write(&made, bytes).map_err(io_error(&made))?;
                Ok(Some(made))
            }
            Err(error) => {
                tracing::debug!(%error, "componentize-qjs makes the component: the base cannot");
                Ok(None)
            }
        }
    }

    /// The component of the base, which is made unless it is there.
    async fn component(&self) -> Result<PathBuf, BuildError> {
        let folder = self.bundler.work.join("javascript-base");
        std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
        let (module, component) = (folder.join("base.js"), folder.join("base.wasm"));
        let text = text(self.componentizer.world);
        let inputs = self.componentizer.inputs(&[&text])?;
        if !inputs.made(&component) {
            std::fs::write(&module, text).map_err(io_error(&module))?;
            self.componentizer.tool(&module, &component).run().await?;
            inputs.note(&component)?;
        }
        Ok(component)
    }
}

/// The module of the base for a world.
fn text(world: World) -> String {
    let fleet = if world.has_fleet() { FLEET } else { "" };
    let mapper = if world.has_mapper() { MAPPER } else { "" };
    [TEXT, fleet, mapper].concat()
}
