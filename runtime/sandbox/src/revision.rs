//! One component: compiled, linked and checked against the contract. Entry point: [`Sandbox::load`].

mod error;
mod link;

pub use error::LoadError;

use crate::engine::Sandbox;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmtime::component::Component;

/// What a component is called by everywhere: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The first 12 hexadecimal digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.0[..6]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Where a component comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Bytes, with a name for messages.
    Bytes {
        /// For messages.
        name: String,
        /// The component.
        bytes: Vec<u8>,
    },
}

impl From<PathBuf> for Source {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for Source {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

/// A component that this host can run. Cheap to clone; several guests may share one and share no state by it.
#[derive(Clone)]
pub struct Revision {
    inner: Arc<Inner>,
}

struct Inner {
    digest: Digest,
    /// Bytes of the component.
    size: usize,
    component: Component,
    /// Sorted.
    imports: Vec<String>,
    /// Sorted.
    exports: Vec<String>,
    /// Functions of the resource `cluster` that are imported: `get`, `apply`, …
    functions: Vec<String>,
}

impl Sandbox {
    /// Reads a component, compiles it and checks that it fits the contract. Nothing of it runs. Compiling takes up to a tenth of a
    /// second for a Rust guest and seconds for a language that brings its engine; it happens off the caller's thread. Call it on a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`LoadError`] names the component, what is wrong and what to do.
    ///
    /// # Cancellation
    /// Dropping the future abandons the result; a compilation that has begun runs to its end.
    pub async fn load(&self, source: impl Into<Source>) -> Result<Revision, LoadError> {
        let (source, sandbox) = (source.into(), self.clone());
        let compile = tokio::task::spawn_blocking(move || sandbox.load_blocking(source));
        match compile.await {
            Ok(revision) => revision,
            Err(error) => Err(LoadError::Host {
                problem: error.to_string(),
            }),
        }
    }

    /// As [`Self::load`], on the caller's thread.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_blocking(&self, source: impl Into<Source>) -> Result<Revision, LoadError> {
        let (name, bytes) = read(source.into(), self.options().max_component)?;
        link::check_envelope(&name, &bytes)?;
        let component = Component::from_binary(self.engine(), &bytes)
            .map_err(|error| link::not_compiled(&name, &error))?;
        let (imports, exports) = link::names(self.engine(), &component);
        link::check_names(&name, &imports, &exports)?;
        link::check_types(&name, self, &component)?;
        let functions = link::cluster_functions(self.engine(), &component);
        let inner = Inner {
            digest: Digest::of(&bytes),
            size: bytes.len(),
            component,
            imports,
            exports,
            functions,
        };
        Ok(Revision {
            inner: Arc::new(inner),
        })
    }
}

impl Revision {
    /// Its digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.inner.digest
    }

    /// Bytes of the component.
    #[must_use]
    pub fn size(&self) -> usize {
        self.inner.size
    }

    /// Whether it calls other clusters.
    #[must_use]
    pub fn uses_fleet(&self) -> bool {
        self.inner
            .imports
            .iter()
            .any(|import| link::is_interface(import, "fleet"))
    }

    /// Whether it maps events with code of its own.
    #[must_use]
    pub fn has_mapper(&self) -> bool {
        self.inner
            .exports
            .iter()
            .any(|export| link::is_interface(export, "mapper"))
    }

    /// The smallest world of the contract that it fits, for example `windlass:runtime/reconcile@0.1.0`.
    #[must_use]
    pub fn world(&self) -> String {
        let world = match (self.has_mapper(), self.uses_fleet()) {
            (false, false) => "reconcile",
            (false, true) => "fleet-reconcile",
            (true, false) => "mapped-reconcile",
            (true, true) => "mapped-fleet-reconcile",
        };
        let reconciler = self
            .inner
            .exports
            .iter()
            .find(|export| link::is_interface(export, "reconciler"));
        let version = reconciler
            .and_then(|export| export.split_once('@'))
            .map_or("", |(_, version)| version);
        format!("windlass:runtime/{world}@{version}")
    }

    /// Interfaces that it imports, sorted.
    pub(crate) fn imports(&self) -> &[String] {
        &self.inner.imports
    }

    /// Interfaces that it exports, sorted.
    pub(crate) fn exports(&self) -> &[String] {
        &self.inner.exports
    }

    /// Functions of the resource `cluster` that it imports: `get`, `apply`, …
    pub(crate) fn functions(&self) -> &[String] {
        &self.inner.functions
    }

    pub(crate) fn component(&self) -> &Component {
        &self.inner.component
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revision")
            .field("digest", &self.inner.digest)
            .finish_non_exhaustive()
    }
}

fn read(source: Source, most: usize) -> Result<(String, Vec<u8>), LoadError> {
    let (name, bytes) = match source {
        Source::Bytes { name, bytes } => (name, bytes),
        Source::File(path) => {
            let name = path.display().to_string();
            let size = std::fs::metadata(&path)
                .map_err(|source| LoadError::Read {
                    name: name.clone(),
                    source,
                })?
                .len();
            if size > most as u64 {
                return Err(LoadError::TooLarge { name, size, most });
            }
            let bytes = std::fs::read(&path).map_err(|source| LoadError::Read {
                name: name.clone(),
                source,
            })?;
            (name, bytes)
        }
    };
    if bytes.len() > most {
        return Err(LoadError::TooLarge {
            name,
            size: bytes.len() as u64,
            most,
        });
    }
    Ok((name, bytes))
}
