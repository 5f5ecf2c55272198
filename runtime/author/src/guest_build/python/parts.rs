//! What a component in Python is made of, in the project or in a copy. Entry point: [`Parts::inputs`].

use super::{MODULES, OUTSIDE, PACKAGE, file_names, remedy, site_packages};
use crate::guest_build::BuildError;
use crate::guest_build::inputs::Inputs;
use crate::guest_build::settings::World;
use crate::guest_build::source::Source;
use crate::guest_build::tool::Tool;
use std::path::{Path, PathBuf};
use windlass_files::{has_modules, is_left_by_tools};

/// How the tools are used: in another way they may make another component of the same source.
const RECIPE: [&str; 2] = [include_str!("../python.rs"), include_str!("parts.rs")];

/// The folder of kubeconfigs in a project.
const KUBECONFIGS: &str = "clusters";

/// Folders of a copy: for each part one, so that none has a name of another.
const PROJECT_COPY: &str = "project";
const PACKAGES_COPY: &str = "packages";
const EXPORTS_COPY: &str = "exports";
const WIT_COPY: &str = "contract";

/// Most bytes that are read of a file that links packages.
const MOST_LINKS: u64 = 1 << 20;

/// What a component is made of.
#[derive(Clone)]
pub(super) struct Parts {
    /// The guest and its package.
    pub(super) source: Source,
    /// What the component imports and exports.
    pub(super) world: World,
    /// The folder with the module that says what the component exports.
    pub(super) exports: PathBuf,
    pub(super) wit: PathBuf,
    /// The environment of its packages.
    pub(super) packages: PathBuf,
}

impl Parts {
    /// All inputs of the component: the whole project, because its modules may read any file while they are imported, and the packages. None:
    /// some are elsewhere. With a folder for a copy, it gets all of them.
    pub(super) fn inputs(&self, copy: Option<&Path>) -> Result<Option<Inputs>, BuildError> {
        let environment = site_packages(&self.packages)?;
        if environment.iter().any(|of| has_links_to_packages(of)) {
            return Ok(None);
        }
        let into = |part: &str| copy.map(|copy| copy.join(part));
        let [build, parts] = RECIPE;
        let (package, guest) = (&self.source.package, &self.source.guest);
        let below = guest.strip_prefix(package).unwrap_or(guest);
        let (below, count) = (below.to_string_lossy(), environment.len().to_string());
        let mut inputs = Inputs::new(&[build, parts, self.world.name(), &below, &count])
            .within(&self.exports, into(EXPORTS_COPY))?
            .path(&self.exports)?
            .within(&self.wit, into(WIT_COPY))?
            .path(&self.wit)?;
        for folder in environment {
            let place = folder
                .parent()
                .and_then(|lib| lib.strip_prefix(&self.packages).ok());
            let place = place.unwrap_or(Path::new(""));
            let into = into(PACKAGES_COPY).map(|packages| packages.join(place));
            inputs = inputs.within(&folder, into)?.path(&folder)?;
        }
        self.project(inputs, into(PROJECT_COPY)).map(Some)
    }

    /// Adds the project.
    fn project(&self, mut inputs: Inputs, copy: Option<PathBuf>) -> Result<Inputs, BuildError> {
        let (guest, package) = (&self.source.guest, &self.source.package);
        for name in file_names(package)? {
            let path = package.join(&name);
            if is_outside(&path, &name) {
                continue;
            }
            // The SDK may be a link.
            let is_own = MODULES.contains(&name.as_str()) && path.is_symlink() && path.is_dir();
            let within = if is_own { &path } else { package };
            inputs = inputs.within(within, copy.clone())?.entry(&path)?;
        }
        if !self.source.is_part() {
            return Ok(inputs);
        }
        // It may be in a folder that is no part of the component, or a link.
        let around = guest
            .parent()
            .and_then(|around| around.strip_prefix(package).ok());
        let around = around.unwrap_or(Path::new(""));
        let into = copy.map(|project| project.join(around));
        inputs.within(guest, into)?.path(guest)
    }

    /// The parts in a copy.
    pub(super) fn of_copy(&self, copy: &Path) -> Self {
        let (guest, package) = (&self.source.guest, &self.source.package);
        let of = copy.join(PROJECT_COPY);
        Self {
            source: Source {
                guest: of.join(guest.strip_prefix(package).unwrap_or(Path::new(""))),
                package: of,
                ..self.source
            },
            exports: copy
                .join(EXPORTS_COPY)
                .join(self.exports.file_name().unwrap_or_default()),
            wit: copy
                .join(WIT_COPY)
                .join(self.wit.file_name().unwrap_or_default()),
            packages: copy.join(PACKAGES_COPY),
            ..self.clone()
        }
    }

    /// componentize-py without what it is to build.
    pub(super) fn tool(&self, componentizer: &Path) -> Tool {
        Tool::new(componentizer, &self.source.guest, remedy(PACKAGE))
            // Prints the exceptions of the guest's modules, without the stack of the tool.
            .without_env("RUST_BACKTRACE")
            // As in an activated environment.
            .env("VIRTUAL_ENV", &self.packages)
            .args(["--quiet", "--wit-path"])
            .arg(&self.wit)
            .args(["--world", self.world.name(), "componentize"])
    }
}

/// Whether an entry of a project is no part of a component.
fn is_outside(path: &Path, name: &str) -> bool {
    let is_kubeconfigs = || name == KUBECONFIGS && !has_modules(path);
    OUTSIDE.contains(&name) || is_left_by_tools(path) || is_kubeconfigs()
}

/// Whether an environment has packages that are elsewhere, as of `pip install --editable`: they change unseen.
pub(super) fn has_links_to_packages(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    let mut links = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "pth"));
    links.any(|path| leads_elsewhere(&path))
}

/// Whether a file of links names a folder. Lines may also be code, which a build does not run.
fn leads_elsewhere(links: &Path) -> bool {
    let Ok(text) = windlass_fleet::file::read(links, MOST_LINKS) else {
        return true;
    };
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim);
    let is_code = |line: &str| line.starts_with("import ") || line.starts_with("import\t");
    lines.any(|line| !line.is_empty() && !line.starts_with('#') && !is_code(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_elsewhere_are_told_from_code_of_packages() {
        let folder = tempfile::tempdir().unwrap();
        let links = folder.path().join("a.pth");
        assert!(!has_links_to_packages(folder.path()));
        for (text, leads) in [
            ("# nothing\n\nimport os; os.environ\n", false),
            ("import x\n/somewhere/else\n", true),
            ("../beside\n", true),
        ] {
            std::fs::write(&links, text).unwrap();
            assert_eq!(has_links_to_packages(folder.path()), leads, "{text}");
        }
    }
}
