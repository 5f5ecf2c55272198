//! What `windlass get providers`, the API and the metrics say of Providers, and Providers that change while the program runs.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::{SOON, ask, client_of, fleet, start, table};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use windlass_apiserver::{Server, Verb};
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

    let clusters = ask(&project, &address, &["get", "clusters"]).await?;
    let all = clusters["items"].as_array().into_iter().flatten();
    let unusable: Vec<&Json> = all.filter(|item| item["state"] == "Unusable").collect();
    let [unusable] = unusable[..] else {
        anyhow::bail!("one that cannot be used in {clusters}");
    };
    let text = |field: &str| unusable[field].as_str().unwrap_or_default();
    assert!(text("name").contains("broken.kubeconfig"), "{unusable}");
    assert_ne!(text("reason"), "", "{unusable}");
    let http = Http {
        address: address.clone(),
    };
    let problems = "windlass_provider_problems{provider=\"fleet\"}";
    assert_eq!(http.series(problems).await?, [(String::new(), 1.0)]);
    // Once the file is correct there is nothing left to report.
    project.write("clusters/broken.kubeconfig", "contexts: []")?;
    eventually(SOON, "no problem to be counted", || async {
        let series = http.series(problems).await?;
        Ok(Seen::of(series, |series| {
            series.iter().all(|(_, value)| *value == 0.0)
        }))
    })
    .await?;

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

/// A manager's local cluster with kubeconfigs in Secrets, and the cluster that they name.
async fn hub(project: &Project) -> Result<Server> {
    let server = Server::builder().cluster("hub").cluster("alpha");
    let server = server.bind("127.0.0.1:0").await?;
    project.write("hub.kubeconfig", server.kubeconfig())?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": server.kubeconfig()},
        "metadata": {"namespace": "default", "name": "prod",
            "labels": {"sigs.k8s.io/multicluster-runtime-kubeconfig": "true", "env": "prod"}}});
    let hub = server.cluster("hub").context("the hub")?;
    let created = hub.create(secret);
    created.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(server)
}

const MANAGER: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: manager}\n\
                       spec: {local: {kubeconfig: hub.kubeconfig, context: hub}}\n";

#[tokio::test]
async fn kubeconfigs_in_secrets_become_clusters_as_the_changing_document_allows() -> Result<()> {
    let project = Project::new()?;
    let server = hub(&project).await?;
    let hello = reconciler("hello", &guest("hello"))
        .replace("  tenant: team-a\n", "  clusters: {selector: env=prod}\n");
    let write = |spec: &str| {
        let documents = [MANAGER, &provider("teams", spec), &hello].concat();
        project.write("windlass.yaml", documents)
    };
    write("{kubeconfigSecrets: {namespaces: [default], context: alpha}}")?;
    let (_program, address) = start(&project).await?;
    let refused = shown(&project, &address, "teams", |item| {
        item["problems"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    })
    .await?;
    let message = refused["problems"][0]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(message.contains("allowServers"), "the remedy: {message}");

    // The servers of this test are on this machine.
    write(
        "{kubeconfigSecrets: {namespaces: [default], context: alpha}, allowServers: [127.0.0.0/8]}",
    )?;
    let engaged = shown(&project, &address, "teams", |item| item["engaged"] == 1).await?;
    assert_eq!(engaged["problems"], json!([]));
    let alpha = ConfigMaps::in_context(&project.path().join("hub.kubeconfig"), "alpha").await?;
    alpha.ask("a", "world").await?;
    alpha
        .expect_greeting("a", Some("hello, world, from prod"))
        .await?;

    write(
        "{kubeconfigSecrets: {namespaces: [default], context: alpha}, allowServers: [127.0.0.0/8], prefix: teams}",
    )?;
    let cluster = "a cluster with the prefix";
    eventually(SOON, cluster, || async {
        let clusters = ask(&project, &address, &["get", "clusters"]).await?;
        let names: Vec<Json> = clusters["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| item["name"].clone())
            .collect();
        Ok(Seen::of(names, |names| *names == ["", "teams#prod"]))
    })
    .await?;

    let hub = server.cluster("hub").context("the hub")?;
    hub.delete("v1", "Secret", "default", "prod")?;
    shown(&project, &address, "teams", |item| item["engaged"] == 0).await?;
    Ok(())
}

#[tokio::test]
async fn a_provider_without_a_hub_says_what_to_do_and_the_others_work() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    project.write_config(&[hello, provider("capi", "{clusterAPI: {}}")])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (_program, address) = start(&project).await?;
    let capi = shown(&project, &address, "capi", |item| {
        item["problems"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    })
    .await?;
    let message = capi["problems"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("`from`"), "the remedy: {message}");
    assert_eq!(capi["listedSeconds"], json!(null));
    shown(&project, &address, "fleet", |item| item["engaged"] == 1).await?;
    Ok(())
}

#[tokio::test]
async fn clusters_of_files_have_the_labels_that_the_changing_document_gives_them() -> Result<()> {
    let project = Project::new()?;
    let server = fleet(&project, &["alpha", "beta"]).await?;
    let write = |labels: &str| {
        let spec = format!("{{kubeconfigFiles: {{paths: [./clusters], labels: [{labels}]}}}}");
        let hello = reconciler("hello", &guest("hello"));
        let hello = hello.replace("tenant: team-a", "clusters: {selector: env=prod}");
        let documents = format!("{}{hello}", provider("fleet", &spec));
        project.write("windlass.yaml", documents)
    };
    write("{contexts: alpha, labels: {env: prod}}")?;
    let (_program, _) = start(&project).await?;
    let [alpha, beta] = ["alpha", "beta"].map(|name| client_of(&project, name));
    let (alpha, beta) = (alpha.await?, beta.await?);
    beta.ask("a", "world").await?;
    alpha.ask("a", "world").await?;
    alpha
        .expect_greeting("a", Some("hello, world, from alpha"))
        .await?;
    assert_eq!(beta.greeting("a").await?, None);
    // A cluster that is engaged again is asked who it is.
    let asked = |name: &str| {
        let cluster = server.cluster(name).context("a cluster")?;
        anyhow::Ok(cluster.count(Verb::Get, "namespaces"))
    };
    let before = (asked("alpha")?, asked("beta")?);
    write("{files: \"fleet.*\", labels: {env: prod}}, {contexts: alpha, labels: {env: dev}}")?;
    beta.expect_greeting("a", Some("hello, world, from beta"))
        .await?;
    alpha.ask("b", "world").await?;
    beta.ask("b", "world").await?;
    beta.expect_greeting("b", Some("hello, world, from beta"))
        .await?;
    assert_eq!(alpha.greeting("b").await?, None);
    assert_eq!((asked("alpha")?, asked("beta")?), before);
    Ok(())
}
