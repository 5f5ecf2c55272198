//! A project whose guests come from a real registry. Entry point: [`Hosted::start`].

use crate::project::{HELLO_RULES, Project};
use crate::running::{SOON, address_in, ask, fleet};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use tokio::process::Command;
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Finished, Program, binary, runtime_folder};
use windlass_harness::testenv::real_registry::RealRegistry;

/// A registry, and a project beside it.
pub(crate) struct Hosted {
    pub(crate) registry: RealRegistry,
    pub(crate) project: Project,
}

impl Hosted {
    /// An empty registry and an empty project.
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self {
            registry: RealRegistry::start().await?,
            project: Project::new()?,
        })
    }

    /// `HOST/NAME` in the registry.
    pub(crate) fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.host())
    }

    /// Runs a command to its end, with the registry's authority and login.
    pub(crate) async fn run(&self, args: &[&str]) -> Result<Finished> {
        let mut command = self.command(args)?;
        command
            .arg("--certificate-authority")
            .arg(self.registry.authority());
        Program::spawn(command)?.wait(SOON).await
    }

    /// Pushes a component, and returns the digest of its image.
    pub(crate) async fn push(&self, component: &Path, image: &str) -> Result<String> {
        let file = component.display().to_string();
        let finished = self.run(&["push", &file, image, "-o", "json"]).await?;
        let pushed: Json = serde_json::from_str(&finished.expect_code(0)?.stdout)?;
        Ok(pushed["digest"].as_str().context("a digest")?.to_owned())
    }

    /// Puts a manifest under a tag, whatever it holds.
    pub(crate) async fn put_manifest(&self, name: &str, tag: &str, manifest: &str) -> Result<()> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.registry.authority())?)?;
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let login: Json = serde_json::from_str(&self.registry.login())?;
        let login = login["auths"][self.registry.host()]["auth"].as_str();
        let kind = serde_json::from_str::<Json>(manifest)?["mediaType"].clone();
        let request = http::Request::put(format!(
            "https://{}/v2/{name}/manifests/{tag}",
            self.registry.host()
        ))
        .header(
            "authorization",
            format!("Basic {}", login.context("a login")?),
        )
        .header("content-type", kind.as_str().context("a media type")?)
        .body(Full::new(Bytes::copy_from_slice(manifest.as_bytes())))?;
        let status = client.request(request).await?.status();
        ensure!(status == http::StatusCode::CREATED, "{status}");
        Ok(())
    }

    /// The program with these arguments, a cache of its own, and docker's login.
    pub(crate) fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary()?);
        command
            .args(args)
            .arg("--cache")
            .arg(self.project.path().join("cache"))
            .current_dir(self.project.path())
            .env("NO_COLOR", "1")
            .env("XDG_RUNTIME_DIR", runtime_folder())
            .env("DOCKER_CONFIG", self.registry.docker_config());
        for proxy in ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
            command.env_remove(proxy).env_remove(proxy.to_lowercase());
        }
        Ok(command)
    }

    /// A fleet of one cluster, and documents: a Manager that trusts the registry, and these.
    pub(crate) async fn documents(&self, manager: &str, documents: &[String]) -> Result<Server> {
        let authority = self.registry.authority();
        let head = format!(
            "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\n\
             spec: {{registries: {{certificateAuthority: {authority:?}{manager}}}}}\n"
        );
        let all = [&[head], documents].concat();
        self.project.write_config(&all)?;
        fleet(&self.project, &["alpha"]).await
    }

    /// Starts `run` over the documents, and returns it with its admin address.
    pub(crate) async fn start_run(&self, variables: &[(&str, &str)]) -> Result<(Program, String)> {
        let mut command =
            self.command(&["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"])?;
        command.envs(variables.iter().copied());
        let mut program = Program::spawn(command)?;
        let line = program.line_with("admin endpoints", SOON).await?;
        let address = address_in(&line)?;
        Ok((program, address))
    }

    /// A reconciler, as the running manager shows it, once `holds`.
    pub(crate) async fn seen(
        &self,
        address: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Json) -> bool,
    ) -> Result<Json> {
        eventually(SOON, what, || async {
            let answer = ask(&self.project, address, &["get", "reconcilers"]).await?;
            let items = answer["items"].as_array().cloned().unwrap_or_default();
            let one = items.into_iter().find(|one| one["name"] == name);
            Ok(Seen::of(one.unwrap_or_default(), |one| holds(one)))
        })
        .await
    }
}

/// A Reconciler of tenant `team-a` with these fields of `guest`.
pub(crate) fn of_image(name: &str, guest: &str) -> String {
    of_tenant("team-a", name, guest)
}

/// The same of another tenant.
pub(crate) fn of_tenant(tenant: &str, name: &str, guest: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: {name}}}\nspec:\n  tenant: {tenant}\n  \
         guest: {{{guest}}}\n  config: {{greeting: hello}}\n  rules: {HELLO_RULES}\n"
    )
}

/// Whether a reconciler serves, and nothing is wrong.
pub(crate) fn serves(one: &Json) -> bool {
    one["serves"] == true && one["problem"] == ""
}

/// A copy of a component with a section of so many bytes, which nothing reads. It has another digest.
pub(crate) fn padded(project: &Project, component: &Path, size: usize) -> Result<PathBuf> {
    let mut bytes = std::fs::read(component)?;
    let name = b"\x07padding";
    let mut length = name.len() + size;
    bytes.push(0);
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(name);
    bytes.resize(bytes.len() + size, 7);
    project.write(&format!("padded-{size}.wasm"), bytes)
}
