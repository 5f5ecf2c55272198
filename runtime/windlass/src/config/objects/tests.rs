//! What objects of a cluster and documents in files make together.

use super::*;
use crate::config::load::load;
use serde_json::json;
use std::fs;

const MANAGER: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: Manager
metadata: {name: manager}
spec:
  guests: {hello: {path: ./hello.wasm}}
  accessProviders: [{name: cloud, execConfig: {command: ./bin/token}, profileSourcedEnvVarsPolicy: Replace}]
";

struct World {
    folder: tempfile::TempDir,
    accepted: Accepted,
    objects: Objects,
    /// When objects of a name were created.
    created: BTreeMap<String, String>,
    last: Configuration,
    problems: Vec<String>,
    kept: usize,
    lacks_provider: bool,
}

impl World {
    fn new(files: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let names = ["team-a", "team-b", "nobody"];
        let named = |name: &str| {
            (
                name.to_owned(),
                [("team".to_owned(), name.to_owned())].into(),
            )
        };
        let mut world = Self {
            folder,
            accepted: Accepted::default(),
            objects: Objects {
                namespaces: names.map(named).into(),
                ..Objects::default()
            },
            created: BTreeMap::new(),
            last: Configuration::default(),
            problems: Vec::new(),
            kept: 0,
            lacks_provider: false,
        };
        world.write(files);
        world
    }

    /// Writes the file, with these documents after the Manager.
    fn write(&mut self, documents: &str) {
        let text = format!("{MANAGER}---\n{documents}");
        fs::write(self.folder.path().join("w.yaml"), text).unwrap();
    }

    fn put(&mut self, kind: Kind, name: &str, spec: Json) -> &mut Self {
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, name),
        };
        let now = format!("2026-01-01T00:00:{:02}Z", self.created.len());
        let object = Object {
            kind,
            uid: format!("{kind} {namespace:?} {name}"),
            namespace,
            name: name.to_owned(),
            generation: 1,
            created: self.created.entry(name.to_owned()).or_insert(now).clone(),
            recorded_tenant: None,
            record: Arc::default(),
            pauses: Pauses::default(),
            is_deleting: false,
            spec: Some(spec),
        };
        let identity = object.identity();
        self.objects.objects.retain(|of| of.identity() != identity);
        self.objects.objects.push(object);
        self
    }

    fn tenant(&mut self, name: &str, namespaces: &[&str]) -> &mut Self {
        self.put(
            Kind::Tenant,
            name,
            json!({"namespaces": {"names": namespaces}}),
        )
    }

    fn reconciler(&mut self, name: &str) -> &mut Self {
        self.put(Kind::Reconciler, name, json!({"guest": {"name": "hello"}}))
    }

    fn remove(&mut self, name: &str) {
        self.objects.objects.retain(|of| of.identity().name != name);
    }

    /// Reloads, and returns the reason of each object that is not in effect as it is.
    fn join(&mut self) -> BTreeMap<String, &'static str> {
        let files = load(&[self.folder.path().join("w.yaml")]);
        let (merged, verdicts) = self.accepted.join(&self.last, files, &self.objects);
        self.lacks_provider = merged.left_out(Kind::Provider).is_some();
        self.last = merged.configuration;
        self.problems = merged.problems.iter().map(ToString::to_string).collect();
        self.kept = merged.kept.len();
        let refused = verdicts.iter().filter_map(|verdict| {
            let name = verdict.object.identity().name;
            Some((name, verdict.refused.as_ref()?.reason))
        });
        refused.collect()
    }

    /// The reconcilers in effect with their tenants.
    fn running(&self) -> Vec<String> {
        let one = |(document, spec): (&Document, &crate::config::kinds::ReconcilerSpec)| {
            format!("{} of {}", document.identity.name, spec.tenant())
        };
        self.last.reconcilers().map(one).collect()
    }

    fn config(&self, name: &str) -> Json {
        let mut all = self.last.reconcilers();
        let found = all.find(|(document, _)| document.identity.name == name);
        found
            .and_then(|(_, spec)| spec.config.clone())
            .unwrap_or_default()
    }
}

