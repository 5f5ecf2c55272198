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
	labels map[string]string
	store  *store
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
func (c *MemoryCluster) Client() *windlass.Cluster { return windlass.NewCluster(memoryBackend{c}) }

// Reconcile runs a reconciler for an object of the cluster.
func (c *MemoryCluster) Reconcile(reconciler windlass.Reconciler, key windlass.ObjectKey) (windlass.Result, error) {
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

// Put stores an object as another writer would. An object that is there gets the fields that are put, and keeps the metadata
// that they do not name. The object is a [windlass.Object], a [windlass.Kinded] struct, or anything that is one as JSON.
func (c *MemoryCluster) Put(object any) {
	c.fleet.t.Helper()
	var text string
	if kinded, is := object.(windlass.Kinded); is {
		text = windlass.OpCreate(kinded).Text // as for a create, which adds apiVersion and kind
	} else {
		text = encode(c.fleet.t, object)
	}
	put, err := parsed(text)
	if err != nil || put.String("apiVersion") == "" || put.String("kind") == "" || put.Key().Name == "" {
		c.fleet.t.Fatalf("an object to put has apiVersion, kind and metadata.name: %v", object)
	}
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	c.store.put(put)
}

// Remove deletes an object as another writer would, and what has no other owner. Finalizers hold the object.
func (c *MemoryCluster) Remove(kind windlass.GroupVersionKind, key windlass.ObjectKey) {
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	c.store.remove(identityOf(kind, key))
}

// Object is an object as it is stored now; nil if there is none.
func (c *MemoryCluster) Object(kind windlass.GroupVersionKind, key windlass.ObjectKey) windlass.Object {
	c.fleet.t.Helper()
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	stored, exists := c.store.objects[identityOf(kind, key)]
	if !exists {
		return nil
	}
	return c.copied(stored)
}

// Objects are all objects, by kind, namespace and name.
func (c *MemoryCluster) Objects() []windlass.Object {
	c.fleet.t.Helper()
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	objects := []windlass.Object{}
	for _, identity := range c.store.sorted() {
		objects = append(objects, c.copied(c.store.objects[identity]))
	}
	return objects
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
	c.fleet.lock.Lock()
	defer c.fleet.lock.Unlock()
	c.labels[key] = value
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

// copied is a copy for the test, which may change it.
func (c *MemoryCluster) copied(object windlass.Object) windlass.Object {
	c.fleet.t.Helper()
	made, err := parsed(encode(c.fleet.t, object))
	if err != nil {
		c.fleet.t.Fatal(err)
	}
	return made
}

func parsed(text string) (windlass.Object, error) {
	var object windlass.Object
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return nil, invalid("not a JSON object: %v", err)
	}
	if object == nil {
		return nil, invalid("not a JSON object: %s", text)
	}
	return object, nil
}
