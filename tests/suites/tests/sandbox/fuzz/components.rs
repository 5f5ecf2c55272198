//! Components that were good until something happened to them on their way.

use super::Length;
use crate::fixture::without_cache;
use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use std::time::Duration;
use tokio::time::timeout;
use windlass_harness::guests::guest;
use windlass_sandbox::{LoadError, Source};

/// More than any load takes, on a machine that does other things as well.
const LONG: Duration = Duration::from_secs(60);

/// Bytes that mean something in a component, or far too much.
const PIECES: [&[u8]; 8] = [
    b"\0asm\x0d\0\x01\0",
    b"\0asm\x01\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x05\x03\x01\x00\x01",
    b"\x60\x00\x00",
    b"windlass:runtime/",
    b"\0",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_was_mangled_is_refused_in_words_or_works() -> Result<()> {
    let mut length = Length::from_environment()?;
    let good = ["hello", "test-mapper", "test-fleet"].map(|name| std::fs::read(guest(name)));
    let good = good.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut loaded = 0;
    while let Some(seed) = length.next() {
        let bytes = mangled(&mut Rng::with_seed(seed), &good);
        let outcome = timeout(LONG, load(bytes)).await;
        let outcome = outcome
            .context("it takes too long")
            .and_then(|outcome| outcome);
        loaded += u64::from(length.at(seed, outcome)?);
    }
    println!("{} components, {loaded} loaded", length.used());
    Ok(())
}

/// Whether it loads. One that does says what it wants, or not, and is no harm either way.
async fn load(bytes: Vec<u8>) -> Result<bool> {
    let name = "mangled.wasm".to_owned();
    let sandbox = without_cache();
    let revision = match sandbox.load(Source::Bytes { name, bytes }).await {
        Ok(revision) => revision,
        Err(refused) => {
            in_words(&refused)?;
            return Ok(false);
        }
    };
    if let Err(refused) = revision.inspect(sandbox, "{}", &[]).await {
        in_words(&refused)?;
    }
    Ok(true)
}

fn in_words(refused: &LoadError) -> Result<()> {
    ensure!(!matches!(refused, LoadError::Host { .. }), "{refused}");
    let text = refused.to_string();
    ensure!(
        !text.is_empty() && text.len() < 8192,
        "{} bytes",
        text.len()
    );
    Ok(())
}

fn mangled(rng: &mut Rng, good: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = good[rng.usize(..good.len())].clone();
    let other = &good[rng.usize(..good.len())];
    for _ in 0..rng.usize(1..4) {
        mangle(rng, &mut bytes, other);
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

fn mangle(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    // What stands at the beginning decides about the rest, so that most of what happens there is refused the same way.
    let from = if rng.u8(..4) == 0 {
        0
    } else {
        8.min(bytes.len() - 1)
    };
    let at = rng.usize(from..bytes.len());
    match rng.u8(..7) {
        0 => bytes[at] ^= 1 << rng.u8(..8),
        1 => bytes[at] = rng.u8(..),
        2 => bytes.truncate(at),
        3 => {
            let end = (at + rng.usize(..200)).min(bytes.len());
            drop(bytes.drain(at..end));
        }
        4 => drop(bytes.splice(at..at, PIECES[rng.usize(..PIECES.len())].iter().copied())),
        5 => {
            let piece = some_of(rng, other);
            drop(bytes.splice(at..at, piece));
        }
        _ => {
            let piece = some_of(rng, other);
            let end = (at + piece.len()).min(bytes.len());
            drop(bytes.splice(at..end, piece));
        }
    }
}

/// A piece of a component: a few bytes, or a section or two.
fn some_of(rng: &mut Rng, other: &[u8]) -> Vec<u8> {
    let from = rng.usize(..other.len());
    let most = if rng.bool() { 16 } else { 4096 };
    other[from..(from + rng.usize(..most)).min(other.len())].to_vec()
}
