//! A component that is compiled, and checked against the contract. Entry point: [`Sandbox::load`].

mod error;
mod link;

pub use error::LoadError;

use crate::component::compiler::{self, CompileError, Compiled};
use crate::component::section;
use crate::engine::Sandbox;
use crate::native::NativeGuest;
use crate::options::Compiler;
use bytes::Bytes;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmtime::component::Component;
use windlass_fleet::Digest;
use windlass_fleet::TenantName;
use windlass_fleet::file::{self, FileError};

/// Bytes of a page of a guest's memory.
const PAGE: u64 = 64 << 10;

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

/// A component that this host can run. Cheap to clone. Guests may share one; they share no state by it.
#[derive(Clone)]
pub struct Revision {
    inner: Arc<Inner>,
}

struct Inner {
    digest: Digest,
    /// Bytes of the component.
    size: usize,
    /// How long it took to compile. `None`: it was in the cache.
    compiling: Option<Duration>,
    body: Body,
    /// The JSON Schema of its config, if it carries one.
    config_schema: Option<String>,
    /// Sorted.
    imports: Vec<String>,
    /// Sorted.
    exports: Vec<String>,
    /// Functions of the resource `cluster` that are imported: `get`, `apply`, …
    functions: Vec<String>,
}

/// The code of a revision.
pub(crate) enum Body {
    Component(Component),
    Native(NativeGuest),
}

impl Sandbox {
    /// As [`Self::load_for`], for the default tenant.
    ///
    /// # Errors
    /// As [`Self::load_for`].
    pub async fn load(&self, source: impl Into<Source>) -> Result<Revision, LoadError> {
        self.load_for(&TenantName::default(), source, |_| None)
            .await
    }

    /// Reads a component, compiles it unless the cache has it, and checks that it fits the contract. Nothing of it runs. Compiling takes
    /// up to a tenth of a second for a Rust guest, and seconds for a language with an engine of its own. It happens off the calling
    /// thread, two components at a time, of different tenants. While it waits for its permit, a component from a file is not in memory.
    /// With its permit it first asks `loaded` for a revision that another load has made meanwhile. Call it on a tokio runtime.
    ///
    /// # Errors
    /// [`LoadError`] names the component, the problem and the next step.
    ///
    /// # Cancellation
    /// Dropping the future abandons the result, and kills the compiler's process.
    pub async fn load_for(
        &self,
        tenant: &TenantName,
        source: impl Into<Source>,
        loaded: impl Fn(Digest) -> Option<Revision>,
    ) -> Result<Revision, LoadError> {
        let (mut source, most) = (source.into(), self.options().max_component);
        let functions = self.functions_of(&source);
        let held = match &mut source {
            Source::File(_) => None,
            Source::Bytes { bytes, .. } => Some(Bytes::from(std::mem::take(bytes))),
        };
        let read = move || {
            let (name, bytes) = read(&source, held.clone(), most)?;
            let digest = Digest::of(&bytes);
            Ok((name, bytes, digest))
        };
        let natives = self.natives().clone();
        let (name, size, digest, config_schema) = {
            let (read, natives) = (read.clone(), natives.clone());
            off_thread(move || {
                let (name, bytes, digest) = read()?;
                if natives.get(digest).is_some() {
                    return Ok((name, 0, digest, None));
                }
                link::check_envelope(&name, &bytes)?;
                let schema = section::config_schema(&bytes).map_err(|problem| {
                    let name = name.clone();
                    LoadError::ConfigSchema { name, problem }
                })?;
                Ok((name, bytes.len(), digest, schema))
            })
            .await?
        };
        if let Some(native) = natives.get(digest) {
            return Ok(Revision::native(native, digest));
        }
        let (component, compiling) = match self.cached(digest).await {
            Some(component) => (component, None),
            None => {
                let _permit = self.compile_permit(tenant).await;
                // Another load of the same component may have been faster.
                if let Some(revision) = loaded(digest) {
                    return Ok(revision);
                }
                match self.cached(digest).await {
                    Some(component) => (component, None),
                    None => {
                        let (name, bytes, now) = off_thread(read).await?;
                        if now != digest {
                            let problem = format!("{name} has changed while it was loaded");
                            return Err(LoadError::Host { problem });
                        }
                        self.compiled(&name, digest, bytes, functions).await?
                    }
                }
            }
        };
        let sandbox = self.clone();
        off_thread(move || {
            let revision = sandbox.check(&name, digest, size, component)?;
            Ok(Inner {
                compiling,
                config_schema,
                ..revision
            })
        })
        .await
        .map(|inner| Revision {
            inner: Arc::new(inner),
        })
    }

