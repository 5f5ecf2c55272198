//! The commands of docs/install.md, run as they are written, and what the process then asks of its cluster beside what its roles allow.

use crate::chart_rights::{Right, documents, rights_of_process};
use crate::hub::{Hub, SOON, object, rules};
use crate::objects::ConfigMaps;
use crate::pod::{Installed, Pod, printed};
use crate::readme::{bash, commands};
use anyhow::{Result, ensure};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::http::Http;
use windlass_harness::program::binary;
use windlass_harness::testenv::real_registry::ReferrersRegistry;
use windlass_harness::testenv::{self, Spec, free_port};

const PAGE: &str = "docs/install.md";
/// The user of the process.
const USER: &str = "system:serviceaccount:windlass:windlass";
/// The page's tools, as this machine has them. Its registry has no TLS.
const TOOLS: &str = r#"
trap 'kubectl get providers.windlass.dev,tenants.windlass.dev,reconcilers.windlass.dev -A -o yaml >&2' ERR
PATH=$(dirname "$HELM"):$PATH
helm() {
  if [[ $1 == install ]]; then
    command helm "$@" --values values.json
  else
    command helm "$@"
  fi
}
windlass() { "$PROGRAM" "$@" --plain-http "$(cat registry)"; }
"#;

/// A server that notes what the process asks.
fn audited(folder: &Path) -> Result<Spec> {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}],
    });
    let file = folder.join("policy.json");
    fs::write(&file, policy.to_string())?;
    // Without streaming lists, as servers before Kubernetes 1.34, so that lists are lists.
    let spec = Spec::new("hub")
        .with_role_aggregation()
        .with_arg("--feature-gates=WatchList=false")
        .with_arg(format!("--audit-policy-file={}", file.display()));
    let log = folder.join("audit.log");
    Ok(spec.with_arg(format!("--audit-log-path={}", log.display())))
}

/// What the process asked, as far as it is about resources. Names count where roles name them.
fn asked(folder: &Path, named: &BTreeSet<Right>) -> Result<BTreeSet<Right>> {
    let text = fs::read_to_string(folder.join("audit.log"))?;
    let mut all = BTreeSet::new();
    for line in text.lines() {
        let line: Json = serde_json::from_str(line)?;
        let of = &line["objectRef"];
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let resource = match of["subresource"].as_str() {
            Some(subresource) => format!("{}/{subresource}", text(&of["resource"])),
            None => text(&of["resource"]),
        };
        let right = Right {
            in_cluster: false,
            group: text(&of["apiGroup"]),
            resource,
            name: text(&of["name"]),
            verb: text(&line["verb"]),
        };
        let roles = named.iter().filter(|one| one.includes(&right));
        all.extend(roles.cloned());
    }
    Ok(all)
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_commands_of_the_page_do_what_it_says_on_real_servers() -> Result<()> {
    if !Pod::is_possible().await? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let specs = [
        audited(folder.path())?,
        Spec::new("alpha"),
        Spec::new("plain"),
    ];
    let hub = Hub::of(specs, &[]).await?;
    let registry = ReferrersRegistry::start().await?;
    let ports = [free_port()?, free_port()?, free_port()?];
    let work = hub.project.path();
    let repository = windlass_harness::repository();
    std::os::unix::fs::symlink(repository.join("charts"), work.join("charts"))?;
    hub.environment
        .server("alpha")
        .write_kubeconfig(&work.join("alpha.kubeconfig"))?;
    fs::create_dir(work.join(".windlass"))?;
    fs::copy(guest("hello"), work.join(".windlass/guest.wasm"))?;
    hub.project.write("registry", registry.host())?;
    let values = json!({
        "ports": {"api": ports[0], "probes": ports[1], "metrics": ports[2]},
        "manager": {"registries": {"plainHttp": [registry.host()]}},
    });
    hub.project.write("values.json", values.to_string())?;
    let (program, helm) = (binary()?, testenv::helm()?);
    let run = |part: &'static str, server: &str| {
        let kubeconfig = work.join(format!("{server}.of-server"));
        let written = hub.environment.server(server).write_kubeconfig(&kubeconfig);
        let (program, helm, host) = (&program, &helm, registry.host());
        async move {
            written?;
            let text = match part {
                "" => "kubectl apply --server-side -f charts/windlass.yaml".to_owned(),
                part => commands(PAGE, part, 1)?.join("\n"),
            };
            // The clusters of this test are on the loopback, which a Provider has to allow.
            let text = text
                .replace("registry.example.com", &host)
                .replace(
                    "kubeconfigSecret: {namespace: windlass, name: alpha}",
                    "kubeconfigSecret: {namespace: windlass, name: alpha}\n  allowServers: [127.0.0.0/8]",
                );
            let files = [
                ("KUBECONFIG", &*kubeconfig),
                ("PROGRAM", program),
                ("HELM", helm),
            ];
            bash(work, &format!("{TOOLS}{text}"), &files).await
        }
    };

    // Without Helm, on a server of its own.
    run("", "plain").await?;
    Installed::read(&hub.environment, hub.environment.server("plain")).await?;

    run("Install", "hub").await?;
    let installed = Installed::read(&hub.environment, hub.environment.server("hub")).await?;
    let pod = installed.start("windlass-1")?;
    run("A fleet", "hub").await?;
    let maps = ConfigMaps::of(hub.environment.server("alpha").client().await?);
    maps.ask("a", "world").await?;
    maps.expect_greeted("a").await?;

    use_the_rest(&hub, &ports, &registry.host()).await?;
    let has = rights_of_process(&documents(&fs::read_to_string(
        repository.join("charts/windlass.yaml"),
    )?)?);
    eventually(SOON, "each right of the process to be used", || async {
        let asked = asked(folder.path(), &has)?;
        let unused: Vec<Right> = has.difference(&asked).cloned().collect();
        Ok(Seen::of(unused, Vec::is_empty))
    })
    .await?;

    run("Upgrade", "hub").await?;
    hub.create(object("Provider", "none", json!({"none": {}})))
        .await?;
    pod.stop().await?;
    run("Uninstall", "hub").await?;
    Ok(())
}

