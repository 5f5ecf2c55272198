//! A pod of the chart where there is only IPv6: its probes, its API server, and a cluster of its fleet.

use crate::chart::{charts, rendered};
use crate::chart_rights::documents;
use crate::hub::{SOON, hello, object, tenant};
use crate::pod::{ApiServer, Node, Pod};
use crate::running::Http;
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use std::env;
use std::fs;
use std::net::TcpStream;
use tokio::process::Command;
use windlass_apiserver::{Cluster, Server};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;

const NAMESPACE: &str = "windlass";
/// The address of the pod, and of the servers.
const ADDRESS: &str = "fd00::7";
/// Set in the process of this test that has a network of its own.
const INSIDE: &str = "WINDLASS_TEST_IPV6_ONLY";
const NAME: &str = "ipv6::a_pod_of_the_chart_works_where_there_is_only_ipv6";
/// Makes a network of IPv6 alone, and runs its arguments there.
const NETWORK: &str = "ip link set lo up && ip address del 127.0.0.1/8 dev lo && \
    ip address add \"$0/128\" dev lo nodad && exec \"$@\"";

/// Servers in memory and the program share the network of the process, so the test runs itself again in one of its own.
#[tokio::test]
#[ignore = "needs real servers"]
async fn a_pod_of_the_chart_works_where_there_is_only_ipv6() -> Result<()> {
    if env::var_os(INSIDE).is_some() {
        return inside().await;
    }
    let in_network = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", NETWORK, ADDRESS, program]);
        command.kill_on_drop(true);
        command
    };
    if !Pod::is_possible().await? || !in_network("true").output().await?.status.success() {
        println!("NOT RUN: a network of IPv6 alone needs a user who may make one, and iproute2");
        return Ok(());
    }
    let myself = env::current_exe()?;
    let mut again = in_network(myself.to_str().context("a path")?);
    again.args([NAME, "--exact", "--include-ignored", "--nocapture"]);
    let ended = tokio::time::timeout(3 * SOON, again.env(INSIDE, "yes").output()).await??;
    let said = String::from_utf8_lossy(&ended.stdout);
    let errors = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{said}{errors}");
    ensure!(said.contains("1 passed"), "{NAME} is the name: {said}");
    Ok(())
}

async fn inside() -> Result<()> {
    ensure!(
        TcpStream::connect("127.0.0.1:1").is_err_and(is_unreachable),
        "there is no IPv4"
    );
    let bound = format!("[{ADDRESS}]:0");
    let server = |name| Server::builder().tls().cluster(name).bind(&bound);
    let (hub_server, alpha_server) = (server("hub").await?, server("alpha").await?);
    let token = "of-the-pod";
    hub_server.set_tokens(Some(&[token]));
    let root = hub_server.expose("hub", &bound).await?;
    let hub = hub_server.cluster("hub").context("the hub")?;
    let alpha = alpha_server.cluster("alpha").context("alpha")?;

    let folder = tempfile::tempdir()?;
    let guests = folder.path().join("guests");
    fs::create_dir(&guests)?;
    fs::copy(guest("hello"), guests.join("hello.wasm"))?;
    let values = json!({
        "manager": {"guests": {"hello": {"path": "/guests/hello.wasm"}}},
        "extraVolumes": [{"name": "guests", "hostPath": {"path": guests}}],
        "extraVolumeMounts": [{"name": "guests", "mountPath": "/guests", "readOnly": true}],
    });
    let file = folder.path().join("values.json");
    fs::write(&file, values.to_string())?;
    let (file, chart) = (file.display().to_string(), charts().join("windlass"));
    let chart = chart.display().to_string();
    let args = ["template", "windlass", &chart, "--namespace", NAMESPACE];
    let all = documents(&rendered(&[&args[..], &["--values", &file]].concat()).await?)?;
    let of_kind = |kind: &'static str| all.iter().filter(move |one| one["kind"] == kind);
    for definition in of_kind("CustomResourceDefinition") {
        apply(&hub, definition.clone())?;
    }
    let deployment = of_kind("Deployment").next().context("a deployment")?;
    let config = of_kind("ConfigMap").next().context("a config")?;

    for name in [NAMESPACE, "team-a"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&hub, namespace)?;
    }
    let secret = json!({"namespace": NAMESPACE, "name": "alpha"});
    apply(
        &hub,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": secret,
            "stringData": {"kubeconfig": alpha_server.kubeconfig()}}),
    )?;
    apply(
        &hub,
        object("Provider", "alpha", json!({"kubeconfigSecret": secret})),
    )?;
    apply(&hub, tenant("a", "team-a", json!({"names": ["*"]})))?;
    let mut greeter = hello("team-a/hello");
    greeter["spec"]["config"] = json!({"greeting": "hello"});
    apply(&hub, greeter)?;
    let asking = json!({"name": "a", "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}});
    apply(
        &alpha,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": asking}),
    )?;

    let node = Node {
        server: ApiServer {
            host: ADDRESS.to_owned(),
            port: root.port(),
            ca: hub_server.ca().context("a CA")?,
        },
        namespace: NAMESPACE,
        token,
        config: &config["data"],
    };
    let pod = Pod::start("windlass-1", &deployment["spec"]["template"], &node)?;
    for host in [ADDRESS, "::1"] {
        answers(&format!("[{host}]:8081"), "/livez", 200).await?;
        answers(&format!("[{host}]:8081"), "/readyz", 200).await?;
        answers(&format!("[{host}]:8082"), "/metrics", 200).await?;
        // It wants a token.
        answers(&format!("[{host}]:8080"), "/api/v1/clusters", 401).await?;
    }
    eventually(SOON, "the greeting in alpha", || async {
        let greeting = alpha.get("v1", "ConfigMap", "default", "a-greeting");
        let greeting = greeting
            .ok()
            .flatten()
            .map(|map| map["data"]["greeting"].clone());
        Ok(Seen::of(greeting, |seen| {
            seen == &Some(Json::from("hello, world, from alpha"))
        }))
    })
    .await?;
    pod.stop().await
}

fn is_unreachable(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NetworkUnreachable
}

fn apply(cluster: &Cluster, object: Json) -> Result<()> {
    let applied = cluster.apply(object);
    applied
        .map(drop)
        .map_err(|error| anyhow::anyhow!("{error:?}"))
}

/// Waits until a path is answered with this status.
async fn answers(address: &str, path: &str, status: u16) -> Result<()> {
    let http = Http {
        address: address.to_owned(),
    };
    eventually(SOON, &format!("{address}{path}"), || async {
        Ok(Seen::of(http.get(path).await?.0, |seen| *seen == status))
    })
    .await
    .map(drop)
}
