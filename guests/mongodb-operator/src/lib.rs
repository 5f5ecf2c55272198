//! Plays MongoDB's operator where there is none: in memory, for the example `mongodb`. Entry point: [`Play`].
//!
//! It runs no database. It checks the passwords, writes the Secrets with connection strings, and says that the database runs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, Mapper};

/// A database.
#[derive(Serialize, Deserialize)]
struct Database {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Value,
}
windlass_sdk::kind!(
    Database,
    "mongodbcommunity.mongodb.com/v1",
    "MongoDBCommunity"
);

#[derive(Serialize, Deserialize)]
struct Spec {
    members: u32,
    version: String,
    users: Vec<User>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct User {
    name: String,
    db: String,
    password_secret_ref: SecretRef,
    connection_string_secret_name: String,
}

#[derive(Serialize, Deserialize)]
struct SecretRef {
    name: String,
    key: String,
}

/// A Secret.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    string_data: BTreeMap<String, String>,
}
windlass_sdk::kind!(Secret, "v1", "Secret");

/// The guest.
struct Play;
windlass_sdk::guest!(Play, mapper);

impl Reconciler for Play {
    fn describe() -> Result<Description> {
        let secrets = Watch::new::<Secret>().enqueue(Enqueue::Mapped);
        Ok(Description::new("plays MongoDB's operator in memory")
            .primary::<Database>()
            .watch(secrets))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(database) = cluster.get::<Database>(&request.key)? else {
            return Ok(Action::Done);
        };
        if database.metadata.is_deleting() {
            return Ok(Action::Done);
        }
        for user in &database.spec.users {
            let of = database.key().sibling(&*user.password_secret_ref.name);
            let secret = cluster.get::<Secret>(&of)?;
            let password =
                secret.and_then(|mut secret| secret.data.remove(&user.password_secret_ref.key));
            let Some(password) = password else {
                let message = format!("user password secret: {of} not found");
                return say(
                    cluster,
                    &database,
                    json!({"phase": "Failed", "message": message}),
                );
            };
            connect(cluster, &database, user, password)?;
        }
        let (name, spec) = (&database.metadata.name, &database.spec);
        let running = json!({
            "phase": "Running", "message": null, "version": spec.version, "currentMongoDBMembers": spec.members,
            "mongoUri": format!("mongodb://{}/?replicaSet={name}", host(&database)),
        });
        say(cluster, &database, running)
    }
}

impl Mapper for Play {
    /// An event of a Secret is about the databases whose passwords or connection strings it has.
    fn map(cluster: &Cluster, _: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let Some(key) = objects.last().map(Object::key) else {
            return Ok(Vec::new());
        };
        let beside = ListOptions::default().namespace(key.namespace.unwrap_or_default());
        let databases = cluster.list::<Database>(&beside)?.into_iter();
        let using = databases.filter(|database| {
            let mut users = database.spec.users.iter();
            users.any(|user| {
                [
                    &user.password_secret_ref.name,
                    &user.connection_string_secret_name,
                ]
                .contains(&&key.name)
            })
        });
        let requests = using.map(|database| Request {
            cluster: cluster.name(),
            key: database.key(),
        });
        Ok(requests.collect())
    }
}

fn host(database: &Database) -> String {
    let key = database.key();
    let namespace = key.namespace.unwrap_or_default();
    format!("{}-svc.{namespace}.svc.cluster.local:27017", key.name)
}

/// Keeps the Secret with a user's connection string.
fn connect(cluster: &Cluster, database: &Database, user: &User, password: String) -> Result<()> {
    let key = database.key().sibling(&*user.connection_string_secret_name);
    let there = cluster.get::<Secret>(&key)?;
    if there
        .is_some_and(|there| there.data.len() == 3 && there.data.get("password") == Some(&password))
    {
        return Ok(());
    }
    let name = &database.metadata.name;
    let uri = format!(
        "mongodb://{}@{}/{}?replicaSet={name}",
        user.name,
        host(database),
        user.db
    );
    let secret = Secret {
        metadata: Metadata::of(&key).owner(database.controller_reference()),
        data: [("password".to_owned(), password)].into(),
        string_data: [
            ("username".to_owned(), user.name.clone()),
            ("connectionString.standard".to_owned(), uri),
        ]
        .into(),
    };
    cluster.force_apply(&secret)?;
    Ok(())
}

/// Writes the status where it says something else.
fn say(cluster: &Cluster, database: &Database, status: Value) -> Result<Action> {
    let fields = status.as_object().into_iter().flatten();
    let mut fields =
        fields.map(|(field, value)| database.status.get(field).unwrap_or(&Value::Null) == value);
    if !fields.all(|same| same) {
        cluster.patch_status::<Database>(&database.key(), &status)?;
    }
    Ok(Action::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_sdk::testing::TestFleet;

    #[test]
    fn a_database_runs_once_its_password_is_there() {
        let fleet = TestFleet::new();
        let cluster = fleet.cluster("");
        cluster.put(json!({
            "apiVersion": "mongodbcommunity.mongodb.com/v1", "kind": "MongoDBCommunity",
            "metadata": {"namespace": "n", "name": "db"},
            "spec": {"members": 3, "version": "6.0.5", "users": [{"name": "admin", "db": "admin",
                "passwordSecretRef": {"name": "pw", "key": "password"}, "connectionStringSecretName": "db-admin"}]},
        }));
        let key = ObjectKey::namespaced("n", "db");
        let phase = || cluster.object::<Database>(&key).unwrap().status["phase"].clone();
        cluster.reconcile::<Play>(&key).unwrap();
        assert_eq!(phase(), "Failed");
        let password = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "n", "name": "pw"}, "data": {"password": "cHc="}});
        cluster.put(password.clone());
        let asked = cluster
            .map::<Play>(&Secret::KIND.into(), &[Object(password)])
            .unwrap();
        assert_eq!(asked[0].key, key);
        cluster.reconcile::<Play>(&key).unwrap();
        assert_eq!(phase(), "Running");
        let strings: Secret = cluster.object(&key.sibling("db-admin")).unwrap();
        assert_eq!(strings.data["password"], "cHc=");
    }
}
