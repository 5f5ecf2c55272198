"""Code on pages, with its language. Entry points: `block`, and `fenced` for code that is indented."""

import re

SHELL = r"windlass|kubectl|cargo|rustup|npm|node|python3|go|dlv|make|helm|git|cosign|docker|curl|cat|cd|rm|mkdir|export|for|rust-gdb|rust-lldb|\./\w+|[A-Z_]+=\S+ \w"
# The first of these that finds something in the code is its language.
LANGUAGES = [
    ("console", r"\A\$ "),
    ("yaml", r"\A(# .*\n)*(- )?[{]?[\w./-]+:( .*)?$"),
    ("bash", rf"\A(# .*\n)*({SHELL})\b"),
    ("json", r'\A[{\[]\n'),
    ("rust", r"\A(//.*\n|#\[.*\n)*(use \w+::|fn |impl |pub |let |struct |#\[)"),
    ("go", r"\A(//.*\n)*(package \w+$|func |var \w+ = \w+\.|type \w+ )"),
    ("typescript", r"\A(import .* from |const |export |if \(|\w+: \[)"),
    ("python", r"\A(import |from \w+ import|class \w+.*:$|def |[A-Z]+ = \w+\()"),
    ("c", r"\A(/\*|#include|static |json_)"),
]
LANGUAGES = [(name, re.compile(pattern, re.MULTILINE)) for name, pattern in LANGUAGES]
# A paragraph of lines that are indented by four, with what empty lines are between them.
INDENTED = re.compile(r"(?<=\n\n)(?:    .*\n|\n(?=\n*    ))+")
IN_LIST = re.compile(r"\s*([*-]|\d+\.) |\s")


def block(text: str, language: str = "") -> str:
    ticks = "````" if "```" in text else "```"
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}\n\n"


def fenced(page: str) -> str:
    """A page whose code is in fences that name its language."""
    parts = re.split(r"^( *```.*?^ *```$)", page, flags=re.MULTILINE | re.DOTALL)
    return "".join(named(part) if index % 2 else from_indented(part) for index, part in enumerate(parts))


def from_indented(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        before = text[: match.start()].rstrip("\n").rpartition("\n")[2]
        if IN_LIST.match(before):
            return match[0]
        code = "".join(line[4:] if line.strip() else line for line in match[0].splitlines(keepends=True))
        return block(code, language_of(code)).rstrip("\n") + "\n"

    return INDENTED.sub(replaced, text)


def named(fence: str) -> str:
    """A fence with the language of its code, if it names none."""
    first, _, rest = fence.partition("\n")
    return fence if first.strip(" `") else f"{first}{language_of(rest)}\n{rest}"


def language_of(code: str) -> str:
    return next((name for name, pattern in LANGUAGES if pattern.search(code)), "text")
