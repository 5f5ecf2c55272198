//! Tests of the guest, in clusters in memory.

use super::*;
use crate::account::{Role, RoleBinding, ServiceAccount};
use crate::kinds::{Binding, Namespace};
use crate::place::{NAMESPACE, WORKSPACE};
use serde_json::{Value, json};
use windlass_sdk::testing::{TestCluster, TestFleet, Verb};

/// Names of logical clusters.
const BLUE: &str = "1x2y3z";
const GREEN: &str = "4u5v6w";

struct Stage {
    fleet: TestFleet,
    compute: TestCluster,
    blue: TestCluster,
    key: ObjectKey,
}

/// A consumer's object with its password, in one workspace.
fn stage() -> Stage {
    let fleet = TestFleet::new();
    fleet.define(&Database::KIND.into(), true);
    fleet.define(&Binding::KIND.into(), false);
    let (compute, blue) = (fleet.cluster(""), fleet.cluster(BLUE));
    ask(&blue);
    let key = ObjectKey::namespaced("default", "db");
    Stage {
        fleet,
        compute,
        blue,
        key,
    }
}

fn database() -> Value {
    json!({
        "apiVersion": "mongodbcommunity.mongodb.com/v1", "kind": "MongoDBCommunity",
        "metadata": {"namespace": "default", "name": "db"},
        "spec": {"members": 3, "type": "ReplicaSet", "version": "6.0.5", "users": [{"name": "admin", "db": "admin",
            "passwordSecretRef": {"name": "pw"}, "roles": [{"name": "clusterAdmin", "db": "admin"}]}]},
    })
}

fn secret(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}, "data": {"password": value}})
}

fn ask(workspace: &TestCluster) {
    workspace.put(database());
    workspace.put(secret("default", "pw", "b25l"));
}

fn copy_of(workspace: &str) -> ObjectKey {
    ObjectKey::namespaced(format!("default-{workspace}"), "db")
}

fn away() -> ApiError {
    ApiError::new(ApiCode::Unavailable, "no server")
}

impl Stage {
    fn reconcile(&self) -> Result<Action> {
        self.blue.reconcile::<Service>(&self.key)
    }

    fn copy(&self) -> Option<Database> {
        self.compute.object(&copy_of(BLUE))
    }

