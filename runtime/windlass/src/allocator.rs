//! Memory that is given back to the system. Entry point: [`give_back`].
//!
//! glibc raises its threshold for mapped memory with every large block that is freed. After some answers of megabytes it keeps all
//! later ones in its heaps: 200 MB stayed after one burst of large lists. A threshold that is set stays as it is, but glibc
//! reads the setting only as a process begins.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Free memory at a heap's end beyond which glibc gives it back; see mallopt(3). An operator's own setting counts.
const VARIABLE: &str = "MALLOC_TRIM_THRESHOLD_";
const BYTES: &str = "1048576";

/// Begins this process anew with the setting, under the same number and with the same arguments, unless it has it. Other C libraries
/// ignore the setting.
///
/// # Errors
/// When the program cannot be started again; it can go on as it is.
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
