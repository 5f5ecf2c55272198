//! Bad documents, and exactly what is said of each.

mod provider;
mod start;

use crate::config::load::{Configuration, load, merge};
use std::fs;

const HELLO: &str =
    "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {name: hello}\nspec:\n";

/// The problems with a file, without the name of the folder that it is in.
fn problems(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windlass.yaml");
    fs::write(&file, text).unwrap();
    let merged = merge(&Configuration::default(), &load(&[file]));
    let prefix = format!("{}/", folder.path().display());
    merged
        .problems
        .iter()
        .map(|problem| problem.to_string().replace(&prefix, ""))
        .collect()
}

#[track_caller]
fn assert_problem(text: &str, expected: &str) {
    assert_eq!(problems(text), [expected], "for:\n{text}");
}

fn document(kind: &str, spec: &str) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n"
    )
}

#[test]
fn the_documents_of_the_contract_are_all_valid() {
    let text = r#"
apiVersion: windlass.dev/v1alpha1
kind: Manager
metadata: {name: manager}
spec:
  local: {kubeconfig: ./hub.kubeconfig, context: hub}
  concurrency: {global: 64, perCluster: 8}
  admin: {address: 127.0.0.1:8080}
  drainTimeout: 30s
  leaderElection: {enabled: true, namespace: windlass, name: windlass, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 4s}
---
apiVersion: windlass.dev/v1alpha1
kind: Provider
metadata: {name: fleet}
spec:                                     # exactly one source of clusters
  kubeconfigFiles: {paths: [./clusters], globs: ["*.kubeconfig"]}
---
apiVersion: windlass.dev/v1alpha1
kind: Tenant
metadata: {name: team-a}
spec:
  weight: 1
  limits: {memory: 512Mi, concurrency: 32}
---
apiVersion: windlass.dev/v1alpha1
kind: Reconciler
metadata: {name: hello}
spec:
  tenant: team-a
  guest: {path: ../../guests/hello}
  clusters: {local: false, provider: true, names: ["*"]}
  rules:
    - {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, patch], namespaces: ["*"]}
    - {apiGroups: [""], resources: [configmaps], verbs: [get], namespaces: ["*"], clusters: {local: true, names: ["*"], selector: env=prod}}
  config: {greeting: hello}
  limits: {memory: 64Mi, timeout: 10s, concurrency: 4}
  isolation: fresh
"#;
    assert_eq!(problems(text), [] as [String; 0]);
}

#[test]
fn an_unknown_field_is_told_with_line_column_and_the_nearest_known_one() {
    assert_problem(
        &format!("{HELLO}  tenat: team-a\n  guest: {{path: x}}\n"),
        "windlass.yaml:5:3: unknown field \"tenat\" in spec of Reconciler hello: did you mean \"tenant\"?",
    );
    assert_problem(
        &format!("# comment\n---\n{HELLO}  guest: {{path: x}}\n  limits:\n    memry: 1Mi\n"),
        "windlass.yaml:9:5: unknown field \"memry\" in spec.limits of Reconciler hello: did you mean \"memory\"?",
    );
    assert_problem(
        &document("Tenant", "{rules: [{apiGroups: [\"\"], resource: [pods]}]}"),
        "windlass.yaml:4:34: unknown field \"resource\" in spec.rules[0] of Tenant x: did you mean \"resources\"?",
    );
    assert_problem(
        "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: x, namespace: y}\nspec: {}\n",
        "windlass.yaml:3:21: unknown field \"namespace\" in metadata of Tenant x: did you mean \"name\"?",
    );
    assert_problem(
        "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: x}\nspec: {}\nstatus: {}\n",
        "windlass.yaml:5:1: unknown field \"status\" in Tenant x: use one of apiVersion, kind, metadata, spec",
    );
}

#[test]
fn the_envelope_is_checked_first() {
    for (text, expected) in [
        (
            "kind: Tenant\n",
            "windlass.yaml:1:1: apiVersion is missing: write apiVersion: windlass.dev/v1alpha1",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\n",
            "windlass.yaml:1:1: kind is missing: write one of Manager, Provider, Tenant, Reconciler",
        ),
        (
            "apiVersion: windlass.dev/v1\nkind: Tenant\n",
            "windlass.yaml:1:13: apiVersion \"windlass.dev/v1\" is not known: write windlass.dev/v1alpha1",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
            "windlass.yaml:1:13: apiVersion \"v1\" is not known: write windlass.dev/v1alpha1",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\nkind: Reconcilers\n",
            "windlass.yaml:2:7: kind \"Reconcilers\" is not known: did you mean \"Reconciler\"?",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\nkind: Deployment\n",
            "windlass.yaml:2:7: kind \"Deployment\" is not known: use one of Manager, Provider, Tenant, Reconciler",
        ),
        (
            "just a text\n",
            "windlass.yaml:1:1: apiVersion is missing: write apiVersion: windlass.dev/v1alpha1",
        ),
        (
            "apiVersion: 1\nkind: Tenant\n",
            "windlass.yaml:1:13: apiVersion is not a text: write apiVersion: windlass.dev/v1alpha1",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {labels: {a: b}}\nspec: {}\n",
            "windlass.yaml:3:11: field \"name\" is missing in metadata of Tenant: add it",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nspec: {}\n",
            "windlass.yaml:1:1: field \"metadata\" is missing in Tenant: add it",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: Team A}\nspec: {}\n",
            "windlass.yaml:3:18: metadata.name of Tenant Team A: name \"Team A\" has the character 'T': use lower-case letters, digits, '-' and '.'",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: 7}\nspec: {}\n",
            "windlass.yaml:3:18: metadata.name of Tenant: expected a text, found 7",
        ),
    ] {
        assert_problem(text, expected);
    }
}

