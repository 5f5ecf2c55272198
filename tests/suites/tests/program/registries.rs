//! Components are pushed into a real registry with TLS and a login, and pulled from it.

use crate::registry::{Hosted, of_image, padded, serves};
use crate::running::SOON;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::fs;
use windlass_harness::guests::{guest, renamed};
use windlass_harness::program::Program;

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_pushed_component_is_pulled_byte_by_byte_and_checked_by_its_name() -> Result<()> {
    let hosted = Hosted::start().await?;
    let (component, image) = (guest("hello"), hosted.image("team/hello:1.0"));
    let digest = hosted.push(&component, &image).await?;
    // The same component is the same image.
    assert_eq!(
        hosted
            .push(&component, &hosted.image("team/hello:2"))
            .await?,
        digest
    );

    let pulled = hosted.project.path().join("pulled.wasm");
    let pinned = format!("{}@{digest}", hosted.image("team/hello"));
    for name in [&image, &format!("oci://{image}"), &pinned] {
        let file = pulled.display().to_string();
        hosted.run(&["pull", name, &file]).await?.expect_code(0)?;
        assert!(fs::read(&pulled)? == fs::read(&component)?, "{name}");
        fs::remove_file(&pulled)?;
    }
    let checked = hosted.run(&["check", &image]).await?.expect_code(0)?.stdout;
    assert!(checked.contains("greets the people"), "{checked}");

    // A plan with it in place of the guest of the documents.
    let serving = of_image("hello", &format!("path: {component:?}"));
    let server = hosted.documents("", &[serving]).await?;
    let alpha = server.cluster("alpha").context("a cluster")?;
    alpha.apply(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
        "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}}}),
    )?;
    let bytes = renamed(&fs::read(&component)?, ", from ", ", near ");
    let revised = hosted.project.write("revised.wasm", bytes)?;
    hosted.push(&revised, &hosted.image("team/hello:4")).await?;
    let revised = format!("hello={}", hosted.image("team/hello:4"));
    let plan = ["plan", "-f", "windlass.yaml", "--guest", &revised];
    let planned = Program::spawn(hosted.command(&plan)?)?.wait(SOON).await?;
    let planned = planned.expect_code(0)?.stdout;
    assert!(planned.contains("hello, world, near alpha"), "{planned}");

    let absent = hosted.run(&["pull", &hosted.image("team/hello:3")]).await?;
    let error = absent.expect_code(1)?.stderr;
    assert!(error.contains("is not in its registry"), "{error}");
    let text = hosted.project.write("text.wasm", "no component")?;
    let refused = hosted
        .run(&["push", &text.display().to_string(), &image])
        .await?;
    refused.expect_code(1)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_registry_is_given_no_plain_text_and_its_reasons_are_shown() -> Result<()> {
    let hosted = Hosted::start().await?;
    let image = hosted.image("hello:1");
    hosted.push(&guest("hello"), &image).await?;
    // Without the authority.
    let command = hosted.command(&["pull", &image])?;
    let error = Program::spawn(command)?
        .wait(SOON)
        .await?
        .expect_code(1)?
        .stderr;
    assert!(error.contains("certificateAuthority"), "{error}");
    // Without a login.
    let authority = hosted.registry.authority().display().to_string();
    let mut command = hosted.command(&["pull", &image, "--certificate-authority", &authority])?;
    command.env("DOCKER_CONFIG", "/nowhere");
    let error = Program::spawn(command)?
        .wait(SOON)
        .await?
        .expect_code(1)?
        .stderr;
    assert!(error.contains("docker login"), "{error}");
    // Down.
    hosted.registry.kill();
    let error = hosted.run(&["pull", &image]).await?.expect_code(1)?.stderr;
    assert!(error.contains("cannot be reached"), "{error}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_damaged_component_is_never_used() -> Result<()> {
    let hosted = Hosted::start().await?;
    let (component, image) = (guest("hello"), hosted.image("hello:1"));
    hosted.push(&component, &image).await?;
    let whole = fs::read(&component)?;
    let blob = hosted.registry.blob(&sha256(&whole));
    let mut flipped = whole.clone();
    flipped[1000] ^= 1;
    let longer = [&whole[..], b"more"].concat();
    for (damaged, reason) in [
        (&whole[..whole.len() / 2], "its digest is"),
        (&flipped[..], "its digest is"),
        (&longer[..], "has more than"),
    ] {
        fs::write(&blob, damaged)?;
        let error = hosted
            .run(&["pull", &image, "out.wasm"])
            .await?
            .expect_code(1)?
            .stderr;
        assert!(error.contains(reason), "{error}");
        assert!(!hosted.project.path().join("out.wasm").exists());
    }
    // Damaged on this machine: it is pulled again.
    fs::write(&blob, &whole)?;
    hosted
        .run(&["pull", &image, "out.wasm"])
        .await?
        .expect_code(0)?;
    let kept = hosted.project.path().join("cache/pulled/images");
    let folder = fs::read_dir(kept)?.next().transpose()?;
    let kept = folder.map(|folder| folder.path().join("component.wasm"));
    fs::write(kept.unwrap_or_default(), &flipped)?;
    hosted
        .run(&["pull", &image, "out.wasm"])
        .await?
        .expect_code(0)?;
    assert!(fs::read(hosted.project.path().join("out.wasm"))? == whole);
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_component_of_forty_megabytes_is_pulled_unless_the_manager_allows_less() -> Result<()> {
    let hosted = Hosted::start().await?;
    let large = padded(&hosted.project, &guest("hello"), 40_000_000)?;
    let image = hosted.image("large:1");
    hosted.push(&large, &image).await?;
    let document = of_image("large", &format!("image: {image:?}"));
    let _fleet = hosted
        .documents(", maxComponent: 16Mi", std::slice::from_ref(&document))
        .await?;
    let (program, address) = hosted.start_run(&[]).await?;
    let refused = |one: &serde_json::Value| {
        let problem = one["problem"].as_str().unwrap_or_default();
        problem.contains("spec.registries.maxComponent")
    };
    hosted
        .seen(&address, "large", "the refusal", refused)
        .await?;
    drop(program);
    let _fleet = hosted.documents("", &[document]).await?;
    let (_program, address) = hosted.start_run(&[]).await?;
    hosted
        .seen(&address, "large", "the large guest to serve", serves)
        .await?;
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    windlass_fleet::Digest::of(bytes).to_string()
}
