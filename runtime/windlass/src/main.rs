//! The program. Entry point: [`windlass::main`], which has all of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass::main()
}
