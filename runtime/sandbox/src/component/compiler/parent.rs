//! The host's side: starts a compiler, sends the component, and interprets its end. Entry point: [`run`].

use super::CompileError;
use super::child::REFUSED;
use crate::options::CompilerProcess;
use crate::scheduler::priority::all_but_one;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Most bytes that are read of a compiler's standard error.
const WORDS: u64 = 8 << 10;

/// The longest compilation by the clock, in multiples of its processor time: other programs may have the processors.
const CLOCK_PATIENCE: u32 = 4;

/// The signals of a process that used too much processor time, and of one that ran out of memory.
const SIGXCPU: i32 = 24;
const SIGABRT: i32 = 6;

/// The end of a process, and its output.
struct Ended {
    status: ExitStatus,
    code: Vec<u8>,
    words: String,
}

/// Compiles a component. The process is killed when the future is dropped.
pub(super) async fn run(
    process: &CompilerProcess,
    component: bytes::Bytes,
) -> Result<Vec<u8>, CompileError> {
    let failed = |source| CompileError::Start {
        program: process.program.clone(),
        source,
    };
    let child = Command::new(&process.program)
        .args(&process.arguments)
        .args([process.memory.to_string(), process.seconds().to_string()])
        // The host's environment may hold secrets.
        .env_clear()
        // Leaves a processor to the rest of the host.
        .env("RAYON_NUM_THREADS", all_but_one().to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    match timeout(
        CLOCK_PATIENCE * process.time,
        talk(child, component, process.code),
    )
    .await
    {
        Ok(Ok(ended)) => judge(process, ended),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(CompileError::Time(process.time)),
    }
}

async fn talk(mut child: Child, component: bytes::Bytes, most: usize) -> std::io::Result<Ended> {
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut input) = input {
            // An error means that the process has ended: its status says more.
            let _ = input.write_all(&component).await;
        }
    };
    let read = async {
        let mut code = Vec::new();
        if let Some(output) = output {
            // One byte beyond the limit shows that there is more. Then the process is killed, or it would wait for a reader for ever.
            output.take(most as u64 + 1).read_to_end(&mut code).await?;
            if code.len() > most {
                child.start_kill()?;
            }
        }
        std::io::Result::Ok(code)
    };
    let listen = async {
        let mut words = Vec::new();
        if let Some(errors) = errors {
            let _ = errors.take(WORDS).read_to_end(&mut words).await;
        }
        String::from_utf8_lossy(&words).into_owned()
    };
    let ((), code, words) = tokio::join!(write, read, listen);
    Ok(Ended {
        code: code?,
        status: child.wait().await?,
        words,
    })
}

fn judge(process: &CompilerProcess, ended: Ended) -> Result<Vec<u8>, CompileError> {
    let Ended {
        status,
        code,
        words,
    } = ended;
    if code.len() > process.code {
        return Err(CompileError::Code(process.code));
    }
    if status.success() {
        return Ok(code);
    }
    let starved = [
        "memory allocation of",
        "Cannot allocate memory",
        "os error 12",
    ]
    .iter()
    .any(|sign| words.contains(sign));
    match (status.code(), status.signal()) {
        _ if starved => Err(CompileError::Memory(process.memory)),
        (Some(code), _) if code == i32::from(REFUSED) => Err(CompileError::Refused(words)),
        (_, Some(SIGXCPU)) => Err(CompileError::Time(process.time)),
        (_, Some(SIGABRT)) if words.is_empty() => Err(CompileError::Memory(process.memory)),
        _ => Err(CompileError::Crashed { status, words }),
    }
}
