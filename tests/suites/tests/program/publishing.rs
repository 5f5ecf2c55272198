//! `windlass kcp publish`: what it prints is taken by kcp, and consumers can use it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use windlass_apiserver::Server;
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_harness::program::Program;
use windlass_harness::testenv::Kcp;
use windlass_harness::testenv::kcp::{Client, Workspace};

const SOON: Duration = Duration::from_secs(60);
const SCHEMAS: &str = "apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const EXPORTS: &str = "apis/apis.kcp.io/v1alpha2/apiexports";
const BINDINGS: &str = "apis/apis.kcp.io/v1alpha2/apibindings";
const BINS: &str = "apis/example.com/v1/namespaces/default/httpbins";

const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: httpbins.example.com, labels: {app: httpbin}}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: HttpBin, plural: httpbins, shortNames: [hb]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Ready, type: boolean, jsonPath: .status.ready}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [region]
            properties:
              region: {type: string, enum: [us, eu]}
              port: {x-kubernetes-int-or-string: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
status: {storedVersions: [v1]}
";

/// What the program prints for a definition.
async fn published(definition: &str) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("crd.yaml"), definition)?;
    let publish = [
        "kcp", "publish", "-f", "crd.yaml", "--export", "httpbin", "--claim", "secrets", "-o",
        "json",
    ];
    let finished = Program::run(folder.path(), publish, SOON).await?;
    let finished = finished.expect_code(0)?;
    let list: Value = serde_json::from_str(&finished.stdout)?;
    let items = list["items"].as_array();
    Ok(items.context("a list of manifests")?.clone())
}

/// Publishes the definition in one workspace, and uses it in another.
async fn used(client: &Client) -> Result<()> {
    let provider = client.workspace("root", "publisher").await?;
    let consumer = client.workspace("root", "reader").await?;
    let manifests = published(DEFINITION).await?;
    let [schema, export] = manifests.as_slice() else {
        anyhow::bail!("{manifests:?}");
    };
    client.make(&provider.at(SCHEMAS), schema).await?;
    client.make(&provider.at(EXPORTS), export).await?;
    bind(client, &provider, &consumer).await?;
    let bin = |region: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "HttpBin",
            "metadata": {"name": "b", "namespace": "default"}, "spec": {"region": region, "port": "http"}})
    };
    let refused = client.post(&consumer.at(BINS), &bin("moon")).await?;
    ensure!(refused.code == 422, "{}: the schema counts", refused.text);
    client.make(&consumer.at(BINS), &bin("eu")).await?;
    Ok(())
}

async fn bind(client: &Client, provider: &Workspace, consumer: &Workspace) -> Result<()> {
    let secrets = json!({"group": "", "resource": "secrets", "verbs": ["*"], "selector": {"matchAll": true}, "state": "Accepted"});
    let binding = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "httpbin"},
        "spec": {"reference": {"export": {"path": provider.path, "name": "httpbin"}}, "permissionClaims": [secrets]}});
    client.make(&consumer.at(BINDINGS), &binding).await?;
    let path = consumer.at(&format!("{BINDINGS}/httpbin"));
    eventually(DEADLINE, "the binding", || async {
        let binding = client.get(&path).await?.json();
        Ok(Seen::of(binding, |binding| {
            binding["status"]["phase"] == "Bound"
        }))
    })
    .await?;
    let served = || async {
        Ok(Seen::of(
            client.get(&consumer.at(BINS)).await?.code,
            |code| *code == 200,
        ))
    };
    eventually(DEADLINE, "the kind", served).await.map(drop)
}

#[tokio::test]
async fn the_kcp_in_memory_takes_what_is_published() -> Result<()> {
    let server = Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?;
    let url = server.shard_url(0).context("a shard")?;
    used(&Client::plain(url).await?).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_real_kcp_takes_what_is_published() -> Result<()> {
    let kcp = Kcp::start(&[]).await?;
    used(&kcp.client().await?).await
}

#[tokio::test]
async fn a_definition_that_changes_gets_another_schema_and_what_is_none_is_refused() -> Result<()> {
    let names = |manifests: &[Value]| manifests[0]["metadata"]["name"].clone();
    let before = published(DEFINITION).await?;
    let after = published(&DEFINITION.replace("[us, eu]", "[us, eu, asia]")).await?;
    ensure!(names(&before) != names(&after));
    ensure!(after[1]["spec"]["resources"][0]["schema"] == names(&after));

    let folder = tempfile::tempdir()?;
    fs::write(
        folder.path().join("pod.yaml"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
    )?;
    let publish = ["kcp", "publish", "-f", "pod.yaml", "--export", "httpbin"];
    let finished = Program::run(folder.path(), publish, SOON).await?;
    let finished = finished.expect_code(1)?;
    let text = finished.stderr.clone();
    ensure!(
        text.contains("pod.yaml") && text.contains("p is no CustomResourceDefinition"),
        "{text}"
    );
    Ok(())
}
