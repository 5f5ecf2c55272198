//! Empty: a package must have a library or a program, and this one has tests and benches only.
