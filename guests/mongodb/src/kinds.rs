//! The objects, and what a consumer may ask for: [`Database::wanted`].

use crate::FINALIZER;
use crate::condition::Trouble;
use crate::place::Place;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;

/// A database, as the consumer has it and as its copy.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Database {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) status: Value,
}
windlass_sdk::kind!(
    Database,
    "mongodbcommunity.mongodb.com/v1",
    "MongoDBCommunity"
);

/// A Secret. Its values stay as they are, in base64.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Secret {
    pub(crate) metadata: Metadata,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, String>,
}
windlass_sdk::kind!(Secret, "v1", "Secret");

/// A namespace of the compute cluster.
#[derive(Serialize, Deserialize)]
pub(crate) struct Namespace {
    pub(crate) metadata: Metadata,
}
windlass_sdk::kind!(Namespace, "v1", "Namespace");

/// A binding of the workspace: kcp notes the workspace's path on it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Binding {
    pub(crate) metadata: Metadata,
}
windlass_sdk::kind!(Binding, "apis.kcp.io/v1alpha2", "APIBinding");

/// What a consumer may ask for. Other fields of the operator's kind would let one reach what is not the consumer's.
#[derive(Deserialize)]
struct Asked {
    #[serde(default = "three")]
    members: u32,
    version: String,
    #[serde(default)]
    users: Vec<User>,
}

/// An account of a database.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct User {
    name: String,
    #[serde(default = "admin")]
    db: String,
    password_secret_ref: SecretRef,
    #[serde(default)]
    roles: Vec<Role>,
    connection_string_secret_name: Option<String>,
}

#[derive(Deserialize)]
struct SecretRef {
    name: String,
    #[serde(default = "password")]
    key: String,
}

#[derive(Serialize, Deserialize)]
struct Role {
    name: String,
    db: String,
}

/// Where a password is: in a key of a Secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Password {
    pub(crate) user: String,
    pub(crate) secret: String,
    pub(crate) key: String,
}

fn three() -> u32 {
    3
}

fn admin() -> String {
    "admin".to_owned()
}

fn password() -> String {
    "password".to_owned()
}

impl Database {
    /// The spec of the copy.
    pub(crate) fn wanted(&self, place: &Place) -> Result<Value, Trouble> {
        let excess = place.excess();
        if excess > 0 {
            let message = format!(
                "the name of the namespace is too long by {excess} characters: make the database in another namespace"
            );
            return Err(Trouble::consumer("NameTooLong", message));
        }
        let asked = self.asked()?;
        let name = &self.metadata.name;
        let users = asked.users.iter().map(|user| {
            json!({
                "name": user.name,
                "db": user.db,
                "passwordSecretRef": {"name": user.password_secret_ref.name, "key": user.password_secret_ref.key},
                "roles": user.roles,
                "scramCredentialsSecretName": format!("{name}-{}", user.name),
                "connectionStringSecretName": user.connection_secret(name),
            })
        });
        Ok(json!({
            "type": "ReplicaSet",
            "members": asked.members,
            "version": asked.version,
            // The second field is its kind's default, said here so that copies compare equal.
            "security": {"authentication": {"modes": ["SCRAM"], "ignoreUnknownUsers": true}},
            "users": users.collect::<Vec<_>>(),
        }))
    }

    fn asked(&self) -> Result<Asked, Trouble> {
        Asked::deserialize(&self.spec).map_err(|error| {
            Trouble::consumer("SpecInvalid", format!("spec cannot be used: {error}"))
        })
    }

    /// The passwords that it names.
    pub(crate) fn passwords(&self) -> Result<Vec<Password>, Trouble> {
        let users = self.asked()?.users.into_iter();
        Ok(users
            .map(|user| Password {
                user: user.name,
                secret: user.password_secret_ref.name,
                key: user.password_secret_ref.key,
            })
            .collect())
    }

    /// The names of the Secrets with its connection strings.
    pub(crate) fn connections(&self) -> Vec<String> {
        let users = self.asked().map(|asked| asked.users).unwrap_or_default();
        let names = users.iter();
        names
            .map(|user| user.connection_secret(&self.metadata.name))
            .collect()
    }

    /// Whether a Secret of this name holds a password or connection string of it.
    pub(crate) fn uses(&self, secret: &str) -> bool {
        let passwords = self.passwords().unwrap_or_default();
        passwords.iter().any(|one| one.secret == secret)
            || self.connections().iter().any(|one| one == secret)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.metadata.has_finalizer(FINALIZER)
    }
}

impl User {
    fn connection_secret(&self, database: &str) -> String {
        let own = self.connection_string_secret_name.clone();
        own.unwrap_or_else(|| format!("{database}-{}-{}", self.db, self.name))
    }
}
