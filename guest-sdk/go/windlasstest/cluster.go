//go:build !wasip1

package windlasstest

import (
	"windlass.dev/windlass"
)

// Cluster is a cluster of a script.
type Cluster struct {
	script *Script
	name   string
	events []windlass.Event
}

// Client is the cluster as a reconciler sees it.
func (c *Cluster) Client() *windlass.Cluster {
	return windlass.NewCluster(windlass.BackendOf(calls{c}))
}

// Reconcile runs a reconciler for an object of the cluster.
func (c *Cluster) Reconcile(reconciler windlass.Reconciler, key windlass.ObjectKey) (windlass.Result, error) {
	return windlass.Reconcile(reconciler, windlass.Request{Cluster: c.name, ObjectKey: key}, c.Client())
}

// Events are the events that were recorded so far.
func (c *Cluster) Events() []windlass.Event { return c.events }

// ExpectGet expects a get. By default the object is absent.
func (c *Cluster) ExpectGet(kind windlass.GroupVersionKind, key windlass.ObjectKey, options ...windlass.GetOption) *Call {
	return c.expect(windlass.OpGet(kind, key, options...))
}

// ExpectList expects a list of one page. By default the page is empty.
func (c *Cluster) ExpectList(kind windlass.GroupVersionKind, options ...windlass.ListOption) *Call {
	return c.expect(windlass.OpList(kind, options...))
}

// ExpectCreate expects a create of exactly this object. By default it returns the object.
func (c *Cluster) ExpectCreate(object windlass.Kinded, options ...windlass.WriteOption) *Call {
	return c.expect(windlass.OpCreate(object, options...))
}

// ExpectUpdate expects an update to exactly this object. By default it returns the object.
func (c *Cluster) ExpectUpdate(object windlass.Kinded, options ...windlass.WriteOption) *Call {
	return c.expect(windlass.OpUpdate(object, options...))
}

// ExpectApply expects an apply of exactly this object. By default it returns the object.
func (c *Cluster) ExpectApply(object windlass.Kinded, options ...windlass.ApplyOption) *Call {
	return c.expect(windlass.OpApply(object, options...))
}

// ExpectPatch expects a patch. By default it returns an object with only its kind and key.
func (c *Cluster) ExpectPatch(
	kind windlass.GroupVersionKind, key windlass.ObjectKey, patch windlass.Patch, options ...windlass.WriteOption,
) *Call {
	call := c.expect(windlass.OpPatch(kind, key, patch, options...))
	return call.Return(windlass.NewObject(kind, key))
}

// ExpectDelete expects a delete.
func (c *Cluster) ExpectDelete(kind windlass.GroupVersionKind, key windlass.ObjectKey, options ...windlass.DeleteOption) *Call {
	return c.expect(windlass.OpDelete(kind, key, options...))
}

// ExpectDeleteCollection expects a deletion of a selection.
func (c *Cluster) ExpectDeleteCollection(
	kind windlass.GroupVersionKind, selection windlass.Selection, options ...windlass.DeleteOption,
) *Call {
	call := c.expect(windlass.OpDelete(kind, windlass.ObjectKey{}, options...))
	call.operation.Verb, call.selection = VerbDeleteCollection, selection
	return call
}

func (c *Cluster) expect(operation windlass.Operation) *Call {
	call := &Call{script: c.script, cluster: c.name, operation: operation, items: []string{}}
	c.script.expected = append(c.script.expected, call)
	return call
}
