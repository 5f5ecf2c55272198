//! Objects that a server stored survive their types.

use crate::tests::{change_odd, survives};

#[test]
fn a_cluster_survives() {
    survives::<types::cluster::Cluster>("cluster", |cluster| {
        cluster.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        cluster.spec.topology.as_mut().unwrap().version = "v1.35.0".to_owned();
    });
}

#[test]
fn a_class_of_clusters_survives() {
    survives::<types::cluster_class::ClusterClass>("cluster_class", |class| {
        class.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        class.spec.variables.as_mut().unwrap()[0].required = false;
    });
}

#[test]
fn a_config_map_survives() {
    survives::<types::config_map::ConfigMap>("config_map", |page| {
        page.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        page.data.as_mut().unwrap().insert("b".to_owned(), "2".to_owned());
    });
}

#[test]
fn a_definition_survives() {
    survives::<types::custom_resource_definition::CustomResourceDefinition>("custom_resource_definition", |definition| {
        definition.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        definition.spec.versions[0].served = false;
    });
}

#[test]
fn a_deployment_survives() {
    survives::<types::deployment::Deployment>("deployment", |servers| {
        servers.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        servers.spec.as_mut().unwrap().replicas = Some(3);
    });
}

#[test]
fn an_issuer_survives() {
    survives::<types::issuer::Issuer>("issuer", |issuer| {
        issuer.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        issuer.spec.acme.as_mut().unwrap().server = "https://other.example.com".to_owned();
    });
}

#[test]
fn a_machine_deployment_survives() {
    survives::<types::machine_deployment::MachineDeployment>("machine_deployment", |machines| {
        machines.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        machines.spec.replicas = Some(3);
    });
}

#[test]
fn a_pod_survives() {
    survives::<types::pod::Pod>("pod", |pod| {
        pod.metadata.labels.insert("kept".to_owned(), "yes".to_owned());
        pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:2".to_owned());
    });
}

#[test]
fn a_stored_odd_one_survives() {
    survives("stored_odd", change_odd);
}
