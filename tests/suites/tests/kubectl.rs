//! The real `kubectl` against the in-memory server, without flags that a cluster would not need, and over odd kubeconfigs.
//!
//! It is the one on `PATH`, or the one built with the real servers.

#[path = "kubectl/kubeconfigs.rs"]
mod kubeconfigs;
#[path = "kubectl/run.rs"]
mod run;

use anyhow::{Result, ensure};
use run::{Kubectl, find};

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"}},
"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
"spec":{"containers":[{"name":"main","image":"web:1","ports":[{"containerPort":80}]}]}}}}"#;

const CRD: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","shortNames":["wd"]},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["size"],
"properties":{"size":{"type":"integer","minimum":1},"color":{"type":"string","default":"red"}}}}}}}]}}"#;

const WIDGET: &str =
    r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":3}}"#;

#[tokio::test]
#[ignore = "needs kubectl"]
async fn kubeconfigs_are_read_as_kubectl_reads_them() -> Result<()> {
    kubeconfigs::compare(&find()?).await
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn objects_are_created_shown_and_deleted() -> Result<()> {
    let kubectl = Kubectl::start().await?;
    kubectl
        .says(
            &["create", "configmap", "a", "--from-literal=k=v"],
            "configmap/a created",
        )
        .await?;
    kubectl
        .says(&["create", "namespace", "team"], "namespace/team created")
        .await?;
    kubectl
        .says(
            &[
                "create",
                "secret",
                "generic",
                "s",
                "--from-literal=k=v",
                "-n",
                "team",
            ],
            "secret/s created",
        )
        .await?;
    kubectl
        .says(
            &[
                "create",
                "deployment",
                "web",
                "--image=web:1",
                "--replicas=3",
            ],
            "deployment.apps/web created",
        )
        .await?;
    let table = kubectl
        .run(&["get", "configmaps,deployments", "-A", "-o", "wide"])
        .await?;
    ensure!(
        table.contains("configmap/a") && table.contains("deployment.apps/web"),
        "{table}"
    );
    kubectl
        .says(&["get", "cm", "a", "-o", "yaml"], "k: v")
        .await?;
    kubectl
        .says(&["get", "cm", "a", "-o", "jsonpath={.data.k}"], "v")
        .await?;
    kubectl
        .says(
            &[
                "get",
                "secrets",
                "-n",
                "team",
                "--field-selector",
                "metadata.name=s",
                "-o",
                "name",
            ],
            "secret/s",
        )
        .await?;
    kubectl
        .says(
            &["get", "deploy", "-l", "app=web", "-o", "name"],
            "deployment.apps/web",
        )
        .await?;
    kubectl
        .says(&["describe", "deployment", "web"], "3 desired")
        .await?;
    kubectl.says(&["delete", "cm", "a"], "deleted").await?;
    kubectl
        .says(&["delete", "namespace", "team"], "deleted")
        .await?;
    kubectl
        .fails(&["get", "secrets", "s", "-n", "team"], "NotFound")
        .await
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn manifests_are_applied_from_the_client_and_from_the_server() -> Result<()> {
    let kubectl = Kubectl::start().await?;
    kubectl
        .feeds(
            &["apply", "-f", "-"],
            DEPLOYMENT,
            "deployment.apps/web created",
        )
        .await?;
    kubectl
        .feeds(
            &["apply", "-f", "-"],
            DEPLOYMENT,
            "deployment.apps/web unchanged",
        )
        .await?;
    let four = DEPLOYMENT.replace("\"replicas\":2", "\"replicas\":4");
    kubectl
        .feeds(&["diff", "-f", "-"], &four, "+  replicas: 4")
        .await?;
    kubectl
        .feeds(
            &["apply", "-f", "-"],
            &four,
            "deployment.apps/web configured",
        )
        .await?;
    kubectl
        .says(
            &["scale", "deployment", "web", "--replicas=5"],
            "deployment.apps/web scaled",
        )
        .await?;
    kubectl
        .refuses(
            &["apply", "--server-side", "--field-manager=ci", "-f", "-"],
            &four,
            "conflict",
        )
        .await?;
    kubectl
        .feeds(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            &four,
            "serverside-applied",
        )
        .await?;
    kubectl
        .says(
            &["get", "deploy", "web", "-o", "jsonpath={.spec.replicas}"],
            "4",
        )
        .await?;
    let typo = DEPLOYMENT.replace("\"replicas\"", "\"replica\"");
    kubectl
        .refuses(
            &["apply", "-f", "-"],
            &typo,
            "unknown field \"spec.replica\"",
        )
        .await?;
    kubectl
        .feeds(
            &["apply", "--dry-run=server", "-f", "-"],
            DEPLOYMENT,
            "(server dry run)",
        )
        .await?;
    kubectl
        .feeds(&["replace", "-f", "-"], DEPLOYMENT, "replaced")
        .await?;
    kubectl
        .feeds(&["delete", "-f", "-"], DEPLOYMENT, "deleted")
        .await
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn objects_are_patched_edited_labelled_and_annotated() -> Result<()> {
    let kubectl = Kubectl::start().await?;
    kubectl
        .feeds(&["create", "-f", "-"], DEPLOYMENT, "created")
        .await?;
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"1"}]}]}}}}"#;
    kubectl
        .says(&["patch", "deploy", "web", "-p", strategic], "patched")
        .await?;
    kubectl
        .says(
            &[
                "patch",
                "deploy",
                "web",
                "--type=merge",
                "-p",
                r#"{"spec":{"paused":true}}"#,
            ],
            "patched",
        )
        .await?;
    kubectl
        .says(
            &[
                "patch",
                "deploy",
                "web",
                "--type=json",
                "-p",
                r#"[{"op":"remove","path":"/spec/paused"}]"#,
            ],
            "patched",
        )
        .await?;
    let image = "-o=jsonpath={.spec.template.spec.containers[0].image}{.spec.template.spec.containers[0].env[0].name}";
    kubectl
        .says(&["get", "deploy", "web", image], "web:1A")
        .await?;
    kubectl
        .says(
            &["set", "image", "deploy/web", "main=web:2"],
            "image updated",
        )
        .await?;
    kubectl
        .says(&["label", "deploy", "web", "tier=front"], "labeled")
        .await?;
    kubectl
        .says(&["annotate", "deploy", "web", "note=x"], "annotated")
        .await?;
    kubectl
        .edits(
            &["edit", "deploy", "web"],
            "s/replicas: 2/replicas: 7/",
            "edited",
        )
        .await?;
    kubectl
        .says(&["get", "deploy", "web", "-L", "tier"], "front")
        .await?;
    kubectl
        .says(
            &[
                "get",
                "deploy",
                "web",
                "-o",
                "jsonpath={.metadata.generation}",
            ],
            "6",
        )
        .await
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn custom_kinds_come_live_and_go() -> Result<()> {
    let kubectl = Kubectl::start().await?;
    kubectl.feeds(&["apply", "-f", "-"], CRD, "created").await?;
    kubectl
        .says(
            &[
                "wait",
                "--for=condition=Established",
                "crd/widgets.example.com",
                "--timeout=10s",
            ],
            "condition met",
        )
        .await?;
    kubectl
        .feeds(
            &["apply", "-f", "-"],
            WIDGET,
            "widget.example.com/w created",
        )
        .await?;
    let table = kubectl.run(&["get", "wd"]).await?;
    ensure!(
        table.starts_with("NAME") && table.contains("SIZE") && table.contains('3'),
        "{table}"
    );
    kubectl
        .says(
            &["get", "widget", "w", "-o", "jsonpath={.spec.color}"],
            "red",
        )
        .await?;
    kubectl
        .says(&["explain", "widget.spec"], "size\t<integer> -required-")
        .await?;
    kubectl
        .fails(
            &[
                "patch",
                "wd",
                "w",
                "--type=merge",
                "-p",
                r#"{"spec":{"size":0}}"#,
            ],
            "greater than or equal to 1",
        )
        .await?;
    kubectl
        .refuses(
            &["apply", "-f", "-"],
            &WIDGET.replace("size", "sise"),
            "unknown field",
        )
        .await?;
    kubectl
        .feeds(
            &["apply", "--server-side", "-f", "-"],
            &WIDGET.replace('3', "4"),
            "serverside-applied",
        )
        .await?;
    kubectl
        .says(
            &["delete", "crd", "widgets.example.com", "--timeout=20s"],
            "deleted",
        )
        .await?;
    kubectl.fails(&["get", "wd"], "the server").await
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn a_watch_and_a_wait_see_what_happens() -> Result<()> {
    let kubectl = Kubectl::start().await?;
    let alpha = kubectl.cluster();
    let watching = kubectl.run(&[
        "get",
        "configmaps",
        "-w",
        "--output-watch-events",
        "--request-timeout=4s",
    ]);
    let acting = async {
        kubectl.until_watched("configmaps").await?;
        alpha.apply(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}}))?;
        alpha.delete("v1", "ConfigMap", "default", "seen")?;
        anyhow::Ok(())
    };
    let (watched, acted) = tokio::join!(watching, acting);
    acted?;
    let watched = watched.unwrap_or_else(|error| format!("{error:#}"));
    ensure!(
        watched.contains("ADDED") && watched.contains("DELETED") && watched.contains("seen"),
        "{watched}"
    );
    alpha.apply(
        serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}),
    )?;
    let waiting = kubectl.run(&[
        "wait",
        "--for=jsonpath={.spec.podCIDR}=10.0.0.0/8",
        "node/n",
        "--timeout=20s",
    ]);
    let acting = async {
        kubectl.until_watched("nodes").await?;
        alpha.merge(
            "v1",
            "Node",
            "",
            "n",
            &serde_json::json!({"spec": {"podCIDR": "10.0.0.0/8"}}),
        )?;
        anyhow::Ok(())
    };
    let (waited, acted) = tokio::join!(waiting, acting);
    acted?;
    ensure!(
        waited?.contains("condition met"),
        "kubectl did not see the condition"
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn a_server_describes_itself() -> Result<()> {
    let kubectl = Kubectl::start().await?;
    kubectl.says(&["version"], "Server Version: v1.36").await?;
    kubectl.says(&["api-versions"], "apps/v1").await?;
    let resources = kubectl.run(&["api-resources", "-o", "wide"]).await?;
    ensure!(
        resources.contains("deployments")
            && resources.contains("deploy")
            && resources.contains("patch"),
        "{resources}"
    );
    kubectl
        .says(
            &["explain", "deployment.spec.template.spec.containers"],
            "imagePullPolicy\t<string>",
        )
        .await?;
    kubectl
        .says(
            &["explain", "pods", "--recursive"],
            "terminationGracePeriodSeconds",
        )
        .await?;
    kubectl
        .says(&["auth", "can-i", "delete", "pods"], "yes")
        .await?;
    kubectl.says(&["auth", "whoami"], "system:admin").await?;
    kubectl.says(&["cluster-info"], "is running at").await
}
