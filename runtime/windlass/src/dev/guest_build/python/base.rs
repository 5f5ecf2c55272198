//! Makes a guest in Python of a base, which has all but the guest's own modules. Entry point: [`Base::make`].
//!
//! componentize-py compiles Python each time that it makes a component, which takes seconds. So it makes the base, once, and the base takes
//! the guest's modules in a call: see [`Sandbox::snapshot`]. A guest whose modules do more than this call can, such as to read files while
//! they are imported, is made by componentize-py.

use super::{EXPORTS, MODULES, OUTSIDE, PACKAGE, site_packages};
use crate::dev::guest_build::inputs::Inputs;
use crate::dev::guest_build::source::Source;
use crate::dev::guest_build::tool::Tool;
use crate::dev::guest_build::{BuildError, built_path, io_error};
use crate::watch::is_left_by_tools;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use windlass_sandbox::{Sandbox, SnapshotError};

/// The module of the base.
const TEXT: &str = include_str!("windlass_exports.py");

/// What it has besides in a world with a mapper.
const MAPPER: &str = "\n\nclass Mapper:\n    \"\"\"The export `mapper`.\"\"\"\n\n    \
     def map_objects(self, cluster, kind, objects):\n        _begin()\n        \
     return _taken[1]().map_objects(cluster, kind, objects)\n";

/// Most bytes of the guest's modules together, most folders within each other, and most modules that the base is told to import.
const LARGEST: usize = 4 << 20;
const DEEPEST: usize = 16;
const MOST_NAMES: usize = 200;

/// A base, and the guest that is to be made of it.
pub(super) struct Base<'a> {
    pub(super) source: &'a Source,
    /// The folder for files of builds.
    pub(super) work: &'a Path,
    pub(super) wit: &'a Path,
    /// The environment of its packages.
    pub(super) packages: &'a Path,
    pub(super) entry: &'a str,
    pub(super) has_mapper: bool,
}

/// What became of it.
enum Made {
    /// The guest is in this file.
    Guest(PathBuf),
    /// The base lacks this module, or the guest names one that is not there.
    Lacks(String),
    /// Not in this way.
    Not,
}

