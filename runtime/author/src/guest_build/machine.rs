//! What a machine has to build guests with. Entry point: [`Machine`].

use std::path::PathBuf;

/// The tools of a machine, as its environment names them. The default has none, and so each project keeps its own.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The folder of the tools that are downloaded, and of what earlier builds made, for all projects of this user: an absolute path.
    pub tools: Option<PathBuf>,
    /// The folders in which tools are looked for.
    pub path: Vec<PathBuf>,
    /// The active virtual environment of Python.
    pub virtual_env: Option<PathBuf>,
    /// The WASI SDK whose clang builds guests in C.
    pub wasi_sdk: Option<PathBuf>,
}

impl Machine {
    /// A tool on the path.
    pub(super) fn on_path(&self, tool: &str) -> Option<PathBuf> {
        let mut candidates = self.path.iter().map(|folder| folder.join(tool));
        candidates.find(|candidate| candidate.is_file())
    }
}