/// Pauses and resumes a reconciler, a tenant and a cluster, as a caller with the role for that.
async fn pause_each(hub: &Hub, api: &Http) -> Result<()> {
    let account = json!({"kind": "ServiceAccount", "namespace": "windlass", "name": "oncall"});
    hub.create(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "windlass", "name": "oncall"},
    }))
    .await?;
    hub.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "oncall"}, "subjects": [account],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "windlass-api-edit"},
    }))
    .await?;
    let kubeconfig = hub.project.path().join("hub.kubeconfig");
    let create = "create token oncall -n windlass --audience windlass.dev";
    let create: Vec<&str> = create.split(' ').collect();
    let token = printed(&hub.environment.binaries().kubectl(), &kubeconfig, &create).await?;
    let (host, token) = (&api.address, token.trim());
    let subjects = [
        json!({"reconciler": "team-a/second"}),
        json!({"tenant": "a"}),
        json!({"cluster": "alpha"}),
    ];
    for (verb, subject) in ["pause", "resume"]
        .iter()
        .flat_map(|verb| subjects.iter().map(move |of| (verb, of)))
    {
        let body = subject.to_string();
        let request = format!(
            "POST /api/v1/{verb} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // The API server learns of the binding a moment later.
        eventually(SOON, &format!("{verb} {body}"), || async {
            Ok(Seen::of(api.send(&request).await?, |answer| {
                answer.0 == 200
            }))
        })
        .await?;
    }
    Ok(())
}

/// What needs the rights that a fleet without trouble does not use: a caller, a config, and Events, the first and its repetition.
async fn use_the_rest(hub: &Hub, ports: &[u16; 3], registry: &str) -> Result<()> {
    let api = Http {
        address: format!("127.0.0.1:{}", ports[0]),
    };
    let kubectl = hub.environment.binaries().kubectl();
    let create = [
        "create",
        "token",
        "windlass",
        "-n",
        "windlass",
        "--audience",
        "windlass.dev",
    ];
    let token = printed(
        &kubectl,
        &hub.project.path().join("hub.kubeconfig"),
        &create,
    )
    .await?;
    let (host, token) = (&api.address, token.trim());
    let request = format!(
        "GET /api/v1/clusters HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let answer = api.send(&request).await?;
    ensure!(answer.0 == 403, "a caller without rights: {answer:?}");
    let image = format!("{registry}/team-a/hello:1");
    let login = json!({"auths": {registry: {"auth": "bWU6aHVzaA=="}}}).to_string();
    hub.create(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "team-a", "name": "login"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": login},
    }))
    .await?;
    hub.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team-a", "name": "own"},
        "data": {"config": "greeting: hi"},
    }))
    .await?;
    let spec = json!({
        "guest": {"image": image, "pullSecret": {"name": "login"}},
        "configFrom": [{"configMap": "own", "key": "config"}], "rules": rules(),
    });
    let second = object("Reconciler", "team-a/second", spec);
    hub.create(second.clone()).await?;
    hub.expect(&second, "Ready True Reconciling").await?;
    // An Event is written for a refusal, and changed for the same one again.
    for _ in 0..2 {
        let wrong = format!("{registry}/team-a/none:1");
        hub.change(&second, json!({"guest": {"image": wrong}}))
            .await?;
        hub.expect(&second, "Loaded False ServesEarlier").await?;
        hub.change(&second, json!({"guest": {"image": image}}))
            .await?;
        hub.expect(&second, "Ready True Reconciling").await?;
    }
    pause_each(hub, &api).await?;
    // It looks at definitions where one is missing. The upgrade brings it back.
    let delete = ["delete", "crd", "providers.windlass.dev"];
    let kubeconfig = hub.project.path().join("hub.kubeconfig");
    printed(&kubectl, &kubeconfig, &delete).await?;
    Ok(())
}
