//! Reads the kubeconfig files. A file that cannot be used keeps its last good contexts. Entry point: [`scan`].

use super::{KubeconfigFilesOptions, LARGEST};
use crate::cluster::{ClusterConfig, ConfigError, ContextConfig, KubeconfigPolicy, every_context};
use crate::file::{self, FileError};
use crate::name::NamePattern;
use crate::provider::Problem;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The files that are there, by path as given.
#[derive(Default)]
pub(super) struct Files(BTreeMap<PathBuf, File>);

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it cannot be read: {0}")]
    Unreadable(FileError),
    #[error("it is not UTF-8 text: save it as such")]
    NotText,
    #[error("it is empty")]
    Empty,
    #[error("it has no list of contexts")]
    NoContexts,
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// One kubeconfig, as it was when it was last good.
#[derive(Default)]
pub(super) struct File {
    /// How many files were found before it.
    position: usize,
    /// Digest of the text that the contexts were read from; `None` if they must be read again, whatever the text.
    digest: Option<[u8; 32]>,
    /// By name.
    pub(super) contexts: BTreeMap<String, Context>,
    /// Problems of single contexts, by the context's name.
    pub(super) problems: Vec<Problem>,
}

/// A context that can be used.
#[derive(Clone)]
pub(super) struct Context {
    /// Its cluster, as the kubeconfig names it.
    pub(super) cluster: String,
    pub(super) config: ClusterConfig,
}

/// The result of a scan.
pub(super) struct Scan {
    /// What the kubeconfigs may do.
    policy: KubeconfigPolicy,
    pub(super) files: Files,
    pub(super) problems: Vec<Problem>,
    /// The folders in which a change matters.
    pub(super) watched: BTreeSet<PathBuf>,
}

/// Reads all files. `last` holds those of the scan before.
pub(super) fn scan(options: &KubeconfigFilesOptions, mut last: Files) -> Scan {
    let policy = KubeconfigPolicy {
        exec: options.exec,
        ..KubeconfigPolicy::file()
    };
    let mut scan = Scan {
        policy,
        files: Files::default(),
        problems: Vec::new(),
        watched: BTreeSet::new(),
    };
    for given in &options.paths {
        let path = options.base.join(given);
        scan.watched.extend(nearest_folder(&path));
        if path.is_dir() {
            scan.folder(options, given, &mut last);
        } else {
            scan.file(given, &path, &mut last);
            if !path.exists() {
                scan.problem(
                    given,
                    "no such file or folder: its clusters join when it appears",
                );
            }
        }
    }
    let referenced = scan
        .files
        .0
        .values()
        .flat_map(|file| file.contexts.values())
        .flat_map(|context| context.config.referenced_files());
    let folders: Vec<PathBuf> = referenced.filter_map(|path| nearest_folder(path)).collect();
    scan.watched.extend(folders);
    scan
}

/// The folder to watch for changes at this path: itself, the one that it is in, or the one that it will appear in.
fn nearest_folder(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .map(|ancestor| {
            if ancestor.as_os_str().is_empty() {
                Path::new(".")
            } else {
                ancestor
            }
        })
        .find(|ancestor| ancestor.is_dir())
        .map(Path::to_owned)
}

/// A path as it stands in names: without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .collect()
}

impl Scan {
    fn problem(&mut self, given: &Path, message: impl Into<String>) {
        self.problems.push(Problem {
            subject: plain(given).display().to_string(),
            message: message.into(),
        });
    }

