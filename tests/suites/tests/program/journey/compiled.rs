//! A save compiles the functions that it changed, and not the whole guest. That those of the build before are used is in `sandbox/compiling.rs`.

use super::Journey;
use crate::languages::command;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use windlass_harness::program::binary;

/// Limits that no guest of these comes near: bytes, and seconds.
const LIMITS: [&str; 2] = ["8589934592", "600"];

/// Functions of a build, by the hash of all that their code depends on.
struct Functions {
    hashes: BTreeSet<Vec<u8>>,
    /// As the compiler of the next build takes them.
    bytes: Vec<u8>,
}

/// Bytes that have their length before them, and what follows.
fn part(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>().context("a length")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    rest.split_at_checked(length)
        .context("bytes of this length")
}

/// Compiles a component with the functions of the build before, as `dev` does. `runtime/sandbox/src/component/compiler.rs` has the format.
async fn compile(component: &[u8], before: &[u8]) -> Result<Functions> {
    let length = (before.len() as u64).to_le_bytes();
    let input = [&length, before, component].concat();
    let mut compiler = command(&std::env::temp_dir(), binary()?, ["compile-component"]);
    compiler.args(LIMITS).arg("--often");
    let mut compiler = compiler
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = compiler.stdin.take().context("its input")?;
    let write = async move { stdin.write_all(&input).await };
    let (written, output) = tokio::join!(write, compiler.wait_with_output());
    let (output, ()) = (output?, written?);
    ensure!(output.status.success(), "{}", output.status);
    let (_, bytes) = part(&output.stdout)?;
    let (mut rest, mut hashes) = (bytes, BTreeSet::new());
    while !rest.is_empty() {
        let (hash, behind) = part(rest)?;
        let (_code, behind) = part(behind)?;
        hashes.insert(hash.to_vec());
        rest = behind;
    }
    let bytes = bytes.to_vec();
    Ok(Functions { hashes, bytes })
}

impl Journey {
    /// An edit of a text, which moves other texts, leaves most functions as they are.
    pub(super) async fn compiles_what_changed(&self) -> Result<()> {
        let before = self.build().await?;
        self.save_greeter(&[("hello, ", "a very good day to you, ")])?;
        let after = self.build().await?;
        ensure!(before != after, "the edit is in the component");
        let first = compile(&before, &[]).await?;
        let second = compile(&after, &first.bytes).await?;
        let (all, new) = (
            second.hashes.len(),
            second.hashes.difference(&first.hashes).count(),
        );
        ensure!(new * 2 < all, "{new} of {all} functions are compiled");
        Ok(())
    }
}
