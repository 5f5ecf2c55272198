//! What an inventory engages and disengages, from objects alone.

use super::clusters::{Clusters, View};
use super::{Desired, HubObject, Inventory, MOST_LABELS, Related, Watches, Wish};
use crate::cluster::ClusterConfig;
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::hub::Hub;
use crate::name::ClusterName;
use crate::request::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Records what it is asked.
#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<String>>,
    /// Names of another provider's clusters.
    taken: Mutex<BTreeSet<String>>,
}

impl Recorder {
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock())
    }
}

impl Engage for Recorder {
    fn engage(&self, spec: ClusterSpec) -> Result<(), EngageError> {
        if self.taken.lock().contains(spec.name.as_str()) {
            let by = "other".to_owned();
            let name = spec.name;
            return Err(EngageError::Duplicate { name, by });
        }
        let call = format!("+{} {}", spec.name, spec.config.server());
        self.calls.lock().push(call);
        Ok(())
    }

    fn disengage(&self, name: &ClusterName) {
        self.calls.lock().push(format!("-{name}"));
    }

    fn keep(&self, name: &ClusterName) {
        self.calls.lock().push(format!("={name}"));
    }

    fn listed(&self) {}
}

/// Objects that say which server they want, and counts how often it is asked.
#[derive(Default)]
struct Servers {
    asked: AtomicUsize,
}

#[derive(Deserialize)]
struct Wanted {
    server: Option<String>,
    #[serde(default)]
    unready: bool,
    #[serde(default)]
    leaves: bool,
}

impl Inventory for Servers {
    fn watch(&self, _: &Hub) -> Watches {
        unreachable!("the test gives the objects")
    }

    fn desired(&self, object: &HubObject, related: &[HubObject]) -> Desired {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let wanted: Wanted = related.first().unwrap_or(object).parse().unwrap();
        if wanted.leaves {
            return Desired::leave();
        }
        let name = ClusterName::new(&object.key().name).unwrap();
        let Some(server) = wanted.server else {
            return Desired::keep(name, "it names no server");
        };
        let config = ClusterConfig::from_url(&server).unwrap();
        let spec = ClusterSpec::new(name, config);
        if wanted.unready {
            Desired::refresh(spec, "it is not ready")
        } else {
            Desired::engage(spec)
        }
    }
}

fn object(name: &str, server: Option<&str>) -> HubObject {
    HubObject::of(&json!({"metadata": {"name": name, "namespace": "ns"}, "server": server}))
}