impl Base<'_> {
    /// Makes the base unless it is there, and of it the guest. None: the guest cannot be made of it. `tool` is componentize-py without what
    /// it is to build.
    pub(super) async fn make(
        &self,
        sandbox: &Sandbox,
        tool: impl Fn() -> Tool,
    ) -> Result<Option<PathBuf>, BuildError> {
        let Some(modules) = self.modules()? else {
            return Ok(None);
        };
        let mut names = self.names();
        let name = match self.attempt(sandbox, tool(), &modules, &names).await? {
            Made::Guest(path) => return Ok(Some(path)),
            Made::Lacks(name) if !names.contains(&name) && names.len() < MOST_NAMES => name,
            _ => return Ok(None),
        };
        // A new import: a base that has it too.
        names.push(name);
        match self.attempt(sandbox, tool(), &modules, &names).await? {
            Made::Guest(path) => {
                let known = self.folder().join("names");
                std::fs::write(&known, names.join("\n")).map_err(io_error(&known))?;
                Ok(Some(path))
            }
            _ => Ok(None),
        }
    }

    /// The same with a base that imports these modules, whether or not the guest's first modules do.
    async fn attempt(
        &self,
        sandbox: &Sandbox,
        tool: Tool,
        modules: &BTreeMap<String, String>,
        names: &[String],
    ) -> Result<Made, BuildError> {
        if !self.is_there(modules, names, tool).await? {
            return Ok(Made::Not);
        }
        let program = json!({"entry": self.entry, "mapper": self.has_mapper, "modules": modules});
        let (base, guest) = (self.component(), built_path(&self.source.guest));
        let taken = sandbox.snapshot(&base, &guest, &program.to_string()).await;
        let bytes = match taken {
            Ok(bytes) => bytes,
            Err(SnapshotError::Refused(name)) if !name.is_empty() => return Ok(Made::Lacks(name)),
            Err(error) => {
                tracing::debug!(%error, "componentize-py makes the component: no base can");
                return Ok(Made::Not);
            }
        };
        let made = self.folder().join("guest.wasm");
        std::fs::write(&made, bytes).map_err(io_error(&made))?;
        Ok(Made::Guest(made))
    }

    /// The modules that earlier bases lacked.
    fn names(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder().join("names"));
        text.unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn folder(&self) -> PathBuf {
        self.work.join("python-base")
    }

    fn component(&self) -> PathBuf {
        self.folder().join("base.wasm")
    }

    /// Makes the base unless it is there. Returns whether it is there.
    async fn is_there(
        &self,
        modules: &BTreeMap<String, String>,
        names: &[String],
        tool: Tool,
    ) -> Result<bool, BuildError> {
        let exports = self.folder().join("exports");
        std::fs::create_dir_all(&exports).map_err(io_error(&exports))?;
        let write = |name: &str, text: String| {
            let path = exports.join(name).with_extension("py");
            std::fs::write(&path, text)
                .map_err(io_error(&path))
                .map(|()| path)
        };
        let more = if self.has_mapper { MAPPER } else { "" };
        let text = write(EXPORTS, format!("{TEXT}{more}"))?;
        let sdk = Some(self.source.package.join(MODULES[1])).filter(|sdk| sdk.is_dir());
        let words = [
            &[PACKAGE.1][..],
            &names.iter().map(String::as_str).collect::<Vec<_>>(),
        ]
        .concat();
        let mut inputs = Inputs::new(&words).path(&text)?.path(self.wit)?;
        let packages = site_packages(self.packages)?;
        // Packages elsewhere, which change unseen.
        if packages.iter().any(|folder| has_links_to_packages(folder)) {
            return Ok(false);
        }
        for folder in sdk.iter().chain(&packages) {
            inputs = inputs.path(folder)?;
        }
        if inputs.made(&self.component()) {
            return Ok(true);
        }
        // JSON of texts is Python.
        let given = format!("TEXTS = {}\nNAMES = {}\n", json!(modules), json!(names));
        write("windlass_modules", given)?;
        let mut tool = tool.arg("--python-path").arg(&exports);
        if let Some(sdk) = &sdk {
            tool = tool.arg("--python-path").arg(sdk);
        }
        let made = tool
            .arg(EXPORTS)
            .arg("--output")
            .arg(self.component())
            .ask();
        let is_there = made.await?.is_some();
        if is_there {
            inputs.note(&self.component())?;
        }
        Ok(is_there)
    }

    /// The texts of the guest's modules, by their paths in the folders of modules. `None`: there are too many, or one is no text.
    fn modules(&self) -> Result<Option<BTreeMap<String, String>>, BuildError> {
        let (guest, package) = (&self.source.guest, &self.source.package);
        let mut texts = Texts::default();
        let shared = Some(package).filter(|_| self.source.is_part());
        // The first folder that has a module counts, as for Python.
        for folder in [guest].into_iter().chain(shared) {
            texts.read(folder, "", 0)?;
        }
        texts.read(&package.join(MODULES[0]), "", 0)?;
        Ok(Some(texts.by_path).filter(|_| !texts.is_refused))
    }
}

/// Whether an environment has packages that are elsewhere, as of `pip install --editable`.
fn has_links_to_packages(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.any(|path| path.extension().is_some_and(|extension| extension == "pth"))
}

#[derive(Default)]
struct Texts {
    by_path: BTreeMap<String, String>,
    bytes: usize,
    is_refused: bool,
}

impl Texts {
    /// Reads the modules of a folder. `prefix` is its path in the folder of modules, with a slash behind it.
    fn read(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), BuildError> {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Ok(());
        };
        self.is_refused |= depth > DEEPEST;
        for entry in entries {
            if self.is_refused {
                return Ok(());
            }
            let path = entry.map_err(io_error(folder))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let is_outside = prefix.is_empty() && (OUTSIDE.contains(&name) || name == MODULES[1]);
            if is_outside || is_left_by_tools(&path) || path.join("pyvenv.cfg").is_file() {
                continue;
            }
            if path.is_dir() {
                self.read(&path, &format!("{prefix}{name}/"), depth + 1)?;
            } else if path.extension().is_some_and(|extension| extension == "py") {
                self.add(format!("{prefix}{name}"), &path);
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, path: &Path) {
        let size = std::fs::metadata(path).map_or(LARGEST, |file| file.len() as usize);
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > LARGEST {
            self.is_refused = true;
            return;
        }
        match std::fs::read_to_string(path) {
            Ok(text) => _ = self.by_path.entry(name).or_insert(text),
            Err(_) => self.is_refused = true,
        }
    }
}
