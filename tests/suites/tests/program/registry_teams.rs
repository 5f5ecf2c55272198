//! Teams of a real cluster whose guests come from a real registry: each has what its Tenant allows, with a Secret of its own namespace.

use crate::hub::{Hub, SOON, object, rules, tenant};
use crate::memory_hub::{MemoryHub, has};
use crate::objects::ConfigMaps;
use crate::registry::Hosted;
use crate::running::{Http, address_in, ask};
use anyhow::Result;
use base64::Engine as _;
use serde_json::{Value as Json, json};
use std::fs;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::{guest, renamed};
use windlass_harness::program::Program;

/// The Secret of a namespace with the login for the registry.
fn login(hosted: &Hosted, namespace: &str) -> Result<Json> {
    let login = base64::engine::general_purpose::STANDARD.encode(hosted.registry.login());
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"namespace": namespace, "name": "registry"}, "data": {".dockerconfigjson": login},
    }))
}

fn reconciler(name: &str, image: &str) -> Json {
    let guest = json!({"image": image, "pullSecret": {"name": "registry"}});
    let spec = json!({"guest": guest, "rules": rules(), "config": {"greeting": "hello"}});
    object("Reconciler", name, spec)
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_team_has_the_images_that_its_tenant_allows_with_a_secret_of_its_own() -> Result<()> {
    let hosted = Hosted::start().await?;
    let (own, other) = (
        hosted.image("team-a/hello:1"),
        hosted.image("team-b/hello:1"),
    );
    for image in [&own, &other] {
        hosted.push(&guest("hello"), image).await?;
    }
    let hub = Hub::start(&["alpha"], &["team-a", "team-b"]).await?;
    hub.install().await?;
    let authority = hosted.registry.authority();
    let trusts = format!("  registries: {{certificateAuthority: {authority:?}}}\n");
    hub.write_manager(&trusts, "")?;
    let program = hub.run()?;
    let mut of_a = tenant("a", "team-a", json!({"names": ["alpha"]}));
    of_a["spec"]["guests"] = json!({"registries": [hosted.image("team-a")]});
    hub.create(of_a.clone()).await?;
    hub.create(tenant("b", "team-b", json!({"names": ["alpha"]})))
        .await?;

    // Without its Secret it asks for it, with it the guest serves.
    let serves = reconciler("team-a/hello", &own);
    hub.create(serves.clone()).await?;
    refused(&hub, &serves, "team-a/registry").await?;
    hub.create(login(&hosted, "team-a")?).await?;
    hub.expect(&serves, "Ready True Reconciling").await?;
    let maps = ConfigMaps::of(hub.environment.server("alpha").client().await?);
    maps.ask("x", "world").await?;
    maps.expect_value("x-greeting", "greeting", Some("hello, world, from alpha"))
        .await?;

    // What another team pushed is not allowed, nor is anything for a team whose Tenant names no registry.
    let elsewhere = reconciler("team-a/elsewhere", &other);
    hub.create(elsewhere.clone()).await?;
    refused(&hub, &elsewhere, "spec.guests.registries").await?;
    let none = reconciler("team-b/none", &other);
    hub.create(none.clone()).await?;
    refused(&hub, &none, "spec.guests.registries").await?;

    // The Secret of another team is of no use to it, and no namespace can be named.
    hub.change(
        &object("Tenant", "b", json!({})),
        json!({"guests": {"registries": [hosted.image("team-*")]}}),
    )
    .await?;
    refused(&hub, &none, "team-b/registry").await?;
    let mut thief = reconciler("team-b/thief", &other);
    thief["spec"]["guest"]["pullSecret"]["namespace"] = "team-a".into();
    let said = hub
        .create(thief)
        .await
        .expect_err("a namespace in pullSecret");
    assert!(format!("{said:#}").contains("namespace"), "{said:#}");
    hub.create(login(&hosted, "team-b")?).await?;
    hub.expect(&none, "Ready True Reconciling").await?;

    // A Tenant that allows it no more has that said, and no other image of it is loaded.
    hub.change(
        &object("Tenant", "b", json!({})),
        json!({"guests": {"registries": []}}),
    )
    .await?;
    refused(&hub, &none, "spec.guests.registries").await?;
    stop(program).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_process_without_a_copy_pulls_the_image_that_was_rolled_back_to() -> Result<()> {
    let hosted = Hosted::start().await?;
    let [good, bad] = ["team-a/hello:1", "team-a/hello:2"].map(|name| hosted.image(name));
    hosted.push(&guest("hello"), &good).await?;
    let bytes = renamed(&fs::read(guest("hello"))?, ", from ", ", near ");
    let other = hosted.project.write("other.wasm", bytes)?;
    hosted.push(&other, &bad).await?;
    let hub = MemoryHub::start().await?;
    let mut owner = tenant("a", "team-a", json!({"names": ["*"]}));
    owner["spec"]["guests"] = json!({"registries": [hosted.image("team-a")]});
    hub.put(owner)?;
    hub.put(login(&hosted, "team-a")?)?;
    fs::copy(guest("hello"), hub.project.path().join("guest.wasm"))?;
    let authority = hosted.registry.authority();
    hub.write_manager(
        "windlass.yaml",
        &format!("  registries: {{certificateAuthority: {authority:?}}}\n"),
    )?;
    let first = hub.run("windlass.yaml", "cache").await?;
    let ready = |status: &Json| has(status, "Ready True Reconciling");
    hub.put(reconciler("team-a/x", &good))?;
    let served = hub.status("x", "the good guest", ready).await?["revision"].clone();
    hub.put(reconciler("team-a/x", &bad))?;
    let swapped = |status: &Json| ready(status) && status["revision"] != served;
    hub.status("x", "the bad guest", swapped).await?;
    ask(&hub.project, &first.address, &["rollback", "team-a/x"]).await?;
    let is_back =
        |status: &Json| has(status, "Ready True RolledBack") && status["revision"] == served;
    hub.status("x", "the rollback", is_back).await?;
    // Nobody can move a digest, so the tag may be another's by now.
    hosted.push(&other, &good).await?;
    drop(first);
    let _second = hub.run("windlass.yaml", "empty").await?;
    hub.alpha.ask("a", "world").await?;
    hub.alpha
        .expect_greeting("a", Some("hello, world, from alpha"))
        .await?;
    hub.status("x", "the rollback of the next process", is_back)
        .await?;
    Ok(())
}

/// Waits until the guest of a Reconciler is refused with these words.
async fn refused(hub: &Hub, of: &Json, words: &str) -> Result<()> {
    let what = format!("{words} in a refusal");
    eventually(SOON, &what, || async {
        let seen = hub.status(of).await?["conditions"].clone();
        let loaded = seen.as_array().into_iter().flatten();
        let loaded = loaded.filter(|one| one["type"] == "Loaded" && one["status"] == "False");
        let says = |one: &Json| {
            one["message"]
                .as_str()
                .is_some_and(|text| text.contains(words))
        };
        let holds = loaded.clone().any(says);
        Ok(Seen::of(seen, |_| holds))
    })
    .await
    .map(drop)
}

async fn stop(program: Program) -> Result<()> {
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_start_without_the_registry_waits_for_what_served_and_not_for_what_is_refused()
-> Result<()> {
    let hosted = Hosted::start().await?;
    let hub = Hub::start(&["alpha"], &["team-a", "team-b"]).await?;
    hub.install().await?;
    let authority = hosted.registry.authority();
    let trusts = format!("  registries: {{certificateAuthority: {authority:?}}}\n");
    hub.write_manager(&trusts, "")?;
    let before = hub.run()?;
    let mut all = Vec::new();
    for team in ["team-a", "team-b"] {
        let image = hosted.image(&format!("{team}/hello:1"));
        hosted.push(&guest("hello"), &image).await?;
        let mut own = tenant(team, team, json!({"names": ["alpha"]}));
        own["spec"]["guests"] = json!({"registries": [hosted.image(team)]});
        hub.create(own).await?;
        hub.create(login(&hosted, team)?).await?;
        let reconciler = reconciler(&format!("{team}/hello"), &image);
        hub.create(reconciler.clone()).await?;
        hub.expect(&reconciler, "Ready True Reconciling").await?;
        all.push(reconciler);
    }
    stop(before).await?;

    // A process that has pulled nothing. The one Reconciler served, and the registry is down. The other one may not have its image any
    // more. The third one never served: its registry has no such name.
    hosted.registry.kill();
    let none = object("Tenant", "team-b", json!({}));
    hub.change(&none, json!({"guests": {"registries": []}}))
        .await?;
    let new = reconciler("team-a/new", &hosted.image("team-a/new:1"));
    hub.create(new.clone()).await?;
    let args = "run --from-cluster -f windlass.yaml --admin 127.0.0.1:0 --cache empty";
    let mut program = Program::start(hub.project.path(), args.split(' '))?;
    let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
    let http = Http { address };
    refused(&hub, &all[1], "spec.guests.registries").await?;
    refused(&hub, &all[0], "cannot be reached").await?;
    refused(&hub, &new, "cannot be reached").await?;
    let (status, text) = http.get("/readyz").await?;
    assert_eq!(status, 503, "{text}");
    let waits = "1 are waited for until 15 min after the start: team-a/hello\n";
    assert!(text.contains(waits), "{text}");

    hosted.registry.restart().await?;
    let ready = eventually(SOON, "readiness", || async {
        let seen = http.get("/readyz?verbose").await?;
        Ok(Seen::of(seen, |(status, _)| *status == 200))
    });
    let (_, text) = ready.await?;
    assert!(text.contains("1 of 3 serve"), "{text}");
    stop(program).await
}
