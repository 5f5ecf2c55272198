//! Plays the operator of HttpBins, for the example `httpbin`: it runs none. Entry point: [`Play`].
//!
//! It reads the token that an HttpBin names, writes a Secret with the address, and says that the HttpBin is ready.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, Mapper};

/// An HttpBin.
#[derive(Serialize, Deserialize)]
struct HttpBin {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Value,
}
windlass_sdk::kind!(HttpBin, "example.com/v1", "HttpBin");

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    region: String,
    token_secret: Option<String>,
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
        Ok(Description::new("plays the operator of HttpBins")
            .primary::<HttpBin>()
            .watch(Watch::new::<Secret>().enqueue(Enqueue::Mapped)))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let bin = cluster.get::<HttpBin>(&request.key)?;
        let Some(bin) = bin.filter(|bin| !bin.metadata.is_deleting()) else {
            return Ok(Action::Done);
        };
        let mut data = BTreeMap::new();
        if let Some(name) = &bin.spec.token_secret {
            let Some(secret) = cluster.get::<Secret>(&request.key.sibling(&**name))? else {
                return say(cluster, &bin, json!({"ready": false, "url": null}));
            };
            data.extend(secret.data);
        }
        let key = &request.key;
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let url = format!(
            "https://{}.{namespace}.{}.example.com",
            key.name, bin.spec.region
        );
        let access = access(key);
        let there = cluster.get::<Secret>(&access)?;
        let same = |there: &Secret| {
            there.data.get("token") == data.get("token") && there.data.contains_key("url")
        };
        if bin.status["url"] != url || !there.as_ref().is_some_and(same) {
            cluster.force_apply(&Secret {
                metadata: Metadata::of(&access).owner(bin.controller_reference()),
                data,
                string_data: [("url".to_owned(), url.clone())].into(),
            })?;
        }
        let ready = json!({"ready": true, "url": url, "accessSecret": access.name});
        say(cluster, &bin, ready)
    }
}

impl Mapper for Play {
    /// An event of a Secret is about the HttpBins beside it that have or use it.
    fn map(cluster: &Cluster, _: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let Some(key) = objects.last().map(Object::key) else {
            return Ok(Vec::new());
        };
        let beside = ListOptions::default().namespace(key.namespace.unwrap_or_default());
        let bins = cluster.list::<HttpBin>(&beside)?.into_iter();
        let using = bins.filter(|bin| {
            bin.spec.token_secret.as_ref() == Some(&key.name) || access(&bin.key()).name == key.name
        });
        let requests = using.map(|bin| Request {
            cluster: cluster.name(),
            key: bin.key(),
        });
        Ok(requests.collect())
    }
}

/// The Secret with the address.
fn access(bin: &ObjectKey) -> ObjectKey {
    bin.sibling(format!("{}-access", bin.name))
}

/// Writes the status where it says something else.
fn say(cluster: &Cluster, bin: &HttpBin, status: Value) -> Result<Action> {
    let mut fields = status.as_object().into_iter().flatten();
    if !fields.all(|(field, value)| bin.status.get(field).unwrap_or(&Value::Null) == value) {
        cluster.patch_status::<HttpBin>(&bin.key(), &status)?;
    }
    Ok(Action::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_sdk::testing::TestFleet;

    #[test]
    fn an_http_bin_is_ready_once_its_token_is_there() {
        let fleet = TestFleet::new();
        let cluster = fleet.cluster("");
        cluster.put(json!({
            "apiVersion": "example.com/v1", "kind": "HttpBin", "metadata": {"namespace": "n", "name": "bin"},
            "spec": {"region": "eu", "tokenSecret": "token"},
        }));
        let key = ObjectKey::namespaced("n", "bin");
        let status = || cluster.object::<HttpBin>(&key).unwrap().status;
        cluster.reconcile::<Play>(&key).unwrap();
        assert_eq!(status()["ready"], false);
        let token = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "n", "name": "token"}, "data": {"token": "dA=="}});
        cluster.put(token.clone());
        let asked = cluster
            .map::<Play>(&Secret::KIND.into(), &[Object(token)])
            .unwrap();
        assert_eq!(asked[0].key, key);
        cluster.reconcile::<Play>(&key).unwrap();
        assert_eq!(status()["url"], "https://bin.n.eu.example.com");
        let access: Secret = cluster.object(&key.sibling("bin-access")).unwrap();
        assert_eq!(access.data["token"], "dA==");
    }
}
