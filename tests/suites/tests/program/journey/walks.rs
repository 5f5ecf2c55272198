//! What an author writes in each language.

use super::Walk;
use super::second::{Second, Wrong};
use super::throws::Throw;
use super::typed::Mistake;
use crate::languages;

pub(super) const RUST: Walk = Walk {
    language: languages::RUST,
    kind: "Type",
    source: include_str!("guest.rs"),
    unit_tests: "src/tests.rs",
    written: "types/src/shelf.rs",
    mistake: Mistake {
        module: (
            "src/label.rs",
            "use types::shelf::Shelf;\n\npub fn size(shelf: &Shelf) -> String {\n    shelf.spec.siez.to_string()\n}\n",
        ),
        module_told: &["src/label.rs:4:16", "no field `siez`"],
        import: "mod label;",
        wrong: "const WRONG: u32 = \"text\";",
        told: "src/lib.rs:LINE:20",
    },
    throw: Throw {
        before: &[
            ("use ", "mod checked;"),
            (
                "        let name = ",
                "        checked::checked(&request.key.name);",
            ),
        ],
        file: "src/checked.rs",
        text: "#[inline(never)]\npub fn checked(name: &str) {\n    assert!(name.is_empty(), \"boom of {name}\");\n}\n",
        above: NOTHING,
        told: &["in journey_rust::checked::checked < "],
    },
    second: Second {
        files: &[
            ("Cargo.toml", "Cargo.toml"),
            ("src/lib.rs", "src/lib.rs"),
            ("src/tests.rs", "src/tests.rs"),
        ],
        source: "src/lib.rs",
        wrong: None,
    },
    base: None,
};

pub(super) const TYPESCRIPT: Walk = Walk {
    language: languages::TYPESCRIPT,
    kind: "Record",
    source: include_str!("guest.ts"),
    unit_tests: "src/reconciler.test.ts",
    written: "src/shelf.ts",
    mistake: Mistake {
        module: (
            "src/label.ts",
            "import { Shelf } from './shelf';\nexport const size = (shelf: Shelf): number => shelf.spec.siez;\n",
        ),
        module_told: &["src/label.ts(2,", "siez"],
        import: "import './label';",
        wrong: "const wrong: number = 'text';",
        told: "reconciler.ts(LINE,7): error TS2322",
    },
    throw: Throw {
        before: &[
            ("import ", "import { checked } from './checked';"),
            ("    const asking = ", "    checked(key.name);"),
        ],
        file: "src/checked.ts",
        text: "interface Unused { a: string }\nexport function checked(name: string): string {\n  if (name !== '') throw new Error(`boom of ${name}`);\n  return name;\n}\n",
        above: NOTHING,
        told: &[
            "boom of crew",
            "at checked src/checked.ts:3",
            "at reconcile src/reconciler.ts:LINE",
        ],
    },
    second: Second {
        files: &[("src/reconciler.ts", "guest.ts")],
        source: "guest.ts",
        wrong: Some(Wrong {
            line: "export const wrong: number = 'a text'",
            told: &["second/guest.ts(LINE,", "TS2322"],
        }),
    },
    base: Some("javascript-base"),
};

pub(super) const JAVASCRIPT: Walk = Walk {
    language: languages::JAVASCRIPT,
    kind: "LoadTest",
    source: include_str!("guest.js"),
    unit_tests: "src/reconciler.test.js",
    written: "src/shelf.ts",
    mistake: Mistake {
        module: (
            "src/label.js",
            "/** @param {import('./shelf.ts').Shelf} shelf */\nexport const size = (shelf) => shelf.spec.siez;\n",
        ),
        module_told: &["src/label.js(2,", "siez"],
        import: "import './label.js';",
        wrong: "/** @type {number} */ const wrong = 'text';",
        told: "reconciler.js(LINE,29): error TS2322",
    },
    throw: Throw {
        before: &[
            ("import ", "import { checked } from './checked.js';"),
            ("    const asking = ", "    checked(key.name);"),
        ],
        file: "src/checked.js",
        text: "export function checked(name) {\n  throw new TypeError(`boom of ${name}`);\n}\n",
        // Its lines are before those of the SDK in a bundle.
        above: ("globalThis.more = 1;\n", 60),
        told: &[
            "TypeError: boom of crew",
            "at checked src/checked.js:62",
            "at reconcile src/reconciler.js:LINE",
        ],
    },
    second: Second {
        files: &[("src/reconciler.js", "guest.js")],
        source: "guest.js",
        wrong: None,
    },
    base: Some("javascript-base"),
};

