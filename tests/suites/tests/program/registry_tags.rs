//! Guests of `run` come from a real registry: tags move, the registry goes down, and logins come from Secrets and proxies from the
//! environment.

use crate::registry::{Hosted, of_image, padded, serves};
use crate::running::{SOON, client_of};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::fs;
use windlass_apiserver::Server;
use windlass_harness::guests::guest;
use windlass_harness::testenv::real_proxy::{RealProxy, Scheme};

fn digest_of(file: &std::path::Path) -> Result<String> {
    Ok(windlass_fleet::Digest::of(&fs::read(file)?).to_string())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_moved_tag_rolls_out_and_a_bad_one_changes_nothing() -> Result<()> {
    let hosted = Hosted::start().await?;
    let (first, image) = (guest("hello"), hosted.image("hello:stable"));
    let digest = hosted.push(&first, &image).await?;
    let followed = of_image("followed", &format!("image: {image:?}, interval: 10s"));
    let pinned = of_image("pinned", &format!("image: {image:?}, digest: {digest:?}"));
    let _fleet = hosted.documents("", &[followed, pinned]).await?;
    let (_program, address) = hosted.start_run(&[]).await?;
    hosted
        .seen(&address, "pinned", "the pinned guest", serves)
        .await?;
    let one = hosted
        .seen(&address, "followed", "the first guest", serves)
        .await?;
    assert_eq!(one["revision"], digest_of(&first)?.as_str());
    assert_eq!(one["guest"], format!("{image}@{digest}"));
    let maps = client_of(&hosted.project, "alpha").await?;
    maps.ask("first", "world").await?;
    maps.expect_greeted("first").await?;

    let second = padded(&hosted.project, &first, 100)?;
    hosted.push(&second, &image).await?;
    let (now, before) = (digest_of(&second)?, digest_of(&first)?);
    let moved = |one: &Json| serves(one) && one["revision"] == now.as_str();
    let one = hosted
        .seen(&address, "followed", "the moved tag", moved)
        .await?;
    assert_eq!(one["previous"], before.as_str());

    // What is no guest takes its place: it is refused, and the last good one keeps serving.
    let manifest = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
    hosted.put_manifest("hello", "stable", manifest).await?;
    let refused = |one: &Json| {
        let problem = one["problem"].as_str().unwrap_or_default();
        problem.contains("is an index of 0 images")
    };
    let one = hosted
        .seen(&address, "followed", "the refusal", refused)
        .await?;
    assert_eq!(
        (&one["revision"], &one["serves"]),
        (&json!(now), &json!(true))
    );
    let one = hosted
        .seen(&address, "pinned", "the pinned guest", serves)
        .await?;
    assert_eq!(one["revision"], before.as_str());
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_start_without_the_registry_serves_the_images_that_it_named_last() -> Result<()> {
    let hosted = Hosted::start().await?;
    let image = hosted.image("hello:1");
    let digest = hosted.push(&guest("hello"), &image).await?;
    let known = of_image("known", &format!("image: {image:?}, interval: 10s"));
    let _fleet = hosted.documents("", std::slice::from_ref(&known)).await?;
    let (mut program, address) = hosted.start_run(&[]).await?;
    hosted.seen(&address, "known", "the guest", serves).await?;
    // It goes while the program runs …
    hosted.registry.kill();
    program.line_with("the registry is silent", SOON).await?;
    hosted
        .seen(&address, "known", "the guest to keep serving", serves)
        .await?;
    drop(program);

    // … and is not there when the program starts. Another tenant was never shown the image.
    let stranger = of_image("stranger", &format!("image: {image:?}, interval: 10s"));
    let stranger = stranger.replace("tenant: team-a", "tenant: team-b");
    let new = of_image("new", &format!("image: {:?}", hosted.image("new:1")));
    let tenant = "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-b}\n";
    let documents = [tenant.to_owned(), known, stranger, new];
    let _fleet = hosted.documents("", &documents).await?;
    let (mut program, address) = hosted.start_run(&[]).await?;
    let one = hosted
        .seen(&address, "known", "the guest from the cache", serves)
        .await?;
    assert_eq!(one["guest"], format!("{image}@{digest}"));
    let unreached = |one: &Json| {
        let problem = one["problem"].as_str().unwrap_or_default();
        one["serves"] == false && problem.contains("cannot be reached")
    };
    for name in ["stranger", "new"] {
        hosted.seen(&address, name, "no guest", unreached).await?;
    }
    let maps = client_of(&hosted.project, "alpha").await?;
    maps.ask("first", "world").await?;
    maps.expect_greeted("first").await?;

    // It comes back, and everybody gets what they ask for.
    hosted.registry.restart().await?;
    hosted.push(&guest("hello"), &hosted.image("new:1")).await?;
    program
        .line_with("the registry answers again", SOON)
        .await?;
    for name in ["known", "stranger", "new"] {
        hosted.seen(&address, name, "a guest", serves).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_pull_secret_of_the_local_cluster_has_the_login() -> Result<()> {
    use base64::Engine as _;
    let hosted = Hosted::start().await?;
    let image = hosted.image("hello:1");
    hosted.push(&guest("hello"), &image).await?;
    let hub = Server::builder().cluster("hub").bind("127.0.0.1:0").await?;
    hosted.project.write("hub.kubeconfig", hub.kubeconfig())?;
    let secret = "pullSecret: {namespace: default, name: registry}";
    let document = of_image("hello", &format!("image: {image:?}, {secret}"));
    let _fleet = hosted
        .documents("}, local: {kubeconfig: ./hub.kubeconfig", &[document])
        .await?;
    let (_program, address) = hosted.start_run(&[("DOCKER_CONFIG", "/nowhere")]).await?;
    let asks = |one: &Json| {
        let problem = one["problem"].as_str().unwrap_or_default();
        problem.contains("default/registry")
    };
    hosted
        .seen(&address, "hello", "the Secret to be missing", asks)
        .await?;
    let login = base64::engine::general_purpose::STANDARD.encode(hosted.registry.login());
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"namespace": "default", "name": "registry"}, "data": {".dockerconfigjson": login}});
    let cluster = hub.cluster("hub").context("the hub")?;
    let created = cluster.create(object);
    created.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    hosted.seen(&address, "hello", "the guest", serves).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_registry_is_reached_through_the_proxy_of_the_environment() -> Result<()> {
    let hosted = Hosted::start().await?;
    hosted
        .push(&guest("hello"), &hosted.image("hello:1"))
        .await?;
    for scheme in [Scheme::Http, Scheme::Socks5] {
        let proxy = RealProxy::start(scheme, true).await?;
        let image = format!("{}/hello:1", hosted.registry.host_behind_proxy());
        let authority = hosted.registry.authority().display().to_string();
        let args = [
            "pull",
            &image,
            "out.wasm",
            "--certificate-authority",
            &authority,
        ];
        let mut command = hosted.command(&args)?;
        command.env("HTTPS_PROXY", proxy.url());
        let finished = windlass_harness::program::Program::spawn(command)?
            .wait(SOON)
            .await?;
        finished.expect_code(0)?;
        assert!(!proxy.connections()?.is_empty());
        // Another run would find it in the cache.
        fs::remove_dir_all(hosted.project.path().join("cache/pulled"))?;
        fs::remove_file(hosted.project.path().join("out.wasm"))?;
        proxy.kill();
        let mut command = hosted.command(&args)?;
        command.env("HTTPS_PROXY", proxy.url());
        let finished = windlass_harness::program::Program::spawn(command)?
            .wait(SOON)
            .await?;
        let error = finished.expect_code(1)?.stderr;
        assert!(error.contains("through the proxy"), "{error}");
    }
    Ok(())
}