#[test]
fn wrong_values_are_told_with_their_path_and_what_to_write() {
    for (kind, spec, expected) in [
        (
            "Manager",
            "{drainTimeout: 10}",
            "4:22: spec.drainTimeout of Manager x: 10 has no unit: write for example 10s",
        ),
        (
            "Manager",
            "{drainTimeout: soon}",
            "4:22: spec.drainTimeout of Manager x: \"soon\" is not a duration: write numbers with units, for example 10s, 1m30s or 500ms",
        ),
        (
            "Manager",
            "{concurrency: {global: many}}",
            "4:30: spec.concurrency.global of Manager x: expected a whole number, 0 or more, found the text \"many\"",
        ),
        (
            "Manager",
            "{concurrency: {perCluster: 0}}",
            "4:34: spec.concurrency.perCluster of Manager x: expected 1 or more, found 0",
        ),
        (
            "Manager",
            "{concurrency: {kinds: {deployment: 2}}}",
            "4:29: spec.concurrency.kinds of Manager x: \"deployment\" is no kind: write it as Deployment.apps, or as ConfigMap for the core group",
        ),
        (
            "Manager",
            "{caches: {compareEvery: 1s}}",
            "4:31: spec.caches.compareEvery of Manager x: expected 10s or more, or 0s for never, found 1s",
        ),
        (
            "Manager",
            "{drainTimeout: 2h}",
            "4:22: spec.drainTimeout of Manager x: expected 0s to 1h, found 2h",
        ),
        (
            "Manager",
            "{transport: {callTimeout: 10ms}}",
            "4:33: spec.transport.callTimeout of Manager x: expected 1s to 10m, found 10ms",
        ),
        (
            "Manager",
            "{transport: {maxEvent: 1Gi}}",
            "4:30: spec.transport.maxEvent of Manager x: expected 1Mi to 256Mi, found 1Gi",
        ),
        (
            "Manager",
            "{transport: {requestsInFlight: 0}}",
            "4:38: spec.transport.requestsInFlight of Manager x: expected 1 or more, found 0",
        ),
        (
            "Manager",
            "{metrics: {clusters: 1000000}}",
            "4:28: spec.metrics.clusters of Manager x: expected 0 to 100000, found 1000000",
        ),
        (
            "Manager",
            "{admin: {address: localhost}}",
            "4:25: spec.admin.address of Manager x: \"localhost\" is not an address: write an IP and a port, for example 127.0.0.1:8080",
        ),
        (
            "Manager",
            "{admin: {probeAddress: localhost}}",
            "4:30: spec.admin.probeAddress of Manager x: \"localhost\" is not an address: write an IP and a port, for example 127.0.0.1:8080",
        ),
        (
            "Manager",
            "{admin: {allowHosts: [http:x]}}",
            "4:28: spec.admin.allowHosts of Manager x: \"http:x\" is not a name of a host: write it without scheme, port and wildcards, for example windlass.example.com",
        ),
        (
            "Manager",
            "{local: {kubeconfig: a, inCluster: true}}",
            "4:15: spec.local of Manager x: both kubeconfig and inCluster are given: keep one of them",
        ),
        (
            "Manager",
            "{local: {}}",
            "4:15: spec.local of Manager x: no cluster is named: give kubeconfig or inCluster: true",
        ),
        (
            "Manager",
            "{leaderElection: {enabled: true, leaseDuration: 10s}}",
            "4:24: spec.leaderElection of Manager x: a renew deadline of 10s leaves writes in flight no time before the lease ends after 10s: make it at most three quarters of the lease duration",
        ),
        (
            "Manager",
            "{sharding: {enabled: true, name: A}}",
            "4:40: spec.sharding.name of Manager x: \"A\" is no name of a sharding: use 1 to 63 lower-case letters, digits and '-', with a letter or a digit at both ends",
        ),
        (
            "Manager",
            "{leaderElection: {enabled: true}, sharding: {enabled: true}}",
            "4:51: spec.sharding of Manager x: leaderElection is enabled too: in an election one process works, with shards each does; keep one of them",
        ),
        (
            "Tenant",
            "{limits: {memory: lots}}",
            "4:25: spec.limits.memory of Tenant x: \"lots\" is not an amount of memory: write for example 512Mi or 1Gi",
        ),
        (
            "Tenant",
            "{weight: 0}",
            "4:16: spec.weight of Tenant x: expected 1 to 1000, found 0",
        ),
        (
            "Reconciler",
            "{}",
            "4:7: field \"guest\" is missing in spec of Reconciler x: add it",
        ),
        (
            "Reconciler",
            "{guest: hello.wasm}",
            "4:15: spec.guest of Reconciler x: expected a mapping, found the text \"hello.wasm\"",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, isolation: {reuse: {calls: 0}}}",
            "4:53: spec.isolation.reuse.calls of Reconciler x: expected 1 to 1000000, found 0",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, resync: 1s}",
            "4:34: spec.resync of Reconciler x: expected 10s or more, found 1s",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, isolation: frsh}",
            "4:37: spec.isolation of Reconciler x: \"frsh\" is not known: did you mean \"fresh\"?",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, limits: {memory: 1Ki}}",
            "4:43: spec.limits.memory of Reconciler x: expected 1Mi to 256Mi, found 1Ki",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, rules: [{apiGroups: [\"\"], resources: [pods], verbs: [gett], namespaces: [a]}]}",
            "4:79: spec.rules[0].verbs[0] of Reconciler x: \"gett\" is not a verb: did you mean \"get\"?",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, rules: [{apiGroups: [\"\"], resources: [ConfigMap], verbs: [get], namespaces: [a]}]}",
            "4:64: spec.rules[0].resources[0] of Reconciler x: \"ConfigMap\" is not a plural: write it as in URLs, for example \"configmaps\"",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get], namespaces: []}]}",
            "4:97: spec.rules[0].namespaces of Reconciler x: the list is empty, the rule grants nothing: write [\"*\"] for all",
        ),
        (
            "Reconciler",
            "{guest: {path: x}, tenant: Team}",
            "4:34: spec.tenant of Reconciler x: tenant name \"Team\" has the character 'T': use lower-case letters, digits, '-' and '.'",
        ),
    ] {
        assert_problem(&document(kind, spec), &format!("windlass.yaml:{expected}"));
    }
}

