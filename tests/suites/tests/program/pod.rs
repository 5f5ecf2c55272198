//! A pod of the chart, started on this machine as its kubelet would: its arguments, variables, volumes and user, in a root that it
//! cannot write. Entry point: [`Pod::start`].

use crate::hub::SOON;
use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use tokio::process::Command;
use windlass_harness::program::{Program, binary};
use windlass_harness::testenv::{Environment, Server};

/// Makes a root of the system's libraries, the program and the volumes, and runs the program there as the pod's user.
const CONTAINER: &str = r#"
set -euo pipefail
root=$1 program=$2 user=$3 group_of_volumes=$4 volumes=$5
shift 5
mount -t tmpfs -o mode=755 tmpfs "$root"
for folder in usr lib lib64; do
  if [[ -L /$folder ]]; then
    cp -P "/$folder" "$root/$folder"
  elif [[ -d /$folder ]]; then
    mkdir "$root/$folder"
    mount --rbind "/$folder" "$root/$folder"
  fi
done
mkdir "$root/proc" "$root/dev" "$root/etc"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
touch "$root/windlass"
mount --bind "$program" "$root/windlass"
while read -r kind path source; do
  mkdir -p "$root$path"
  case $kind in
    # The owner and the mode that a kubelet gives an emptyDir.
    empty) mount -t tmpfs -o "mode=2777,gid=$group_of_volumes" tmpfs "$root$path" ;;
    folder) mount --bind "$source" "$root$path" && mount -o remount,bind,ro "$root$path" ;;
  esac
done <"$volumes"
mount -o remount,ro "$root"
exec chroot --userspec="$user" --groups="$group_of_volumes" "$root" /windlass "$@"
"#;

/// The user and the group of volumes that OpenShift, for instance, chooses for pods that name none. Their group is 0.
const CHOSEN: u64 = 1_000_680_000;

/// Where kubelets put the service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The API server of a pod's cluster, as a kubelet tells it.
pub(crate) struct ApiServer {
    /// Of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The certificates of its CA.
    pub(crate) ca: String,
}

impl ApiServer {
    /// A server of this machine.
    pub(crate) fn of(server: &Server) -> Result<Self> {
        let url = server.url();
        let (_, port) = url.rsplit_once(':').context("a port")?;
        Ok(Self {
            host: "127.0.0.1".to_owned(),
            port: port.parse()?,
            ca: server.ca_pem().to_owned(),
        })
    }
}

/// Where a pod runs, beside what its template says.
pub(crate) struct Node<'a> {
    pub(crate) server: ApiServer,
    pub(crate) namespace: &'a str,
    /// The token of its service account.
    pub(crate) token: &'a str,
    /// The files of its ConfigMap.
    pub(crate) config: &'a Json,
}

/// What the chart has made in the namespace `windlass` of a server.
pub(crate) struct Installed<'a> {
    server: &'a Server,
    template: Json,
    config: Json,
    token: String,
}

impl<'a> Installed<'a> {
    /// Reads it.
    pub(crate) async fn read(environment: &Environment, server: &'a Server) -> Result<Self> {
        let kubectl = environment.binaries().kubectl();
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let get = async |kind: &str| -> Result<Json> {
            let args = ["get", kind, "windlass", "-n", "windlass", "-o", "json"];
            Ok(serde_json::from_str(
                &printed(&kubectl, &kubeconfig, &args).await?,
            )?)
        };
        let token = ["create", "token", "windlass", "-n", "windlass"];
        Ok(Self {
            server,
            template: get("deployment").await?["spec"]["template"].take(),
            config: get("configmap").await?["data"].take(),
            token: printed(&kubectl, &kubeconfig, &token)
                .await?
                .trim()
                .to_owned(),
        })
    }

    /// Starts a pod of the Deployment.
    pub(crate) fn start(&self, name: &str) -> Result<Pod> {
        let node = Node {
            server: ApiServer::of(self.server)?,
            namespace: "windlass",
            token: &self.token,
            config: &self.config,
        };
        Pod::start(name, &self.template, &node)
    }
}

/// A pod that runs. It is killed when this is dropped.
pub(crate) struct Pod {
    pub(crate) program: Program,
    _folder: tempfile::TempDir,
}