    /// Reads the files of a folder that the globs choose.
    fn folder(&mut self, options: &KubeconfigFilesOptions, given: &Path, last: &mut Files) {
        let folder = options.base.join(given);
        let entries =
            std::fs::read_dir(&folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.problem(
                    given,
                    format!(
                        "the folder cannot be read, its last good files stay: {}",
                        FileError::from(error)
                    ),
                );
                let within = plain(given);
                let kept = last
                    .0
                    .keys()
                    .filter(|path| path.parent() == Some(&within))
                    .cloned()
                    .collect::<Vec<_>>();
                for path in kept {
                    if let Some((path, file)) = last.0.remove_entry(&path) {
                        self.files.append(path, file);
                    }
                }
                return;
            }
        };
        let globs: Vec<NamePattern> = options.globs.iter().map(NamePattern::new).collect();
        let mut names: Vec<_> = entries.into_iter().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            let chosen = name
                .to_str()
                .is_some_and(|name| globs.iter().any(|glob| glob.matches(name)));
            let path = folder.join(&name);
            if chosen && !path.is_dir() {
                self.file(&given.join(&name), &path, last);
            }
        }
    }

    /// Reads a file. If that fails, the file keeps its last good contexts.
    fn file(&mut self, given: &Path, path: &Path, last: &mut Files) {
        let key = plain(given);
        if self.files.0.contains_key(&key) {
            return;
        }
        let before = last.0.remove(&key);
        let read = match file::read(path, LARGEST) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => File::read(&text, path, before.as_ref(), &self.policy),
                Err(_) => Err(Unusable::NotText),
            },
            Err(error) if error.is_not_found() => return,
            Err(error) => Err(Unusable::Unreadable(error)),
        };
        let file = match read {
            Ok(Some(file)) => file,
            // The text has not changed.
            Ok(None) => before.unwrap_or_default(),
            Err(reason) => {
                let kept = before
                    .as_ref()
                    .is_some_and(|file| !file.contexts.is_empty());
                self.problem(
                    given,
                    if kept {
                        format!("{reason}; its last good clusters stay")
                    } else {
                        reason.to_string()
                    },
                );
                before
                    .map(|file| File {
                        digest: None,
                        ..file
                    })
                    .unwrap_or_default()
            }
        };
        self.files.append(key, file);
    }
}

impl Files {
    fn append(&mut self, path: PathBuf, file: File) {
        let position = self.0.len();
        self.0.insert(path, File { position, ..file });
    }

    /// The files in the order in which they were found: as the paths are given, and in a folder by name.
    pub(super) fn in_order(&self) -> Vec<(&Path, &File)> {
        let mut files: Vec<_> = self.0.iter().map(|(path, file)| (&**path, file)).collect();
        files.sort_by_key(|(_, file)| file.position);
        files
    }
}

impl File {
    /// Reads the contexts of a text; `None` if the text has not changed.
    fn read(
        text: &str,
        path: &Path,
        before: Option<&Self>,
        policy: &KubeconfigPolicy,
    ) -> Result<Option<Self>, Unusable> {
        let digest: [u8; 32] = Sha256::digest(text).into();
        if before.is_some_and(|before| before.digest == Some(digest)) {
            return Ok(None);
        }
        if text.trim().is_empty() {
            return Err(Unusable::Empty);
        }
        let contexts = every_context(text, path.parent(), policy)?;
        if contexts.is_empty() && !text.contains("contexts") {
            return Err(Unusable::NoContexts);
        }
        let mut file = Self {
            digest: Some(digest),
            ..Self::default()
        };
        for context in contexts {
            file.add(context, before);
        }
        // Files that it refers to may change while its own text does not.
        if !file.problems.is_empty()
            || file
                .contexts
                .values()
                .any(|context| !context.config.referenced_files().is_empty())
        {
            file.digest = None;
        }
        Ok(Some(file))
    }

    fn add(&mut self, context: ContextConfig, before: Option<&Self>) {
        let ContextConfig {
            name,
            cluster,
            config,
        } = context;
        let problem = |message: String| Problem {
            subject: name.clone(),
            message,
        };
        if self.contexts.contains_key(&name) {
            self.problems.push(problem(
                "the file has two contexts of this name, the first one counts: rename one"
                    .to_owned(),
            ));
            return;
        }
        let kept = before.and_then(|before| before.contexts.get(&name));
        match (config, kept) {
            (Ok(config), _) => drop(self.contexts.insert(name, Context { cluster, config })),
            (Err(reason), None) => self.problems.push(problem(reason.to_string())),
            (Err(reason), Some(kept)) => {
                self.problems.push(problem(format!(
                    "{reason}; it stays as it was when it was last good"
                )));
                self.contexts.insert(name, kept.clone());
            }
        }
    }
}