    fn ready(&self) -> (String, String, String) {
        let database: Database = self.blue.object(&self.key).unwrap();
        let condition = &database.status["conditions"][0];
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    fn reason(&self) -> String {
        self.ready().1
    }

    /// As the operator does.
    fn run(&self) {
        self.compute.edit::<Database>(&copy_of(BLUE), |copy| {
            copy.status = json!({"phase": "Running", "version": "6.0.5"});
        });
        self.compute.put(secret(
            &format!("default-{BLUE}"),
            "db-admin-admin",
            "c3RyaW5n",
        ));
    }

    fn delete(&self) {
        self.blue.client().delete::<Database>(&self.key).unwrap();
    }

    fn running() -> Self {
        let stage = stage();
        stage.reconcile().unwrap();
        stage.run();
        stage.reconcile().unwrap();
        stage
    }
}

#[test]
fn what_is_asked_for_goes_down_and_what_came_of_it_comes_back() {
    let stage = stage();
    stage.reconcile().unwrap();
    let copy = stage.copy().unwrap();
    assert_eq!(
        copy.spec["users"][0]["scramCredentialsSecretName"],
        "db-admin"
    );
    let password: Secret = stage.compute.object(&copy_of(BLUE).sibling("pw")).unwrap();
    assert_eq!(password.data["password"], "b25l");
    assert_eq!(stage.reason(), "Provisioning");
    // Its pods run as this account, without which a server refuses them.
    let account = copy_of(BLUE).sibling("mongodb-database");
    assert!(stage.compute.object::<ServiceAccount>(&account).is_some());
    let role: Role = stage.compute.object(&account).unwrap();
    assert_eq!(role.rules[0]["resources"], json!(["secrets"]));
    let binding: RoleBinding = stage.compute.object(&account).unwrap();
    assert_eq!(binding.role_ref["name"], "mongodb-database");
    assert_eq!(binding.subjects[0]["name"], "mongodb-database");

    stage.run();
    stage.reconcile().unwrap();
    let (status, reason, _) = stage.ready();
    assert_eq!((&*status, &*reason), ("True", "Running"));
    let database: Database = stage.blue.object(&stage.key).unwrap();
    assert_eq!(
        (&database.status["phase"], database.is_held()),
        (&json!("Running"), true)
    );
    let strings: Secret = stage
        .blue
        .object(&stage.key.sibling("db-admin-admin"))
        .unwrap();
    assert_eq!(strings.data["password"], "c3RyaW5n");
    let idle = (
        stage.blue.reconciled_writes::<Service>(&stage.key),
        stage.compute.writes(),
    );
    assert_eq!((idle.0, stage.compute.writes()), (Ok(0), idle.1));
}

#[test]
fn objects_of_the_same_name_never_meet() {
    let stage = stage();
    let green = stage.fleet.cluster(GREEN);
    ask(&green);
    let mut other = database();
    other["metadata"]["namespace"] = json!("other");
    stage.blue.put(other);
    stage.blue.put(secret("other", "pw", "dHdv"));
    stage.reconcile().unwrap();
    green.reconcile::<Service>(&stage.key).unwrap();
    let beside = ObjectKey::namespaced("other", "db");
    stage.blue.reconcile::<Service>(&beside).unwrap();
    let there = |key: &ObjectKey| stage.compute.object::<Database>(key).is_some();
    let other = ObjectKey::namespaced(format!("other-{BLUE}"), "db");
    assert!(there(&copy_of(BLUE)) && there(&copy_of(GREEN)) && there(&other));
}

#[test]
fn drift_is_corrected_on_either_side() {
    let stage = Stage::running();
    stage.compute.edit::<Database>(&copy_of(BLUE), |copy| {
        copy.spec["members"] = json!(7);
        copy.spec["more"] = json!("of it");
    });
    stage
        .compute
        .edit::<Secret>(&copy_of(BLUE).sibling("pw"), |secret| secret.data.clear());
    stage
        .blue
        .remove::<Secret>(&stage.key.sibling("db-admin-admin"));
    stage.reconcile().unwrap();
    let copy = stage.copy().unwrap();
    assert_eq!(
        (&copy.spec["members"], copy.spec.get("more")),
        (&json!(3), None)
    );
    let password: Secret = stage.compute.object(&copy_of(BLUE).sibling("pw")).unwrap();
    assert_eq!(password.data.len(), 1);
    assert!(
        stage
            .blue
            .object::<Secret>(&stage.key.sibling("db-admin-admin"))
            .is_some()
    );

    stage.compute.remove::<Database>(&copy_of(BLUE));
    stage.reconcile().unwrap();
    assert!(stage.copy().is_some());
}

#[test]
fn a_password_is_asked_for_and_a_new_one_goes_down() {
    let stage = stage();
    stage.blue.remove::<Secret>(&stage.key.sibling("pw"));
    assert_eq!(stage.reconcile(), Ok(Action::Done));
    let (_, reason, message) = stage.ready();
    assert!(
        reason == "PasswordMissing" && message.contains("\"password\" of the Secret \"pw\""),
        "{message}"
    );
    assert!(stage.copy().is_none());

    stage.blue.put(secret("default", "pw", "dHdv"));
    let changed = Object(secret("default", "pw", "dHdv"));
    let asked = stage
        .blue
        .map::<Service>(&Secret::KIND.into(), &[changed])
        .unwrap();
    assert_eq!(asked[0].to_string(), format!("cluster://{BLUE}/default/db"));
    stage.reconcile().unwrap();
    let password: Secret = stage.compute.object(&copy_of(BLUE).sibling("pw")).unwrap();
    assert_eq!(password.data["password"], "dHdv");

    // Another Secret takes its place, and the one before does not stay behind.
    stage.blue.put(secret("default", "pw2", "dGhyZWU="));
    stage.blue.edit::<Database>(&stage.key, |database| {
        database.spec["users"][0]["passwordSecretRef"]["name"] = json!("pw2");
    });
    stage.reconcile().unwrap();
    let there = |name: &str| {
        stage
            .compute
            .object::<Secret>(&copy_of(BLUE).sibling(name))
            .is_some()
    };
    assert!(there("pw2") && !there("pw"));
}

#[test]
fn an_event_of_the_compute_cluster_asks_for_the_object_of_the_consumer() {
    let stage = Stage::running();
    let wanted = format!("cluster://{BLUE}/default/db");
    let copy = stage
        .compute
        .objects()
        .into_iter()
        .find(|object| object.label(NAMESPACE).is_some() && object.at("/spec").is_some());
    let of_copy = stage
        .compute
        .map::<Service>(&Database::KIND.into(), &[copy.unwrap()])
        .unwrap();
    let strings = Object(secret(&format!("default-{BLUE}"), "db-admin-admin", "x"));
    let of_secret = stage
        .compute
        .map::<Service>(&Secret::KIND.into(), &[strings])
        .unwrap();
    assert_eq!(
        (of_copy[0].to_string(), of_secret[0].to_string()),
        (wanted.clone(), wanted)
    );
    let foreign = Object(secret("kube-system", "db-admin-admin", "x"));
    let none = stage
        .compute
        .map::<Service>(&Secret::KIND.into(), &[foreign])
        .unwrap();
    assert!(none.is_empty());
}

#[test]
fn an_object_goes_when_its_copy_is_gone() {
    let stage = Stage::running();
    stage.compute.edit::<Database>(&copy_of(BLUE), |copy| {
        copy.metadata.finalizers = vec!["operator/x".into()]
    });
    stage.delete();
    assert_eq!(stage.reconcile(), Ok(Action::Done));
    assert_eq!(stage.reason(), "Deleting");
    let done = json!({"metadata": {"finalizers": []}});
    let operator = stage.compute.client();
    operator.patch::<Database>(&copy_of(BLUE), &done).unwrap();
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Database>(&stage.key).is_none());
    let namespace = ObjectKey::cluster_scoped(format!("default-{BLUE}"));
    assert!(stage.compute.object::<Namespace>(&namespace).is_none());
    assert!(
        stage
            .blue
            .object::<Secret>(&stage.key.sibling("db-admin-admin"))
            .is_none()
    );
    assert!(
        stage
            .blue
            .object::<Secret>(&stage.key.sibling("pw"))
            .is_some()
    );
}

