//! The allocator, and freed memory that returns to the system. Entry point: [`give_back`].
//!
//! The static program uses mimalloc, because musl's own allocator has one lock for all threads. What follows is about glibc.
//!
//! glibc raises its mmap threshold with every large block that is freed, and then keeps large blocks in its heaps: 200 MB stayed after
//! one burst of large lists. A threshold that is set does not rise, but glibc reads the setting only when a process starts.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// glibc returns free memory at the end of a heap beyond this many bytes; see mallopt(3). An operator's setting wins.
const VARIABLE: &str = "MALLOC_TRIM_THRESHOLD_";
const BYTES: &str = "1048576";

/// Restarts this process with the setting, under the same process id and with the same arguments. Does nothing if the setting is there.
/// Other C libraries ignore it.
///
/// # Errors
/// When the program cannot be restarted. It can run without the setting.
pub(crate) fn give_back() -> io::Result<()> {
    if env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    let mut arguments = env::args_os();
    let mut again = Command::new(env::current_exe()?);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    Err(again.args(arguments).env(VARIABLE, BYTES).exec())
}