fn reasons(of: &[(&str, &'static str)]) -> BTreeMap<String, &'static str> {
    of.iter()
        .map(|(name, reason)| ((*name).to_owned(), *reason))
        .collect()
}

#[test]
fn a_reconciler_belongs_to_the_tenant_of_its_namespace() {
    let mut world = World::new("");
    world
        .tenant("a", &["team-a"])
        .reconciler("team-a/x")
        .reconciler("team-b/x");
    assert_eq!(world.join(), reasons(&[("team-b/x", "NoTenant")]));
    assert_eq!(world.running(), ["team-a/x of a"]);
    world.put(
        Kind::Tenant,
        "b",
        json!({"namespaces": {"selector": "team=team-b"}}),
    );
    // It cannot name another one.
    let spec = json!({"tenant": "a", "guest": {"name": "hello"}});
    world.put(Kind::Reconciler, "team-b/y", spec);
    assert_eq!(world.join(), reasons(&[("team-b/y", "Invalid")]));
    assert_eq!(world.running(), ["team-a/x of a", "team-b/x of b"]);
}

#[test]
fn a_namespace_stays_with_the_tenant_that_has_it_until_that_one_gives_it_up() {
    let mut world = World::new("");
    world.tenant("m", &["team-a"]).reconciler("team-a/x").join();
    assert_eq!(world.running(), ["team-a/x of m"]);
    // A new Tenant, one that claims it in a change, and one of a file: whatever their age and name are.
    world.tenant("b", &["nobody"]).join();
    world.tenant("b", &["team-a"]);
    world.put(
        Kind::Tenant,
        "a",
        json!({"namespaces": {"selector": "team=team-a"}}),
    );
    world.write("apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: c}\nspec: {namespaces: {names: [team-a]}}\n");
    assert_eq!(world.join(), reasons(&[]));
    assert_eq!(world.running(), ["team-a/x of m"]);
    let told = |problem: &&String| problem.contains("the Tenant m has the namespace team-a");
    assert_eq!(world.problems.iter().filter(told).count(), 3);
    // Then the next one has it: of a file, the older one, and at last none.
    world.tenant("m", &["nobody"]).join();
    assert_eq!(world.running(), ["team-a/x of c"]);
    world.write("");
    world.join();
    assert_eq!(world.running(), ["team-a/x of b"]);
    world.tenant("m", &["team-a"]).join();
    assert_eq!(world.running(), ["team-a/x of b"]);
    world.remove("b");
    world.join();
    assert_eq!(world.running(), ["team-a/x of m"]);
    world.remove("m");
    world.join();
    assert_eq!(world.running(), ["team-a/x of a"]);
    world.remove("a");
    assert_eq!(world.join(), reasons(&[("team-a/x", "NoTenant")]));
    assert_eq!(world.running(), [] as [String; 0]);
}

#[test]
fn another_process_takes_the_tenant_that_has_a_namespace_from_the_status() {
    let mut world = World::new("");
    world.tenant("old", &["team-a", "team-b"]);
    world.tenant("new", &["team-a", "team-b"]);
    world.reconciler("team-a/x").reconciler("team-b/x");
    for (recorded, expected) in [
        (None, "old"),
        (Some("new"), "new"),
        (Some("without-a-claim"), "old"),
    ] {
        world.accepted = Accepted::default();
        let on_a = |object: &&mut Object| object.namespace.as_deref() == Some("team-a");
        for object in world.objects.objects.iter_mut().filter(on_a) {
            object.recorded_tenant = recorded.map(str::to_owned);
        }
        world.join();
        let of_a = format!("team-a/x of {expected}");
        assert_eq!(world.running(), [&*of_a, "team-b/x of old"]);
    }
}

#[test]
fn of_two_tenants_in_files_the_first_one_has_a_namespace_at_a_start() {
    let tenant = |name: &str| {
        format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec: {{namespaces: {{names: [team-a]}}}}\n"
        )
    };
    for (first, second) in [("a", "b"), ("b", "a")] {
        let mut world = World::new(&format!("{}---\n{}", tenant(first), tenant(second)));
        world.tenant("object", &["team-a"]).reconciler("team-a/x");
        world.join();
        assert_eq!(world.running(), [format!("team-a/x of {first}")]);
    }
}

#[test]
fn a_bad_version_keeps_the_last_good_one_under_the_tenant_of_now() {
    let mut world = World::new("");
    world.tenant("a", &["team-a"]).reconciler("team-a/x").join();
    let bad = json!({"guest": {"name": "hello"}, "resync": "1s"});
    world.put(Kind::Reconciler, "team-a/x", bad);
    assert_eq!(world.join(), reasons(&[("team-a/x", "Invalid")]));
    assert_eq!(
        (world.running(), world.kept),
        (vec!["team-a/x of a".to_owned()], 1)
    );
    assert!(
        world.problems[0].starts_with("the local cluster: spec.resync of Reconciler team-a/x: ")
    );
    world.remove("a");
    world.tenant("b", &["team-a"]).join();
    assert_eq!(world.running(), ["team-a/x of b"]);
    world.put(
        Kind::Reconciler,
        "team-a/x",
        json!({"guest": {"name": "none"}}),
    );
    assert_eq!(world.join(), reasons(&[("team-a/x", "UnknownGuest")]));
    assert_eq!(world.running(), ["team-a/x of b"]);
    // Another object of the name has no version yet.
    world.objects.objects.last_mut().unwrap().uid = "another".to_owned();
    world.join();
    assert_eq!(world.running(), [] as [String; 0]);
}

#[test]
fn of_a_file_and_an_object_of_one_name_the_file_counts() {
    let file = "apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: a}\nspec: {weight: 7}\n---\n\
                apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: p}\nspec: {none: {}}\n";
    let mut world = World::new(file);
    world.tenant("a", &["team-a"]).reconciler("team-a/x");
    world.put(Kind::Provider, "p", json!({"namespaces": {}}));
    world.put(Kind::Provider, "q", json!({"none": {}}));
    let expected = reasons(&[
        ("a", "DefinedInFile"),
        ("p", "DefinedInFile"),
        ("team-a/x", "NoTenant"),
    ]);
    assert_eq!(world.join(), expected);
    assert_eq!(world.last.tenant("a").unwrap().1.weight(), 7);
    assert!(world.last.provider("p").unwrap().1.is_none());
    assert!(world.last.provider("q").is_some());
    // Nor does the object count while the file's document is not valid.
    let path = world.folder.path().join("w.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("weight: 7", "weight: 0")).unwrap();
    assert_eq!(world.join(), expected);
    assert_eq!(world.last.tenant("a").unwrap().1.weight(), 7);
}

#[test]
fn a_provider_uses_the_access_providers_of_the_managers_file_by_name() {
    let mut world = World::new("");
    let named = |name: &str| json!({"clusterProfiles": {"accessProviders": [{"name": name}]}});
    world.put(Kind::Provider, "p", named("cloud"));
    world.put(Kind::Provider, "q", named("other"));
    let mut more = named("cloud");
    more["clusterProfiles"]["accessProviders"][0]["profileSourcedCLIArgsPolicy"] = "Append".into();
    world.put(Kind::Provider, "r", more);
    let expected = reasons(&[("q", "UnknownAccessProvider"), ("r", "Invalid")]);
    assert_eq!(world.join(), expected);
    let (_, spec) = world.last.provider("p").unwrap();
    let profiles = spec.cluster_profiles.as_ref().unwrap();
    let exec = profiles.access_providers.as_ref().unwrap()[0]
        .exec_config
        .as_ref();
    let expected = world.folder.path().join("bin/token");
    assert_eq!(exec.unwrap().command, expected.to_string_lossy());
    let variables = profiles.access_providers.as_ref().unwrap()[0].variables;
    assert_eq!(variables, ProfileEnvPolicy::Replace, "as the file says");
}

#[test]
fn values_are_merged_into_the_config_and_are_in_no_problem() {
    let mut world = World::new("");
    let sources = json!([{"secret": "token", "key": "c"}, {"configMap": "more", "key": "c"}]);
    let spec = json!({
        "guest": {"name": "hello"}, "config": {"a": 1, "deep": {"x": 1, "y": 1}}, "configFrom": sources,
    });
    world
        .tenant("a", &["team-a"])
        .put(Kind::Reconciler, "team-a/x", spec);
    assert_eq!(world.join(), reasons(&[("team-a/x", "ConfigUnavailable")]));
    assert_eq!(world.running(), [] as [String; 0]);
    assert_eq!(
        world.problems,
        [] as [String; 0],
        "it may only be a matter of time"
    );
    let source = |kind: &'static str, name: &str| ValueSource {
        kind,
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    };
    let text = |text: &str| Values::Present([("c".to_owned(), text.to_owned())].into());
    let (token, more) = (source("Secret", "token"), source("ConfigMap", "more"));
    let named: Vec<ValueSource> = world.objects.objects[1].sources().collect();
    assert_eq!(named, [token.clone(), more.clone()]);
    let values = &mut world.objects.values;
    values.insert(token.clone(), text("deep: {y: hunter2}\nb: [1]\n"));
    values.insert(more.clone(), text("{\"b\": 2, \"note\": \"plain\"}"));
    assert_eq!(world.join(), reasons(&[]));
    let config = json!({"a": 1, "deep": {"x": 1, "y": "hunter2"}, "b": 2, "note": "plain"});
    assert_eq!(world.config("team-a/x"), config);
    let hidden: Vec<_> = world
        .last
        .reconcilers()
        .map(|it| it.1.secrets.clone())
        .collect();
    assert_eq!(hidden, [["hunter2"]], "recordings hide what is of Secrets");
    // A value that cannot be used keeps the last good config, and is not shown.
    for bad in [
        Values::Absent,
        Values::Unreadable("forbidden".to_owned()),
        Values::Present(BTreeMap::new()),
        text("hunter2"),
        text("hunter2: [\n"),
        text("a: 1\n---\nhunter2: 1\n"),
    ] {
        world.objects.values.insert(token.clone(), bad);
        assert_eq!(world.join(), reasons(&[("team-a/x", "ConfigUnavailable")]));
        assert!(
            !world.problems[0].contains("hunter2"),
            "{:?}",
            world.problems
        );
        assert_eq!(world.config("team-a/x"), config);
    }
    world.objects.values.insert(token, text("b: 1\n"));
    assert_eq!(world.join(), reasons(&[]));
    assert_eq!(world.config("team-a/x")["deep"]["y"], 1);
}

#[test]
fn an_object_that_is_being_deleted_is_not_in_effect() {
    let mut world = World::new("");
    world.tenant("a", &["team-a"]).reconciler("team-a/x").join();
    world.objects.objects.last_mut().unwrap().is_deleting = true;
    world.join();
    assert_eq!(world.running(), [] as [String; 0]);
}

#[test]
fn a_tenants_namespaces_are_counted_as_they_exist() {
    let mut world = World::new("");
    world.tenant("a", &["team-a", "later"]);
    let files = load(&[world.folder.path().join("w.yaml")]);
    let (_, verdicts) = world.accepted.join(&world.last, files, &world.objects);
    let holding = Holding {
        namespaces: 1,
        ..Holding::default()
    };
    assert_eq!(verdicts[0].holding, holding);
}

#[test]
fn a_namespace_that_two_tenants_claim_is_told_of_both() {
    let mut world = World::new("");
    world
        .tenant("a", &["team-a", "team-b", "nobody"])
        .tenant("b", &["team-a", "team-b"])
        .tenant("c", &["none"]);
    let files = load(&[world.folder.path().join("w.yaml")]);
    let (_, verdicts) = world.accepted.join(&world.last, files, &world.objects);
    let [a, b, c] = [0, 1, 2].map(|index: usize| verdicts[index].holding.clone());
    assert_eq!([a.namespaces, b.namespaces, c.namespaces], [3, 0, 0]);
    assert_eq!((&a.refused, &b.kept, &c.kept), (&None, &None, &None));
    let more = "(and 1 more such namespaces)";
    for (text, other) in [
        (a.kept.map(|of| of.kept()), "b"),
        (b.refused.map(|of| of.refused()), "a"),
    ] {
        let text = text.unwrap_or_default();
        let expected = format!("the Tenant {other} ");
        assert!(text.starts_with(&expected) && text.contains(more), "{text}");
    }
}

#[test]
fn a_refused_object_without_an_earlier_version_does_not_have_the_defaults() {
    // A Reconciler in a file, of the tenant `default`, whose rules an object has.
    let mut world = World::new(
        "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {name: f}\nspec: {guest: {path: f.wasm}}\n",
    );
    world.join();
    assert_eq!(
        (world.running(), world.lacks_provider),
        (vec!["f of default".to_owned()], false)
    );

    world.last = Configuration::default();
    world.put(Kind::Tenant, "default", json!({"weight": 0}));
    world.put(Kind::Provider, "fleet", json!({"kubeconfigSecret": {}}));
    let refused = world.join();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!((world.running(), world.lacks_provider), (Vec::new(), true));
    assert_eq!(
        (world.problems.len(), world.kept),
        (3, 0),
        "{:?}",
        world.problems
    );

    world.put(Kind::Tenant, "default", json!({"weight": 1}));
    world.put(Kind::Provider, "fleet", json!({"none": {}}));
    world.join();
    assert_eq!(
        (world.running(), world.lacks_provider),
        (vec!["f of default".to_owned()], false)
    );
    // What was accepted stays.
    world.put(Kind::Tenant, "default", json!({"weight": 0}));
    world.put(Kind::Provider, "fleet", json!({"kubeconfigSecret": {}}));
    world.join();
    assert_eq!(
        (world.running(), world.lacks_provider),
        (vec!["f of default".to_owned()], false)
    );
    assert_eq!(world.kept, 2);
    // But not for another object of the name.
    for object in &mut world.objects.objects {
        object.uid.push_str(" again");
    }
    world.join();
    assert_eq!((world.running(), world.lacks_provider), (Vec::new(), true));
}