    /// The component, if the cache has it.
    async fn cached(&self, digest: Digest) -> Option<Component> {
        self.cache()?;
        let sandbox = self.clone();
        let taken = off_thread(move || {
            let code = sandbox.cache().and_then(|cache| cache.get(&digest));
            Ok(code.and_then(|code| compiler::load(sandbox.engine(), &code).ok()))
        });
        taken.await.ok().flatten()
    }

    /// The name under which the cache keeps the functions of the last build of a file. `None`: none are kept.
    fn functions_of(&self, source: &Source) -> Option<Digest> {
        let (Source::File(path), Compiler::Process(process)) = (source, &self.options().compiler)
        else {
            return None;
        };
        let path = std::path::absolute(path).ok()?;
        let name = [b"functions of ", path.as_os_str().as_bytes()].concat();
        process.builds_often.then(|| Digest::of(&name))
    }

    async fn compiled(
        &self,
        name: &str,
        digest: Digest,
        bytes: Bytes,
        functions: Option<Digest>,
    ) -> Result<(Component, Option<Duration>), LoadError> {
        let start = Instant::now();
        let sandbox = self.clone();
        let before = off_thread(move || {
            let kept = functions.and_then(|name| sandbox.cache()?.get(&name));
            Ok(kept.unwrap_or_default())
        });
        let before = before.await?;
        let compile = |before| {
            let compiler = &self.options().compiler;
            compiler::run(compiler, self.engine(), bytes.clone(), before)
        };
        let has_any = !before.is_empty();
        let mut compiled = compile(before).await;
        if has_any && matches!(compiled, Err(CompileError::Crashed { .. })) {
            // The functions may be to blame, and would be each time.
            compiled = compile(Vec::new()).await;
        }
        let Compiled {
            code,
            functions: made,
        } = compiled.map_err(|error| not_compiled(name, error))?;
        let (sandbox, took, name) = (self.clone(), start.elapsed(), name.to_owned());
        off_thread(move || {
            let component = compiler::load(sandbox.engine(), &code);
            let component = component.map_err(|error| link::not_loaded(&name, &error))?;
            if let Some(cache) = sandbox.cache() {
                cache.put(&digest, &code);
                if let Some(name) = functions {
                    cache.put(&name, &made);
                }
            }
            Ok((component, Some(took)))
        })
        .await
    }

    /// The machine code of a component that is no guest. The functions that it shares with the guest in a file are compiled once.
    pub(crate) async fn component(
        &self,
        name: &str,
        bytes: Bytes,
        guest: &Path,
    ) -> Result<Component, LoadError> {
        let digest = Digest::of(&bytes);
        if let Some(component) = self.cached(digest).await {
            return Ok(component);
        }
        let _permit = self.compile_permit(&TenantName::default()).await;
        let functions = self.functions_of(&Source::from(guest));
        let compiled = self.compiled(name, digest, bytes, functions).await;
        compiled.map(|(component, _)| component)
    }

    /// The bytes of a file, if it is a component.
    pub(crate) async fn read_component(&self, path: &Path) -> Result<Bytes, LoadError> {
        let (source, most) = (Source::from(path), self.options().max_component);
        off_thread(move || {
            let (name, bytes) = read(&source, None, most)?;
            link::check_envelope(&name, &bytes)?;
            Ok(bytes)
        })
        .await
    }

    fn check(
        &self,
        name: &str,
        digest: Digest,
        size: usize,
        component: Component,
    ) -> Result<Inner, LoadError> {
        let (imports, exports) = link::names(self.engine(), &component);
        link::check_names(name, &imports, &exports)?;
        link::check_types(name, self, &component)?;
        let functions = link::cluster_functions(self.engine(), &component);
        Ok(Inner {
            digest,
            size,
            compiling: None,
            body: Body::Component(component),
            config_schema: None,
            imports,
            exports,
            functions,
        })
    }
}

/// Runs blocking work off the calling thread.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(LoadError::Host {
            problem: error.to_string(),
        }),
    }
}

