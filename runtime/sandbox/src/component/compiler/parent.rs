//! The host's side: starts a compiler, sends the component, and interprets its end. Entry point: [`run`].

use super::child::{OFTEN, REFUSED};
use super::{CompileError, Compiled, LENGTH, part};
use crate::options::CompilerProcess;
use crate::scheduler::priority::processors;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Most bytes that are read of a compiler's standard error.
const WORDS: u64 = 8 << 10;

/// Most threads of a compiler for builds that come often. Each takes address space, of which the process has little.
const THREADS: usize = 4;

/// The signals of a process that used too much processor time, and of one that ran out of memory.
const SIGXCPU: i32 = 24;
const SIGABRT: i32 = 6;

/// The end of a process, and its output.
struct Ended {
    status: ExitStatus,
    answer: Vec<u8>,
    words: String,
}

/// Compiles a component. The process is killed when the future is dropped.
pub(super) async fn run(
    process: &CompilerProcess,
    component: bytes::Bytes,
    functions: Vec<u8>,
) -> Result<Compiled, CompileError> {
    let failed = |source| CompileError::Start {
        program: process.program.clone(),
        source,
    };
    let mut command = Command::new(&process.program);
    command
        .args(&process.arguments)
        .args([process.memory.to_string(), process.seconds().to_string()])
        // The host's environment may hold secrets.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if process.builds_often {
        let threads = processors().min(THREADS).to_string();
        command.arg(OFTEN).env("RAYON_NUM_THREADS", threads);
    }
    let child = command.spawn().map_err(failed)?;
    match timeout(
        process.patience,
        talk(child, &functions, &component, most(process)),
    )
    .await
    {
        Ok(Ok(ended)) => judge(process, ended),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(CompileError::Starved(process.patience)),
    }
}

/// Most bytes of an answer. The functions for the next build are the same code once more, with what describes it.
fn most(process: &CompilerProcess) -> usize {
    let times = if process.builds_often { 3 } else { 1 };
    process.code.saturating_mul(times).saturating_add(LENGTH)
}

async fn talk(
    mut child: Child,
    functions: &[u8],
    component: &[u8],
    most: usize,
) -> std::io::Result<Ended> {
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        let length = (functions.len() as u64).to_le_bytes();
        if let Some(mut input) = input {
            for part in [&length, functions, component] {
                // An error means that the process has ended: its status says more.
                let _ = input.write_all(part).await;
            }
        }
    };
    let read = async {
        let mut answer = Vec::new();
        if let Some(output) = output {
            // One byte beyond the limit shows that there is more. Then the process is killed, or it would wait for a reader for ever.
            output
                .take(most as u64 + 1)
                .read_to_end(&mut answer)
                .await?;
            if answer.len() > most {
                child.start_kill()?;
            }
        }
        std::io::Result::Ok(answer)
    };
    let listen = async {
        let mut words = Vec::new();
        if let Some(errors) = errors {
            let _ = errors.take(WORDS).read_to_end(&mut words).await;
        }
        String::from_utf8_lossy(&words).into_owned()
    };
    let ((), answer, words) = tokio::join!(write, read, listen);
    Ok(Ended {
        answer: answer?,
        status: child.wait().await?,
        words,
    })
}

fn judge(process: &CompilerProcess, ended: Ended) -> Result<Compiled, CompileError> {
    let Ended {
        status,
        mut answer,
        words,
    } = ended;
    if answer.len() > most(process) {
        return Err(CompileError::Code(process.code));
    }
    if status.success()
        && let Some((code, functions)) = part(&answer)
    {
        if code.len() > process.code {
            return Err(CompileError::Code(process.code));
        }
        let functions = answer.split_off(answer.len() - functions.len());
        answer.drain(..LENGTH); // in place: the code may be large
        let code = answer;
        return Ok(Compiled { code, functions });
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
