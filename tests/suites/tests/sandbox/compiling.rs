//! Components are compiled in a process of their own, within limits, and what was compiled is kept and shared.

use crate::mutate::{component, section, unsigned};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use windlass_harness::alone::ran_alone;
use windlass_harness::eventually::DEADLINE;
use windlass_harness::guests::guest;
use windlass_harness::program::binary;
use windlass_sandbox::{
    CacheOptions, Compiler, CompilerProcess, LoadError, Options, Revision, Sandbox, Source,
};

/// The compiler that the program starts.
fn compiler() -> Result<CompilerProcess> {
    Ok(CompilerProcess::new(
        binary()?,
        vec!["compile-component".into()],
    ))
}

fn sandbox(compiler: CompilerProcess, cache: Option<&Path>) -> Result<Sandbox> {
    Ok(Sandbox::new(Options {
        instances: 2,
        compiler: Compiler::Process(compiler),
        cache: cache.map(|folder| CacheOptions::new(folder.join("cache"))),
        ..Options::default()
    })?)
}

/// A compiler that cannot be started: what loads with it was compiled before.
fn no_compiler() -> CompilerProcess {
    CompilerProcess::new("/nowhere/compiler", Vec::new())
}

async fn hello(sandbox: &Sandbox) -> Result<Revision, LoadError> {
    sandbox.load(guest("hello").as_path()).await
}

async fn works(sandbox: &Sandbox, revision: &Revision) -> Result<()> {
    let inspection = revision.inspect(sandbox, "{}", &[]).await?;
    assert_eq!(inspection.title, "greets the people that ConfigMaps name");
    Ok(())
}

/// A module with one function, of a million steps of which each needs the one before: seven megabytes, of which a compiler
/// makes more than a gigabyte on its way.
fn bomb() -> Vec<u8> {
    const STEP: &[u8] = &[
        0x20, 0, 0x20, 1, 0x6a, 0x21, 0, 0x20, 1, 0x20, 0, 0x6c, 0x21, 1,
    ]; // a += b; b *= a
    let mut body = vec![0]; // no locals but the parameters
    body.extend(STEP.repeat(500_000));
    body.extend([0x20, 0, 0x0b]); // a
    let code = [&unsigned(1)[..], &unsigned(body.len()), &body].concat();
    component(&[
        section(1, &[1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f]),
        section(3, &[1, 0]),
        section(10, &code),
    ])
}

async fn explode(compiler: CompilerProcess) -> Result<String> {
    let sandbox = sandbox(compiler, None)?;
    let loading = sandbox.load(Source::Bytes {
        name: "bomb.wasm".into(),
        bytes: bomb(),
    });
    let refused = loading.await.err().context("it is refused")?;
    assert!(
        matches!(refused, LoadError::NotCompiled { .. }),
        "{refused}"
    );
    Ok(refused.to_string())
}

/// Bytes of memory that this process has now.
fn resident() -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("VmRSS in kB")?.parse::<usize>()? << 10)
}

#[tokio::test]
async fn a_guest_compiled_in_another_process_runs_here() -> Result<()> {
    let sandbox = sandbox(compiler()?, None)?;
    works(&sandbox, &hello(&sandbox).await?).await
}

#[tokio::test]
async fn a_bomb_of_a_component_fails_with_its_limit_and_the_hosts_memory_flat() -> Result<()> {
    let test = "compiling::a_bomb_of_a_component_fails_with_its_limit_and_the_hosts_memory_flat";
    if ran_alone(test, &[])? {
        return Ok(());
    }
    let before = resident()?;
    let small = CompilerProcess {
        memory: 512 << 20,
        ..compiler()?
    };
    let refused = explode(small).await?;
    assert!(
        refused.starts_with("bomb.wasm cannot be compiled: it needs more than 512 MiB"),
        "{refused}"
    );
    let grown = resident()?.saturating_sub(before);
    assert!(grown < 128 << 20, "the host grew by {grown} bytes");
    Ok(())
}

