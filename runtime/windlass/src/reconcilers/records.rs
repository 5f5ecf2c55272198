//! Keeps what the next process has to know of each reconciler: the revisions that served, and rollbacks. Entry point: [`Records`].
//!
//! The record of an object is in its status. The process that leads writes its rollback, by a patch of that field alone; the other fields
//! are written with the rest of the status. The record of a document in a file is in a folder of this user, beside the compiled guests, and
//! ends with that folder.

use super::archive::Archive;
use crate::config::kinds::status::RollbackStatus;
use crate::config::kinds::{API_VERSION, Kind};
use crate::config::load::Document;
use crate::config::record::{Record, Rollback};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use windlass_fleet::Digest;
use windlass_fleet::api::{ApiCode, PatchType, WriteOptions};
use windlass_fleet::manager::ManagerHandle;
use windlass_fleet::private_folder::make_private;
use windlass_fleet::{Client, ClusterName, GroupVersionKind, ObjectKey, file};

/// Time for a write, which the caller of a rollback waits for.
const LIMIT: Duration = Duration::from_secs(10);
/// Largest record in a file, in bytes.
const MAX_RECORD: u64 = 64 << 10;
/// Records in files that are kept.
const MAX_RECORDS: usize = 4096;
/// Where records are kept. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Records {
    inner: Arc<Inner>,
}

struct Inner {
    /// Of documents in files; none: they end with the process.
    folder: Option<PathBuf>,
    archive: Option<Archive>,
    /// Writes of files, one after the other.
    writing: Mutex<()>,
    /// The manager whose local cluster has the objects.
    manager: ManagerHandle,
}

/// Where a record is.
pub(super) enum Place {
    Object { key: ObjectKey, uid: String },
    File(PathBuf),
}

impl Records {
    /// Keeps records of objects in the local cluster of this manager, and the others in folders of this one; none: they end with the
    /// process.
    pub(crate) fn new(cache: Option<&Path>, manager: ManagerHandle) -> Self {
        let open = |cache: &Path| -> io::Result<(PathBuf, Archive)> {
            let folder = cache.join("records");
            make_private(&folder)?;
            Ok((folder, Archive::open(cache.join("served"))?))
        };
        let opened = cache.and_then(|cache| {
            open(cache)
                .inspect_err(|error| {
                    tracing::warn!(%error, "a restart forgets rollbacks: what served cannot be kept");
                })
                .ok()
        });
        let (folder, archive) = opened.unzip();
        Self {
            inner: Arc::new(Inner {
                folder,
                archive,
                writing: Mutex::default(),
                manager,
            }),
        }
    }

    /// The record of a document in a file. Blocks.
    pub(super) fn read(&self, document: &Document) -> Record {
        let Some(Place::File(path)) = self.place(document) else {
            return Record::default();
        };
        let read = file::read(&path, MAX_RECORD).ok();
        let read = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        read.unwrap_or_default()
    }

    /// The copy of a component that was read from a file. Blocks.
    pub(super) fn component(&self, digest: Digest) -> Option<PathBuf> {
        self.inner.archive.as_ref()?.find(digest)
    }

    /// Keeps a copy of a component, in the background.
    pub(super) fn keep_component(&self, digest: Digest, file: PathBuf) {
        let this = self.clone();
        tokio::task::spawn_blocking(move || {
            let Some(archive) = &this.inner.archive else {
                return;
            };
            if let Err(error) = archive.keep(digest, &file) {
                let path = file.display();
                tracing::warn!(%path, %error, "a later process cannot roll back to this guest: it is not kept");
            }
        });
    }

    /// Whether this process may record the rollback of an object: it leads, or there is no election.
    pub(super) fn leads(&self) -> bool {
        self.client().is_ok()
    }

    fn client(&self) -> Result<Client, String> {
        let manager = &self.inner.manager;
        let local = manager.fleet().cluster(&ClusterName::local());
        let local = local.ok_or("the local cluster is not engaged")?;
        let client = manager.leading_client(&local);
        client.ok_or_else(|| "this process does not lead".to_owned())
    }

