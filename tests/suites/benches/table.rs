//! What benches print: tables that grow by a row while a bench runs, with a verdict beside each bar. Entry points: [`Table::begin`] and
//! [`verdict`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

use std::io::Write;

/// Columns of a table, printed line by line.
pub(crate) struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// Prints the title and the heads of the columns. A head padded with spaces makes its column wider.
    pub(crate) fn begin(title: &str, heads: &[&str]) -> Self {
        let widths = heads.iter().map(|head| head.chars().count()).collect();
        println!("\n{title}");
        let table = Self { widths };
        table.row(heads);
        table
    }

    /// Prints a row.
    pub(crate) fn row(&self, cells: &[impl AsRef<str>]) {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&self.widths) {
            let cell = cell.as_ref().trim();
            let pad = width.saturating_sub(cell.chars().count());
            line.push_str(&" ".repeat(pad + 2));
            line.push_str(cell);
        }
        println!("{line}");
        // Rows come minutes apart.
        let _ = std::io::stdout().flush();
    }
}

/// A bar, and whether it is met: what the last column of a row with a bar shows.
pub(crate) fn verdict(bar: &str, met: bool) -> String {
    format!("{bar} {}", if met { "OK" } else { "MISSED" })
}
