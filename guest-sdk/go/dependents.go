package windlass

import (
	"fmt"
	"slices"
	"time"
)

// ownerLabel is the label with the owner's uid, and the index of it.
const ownerLabel = "windlass.dev/owner"

// Dependents are the objects that a primary object should have. A dependent of the same namespace, or of a cluster-scoped primary object,
// is owned by it; another one has only the label windlass.dev/owner.
//
//	var parts = windlass.Dependents{Kinds: []windlass.GroupVersionKind{deployment, service}}
//
// Describe returns its [Dependents.Watches] and [Dependents.Indexes]; Reconcile returns what [Dependents.Reconcile] returns.
type Dependents struct {
	// Kinds are the kinds of the dependents. An object of one of them that is no longer desired is deleted.
	Kinds []GroupVersionKind
	// Recreate are those of the kinds whose objects are deleted and created again if the server does not take a change (HTTP 422), as of a
	// field that is immutable. Nil: none.
	Recreate []GroupVersionKind
	// Finalizer is held by the primary object until its deletion is done. It is needed for clean-ups, and for dependents that the
	// primary object cannot own. "": none.
	Finalizer string
	// Ready is why an object is not ready; "" if it is. Nil stands for [Readiness].
	Ready func(Object) string
	// Recheck is when to look again while something is not ready and no event comes. 0 stands for 10 s.
	Recheck time.Duration
	// Status has further fields of the primary object's status: see [Dependents.WithStatus].
	Status any
	// Cleanup runs when the primary object is being deleted, and may run several times; nil: nothing. It may fail with [NotReady].
	Cleanup func() error
}

// WithStatus is d with further fields of the primary object's status: a map, or a struct. Its conditions are left out.
func (d Dependents) WithStatus(status any) Dependents {
	d.Status = status
	return d
}

// WithCleanup is d with a clean-up.
func (d Dependents) WithCleanup(cleanup func() error) Dependents {
	d.Cleanup = cleanup
	return d
}

// Watches are for the description, after further ones: an event on a dependent asks for its owner.
func (d Dependents) Watches(further ...Watch) []Watch {
	for _, kind := range d.Kinds {
		further = append(further, Watch{Kind: kind, Enqueue: ControllerOwner})
	}
	return further
}

// Indexes are for the description, after further ones.
func (d Dependents) Indexes(further ...Index) []Index {
	for _, kind := range d.Kinds {
		further = append(further, Index{Kind: kind, Name: ownerLabel, Path: "metadata.labels['" + ownerLabel + "']"})
	}
	return further
}

// Reconcile applies the desired objects, deletes those that are no longer desired, and sets the conditions Ready and Progressing of the
// primary object, which must have been read. If the primary object is being deleted, it runs the clean-up, deletes the dependents that are not
// owned, and removes the finalizer. A failure of one keeps none of the others from being applied or deleted.
func (d Dependents) Reconcile(cluster *Cluster, of Identified, desired ...Identified) (done Result, err error) {
	primary, err := objectOf(of)
	if err != nil {
		return done, err
	}
	if d.Recheck == 0 {
		d.Recheck = 10 * time.Second
	}
	if d.Ready == nil {
		d.Ready = Readiness
	}
	if primary.Deleting() {
		return d.end(cluster, primary)
	}
	return d.keep(cluster, primary, desired)
}

// keep brings the dependents of a living object to their desired state.
func (d Dependents) keep(cluster *Cluster, primary Object, objects []Identified) (done Result, err error) {
	wanted, err := d.wanted(primary, objects)
	if err != nil {
		return done, err
	}
	if d.Finalizer != "" {
		if _, err := cluster.EnsureFinalizer(primary, d.Finalizer); err != nil {
			return done, err
		}
	}
	found, err := d.ofOwner(cluster, primary)
	if err != nil {
		return done, err
	}
	run := pass{parts: d, cluster: cluster, wanted: wanted, found: found, present: make(map[identity]Object, len(found))}
	for _, object := range found {
		run.present[identityOf(object)] = object
	}
	run.applyAll()
	run.deleteOthers()
	return run.end(primary)
}

// wanted are the desired objects as they are applied.
func (d Dependents) wanted(primary Object, objects []Identified) ([]desired, error) {
	for _, kind := range d.Recreate {
		if !slices.Contains(d.Kinds, kind) {
			return nil, refused("recreate: " + kind.Kind + " is not among the kinds of the dependents")
		}
	}
	wanted, names := make([]desired, len(objects)), make(map[identity]bool, len(objects))
	for i, of := range objects {
		object, err := objectOf(of)
		if err != nil {
			return nil, err
		}
		if wanted[i], err = d.prepared(primary, object); err != nil {
			return nil, err
		}
		name := identityOf(object)
		if names[name] {
			return nil, refused(named(object) + ": it is desired twice")
		}
		names[name] = true
	}
	return wanted, nil
}

