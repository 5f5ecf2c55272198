//go:build !wasip1

// Package windlasstest runs a reconciler with plain `go test`: no component. The clusters are a script, made by [New],
// or in memory, made by [NewFleet].
//
// The script is the list of the expected calls, in order, each with its answer. The test fails if a call is not the next one of
// the script, and if calls are left at its end.
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
// Expect the operations of a batch like single calls, in their order. The script records events and log lines for the test.
//
// A [Fleet] has objects, and answers as API servers do. The test says what is there, and looks at what is there afterwards,
// not at how it came to be.
//
//	func TestGreetsOnce(t *testing.T) {
//		alpha := windlasstest.NewFleet(t).Cluster("alpha")
//		alpha.Put(asking)
//		alpha.ReconciledWrites(greeter{}, key)
//		if greeting := alpha.Object(maps, key.Sibling("a-greeting")); greeting == nil {
//			t.Error("there is no greeting")
//		}
//		if writes := alpha.ReconciledWrites(greeter{}, key); writes != 0 {
//			t.Errorf("%d writes, and nothing to do", writes)
//		}
//	}
//
// The clusters of a fleet are those of the in-memory API server of `windlass dev` and `windlass test`, which behaves as a real one does. The
// first fleet of a process starts the program `windlass`: put it on the PATH, or name it in the variable WINDLASS_BIN. The clusters serve the
// built-in kinds and those whose CustomResourceDefinitions the project has; [MemoryCluster.Put] and [Fleet.Define] add kinds without a
// schema. There are no indexes but that of [windlass.Dependents], and reads are never older than the last write.
package windlasstest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
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
	servers  servers
}

// Line is a line of the log.
type Line struct {
	// Level is the severity.
	Level slog.Level
	// Message is constant.
	Message string
	// Fields are the values.
	Fields map[string]string
}

// running is locked by the test whose script or fleet is the host, so that parallel tests wait for each other.
var running sync.Mutex

// owner is the name of the test that locked running; "" where none did.
var owner atomic.Value

// moment is how often a test looks whether another one has ended, patience how long a test waits for one that may wait for it.
var moment, patience = time.Millisecond, 10 * time.Second

// New makes a script the host until this test ends. Parallel tests wait for each other here. A second script or fleet in the same test,
// or in a subtest of it, fails the test.
func New(t testing.TB) *Script {
	t.Helper()
	s := &Script{
		t: t, config: "{}", now: time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC), clusters: map[string]*Cluster{},
		refused: map[string]*windlass.APIError{},
	}
	become(t, s.host())
	t.Cleanup(func() {
		for _, call := range s.expected {
			t.Errorf("expected, and not called: %v", call)
		}
	})
	return s
}

// become makes h the host until this test ends.
func become(t testing.TB, h windlass.Host) {
	t.Helper()
	for waited := time.Duration(0); !running.TryLock(); waited += moment {
		other, _ := owner.Load().(string)
		// A name below another one's is that of a subtest, for which the other one waits, or of a test beside it, which will end.
		if t.Name() == other || strings.HasPrefix(t.Name(), other+"/") && waited >= patience {
			t.Fatalf("%s has a script or a fleet already: make one in each subtest, or one for all of them", other)
		}
		time.Sleep(moment)
	}
	owner.Store(t.Name())
	restore := windlass.SetHost(h)
	t.Cleanup(func() {
		restore()
		owner.Store("")
		running.Unlock()
	})
}

// Config sets the configuration that [windlass.Config] reads.
func (s *Script) Config(config any) {
	s.t.Helper()
	s.config = encode(s.t, config)
}

// Now sets the time that [windlass.Now] returns; the default is 2026-01-31T09:30:00Z.
func (s *Script) Now(now time.Time) { s.now = now }

// Cluster is a cluster of the fleet, created by the first call. [windlass.Open] opens only clusters that were created.
func (s *Script) Cluster(name string) *Cluster {
	cluster, ok := s.clusters[name]
	if !ok {
		cluster = &Cluster{script: s, name: name}
		s.clusters[name] = cluster
	}
	return cluster
}

// Clusters sets the clusters that [windlass.Clusters] returns for any labels.
func (s *Script) Clusters(infos ...windlass.ClusterInfo) { s.infos = infos }

// RefuseOpen lets [windlass.Open] fail for a cluster.
func (s *Script) RefuseOpen(name string, err *windlass.APIError) { s.refused[name] = err }

// Logs are the lines that were written so far.
func (s *Script) Logs() []Line { return s.logs }

// Describe calls the reconciler's Describe.
func (s *Script) Describe(reconciler windlass.Reconciler) (windlass.Description, error) {
	return reconciler.Describe()
}

// Error is an API error with the HTTP status that API servers return for this code.
func Error(code windlass.Code, message string) *windlass.APIError {
	statuses := map[windlass.Code]int{
		windlass.CodeNotFound: 404, windlass.CodeAlreadyExists: 409, windlass.CodeConflict: 409, windlass.CodeInvalid: 422,
		windlass.CodeUnauthorized: 401, windlass.CodeForbidden: 403, windlass.CodeThrottled: 429, windlass.CodeExpired: 410,
		windlass.CodeUnavailable: 503,
	}
	return &windlass.APIError{Code: code, Status: statuses[code], Reason: string(code), Message: message}
}

// take returns the next call of the script. If it is another call, the test fails.
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

func encode(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("this cannot be JSON: %v", err)
	}
	return string(text)
}

func newLine(level slog.Level, message string, fields []windlass.LogField) Line {
	line := Line{Level: level, Message: message, Fields: make(map[string]string, len(fields))}
	for _, field := range fields {
		line.Fields[field.Name] = field.Value
	}
	return line
}

func (l Line) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v %s", l.Level, l.Message)
	for name, value := range l.Fields {
		fmt.Fprintf(&text, " %s=%s", name, value)
	}
	return text.String()
}
