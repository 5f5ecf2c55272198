//! Clusters from kubeconfigs in Secrets. Entry points: [`options`] and the tests.

use crate::stage::{EAST, HUB, NOBODY, SOON, Scene, WEST, merge, secret};
use anyhow::Result;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::kubeconfig_secrets::{
    DEFAULT_LABEL, KubeconfigSecrets, KubeconfigSecretsOptions,
};
use windlass_harness::eventually::{Seen, eventually};

/// The Secrets of a test.
pub(crate) fn options(scene: &Scene) -> KubeconfigSecretsOptions {
    KubeconfigSecretsOptions {
        namespaces: [scene.name.to_owned()].into(),
        policy: scene.policy(),
        ..KubeconfigSecretsOptions::default()
    }
}

pub(crate) fn provider(scene: &Scene) -> Vec<Arc<dyn Provider>> {
    vec![Arc::new(KubeconfigSecrets::new("secrets", options(scene)))]
}

/// A Secret that the provider reads.
pub(crate) fn labelled(name: &str, kubeconfig: &str) -> Value {
    secret(
        name,
        &json!({DEFAULT_LABEL: "true"}),
        "kubeconfig",
        kubeconfig,
    )
}

/// Has a Secret name a server.
pub(crate) async fn point(scene: &Scene, name: &str, server: &str) -> Result<()> {
    let kubeconfig = scene.server(server).kubeconfig();
    scene.put(labelled(name, &kubeconfig)).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn labelled_secrets_are_clusters_whose_objects_are_reconciled() -> Result<()> {
    let scene = Scene::start("labelled-secrets-are-clusters").await?;
    for server in [HUB, EAST, WEST] {
        point(&scene, server, server).await?;
        scene.animal(server, "old").await?;
    }
    let play = scene.play(provider(&scene))?;
    play.engaged(&[EAST, HUB, WEST]).await?;
    for server in [HUB, EAST, WEST] {
        scene.fed(server, "old").await?;
        scene.animal(server, "new").await?;
        scene.fed(server, "new").await?;
        let new = crate::play::marked(scene.name, scene.name, "new");
        merge(
            scene.client(server),
            &new,
            &json!({"data": {"stomach": null}}),
        )
        .await?;
        scene.fed(server, "new").await?;
    }
    play.no_problem().await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_secret_that_names_another_server_moves_its_cluster_there() -> Result<()> {
    let scene = Scene::start("a-secret-names-another-server").await?;
    point(&scene, "isle", EAST).await?;
    scene.animal(EAST, "parrot").await?;
    scene.animal(WEST, "goat").await?;
    let play = scene.play(provider(&scene))?;
    let before = play.ready_soon("isle").await?;
    scene.fed(EAST, "parrot").await?;
    assert_eq!(scene.stomach(WEST, scene.name, "goat").await?, None);

    point(&scene, "isle", WEST).await?;
    scene.fed(WEST, "goat").await?;
    assert!(!play.is_still(&before));
    scene.animal(EAST, "late").await?;
    scene.animal(WEST, "late").await?;
    scene.fed(WEST, "late").await?;
    assert_eq!(scene.stomach(EAST, scene.name, "late").await?, None);
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn another_annotation_of_a_secret_keeps_the_very_same_cluster() -> Result<()> {
    let scene = Scene::start("another-annotation-of-a-secret").await?;
    point(&scene, "isle", EAST).await?;
    let play = scene.play(provider(&scene))?;
    let before = play.ready_soon("isle").await?;
    scene.animal(EAST, "parrot").await?;
    scene.fed(EAST, "parrot").await?;

    let mut annotated = labelled("isle", &scene.server(EAST).kubeconfig());
    annotated["metadata"]["annotations"] = json!({"note": "seen"});
    scene.put(annotated).await?;
    // Once a later Secret counts, the annotation has been seen.
    point(&scene, "later", WEST).await?;
    play.engaged(&["isle", "later"]).await?;
    assert!(play.is_still(&before));
    scene.animal(EAST, "goat").await?;
    scene.fed(EAST, "goat").await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_secret_that_is_deleted_unlabelled_or_terminating_takes_its_cluster_with_it() -> Result<()>
{
    let scene = Scene::start("a-secret-takes-its-cluster-with-it").await?;
    for name in ["deleted", "stays", "terminating", "unlabelled"] {
        point(&scene, name, EAST).await?;
    }
    let mut held = labelled("terminating", &scene.server(EAST).kubeconfig());
    held["metadata"]["finalizers"] = json!(["example.com/test"]);
    scene.put(held).await?;
    let play = scene.play(provider(&scene))?;
    play.engaged(&["deleted", "stays", "terminating", "unlabelled"])
        .await?;
    let stays = play.ready_soon("stays").await?;

    let of = |name: &str| labelled(name, "");
    scene.delete(of("deleted")).await?;
    play.has(&["stays", "terminating", "unlabelled"]).await?;
    let mut plain = labelled("unlabelled", &scene.server(EAST).kubeconfig());
    plain["metadata"]["labels"] = json!({DEFAULT_LABEL: "false"});
    scene.put(plain).await?;
    play.has(&["stays", "terminating"]).await?;
    scene.delete(of("terminating")).await?;
    play.has(&["stays"]).await?;

    assert!(play.is_still(&stays));
    let mut held = of("terminating");
    held["metadata"]["namespace"] = json!(scene.name);
    let freed = json!({"metadata": {"finalizers": null}});
    merge(scene.client(HUB), &held, &freed).await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_secret_without_a_kubeconfig_is_reported_and_hides_no_other() -> Result<()> {
    let scene = Scene::start("a-secret-without-a-kubeconfig").await?;
    let labels = json!({DEFAULT_LABEL: "true"});
    let text = scene.server(EAST).kubeconfig();
    scene
        .put(secret("another-key", &labels, "config", &text))
        .await?;
    scene.put(labelled("empty", "")).await?;
    scene.put(labelled("no-kubeconfig", "{")).await?;
    point(&scene, "good", EAST).await?;
    let play = scene.play(provider(&scene))?;
    play.engaged(&["good"]).await?;
    for bad in ["another-key", "empty", "no-kubeconfig"] {
        let subject = format!("{}/{bad}", scene.name);
        let message = play.problem(&subject).await?;
        assert!(message.contains("kubeconfig"), "{message}");
    }
    point(&scene, "empty", WEST).await?;
    play.engaged(&["empty", "good"]).await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn an_invalid_new_kubeconfig_keeps_the_last_good_cluster_and_is_reported() -> Result<()> {
    let scene = Scene::start("an-invalid-new-kubeconfig").await?;
    point(&scene, "isle", EAST).await?;
    let play = scene.play(provider(&scene))?;
    let before = play.ready_soon("isle").await?;
    let subject = format!("{}/isle", scene.name);
    for invalid in ["{", "", "apiVersion: v1\nkind: Config\n"] {
        scene.put(labelled("isle", invalid)).await?;
        let message = play.problem(&subject).await?;
        assert!(message.contains("last good cluster"), "{message}");
        assert!(play.is_still(&before));
        let animal = format!("after-{}", invalid.len());
        scene.animal(EAST, &animal).await?;
        scene.fed(EAST, &animal).await?;
    }
    point(&scene, "isle", EAST).await?;
    play.no_problem().await?;
    assert!(play.is_still(&before));
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn secrets_of_other_namespaces_and_labels_are_no_clusters() -> Result<()> {
    let scene = Scene::start("secrets-of-other-namespaces").await?;
    let text = scene.server(EAST).kubeconfig();
    let mut elsewhere = labelled(scene.name, &text);
    elsewhere["metadata"]["namespace"] = json!("default");
    scene.put(elsewhere.clone()).await?;
    let another = json!({DEFAULT_LABEL: "yes"});
    scene
        .put(secret("another-label", &another, "kubeconfig", &text))
        .await?;
    let none = json!({});
    scene
        .put(secret("no-label", &none, "kubeconfig", &text))
        .await?;
    point(&scene, "good", EAST).await?;
    let play = scene.play(provider(&scene))?;
    play.engaged(&["good"]).await?;
    play.no_problem().await?;
    play.end().await?;

    // In all namespaces, by a selector of its own: names have the namespace then.
    let mut everywhere = options(&scene);
    everywhere.namespaces.clear();
    everywhere.label_selector = format!("scene={}", scene.name).parse()?;
    for name in ["first", "second"] {
        let labels = json!({"scene": scene.name});
        scene
            .put(secret(name, &labels, "kubeconfig", &text))
            .await?;
    }
    let play = scene.play(vec![Arc::new(KubeconfigSecrets::new("all", everywhere))])?;
    let names = ["first", "second"].map(|name| format!("{}/{name}", scene.name));
    play.engaged(&[&names[0], &names[1]]).await?;
    scene.delete(elsewhere).await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn only_the_current_context_counts_and_programs_and_files_are_refused() -> Result<()> {
    let scene = Scene::start("only-the-current-context-counts").await?;
    // A context in front of the current one, to a server that does not exist.
    let text = scene.server(EAST).kubeconfig().replace(
        "contexts:\n",
        "contexts:\n- name: other\n  context: {cluster: other, user: other}\n",
    );
    scene.put(labelled("two-contexts", &text)).await?;
    let token = format!("token: {}", scene.server(EAST).token());
    let refused = [
        (
            "program",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}",
        ),
        ("file", "tokenFile: /var/run/token"),
    ];
    for (name, user) in refused {
        let text = scene.server(EAST).kubeconfig().replace(&token, user);
        scene.put(labelled(name, &text)).await?;
    }
    let play = scene.play(provider(&scene))?;
    play.engaged(&["two-contexts"]).await?;
    for (name, _) in refused {
        let subject = format!("{}/{name}", scene.name);
        let message = play.problem(&subject).await?;
        assert!(!message.contains("/var/run"), "{message}");
    }
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn forty_writers_at_once_end_with_the_clusters_that_the_server_has() -> Result<()> {
    let scene = Scene::start("forty-writers-at-once").await?;
    let play = scene.play(provider(&scene))?;
    let texts = [EAST, WEST].map(|server| scene.server(server).kubeconfig());
    let writer = |n: usize| {
        let (scene, texts) = (&scene, &texts);
        async move {
            let name = format!("isle-{:02}", n % 20);
            for round in 0..5 {
                let object = labelled(&name, &texts[(n + round) % 2]);
                if (n + round).is_multiple_of(3) {
                    // Another writer may be faster: what counts is what the server has in the end.
                    drop(scene.delete(object).await);
                } else {
                    drop(scene.put(object).await);
                }
            }
        }
    };
    let mut writers: FuturesUnordered<_> = (0..40).map(writer).collect();
    while writers.next().await.is_some() {}
    for n in 0..3 {
        point(&scene, &format!("isle-{n:02}"), EAST).await?;
        drop(
            scene
                .delete(labelled(&format!("isle-{:02}", n + 10), ""))
                .await,
        );
    }
    let secrets: kube_client::Api<k8s_openapi::api::core::v1::Secret> =
        kube_client::Api::namespaced(scene.client(HUB).clone(), scene.name);
    let there = secrets
        .list(&kube_client::api::ListParams::default())
        .await?;
    let mut names: Vec<String> = there
        .items
        .into_iter()
        .filter_map(|secret| secret.metadata.name)
        .collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    play.engaged(&names).await?;
    play.no_problem().await?;
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_forbidden_cluster_is_reported_and_delays_no_other() -> Result<()> {
    let scene = Scene::start("a-forbidden-cluster").await?;
    let text = scene.server(WEST).kubeconfig_of(NOBODY);
    scene.put(labelled("forbidden", &text)).await?;
    point(&scene, "good", EAST).await?;
    let play = scene.play(provider(&scene))?;
    play.has(&["forbidden", "good"]).await?;
    play.ready_soon("good").await?;
    scene.animal(EAST, "parrot").await?;
    scene.fed(EAST, "parrot").await?;
    eventually(SOON, "the reason in the status", || async {
        let reason = play.status("forbidden")?.reason;
        Ok(Seen::of(reason, |reason| reason.contains("forbidden")))
    })
    .await?;
    // The right credentials for the same server are exchanged in place.
    point(&scene, "forbidden", WEST).await?;
    play.engaged(&["forbidden", "good"]).await?;
    play.end().await
}