// end ends the dependents of an object that is being deleted. The garbage collector takes those that the object owns.
func (d Dependents) end(cluster *Cluster, primary Object) (done Result, err error) {
	if d.Finalizer == "" || !primary.HasFinalizer(d.Finalizer) {
		return done, nil
	}
	if d.Cleanup != nil {
		if err := d.Cleanup(); err != nil {
			return done, err
		}
	}
	left, err := d.notOwned(cluster, primary)
	if err != nil {
		return done, err
	}
	removed := remove(cluster, left)
	for _, each := range removed {
		if each.err != nil {
			return done, each.err
		}
	}
	if len(removed) > 0 {
		if left, err = d.notOwned(cluster, primary); err != nil {
			return done, err
		}
	}
	if len(left) == 0 {
		_, err = cluster.RemoveFinalizer(primary, d.Finalizer)
		return done, err
	}
	names := make([]string, len(left))
	for i, object := range left {
		names[i] = named(object)
	}
	return RequeueAfter(d.Recheck), report(cluster, primary, "Deleting", "waits for the deletion of "+summary(names), nil)
}

// prepared is a desired object as it is applied: with its owner, or the label alone where it cannot have one.
func (d Dependents) prepared(primary, object Object) (none desired, err error) {
	if !slices.Contains(d.Kinds, object.GVK()) {
		return none, refused(named(object) + ": its kind is not among those of the dependents")
	}
	made, err := copied(object)
	if err != nil {
		return none, err
	}
	if primary.UID() == "" {
		return none, refused(named(primary) + " has no uid: take an owner that was read from a cluster")
	}
	made.Set(primary.UID(), "metadata", "labels", ownerLabel)
	switch namespace := primary.Key().Namespace; {
	case namespace == "" || namespace == made.Key().Namespace:
		if err := made.SetController(primary); err != nil {
			return none, err
		}
	case d.Finalizer == "":
		return none, refused(fmt.Sprintf("%s cannot be owned by %s: give the dependents a finalizer", named(made), named(primary)))
	}
	return desiredOf(made)
}

// ofOwner are the dependents that exist. There are none of a kind that is not served, if definitions are dependents too, or at the end.
func (d Dependents) ofOwner(cluster *Cluster, primary Object) (found []Object, err error) {
	mayLack := primary.Deleting() || slices.ContainsFunc(d.Kinds, isDefinition)
	index := IndexedBy{ownerLabel, primary.UID()}
	operations := make([]Operation, len(d.Kinds))
	for i, kind := range d.Kinds {
		operations[i] = OpList(kind, index)
	}
	for i, reply := range cluster.Batch(operations...) {
		objects, err := reply.Objects()
		switch {
		case CodeOf(err) == CodeUnknownKind && mayLack:
			continue
		case err != nil:
			return nil, err
		}
		found = append(found, objects...)
		if reply.Page.Continue == "" {
			continue
		}
		for object, err := range cluster.ListAll(d.Kinds[i], index, Continue(reply.Page.Continue)) {
			if err != nil {
				return nil, err
			}
			found = append(found, object)
		}
	}
	return found, nil
}

func (d Dependents) notOwned(cluster *Cluster, primary Object) ([]Object, error) {
	found, err := d.ofOwner(cluster, primary)
	return slices.DeleteFunc(found, func(object Object) bool { return object.isOwnedBy(primary.UID()) }), err
}

// report writes the conditions Ready and Progressing.
func report(cluster *Cluster, primary Object, reason, message string, status any) error {
	present, err := cluster.Get(primary.GVK(), primary.Key())
	if err != nil || present == nil {
		return err
	}
	next, err := copied(present)
	if err != nil {
		return err
	}
	generation := primary.Int("metadata", "generation")
	for _, kind := range []string{"Ready", "Progressing"} {
		is := (kind == "Ready") == (reason == "Ready")
		next.SetCondition(Condition{Type: kind, Status: StatusOf(is), Reason: reason, Message: message, ObservedGeneration: generation})
	}
	wanted, err := copied(status)
	if err != nil {
		return err
	}
	if wanted == nil {
		wanted = Object{}
	}
	wanted["conditions"] = next.At("status", "conditions")
	_, err = cluster.writeStatus(primary.GVK(), primary.Key(), present, wanted)
	return err
}

// identity is kind and key.
type identity struct {
	kind GroupVersionKind
	key  ObjectKey
}

func identityOf(object Object) identity { return identity{object.GVK(), object.Key()} }

func refused(message string) error {
	return failing(&APIError{Code: CodeInvalid, Reason: "Invalid", Message: message})
}
