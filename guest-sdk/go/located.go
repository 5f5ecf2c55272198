package windlass

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// mostFrames limits the frames that a panic tells.
const mostFrames = 8

// located is where a panic was, in the author's files, the innermost first: a line "at greeter.Reconcile main.go:41" for each frame.
func located() string {
	var callers [64]uintptr
	main := mainModule()
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	var own strings.Builder
	for more, told := true, 0; more && told < mostFrames; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if isOwn(frame, main) {
			told++
			fmt.Fprintf(&own, "\nat %s %s:%d", function(frame.Function), file(frame.File), frame.Line)
		}
	}
	return own.String()
}

// isOwn says whether a frame is neither of Go's standard library nor of this SDK. The path of the main module is empty if it is
// not known.
func isOwn(frame runtime.Frame, main string) bool {
	of := packageOf(frame.Function)
	first, _, _ := strings.Cut(of, "/")
	switch {
	case of == "windlass.dev/windlass" || strings.HasPrefix(of, "windlass.dev/windlass/"):
		return strings.HasSuffix(frame.File, "_test.go")
	case of == "main" || strings.Contains(first, "."):
		return true
	}
	// A module's path need not have a dot, as those of the standard library.
	return of != "" && main != "" && (of == main || strings.HasPrefix(of, main+"/"))
}

// packageOf is the package of a function: example.com/guest for example.com/guest.greeter.Reconcile.
func packageOf(name string) string {
	start := strings.LastIndex(name, "/") + 1
	last, _, _ := strings.Cut(name[start:], ".")
	return name[:start] + strings.ReplaceAll(last, "%2e", ".") // a dot of the last element is escaped
}

// function is a function without its package: greeter.Reconcile for example.com/guest.greeter.Reconcile.
func function(name string) string {
	_, name, _ = strings.Cut(name[strings.LastIndex(name, "/")+1:], ".")
	return name
}

// file is a path within the guest's module, and otherwise a file's name.
func file(path string) string {
	if main := mainModule(); main != "" {
		if within, ok := strings.CutPrefix(path, main+"/"); ok {
			return within
		}
	}
	return filepath.Base(path)
}

// mainModule is the path of the guest's module; empty if the build does not tell it.
func mainModule() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
}