impl Pod {
    /// Whether this user may make roots and change users.
    pub(crate) async fn is_possible() -> Result<bool> {
        let mut probe = Command::new("unshare");
        probe.args(["--mount", "sh", "-c"]);
        probe.arg("mount -t tmpfs tmpfs /mnt && chroot --userspec=65532:65532 --groups= / true");
        let is_possible = probe.output().await?.status.success();
        if !is_possible {
            println!("NOT RUN: pods of the chart need a user who may mount and change users");
        }
        Ok(is_possible)
    }

    /// Starts the pod `name` of a template.
    pub(crate) fn start(name: &str, template: &Json, node: &Node<'_>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let made = |name: &str| -> Result<PathBuf> {
            let path = folder.path().join(name);
            fs::create_dir(&path)?;
            Ok(path)
        };
        let (root, config, account) = (made("root")?, made("config")?, made("account")?);
        for (file, text) in node.config.as_object().context("files")? {
            fs::write(config.join(file), text.as_str().unwrap_or_default())?;
        }
        fs::write(account.join("token"), node.token)?;
        fs::write(account.join("ca.crt"), &node.server.ca)?;
        fs::write(account.join("namespace"), node.namespace)?;

        let spec = &template["spec"];
        let container = &spec["containers"][0];
        let mut volumes = format!("folder {ACCOUNT} {}\n", account.display());
        for mount in list(&container["volumeMounts"]) {
            let path = text(&mount["mountPath"]);
            let volume = list(&spec["volumes"]).find(|of| of["name"] == mount["name"]);
            let volume = volume.context("the volume of a mount")?;
            volumes += &match (&volume["configMap"], &volume["hostPath"]["path"]) {
                (Json::Object(_), _) => format!("folder {path} {}\n", config.display()),
                (_, Json::String(source)) => format!("folder {path} {source}\n"),
                _ => {
                    ensure!(volume["emptyDir"].is_object(), "a volume: {volume}");
                    format!("empty {path} -\n")
                }
            };
        }
        let list_of_volumes = folder.path().join("volumes");
        fs::write(&list_of_volumes, volumes)?;

        let security = &spec["securityContext"];
        ensure!(container["securityContext"]["readOnlyRootFilesystem"] == true);
        let of = |field: &str, chosen| security[field].as_u64().unwrap_or(chosen).to_string();
        let user = format!("{}:{}", of("runAsUser", CHOSEN), of("runAsGroup", 0));
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "bash", "-c", CONTAINER, "container"])
            .args([&root, &binary()?])
            .args([user, of("fsGroup", CHOSEN)])
            .arg(&list_of_volumes)
            .args(list(&container["args"]).map(text))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("KUBERNETES_SERVICE_HOST", &node.server.host)
            .env("KUBERNETES_SERVICE_PORT", node.server.port.to_string());
        for variable in list(&container["env"]) {
            let value = match text(&variable["valueFrom"]["fieldRef"]["fieldPath"]) {
                "metadata.name" => name,
                "" => text(&variable["value"]),
                other => anyhow::bail!("the field {other} of a pod"),
            };
            command.env(text(&variable["name"]), value);
        }
        Ok(Self {
            program: Program::spawn(command)?,
            _folder: folder,
        })
    }

    /// Whether a compiled guest is in the volume that the pod has for them.
    pub(crate) fn has_compiled(&self) -> Result<bool> {
        let process = self.program.pid().context("it runs")?;
        // As the process itself sees it.
        let root = PathBuf::from(format!("/proc/{process}")).join("root");
        let cache = root.join("var/cache/windlass/compiled");
        let folders = fs::read_dir(cache)?.flatten().map(|one| one.path());
        let files = folders.filter_map(|folder| fs::read_dir(folder).ok());
        Ok(files.flatten().flatten().next().is_some())
    }

    /// Ends it as a kubelet does.
    pub(crate) async fn stop(self) -> Result<()> {
        self.program.signal("TERM")?;
        self.program.wait(SOON).await?.expect_code(0)?;
        Ok(())
    }
}

/// The items of a list; none of anything else.
pub(crate) fn list(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

/// Runs a program of the tests to its end, and returns what it prints.
pub(crate) async fn printed<A: AsRef<OsStr>>(
    program: &Path,
    kubeconfig: &Path,
    args: &[A],
) -> Result<String> {
    let mut command = Command::new(program);
    command.env("KUBECONFIG", kubeconfig).args(args);
    let output = command.output().await?;
    ensure!(output.status.success(), "{command:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}
