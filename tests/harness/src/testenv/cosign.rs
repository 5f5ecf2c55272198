//! The program that signs images, with keys of its own. Entry point: [`Cosign::start`].

use super::binaries::made_from;
use super::real_registry::RealRegistry;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// cosign without a network but for registries.
#[derive(Debug)]
pub struct Cosign {
    program: PathBuf,
    folder: TempDir,
}

/// A format of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureFormat {
    /// A bundle that refers to the image.
    Bundle,
    /// A payload behind a tag.
    Simple,
}

impl Cosign {
    /// Without any key.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run.
    pub fn start() -> Result<Self> {
        Ok(Self {
            program: made_from("cosign")?.join("cosign"),
            folder: tempfile::tempdir().context("create a folder for keys")?,
        })
    }

    /// Makes a key pair. Returns the public key (PEM).
    ///
    /// # Errors
    /// When cosign fails.
    pub fn make_key(&self, name: &str) -> Result<String> {
        let prefix = format!("--output-key-prefix={name}");
        self.run(None, &["generate-key-pair", &prefix])?;
        let file = self.folder.path().join(format!("{name}.pub"));
        std::fs::read_to_string(file).context("read a public key")
    }

    /// Signs an image, pinned by its digest, with a key. `registry`: whose authority and login it needs.
    ///
    /// # Errors
    /// When cosign fails; the error has its output.
    pub fn sign(
        &self,
        registry: Option<&RealRegistry>,
        key: &str,
        format: SignatureFormat,
        image: &str,
    ) -> Result<()> {
        let key = format!("--key={key}.key");
        let format = format!("--new-bundle-format={}", format == SignatureFormat::Bundle);
        let offline = ["--tlog-upload=false", "--use-signing-config=false", "--yes"];
        let args = [&["sign", &key, &format], &offline[..], &[image]].concat();
        self.run(registry, &args)
    }

    /// Attests something about an image, in a bundle: no signature of the image itself.
    ///
    /// # Errors
    /// As [`Cosign::sign`].
    pub fn attest(&self, registry: Option<&RealRegistry>, key: &str, image: &str) -> Result<()> {
        let (key, predicate) = (
            format!("--key={key}.key"),
            self.folder.path().join("predicate"),
        );
        std::fs::write(&predicate, "{}").context("write a predicate")?;
        let predicate = format!("--predicate={}", predicate.display());
        let offline = ["--tlog-upload=false", "--use-signing-config=false", "--yes"];
        let args = [
            &["attest", &key, &predicate, "--type=custom"],
            &offline[..],
            &[image],
        ]
        .concat();
        self.run(registry, &args)
    }

    fn run(&self, registry: Option<&RealRegistry>, args: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("COSIGN_PASSWORD", "")
            .env("HOME", self.folder.path());
        if let Some(registry) = registry {
            command
                .env("DOCKER_CONFIG", registry.docker_config())
                .env("SSL_CERT_FILE", registry.authority());
        }
        let output = command.output().context("run cosign")?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("cosign {args:?} fails: {errors}");
        }
        Ok(())
    }
}
