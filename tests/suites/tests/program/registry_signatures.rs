//! Guests of tenants that ask for signatures, or for certain registries. cosign signs them, without a network.

use crate::project::reconciler;
use crate::registry::{Hosted, of_tenant, padded, serves};
use anyhow::Result;
use serde_json::Value as Json;
use windlass_harness::guests::guest;
use windlass_harness::testenv::cosign::{Cosign, SignatureFormat};
use windlass_harness::testenv::real_registry::ReferrersRegistry;

/// A Tenant that asks for signatures by these keys.
fn trusting(name: &str, keys: &[&str]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    tenant(
        name,
        &format!("signatures: {{keys: [{}]}}", keys.join(", ")),
    )
}

fn tenant(name: &str, guests: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec:\n  guests: {{{guests}}}\n"
    )
}

/// Whether nothing serves, for this reason.
fn refused(reason: &str) -> impl Fn(&Json) -> bool {
    move |one| {
        let problem = one["problem"].as_str().unwrap_or_default();
        one["serves"] == false && problem.contains(reason)
    }
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn only_what_a_key_of_the_tenant_has_signed_serves() -> Result<()> {
    let (hosted, cosign) = (Hosted::start().await?, Cosign::start()?);
    let (right, wrong) = (cosign.make_key("right")?, cosign.make_key("wrong")?);
    let component = guest("hello");
    let mut documents = vec![trusting("team-b", &[&right])];
    let cases = [
        ("bundle", "right", Some(SignatureFormat::Bundle)),
        ("simple", "right", Some(SignatureFormat::Simple)),
        ("bundle-by-another", "wrong", Some(SignatureFormat::Bundle)),
        ("simple-by-another", "wrong", Some(SignatureFormat::Simple)),
        ("attested", "right", None),
        ("unsigned", "", None),
    ];
    for (name, key, format) in cases {
        let image = hosted.image(name);
        let digest = hosted.push(&component, &format!("{image}:1")).await?;
        let pinned = format!("{image}@{digest}");
        match format {
            Some(format) => cosign.sign(Some(&hosted.registry), key, format, &pinned)?,
            None if name == "attested" => cosign.attest(Some(&hosted.registry), key, &pinned)?,
            None => {}
        }
        documents.push(of_tenant(
            "team-b",
            name,
            &format!("image: '{image}:1', interval: 10s"),
        ));
    }
    // A file is not signed.
    documents.push(reconciler("file", &component).replace("tenant: team-a", "tenant: team-b"));
    let _fleet = hosted.documents("", &documents).await?;
    let (program, address) = hosted.start_run(&[]).await?;
    for name in ["bundle", "simple"] {
        hosted
            .seen(&address, name, "a signed guest", serves)
            .await?;
    }
    let reasons = [
        ("bundle-by-another", "by none of the keys"),
        ("simple-by-another", "by none of the keys"),
        ("attested", "is of another kind"),
        ("unsigned", "is not signed"),
        ("file", "asks for images"),
    ];
    for (name, reason) in reasons {
        hosted.seen(&address, name, reason, refused(reason)).await?;
    }
    // Nothing of what was refused was even pulled.
    let kept = hosted.project.path().join("cache/pulled/images");
    assert_eq!(std::fs::read_dir(kept)?.count(), 2);

    // A signature that comes later is found.
    let digest = hosted.push(&component, &hosted.image("unsigned:1")).await?;
    let pinned = format!("{}@{digest}", hosted.image("unsigned"));
    cosign.sign(
        Some(&hosted.registry),
        "right",
        SignatureFormat::Bundle,
        &pinned,
    )?;
    hosted
        .seen(&address, "unsigned", "the late signature", serves)
        .await?;

    // A moved tag that nobody has signed changes nothing.
    let next = padded(&hosted.project, &component, 10)?;
    hosted.push(&next, &hosted.image("bundle:1")).await?;
    let kept = |one: &Json| {
        let problem = one["problem"].as_str().unwrap_or_default();
        one["serves"] == true && problem.contains("is not signed")
    };
    hosted.seen(&address, "bundle", "the refusal", kept).await?;
    drop(program);

    // Signatures are kept with the image, and verified with the keys of the day.
    hosted.registry.kill();
    let (program, address) = hosted.start_run(&[]).await?;
    hosted
        .seen(&address, "simple", "the guest from the cache", serves)
        .await?;
    drop(program);
    documents[0] = trusting("team-b", &[&wrong]);
    let _fleet = hosted.documents("", &documents).await?;
    let (_program, address) = hosted.start_run(&[]).await?;
    let reason = "by none of the keys";
    hosted
        .seen(&address, "simple", reason, refused(reason))
        .await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn signatures_are_found_by_the_api_of_referrers() -> Result<()> {
    let (hosted, cosign) = (Hosted::start().await?, Cosign::start()?);
    let plain = ReferrersRegistry::start().await?;
    let (right, host) = (cosign.make_key("right")?, plain.host());
    let mut documents = vec![trusting("team-b", &[&right])];
    cosign.make_key("wrong")?;
    for key in ["right", "wrong"] {
        let image = format!("{host}/{key}");
        let file = guest("hello").display().to_string();
        let tagged = format!("{image}:1");
        let args = ["push", &file, &tagged, "--plain-http", &host, "-o", "json"];
        let pushed = hosted.run(&args).await?;
        let pushed: Json = serde_json::from_str(&pushed.expect_code(0)?.stdout)?;
        let pinned = format!("{image}@{}", pushed["digest"].as_str().unwrap_or_default());
        cosign.sign(None, key, SignatureFormat::Bundle, &pinned)?;
        documents.push(of_tenant("team-b", key, &format!("image: '{image}:1'")));
    }
    let _fleet = hosted
        .documents(&format!(", plainHttp: ['{host}']"), &documents)
        .await?;
    let (program, address) = hosted.start_run(&[]).await?;
    hosted
        .seen(&address, "right", "a signed guest", serves)
        .await?;
    let reason = "by none of the keys";
    hosted
        .seen(&address, "wrong", reason, refused(reason))
        .await?;
    drop(program);
    // Plain HTTP is for hosts that the Manager names.
    std::fs::remove_dir_all(hosted.project.path().join("cache"))?;
    let _fleet = hosted.documents("", &documents).await?;
    let (_program, address) = hosted.start_run(&[]).await?;
    hosted
        .seen(&address, "right", "no guest", refused("cannot be reached"))
        .await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_tenant_uses_the_registries_that_it_is_given_and_no_others() -> Result<()> {
    let hosted = Hosted::start().await?;
    for name in ["team/hello", "other/hello"] {
        hosted
            .push(&guest("hello"), &hosted.image(&format!("{name}:1")))
            .await?;
    }
    let allowed = tenant(
        "team-b",
        &format!("registries: ['{}/team/*']", hosted.registry.host()),
    );
    let of = |name: &str, image: &str| {
        of_tenant(
            "team-b",
            name,
            &format!("image: '{}:1'", hosted.image(image)),
        )
    };
    let documents = [
        allowed,
        tenant("team-c", "registries: []"),
        of("own", "team/hello"),
        of("elsewhere", "other/hello"),
        of("none", "team/hello").replace("team-b", "team-c"),
    ];
    let _fleet = hosted.documents("", &documents).await?;
    let (_program, address) = hosted.start_run(&[]).await?;
    hosted
        .seen(&address, "own", "an allowed guest", serves)
        .await?;
    let reason = "spec.guests.registries";
    for name in ["elsewhere", "none"] {
        hosted.seen(&address, name, reason, refused(reason)).await?;
    }
    Ok(())
}
