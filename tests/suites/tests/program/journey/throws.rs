//! An exception or a panic of a guest names the lines of its author's files, and a trap in C names its functions: in `windlass test`, in the
//! log, and in what `get keys` says.

use super::Journey;
use super::served::Serving;
use crate::languages::{BUILD, windlass};
use crate::running::SOON;
use anyhow::{Context, Result, ensure};
use std::fs;
use windlass_harness::eventually::{Seen, eventually};

/// How the reconciler of a new guest fails in another file.
pub(super) struct Throw {
    /// The beginnings of lines of the reconciler, and what goes before each. The last one is the call.
    pub(super) before: &'static [(&'static str, &'static str)],
    /// The other file.
    pub(super) file: &'static str,
    pub(super) text: &'static str,
    /// Lines of the other file before this text, each of which is the same, and how many.
    pub(super) above: (&'static str, usize),
    /// The lines of the message. `LINE` is the line of the call.
    pub(super) told: &'static [&'static str],
}

impl Journey {
    /// Saves a reconciler that fails. The log of `dev` has the lines, and what asks for the keys too. Returns the lines.
    pub(super) async fn throws(&self, mut dev: Serving) -> Result<Vec<String>> {
        let mark = dev.program.line_count();
        let call = self.save_throwing()?.to_string();
        let told = self.walk.throw.told.iter();
        let told: Vec<String> = told.map(|line| line.replace("LINE", &call)).collect();
        let (first, others) = told.split_first().context("a message")?;
        dev.program.line_with_from(mark, first, BUILD).await?;
        for line in others {
            let line = format!("    {line}");
            dev.program.line_with_from(mark, &line, SOON).await?;
        }
        let keys = async |of: &str| {
            let args = ["get", "keys", of, "--admin", &dev.address];
            let asked = windlass(self.outside.path(), args).await?;
            anyhow::Ok(asked.expect_code(0)?.stdout)
        };
        let in_one = told.join(" ");
        eventually(SOON, &in_one, || async {
            let failing = keys("--state=failing").await?;
            Ok(Seen::of(failing, |keys| keys.contains(&in_one)))
        })
        .await?;
        // A key that runs just now has no error.
        eventually(SOON, "lines of their own", || async {
            let explained = keys("cluster://alpha/default/crew").await?;
            Ok(Seen::of(explained, |keys| has_lines(keys, &told)))
        })
        .await?;
        dev.end().await?;
        Ok(told)
    }

    /// A test has the same lines: one key fails again and again.
    pub(super) async fn test_throws(&self, told: &[String]) -> Result<()> {
        let test = ["test", "--timeout", "5s", "--log", "error"];
        let said = self.run(test).await?.expect_code(1)?.stdout;
        ensure!(has_lines(&said, told), "{told:?} in {said}");
        fs::remove_file(self.folder.join(self.walk.throw.file))?;
        self.save(&self.greeter)
    }

    /// Returns the line of the call.
    fn save_throwing(&self) -> Result<usize> {
        let throw = &self.walk.throw;
        let (line, times) = throw.above;
        let file = self.folder.join(throw.file);
        fs::write(file, line.repeat(times) + throw.text)?;
        let mut text = self.greeter.clone();
        for (line, new) in throw.before {
            ensure!(text.contains(line), "{line:?} in {text}");
            text = text.replacen(line, &format!("{new}\n{line}"), 1);
        }
        self.save(&text)?;
        let (_, call) = throw.before.last().context("a call")?;
        let at = text.lines().position(|line| line == *call);
        Ok(at.context("the call")? + 1)
    }
}

/// Whether a text has these lines one below the other: the first in a line, and the others as whole lines that are set in. No position follows.
fn has_lines(text: &str, told: &[String]) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let Some((first, others)) = told.split_first() else {
        return false;
    };
    let is_here = |at: usize| {
        let mut below = lines[at + 1..].iter();
        let mut all = others.iter().map(|told| (told, below.next()));
        let has_all = all.all(|(told, found)| {
            found.is_some_and(|line| line.starts_with(' ') && line.trim_start() == told)
        });
        has_all
            && !below
                .next()
                .is_some_and(|line| line.trim_start().starts_with("at "))
    };
    (0..lines.len()).any(|at| lines[at].contains(first) && is_here(at))
}
