//! One real API server. Entry point: [`Spec`], given to [`Environment::start`](super::Environment::start).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube_client::api::PostParams;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use parking_lot::Mutex;
use serde_json::json;

use super::process::Process;
use super::{ATTEMPTS, Binaries, Folder, port};
use crate::eventually::{Seen, eventually};

/// A single server needs 3 s, but a loaded machine starts several at once.
const READY: Duration = Duration::from_secs(90);

/// The options of an API server.
#[derive(Clone, Debug)]
pub struct Spec {
    name: String,
    controllers: Vec<&'static str>,
    users: Vec<String>,
    args: Vec<String>,
}

impl Spec {
    /// An API server without any controller, with the admission plugins of a real cluster. Only the namespace `default` has a service account:
    /// pods elsewhere want one that the test makes. The name is also its kubeconfig's context, cluster and user: letters, digits and dashes.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            controllers: Vec::new(),
            users: Vec::new(),
            args: Vec::new(),
        }
    }

    /// Adds a `kube-controller-manager` with the owner garbage collector and the namespace controller.
    #[must_use]
    pub fn with_controllers(mut self) -> Self {
        self.controllers
            .extend(["namespace-controller", "garbage-collector-controller"]);
        self
    }

    /// Adds the controllers of [`Spec::with_controllers`], and those that make the pods of StatefulSets and let go of their volumes. A
    /// [`super::Kubelet`] says that the pods run.
    #[must_use]
    pub fn with_stateful_sets(mut self) -> Self {
        self.controllers.extend([
            "statefulset-controller",
            "persistentvolumeclaim-protection-controller",
        ]);
        self.with_controllers()
    }

    /// Adds the controllers of [`Spec::with_controllers`], and the one that makes the roles admin, edit and view of their parts.
    #[must_use]
    pub fn with_role_aggregation(mut self) -> Self {
        self.controllers.push("clusterrole-aggregation-controller");
        self.with_controllers()
    }

    /// Adds a user, with the rights of the roles bound to that name and the right to discovery. Letters, digits and dashes.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>) -> Self {
        self.users.push(name.into());
        self
    }

    /// Adds a flag to `kube-apiserver`, for instance `--etcd-compaction-interval=1s`.
    #[must_use]
    pub fn with_arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// A real API server that can be killed and started again.
#[derive(Debug)]
pub struct Server {
    spec: Spec,
    binaries: Binaries,
    etcd_url: String,
    token: String,
    port: u16,
    ca: String,
    // The controller manager is dropped, and so killed, before its server.
    running: Mutex<Option<(Option<Process>, Process)>>,
    folder: Arc<Folder>,
}