#[test]
fn a_name_stands_once_and_the_first_is_kept() {
    let tenant = document("Tenant", "{}");
    assert_problem(
        &format!("{tenant}---\n{tenant}"),
        "windlass.yaml:6:1: Tenant x: there is a Tenant of this name already at windlass.yaml:1: rename or remove one of them",
    );
    let manager =
        |name: &str| document("Manager", "{}").replace("name: x", &format!("name: {name}"));
    assert_problem(
        &format!("{}---\n{}", manager("a"), manager("b")),
        "windlass.yaml:6:1: Manager b: there is a Manager already at windlass.yaml:1: keep one of them",
    );
}

#[test]
fn broken_yaml_leaves_the_other_documents_alone() {
    let text = format!(
        "{}---\na: [\n---\n{}",
        document("Tenant", "{}"),
        document("Provider", "{single: {kubeconfig: a}}")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windlass.yaml");
    fs::write(&file, text).unwrap();
    let outcome = load(&[file]);
    assert_eq!(outcome.configuration.documents().len(), 2);
    let problem = outcome.bad[0].problem.to_string();
    assert!(problem.contains("this is not valid YAML: "), "{problem}");
    assert!(
        (6..=8).contains(&outcome.bad[0].problem.location.position.unwrap().line),
        "{problem}"
    );
}

#[test]
fn files_and_folders_that_cannot_be_read_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: std::path::PathBuf| load(&[path]).bad[0].problem.message.clone();
    assert_eq!(
        said(folder.path().join("nope.yaml")),
        "no such file: check the path"
    );
    assert_eq!(
        said(folder.path().to_path_buf()),
        "the folder has no .yaml or .yml file: add one or name a file"
    );
    let binary = folder.path().join("binary.yaml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    assert_eq!(said(binary), "is not UTF-8 text: save it as such");
}

#[test]
fn a_folder_stands_for_its_files_and_a_file_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b.yml"), document("Tenant", "{}")).unwrap();
    fs::write(
        folder.path().join("a.yaml"),
        document("Provider", "{single: {kubeconfig: a}}"),
    )
    .unwrap();
    fs::write(folder.path().join("notes.txt"), "not yaml: [").unwrap();
    fs::create_dir(folder.path().join("sub.yaml")).unwrap();
    let outcome = load(&[folder.path().to_path_buf(), folder.path().join("b.yml")]);
    assert_eq!(
        (outcome.configuration.documents().len(), outcome.bad.len()),
        (2, 0)
    );
    let provider = outcome.configuration.providers().next().unwrap().0;
    assert_eq!(
        provider.resolve(std::path::Path::new("./clusters")),
        folder.path().join("clusters")
    );
}
