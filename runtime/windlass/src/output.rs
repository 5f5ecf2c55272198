//! The program's output for people: tables and coloured words. Entry point: [`Table`].
//!
//! Colours are always written; `anstream` removes them if the output is not a terminal or `NO_COLOR` is set.

use clap::builder::styling::{AnsiColor, Style};
use std::borrow::Cow;
use std::{fmt, iter};

/// The meaning of a text, shown by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Plain.
    Plain,
    /// Good.
    Good,
    /// A warning.
    Warn,
    /// Wrong.
    Bad,
    /// Less important.
    Dim,
    /// A heading.
    Bold,
}

impl Tone {
    fn style(self) -> Style {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match self {
            Self::Plain => Style::new(),
            Self::Good => colour(AnsiColor::Green),
            Self::Warn => colour(AnsiColor::Yellow),
            Self::Bad => colour(AnsiColor::Red),
            Self::Dim => Style::new().dimmed(),
            Self::Bold => Style::new().bold(),
        }
    }

    /// The text in this tone.
    pub(crate) fn paint(self, text: impl fmt::Display) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

/// Foreign text as one line that cannot control a terminal: control characters, line separators, and characters that change the
/// direction of text become U+FFFD.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    cleaned(text, |_| false)
}

/// The same for several lines.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    cleaned(text, |character| matches!(character, '\n' | '\t'))
}

fn cleaned(text: &str, kept: fn(char) -> bool) -> Cow<'_, str> {
    let harmful = |character: char| {
        let turns = matches!(character, '\u{61c}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (character.is_control() || turns) && !kept(character)
    };
    if text.contains(harmful) {
        Cow::Owned(text.replace(harmful, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
    /// Numbers are aligned to the right.
    right: bool,
}

impl Cell {
    /// A text in a tone.
    pub(crate) fn toned(text: impl fmt::Display, tone: Tone) -> Self {
        let text = text.to_string();
        let text = if text.is_empty() {
            "-".to_owned()
        } else {
            printable(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
        };
        Self {
            text,
            tone,
            right: false,
        }
    }

    /// A plain text.
    pub(crate) fn text(text: impl fmt::Display) -> Self {
        Self::toned(text, Tone::Plain)
    }

    /// A plain text of several lines, for the last column. Lines after the first are set in.
    pub(crate) fn lines(text: &str) -> Self {
        let mut lines = text.lines();
        let mut cell = Self::text(lines.next().unwrap_or_default());
        for line in lines {
            cell.text += "\n    ";
            cell.text += &printable(line);
        }
        cell
    }

    /// A number.
    pub(crate) fn number(number: impl fmt::Display) -> Self {
        Self {
            right: true,
            ..Self::text(number)
        }
    }

    /// A number that is bad unless it is zero.
    pub(crate) fn bad_number(number: u64) -> Self {
        let tone = if number == 0 { Tone::Plain } else { Tone::Bad };
        Self {
            right: true,
            ..Self::toned(number, tone)
        }
    }
}

/// The heading of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Of a column that every table has. Without troubles these fit 80 characters.
    Always(&'static str),
    /// Of a column for `-o wide`.
    Wide(&'static str),
}

/// Rows under a heading, aligned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// The columns, and whether each is shown.
    columns: Vec<(&'static str, bool)>,
    /// Each row has one cell for each column that is shown.
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            columns: headings.iter().map(|heading| (*heading, true)).collect(),
            rows: Vec::new(),
        }
    }

    /// An empty table, with the columns for `-o wide` or without.
    pub(crate) fn with(columns: &[Column], wide: bool) -> Self {
        let shown = |column: &Column| match *column {
            Column::Always(heading) => (heading, true),
            Column::Wide(heading) => (heading, wide),
        };
        Self {
            columns: columns.iter().map(shown).collect(),
            rows: Vec::new(),
        }
    }

    /// The headings of the columns that are shown.
    fn headings(&self) -> impl Iterator<Item = &'static str> {
        let shown = self.columns.iter().filter(|(_, is_shown)| *is_shown);
        shown.map(|(heading, _)| *heading)
    }

    /// The width that each column needs, and at least its previous width.
    pub(crate) fn widen(&self, widths: &mut Vec<usize>) {
        widths.resize(self.headings().count(), 0);
        for (column, (width, heading)) in widths.iter_mut().zip(self.headings()).enumerate() {
            let cells = self.rows.iter().map(|row| row[column].text.chars().count());
            *width = cells.fold(heading.chars().count().max(*width), usize::max);
        }
    }

    /// Cuts texts of the last column, so that lines in columns of these widths have at most this many characters. Where a table has
    /// errors, they are in that column.
    pub(crate) fn cut(&mut self, widths: &[usize], line: usize) {
        let Some((_, others)) = widths.split_last() else {
            return;
        };
        let before: usize = others.iter().map(|width| width + 2).sum();
        let room = line.saturating_sub(before).max(LEAST);
        for cell in self.rows.iter_mut().filter_map(|row| row.last_mut()) {
            if cell.text.chars().count() > room {
                cell.text = cell.text.chars().take(room - 1).collect::<String>() + "\u{2026}";
            }
        }
    }

    /// The rows, in columns of these widths.
    pub(crate) fn lines<'a>(&'a self, widths: &'a [usize]) -> impl Iterator<Item = String> + 'a {
        self.rows.iter().map(|row| line(row, widths))
    }

    /// The headings, in columns of these widths.
    pub(crate) fn heading(&self, widths: &[usize]) -> String {
        let first = self.rows.first();
        let cells = self.headings().enumerate();
        let cells = cells.map(|(column, heading)| Cell {
            text: heading.to_owned(),
            tone: Tone::Dim,
            right: first.is_some_and(|row| row[column].right),
        });
        line(&cells.collect::<Vec<_>>(), widths)
    }

    /// Adds a row with a cell for each column, shown or not. Missing cells stay empty, extra cells are dropped.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells = cells.into_iter().map(Some).chain(iter::repeat(None));
        let cells = self.columns.iter().zip(cells);
        let shown = cells.filter(|((_, is_shown), _)| *is_shown);
        let row = shown.map(|(_, cell)| cell.unwrap_or_else(|| Cell::text("")));
        self.rows.push(row.collect());
    }
}

/// What is left of a text that is cut, however narrow the terminal is.
const LEAST: usize = 10;

/// The characters in a line of the terminal that standard output is. None if it is no terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = Vec::new();
        self.widen(&mut widths);
        writeln!(f, "{}", self.heading(&widths))?;
        for line in self.lines(&widths) {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// One line, without white space at its end.
fn line(row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    // Padding is written only if text follows it.
    let mut pending = 0;
    for (cell, width) in row.iter().zip(widths) {
        let padding = width.saturating_sub(cell.text.chars().count());
        let before = pending + if cell.right { padding } else { 0 };
        line.push_str(&" ".repeat(before));
        line.push_str(&cell.tone.paint(&cell.text));
        pending = 2 + if cell.right { 0 } else { padding };
    }
    line
}

/// A number of bytes for people: `812 B`, `1.5 KiB`, `34 KiB`, `1.2 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, factor)) = UNITS.into_iter().find(|(_, factor)| bytes >= *factor) else {
        return format!("{bytes} B");
    };
    match bytes / factor {
        whole @ 0..10 => format!("{whole}.{} {unit}", bytes % factor * 10 / factor),
        whole => format!("{whole} {unit}"),
    }
}

