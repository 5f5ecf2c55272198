package windlass

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// mostFrames limits the frames that an error tells.
const mostFrames = 8

// failures are where the failed calls of this call of the host were. They are not in the errors, which are to be compared.
var failures struct {
	sync.Mutex
	places map[*APIError][]uintptr
}

// failing keeps where a call fails.
func failing(err *APIError) *APIError {
	here := callers()
	failures.Lock()
	defer failures.Unlock()
	if failures.places == nil {
		failures.places = map[*APIError][]uintptr{}
	}
	failures.places[err] = here
	return err
}

// entered forgets the failures of the call of the host before.
func entered() {
	failures.Lock()
	defer failures.Unlock()
	failures.places = nil
}

// placed is a failed call with where it was, for the host. A failure that the author means as the end has no place.
func placed(err error) error {
	var failed *APIError
	if IsTerminal(err) || !errors.As(err, &failed) {
		return err
	}
	failures.Lock()
	defer failures.Unlock()
	if at := framesOf(failures.places[failed]); at != "" {
		return &placedError{err, at}
	}
	return err
}

type placedError struct {
	error
	at string
}

func (p *placedError) Error() string { return p.error.Error() + p.at }

func (p *placedError) Unwrap() error { return p.error }

func callers() []uintptr {
	var callers [64]uintptr
	return slices.Clone(callers[:runtime.Callers(2, callers[:])])
}

// located is where a panic was.
func located() string { return framesOf(callers()) }

// framesOf are the frames in the author's files, the innermost first: a line "at greeter.Reconcile main.go:41" for each.
func framesOf(callers []uintptr) string {
	if len(callers) == 0 {
		return ""
	}
	main := mainModule()
	frames := runtime.CallersFrames(callers)
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