#[tokio::test]
async fn a_compilation_without_end_is_ended() -> Result<()> {
    let quick = CompilerProcess {
        time: Duration::from_secs(1),
        memory: 16 << 30,
        ..compiler()?
    };
    let begun = Instant::now();
    let refused = explode(quick).await?;
    assert!(
        refused.starts_with("bomb.wasm cannot be compiled: it takes longer than 1s"),
        "{refused}"
    );
    assert!(begun.elapsed() < DEADLINE);
    Ok(())
}

#[tokio::test]
async fn what_is_no_component_or_shares_memory_is_refused_in_the_compilers_words() -> Result<()> {
    let sandbox = sandbox(compiler()?, None)?;
    let mut cut = std::fs::read(guest("hello"))?;
    cut.truncate(cut.len() / 2);
    let load = |bytes| {
        sandbox.load(Source::Bytes {
            name: "a.wasm".into(),
            bytes,
        })
    };
    let refused = load(cut).await.err().context("it is refused")?;
    assert!(matches!(refused, LoadError::Truncated { .. }), "{refused}");
    let broken = [
        &b"\0asm\x0d\0\x01\0"[..],
        &section(1, b"\0asm\x01\0\0\0\x63\x01\0"),
    ]
    .concat();
    let refused = load(broken).await.err().context("it is refused")?;
    assert!(matches!(refused, LoadError::Invalid { .. }), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_compiler_that_cannot_be_used_is_the_hosts_fault() -> Result<()> {
    let refused = hello(&sandbox(no_compiler(), None)?).await.err();
    let refused = refused.context("it is refused")?.to_string();
    assert!(
        refused.contains("the compiler /nowhere/compiler cannot be used"),
        "{refused}"
    );
    // One that gets nothing of the processors, as where other programs have them all.
    let starved = CompilerProcess {
        patience: Duration::from_millis(200),
        ..CompilerProcess::new("/bin/sleep", vec!["60".into()])
    };
    let refused = hello(&sandbox(starved, None)?).await.err();
    let refused = refused.context("it is refused")?;
    assert!(
        refused.is_of_the_host() && refused.to_string().contains("not done after 200ms"),
        "{refused}"
    );
    let broken = CompilerProcess::new("/bin/false", Vec::new());
    let refused = hello(&sandbox(broken, None)?).await.err();
    let refused = refused.context("it is refused")?.to_string();
    assert!(
        refused.contains("the compiler ended with exit status: 1"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn what_was_compiled_once_is_not_compiled_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    hello(&sandbox(compiler()?, Some(folder.path()))?).await?;
    let later = sandbox(no_compiler(), Some(folder.path()))?;
    works(&later, &hello(&later).await?).await
}

#[tokio::test]
async fn code_that_somebody_changed_is_compiled_anew() -> Result<()> {
    let folder = tempfile::tempdir()?;
    hello(&sandbox(compiler()?, Some(folder.path()))?).await?;
    let entry = walk(&folder.path().join("cache/compiled")).context("there is an entry")?;
    let mut code = std::fs::read(&entry)?;
    let good = code.clone();
    let middle = code.len() / 2;
    code[middle] ^= 0x40;
    std::fs::write(&entry, code)?;
    let refused = hello(&sandbox(no_compiler(), Some(folder.path()))?).await;
    assert!(refused.is_err(), "changed code was run");
    let sandbox = sandbox(compiler()?, Some(folder.path()))?;
    works(&sandbox, &hello(&sandbox).await?).await?;
    assert!(
        std::fs::read(&entry)? == good,
        "and is repaired in the cache"
    );
    Ok(())
}

fn walk(folder: &Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let folders = entries.filter_map(|folder| std::fs::read_dir(folder.path()).ok());
    let mut files = folders.flatten().flatten().map(|file| file.path());
    files.find(|path| {
        path.extension()
            .is_some_and(|extension| extension == "cwasm")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_start_together_share_a_cache() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let starts = (0..4).map(|_| async {
        let sandbox = sandbox(compiler()?, Some(folder.path()))?;
        works(&sandbox, &hello(&sandbox).await?).await
    });
    futures::future::try_join_all(starts).await?;
    let later = sandbox(no_compiler(), Some(folder.path()))?;
    works(&later, &hello(&later).await?).await
}

/// What the compiler for builds that come often makes of a component with the functions of a build before: the machine code, and the
/// functions for the next build.
fn compile_often(functions: &[u8], component: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let limits = compiler()?;
    let mut child = std::process::Command::new(&limits.program)
        .args(&limits.arguments)
        .args([limits.memory.to_string().as_str(), "60", "--often"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().context("no stdin")?;
    let length = (functions.len() as u64).to_le_bytes();
    let sent = [&length, functions, component].concat();
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let answer = child.wait_with_output()?;
    writer.join().ok().context("the writer panicked")??;
    ensure!(answer.status.success(), "{}", answer.status);
    let (code, functions) = part(&answer.stdout)?;
    Ok((code.to_vec(), functions.to_vec()))
}

/// Bytes with their length before them, and the rest.
fn part(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk().context("a length")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    rest.split_at_checked(length).context("enough bytes")
}

/// The code of functions by their keys.
fn entries(mut functions: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut all = BTreeMap::new();
    while !functions.is_empty() {
        let (key, rest) = part(functions)?;
        let (code, rest) = part(rest)?;
        all.insert(key.to_vec(), code.to_vec());
        functions = rest;
    }
    Ok(all)
}

#[test]
fn functions_of_the_build_before_are_taken_and_make_the_same_code() -> Result<()> {
    let (hello, other) = (guest("hello"), guest("conformance"));
    let (hello, other) = (std::fs::read(hello)?, std::fs::read(other)?);
    let (code, functions) = compile_often(&[], &hello)?;
    let kept = entries(&functions)?;
    assert!(kept.len() > 100, "{} functions", kept.len());
    let again = compile_often(&functions, &hello)?;
    assert!(again.0 == code, "the same component has other code");
    // Cranelift gives a few functions another key in each process: those are compiled anew.
    let now = entries(&again.1)?;
    let taken = kept
        .iter()
        .filter(|(key, code)| now.get(*key) == Some(*code));
    assert!(taken.count() > kept.len() / 2);

    let (fresh, of_other) = compile_often(&[], &other)?;
    let edited = compile_often(&functions, &other)?;
    assert!(
        edited.0 == fresh,
        "functions of another build changed the code"
    );
    // Only those in use are kept: hello has many that the other has not.
    let (all, few) = (
        entries(&of_other)?.len() + kept.len() / 2,
        entries(&edited.1)?,
    );
    assert!(few.len() < all, "{} of {all}", few.len());

    // They are taken: with the code of others under their keys the result is another one.
    let mut wrong = Vec::new();
    for (key, code) in kept.keys().zip(kept.values().rev()) {
        for part in [key, code] {
            wrong.extend_from_slice(&(part.len() as u64).to_le_bytes());
            wrong.extend_from_slice(part);
        }
    }
    let changed = compile_often(&wrong, &hello);
    assert!(changed.is_err() || changed.is_ok_and(|(changed, _)| changed != code));
    Ok(())
}

#[tokio::test]
async fn a_guest_that_is_built_often_runs_after_every_build() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let often = CompilerProcess {
        builds_often: true,
        ..compiler()?
    };
    let path = folder.path().join("guest.wasm");
    for name in ["conformance", "hello", "conformance", "hello"] {
        std::fs::copy(guest(name), &path)?;
        let sandbox = sandbox(often.clone(), Some(folder.path()))?;
        let revision = sandbox.load(path.as_path()).await?;
        let inspection = revision.inspect(&sandbox, "{}", &[]).await?;
        assert_eq!(inspection.title.starts_with("greets"), name == "hello");
    }
    Ok(())
}
