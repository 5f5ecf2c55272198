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

// located is where a panic was, in the author's files: ", at helper main.go:64, greeter.Reconcile main.go:41".
func located() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	var own []string
	for more := true; more && len(own) < mostFrames; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if isOwn(frame) {
			own = append(own, fmt.Sprintf("%s %s:%d", function(frame.Function), file(frame.File), frame.Line))
		}
	}
	if len(own) == 0 {
		return ""
	}
	return ", at " + strings.Join(own, ", ")
}

// isOwn says whether a frame is neither of Go's runtime nor of this SDK.
func isOwn(frame runtime.Frame) bool {
	name := frame.Function
	isSDK := strings.HasPrefix(name, "windlass.dev/windlass") && !strings.HasSuffix(frame.File, "_test.go")
	return name != "" && !isSDK && !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "runtime/")
}

// function is a function without its package: greeter.Reconcile for example.com/guest.greeter.Reconcile.
func function(name string) string {
	_, name, _ = strings.Cut(name[strings.LastIndex(name, "/")+1:], ".")
	return name
}

// file is a path within the guest's module, and otherwise a file's name.
func file(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		if within, ok := strings.CutPrefix(path, info.Main.Path+"/"); ok {
			return within
		}
	}
	return filepath.Base(path)
}
