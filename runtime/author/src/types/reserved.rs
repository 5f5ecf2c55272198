//! Names that a language or its tools give a meaning. Entry points: [`is_file`] and [`is_type`].
//!
//! The lists are the languages' own, and are here as they have them: the names of a standard library, of keywords, of systems and processors.

use super::Language;

/// Modules of the standard library of Python, as `sys.stdlib_module_names` has them from 3.11 to 3.14, and words that no module can have as a name.
/// A module in the folder of a guest hides them from everything in it.
const PYTHON_MODULES: &str = "
abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii bisect builtins bz2 cProfile
calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall compression concurrent configparser contextlib contextvars copy
copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings ensurepip enum errno faulthandler fcntl
filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib
imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math mimetypes
mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb
pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat
queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr
socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct subprocess sunau symtable sys
sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading time timeit tkinter token tokenize tomllib trace traceback
tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref
xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo
and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise
return try while with yield
conftest guest sdk setup windlass windlass_exports wit_world
";

/// Exceptions, constants and functions that Python knows without an import, and what types are written with.
const PYTHON_TYPES: &str = "
ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning
ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError Ellipsis
EncodingWarning EnvironmentError Exception ExceptionGroup False FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit
IOError ImportError ImportWarning IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
ModuleNotFoundError NameError None NotADirectoryError NotImplemented NotImplementedError OSError OverflowError PendingDeprecationWarning
PermissionError ProcessLookupError PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning
StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError True TypeError UnboundLocalError
UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError
Any Literal NotRequired TypedDict
";

/// Systems and processors that Go knows (`internal/syslist`): a file `NAME_SYSTEM.go` is built for that one alone.
const GO_SYSTEMS: &str = "
aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9 solaris wasip1 windows zos
386 amd64 amd64p32 arm armbe arm64 arm64be loong64 mips mipsle mips64 mips64le mips64p32 mips64p32le ppc ppc64 ppc64le riscv riscv64 s390 s390x
sparc sparc64 wasm
";

/// Rust's keywords, and the names of crates that guests use. A module with the name of a crate hides the crate.
const RUST_MODULES: &str = "
abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in let loop macro match mod
move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized use virtual where while yield
alloc anyhow core k8s_openapi kube lib main proc_macro schemars serde serde_json std test tests thiserror windlass_sdk
";

/// What Rust knows without a `use` (`std::prelude`), and what the files of types use.
const RUST_TYPES: &str = "
AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box Clone Copy Debug Default DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce
From FromIterator Future Hash Into IntoFuture IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result Self Send Sized Some String Sync
ToOwned ToString TryFrom TryInto Unpin Vec
BTreeMap Deserialize Metadata Serialize Value
";

/// Names of types and values that are there without an import in TypeScript: those of `lib.esnext.d.ts` and all that it refers to, and what files of types
/// import.
const TYPESCRIPT_TYPES: &str = "
AggregateError Array ArrayBuffer ArrayBufferLike ArrayBufferTypes ArrayBufferView ArrayIterator ArrayLike AsyncDisposable AsyncDisposableStack
AsyncFunction AsyncGenerator AsyncGeneratorFunction AsyncIterable AsyncIterableIterator AsyncIterator AsyncIteratorObject Atomics Awaited BigInt
BigInt64Array BigIntToLocaleStringOptions BigUint64Array Boolean BuiltinIteratorReturn CallableFunction Capitalize ClassAccessorDecoratorContext
ClassAccessorDecoratorResult ClassAccessorDecoratorTarget ClassDecorator ClassDecoratorContext ClassFieldDecoratorContext ClassGetterDecoratorContext
ClassMemberDecoratorContext ClassMethodDecoratorContext ClassSetterDecoratorContext ConcatArray ConstructorParameters DataView Date DecoratorContext
DecoratorMetadata DecoratorMetadataObject Disposable DisposableStack Error ErrorOptions EvalError Exclude Extract FinalizationRegistry FlatArray
Float16Array Float32Array Float64Array Function Generator GeneratorFunction IArguments ImportAssertions ImportAttributes ImportCallOptions ImportMeta
Infinity InstanceType Int16Array Int32Array Int8Array Intl Iterable IterableIterator Iterator IteratorObject IteratorResult IteratorReturnResult
IteratorYieldResult JSON Lowercase Map MapIterator Math MethodDecorator NaN NewableFunction NoInfer NonNullable Number Object Omit OmitThisParameter
ParameterDecorator Parameters Partial Pick Promise PromiseConstructorLike PromiseFulfilledResult PromiseLike PromiseRejectedResult
PromiseSettledResult PromiseWithResolvers PropertyDecorator PropertyDescriptor PropertyDescriptorMap PropertyKey Proxy ProxyHandler RangeError
Readonly ReadonlyArray ReadonlyMap ReadonlySet ReadonlySetLike Record ReferenceError Reflect RegExp RegExpExecArray RegExpIndicesArray
RegExpMatchArray RegExpStringIterator Required ReturnType Set SetIterator SharedArrayBuffer String StringIterator SuppressedError Symbol SyntaxError
TemplateStringsArray Temporal ThisParameterType ThisType TypeError TypedPropertyDescriptor URIError Uint16Array Uint32Array Uint8Array
Uint8ClampedArray Uncapitalize Uppercase WeakKey WeakKeyTypes WeakMap WeakRef WeakSet
KubernetesObject
";

