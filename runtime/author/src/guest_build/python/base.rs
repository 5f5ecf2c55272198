//! Makes a guest in Python of a base, which has all but the guest's own modules. Entry point: [`Base::make`].
//!
//! componentize-py compiles Python each time that it makes a component, which takes seconds. So it makes the base, once, and the base takes
//! the guest's modules in a call: see [`Bases::snapshot`]. A guest whose modules do more than this call can, such as to read files while
//! they are imported, is made by componentize-py.

use super::parts::has_links_to_packages;
use super::{EXPORTS, MODULES, OUTSIDE, PACKAGE, site_packages};
use crate::guest_build::inputs::Inputs;
use crate::guest_build::settings::World;
use crate::guest_build::source::Source;
use crate::guest_build::tool::Tool;
use crate::guest_build::{Bases, BuildError, NotTaken, bases, io_error};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use windlass_files::{built_path, is_left_by_tools};

/// The module of the base.
const TEXT: &str = include_str!("windlass_exports.py");

/// What it has besides in a world with a mapper.
const MAPPER: &str = "\n\nclass Mapper:\n    \"\"\"The export `mapper`.\"\"\"\n\n    \
     def map_objects(self, cluster, kind, objects):\n        _begin()\n        \
     return _taken[1]().map_objects(cluster, kind, objects)\n";

/// Most bytes of the guest's modules together.
const LARGEST: usize = 4 << 20;
/// Most folders within each other.
const DEEPEST: usize = 16;
/// Most names of modules that a base imports beside those that the guest's modules name.
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
    pub(super) world: World,
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
        sandbox: &dyn Bases,
        tool: impl Fn() -> Tool,
    ) -> Result<Option<PathBuf>, BuildError> {
        let Some(folders) = self.modules()? else {
            return Ok(None);
        };
        let mut names = self.names();
        let name = match self.attempt(sandbox, tool(), &folders, &names).await? {
            Made::Guest(path) => return Ok(Some(path)),
            Made::Lacks(name) if !names.contains(&name) && names.len() < MOST_NAMES => name,
            _ => return Ok(None),
        };
        // The guest has a new import, so a new base gets it. The name is kept even if no base can import it, so that this is tried once.
        names.push(name);
        let known = self.folder().join("names");
        std::fs::write(&known, names.join("\n")).map_err(io_error(&known))?;
        let made = self.attempt(sandbox, tool(), &folders, &names).await?;
        Ok(match made {
            Made::Guest(path) => Some(path),
            _ => None,
        })
    }

    /// The same with a base that imports these modules, whether or not the guest's first modules do.
    async fn attempt(
        &self,
        sandbox: &dyn Bases,
        tool: Tool,
        folders: &[Texts],
        names: &[String],
    ) -> Result<Made, BuildError> {
        if !self.is_there(folders, names, tool).await? {
            return Ok(Made::Not);
        }
        let program = json!({"entry": self.entry, "mapper": self.world.mapper, "folders": folders});
        let (base, guest) = (self.component(), built_path(&self.source.guest));
        let taken = sandbox.snapshot(&base, &guest, &program.to_string()).await;
        let bytes = match taken {
            Ok(bytes) => bytes,
            Err(NotTaken::Refused(name)) if !name.is_empty() => return Ok(Made::Lacks(name)),
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
        bases::component(&self.folder())
    }

    /// Makes the base unless it is there. Returns whether it is there.
    async fn is_there(
        &self,
        folders: &[Texts],
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
        let more = if self.world.mapper { MAPPER } else { "" };
        let text = write(EXPORTS, format!("{TEXT}{more}"))?;
        let sdk = Some(self.source.package.join(MODULES[1])).filter(|sdk| sdk.is_dir());
        let mut words = vec![PACKAGE.1, self.world.name()];
        words.extend(names.iter().map(String::as_str));
        let mut inputs = Inputs::new(&words).path(&text)?.path(self.wit)?;
        let packages = site_packages(self.packages)?;
        if packages.iter().any(|folder| has_links_to_packages(folder)) {
            return Ok(false);
        }
        for folder in sdk.iter().chain(&packages) {
            inputs = inputs.path(folder)?;
        }
        let tool = || {
            // JSON of texts is Python.
            let (entry, _) = self.entry.split_once(':').unwrap_or((self.entry, ""));
            let given = [
                ("FOLDERS", json!(folders)),
                ("NAMES", json!(names)),
                ("ENTRY", json!(entry)),
            ];
            let given = given.map(|(name, value)| format!("{name} = {value}\n"));
            write("windlass_modules", given.concat())?;
            let mut tool = tool.arg("--python-path").arg(&exports);
            if let Some(sdk) = &sdk {
                tool = tool.arg("--python-path").arg(sdk);
            }
            Ok(tool.arg(EXPORTS).arg("--output").arg(self.component()))
        };
        bases::make_once(&inputs, &self.folder(), &self.source.guest, tool).await
    }

    /// The texts of the guest's modules: of each folder of modules by their paths there, in the order in which Python looks. `None`: there are too
    /// many, or one is no text, or none of the package.
    fn modules(&self) -> Result<Option<Vec<Texts>>, BuildError> {
        let (guest, package) = (&self.source.guest, &self.source.package);
        let shared = Some(package.clone()).filter(|_| self.source.is_part());
        let folders = [guest.clone()].into_iter().chain(shared);
        let mut reading = Reading {
            within: std::fs::canonicalize(package).map_err(io_error(package))?,
            left: LARGEST,
            is_refused: false,
        };
        let mut all = Vec::new();
        for folder in folders.chain([package.join(MODULES[0])]) {
            let mut texts = Texts::new();
            reading.folder(&folder, "", 0, &mut texts)?;
            all.push(texts);
        }
        Ok(Some(all).filter(|_| !reading.is_refused))
    }
}

/// The texts of a folder of modules, by their paths in it.
type Texts = BTreeMap<String, String>;

/// Reads modules, of this package alone: a project may come from a stranger, and a link in it lead anywhere.
struct Reading {
    within: PathBuf,
    /// Bytes that may still be read.
    left: usize,
    is_refused: bool,
}

impl Reading {
    /// Reads the modules of a folder. `prefix` is its path in the folder of modules, with a slash behind it.
    fn folder(
        &mut self,
        folder: &Path,
        prefix: &str,
        depth: usize,
        into: &mut Texts,
    ) -> Result<(), BuildError> {
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
                self.folder(&path, &format!("{prefix}{name}/"), depth + 1, into)?;
            } else if path.extension().is_some_and(|extension| extension == "py") {
                self.file(&path)
                    .map(|text| into.insert(format!("{prefix}{name}"), text));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Option<String> {
        let real = std::fs::canonicalize(path).ok();
        let is_own = real.is_some_and(|real| real.starts_with(&self.within) && real.is_file());
        let text = Some(path).filter(|_| is_own).and_then(|path| {
            let bytes = windlass_fleet::file::read(path, self.left as u64).ok()?;
            String::from_utf8(bytes).ok()
        });
        match &text {
            Some(text) => self.left -= text.len(),
            None => self.is_refused = true,
        }
        text
    }
}
