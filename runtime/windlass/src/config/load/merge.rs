//! Merges a reload into the configuration in effect: a bad document keeps its last good version. Entry point: [`merge`].

use crate::config::kinds::{Identity, Kind};
use crate::config::load::{Bad, Configuration, Document, Outcome, Spec};
use std::collections::BTreeMap;
use std::path::Path;
use windlass_files::{Problem, nearest};

/// The configuration after a reload.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// The documents in effect.
    pub(crate) configuration: Configuration,
    /// The problems of the current documents.
    pub(crate) problems: Vec<Problem>,
    /// Documents of which an earlier version is in effect, and why.
    pub(crate) kept: BTreeMap<Identity, Problem>,
    /// The current documents that are not valid, of files and the local cluster.
    bad: Vec<Bad>,
}

impl Merged {
    /// A document that is not valid and may be of this kind, if no version of it is in effect as far as anybody can tell.
    pub(crate) fn left_out(&self, kind: Kind) -> Option<&Bad> {
        let in_effect = |bad: &Bad| {
            let identity = bad.identity.as_ref();
            identity.is_some_and(|identity| self.configuration.get(identity).is_some())
        };
        let mut bad = self.bad.iter();
        bad.find(|bad| bad.may_be(kind) && !in_effect(bad))
    }
}

/// All valid documents, and the last good version of the bad ones.
///
/// A document that vanished is kept while it may only be unreadable: its fields are bad, or its file has a document whose name cannot
/// be read. The Manager and the tenant `default` are kept while any document may be theirs: without theirs they have the defaults.
///
/// A reconciler is never in effect without its tenant, because the tenant's rules are its ceiling. If a reconciler names a
/// tenant that is not in effect, its last good version stays, provided that the tenant of that version is in effect.
pub(crate) fn merge(last: &Configuration, now: &Outcome) -> Merged {
    let mut documents = now.configuration.documents.clone();
    let mut problems: Vec<Problem> = now.bad.iter().map(|bad| bad.problem.clone()).collect();
    let vanished = last
        .documents
        .iter()
        .filter(|document| now.configuration.get(&document.identity).is_none());
    let mut kept = BTreeMap::new();
    for document in vanished {
        if let Some(bad) = what_is_bad(document, now) {
            kept.insert(document.identity.clone(), bad.problem.clone());
            documents.push(document.clone());
        }
    }
    documents.sort_by(|a, b| a.identity.cmp(&b.identity));
    settle_orphans(&mut documents, last, now, &mut problems, &mut kept);
    Merged {
        configuration: Configuration { documents },
        problems,
        bad: now.bad.clone(),
        kept,
    }
}

/// Why a document that vanished may only be unreadable; none: it was removed.
fn what_is_bad<'a>(document: &Document, now: &'a Outcome) -> Option<&'a Bad> {
    let Identity { kind, name } = &document.identity;
    if *kind == Kind::Manager && now.configuration.manager().is_some() {
        // Another Manager is in effect.
        return None;
    }
    now.bad.iter().find(|bad| match (&bad.identity, kind) {
        (_, Kind::Manager) => bad.may_be(Kind::Manager),
        (Some(identity), _) => *identity == document.identity,
        (None, Kind::Tenant) if name == "default" => bad.may_be(Kind::Tenant),
        (None, _) => {
            let path = Path::new(&*bad.problem.location.file);
            // A folder that cannot be listed may still have the file.
            path == Path::new(&*document.file) || path == document.folder() && !path.is_file()
        }
    })
}

