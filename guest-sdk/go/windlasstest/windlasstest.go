//go:build !wasip1

// Package windlasstest runs a reconciler against a script, with plain `go test`: no component, no server. The script is the
// list of the calls that are expected, in order, each with its answer. A call that is not the next one ends the test, and so does the end
// of the test with calls left.
//
//	func TestGreets(t *testing.T) {
//		script := windlasstest.New(t)
//		alpha := script.Cluster("alpha")
//		alpha.ExpectGet(maps, key).Return(asking)
//		alpha.ExpectGet(maps, key.Sibling("a-greeting")) // absent, unless it returns something
//		alpha.ExpectApply(greeting, windlass.Force)      // answers what was applied, unless it returns something
//
//		result, err := alpha.Reconcile(greeter{}, key)
//		...
//	}
//
// The operations of a batch are expected like calls of their own, in their order. Events and log lines are kept for
// the test to look at.
package windlasstest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"windlass.dev/windlass"
)

// Script is the host of a test.
type Script struct {
	t        testing.TB
	config   string
	now      time.Time
	clusters map[string]*Cluster
	infos    []windlass.ClusterInfo
	refused  map[string]*windlass.APIError
	expected []*Call
	logs     []Line
}

// Line is a line of the log.
type Line struct {
	// Level is how loud.
	Level slog.Level
	// Message is constant.
	Message string
	// Fields are the values.
	Fields map[string]string
}

// running is held by the test whose script is the host, so that parallel tests wait for each other.
var running sync.Mutex

// New makes a script the host of this test, until it ends. Tests that run in parallel wait for each other here, so that a test and its
// subtests must not both have one.
func New(t testing.TB) *Script {
	t.Helper()
	running.Lock()
	s := &Script{
		t: t, config: "{}", now: time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC), clusters: map[string]*Cluster{},
		refused: map[string]*windlass.APIError{},
	}
	restore := windlass.SetHost(s.host())
	t.Cleanup(func() {
		restore()
		running.Unlock()
		for _, call := range s.expected {
			t.Errorf("expected, and not called: %v", call)
		}
	})
	return s
}

// Config is what [windlass.Config] reads from now on.
func (s *Script) Config(config any) {
	s.t.Helper()
	s.config = s.encode(config)
}

// Now is what [windlass.Now] answers from now on; 2026-01-31T09:30:00Z unless set.
func (s *Script) Now(now time.Time) { s.now = now }

// Cluster is a cluster of the fleet, made when it is first named. [windlass.Open] opens those that were.
func (s *Script) Cluster(name string) *Cluster {
	cluster, ok := s.clusters[name]
	if !ok {
		cluster = &Cluster{script: s, name: name}
		s.clusters[name] = cluster
	}
	return cluster
}

// Clusters are what [windlass.Clusters] answers, whatever labels are asked for.
func (s *Script) Clusters(infos ...windlass.ClusterInfo) { s.infos = infos }

// RefuseOpen lets [windlass.Open] fail for a cluster.
func (s *Script) RefuseOpen(name string, err *windlass.APIError) { s.refused[name] = err }

// Logs are the lines that were written so far.
func (s *Script) Logs() []Line { return s.logs }

// Describe asks a reconciler what it watches.
func (s *Script) Describe(reconciler windlass.Reconciler) (windlass.Description, error) {
	return reconciler.Describe()
}

// Error is an API error with the status that API servers answer with this code.
func Error(code windlass.Code, message string) *windlass.APIError {
	statuses := map[windlass.Code]int{
		windlass.CodeNotFound: 404, windlass.CodeAlreadyExists: 409, windlass.CodeConflict: 409, windlass.CodeInvalid: 422,
		windlass.CodeUnauthorized: 401, windlass.CodeForbidden: 403, windlass.CodeThrottled: 429, windlass.CodeExpired: 410,
		windlass.CodeUnavailable: 503,
	}
	return &windlass.APIError{Code: code, Status: statuses[code], Reason: string(code), Message: message}
}

// take is the next call of the script, which must be this one. It ends the test otherwise.
func (s *Script) take(cluster string, operation windlass.Operation, selection windlass.Selection) *Call {
	s.t.Helper()
	made := &Call{cluster: cluster, operation: operation, selection: selection}
	if len(s.expected) == 0 {
		s.t.Fatalf("a call that the script does not expect: %v", made)
	}
	next := s.expected[0]
	if !made.is(next) {
		s.t.Fatalf("a call that the script does not expect now: %v\nexpected: %v", made, next)
	}
	s.expected = s.expected[1:]
	return next
}

func (s *Script) encode(value any) string {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatalf("this cannot be JSON: %v", err)
	}
	return string(text)
}

func (l Line) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v %s", l.Level, l.Message)
	for name, value := range l.Fields {
		fmt.Fprintf(&text, " %s=%s", name, value)
	}
	return text.String()
}
