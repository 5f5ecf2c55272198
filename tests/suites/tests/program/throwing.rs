//! An exception or a panic of a guest names the lines of its author's files, and a trap in C names its functions: in `windlass test`, in the
//! log, and in what `get keys` says.

use crate::languages::{BUILD, VENV, has_tools};
use crate::project::Project;
use crate::running::SOON;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::Program;

/// A new guest whose reconcile fails in a helper.
struct Throwing<'a> {
    language: &'static str,
    tools: &'static [&'static str],
    /// The file with reconcile.
    file: &'static str,
    /// The beginnings of lines of it, and what goes before each. The last one is the call.
    before: &'static [(&'static str, &'static str)],
    /// Another file.
    helper: (&'static str, &'a str),
    /// The lines of the message. `LINE` is the line of the call.
    told: &'static [&'static str],
}

impl Throwing<'_> {
    /// Expects the lines of the message wherever errors are shown. Without the tools of the language it is not run.
    async fn is_told(&self) -> Result<()> {
        if !has_tools(self.tools, &format!("positions in {}", self.language)) {
            return Ok(());
        }
        let project = Project::new()?;
        let new = ["new", "odd", "--lang", self.language];
        Program::run(project.path(), new, SOON)
            .await?
            .expect_code(0)?;
        let folder = project.path().join("odd");
        let call = self.write(&folder)?.to_string();
        let told: Vec<String> = self
            .told
            .iter()
            .map(|line| line.replace("LINE", &call))
            .collect();
        // One key fails again and again.
        let test = ["test", "--timeout", "5s", "--log", "error"];
        let tested = Program::run(&folder, test, BUILD).await?;
        let finished = tested.expect_code(1)?;
        ensure!(
            has_lines(&finished.stdout, &told),
            "{told:?} in {}",
            finished.stdout
        );
        is_logged_and_told_of_keys(project.path(), &told).await
    }

    /// Returns the line of the call.
    fn write(&self, folder: &Path) -> Result<usize> {
        let file = folder.join(self.file);
        let mut text = fs::read_to_string(&file)?;
        for (line, new) in self.before {
            text = text.replacen(line, &format!("{new}\n{line}"), 1);
        }
        let (other, helper) = self.helper;
        fs::write(folder.join(other), helper)?;
        fs::write(&file, &text)?;
        let (_, call) = self.before.last().context("a call")?;
        let at = text.lines().position(|line| line == *call);
        Ok(at.context("the call")? + 1)
    }
}

/// That the log of `dev` has the lines, and what asks for the keys too.
async fn is_logged_and_told_of_keys(folder: &Path, told: &[String]) -> Result<()> {
    let args = [
        "dev",
        "odd",
        "--admin",
        "127.0.0.1:0",
        "--log-format",
        "text",
    ];
    let mut dev = Program::start(folder, args)?;
    let serving = dev.line_with("admin endpoints", BUILD).await?;
    let (_, address) = serving.split_once("address=").context("an address")?;
    let address = address.split(' ').next().context("an address")?;
    let (first, others) = told.split_first().context("a message")?;
    dev.line_with(first, BUILD).await?;
    for line in others {
        dev.line_with(&format!("    {line}"), SOON).await?;
    }
    let keys = |of: &'static str| {
        let args = ["get", "keys", of, "--admin", address];
        Program::run(folder, args, SOON)
    };
    let in_one = told.join(" ");
    eventually(SOON, &in_one, || async {
        let failing = keys("--state=failing").await?.expect_code(0)?;
        Ok(Seen::of(failing.stdout, |keys| keys.contains(&in_one)))
    })
    .await?;
    // A key that runs just now has no error.
    eventually(SOON, "lines of their own", || async {
        let explained = keys("cluster://alpha/default/crew").await?.expect_code(0)?;
        Ok(Seen::of(explained.stdout, |keys| has_lines(keys, told)))
    })
    .await?;
    dev.signal("TERM")?;
    dev.wait(SOON).await?.expect_code(0)?;
    Ok(())
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

