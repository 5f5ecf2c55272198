//! The example `website` in all languages: the same life of a Website, the same objects, and few lines.

use crate::examples::{USER, allow, kubectl, run};
use crate::languages::{self, command};
use crate::project::Project;
use crate::running::SOON;
use anyhow::{Context, Result};
use kube_client::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Program, binary};
use windlass_harness::testenv::{Environment, Spec};

/// Toolchains come from registries the first time, and a guest in Python takes its time to compile.
const BUILD: Duration = Duration::from_secs(900);

/// The folders that have documents, below that of the example, and the sources with the most lines that they may have.
const LANGUAGES: [(&str, &str, usize); 6] = [
    (".", "typescript/guest.ts", 50),
    ("javascript", "javascript/guest.js", 50),
    ("python", "python/guest.py", 50),
    ("go", "go/main.go", 70),
    ("rust", "rust/src/lib.rs", 70),
    ("c", "c/guest.c", 90),
];

fn example() -> PathBuf {
    windlass_harness::repository().join("examples/website")
}

#[test]
fn a_controller_with_dependents_conditions_and_a_finalizer_takes_few_lines() -> Result<()> {
    for (_, source, most) in LANGUAGES {
        let text = fs::read_to_string(example().join(source))?;
        let lines = text.lines().count();
        assert!(lines <= most, "{source} has {lines} lines");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn websites_live_the_same_life_in_all_languages() -> Result<()> {
    let mut lives = Vec::new();
    for (folder, ..) in LANGUAGES {
        let folder = example().join(folder);
        let tested = languages::windlass(&folder, ["test", "--timeout", "900s"]).await?;
        tested.expect_code(0)?;
        lives.push(live(&folder).await.context(folder.display().to_string())?);
    }
    for life in &lives {
        assert_eq!(life, &lives[0]);
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn a_website_on_a_real_server_is_written_once_by_the_role_that_is_printed_for_it()
-> Result<()> {
    let folder = example().join("rust");
    let built = languages::windlass(&folder, ["build"]).await?;
    built.expect_code(0)?;
    let environment = Environment::start([Spec::new("alpha").with_user(USER)]).await?;
    let server = environment.server("alpha");
    for (file, kind) in [("crd.yaml", "established"), ("alpha/home.yaml", "")] {
        let path = example().join("seed").join(file);
        let path = path.to_str().context("a path")?;
        kubectl(&environment, server, &["apply", "-f", path], "").await?;
        if !kind.is_empty() {
            let condition = format!("--for=condition={kind}");
            let args = ["wait", &condition, "crd/websites.example.windlass.dev"];
            kubectl(&environment, server, &args, "").await?;
        }
    }
    let project = Project::new()?;
    let guest = folder.join(".windlass/guest.wasm");
    let text = fs::read_to_string(folder.join("windlass.yaml"))?
        .replace("path: .", &format!("path: {}", guest.display()))
        .replace("../clusters", "./clusters");
    project.write("windlass.yaml", text)?;
    fs::create_dir(project.path().join("clusters"))?;
    allow(&environment, &project, server, &[], |text| text).await?;
    project.write("clusters/alpha.kubeconfig", server.kubeconfig_of(USER))?;
    let (program, _) = run(&project).await?;
    let alpha = Alpha(server.client().await?);
    alpha.expect_ready("False", "NotReady", SOON).await?;
    alpha.finish_deployment().await?;
    alpha.expect_ready("True", "Ready", SOON).await?;

    // What a server adds to the objects is no difference: a change of one writes that one alone.
    let before = alpha.versions().await?;
    alpha.change_host("example.org").await?;
    let entries = alpha.all("v1", "ConfigMap", "gateway");
    eventually(SOON, "the entry to follow", || async {
        let entry = entries.get("default.home").await?;
        Ok(Seen::of(entry.data["data"]["host"].clone(), |host| {
            host == "example.org"
        }))
    })
    .await?;
    assert_eq!(alpha.versions().await?, before);

    // There is no garbage collector here: the finalizer takes the entry, and lets the site go.
    let sites = alpha.all("example.windlass.dev/v1", "Website", "default");
    sites.delete("home", &DeleteParams::default()).await?;
    eventually(SOON, "the site and its entry to be gone", || async {
        let left = json!([alpha.site().await?, entries.get_opt("default.home").await?]);
        Ok(Seen::of(left, |left| *left == json!([null, null])))
    })
    .await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

/// Runs `windlass dev`, and follows a Website from its first reconcile to its deletion. Returns the objects that there were.
async fn live(folder: &Path) -> Result<Vec<Json>> {
    let args = ["dev", "--admin", "127.0.0.1:0"];
    let mut program = Program::spawn(command(folder, binary()?, args))?;
    program.line_with("admin endpoints", BUILD).await?;
    let alpha = Alpha::of(&folder.join(".windlass/kubeconfig")).await?;
    alpha.expect_ready("False", "NotReady", BUILD).await?;

    // The Deployment is ready, and so is the site.
    let servers = alpha.all("apps/v1", "Deployment", "default");
    alpha.finish_deployment().await?;
    alpha.expect_ready("True", "Ready", SOON).await?;
    let mut objects = vec![alpha.site().await?.context("the site")?];
    for (api_version, kind, namespace) in [
        ("v1", "ConfigMap", "default"),
        ("apps/v1", "Deployment", "default"),
        ("v1", "Service", "default"),
        ("v1", "ConfigMap", "gateway"),
    ] {
        let all = alpha.all(api_version, kind, namespace);
        let listed = all.list(&ListParams::default()).await?.items;
        for object in listed {
            objects.push(serde_json::to_value(object)?);
        }
    }
    objects.iter_mut().for_each(strip);

    // What is deleted comes back. What is changed is repaired, and what is desired changes.
    let services = alpha.all("v1", "Service", "default");
    services.delete("home", &DeleteParams::default()).await?;
    let pages = alpha.all("v1", "ConfigMap", "default");
    let broken = json!({"data": {"index.html": "broken"}});
    pages
        .patch("home", &PatchParams::default(), &Patch::Merge(&broken))
        .await?;
    alpha.change_host("example.org").await?;
    let sites = alpha.all("example.windlass.dev/v1", "Website", "default");
    let entries = alpha.all("v1", "ConfigMap", "gateway");
    eventually(SOON, "the objects to be as desired again", || async {
        let page = pages.get_opt("home").await?;
        let entry = entries.get_opt("default.home").await?;
        let found = json!({
            "service": services.get_opt("home").await?.is_some(),
            "page": page.map(|page| page.data["data"]["index.html"].clone()),
            "host": entry.map(|entry| entry.data["data"]["host"].clone()),
            "url": alpha.site().await?.map(|site| site["status"]["url"].clone()),
        });
        let wanted = json!({
            "service": true, "page": "<h1>Welcome</h1>", "host": "example.org", "url": "http://example.org",
        });
        Ok(Seen::of(found, |found| *found == wanted))
    })
    .await?;

    // The deletion waits for the entry that the site does not own; the rest is the garbage collector's.
    sites.delete("home", &DeleteParams::default()).await?;
    eventually(SOON, "the site and its objects to be gone", || async {
        let left = json!([
            alpha.site().await?.map(|site| site["metadata"].clone()),
            entries.get_opt("default.home").await?,
            pages.get_opt("home").await?,
            servers.get_opt("home").await?,
            services.get_opt("home").await?,
        ]);
        Ok(Seen::of(left, |left| {
            left.as_array()
                .is_some_and(|left| left.iter().all(Json::is_null))
        }))
    })
    .await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(objects)
}

/// Removes what differs from run to run.
fn strip(object: &mut Json) {
    let set_by_servers = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ];
    let fields = object["metadata"].as_object_mut().into_iter();
    fields
        .for_each(|metadata| metadata.retain(|field, _| !set_by_servers.contains(&field.as_str())));
    let metadata = &mut object["metadata"];
    for owner in metadata["ownerReferences"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        owner["uid"] = Json::Null;
    }
    for (map, name) in [
        ("labels", "windlass.dev/owner"),
        ("annotations", "windlass.dev/applied"),
    ] {
        if let Some(value) = metadata[map].get_mut(name) {
            *value = Json::Null; // the uid, and the fingerprint of what has it
        }
    }
    let conditions = object["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        condition["lastTransitionTime"] = Json::Null;
    }
}

/// The cluster alpha, as a user sees it.
struct Alpha(Client);

impl Alpha {
    async fn of(kubeconfig: &Path) -> Result<Self> {
        let options = KubeConfigOptions {
            context: Some("alpha".to_owned()),
            ..KubeConfigOptions::default()
        };
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Self(Client::try_from(config)?))
    }

    fn all(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.0.clone(), namespace, &resource)
    }

    async fn site(&self) -> Result<Option<Json>> {
        let sites = self.all("example.windlass.dev/v1", "Website", "default");
        let site = sites.get_opt("home").await?;
        Ok(site.map(serde_json::to_value).transpose()?)
    }

    /// Plays the Deployment's controller.
    async fn finish_deployment(&self) -> Result<()> {
        let status = json!({"status": {
            "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2,
        }});
        let servers = self.all("apps/v1", "Deployment", "default");
        servers
            .patch_status("home", &PatchParams::default(), &Patch::Merge(&status))
            .await?;
        Ok(())
    }

    async fn change_host(&self, host: &str) -> Result<()> {
        let change = json!({"spec": {"host": host}});
        let sites = self.all("example.windlass.dev/v1", "Website", "default");
        sites
            .patch("home", &PatchParams::default(), &Patch::Merge(&change))
            .await?;
        Ok(())
    }

    /// The versions of the objects that do not depend on the host.
    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let mut versions = Vec::new();
        for (api_version, kind) in [
            ("v1", "ConfigMap"),
            ("apps/v1", "Deployment"),
            ("v1", "Service"),
        ] {
            let object = self.all(api_version, kind, "default").get("home").await?;
            versions.push(object.metadata.resource_version);
        }
        Ok(versions)
    }

    /// Waits for the site's condition `Ready`, of its generation.
    async fn expect_ready(&self, status: &str, reason: &str, within: Duration) -> Result<()> {
        eventually(within, &format!("Ready to be {status}"), || async {
            let site = self.site().await?.unwrap_or_default();
            let generation = &site["metadata"]["generation"];
            let conditions = site["status"]["conditions"].as_array();
            let found = conditions.into_iter().flatten().any(|each| {
                each["type"] == "Ready"
                    && each["status"] == status
                    && each["reason"] == reason
                    && &each["observedGeneration"] == generation
            });
            Ok(if found {
                Seen::Yes(())
            } else {
                Seen::NotYet(site.to_string())
            })
        })
        .await
    }
}
