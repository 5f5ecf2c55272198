//go:build !wasip1

package windlasstest

import (
	"encoding/json"
	"slices"

	"windlass.dev/windlass"
)

// MemoryCluster is a cluster of a fleet in memory. Its methods act for the test: only the calls of a guest, through
// [MemoryCluster.Client] and [MemoryCluster.Reconcile], are counted and can fail.
type MemoryCluster struct {
	fleet  *Fleet
	name   string
	events []windlass.Event
	// calls are those of the guest, in order.
	calls []windlass.Verb
	// failures are the errors of the next calls, in order; each is used once.
	failures []failure
}

// verbs are those of the calls that a guest can make.
var verbs = []windlass.Verb{
	windlass.VerbGet, windlass.VerbList, windlass.VerbCreate, windlass.VerbUpdate, windlass.VerbPatch, windlass.VerbApply,
	windlass.VerbDelete, VerbDeleteCollection,
}

type failure struct {
	verb windlass.Verb
	err  *windlass.APIError
}

// Client is the cluster as a reconciler sees it, for the test of a part of a guest.
func (c *MemoryCluster) Client() *windlass.Cluster {
	return windlass.NewCluster(windlass.BackendOf(memoryCalls{c}))
}

// Reconcile runs a reconciler for an object of the cluster.
func (c *MemoryCluster) Reconcile(reconciler windlass.Reconciler, key windlass.ObjectKey) (windlass.Result, error) {
	c.fleet.t.Helper()
	defer func() {
		c.fleet.lock.Lock()
		defer c.fleet.lock.Unlock()
		c.fleet.end() // what lost its owner goes
	}()
	return windlass.Reconcile(reconciler, windlass.Request{Cluster: c.name, ObjectKey: key}, c.Client())
}

// ReconciledWrites runs a reconciler and returns the number of its writes in this cluster; a second call should return 0. The
// test fails if the reconciler does.
func (c *MemoryCluster) ReconciledWrites(reconciler windlass.Reconciler, key windlass.ObjectKey) int {
	c.fleet.t.Helper()
	before := c.Writes()
	if _, err := c.Reconcile(reconciler, key); err != nil {
		c.fleet.t.Fatalf("the reconcile of %v in cluster %q failed: %v", key, c.name, err)
	}
	return c.Writes() - before
}

// Put stores an object as another writer would, by a server-side apply: it creates the object, or replaces the fields that an earlier
// put named. Its namespace is made if there is none, and a kind that is not served is defined without a schema. An object with a
// deletionTimestamp is deleted then, which finalizers hold up. The server sets uid, versions and times. The object is a [windlass.Object],
// a [windlass.Kinded] struct, or anything that is one as JSON.
func (c *MemoryCluster) Put(object any) {
	c.fleet.t.Helper()
	var text string
	if kinded, is := object.(windlass.Kinded); is {
		text = windlass.OpCreate(kinded).Text // as for a create, which adds apiVersion and kind
	} else {
		text = encode(c.fleet.t, object)
	}
	c.ask("Put", fields{"object": text})
}

// Remove deletes an object as another writer would, and what has no other owner. Finalizers hold the object.
func (c *MemoryCluster) Remove(kind windlass.GroupVersionKind, key windlass.ObjectKey) {
	c.fleet.t.Helper()
	c.ask("Remove", named(kind, key))
}

// Object is an object as it is stored now; nil if there is none.
func (c *MemoryCluster) Object(kind windlass.GroupVersionKind, key windlass.ObjectKey) (object windlass.Object) {
	c.fleet.t.Helper()
	c.read(&object, "Stored", named(kind, key))
	return object
}

// Objects are all objects that the test and the guest have made, by kind, namespace and name.
func (c *MemoryCluster) Objects() (objects []windlass.Object) {
	c.fleet.t.Helper()
	c.read(&objects, "Objects", fields{})
	return objects
}

func named(kind windlass.GroupVersionKind, key windlass.ObjectKey) fields {
	return fields{"kind": wireKind(kind), "namespace": key.Namespace, "name": key.Name}
}

// ask does something in the cluster as another writer.
func (c *MemoryCluster) ask(what string, with fields) json.RawMessage {
	c.fleet.t.Helper()
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	with["cluster"] = c.name
	return c.fleet.ask(what, with)
}

func (c *MemoryCluster) read(into any, what string, with fields) {
	c.fleet.t.Helper()
	if err := json.Unmarshal(c.ask(what, with), into); err != nil {
		c.fleet.t.Fatal(err)
	}
}

// FailNext lets the next call of this verb fail. Several errors are used in order, one for each call.
func (c *MemoryCluster) FailNext(verb windlass.Verb, err *windlass.APIError) {
	c.fleet.t.Helper()
	if err == nil {
		c.fleet.t.Fatalf("a call cannot fail without an error: %s", verb)
	}
	if !slices.Contains(verbs, verb) {
		c.fleet.t.Fatalf("a call that no guest makes cannot fail: %q", verb)
	}
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	c.failures = append(c.failures, failure{verb, err})
}

// Label gives the cluster a label, for [windlass.Clusters].
func (c *MemoryCluster) Label(key, value string) {
	c.fleet.t.Helper()
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	c.fleet.ask("Cluster", fields{"name": c.name, "labels": fields{key: value}})
}

// Unlabel takes a label from the cluster.
func (c *MemoryCluster) Unlabel(key string) {
	c.fleet.t.Helper()
	c.ask("Label", fields{"labels": fields{key: nil}})
}

// Leave takes the cluster out of the fleet: a guest neither sees nor opens it. It keeps its objects, which this still answers;
// [Fleet.Cluster] lets it join again.
func (c *MemoryCluster) Leave() {
	c.fleet.t.Helper()
	c.ask("Leave", fields{})
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	delete(c.fleet.clusters, c.name)
}

// ServerFailure is how an API server fails.
type ServerFailure string

// The failures of [MemoryCluster.Fail].
const (
	// Unreachable makes no connection.
	Unreachable ServerFailure = "Unreachable"
	// Errors answers every request with an error.
	Errors ServerFailure = "Errors"
)

// Fail makes the cluster's API server fail, until it heals. Guests get the errors of their calls, and see that one that is not
// reached is not ready. The test itself still reads and writes.
func (c *MemoryCluster) Fail(failure ServerFailure) {
	c.fleet.t.Helper()
	c.ask("Fail", fields{"failure": failure})
}

// Heal ends the failure of the cluster's API server.
func (c *MemoryCluster) Heal() {
	c.fleet.t.Helper()
	c.ask("Fail", fields{"failure": nil})
}

// Events are the events that were recorded so far.
func (c *MemoryCluster) Events() []windlass.Event {
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	return slices.Clone(c.events)
}

// Calls are the calls that the guest made here, in order, failed ones too. Each operation of a batch is one.
func (c *MemoryCluster) Calls() []windlass.Verb {
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	return slices.Clone(c.calls)
}

// Writes is how many of the calls were writes.
func (c *MemoryCluster) Writes() int {
	writes := 0
	for _, verb := range c.Calls() {
		if verb != windlass.VerbGet && verb != windlass.VerbList {
			writes++
		}
	}
	return writes
}
