//! Reads the kubeconfig files. A file that cannot be used keeps its last good contexts. Entry point: [`scan`].

use super::{KubeconfigFilesOptions, LARGEST};
use crate::cluster::{ClusterConfig, ConfigError, ContextConfig, Kubeconfig, KubeconfigPolicy};
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
pub(super) enum Unusable {
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
    /// The last good text: its digest, and its contents.
    digest: Option<[u8; 32]>,
    kubeconfig: Kubeconfig,
    /// Whether the contexts have not been read since the text changed.
    changed: bool,
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
    /// Whether all files are one kubeconfig.
    merged: bool,
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
    let merged = options.merged && options.paths.len() > 1;
    let mut scan = Scan {
        policy,
        merged,
        files: Files::default(),
        problems: Vec::new(),
        watched: BTreeSet::new(),
    };
    for given in &options.paths {
        let path = options.base.join(given);
        scan.watched.extend(nearest_folder(&path));
        if path.is_dir() && !merged {
            scan.folder(options, given, &mut last);
        } else {
            scan.file(given, &path, &mut last);
        }
    }
    for given in &options.paths {
        // kubectl leaves out a file that is not there.
        let is_missed = !merged || scan.files.0.is_empty();
        if is_missed && !options.base.join(given).exists() {
            scan.problem(
                given,
                "no such file or folder: its clusters join when it appears",
            );
        }
    }
    if merged {
        scan.files.read_contexts_of_all(&scan.policy);
    } else {
        scan.files.read_contexts_of_each(&scan.policy);
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

/// Reads one file; `None` if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Kubeconfig>, Unusable> {
    let Some(text) = text(path)? else {
        return Ok(None);
    };
    Ok(Some(Kubeconfig::parse(&text, path.parent())?))
}

fn text(path: &Path) -> Result<Option<String>, Unusable> {
    match file::read(path, LARGEST) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes);
            text.map(Some).map_err(|_| Unusable::NotText)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Unusable::Unreadable(error)),
    }
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
        let read = match text(path) {
            Ok(Some(text)) => File::read(&text, path, before.as_ref(), self.merged),
            Ok(None) => return,
            Err(reason) => Err(reason),
        };
        let before = before.unwrap_or_default();
        let file = match read {
            Ok(Some((digest, kubeconfig))) => File {
                digest: Some(digest),
                kubeconfig,
                changed: true,
                ..before
            },
            // The text has not changed.
            Ok(None) => before,
            Err(reason) => {
                self.problem(
                    given,
                    if before.contexts.is_empty() {
                        reason.to_string()
                    } else {
                        format!("{reason}; its last good clusters stay")
                    },
                );
                before
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

    /// Reads the contexts of each file on its own.
    fn read_contexts_of_each(&mut self, policy: &KubeconfigPolicy) {
        let due = self.0.values_mut().filter(|file| file.is_due());
        for file in due {
            let contexts = file.kubeconfig.contexts(policy);
            file.replace_contexts(contexts);
        }
    }

    /// Reads the contexts of all files together, and gives each to the first file that has it.
    fn read_contexts_of_all(&mut self, policy: &KubeconfigPolicy) {
        let mut files: Vec<&mut File> = self.0.values_mut().collect();
        files.sort_by_key(|file| file.position);
        let mut all = Kubeconfig::default();
        for file in &files {
            all.merge(file.kubeconfig.clone());
        }
        let mut contexts = all.contexts(policy);
        for file in files {
            let has_it = |context: &mut ContextConfig| file.kubeconfig.has_context(&context.name);
            let own = contexts.extract_if(.., has_it).collect();
            file.replace_contexts(own);
        }
    }

    /// The files in the order in which they were found: as the paths are given, and in a folder by name.
    pub(super) fn in_order(&self) -> Vec<(&Path, &File)> {
        let mut files: Vec<_> = self.0.iter().map(|(path, file)| (&**path, file)).collect();
        files.sort_by_key(|(_, file)| file.position);
        files
    }
}

impl File {
    /// Reads a text; `None` if it has not changed.
    fn read(
        text: &str,
        path: &Path,
        before: Option<&Self>,
        merged: bool,
    ) -> Result<Option<([u8; 32], Kubeconfig)>, Unusable> {
        let digest: [u8; 32] = Sha256::digest(text).into();
        if before.is_some_and(|before| before.digest == Some(digest)) {
            return Ok(None);
        }
        if text.trim().is_empty() {
            return Err(Unusable::Empty);
        }
        let kubeconfig = Kubeconfig::parse(text, path.parent())?;
        // Such a text may be half of one.
        if !merged && !kubeconfig.has_contexts() && !text.contains("contexts") {
            return Err(Unusable::NoContexts);
        }
        Ok(Some((digest, kubeconfig)))
    }

    /// Whether its contexts may differ from those that were read last. Files that it refers to may change while its own text does not.
    fn is_due(&self) -> bool {
        let refers = |context: &Context| !context.config.referenced_files().is_empty();
        self.changed || !self.problems.is_empty() || self.contexts.values().any(refers)
    }

    fn replace_contexts(&mut self, contexts: Vec<ContextConfig>) {
        self.changed = false;
        self.problems.clear();
        let mut before = std::mem::take(&mut self.contexts);
        for context in contexts {
            let kept = before.remove(&context.name);
            self.add(context, kept);
        }
    }

    fn add(&mut self, context: ContextConfig, kept: Option<Context>) {
        let ContextConfig {
            name,
            cluster,
            config,
        } = context;
        let reason = match config {
            Ok(config) => {
                self.contexts.insert(name, Context { cluster, config });
                return;
            }
            Err(reason) => reason,
        };
        let message = match kept {
            None => reason.to_string(),
            Some(kept) => {
                self.contexts.insert(name.clone(), kept);
                format!("{reason}; it stays as it was when it was last good")
            }
        };
        let subject = name;
        self.problems.push(Problem { subject, message });
    }
}
