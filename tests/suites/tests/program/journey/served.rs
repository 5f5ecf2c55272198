//! A `dev` that runs while an author saves. Entry point: [`Serving::start`].

use super::Journey;
use crate::languages::BUILD;
use crate::objects::ConfigMaps;
use crate::running::SOON;
use anyhow::{Context, Result};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::Program;

/// `dev` of a journey's project.
pub(super) struct Serving {
    pub(super) program: Program,
    /// Where the program is asked for its state.
    pub(super) address: String,
    pub(super) alpha: ConfigMaps,
}

impl Serving {
    /// Starts `dev` from the folder around the project, with a log for people.
    pub(super) async fn start(journey: &Journey) -> Result<Self> {
        let name = journey.name();
        let args = ["dev", &name, "--admin", "127.0.0.1:0"];
        let args = [&args[..], &["--log-format", "text"]].concat();
        let mut program = journey.start(journey.outside.path(), &args)?;
        let serving = program.line_with("admin endpoints", BUILD).await?;
        let (_, address) = serving.split_once("address=").context("an address")?;
        let address = address.split(' ').next().context("an address")?;
        let kubeconfig = journey.folder.join(".windlass/kubeconfig");
        Ok(Self {
            program,
            address: address.to_owned(),
            alpha: ConfigMaps::in_context(&kubeconfig, "alpha").await?,
        })
    }

    /// Waits until the shelf has this label.
    pub(super) async fn labels(&self, label: &str) -> Result<()> {
        let expected = format!("{label}3");
        eventually(BUILD, &format!("the label {expected:?}"), || async {
            let value = self.alpha.value("books", "text").await?;
            Ok(Seen::of(value, |value| value.as_ref() == Some(&expected)))
        })
        .await
        .map(drop)
    }

    /// Waits until the world is greeted in this way.
    pub(super) async fn greets(&self, word: &str) -> Result<()> {
        let expected = format!("{word}, world, from alpha");
        eventually(BUILD, &format!("{expected:?}"), || async {
            let value = self.alpha.greeting("crew").await?;
            Ok(Seen::of(value, |value| value.as_ref() == Some(&expected)))
        })
        .await
        .map(drop)
    }

    pub(super) async fn end(self) -> Result<()> {
        self.program.signal("TERM")?;
        self.program.wait(SOON).await?.expect_code(0)?;
        Ok(())
    }
}