pub(super) const PYTHON: Walk = Walk {
    language: languages::PYTHON,
    kind: "Operator",
    source: include_str!("guest.py"),
    unit_tests: "test_guest.py",
    written: "shelf.py",
    mistake: Mistake {
        module: (
            "label.py",
            "from shelf import Shelf\n\n\ndef size(shelf: Shelf) -> int:\n    return shelf[\"spec\"][\"siez\"]\n",
        ),
        module_told: &["label.py:5:", "siez"],
        import: "import label",
        wrong: "WRONG: int = 'text'",
        told: "guest.py:LINE:",
    },
    throw: Throw {
        before: &[
            ("from windlass ", "from helpers import checked"),
            ("        who = ", "        checked(asking)"),
        ],
        file: "helpers.py",
        text: "def checked(of):\n    try:\n        return of['nothing']\n    except KeyError as error:\n        raise ValueError('boom') from error\n",
        above: NOTHING,
        told: &[
            "ValueError: boom",
            "at checked helpers.py:5",
            "at reconcile guest.py:LINE",
            "after KeyError: 'nothing'",
            "at checked helpers.py:3",
        ],
    },
    second: Second {
        files: &[("guest.py", "guest.py")],
        source: "guest.py",
        wrong: Some(Wrong {
            line: "WRONG: str = NUMBER",
            told: &["second/guest.py:LINE:"],
        }),
    },
    base: Some("python-base"),
};

pub(super) const GO: Walk = Walk {
    language: languages::GO,
    kind: "LoadTest",
    source: include_str!("main.go"),
    unit_tests: "main_test.go",
    written: "shelf.go",
    mistake: Mistake {
        module: (
            "label.go",
            "package main\n\nfunc size(shelf Shelf) any {\n\treturn shelf.Spec.Siez\n}\n",
        ),
        module_told: &["label.go:4:20: shelf.Spec.Siez undefined"],
        import: "",
        wrong: "var wrong int = \"text\"",
        told: "main.go:LINE:17: cannot use \"text\"",
    },
    throw: Throw {
        before: &[("\twho := ", "\tchecked(asking)")],
        file: "checked.go",
        text: "package main\n\nimport \"windlass.dev/windlass\"\n\nfunc checked(of windlass.Object) {\n\tvar none map[string]int\n\tnone[of.Key().Name] = 1\n}\n",
        above: NOTHING,
        told: &[
            "panic: assignment to entry in nil map",
            "at checked checked.go:7",
            "at greeter.Reconcile main.go:LINE",
        ],
    },
    second: Second {
        files: &[("main.go", "main.go")],
        source: "main.go",
        wrong: None,
    },
    base: None,
};

pub(super) const C: Walk = Walk {
    language: languages::C,
    kind: "Time",
    source: include_str!("guest.c"),
    unit_tests: "guest_test.c",
    written: "shelf_types.h",
    mistake: Mistake {
        module: (
            "label.c",
            "#include <windlass.h>\n\n#include \"shelf_types.h\"\n\nconst char *size_at(void) {\n    return SHELF_SPEC_SIZE;\n}\n",
        ),
        // zig stops at the first file that has a mistake.
        module_told: &[],
        import: "",
        wrong: "const char *wrong = SHELF_SPEC_SIEZ;",
        told: "guest.c:LINE:21: error",
    },
    throw: Throw {
        before: &[
            (
                "static const windlass_kind ",
                "void checked(const json *of);",
            ),
            ("    const char *who = ", "    checked(asking);"),
        ],
        file: "checked.c",
        text: "#include <windlass.h>\n\nvoid checked(const json *of) {\n    if (of != NULL) {\n        __builtin_trap();\n    }\n}\n",
        above: NOTHING,
        told: &["in checked < reconcile"],
    },
    second: Second {
        files: &[("guest.c", "guest.c"), ("windlass.toml", "windlass.toml")],
        source: "guest.c",
        wrong: None,
    },
    base: None,
};

/// No lines.
const NOTHING: (&str, usize) = ("", 0);