/// Names of files in a project of JavaScript or TypeScript: of a folder's own module, of a guest's first file, and of tests.
const TYPESCRIPT_FILES: &str = "index reconciler guest test";

/// Macros of the standard library of C that have an underscore, as names of fields have.
const C_MACROS: &str = "
CHAR_BIT CHAR_MAX CHAR_MIN CLOCKS_PER_SEC DBL_DIG DBL_EPSILON DBL_MAX DBL_MIN DECIMAL_DIG EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX FLT_DIG FLT_EPSILON
FLT_MAX FLT_MIN FLT_RADIX FLT_ROUNDS FOPEN_MAX FP_NAN FP_NORMAL FP_ZERO HUGE_VAL INT_MAX INT_MIN INTMAX_MAX INTMAX_MIN INTPTR_MAX INTPTR_MIN
LC_ALL LC_TIME LDBL_MAX LDBL_MIN LLONG_MAX LLONG_MIN LONG_MAX LONG_MIN L_TMPNAM MB_CUR_MAX MB_LEN_MAX PATH_MAX PTRDIFF_MAX PTRDIFF_MIN RAND_MAX
SCHAR_MAX SCHAR_MIN SEEK_CUR SEEK_END SEEK_SET SHRT_MAX SHRT_MIN SIG_DFL SIG_ERR SIG_IGN SIZE_MAX SSIZE_MAX TIME_UTC TMP_MAX UCHAR_MAX UINT_MAX
UINTMAX_MAX UINTPTR_MAX ULLONG_MAX ULONG_MAX USHRT_MAX WCHAR_MAX WCHAR_MIN WINT_MAX WINT_MIN
";

/// Whether a file of this name, without its ending, would be something else to the language or its tools.
pub(super) fn is_file(stem: &str, language: Language) -> bool {
    match language {
        // unittest and pytest take `test*.py` and `*_test.py` for tests.
        Language::Python => {
            has(PYTHON_MODULES, stem) || stem.starts_with("test") || stem.ends_with("_test")
        }
        Language::Go => {
            let end = stem.rsplit_once('_').map(|(_, end)| end);
            stem == "main" || end.is_some_and(|end| end == "test" || has(GO_SYSTEMS, end))
        }
        Language::Rust => has(RUST_MODULES, stem),
        // Node.js takes `*_test.js` for tests.
        Language::Typescript => has(TYPESCRIPT_FILES, stem) || stem.ends_with("_test"),
        // Its names have an end of their own.
        Language::C => false,
    }
}

/// Whether a type of this name would hide another one, in its own file or where it is imported; in C whether a macro would.
pub(super) fn is_type(name: &str, language: Language) -> bool {
    match language {
        Language::Python => has(PYTHON_TYPES, name),
        // Names with a capital have no meaning in Go, and the package of a guest imports only packages.
        Language::Go => false,
        Language::Rust => has(RUST_TYPES, name),
        Language::Typescript => {
            let made = name.strip_suffix("Constructor").unwrap_or(name);
            has(TYPESCRIPT_TYPES, made) || has(TYPESCRIPT_TYPES, name)
        }
        Language::C => has(C_MACROS, name),
    }
}

fn has(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == name)
}
