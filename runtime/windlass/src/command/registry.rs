//! `windlass push` and `windlass pull`, and images for `check`. Entry points: [`push`], [`pull`] and [`fetch`].

use crate::cli::{Format, PullArgs, PushArgs, RegistryArgs};
use crate::config::load::Configuration;
use crate::config::registries;
use crate::guests::component;
use crate::output::{Tone, size};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use windlass_files::built;
use windlass_fleet::file;
use windlass_registry::{GuestPolicy, Pulled, Reference, Registries, RegistryOptions, Wanted};
use windlass_sandbox::Options;

/// Pushes a component under a tag. It is checked first: nobody could run another one.
///
/// # Errors
/// When the file is no guest, or the registry does not take it.
pub(crate) async fn push(args: PushArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let image = Reference::parse(&args.reference)?;
    let tag = match (image.tag(), image.digest()) {
        (Some(tag), None) => tag.to_owned(),
        _ => bail!("{image}: push to a tag: the digest comes from the component"),
    };
    let path = component_of(&args.file)?;
    let most = engine.max_component as u64;
    let registry = args.registry.registry(&engine)?;
    let sandbox = component::small_sandbox(engine)?;
    let revision = component::load_into(&sandbox, &path).await?;
    let bytes = file::read(&path, most).with_context(|| format!("read {}", path.display()))?;
    let bytes_pushed = bytes.len() as u64;
    let digest = registry.push(&image, &tag, bytes, revision.imports(), revision.exports());
    let digest = digest.await?;
    let pinned = image.at(digest).to_string();
    match format {
        Format::Json => anstream::println!(
            "{}",
            json!({"image": image.to_string(), "digest": digest.to_string(), "bytes": bytes_pushed})
        ),
        Format::Text | Format::Wide | Format::Markdown => {
            let done = Tone::Good.paint("pushed");
            anstream::println!("{done} {pinned} ({})", size(bytes_pushed));
        }
    }
    Ok(super::DONE)
}

/// Pulls an image's component into a file.
///
/// # Errors
/// When the image is not available, or the file cannot be written.
pub(crate) async fn pull(args: PullArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let image = Reference::parse(&args.reference)?;
    let pulled = fetch(&args.registry.registry(&engine)?, &image).await?;
    let file = args.file.unwrap_or_else(|| {
        let name = image.name().rsplit('/').next().unwrap_or("guest");
        PathBuf::from(format!("{name}.wasm"))
    });
    let bytes = std::fs::copy(&pulled.path, &file);
    let bytes = bytes.with_context(|| format!("write {}", file.display()))?;
    match format {
        Format::Json => anstream::println!(
            "{}",
            json!({"image": image.to_string(), "digest": pulled.digest.to_string(), "path": file, "bytes": bytes})
        ),
        Format::Text | Format::Wide | Format::Markdown => {
            let done = Tone::Good.paint("pulled");
            let pinned = image.at(pulled.digest);
            anstream::println!("{done} {pinned} into {} ({})", file.display(), size(bytes));
        }
    }
    Ok(super::DONE)
}

/// An image, pulled with the logins of this user.
///
/// # Errors
/// Why it is not available.
pub(crate) async fn fetch(registry: &Registries, image: &Reference) -> Result<Pulled> {
    let wanted = Wanted {
        image: image.clone(),
        tenant: String::new(),
        secret: None,
        interval: Duration::from_secs(60),
        policy: GuestPolicy::default(),
        any_by_default: true,
        last_will_do: false,
    };
    let lookup = registry.look_up(wanted, None).await;
    lookup.outcome.map_err(anyhow::Error::msg)
}

impl RegistryArgs {
    /// The registries, as the flags and the environment say.
    ///
    /// # Errors
    /// When the proxy of the environment cannot be used.
    pub(crate) fn registry(&self, engine: &Options) -> Result<Registries> {
        let cache = engine.cache.as_ref().map(|cache| cache.folder.as_path());
        let options = registries::options(&Configuration::default(), cache)?;
        Ok(Registries::new(RegistryOptions {
            authorities: self.certificate_authority.clone(),
            plain_http: self.plain_http.clone(),
            ..options
        }))
    }
}

/// The component of a file, or of a folder that was built.
///
/// # Errors
/// When it was not built.
pub(super) fn component_of(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let folder = path.display();
    built(path).with_context(|| format!("{folder} was not built yet: run windlass build {folder}"))
}
