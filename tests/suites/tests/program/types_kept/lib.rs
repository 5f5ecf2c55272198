//! Objects that a server stored survive their types: each is read, changed and written, and no other field differs.
#![deny(warnings)]

pub mod cluster;
pub mod config_map;
pub mod custom_resource_definition;
pub mod deployment;
pub mod odd;
pub mod pod;

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use windlass_sdk::testing::TestFleet;
    use windlass_sdk::{ObjectKey, Resource, Typed};

    /// Changes the object of a file as a guest does, and compares it with what is expected.
    fn survives<T: Typed + Resource>(file: &str, change: impl FnOnce(&mut T)) {
        let read = |suffix: &str| -> Value {
            let text = std::fs::read_to_string(format!("{file}{suffix}.json")).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let before = read("");
        let metadata = &before["metadata"];
        let name = metadata["name"].as_str().unwrap();
        let key = match metadata["namespace"].as_str() {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster_scoped(name),
        };
        let alpha = TestFleet::new().cluster("alpha");
        alpha.put(before);
        let mut object: T = alpha.client().get(&key).unwrap().unwrap();
        change(&mut object);
        alpha.client().update(&object).unwrap();
        let mut after = alpha.objects().remove(0).0;
        let mut expected = read(".changed");
        for object in [&mut after, &mut expected] {
            for of_servers in ["resourceVersion", "generation", "creationTimestamp", "managedFields"] {
                object["metadata"].as_object_mut().unwrap().remove(of_servers);
            }
        }
        assert_eq!(after, expected);
    }

    #[test]
    fn an_odd_one_survives() {
        survives::<crate::odd::Odd>("odd", |odd| {
            odd.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
            odd.spec.ports.as_mut().unwrap()[1].port = 8443;
        });
    }

    #[test]
    fn a_cluster_survives() {
        survives::<crate::cluster::Cluster>("cluster", |cluster| {
            cluster.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
            cluster.spec.topology.as_mut().unwrap().version = "v1.35.0".to_owned();
        });
    }

    #[test]
    fn a_config_map_survives() {
        survives::<crate::config_map::ConfigMap>("config_map", |page| {
            page.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
            page.data.as_mut().unwrap().insert("b".to_owned(), "2".to_owned());
        });
    }

    #[test]
    fn a_definition_survives() {
        survives::<crate::custom_resource_definition::CustomResourceDefinition>("custom_resource_definition", |definition| {
            definition.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
            definition.spec.versions[0].served = false;
        });
    }

    #[test]
    fn a_deployment_survives() {
        survives::<crate::deployment::Deployment>("deployment", |servers| {
            servers.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
            servers.spec.as_mut().unwrap().replicas = Some(3);
        });
    }

    #[test]
    fn a_pod_survives() {
        survives::<crate::pod::Pod>("pod", |pod| {
            pod.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
            pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:2".to_owned());
        });
    }
}
