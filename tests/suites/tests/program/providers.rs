//! What `windlass get providers`, the API and the metrics say of Providers, and Providers that change while the program runs.

use crate::project::{Project, reconciler};
use crate::running::{SOON, ask, fleet, start, table};
use anyhow::Result;
use serde_json::{Value as Json, json};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::http::Http;

/// A Provider document.
fn provider(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// Waits until a provider is as expected.
async fn shown(
    project: &Project,
    address: &str,
    name: &str,
    expected: impl Fn(&Json) -> bool,
) -> Result<Json> {
    eventually(SOON, &format!("provider {name} as expected"), || async {
        let answer = ask(project, address, &["get", "providers"]).await?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let item = items.into_iter().find(|item| item["name"] == name);
        Ok(Seen::of(item.unwrap_or_default(), &expected))
    })
    .await
}

#[tokio::test]
async fn get_providers_shows_what_each_found_and_what_it_cannot_use() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    project.write_config(std::slice::from_ref(&hello))?;
    let _server = fleet(&project, &["alpha", "beta"]).await?;
    project.write("clusters/broken.kubeconfig", "clusters: [")?;
    let (_program, address) = start(&project).await?;
    let fleet = shown(&project, &address, "fleet", |item| {
        item["engaged"] == 2 && item["listedSeconds"].is_u64()
    })
    .await?;
    assert_eq!(fleet["source"], "kubeconfigFiles");
    assert_eq!((&fleet["found"], &fleet["refused"]), (&json!(2), &json!(0)));
    assert_eq!(
        fleet["problems"][0]["subject"],
        "clusters/broken.kubeconfig"
    );

    // A later Provider of the same clusters.
    let again = provider(
        "again",
        "{kubeconfigFiles: {paths: [clusters/fleet.kubeconfig]}}",
    );
    project.write_config(&[hello.clone(), again])?;
    let again = shown(&project, &address, "again", |item| item["refused"] == 2).await?;
    assert_eq!((&again["found"], &again["engaged"]), (&json!(2), &json!(0)));
    let message = again["problems"][0]["message"].as_str();
    let message = message.unwrap_or_default();
    assert!(
        message.contains("is provided by fleet already"),
        "{message}"
    );
    assert!(message.contains("prefix"), "the remedy: {message}");
    let http = Http {
        address: address.clone(),
    };
    let series = http
        .series("windlass_provider_clusters{provider=\"again\",")
        .await?;
    let refused = ("result=\"refused\"}".to_owned(), 2.0);
    assert!(series.contains(&refused), "{series:?}");
    let rows = table(&project, &address, &["get", "providers"]).await?;
    assert_eq!(
        (&*rows[0]["PROVIDER"], &*rows[0]["REFUSED"]),
        ("again", "2")
    );

    project.write_config(&[hello])?;
    eventually(SOON, "the Provider to be gone", || async {
        let answer = ask(&project, &address, &["get", "providers"]).await?;
        let names = answer["items"].as_array().map(Vec::len);
        Ok(Seen::of(names, |count| *count == Some(1)))
    })
    .await?;
    Ok(())
}
