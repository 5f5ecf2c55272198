//! The chart: installed, upgraded and uninstalled on a real server, and its pods as they would run.

use crate::chart_rights::{documents, rights, rights_of_process};
use crate::hub::{Hub, SOON, hello, object, tenant};
use crate::objects::ConfigMaps;
use crate::pod::{ApiServer, Node, Pod, printed};
use crate::running::Http;
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::PathBuf;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::{free_port, helm};

const NAMESPACE: &str = "windlass";
/// Leaves users and groups to the platform.
pub(crate) const ANY_USER: &str = "podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null,podSecurityContext.fsGroup=null";

pub(crate) fn charts() -> PathBuf {
    windlass_harness::repository().join("charts")
}

/// Runs helm without a cluster.
pub(crate) async fn rendered(args: &[&str]) -> Result<String> {
    printed(&helm()?, &PathBuf::from("/dev/null"), args).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn what_the_chart_has_from_elsewhere_is_what_is_there() -> Result<()> {
    let charts = charts();
    let path = charts.join("windlass").display().to_string();
    let file = |name: &str| fs::read_to_string(charts.join("windlass/files").join(name));
    let monitoring = windlass_harness::repository().join("monitoring");
    let again = "run charts/generate";
    for name in ["alerts.yaml", "dashboard.json"] {
        let there = fs::read_to_string(monitoring.join(name))?;
        ensure!(file(name)? == there, "{name}: {again}");
    }
    let print = |args: &'static [&'static str]| async move {
        let printed = Program::run(&self::charts(), args, SOON).await?;
        anyhow::Ok(printed.expect_code(0)?.stdout)
    };
    ensure!(file("crds.yaml")? == print(&["crds"]).await?, "{again}");
    ensure!(
        file("callers.yaml")? == print(&["rbac", "--callers"]).await?,
        "{again}"
    );
    let people = print(&["rbac", "--from-cluster"]).await?;
    ensure!(
        people.starts_with(file("teams.yaml")?.trim_end()),
        "{again}"
    );
    let schema = fs::read_to_string(charts.join("windlass/values.schema.json"))?;
    let schema: Json = serde_json::from_str(&schema)?;
    let manager: Json = serde_json::from_str(&print(&["crds", "--manager"]).await?)?;
    ensure!(schema["properties"]["manager"] == manager, "{again}");
    let plain = rendered(&["template", "windlass", &path, "--namespace", NAMESPACE]).await?;
    let kept = fs::read_to_string(charts.join("windlass.yaml"))?;
    ensure!(kept.ends_with(&plain), "{again}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_roles_of_the_process_are_those_that_the_program_prints() -> Result<()> {
    let path = charts().join("windlass").display().to_string();
    for (from_cluster, is_sharded) in [(true, false), (false, false), (true, true)] {
        let value = format!("fromCluster={from_cluster},sharding.enabled={is_sharded}");
        let text = rendered(&[
            "template", "windlass", &path, "-n", NAMESPACE, "--set", &value,
        ])
        .await?;
        let all = documents(&text)?;
        let has = rights_of_process(&all);

        let folder = tempfile::tempdir()?;
        let config = all
            .iter()
            .find(|one| one["kind"] == "ConfigMap")
            .context("the config")?;
        let config = config["data"]["windlass.yaml"].as_str().context("a file")?;
        fs::write(folder.path().join("windlass.yaml"), config)?;
        let bind = format!("serviceaccount:{NAMESPACE}/windlass");
        let local = ["rbac", "-f", "windlass.yaml", "--local", "--bind", &bind];
        let local = Program::run(folder.path(), local, SOON)
            .await?
            .expect_code(0)?;
        let mut printed = documents(&local.stdout)?;
        if from_cluster {
            let rest = Program::run(folder.path(), ["rbac", "--from-cluster"], SOON).await?;
            let rest = documents(&rest.expect_code(0)?.stdout)?;
            let of_process = |one: &Json| {
                let name = one["metadata"]["name"].as_str().unwrap_or_default();
                name.starts_with("windlass-from-cluster")
            };
            printed.extend(rest.into_iter().filter(of_process));
        }
        assert_eq!(has, rights(&printed), "{value}");

        // Secrets of the namespaces that the values name, and of its own if teams' objects may name them.
        let named = ["--set", "rbac.secretsIn={team-a}"];
        let args = [
            "template", "windlass", &path, "-n", NAMESPACE, "--set", &value,
        ];
        let all = documents(&rendered(&[&args[..], &named[..]].concat()).await?)?;
        let mut readable: Vec<&str> = all
            .iter()
            .filter(|one| {
                one["kind"] == "RoleBinding"
                    && one["roleRef"]["name"] == "windlass:windlass-secrets"
            })
            .filter_map(|one| one["metadata"]["namespace"].as_str())
            .collect();
        readable.sort_unstable();
        let expected: &[&str] = if from_cluster {
            &["team-a", NAMESPACE]
        } else {
            &["team-a"]
        };
        assert_eq!(readable, expected, "{value}");
    }
    Ok(())
}

/// Waits until the probes at a port say that the pod is ready.
async fn probes_of(port: u16, what: &str) -> Result<()> {
    let probes = Http {
        address: format!("127.0.0.1:{port}"),
    };
    let status = async || probes.get("/readyz").await.map_or(0, |(status, _)| status);
    let ready = eventually(SOON, what, || async {
        Ok(Seen::of(status().await, |status| *status == 200))
    });
    ready.await.map(drop)
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn two_pods_of_the_chart_serve_and_one_goes_on_alone() -> Result<()> {
    if !Pod::is_possible().await? {
        return Ok(());
    }
    let hub = Hub::start(&["alpha"], &["team-a"]).await?;
    let server = hub.environment.server("hub");
    let kubeconfig = hub.project.path().join("hub.kubeconfig");
    let (helm, kubectl) = (helm()?, hub.environment.binaries().kubectl());
    let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    hub.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}}))
        .await?;

    let guests = hub.project.path().join("guests");
    fs::create_dir(&guests)?;
    fs::copy(guest("hello"), guests.join("hello.wasm"))?;
    let ports = [free_port()?, free_port()?, free_port()?];
    let values = json!({
        "ports": {"api": ports[0], "probes": ports[1], "metrics": ports[2]},
        "manager": {"guests": {"hello": {"path": "/guests/hello.wasm"}}},
        "extraVolumes": [{"name": "guests", "hostPath": {"path": guests}}],
        "extraVolumeMounts": [{"name": "guests", "mountPath": "/guests", "readOnly": true}],
    });
    hub.project.write("values.json", values.to_string())?;
    let values = hub.project.path().join("values.json").display().to_string();
    let chart = charts().join("windlass").display().to_string();
    let release = [
        "windlass",
        &chart,
        "--namespace",
        NAMESPACE,
        "--values",
        &values,
    ];
    printed(&helm, &kubeconfig, &[&["install"], &release[..]].concat()).await?;

    let get = |kind: &'static str| {
        let (kubectl, kubeconfig) = (kubectl.clone(), kubeconfig.clone());
        async move {
            let args = ["get", kind, "windlass", "-n", NAMESPACE, "-o", "json"];
            anyhow::Ok(serde_json::from_str::<Json>(
                &printed(&kubectl, &kubeconfig, &args).await?,
            )?)
        }
    };
    let deployment = get("deployment").await?;
    assert_eq!(deployment["spec"]["replicas"], 2);
    let template = deployment["spec"]["template"].clone();

    // Without the test's folder of guests it is a pod that the profile `restricted` admits.
    let plain = rendered(&["template", "windlass", &chart, "--namespace", NAMESPACE]).await?;
    let plain = documents(&plain)?
        .into_iter()
        .find(|one| one["kind"] == "Deployment");
    let mut pod = plain.context("a deployment")?["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "one".into();
    hub.project.write("pod.json", pod.to_string())?;
    let file = hub.project.path().join("pod.json").display().to_string();
    let admitted = ["create", "--dry-run=server", "-n", NAMESPACE, "-f", &file];
    printed(&kubectl, &kubeconfig, &admitted).await?;

    // Teams, and the cluster of the fleet, as objects.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": "alpha"},
        "stringData": {"kubeconfig": hub.environment.server("alpha").kubeconfig()},
    });
    hub.create(secret).await?;
    let secret = json!({"namespace": NAMESPACE, "name": "alpha"});
    let from = json!({"kubeconfigSecret": secret, "allowServers": ["127.0.0.0/8"]});
    let provider = object("Provider", "alpha", from);
    hub.create(provider.clone()).await?;
    hub.create(tenant("a", "team-a", json!({"names": ["*"]})))
        .await?;
    let mut greeter = hello("team-a/hello");
    greeter["spec"]["config"] = json!({"greeting": "hello"});
    hub.create(greeter.clone()).await?;

    let token = ["create", "token", "windlass", "-n", NAMESPACE];
    let token = printed(&kubectl, &kubeconfig, &token).await?;
    let config = get("configmap").await?["data"].clone();
    let node = |config| -> Result<_> {
        Ok(Node {
            server: ApiServer::of(server)?,
            namespace: NAMESPACE,
            token: token.trim(),
            config,
        })
    };
    let first = Pod::start("windlass-1", &template, &node(&config)?)?;
    hub.expect(&greeter, "Ready True Reconciling").await?;
    hub.expect(&provider, "Ready True Listed").await?;
    let holder = eventually(SOON, "a leader", || async {
        let lease = get("lease").await?;
        Ok(Seen::of(
            lease["spec"]["holderIdentity"].clone(),
            Json::is_string,
        ))
    })
    .await?;
    assert!(holder.to_string().contains("windlass-1"), "{holder}");
    let probes = Http {
        address: format!("127.0.0.1:{}", ports[1]),
    };
    for path in ["/livez", "/readyz"] {
        assert_eq!(probes.get(path).await?.0, 200, "{path}");
    }
    let api = Http {
        address: format!("127.0.0.1:{}", ports[0]),
    };
    assert_eq!(
        api.get("/api/v1/clusters").await?.0,
        401,
        "it wants a token"
    );
    assert!(first.has_compiled()?, "it keeps compiled guests");
    let metrics = Http {
        address: format!("127.0.0.1:{}", ports[2]),
    };
    assert!(
        metrics
            .get("/metrics")
            .await?
            .1
            .contains("windlass_clusters")
    );

    // The second one is on the same machine here, so its ports are others.
    let others = [free_port()?, free_port()?, free_port()?];
    let mut text = config.to_string();
    for (port, other) in ports.iter().zip(others) {
        text = text.replace(&format!(":{port}"), &format!(":{other}"));
    }
    let first_config = config.clone();
    let config = serde_json::from_str(&text)?;
    let second = Pod::start("windlass-2", &template, &node(&config)?)?;
    probes_of(others[1], "the second pod to be ready").await?;
    let maps = ConfigMaps::of(hub.environment.server("alpha").client().await?);
    maps.ask("a", "world").await?;
    maps.expect_value("a-greeting", "greeting", Some("hello, world, from alpha"))
        .await?;
    first.program.signal("KILL")?;
    // A team creates one and breaks another before anybody leads again, and deletes the first one after.
    let mut other = hello("team-a/other");
    other["spec"]["config"] = json!({"greeting": "bye"});
    other["spec"]["guest"] = json!({"name": "no-such"});
    hub.create(other.clone()).await?;
    maps.ask("b", "you").await?;
    maps.expect_value("b-greeting", "greeting", Some("hello, you, from alpha"))
        .await?;

    hub.expect(&other, "Accepted False UnknownGuest").await?;
    hub.change(&other, json!({"guest": {"name": "hello"}}))
        .await?;
    hub.expect(&other, "Ready True Reconciling").await?;
    hub.change(&greeter, json!({"guest": {"name": "no-such"}}))
        .await?;
    hub.expect(&greeter, "Accepted False UnknownGuest").await?;
    // A new pod takes the place of the one that was killed, and the one that leads goes. What is deleted meanwhile stays deleted.
    // Its node chooses users and groups itself, as OpenShift does.
    let open = [&["upgrade"], &release[..], &["--set", ANY_USER]].concat();
    printed(&helm, &kubeconfig, &open).await?;
    let chosen = get("deployment").await?["spec"]["template"].clone();
    let third = Pod::start("windlass-3", &chosen, &node(&first_config)?)?;
    probes_of(ports[1], "the third pod to be ready").await?;
    second.stop().await?;
    hub.delete(&other).await?;
    hub.change(&greeter, json!({"guest": {"name": "hello"}}))
        .await?;
    hub.expect(&greeter, "Ready True Reconciling").await?;
    maps.ask("c", "all").await?;
    maps.expect_value("c-greeting", "greeting", Some("hello, all, from alpha"))
        .await?;

    // A release of the same name in another namespace leaves alone what belongs to all, and so it stays when that release goes.
    let other = ["windlass", &chart, "--namespace", "other"];
    let other = [&["install", "--create-namespace"], &other[..]].concat();
    printed(&helm, &kubeconfig, &other).await?;
    let other = ["uninstall", "windlass", "--namespace", "other"];
    printed(&helm, &kubeconfig, &other).await?;
    for shared in ["crd/tenants.windlass.dev", "clusterrole/windlass-view"] {
        printed(&kubectl, &kubeconfig, &["get", shared]).await?;
    }

    // An upgrade changes the pods, and what teams have stays when the chart goes. The pods end after that, as with background deletion.
    let three = [&["upgrade"], &release[..], &["--set", "replicas=3"]].concat();
    printed(&helm, &kubeconfig, &three).await?;
    assert_eq!(get("deployment").await?["spec"]["replicas"], 3);
    printed(
        &helm,
        &kubeconfig,
        &["uninstall", "windlass", "--namespace", NAMESPACE],
    )
    .await?;
    ensure!(get("deployment").await.is_err(), "it is gone");
    third.stop().await?;
    let lease = get("lease").await?;
    assert_eq!(lease["spec"]["holderIdentity"], "", "it is given back");
    hub.status(&greeter).await?;
    Ok(())
}
