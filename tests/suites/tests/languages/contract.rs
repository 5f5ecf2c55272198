//! The contract as it was released, and what may become of it. Entry point: the test below.
//!
//! `tests/contract/0.1.0` is pinned, with a guest of it in every language, which the upgrade tests of the sandbox run.

use anyhow::{Context, Result, ensure};
use std::path::Path;

const PINNED: &str = "0.1.0";

/// Whether `now` is `pinned` with functions and worlds added, and with what is said about things said otherwise.
fn grew_by_functions(pinned: &str, now: &str) -> Result<(), String> {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim);
        let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
        code.filter(|line| !line.starts_with("package "))
            .map(str::to_owned)
            .collect()
    };
    let (pinned, now) = (lines(pinned), lines(now));
    let mut more_world = false;
    let known = pinned.clone();
    let mut pinned = pinned.iter().peekable();
    for line in &now {
        more_world |= line.starts_with("world ") && !known.contains(line);
        if more_world {
            more_world = line != "}";
            continue;
        }
        if pinned.next_if(|expected| *expected == line).is_some() {
            continue;
        }
        let is_function = line.ends_with(';') && line.contains(": func(");
        if !is_function {
            return Err(format!("{line:?} is not of the released contract"));
        }
    }
    pinned.next().map_or(Ok(()), |gone| {
        Err(format!("{gone:?} of the released contract is gone"))
    })
}

#[test]
fn the_contract_is_the_released_one_or_has_more_functions() -> Result<()> {
    let repository = windlass_harness::repository();
    let files = |folder: &Path| -> Result<Vec<String>> {
        let mut names = Vec::new();
        for file in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            names.push(file?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name.ends_with(".wit"));
        names.sort();
        Ok(names)
    };
    let (pinned, now) = (
        repository.join("tests/contract").join(PINNED).join("wit"),
        repository.join("wit"),
    );
    // A further interface is one that guests may import: they run on a host that has it.
    let there = files(&now)?;
    for file in files(&pinned)? {
        ensure!(there.contains(&file), "wit/{file} is gone");
        let read = |folder: &Path| std::fs::read_to_string(folder.join(&file));
        let (before, after) = (read(&pinned)?, read(&now)?);
        ensure!(
            after.starts_with(&format!("package windlass:runtime@{PINNED};")),
            "wit/{file} has another version than the pinned one: pin that too in tests/contract, with a guest of it for each language"
        );
        ensure!(
            !(file == "reconciler.wit" || file == "mapper.wit") || before == after,
            "wit/{file} is an interface that guests export: it is frozen"
        );
        if let Err(problem) = grew_by_functions(&before, &after) {
            anyhow::bail!("wit/{file}: {problem}: built guests would not run any more");
        }
    }
    Ok(())
}

#[test]
fn more_functions_are_compatible_and_nothing_else_is() {
    let pinned =
        "package a;\n/// Words.\ninterface i {\n  enum e {\n    a,\n  }\n  f: func();\n}\n";
    let with = |from: &str, to: &str| grew_by_functions(pinned, &pinned.replace(from, to));
    assert_eq!(with("Words", "Other words"), Ok(()));
    assert_eq!(
        with("  f: func();", "  f: func();\n  g: func() -> u32;"),
        Ok(())
    );
    assert_eq!(
        with("func();\n}\n", "func();\n}\nworld w {\n  import i;\n}\n"),
        Ok(())
    );
    for (from, to) in [
        ("    a,\n", "    a,\n    b,\n"),
        ("    a,\n", ""),
        ("f: func();", "f: func(x: u32);"),
        ("  f: func();\n", ""),
    ] {
        assert!(with(from, to).is_err(), "{from:?} to {to:?}");
    }
}
