//! Makes a guest in JavaScript of a base, which is QuickJS without the guest's module. Entry point: [`Base::make`].
//!
//! componentize-qjs compiles QuickJS each time that it makes a component, which takes more than a second. So it makes the base, once, and
//! the base takes the guest's module in a call: see [`Bases::snapshot`]. A module that cannot be a function, because it awaits something
//! for instance, is left to componentize-qjs, and so is one that calls the host while it is loaded.

use super::bundle::Bundler;
use super::{Componentizer, RECIPE};
use crate::guest_build::settings::World;
use crate::guest_build::{Bases, BuildError, NotTaken, bases, io_error};
use std::path::{Path, PathBuf};
use windlass_files::built_path;

/// The module of the base.
const TEXT: &str = include_str!("base.js");

/// What it has besides in a world with other clusters.
const FLEET: &str = "
import * as fleet from 'windlass:runtime/fleet@0.1.0';
hosts['windlass:runtime/fleet@0.1.0'] = fleet;
";

/// What it has besides in a world with calls of servers that are no API servers.
const HTTP: &str = "
import * as http from 'windlass:runtime/http@0.1.0';
hosts['windlass:runtime/http@0.1.0'] = http;
";

/// What it has besides in a world with a mapper.
const MAPPER: &str = "
export { mapper };
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
        sandbox: &dyn Bases,
        module: &Path,
    ) -> Result<Option<PathBuf>, BuildError> {
        let Some(function) = self.bundler.function(module).await? else {
            return Ok(None);
        };
        if !self.is_there().await? {
            return Ok(None);
        }
        let (base, guest) = (
            bases::component(&self.folder()),
            built_path(self.bundler.guest),
        );
        let error = match sandbox.snapshot(&base, &guest, &function).await {
            Ok(bytes) => {
                let made = self.folder().join("guest.wasm");
                std::fs::write(&made, bytes).map_err(io_error(&made))?;
                return Ok(Some(made));
            }
            Err(error) => error,
        };
        let guest = self.bundler.guest.display();
        match error {
            NotTaken::Refused(_) => {
                tracing::debug!(%guest, %error, "the base does not take the guest: it is built as a whole");
            }
            error => {
                tracing::info!(%guest, %error, "the guest is not made of its base: it is built as a whole");
            }
        }
        Ok(None)
    }

    fn folder(&self) -> PathBuf {
        self.bundler.work.join("javascript-base")
    }

    /// Makes the base unless it is there. Returns whether it is there.
    async fn is_there(&self) -> Result<bool, BuildError> {
        let folder = self.folder();
        std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
        let (module, text) = (folder.join("base.js"), text(self.componentizer.world));
        let inputs = self.componentizer.inputs(&[&text, RECIPE[0]])?;
        let tool = || {
            std::fs::write(&module, &text).map_err(io_error(&module))?;
            Ok(self.componentizer.tool(&module, &bases::component(&folder)))
        };
        bases::make_once(&inputs, &folder, self.bundler.guest, tool).await
    }
}

/// The module of the base for a world.
fn text(world: World) -> String {
    let fleet = if world.fleet { FLEET } else { "" };
    let mapper = if world.mapper { MAPPER } else { "" };
    let http = if world.http { HTTP } else { "" };
    [TEXT, fleet, http, mapper].concat()
}
