//! The side of the host: starts a compiler, feeds it and judges how it ended. Entry point: [`run`].

use super::CompileError;
use super::child::REFUSED;
use crate::options::CompilerProcess;
use crate::scheduler::priority::all_but_one;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How much of what a compiler complains about is read, in bytes.
const WORDS: u64 = 8 << 10;

/// Signals by which a process ends when it computes for too long, and when memory runs out in the middle of something.
const SIGXCPU: i32 = 24;
const SIGABRT: i32 = 6;

/// What a process wrote before it ended.
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
        // Nothing of the host is the compiler's business.
        .env_clear()
        // A processor is left to what goes on meanwhile.
        .env("RAYON_NUM_THREADS", all_but_one().to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    // On a machine that is busy with other things a second of computing takes longer than one.
    match timeout(4 * process.time, talk(child, component, process.code)).await {
        Ok(Ok(ended)) => judge(process, ended),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(CompileError::Time(process.time)),
    }
}

async fn talk(mut child: Child, component: bytes::Bytes, most: usize) -> std::io::Result<Ended> {
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut input) = input {
            // A process that ended does not read: how it ended says more than this.
            let _ = input.write_all(&component).await;
        }
    };
    let read = async {
        let mut code = Vec::new();
        if let Some(output) = output {
            // One byte more than is taken, so that too much is seen. The rest stays unread, and its writer would wait for ever.
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