#[test]
fn what_databases_share_stays_while_one_of_them_begins() {
    let stage = Stage::running();
    let mut second = database();
    second["metadata"]["name"] = json!("second");
    second["spec"]["users"][0]["passwordSecretRef"]["name"] = json!("pw2");
    stage.blue.put(second);
    stage.blue.put(secret("default", "pw2", "dHdv"));
    let second = stage.key.sibling("second");
    stage.blue.reconcile::<Service>(&second).unwrap();
    // A run has made the namespace and the password, and not yet the copy.
    stage
        .compute
        .remove::<Database>(&copy_of(BLUE).sibling("second"));
    let there = || {
        let namespace = ObjectKey::cluster_scoped(format!("default-{BLUE}"));
        let password = copy_of(BLUE).sibling("pw2");
        let namespace = stage.compute.object::<Namespace>(&namespace).is_some();
        (
            namespace,
            stage.compute.object::<Secret>(&password).is_some(),
        )
    };
    stage.reconcile().unwrap();
    assert_eq!(there(), (true, true), "the first one runs");
    stage.delete();
    stage.reconcile().unwrap();
    assert_eq!(there(), (true, true), "the first one goes");
    let none = stage.key.sibling("none");
    stage.blue.reconcile::<Service>(&none).unwrap();
    assert_eq!(there(), (true, true), "one that never was");
    stage.blue.client().delete::<Database>(&second).unwrap();
    stage.blue.reconcile::<Service>(&second).unwrap();
    assert!(!there().0, "the last one goes");
}