#[tokio::test]
async fn an_exception_in_typescript_tells_the_line_of_its_file() -> Result<()> {
    let typescript = Throwing {
        language: "typescript",
        tools: &["npm"],
        file: "src/reconciler.ts",
        before: &[
            ("import ", "import { checked } from './checked';"),
            ("    const asking = ", "    checked(key.name);"),
        ],
        helper: (
            "src/checked.ts",
            "interface Unused { a: string }\nexport function checked(name: string): string {\n  if (name !== '') throw new Error(`boom of ${name}`);\n  return name;\n}\n",
        ),
        told: &[
            "boom of crew",
            "at checked src/checked.ts:3",
            "at reconcile src/reconciler.ts:LINE",
        ],
    };
    typescript.is_told().await
}

#[tokio::test]
async fn an_exception_in_javascript_tells_the_line_of_its_file() -> Result<()> {
    // Its lines are before those of the SDK in a bundle.
    let many = "globalThis.more = 1;\n".repeat(60);
    let helper = format!(
        "{many}export function checked(name) {{\n  throw new TypeError(`boom of ${{name}}`);\n}}\n"
    );
    let javascript = Throwing {
        language: "javascript",
        tools: &["npm"],
        file: "src/reconciler.js",
        before: &[
            ("import ", "import { checked } from './checked.js';"),
            ("    const asking = ", "    checked(key.name);"),
        ],
        helper: ("src/checked.js", &helper),
        told: &[
            "TypeError: boom of crew",
            "at checked src/checked.js:62",
            "at reconcile src/reconciler.js:LINE",
        ],
    };
    javascript.is_told().await
}

#[tokio::test]
async fn a_panic_in_rust_tells_its_functions() -> Result<()> {
    let rust = Throwing {
        language: "rust",
        tools: &["cargo"],
        file: "src/lib.rs",
        before: &[
            ("use ", "mod checked;"),
            (
                "        let name = ",
                "        checked::checked(&request.key.name);",
            ),
        ],
        helper: (
            "src/checked.rs",
            "#[inline(never)]\npub fn checked(name: &str) {\n    assert!(name.is_empty(), \"boom of {name}\");\n}\n",
        ),
        told: &["in odd::checked::checked < "],
    };
    rust.is_told().await
}

#[tokio::test]
async fn an_exception_in_python_tells_the_line_of_its_file() -> Result<()> {
    let python = Throwing {
        language: "python",
        tools: &["python3", VENV],
        file: "guest.py",
        before: &[
            ("from windlass ", "from helpers import checked"),
            ("        who = ", "        checked(asking)"),
        ],
        helper: (
            "helpers.py",
            "def checked(of):\n    try:\n        return of['nothing']\n    except KeyError as error:\n        raise ValueError('boom') from error\n",
        ),
        told: &[
            "ValueError: boom",
            "at checked helpers.py:5",
            "at reconcile guest.py:LINE",
            "after KeyError: 'nothing'",
            "at checked helpers.py:3",
        ],
    };
    python.is_told().await
}

#[tokio::test]
async fn a_panic_in_go_tells_the_line_of_its_file() -> Result<()> {
    let go = Throwing {
        language: "go",
        tools: &["go"],
        file: "main.go",
        before: &[("\twho := ", "\tchecked(asking)")],
        helper: (
            "checked.go",
            "package main\n\nimport \"windlass.dev/windlass\"\n\nfunc checked(of windlass.Object) {\n\tvar none map[string]int\n\tnone[of.Key().Name] = 1\n}\n",
        ),
        told: &[
            "panic: assignment to entry in nil map",
            "at checked checked.go:7",
            "at greeter.Reconcile main.go:LINE",
        ],
    };
    go.is_told().await
}

#[tokio::test]
async fn a_trap_in_c_tells_the_functions_of_its_files() -> Result<()> {
    let c = Throwing {
        language: "c",
        tools: &["python3", VENV],
        file: "guest.c",
        before: &[
            (
                "static const windlass_kind ",
                "void checked(const json *of);",
            ),
            ("    const char *who = ", "    checked(asking);"),
        ],
        helper: (
            "checked.c",
            "#include <windlass.h>\n\nvoid checked(const json *of) {\n    if (of != NULL) {\n        __builtin_trap();\n    }\n}\n",
        ),
        told: &["in checked < reconcile"],
    };
    c.is_told().await
}
