//go:build !wasip1

package windlasstest

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"windlass.dev/windlass"
	"windlass.dev/windlass/internal/socket"
)

// Fleet is the host of a test: clusters in memory, config, clock and log. The program windlass serves the clusters.
type Fleet struct {
	t testing.TB
	// lock lets the goroutines of a guest call the fleet and its clusters, as the host does.
	lock     sync.Mutex
	config   string
	now      time.Time
	clusters map[string]*MemoryCluster
	logs     []Line
	servers  servers
	// connection is made for the first cluster.
	connection *socket.Connection
	// handles are those of the run that goes on, by cluster. Empty: none does.
	handles map[string]uint32
}

// NewFleet makes a fleet without clusters the host until this test ends. Parallel tests wait for each other here. A second script or
// fleet in the same test, or in a subtest of it, fails the test.
func NewFleet(t testing.TB) *Fleet {
	t.Helper()
	f := &Fleet{
		t: t, config: "{}", now: time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC), clusters: map[string]*MemoryCluster{},
		handles: map[string]uint32{},
	}
	become(t, memoryHost{f})
	t.Cleanup(func() {
		if f.connection != nil {
			_ = f.connection.Close()
		}
	})
	return f
}

// Config sets the configuration that [windlass.Config] reads.
func (f *Fleet) Config(config any) {
	f.t.Helper()
	text := encode(f.t, config)
	f.lock.Lock()
	defer f.lock.Unlock()
	f.config = text
}

// Now sets the time that [windlass.Now] returns; the default is 2026-01-31T09:30:00Z.
func (f *Fleet) Now(now time.Time) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.now = now
}

// Cluster is a cluster of the fleet, created empty by the first call; "" is the local one. [windlass.Open] opens only clusters
// that were created, and [windlass.Clusters] returns them.
func (f *Fleet) Cluster(name string) *MemoryCluster {
	f.t.Helper()
	f.lock.Lock()
	defer f.lock.Unlock()
	cluster, ok := f.clusters[name]
	if !ok {
		f.ask("Cluster", fields{"name": name})
		cluster = &MemoryCluster{fleet: f, name: name}
		f.clusters[name] = cluster
	}
	return cluster
}

// Define serves a kind without a schema in all clusters. Kinds that are built in, that the project has a CustomResourceDefinition of, or
// of which the test puts an object, need none.
func (f *Fleet) Define(kind windlass.GroupVersionKind, namespaced bool) {
	f.t.Helper()
	f.lock.Lock()
	defer f.lock.Unlock()
	f.ask("Define", fields{"kind": wireKind(kind), "namespaced": namespaced})
}

// Logs are the lines that were written so far.
func (f *Fleet) Logs() []Line {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.Clone(f.logs)
}

// Describe calls the reconciler's Describe.
func (f *Fleet) Describe(reconciler windlass.Reconciler) (windlass.Description, error) {
	return reconciler.Describe()
}

// fields are what is asked with.
type fields = map[string]any

// ask does something as another writer. The run that goes on ends first, so that its garbage is collected. The lock is held.
func (f *Fleet) ask(what string, with fields) json.RawMessage {
	f.t.Helper()
	f.end()
	return f.exchange(fields{what: with})
}

// end ends the run that goes on. The lock is held.
func (f *Fleet) end() {
	f.t.Helper()
	if len(f.handles) > 0 {
		f.handles = map[string]uint32{}
		f.exchange("End")
	}
}

func (f *Fleet) exchange(asked any) json.RawMessage {
	f.t.Helper()
	if f.connection == nil {
		connection, err := connect()
		if err != nil {
			f.t.Fatal(err)
		}
		f.connection = connection
	}
	answer, err := ask(f.connection, asked)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer
}

// remote are the host functions of the program. The lock is held.
func (f *Fleet) remote() windlass.Remote {
	return windlass.Remote{Call: func(function any) json.RawMessage {
		f.t.Helper()
		answer, err := f.connection.Call(function)
		if err != nil {
			f.t.Fatal(err)
		}
		return answer
	}}
}

// entered is a cluster in the run that goes on, which begins if there is none. The lock is held.
func (f *Fleet) entered(cluster string) windlass.RemoteCluster {
	f.t.Helper()
	handle, ok := f.handles[cluster]
	if ok {
		return windlass.RemoteCluster{Host: f.remote(), Handle: handle}
	}
	if len(f.handles) > 0 {
		opened, err := f.remote().OpenCluster(cluster)
		if err != nil {
			f.t.Fatal(err)
		}
		f.handles[cluster] = opened.Handle
		return opened
	}
	begun := f.exchange(fields{"Begin": fields{"cluster": cluster}})
	if err := json.Unmarshal(begun, &handle); err != nil {
		f.t.Fatal(err)
	}
	f.handles[cluster] = handle
	return windlass.RemoteCluster{Host: f.remote(), Handle: handle}
}

func wireKind(kind windlass.GroupVersionKind) any {
	return fields{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}
}
