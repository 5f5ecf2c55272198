//! Maps events with code: a Secret asks for the ConfigMap that its annotation names, in the cluster that it names. Entry point:
//! [`Mapped`].

use windlass_sdk::prelude::*;
use windlass_sdk::{GetOptions, GroupVersionKind, ListOptions, Mapper};

/// `cluster/name`, of a ConfigMap in the Secret's namespace.
const ASKS_FOR: &str = "test.windlass.dev/asks-for";

/// The guest.
struct Mapped;
windlass_sdk::guest!(Mapped, mapper);

impl Reconciler for Mapped {
    fn describe() -> Result<Description> {
        let secrets = Watch::of(GroupVersionKind::new("v1", "Secret"));
        let secrets = secrets.enqueue(Enqueue::Mapped).reads(&["data.seen"]);
        let mut description = Description::new("maps events").watch(secrets);
        description.indexes.push(windlass_sdk::Index {
            kind: GroupVersionKind::new("v1", "ConfigMap"),
            name: "color".to_owned(),
            path: "data.color".to_owned(),
            namespace_path: None,
            options: Vec::new(),
        });
        Ok(description)
    }

    fn reconcile(request: &Request, _: &Cluster) -> Result<Action> {
        Err(Error::terminal(format!("asked for {request}")))
    }
}

impl Mapper for Mapped {
    fn map(cluster: &Cluster, _: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        objects
            .iter()
            .filter(|object| object.annotation(ASKS_FOR).is_some())
            .map(|object| asked_for(cluster, object))
            .collect()
    }
}

fn asked_for(cluster: &Cluster, object: &Object) -> Result<Request> {
    let asked = object.annotation(ASKS_FOR).unwrap_or_default();
    let (name, object_name) = asked
        .split_once('/')
        .ok_or_else(|| Error::retry(format!("{asked:?} is not cluster/name")))?;
    let object_name = match object_name {
        "written" => write(cluster, object).to_owned(),
        "red" => red(cluster),
        "got" => got(cluster, object).to_owned(),
        "fields" => fields(object),
        name => name.to_owned(),
    };
    Ok(Request {
        cluster: name.to_owned(),
        key: object.key().sibling(&object_name),
    })
}

/// The names of the data that it was given.
fn fields(object: &Object) -> String {
    let data = object.0["data"].as_object();
    let names: Vec<&str> = data
        .into_iter()
        .flat_map(|data| data.keys())
        .map(String::as_str)
        .collect();
    names.join("-")
}

/// A write, which a mapper must not make; the result becomes the name of the request.
fn write(cluster: &Cluster, object: &Object) -> &'static str {
    let map = Object::new(&GroupVersionKind::new("v1", "ConfigMap"), &object.key());
    match cluster.create(&map) {
        Ok(_) => "allowed",
        Err(error) => error.code.as_str(),
    }
}

/// The ConfigMap that the guest's own index finds.
fn red(cluster: &Cluster) -> String {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let red = ListOptions::default().index("color", "red");
    let mut found = cluster.iterate_with::<Object>(kind, red);
    match found.next() {
        Some(Ok(object)) => object.key().name,
        Some(Err(error)) => error.code.as_str().to_owned(),
        None => "none".to_owned(),
    }
}

/// The result of a read that no cache can answer.
fn got(cluster: &Cluster, object: &Object) -> &'static str {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    match cluster.get_with::<Object>(&kind, &object.key(), &GetOptions::default()) {
        Ok(_) => "allowed",
        Err(error) => error.code.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_sdk::testing::TestFleet;

    #[test]
    fn an_annotated_secret_asks_for_what_it_names() {
        let fleet = TestFleet::new();
        let kind = GroupVersionKind::new("v1", "Secret");
        let mut secret = Object::new(&kind, &ObjectKey::namespaced("default", "s"));
        assert_eq!(
            fleet
                .cluster("alpha")
                .map::<Mapped>(&kind, std::slice::from_ref(&secret)),
            Ok(vec![])
        );
        secret.0["metadata"]["annotations"] = serde_json::json!({ASKS_FOR: "beta/a"});
        let asked = fleet
            .cluster("alpha")
            .map::<Mapped>(&kind, &[secret])
            .unwrap();
        assert_eq!(asked[0].to_string(), "cluster://beta/default/a");
    }
}