fn marked(name: &str, server: &str, mark: &str) -> HubObject {
    HubObject::of(
        &json!({"metadata": {"name": name, "namespace": "ns"}, "server": server, mark: true}),
    )
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

const A: &str = "http://a.example/";
const B: &str = "http://b.example/";

/// The clusters of a hub whose lists are all in.
#[derive(Default)]
struct Stage {
    servers: Servers,
    clusters: Clusters,
    engage: Recorder,
}

impl Stage {
    fn round(&mut self, view: View) -> Vec<String> {
        assert!(
            self.clusters
                .bring_in_line(&self.servers, view, &self.engage)
        );
        self.engage.calls()
    }

    /// A round in which these objects are there, and no others.
    fn sees(&mut self, objects: &[&HubObject]) -> Vec<String> {
        let known = self.clusters.keys().cloned().collect();
        let objects = objects.iter().map(|object| ((*object).clone(), true));
        self.round(View::new(known, objects.collect(), Related::default()))
    }

    fn problems(&self) -> Vec<String> {
        let problems = self.clusters.problems();
        problems
            .map(|problem| format!("{}: {}", problem.subject, problem.message))
            .collect()
    }

    fn asked(&self) -> usize {
        self.servers.asked.swap(0, Ordering::SeqCst)
    }
}

#[test]
fn clusters_come_change_and_go_with_their_objects() {
    let mut stage = Stage::default();
    let (one, two) = (object("one", Some(A)), object("two", Some(B)));
    assert_eq!(
        stage.sees(&[&one, &two]),
        ["+one http://a.example/", "+two http://b.example/"]
    );
    assert_eq!(stage.sees(&[&one, &two]), [""; 0]);
    let moved = object("one", Some(B));
    assert_eq!(stage.sees(&[&moved, &two]), ["+one http://b.example/"]);
    assert_eq!(stage.sees(&[&two]), ["-one"]);
    assert!(stage.problems().is_empty());
}

#[test]
fn only_changed_objects_are_computed_again_and_equal_results_change_nothing() {
    let mut stage = Stage::default();
    let (one, two) = (object("one", Some(A)), object("two", Some(B)));
    stage.sees(&[&one, &two]);
    assert_eq!(stage.asked(), 2);
    let touched = object("one", Some(A));
    assert_eq!(stage.sees(&[&touched, &two]), [""; 0]);
    assert_eq!(stage.asked(), 1);
}

#[test]
fn an_object_that_cannot_be_used_keeps_its_last_good_cluster_and_hides_no_other() {
    let mut stage = Stage::default();
    let good = object("one", Some(A));
    stage.sees(&[&good]);
    let (broken, two) = (object("one", None), object("two", Some(B)));
    assert_eq!(stage.sees(&[&broken, &two]), ["+two http://b.example/"]);
    assert_eq!(
        stage.problems(),
        ["ns/one: it names no server; its last good cluster stays"]
    );
    assert_eq!(stage.sees(&[&two]), ["-one"], "a delete counts");
    let never_good = object("three", None);
    assert_eq!(stage.sees(&[&never_good, &two]), ["=three"]);
    assert_eq!(stage.problems(), ["ns/three: it names no server"]);
}

#[test]
fn an_absent_object_counts_only_where_its_list_is_in() {
    let mut stage = Stage::default();
    let (one, two) = (object("one", Some(A)), object("two", Some(B)));
    stage.sees(&[&one, &two]);
    let nothing_known = View::new(BTreeSet::new(), Vec::new(), Related::default());
    assert_eq!(stage.round(nothing_known), [""; 0]);
    let one_known = View::new([key("one")].into(), Vec::new(), Related::default());
    assert_eq!(stage.round(one_known), ["-one"]);
}

#[test]
fn an_object_whose_related_objects_are_not_listed_changes_nothing() {
    let mut stage = Stage::default();
    let one = object("one", Some(A));
    let view = |complete, related| View::new([].into(), vec![(one.clone(), complete)], related);
    assert_eq!(stage.round(view(false, Related::default())), [""; 0]);
    let secret = |server| BTreeMap::from([(key("one"), vec![object("secret", Some(server))])]);
    assert_eq!(
        stage.round(view(true, secret(A))),
        ["+one http://a.example/"]
    );
    assert_eq!(stage.round(view(false, Related::default())), [""; 0]);
    // The related object alone has changed.
    assert_eq!(
        stage.round(view(true, secret(B))),
        ["+one http://b.example/"]
    );
}

#[test]
fn a_cluster_that_is_not_ready_is_renewed_but_not_engaged() {
    let mut stage = Stage::default();
    let unready = |server| marked("one", server, "unready");
    assert_eq!(stage.sees(&[&unready(A)]), ["=one"]);
    assert_eq!(stage.problems(), ["ns/one: it is not ready"]);
    let ready = object("one", Some(A));
    assert_eq!(stage.sees(&[&ready]), ["+one http://a.example/"]);
    assert_eq!(stage.sees(&[&unready(B)]), ["+one http://b.example/"]);
    assert!(stage.problems().is_empty());
}

#[test]
fn an_object_can_ask_for_its_cluster_to_leave() {
    let mut stage = Stage::default();
    let ready = object("one", Some(A));
    stage.sees(&[&ready]);
    let leaves = marked("one", A, "leaves");
    assert_eq!(stage.sees(&[&leaves]), ["-one"]);
    assert_eq!(stage.sees(&[&leaves]), [""; 0]);
    assert_eq!(stage.sees(&[&ready]), ["+one http://a.example/"]);
}

#[test]
fn a_name_that_another_provider_has_is_reported_and_asked_for_again() {
    let mut stage = Stage::default();
    stage.engage.taken.lock().insert("one".to_owned());
    let one = object("one", Some(A));
    assert_eq!(stage.sees(&[&one]), [""; 0]);
    let problems = stage.problems();
    assert!(
        problems[0].starts_with("one: cluster \"one\" is provided by other already"),
        "{problems:?}"
    );
    stage.engage.taken.lock().clear();
    assert_eq!(stage.sees(&[&one]), ["+one http://a.example/"]);
    assert!(stage.problems().is_empty());
}

#[test]
fn the_next_run_engages_everything_again_the_last_good_clusters_too() {
    let mut stage = Stage::default();
    let (one, two) = (object("one", Some(A)), object("two", Some(B)));
    stage.sees(&[&one, &two]);
    let broken = object("one", None);
    stage.sees(&[&broken, &two]);
    stage.clusters.begin_run();
    assert_eq!(
        stage.sees(&[&broken, &two]),
        ["+one http://a.example/", "+two http://b.example/"]
    );
}

#[test]
fn labels_beyond_the_most_that_a_cluster_may_have_are_reported() {
    let config = ClusterConfig::from_url(A).unwrap();
    let mut spec = ClusterSpec::new(ClusterName::new("one").unwrap(), config);
    spec.labels = (0..=MOST_LABELS)
        .map(|n| (format!("label-{n:03}"), String::new()))
        .collect::<BTreeMap<_, _>>()
        .into();
    let Desired { wish, problem } = Desired::engage(spec);
    let Wish::Engage(spec) = wish else {
        unreachable!("it was to be engaged")
    };
    assert_eq!(spec.labels.len(), MOST_LABELS);
    assert!(problem.unwrap().starts_with("it has 101 labels"));
}
