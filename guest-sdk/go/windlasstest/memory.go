//go:build !wasip1

package windlasstest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"windlass.dev/windlass"
)

// Fleet is the host of a test: clusters in memory, config, clock and log.
type Fleet struct {
	t testing.TB
	// lock lets the goroutines of a guest call the fleet and its clusters, as the host does.
	lock     sync.Mutex
	config   string
	now      time.Time
	clusters map[string]*MemoryCluster
	logs     []Line
}

// NewFleet makes a fleet without clusters the host until this test ends. Parallel tests wait for each other here. A second script or
// fleet in the same test, or in a subtest of it, fails the test.
func NewFleet(t testing.TB) *Fleet {
	t.Helper()
	f := &Fleet{
		t: t, config: "{}", now: time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC), clusters: map[string]*MemoryCluster{},
	}
	become(t, memoryHost{f})
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
	f.lock.Lock()
	defer f.lock.Unlock()
	cluster, ok := f.clusters[name]
	if !ok {
		cluster = &MemoryCluster{fleet: f, name: name, labels: map[string]string{}, store: newStore()}
		f.clusters[name] = cluster
	}
	return cluster
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