/// Replaces reconcilers whose tenant is not in effect by their last good version, or removes them.
fn settle_orphans(
    documents: &mut Vec<Document>,
    last: &Configuration,
    now: &Outcome,
    problems: &mut Vec<Problem>,
    kept: &mut BTreeMap<Identity, Problem>,
) {
    let tenants: Vec<String> = documents
        .iter()
        .filter(|document| document.identity.kind == Kind::Tenant)
        .map(|document| document.identity.name.clone())
        .collect();
    let belongs = |document: &Document| match &document.spec {
        Spec::Reconciler(spec) => {
            let tenant = spec.tenant();
            tenants.iter().any(|known| known == tenant)
                || tenant == "default" && has_no_document(now, last, document)
        }
        _ => true,
    };
    documents.retain_mut(|document| {
        if belongs(document) {
            return true;
        }
        let Spec::Reconciler(spec) = &document.spec else {
            return true;
        };
        let tenant = spec.tenant();
        let is_bad = is_bad(now, tenant);
        let remedy = match nearest(tenant, tenants.iter().map(String::as_str)) {
            _ if is_bad => {
                "correct it first, its rules are the ceiling of this reconciler's".to_owned()
            }
            _ if tenant == "default" => {
                "correct that document first, its rules may be the ceiling of this reconciler's"
                    .to_owned()
            }
            Some(known) => format!("did you mean {known:?}?"),
            None => "add a Tenant document of this name, or leave tenant out".to_owned(),
        };
        let state = match (is_bad, tenant) {
            (true, _) => "is not valid",
            (false, "default") => "may be in a document that cannot be read",
            (false, _) => "does not exist",
        };
        let problem = document.problem(format!("its Tenant {tenant:?} {state}: {remedy}"));
        problems.push(problem.clone());
        match last.get(&document.identity).filter(|last| belongs(last)) {
            Some(last) => {
                kept.insert(document.identity.clone(), problem);
                *document = last.clone();
                true
            }
            None => {
                kept.remove(&document.identity);
                false
            }
        }
    });
}

/// Whether the tenant `default` needs no document, as far as this reconciler goes. A document that cannot be read may be the tenant's. A
/// reconciler that runs without one already goes on.
fn has_no_document(now: &Outcome, last: &Configuration, reconciler: &Document) -> bool {
    if is_bad(now, "default") {
        return false;
    }
    let ran = last.get(&reconciler.identity).is_some_and(
        |last| matches!(&last.spec, Spec::Reconciler(spec) if spec.tenant() == "default"),
    );
    let may_be_it = |bad: &Bad| bad.identity.is_none() && bad.may_be(Kind::Tenant);
    ran || !now.bad.iter().any(may_be_it)
}