    /// None: it is kept nowhere.
    pub(super) fn place(&self, document: &Document) -> Option<Place> {
        let name = &document.identity.name;
        if let Some(object) = &document.record {
            let (namespace, name) = name.split_once('/')?;
            return Some(Place::Object {
                key: ObjectKey::namespaced(namespace, name),
                uid: object.uid.clone(),
            });
        }
        let file = std::path::absolute(&*document.file).ok()?;
        let text = format!("{}\n{name}", file.display());
        let path = format!("{}.json", Digest::of(text.as_bytes()));
        Some(Place::File(self.inner.folder.as_ref()?.join(path)))
    }

    pub(super) async fn write(&self, place: Place, record: Record) -> Result<(), String> {
        match place {
            Place::Object { key, uid } => {
                let written = self.write_object(key, uid, record.rollback);
                let written = tokio::time::timeout(LIMIT, written).await;
                written.unwrap_or_else(|_| Err("the local cluster does not answer".to_owned()))
            }
            Place::File(path) => {
                let this = self.clone();
                let written = tokio::task::spawn_blocking(move || this.write_file(&path, &record));
                let written = written.await.map_err(io::Error::other);
                written.flatten().map_err(|error| error.to_string())
            }
        }
    }

    async fn write_object(
        &self,
        key: ObjectKey,
        uid: String,
        rollback: Option<Rollback>,
    ) -> Result<(), String> {
        let kind = GroupVersionKind::from_api_version(API_VERSION, Kind::Reconciler.as_str());
        let options = WriteOptions {
            subresource: Some("status".to_owned()),
            ..WriteOptions::default()
        };
        let is_asked = rollback.is_some();
        let rollback = rollback.map(RollbackStatus::from);
        // With the uid, so that no other object of the name gets it.
        let patch = json!({"metadata": {"uid": uid}, "status": {"rollback": rollback}});
        let patch = patch.to_string().into();
        let client = self.client()?;
        let sent = client.patch(&kind, &key, PatchType::Merge, patch, &options);
        let answer = match sent.await {
            Ok(answer) => answer,
            Err(error) if error.code == ApiCode::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let object: Json = serde_json::from_slice(&answer).unwrap_or_default();
        if is_asked && object["status"]["rollback"].is_null() {
            let why = "the cluster's definitions are older than this process: windlass crds | kubectl apply -f -";
            return Err(why.to_owned());
        }
        Ok(())
    }

    fn write_file(&self, path: &Path, record: &Record) -> io::Result<()> {
        let _writing = self.inner.writing.lock();
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        fs::write(&draft, serde_json::to_vec(record)?)?;
        fs::rename(&draft, path)?;
        self.sweep();
        Ok(())
    }

    /// Removes the records that were not written for longest.
    fn sweep(&self) {
        let entries = self.inner.folder.iter().flat_map(fs::read_dir);
        let mut all: Vec<(SystemTime, PathBuf)> = entries
            .flatten()
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        let many = all.len().saturating_sub(MAX_RECORDS);
        all.sort();
        for (_, path) in all.into_iter().take(many) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::load;
    use crate::config::record::KnownRevision;
    use windlass_fleet::Manager;

    fn document(folder: &Path) -> Document {
        let text = "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {name: x}\nspec: {guest: {path: ./x.wasm}}\n";
        let path = folder.join("w.yaml");
        fs::write(&path, text).unwrap();
        let loaded = load(&[path]).configuration;
        loaded.documents().first().cloned().unwrap()
    }

    #[tokio::test]
    async fn a_record_of_a_file_is_read_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let document = document(folder.path());
        let cache = folder.path().join("cache");
        let manager = || Manager::builder().build().unwrap().bind().handle();
        let records = Records::new(Some(&cache), manager());
        assert_eq!(records.read(&document), Record::default());
        let record = Record {
            previous: Some(KnownRevision {
                digest: Digest::of(b"x"),
                image: None,
            }),
            ..Record::default()
        };
        let place = records.place(&document).unwrap();
        records.write(place, record.clone()).await.unwrap();
        assert_eq!(
            Records::new(Some(&cache), manager()).read(&document),
            record
        );
        let mut other = document.clone();
        other.identity.name = "y".to_owned();
        assert_eq!(records.read(&other), Record::default());
        assert!(Records::new(None, manager()).place(&document).is_none());
    }
}
