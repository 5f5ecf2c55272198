//! What is planned in place of the documents as they are: other guests, and some of the reconcilers. Entry point: [`Revision::new`].

use crate::config::kinds::{GuestSpec, Kind};
use crate::config::load::{Configuration, Document, Spec};
use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use windlass_files::nearest;

/// Changes documents before they are rehearsed.
#[derive(Debug, Clone, Default)]
pub(super) struct Revision {
    /// Other guests, by reconciler.
    guests: BTreeMap<String, GuestSpec>,
    /// The reconcilers that take part; empty: all.
    only: BTreeSet<String>,
    /// The reconcilers that there were.
    found: Arc<Mutex<BTreeSet<String>>>,
}

impl Revision {
    /// Reads `RECONCILER=FILE` or `RECONCILER=IMAGE`, and the names of the reconcilers that take part.
    ///
    /// # Errors
    /// When a text is no guest.
    pub(super) fn new(guests: &[String], only: &[String]) -> Result<Self> {
        let mut revision = Self {
            only: only.iter().cloned().collect(),
            ..Self::default()
        };
        for text in guests {
            let form = || format!("--guest {text}: write RECONCILER=FILE or RECONCILER=IMAGE");
            let (name, guest) = text.split_once('=').with_context(form)?;
            let guest = guest_of(guest).with_context(|| format!("--guest {text}"))?;
            revision.guests.insert(name.to_owned(), guest);
        }
        Ok(revision)
    }

    /// Checks that the reconcilers exist.
    ///
    /// # Errors
    /// When one does not.
    pub(super) fn check(&self, configuration: &Configuration) -> Result<()> {
        let reconcilers = configuration.reconcilers();
        let known: Vec<&str> = reconcilers
            .map(|(it, _)| it.identity.name.as_str())
            .collect();
        for name in self.names() {
            if known.contains(&name.as_str()) {
                continue;
            }
            match nearest(name, known.iter().copied()) {
                Some(like) => bail!("there is no Reconciler {name}: did you mean {like}?"),
                None => bail!(
                    "there is no Reconciler {name}: there are {}",
                    known.join(", ")
                ),
            }
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.guests.keys().chain(&self.only)
    }

    /// The reconcilers that no document has had so far.
    pub(super) fn unused(&self) -> BTreeSet<String> {
        let found = self.found.lock();
        let unused = self.names().filter(|name| !found.contains(*name));
        unused.cloned().collect()
    }

    /// Whether any guest is another one.
    pub(super) fn has_guests(&self) -> bool {
        !self.guests.is_empty()
    }

    /// The same without other guests.
    pub(super) fn without_guests(&self) -> Self {
        Self {
            guests: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Changes the documents.
    pub(super) fn apply(&self, configuration: &mut Configuration) {
        let documents: Vec<Document> = configuration.documents().to_vec();
        for mut document in documents {
            if document.identity.kind != Kind::Reconciler {
                continue;
            }
            self.found.lock().insert(document.identity.name.clone());
            if !self.only.is_empty() && !self.only.contains(&document.identity.name) {
                configuration.remove(&document.identity);
                continue;
            }
            if let Some(guest) = self.guests.get(&document.identity.name)
                && let Spec::Reconciler(spec) = &mut document.spec
            {
                spec.guest = guest.clone();
                configuration.insert(document);
            }
        }
    }
}

/// A guest by its file or, where there is no such file and the text has the form of one, by its image.
fn guest_of(text: &str) -> Result<GuestSpec> {
    let path = Path::new(text);
    if path.exists() {
        let path = std::path::absolute(path).with_context(|| format!("find {text}"))?;
        return Ok(GuestSpec {
            path: Some(path),
            ..GuestSpec::default()
        });
    }
    let is_file = path
        .extension()
        .is_some_and(|extension| extension == "wasm");
    let guest = GuestSpec {
        image: Some(text.to_owned()),
        ..GuestSpec::default()
    };
    if is_file || guest.source().is_err() {
        bail!("{text}: no such file, and no image HOST/NAME:TAG");
    }
    Ok(guest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::load;

    fn configuration() -> (tempfile::TempDir, Configuration) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.yaml");
        let one = |name: &str| {
            format!(
                "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: {name}}}\nspec:\n  guest: {{path: ./{name}.wasm}}\n"
            )
        };
        std::fs::write(&file, one("hello") + &one("copier")).unwrap();
        let read = load(&[file]);
        assert!(read.bad.is_empty(), "{:?}", read.bad);
        (folder, read.configuration)
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn another_guest_takes_the_place_of_the_documents() {
        let (folder, mut configuration) = configuration();
        let other = folder.path().join("other.wasm");
        std::fs::write(&other, b"").unwrap();
        let guests = owned(&[&format!("hello={}", other.display())]);
        let revision = Revision::new(&guests, &owned(&["hello"])).unwrap();
        revision.check(&configuration).unwrap();
        revision.apply(&mut configuration);
        let left: Vec<_> = configuration.reconcilers().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].1.guest.path(), Some(&other));
    }

    #[test]
    fn what_does_not_exist_is_said() {
        let (_folder, configuration) = configuration();
        let error = |guests: &[&str], only: &[&str]| {
            let revision = Revision::new(&owned(guests), &owned(only));
            let checked = revision.and_then(|revision| revision.check(&configuration));
            format!("{:#}", checked.unwrap_err())
        };
        assert_eq!(
            error(&[], &["helo"]),
            "there is no Reconciler helo: did you mean hello?"
        );
        assert!(error(&["hello"], &[]).contains("write RECONCILER=FILE"));
        assert!(error(&["hello=missing.wasm"], &[]).contains("no such file"));
    }
}
