//! The real servers that the harness starts are real, apart from each other, and gone afterwards.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::testenv::crds::{self, ClusterApi};
use windlass_harness::testenv::kind::Kind;
use windlass_harness::testenv::{self, Environment, Spec};

const SOON: Duration = Duration::from_secs(60);

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn servers_on_one_etcd_have_their_own_objects_and_keep_them_over_a_restart() -> Result<()> {
    if !testenv::enabled("servers on one etcd have their own objects and keep them over a restart")
    {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha"), Spec::new("beta")]).await?;
    let alpha: Api<ConfigMap> =
        Api::default_namespaced(environment.server("alpha").client().await?);
    let beta: Api<ConfigMap> = Api::default_namespaced(environment.server("beta").client().await?);

    alpha
        .create(&PostParams::default(), &config_map("mine"))
        .await?;
    assert!(beta.get_opt("mine").await?.is_none());

    environment.server("alpha").kill();
    assert!(alpha.get_opt("mine").await.is_err());
    environment.server("alpha").restart().await?;
    assert!(alpha.get_opt("mine").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn what_was_made_after_a_snapshot_is_gone_after_its_restore() -> Result<()> {
    if !testenv::enabled("what was made after a snapshot is gone after its restore") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha"), Spec::new("beta")]).await?;
    let (alpha, beta) = (environment.server("alpha"), environment.server("beta"));
    let (url, ca) = (alpha.url(), alpha.ca_pem().to_owned());
    let maps: Api<ConfigMap> = Api::default_namespaced(alpha.client().await?);
    let version = || async {
        let list = maps.list(&ListParams::default().limit(1)).await?;
        let version = list.metadata.resource_version.context("no version")?;
        anyhow::Ok(version.parse::<u64>()?)
    };
    maps.create(&PostParams::default(), &config_map("before"))
        .await?;
    let snapshot = environment.snapshot().await?;
    maps.create(&PostParams::default(), &config_map("after"))
        .await?;
    // A starting server writes some objects of its own: there must be more.
    for n in 0..100 {
        maps.create(&PostParams::default(), &config_map(&format!("later-{n}")))
            .await?;
    }
    let newest = version().await?;
    beta.kill();

    for _ in 0..2 {
        environment.restore(&snapshot).await?;
        assert!(maps.get_opt("before").await?.is_some());
        assert!(maps.get_opt("after").await?.is_none());
        assert!(version().await? < newest);
        assert_eq!((alpha.url(), alpha.ca_pem()), (url.clone(), ca.as_str()));
        // A restore does not change the snapshot.
        maps.create(&PostParams::default(), &config_map("after"))
            .await?;
    }
    let beta: Api<ConfigMap> = Api::default_namespaced(beta.client().await?);
    assert!(
        beta.get_opt("before").await.is_err(),
        "killed servers stay so"
    );
    Ok(())
}

#[tokio::test]
async fn controllers_finish_the_deletion_of_a_namespace() -> Result<()> {
    if !testenv::enabled("controllers finish the deletion of a namespace") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("hub").with_controllers()]).await?;
    let client = environment.server("hub").client().await?;
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = Namespace {
        metadata: config_map("short-lived").metadata,
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    namespaces
        .delete("short-lived", &DeleteParams::default())
        .await?;
    eventually(SOON, "the namespace to be gone", || async {
        Ok(Seen::of(
            namespaces.get_opt("short-lived").await?,
            Option::is_none,
        ))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_environment_takes_its_files_with_it() -> Result<()> {
    if !testenv::enabled("the environment takes its files with it") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let folder = environment.folder().to_path_buf();
    assert!(folder.join("alpha/kube-apiserver.log").is_file());
    drop(environment);
    assert!(!folder.exists());
    Ok(())
}

#[tokio::test]
async fn kinds_of_other_projects_are_served_in_one_version() -> Result<()> {
    if !testenv::enabled("kinds of other projects are served in one version") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("old"), Spec::new("new")]).await?;
    for (server, version) in [("old", ClusterApi::V1Beta1), ("new", ClusterApi::V1Beta2)] {
        let client = environment.server(server).client().await?;
        crds::install(&client, &version.definition()?).await?;
        crds::install(&client, &crds::cluster_profile()?).await?;
        let versions = client
            .list_api_group_resources(&format!("cluster.x-k8s.io/{}", version.as_str()))
            .await?;
        assert!(versions.resources.iter().any(|r| r.name == "clusters"));
        let groups = client.list_api_groups().await?.groups;
        let served = groups
            .iter()
            .find(|group| group.name == "cluster.x-k8s.io")
            .map(|group| group.versions.len());
        assert_eq!(served, Some(1));
    }
    Ok(())
}

#[tokio::test]
async fn the_program_kind_finds_the_servers_of_a_test() -> Result<()> {
    if !testenv::enabled("the program kind finds the servers of a test") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let kind = Kind::start()?;
    let run = |args: &[&str]| -> Result<(bool, String)> {
        let output = std::process::Command::new(kind.program())
            .args(args)
            .output()?;
        Ok((output.status.success(), String::from_utf8(output.stdout)?))
    };
    let clusters = ["get", "clusters"];
    assert_eq!(run(&clusters)?, (true, String::new()));
    kind.put("fleet-a", alpha)?;
    kind.put("other", alpha)?;
    assert_eq!(run(&clusters)?, (true, "fleet-a\nother\n".into()));
    let (_, text) = run(&["get", "kubeconfig", "--name", "fleet-a"])?;
    assert!(text.contains(&alpha.url()) && text.contains("kind-fleet-a"));
    kind.delete("other")?;
    kind.set_runtime(false)?;
    assert!(!run(&clusters)?.0);
    kind.set_runtime(true)?;
    assert_eq!(run(&clusters)?, (true, "fleet-a\n".into()));
    Ok(())
}