/// A duration in seconds for people: `8s`, `3m`, `2h5m`, `4d`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Processor time for people: `80ms`, `1.5s`, `2m`, `3h0m`.
pub(crate) fn spent(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        seconds if seconds < 1.0 => format!("{}ms", (seconds * 1000.0).ceil()),
        seconds if seconds < 60.0 => format!("{seconds:.1}s"),
        seconds => age(seconds as u64),
    }
}

/// `1 cluster`, `3 clusters`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_drives_no_terminal() {
        let text = "a\u{1b}[2J\nb\u{202e}c\u{9b}\u{2028}é";
        let harmless = "a\u{fffd}[2J\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}é";
        assert_eq!(printable(text), harmless);
        assert_eq!(Cell::text("a\u{1b}\tb"), Cell::text("a\u{fffd} b"));
        assert_eq!(printable_lines("a\n\tb\r"), "a\n\tb\u{fffd}");
        assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        let mut table = Table::new(&["CLUSTER", "OBJECTS", "STATE"]);
        table.row([
            Cell::text("alpha"),
            Cell::number(7),
            Cell::toned("Ready", Tone::Good),
        ]);
        table.row([
            Cell::text("a-long-name"),
            Cell::number(1234),
            Cell::text(""),
        ]);
        let plain = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(
            plain,
            "CLUSTER      OBJECTS  STATE\nalpha              7  Ready\na-long-name     1234  -\n"
        );
    }

    #[test]
    fn the_last_column_is_cut_to_the_line() {
        let mut table = Table::new(&["KEY", "ERROR"]);
        table.row([Cell::text("a"), Cell::text("the server said no")]);
        table.row([Cell::text("a-name"), Cell::text("the é is a é")]);
        let mut widths = Vec::new();
        table.widen(&mut widths);
        let mut cut = |line| {
            table.cut(&widths, line);
            let lines = table.lines(&widths).collect::<Vec<_>>().join("\n");
            anstream::adapter::strip_str(&lines).to_string()
        };
        assert_eq!(cut(80), "a       the server said no\na-name  the é is a é");
        assert_eq!(cut(20), "a       the server \u{2026}\na-name  the é is a é");
        assert_eq!(
            cut(3),
            "a       the serve\u{2026}\na-name  the é is \u{2026}"
        );
    }

    #[test]
    fn a_cell_stays_on_its_line() {
        let mut table = Table::new(&["A"]);
        table.row([Cell::text("x\ny"), Cell::text("too many")]);
        assert_eq!(
            anstream::adapter::strip_str(&table.to_string()).to_string(),
            "A\nx y\n"
        );
    }

    #[test]
    fn sizes_ages_and_counts_read_well() {
        assert_eq!(
            [size(812), size(1536), size(34 << 10), size(1_300_000)],
            ["812 B", "1.5 KiB", "34 KiB", "1.2 MiB"]
        );
        assert_eq!(
            [age(8), age(200), age(7500), age(400_000)],
            ["8s", "3m", "2h5m", "4d"]
        );
        assert_eq!(
            [spent(0.0), spent(0.0123), spent(1.46), spent(200.0)],
            ["0", "13ms", "1.5s", "3m"]
        );
        assert_eq!(
            [count(1, "cluster"), count(3, "cluster")],
            ["1 cluster", "3 clusters"]
        );
    }
}