fn is_bad(now: &Outcome, tenant: &str) -> bool {
    let identity = Identity {
        kind: Kind::Tenant,
        name: tenant.to_owned(),
    };
    now.bad
        .iter()
        .any(|bad| bad.identity.as_ref() == Some(&identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::load;
    use std::fs;

    const TENANT: &str = "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-a}\nspec: {weight: 2}\n";

    fn reconciler(name: &str, more: &str) -> String {
        format!(
            "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: {name}}}\nspec:\n  tenant: team-a\n  \
             guest: {{path: ./{name}.wasm}}\n{more}"
        )
    }

    /// The names in effect after a file had one text and then another, which of them in the earlier version, and the number of
    /// problems.
    fn reload(first: &str, then: &str) -> (Vec<String>, Vec<String>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.yaml");
        fs::write(&file, first).unwrap();
        let before = merge(
            &Configuration::default(),
            &load(std::slice::from_ref(&file)),
        );
        assert_eq!(before.problems, []);
        fs::write(&file, then).unwrap();
        let after = merge(&before.configuration, &load(&[file]));
        let names = after
            .configuration
            .documents()
            .iter()
            .map(|document| document.identity.name.clone());
        let kept = after.kept.keys().map(|identity| identity.name.clone());
        (names.collect(), kept.collect(), after.problems.len())
    }

    #[test]
    fn a_bad_document_keeps_its_last_good_version_and_the_others_change() {
        let first = format!("{TENANT}{}{}", reconciler("a", ""), reconciler("b", ""));
        let then = format!(
            "{TENANT}{}{}",
            reconciler("a", "  tenat: x\n"),
            reconciler("c", "")
        );
        assert_eq!(
            reload(&first, &then),
            (
                vec!["team-a".into(), "a".into(), "c".into()],
                vec!["a".into()],
                1
            )
        );
    }

    #[test]
    fn a_removed_document_goes() {
        let first = format!("{TENANT}{}{}", reconciler("a", ""), reconciler("b", ""));
        let then = format!("{TENANT}{}", reconciler("b", ""));
        assert_eq!(
            reload(&first, &then),
            (vec!["team-a".into(), "b".into()], vec![], 0)
        );
    }

    #[test]
    fn broken_syntax_keeps_what_the_broken_document_may_have_been() {
        let first = format!("{TENANT}{}{}", reconciler("a", ""), reconciler("b", ""));
        let then = format!("{TENANT}---\nkind: [\n{}", reconciler("b", ""));
        assert_eq!(
            reload(&first, &then),
            (
                vec!["team-a".into(), "a".into(), "b".into()],
                vec!["a".into()],
                1
            )
        );
    }

    #[test]
    fn a_file_that_is_gone_for_a_moment_keeps_its_documents() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.yaml");
        fs::write(&file, format!("{TENANT}{}", reconciler("a", ""))).unwrap();
        let before = merge(
            &Configuration::default(),
            &load(std::slice::from_ref(&file)),
        );
        fs::remove_file(&file).unwrap();
        let after = merge(&before.configuration, &load(&[file]));
        assert_eq!(after.configuration, before.configuration);
        assert!(after.problems[0].message.contains("no such file"));
    }

    #[test]
    fn a_file_that_left_a_folder_takes_its_documents_along() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), TENANT).unwrap();
        fs::write(folder.path().join("b.yaml"), reconciler("b", "")).unwrap();
        let paths = [folder.path().to_path_buf()];
        let before = merge(&Configuration::default(), &load(&paths));
        fs::remove_file(folder.path().join("b.yaml")).unwrap();
        let after = merge(&before.configuration, &load(&paths));
        assert_eq!(
            (after.configuration.documents().len(), after.problems.len()),
            (1, 0)
        );
    }

    #[test]
    fn a_reconciler_never_runs_without_its_tenants_ceiling() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.yaml");
        for (tenant, expected) in [
            (
                "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-a}\nspec: {wieght: 2}\n",
                "is not valid",
            ),
            (
                "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-b}\n",
                "did you mean \"team-b\"",
            ),
        ] {
            fs::write(&file, format!("{tenant}{}", reconciler("a", ""))).unwrap();
            let merged = merge(
                &Configuration::default(),
                &load(std::slice::from_ref(&file)),
            );
            assert_eq!(merged.configuration.reconcilers().count(), 0);
            assert!(
                merged.problems.last().unwrap().message.contains(expected),
                "{:?}",
                merged.problems
            );
        }
    }

    #[test]
    fn a_reconciler_given_to_a_tenant_that_is_not_there_stays_with_the_one_it_had() {
        let first = format!("{TENANT}{}", reconciler("a", ""));
        let then = first.replace("tenant: team-a", "tenant: team-x");
        assert_eq!(
            reload(&first, &then),
            (vec!["team-a".into(), "a".into()], vec!["a".into()], 1)
        );
    }

    #[test]
    fn moving_a_document_within_its_file_changes_nothing() {
        let first = merge(
            &Configuration::default(),
            &load_text(&format!("{TENANT}{}", reconciler("a", ""))),
        );
        let second = merge(
            &Configuration::default(),
            &load_text(&format!("# moved\n\n{}{TENANT}", reconciler("a", ""))),
        );
        assert_eq!(
            first.configuration.documents().len(),
            second.configuration.documents().len()
        );
        let specs = |merged: &Merged| -> Vec<Spec> {
            merged
                .configuration
                .documents()
                .iter()
                .map(|d| d.spec.clone())
                .collect()
        };
        assert_eq!(specs(&first), specs(&second));
    }

    fn load_text(text: &str) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.yaml");
        fs::write(&file, text).unwrap();
        load(&[file])
    }
}