fn not_compiled(name: &str, error: CompileError) -> LoadError {
    match error {
        CompileError::Refused(problem) => link::not_compiled(name, &problem),
        CompileError::Start { program, source } => LoadError::Host {
            problem: format!(
                "the compiler {} cannot be used: {source}",
                program.display()
            ),
        },
        CompileError::Starved(_) => LoadError::Host {
            problem: format!("{name} is not compiled: {error}"),
        },
        CompileError::Memory(_)
        | CompileError::Time(_)
        | CompileError::Code(_)
        | CompileError::Crashed { .. } => LoadError::NotCompiled {
            name: name.to_owned(),
            problem: error.to_string(),
        },
    }
}

impl Revision {
    /// The process of a guest, with the digest of what stands in the place of a component.
    fn native(guest: NativeGuest, digest: Digest) -> Self {
        let interface = |interface: &str| format!("windlass:runtime/{interface}@0.1.0");
        Self {
            inner: Arc::new(Inner {
                digest,
                size: 0,
                compiling: None,
                body: Body::Native(guest),
                config_schema: None,
                imports: ["client", "clock", "config", "fleet", "http", "log"]
                    .map(interface)
                    .into(),
                exports: ["mapper", "reconciler"].map(interface).into(),
                functions: Vec::new(),
            }),
        }
    }

    /// Whether it is a process of its own, whose calls take as long as they take.
    #[must_use]
    pub fn is_native(&self) -> bool {
        matches!(self.inner.body, Body::Native(_))
    }

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

    /// The JSON Schema of its config, if it carries one: a stranger's text that nothing has checked.
    #[must_use]
    pub fn config_schema(&self) -> Option<&str> {
        self.inner.config_schema.as_deref()
    }

    /// How long it took to compile. `None`: it was in the cache.
    pub(crate) fn compiling(&self) -> Option<Duration> {
        self.inner.compiling
    }

    /// Initial memory of an instance, in bytes. Zero if it is unknown.
    pub(crate) fn least_memory(&self) -> usize {
        let Body::Component(component) = &self.inner.body else {
            return 0;
        };
        let Some(needs) = component.resources_required() else {
            return 0;
        };
        let pages = needs.max_initial_memory_size.unwrap_or(0);
        let bytes = pages.saturating_mul(PAGE * u64::from(needs.num_memories));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Whether it calls other clusters.
    #[must_use]
    pub fn uses_fleet(&self) -> bool {
        self.imports_interface("fleet")
    }

    /// Whether it calls servers that are no API servers.
    #[must_use]
    pub fn uses_http(&self) -> bool {
        self.imports_interface("http")
    }

    fn imports_interface(&self, name: &str) -> bool {
        let mut imports = self.inner.imports.iter();
        imports.any(|import| link::is_interface(import, name))
    }

    /// Whether it exports a mapper.
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
        let http = if self.uses_http() { "http-" } else { "" };
        let reconciler = self
            .inner
            .exports
            .iter()
            .find(|export| link::is_interface(export, "reconciler"));
        let version = reconciler
            .and_then(|export| export.split_once('@'))
            .map_or("", |(_, version)| version);
        format!("windlass:runtime/{http}{world}@{version}")
    }

    /// Interfaces that it imports, sorted.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.inner.imports
    }

    /// Interfaces that it exports, sorted.
    #[must_use]
    pub fn exports(&self) -> &[String] {
        &self.inner.exports
    }

    /// Functions of the resource `cluster` that it imports: `get`, `apply`, …
    pub(crate) fn functions(&self) -> &[String] {
        &self.inner.functions
    }

    pub(crate) fn body(&self) -> &Body {
        &self.inner.body
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revision")
            .field("digest", &self.inner.digest)
            .finish_non_exhaustive()
    }
}

/// The name and the bytes of a component. Bytes that do not come from a file are `held`.
fn read(source: &Source, held: Option<Bytes>, most: usize) -> Result<(String, Bytes), LoadError> {
    let (name, bytes) = match (source, held) {
        (Source::Bytes { name, bytes }, held) => {
            let bytes = held.unwrap_or_else(|| Bytes::copy_from_slice(bytes));
            (name.clone(), bytes)
        }
        (Source::File(path), _) => {
            let name = path.display().to_string();
            match file::read(path, most as u64) {
                Ok(bytes) => (name, Bytes::from(bytes)),
                Err(FileError::TooLarge { size, .. }) => {
                    return Err(LoadError::TooLarge { name, size, most });
                }
                Err(source) => return Err(LoadError::Read { name, source }),
            }
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
