//! What a process starts with, and what ends it before it starts.

use super::{document, problems};
use crate::config::kinds::Kind;
use crate::config::load::{Configuration, Merged, load, merge, start};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

const MANAGER: &str = "{leaderElection: {enabled: true}}";

fn reconciler(name: &str) -> String {
    document("Reconciler", "{guest: {path: x.wasm}}").replace("name: x", &format!("name: {name}"))
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn paths(folder: &TempDir, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.path().join(name)).collect()
}

/// What is in effect after a start.
fn first(files: &[PathBuf]) -> anyhow::Result<Merged> {
    Ok(merge(&Configuration::default(), &start(files)?))
}

/// A start with the documents of one file: what is in effect, or why it fails, without the name of the folder.
fn starts(text: &str) -> Result<Vec<String>, String> {
    let folder = folder(&[("windlass.yaml", text)]);
    let started = first(&paths(&folder, &["windlass.yaml"]));
    let prefix = format!("{}/", folder.path().display());
    match started {
        Ok(merged) => Ok(names(&merged)),
        Err(error) => Err(error.to_string().replace(&prefix, "")),
    }
}

fn names(merged: &Merged) -> Vec<String> {
    let documents = merged.configuration.documents().iter();
    documents
        .map(|document| document.identity.to_string())
        .collect()
}

#[track_caller]
fn assert_refused(text: &str, because: &str) {
    let error = starts(text).expect_err(text);
    assert!(error.contains(because), "{because:?} is not in\n{error}");
}

#[test]
fn a_manager_that_is_refused_ends_the_start_with_its_problem() {
    let text = |spec: &str| format!("{}---\n{}", document("Manager", spec), reconciler("a"));
    assert_eq!(
        starts(&text("{concurency: {global: 5}}")),
        Err(
            "windlass.yaml:4:8: unknown field \"concurency\" in spec of Manager x: did you mean \"concurrency\"?\n  \
             the Manager is not valid, and nothing starts with defaults in its place: correct it"
                .to_owned()
        )
    );
    for (spec, because) in [
        ("{concurrency: {global: 0}}", "expected 1 or more, found 0"),
        ("{drainTimeout: soon}", "\"soon\" is not a duration"),
        ("{local: {}}", "no cluster is named"),
        ("[]", "spec of Manager x: expected a mapping, found a list"),
        (
            "{transport: [10s]}",
            "spec.transport of Manager x: expected a mapping, found a list",
        ),
    ] {
        assert_refused(&text(spec), because);
    }
    let good = text(MANAGER);
    assert_refused(
        &good.replacen("metadata: {name: x}", "metadata: {}", 1),
        "Manager",
    );
    assert_refused(
        &good.replacen("v1alpha1", "v1", 1),
        "apiVersion \"windlass.dev/v1\" is not known",
    );
    assert_refused(
        &good.replacen("kind: Manager", "kind: Manger", 1),
        "did you mean \"Manager\"?",
    );
    assert_refused(
        &good.replacen("kind: Manager", "kind: MANAGER", 1),
        "did you mean \"Manager\"?",
    );
    assert_refused(
        &format!("{good}---\n{}", document("Manager", "{}")),
        "there is a Manager already at windlass.yaml:1: keep one of them",
    );
    assert_eq!(
        starts(&good),
        Ok(vec!["Manager x".to_owned(), "Reconciler a".to_owned()])
    );
}

#[test]
fn what_cannot_be_read_ends_the_start_if_it_may_be_the_manager() {
    let (broken, kindless) = (
        "a: [\n",
        "apiVersion: windlass.dev/v1alpha1\nmetadata: {name: x}\n",
    );
    let unlike = document("Zzz", "{}");
    for (text, because) in [
        (broken, "this is not valid YAML"),
        (kindless, "kind is missing"),
        (unlike.as_str(), "kind \"Zzz\" is not known"),
    ] {
        let text = format!("{}---\n{text}", reconciler("a"));
        assert_refused(&text, "the Manager may be there");
        assert_refused(&text, because);
        let managed = format!("{}---\n{text}", document("Manager", MANAGER));
        assert_eq!(starts(&managed).unwrap()[0], "Manager x", "{text}");
    }

    let files = folder(&[
        ("a.yaml", &reconciler("a")),
        ("m.yaml", &document("Manager", MANAGER)),
    ]);
    fs::create_dir(files.path().join("empty")).unwrap();
    for unreadable in ["gone.yaml", "empty"] {
        let error = start(&paths(&files, &["a.yaml", unreadable])).unwrap_err();
        assert!(error.to_string().contains(unreadable), "{error}");
        let managed = start(&paths(&files, &["a.yaml", unreadable, "m.yaml"]));
        assert!(managed.unwrap().configuration.manager().is_some());
    }
}

