//! This program, started again under callgrind. Entry points: [`Callgrind::find`], [`Callgrind::start`] and [`Callgrind::profile`].

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use windlass_harness::program::Program;

/// What is wrong if the counted process has nothing more to say.
pub(crate) const ENDED: &str = "the counted process ended early";

const VALGRIND: &str = "valgrind";
const COUNTS: &str = "counts";
const LOG: &str = "log";
/// Callers that are counted apart for each function, so that an allocation counts for the stage that asks for it.
const CALLERS: &str = "--separate-callers=16";
/// Longest wait for an end, which writes what was counted.
const PATIENCE: Duration = Duration::from_secs(120);
const MISSING: &str = "valgrind is missing, which counts instructions: `apt-get install valgrind` or `dnf install valgrind`. \
     There is none for macOS on Apple's processors, and none for Windows: count on Linux";
/// The first kernel that tells which pages are written since they were last looked at.
const PAGEMAP_SCAN: [u32; 2] = [6, 7];

/// Valgrind on this machine.
pub(crate) struct Callgrind {
    version: String,
}

impl Callgrind {
    /// Looks for valgrind. The error says how to get it.
    pub(crate) fn find() -> Result<Self> {
        match Command::new(VALGRIND).arg("--version").output() {
            Ok(output) => {
                ensure!(output.status.success(), "valgrind does not run here");
                let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Ok(Self { version })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(MISSING),
            Err(error) => Err(error).context("start valgrind"),
        }
    }

    /// Everything that counts depend on besides this repository.
    pub(crate) fn with(&self) -> Result<String> {
        let libc = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
        let libc = libc.ok().filter(|output| output.status.success());
        let libc = libc.map_or_else(
            || "another C library".to_owned(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        );
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel")?;
        let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
        let [Some(major), Some(minor)] = [0, 1].map(|_| numbers.next().flatten()) else {
            bail!("{release:?} is no version of a kernel");
        };
        let scan = if [major, minor] >= PAGEMAP_SCAN {
            "pagemap scan"
        } else {
            "no pagemap scan"
        };
        Ok(format!("{}, {libc}, {scan}", self.version))
    }

    /// Starts this very program with these arguments, its functions counted one by one. The folder takes what is counted.
    pub(crate) fn profile(&self, arguments: &[String], folder: &Path) -> Result<Profiled> {
        let mut command = counted(folder);
        command
            .args(["--collect-bus=yes", "--collect-systime=yes"])
            .args([CALLERS, "--separate-recs=1", "--compress-mangled=yes"])
            .arg(std::env::current_exe()?)
            .args(arguments);
        Ok(Profiled {
            process: Program::spawn(command.into())?,
            written: folder.join(COUNTS),
        })
    }

    /// Starts this very program with these arguments, counted.
    pub(crate) fn start(&self, arguments: &[String]) -> Result<Counted> {
        let folder = tempfile::tempdir()?;
        let mut child = counted(folder.path())
            .arg(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start valgrind")?;
        Ok(Counted {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
            folder,
        })
    }
}

/// Callgrind, which writes what it counts and what it says into a folder.
fn counted(folder: &Path) -> Command {
    let option = |name: &str, file: &str| {
        let mut option = std::ffi::OsString::from(name);
        option.push(folder.join(file));
        option
    };
    let mut command = Command::new(VALGRIND);
    command
        .arg("--tool=callgrind")
        // Guests' code is written while the process runs, into memory that held other code before.
        .arg("--smc-check=all-non-file")
        // Nobody debugs it.
        .args(["--vgdb=no", "--dump-line=no"])
        .arg(option("--callgrind-out-file=", COUNTS))
        .arg(option("--log-file=", LOG));
    command
}

/// A process whose functions are counted one by one, each way to call them apart. Killed if it is dropped before its end.
pub(crate) struct Profiled {
    process: Program,
    written: PathBuf,
}

impl Profiled {
    /// Ends it, and returns what callgrind wrote.
    pub(crate) async fn terminated(self) -> Result<String> {
        self.process.signal("TERM")?;
        let end = self.process.wait(PATIENCE).await?;
        let written = fs::read_to_string(&self.written);
        written.with_context(|| format!("{ENDED}, {}:\n{}{}", end.status, end.stdout, end.stderr))
    }
}

/// A process that is counted. Killed if it is dropped before its end.
pub(crate) struct Counted {
    child: Child,
    /// Closing it ends a process that waits for that.
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    folder: TempDir,
}

impl Counted {
    /// What it prints.
    pub(crate) fn lines(&mut self) -> Result<Lines<BufReader<ChildStdout>>> {
        let stdout = self.stdout.take().context("its output is taken already")?;
        Ok(BufReader::new(stdout).lines())
    }

    /// Waits for its end, and returns the instructions of all of its threads.
    pub(crate) fn end(mut self) -> Result<u64> {
        drop(self.stdin.take());
        let status = self.child.wait()?;
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name));
        if !status.success() {
            bail!("{ENDED}, {status}:\n{}", read(LOG).unwrap_or_default());
        }
        let counts = read(COUNTS).context("what callgrind counted")?;
        let total = counts.lines().find_map(|line| line.strip_prefix("totals:"));
        let total = total.ok_or_else(|| anyhow!("no total in what callgrind counted"))?;
        Ok(total.trim().parse()?)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