#[test]
fn an_object_waits_while_the_compute_cluster_is_away() {
    let stage = Stage::running();
    stage.delete();
    for _ in 0..2 {
        stage.compute.fail_next(Verb::Get, away());
        assert!(!stage.reconcile().unwrap_err().is_terminal());
        let (_, reason, message) = stage.ready();
        assert!(
            reason == "DeletionWaits" && message.contains(ABANDON),
            "{message}"
        );
    }
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Database>(&stage.key).is_none() && stage.copy().is_none());
}

#[test]
fn an_object_is_let_go_when_asked_and_its_copy_goes_when_it_can() {
    let stage = Stage::running();
    stage.delete();
    stage.compute.fail_next(Verb::Get, away());
    stage.reconcile().unwrap_err();
    stage.blue.edit::<Database>(&stage.key, |database| {
        database
            .metadata
            .annotations
            .insert(ABANDON.to_owned(), "true".to_owned());
    });
    stage.reconcile().unwrap();
    assert!(stage.blue.object::<Database>(&stage.key).is_none() && stage.copy().is_some());
    // The copy's event asks for an object that is not there.
    stage.reconcile().unwrap();
    assert!(stage.copy().is_none());
}

#[test]
fn what_keeps_a_database_from_running_is_told() {
    let stage = stage();
    stage.compute.fail_next(Verb::Get, away());
    stage.reconcile().unwrap_err();
    let (status, reason, _) = stage.ready();
    assert_eq!((&*status, &*reason), ("Unknown", "ServiceUnreachable"));

    let database: Database = stage.blue.object(&stage.key).unwrap();
    let forbidden = ApiError::new(ApiCode::Forbidden, "access denied");
    stage.blue.fail_next(Verb::Get, forbidden);
    let refused = down::passwords(&stage.blue.client(), &database);
    assert!(matches!(refused, Err(Trouble::Claim)));

    let taken = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("default-{BLUE}")}});
    stage.compute.put(taken);
    let error = stage.reconcile().unwrap_err();
    assert!(
        error.message().contains(WORKSPACE) && stage.reason() == "ServiceBroken",
        "{error}"
    );
    stage
        .compute
        .remove::<Namespace>(&ObjectKey::cluster_scoped(format!("default-{BLUE}")));

    stage.reconcile().unwrap();
    stage.run();
    stage
        .blue
        .put(secret("default", "db-admin-admin", "bWluZQ=="));
    assert_eq!(stage.reconcile(), Ok(Action::Done));
    assert_eq!(stage.reason(), "SecretInTheWay");
    let own: Secret = stage
        .blue
        .object(&stage.key.sibling("db-admin-admin"))
        .unwrap();
    assert_eq!(own.data["password"], "bWluZQ==");
}

#[test]
fn a_namespace_whose_name_is_too_long_is_told() {
    let fleet = TestFleet::new();
    let (compute, blue) = (fleet.cluster(""), fleet.cluster(BLUE));
    let long = "n".repeat(60);
    let mut asked = database();
    asked["metadata"]["namespace"] = json!(long);
    blue.put(asked);
    let key = ObjectKey::namespaced(long, "db");
    blue.reconcile::<Service>(&key).unwrap();
    let database: Database = blue.object(&key).unwrap();
    assert_eq!(database.status["conditions"][0]["reason"], "NameTooLong");
    assert_eq!(compute.writes(), 0);
}