#[test]
fn other_documents_that_are_refused_are_left_out_of_a_start() {
    for (kind, spec) in [
        ("Reconciler", "{tenat: x}"),
        ("Tenant", "{weight: 0}"),
        ("Provider", "{}"),
        ("Reconciller", "{}"),
    ] {
        let text = format!("{}---\n{}", reconciler("a"), document(kind, spec));
        assert_eq!(starts(&text), Ok(vec!["Reconciler a".to_owned()]), "{text}");
        assert_eq!(problems(&text).len(), 1, "{text}");
    }
    // They are plainly of other projects.
    for (version, kind) in [("v1", "ConfigMap"), ("x.io/v1", "ManagedCluster")] {
        let other = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n");
        assert!(starts(&format!("{}---\n{other}", reconciler("a"))).is_ok());
    }
}

#[test]
fn a_provider_that_is_left_out_is_known_to_be_missing() {
    let left_out = |text: &str| {
        let text = format!("{}---\n{text}", document("Manager", MANAGER));
        let folder = folder(&[("windlass.yaml", &text)]);
        let started = first(&paths(&folder, &["windlass.yaml"])).unwrap();
        started.left_out(Kind::Provider).is_some()
    };
    let good = document("Provider", "{none: {}}");
    assert!(!left_out(&good));
    assert!(!left_out(&document("Tenant", "{weight: 0}")));
    assert!(left_out(&document("Provider", "{}")));
    assert!(left_out("a: ["));
    // The first one of the name is in effect.
    assert!(!left_out(&format!("{good}---\n{good}")));
}

#[test]
fn the_default_tenant_is_not_unbounded_while_its_document_cannot_be_read() {
    let text = |more: &str| {
        let tenant = document("Tenant", "{}").replace("name: x", "name: team-a");
        let other = reconciler("b").replace("spec: {", "spec: {tenant: team-a, ");
        let manager = document("Manager", MANAGER);
        format!(
            "{manager}---\n{}---\n{tenant}---\n{other}---\n{more}",
            reconciler("a")
        )
    };
    let folder = folder(&[("windlass.yaml", &text("kind: ["))]);
    let files = paths(&folder, &["windlass.yaml"]);
    let started = first(&files).unwrap();
    let expected = ["Manager x", "Tenant team-a", "Reconciler b"];
    assert_eq!(names(&started), expected);
    let problem = started.problems.last().unwrap().to_string();
    assert!(
        problem.contains("Reconciler a: its Tenant \"default\" may be"),
        "{problem}"
    );
    // Not at the next reload either.
    let again = merge(&started.configuration, &load(&files));
    assert_eq!(names(&again), expected);
    fs::write(&files[0], text("# corrected\n")).unwrap();
    let corrected = merge(&again.configuration, &load(&files));
    assert_eq!(corrected.configuration.reconcilers().count(), 2);
    // One that runs goes on.
    fs::write(&files[0], text("kind: [")).unwrap();
    let goes_on = merge(&corrected.configuration, &load(&files));
    assert_eq!(goes_on.configuration.reconcilers().count(), 2);
}

#[test]
fn a_reload_keeps_the_manager_while_any_document_may_be_it() {
    let manager = document("Manager", MANAGER);
    let renamed = manager.replace("name: x", "name: y");
    let after = |files: &[(&str, &str)]| {
        let folder = folder(&[("a.yaml", &manager), ("b.yaml", "")]);
        let all = paths(&folder, &["a.yaml", "b.yaml"]);
        let before = first(&all).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        merge(&before.configuration, &load(&all))
    };
    for files in [
        [("a.yaml", manager.replace("enabled: true", "enabled: 1"))],
        [("a.yaml", renamed.replace("leaderElection", "leaderElecton"))],
        [("a.yaml", manager.replace("kind: Manager", "kind: Manger"))],
        [("a.yaml", "a: [".to_owned())],
    ] {
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let merged = after(&files);
        assert_eq!(names(&merged), ["Manager x"], "{files:?}");
        assert!(merged.configuration.manager_spec().leader_election.enabled);
        assert_eq!(merged.kept.len(), 1, "{files:?}");
    }
    // It has moved into another file, which is not valid.
    let moved = after(&[("a.yaml", ""), ("b.yaml", "a: [")]);
    assert_eq!(names(&moved), ["Manager x"]);
    // There is another one, and a document that is not valid.
    let other = after(&[("a.yaml", "a: ["), ("b.yaml", &renamed)]);
    assert_eq!(names(&other), ["Manager y"]);
    // It was removed.
    let removed = after(&[("a.yaml", "")]);
    assert_eq!(removed.configuration, Configuration::default());
}