impl Server {
    pub(super) async fn start(
        spec: Spec,
        binaries: &Binaries,
        etcd_url: &str,
        folder: Arc<Folder>,
    ) -> Result<Self> {
        let mut server = Self {
            token: format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)),
            binaries: binaries.clone(),
            etcd_url: etcd_url.to_owned(),
            port: 0,
            ca: String::new(),
            running: Mutex::new(None),
            spec,
            folder,
        };
        let home = server.home();
        std::fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
        let mut tokens = format!("{},admin,admin,system:masters\n", server.token);
        for user in &server.spec.users {
            // Writing to a String cannot fail.
            let _ = writeln!(tokens, "{},{user},{user}", server.token_of(user));
        }
        std::fs::write(home.join("tokens.csv"), tokens).context("write the token file")?;

        let mut failure = None;
        for _ in 0..ATTEMPTS {
            server.port = port::free()?;
            match server.run().await {
                Ok(ca) => {
                    server.ca = ca;
                    server.make_account().await?;
                    server.run_controllers()?;
                    return Ok(server);
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("the server was never tried")?)
    }

    /// The name from its [`Spec`].
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A bearer token of an administrator.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The certificates (PEM) of the server's CA.
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// A kubeconfig with one context, the current one, that needs no other file.
    pub fn kubeconfig(&self) -> String {
        kubeconfig(&self.spec.name, &self.url(), &self.ca, &self.token)
    }

    /// The kubeconfig of a user of the [`Spec`]. Its only context has the server's name.
    pub fn kubeconfig_of(&self, user: &str) -> String {
        kubeconfig(&self.spec.name, &self.url(), &self.ca, &self.token_of(user))
    }

    fn token_of(&self, user: &str) -> String {
        format!("{}-{user}", self.token)
    }

    /// Writes the kubeconfig to a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.kubeconfig()).with_context(|| format!("write {}", path.display()))
    }

    /// A client that is independent of Windlass, so that tests can read and change objects from outside.
    ///
    /// # Errors
    /// When the client cannot be built; no connection is made.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig()).await
    }

    /// Kills the server without warning, and its controllers, until [`Server::restart`]. Its objects stay in etcd.
    pub fn kill(&self) {
        drop(self.running.lock().take());
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.lock().is_some()
    }

    /// Waits until a running server is ready.
    pub(super) async fn ready(&self) -> Result<()> {
        let what = format!("kube-apiserver {} to be ready", self.spec.name);
        eventually(READY, &what, || async { self.probe().await.map(Seen::Yes) })
            .await
            .map(drop)
    }

    /// Kills the server if it runs, restarts it with the same URL, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or is not ready in time; the error shows the end of its log.
    pub async fn restart(&self) -> Result<()> {
        self.kill();
        self.run().await?;
        self.run_controllers()
    }

    /// Starts the process and waits until it is ready; returns the certificates of its CA.
    async fn run(&self) -> Result<String> {
        let log = self.home().join("kube-apiserver.log");
        let mut process = Process::spawn(&self.binaries.kube_apiserver(), &self.args(), &log)?;
        let ready = eventually(READY, "a real API server to be ready", || {
            let ended = process.ended();
            async move {
                if ended {
                    return Ok(Seen::Yes(None));
                }
                self.probe().await.map(|ca| Seen::Yes(Some(ca)))
            }
        })
        .await;
        let name = &self.spec.name;
        match ready {
            Ok(Some(ca)) => {
                *self.running.lock() = Some((None, process));
                Ok(ca)
            }
            Ok(None) => bail!(
                "kube-apiserver {name} ended; its log ends with\n{}",
                process.log_tail()
            ),
            Err(error) => Err(error.context(format!(
                "kube-apiserver {name}; its log ends with\n{}",
                process.log_tail()
            ))),
        }
    }

    /// Succeeds when `/readyz` succeeds and the namespace `default` exists, which a ready server creates a moment later.
    async fn probe(&self) -> Result<String> {
        let certificate = self.home().join("certificates/apiserver.crt");
        let ca = std::fs::read_to_string(&certificate)
            .with_context(|| format!("read {}", certificate.display()))?;
        let client = client(&kubeconfig(&self.spec.name, &self.url(), &ca, &self.token)).await?;
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            let request = http::Request::get(path).body(Vec::new())?;
            client
                .request_text(request)
                .await
                .with_context(|| format!("get {path}"))?;
        }
        Ok(ca)
    }

    /// Makes the service account of the namespace `default`, which every cluster has: without it pods are refused there.
    async fn make_account(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, "default");
        let account: ServiceAccount =
            serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
        let made = accounts.create(&PostParams::default(), &account).await;
        made.map(drop)
            .context("make the service account of the namespace default")
    }

    fn run_controllers(&self) -> Result<()> {
        if self.spec.controllers.is_empty() {
            return Ok(());
        }
        let file = self.home().join("controllers.kubeconfig");
        self.write_kubeconfig(&file)?;
        let args = [
            format!("--kubeconfig={}", file.display()),
            format!("--controllers={}", self.spec.controllers.join(",")),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let log = self.home().join("kube-controller-manager.log");
        let controllers = Process::spawn(&self.binaries.kube_controller_manager(), &args, &log)?;
        if let Some(running) = self.running.lock().as_mut() {
            running.0 = Some(controllers);
        }
        Ok(())
    }

    fn args(&self) -> Vec<String> {
        let home = self.home();
        let key = self.binaries.service_account_key();
        let mut args = vec![
            format!("--etcd-servers={}", self.etcd_url),
            format!("--etcd-prefix=/{}", self.spec.name),
            format!("--secure-port={}", self.port),
            format!("--cert-dir={}", home.join("certificates").display()),
            format!("--token-auth-file={}", home.join("tokens.csv").display()),
            format!("--service-account-key-file={}", key.display()),
            format!("--service-account-signing-key-file={}", key.display()),
        ];
        args.extend(
            [
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--authorization-mode=RBAC",
                // Beside those that are on by default, as kubeadm does.
                "--enable-admission-plugins=NodeRestriction",
                "--profiling=false",
            ]
            .map(str::to_owned),
        );
        args.extend(self.spec.args.iter().cloned());
        args
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join(&self.spec.name)
    }
}

pub(super) async fn client(kubeconfig: &str) -> Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("read the server's kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("make a client configuration of the server's kubeconfig")?;
    Client::try_from(config).context("build a client for the server")
}

pub(super) fn kubeconfig(name: &str, url: &str, ca: &str, token: &str) -> String {
    let ca = base64::engine::general_purpose::STANDARD.encode(ca);
    let mut text = String::from("apiVersion: v1\nkind: Config\n");
    for part in [
        format!(
            "clusters:\n- name: {name}\n  cluster:\n    server: {url}\n    certificate-authority-data: {ca}\n"
        ),
        format!("users:\n- name: {name}\n  user:\n    token: {token}\n"),
        format!("contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n"),
        format!("current-context: {name}\n"),
    ] {
        // Writing to a String cannot fail.
        let _ = text.write_str(&part);
    }
    text
}
