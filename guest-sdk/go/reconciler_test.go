//go:build !wasip1

package windlass

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// guest runs the functions of a test.
type guest struct {
	described  func() (Description, error)
	reconciled func() (Result, error)
}

func (g guest) Describe() (Description, error) { return g.described() }

func (g guest) Reconcile(Request, *Cluster) (Result, error) { return g.reconciled() }

// lines is a host that records the log.
type lines struct {
	Host
	written []string
}

func (l *lines) Log(_ slog.Level, message string, fields []LogField) {
	for _, field := range fields {
		message += " " + field.Name + "=" + field.Value
	}
	l.written = append(l.written, message)
}

// register makes g the guest, until the test ends.
func register(t *testing.T, g Reconciler) {
	before := registered
	registered = nil
	Register(g)
	t.Cleanup(func() { registered = before })
}

func TestAPanicIsAnErrorThatTellsWhereItWas(t *testing.T) {
	register(t, guest{
		described:  func() (Description, error) { panic("in describe") },
		reconciled: func() (Result, error) { panic(errors.New("in reconcile")) },
	})
	told := func(message, function string) string {
		return fmt.Sprintf(`^panic: %s\nat TestAPanicIsAnErrorThatTellsWhereItWas\.%s reconciler_test\.go:\d+\nat guest\.`, message, function)
	}
	if _, err := describe(); err == nil || !regexp.MustCompile(told("in describe", "func1")).MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
	if _, err := reconcile(Request{}, nil); err == nil || !regexp.MustCompile(told("in reconcile", "func2")).MatchString(err.Error()) || IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

func TestAFailedCallTellsWhereItWas(t *testing.T) {
	var failure error
	register(t, guest{
		described: func() (Description, error) { return Description{}, fmt.Errorf("reading: %w", failure) },
		reconciled: func() (Result, error) {
			failure = (&wireError{Code: "Timeout", Message: "no answer"}).lifted()
			return Result{}, fmt.Errorf("reading: %w", failure)
		},
	})
	_, err := reconcile(Request{}, nil)
	told := `^reading: timeout: no answer\nat TestAFailedCallTellsWhereItWas\.func2 reconciler_test\.go:\d+\nat guest\.`
	if err == nil || !regexp.MustCompile(told).MatchString(err.Error()) || CodeOf(err) != CodeTimeout {
		t.Errorf("got %v", err)
	}
	if _, err := describe(); err == nil || err.Error() != "reading: timeout: no answer" {
		t.Errorf("got %v of another call", err)
	}
	register(t, guest{reconciled: func() (Result, error) {
		return Result{}, Terminal((&wireError{Code: "Timeout", Message: "no answer"}).lifted())
	}})
	if _, err := reconcile(Request{}, nil); err.Error() != "timeout: no answer" || !IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

func TestAPanicTellsTheFramesOfTheAuthor(t *testing.T) {
	for _, each := range []struct {
		function, file, main string
		own                  bool
	}{
		{"main.greeter.Reconcile", "main.go", "p-go", true},
		{"main.main", "main.go", "", true},
		{"p-go.greeter.Reconcile", "main.go", "p-go", true},
		{"p-go/inner.(*greeter).Reconcile.func1", "inner.go", "p-go", true},
		{"p-gopher.Dig", "dig.go", "p-go", false},
		{"example.com/guest.greeter.Reconcile", "main.go", "p-go", true},
		{"example%2ecom.Reconcile", "main.go", "example.com", true},
		{"windlass.dev/windlassing.Help", "help.go", "p-go", true},
		{"windlass.dev/windlass.reconcile", "reconciler.go", "p-go", false},
		{"windlass.dev/windlass.TestX", "reconciler_test.go", "windlass.dev/windlass", true},
		{"windlass.dev/windlass/mapper.Register", "mapper.go", "p-go", false},
		{"runtime.gopanic", "panic.go", "p-go", false},
		{"runtime/debug.Stack", "stack.go", "p-go", false},
		{"strings.Repeat", "strings.go", "p-go", false},
		{"encoding/json.(*decodeState).unmarshal", "decode.go", "p-go", false},
		{"slices.SortFunc[...]", "sort.go", "p-go", false},
		{"vendor/golang.org/x/net/idna.ToASCII", "idna.go", "", false},
		{"", "", "", false},
	} {
		if own := isOwn(runtime.Frame{Function: each.function, File: each.file}, each.main); own != each.own {
			t.Errorf("%s: got %v", each.function, own)
		}
	}
}

func TestAProgramWithoutAReconcilerSaysSoAndTwoAreRefused(t *testing.T) {
	if _, err := describe(); err == nil || !strings.Contains(err.Error(), "windlass.Register") {
		t.Errorf("got %v", err)
	}
	register(t, guest{})
	defer func() {
		if recover() == nil {
			t.Error("a second reconciler is taken")
		}
	}()
	Register(guest{})
}

func TestDelaysAreThoseOfTheContract(t *testing.T) {
	for _, c := range []struct {
		result Result
		millis uint32
		again  bool
	}{
		{Result{}, 0, false},
		{Result{Requeue: true}, 0, true},
		{Result{RequeueAfter: 90 * time.Second}, 90_000, true},
		{Result{RequeueAfter: time.Nanosecond}, 1, true},
		{Result{RequeueAfter: 1<<63 - 1}, 1<<32 - 1, true},
		{Result{RequeueAfter: -time.Second}, 0, false},
	} {
		if millis, again := c.result.millis(); millis != c.millis || again != c.again {
			t.Errorf("%+v: got %d, %v", c.result, millis, again)
		}
	}
}

func TestWhatIsNoUTF8CrossesToTheHostAsReplacementCharacters(t *testing.T) {
	for text, want := range map[string]string{"": "", "żółty": "żółty", "half \xf0": "half \uFFFD", "\xc5a\xff\xff": "\uFFFDa\uFFFD\uFFFD"} {
		if got := wellFormed(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestThePrimaryKindIsThatOfThePrimaryWatchUnlessItIsGiven(t *testing.T) {
	maps, secrets := GVK("v1", "ConfigMap"), GVK("v1", "Secret")
	description := Description{Watches: []Watch{{Kind: secrets, Enqueue: SameName}, {Kind: maps}}}
	if kind, ok := description.primary(); !ok || kind != maps {
		t.Errorf("got %v, %v", kind, ok)
	}
	description.Primary = secrets
	if kind, ok := description.primary(); !ok || kind != secrets {
		t.Errorf("got %v, %v", kind, ok)
	}
	description = Description{Watches: []Watch{{Kind: maps, Enqueue: Mapped}}}
	if kind, ok := description.primary(); ok {
		t.Errorf("got %v", kind)
	}
}
