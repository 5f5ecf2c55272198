package windlass

import (
	"cmp"
	"encoding/json"
	"reflect"
)

// Effect is what a write that may have nothing to do did.
type Effect string

// The effects of a write.
const (
	// Created: the object was absent.
	Created Effect = "created"
	// Updated: the object was changed.
	Updated Effect = "updated"
	// Unchanged: there was nothing to do.
	Unchanged Effect = "unchanged"
)

// Written is the result of a write that may have nothing to do.
type Written struct {
	// Object is the object as it is stored.
	Object Object
	// Effect is what was done.
	Effect Effect
}

// Changed reports whether something was written that the server did not have.
func (w Written) Changed() bool { return w.Effect != Unchanged }

// Ensure is [Cluster.Apply] with [Force], only if something differs: a field that is not as desired, or one that was applied by
// Ensure before and is no longer desired. The annotation windlass.dev/applied has a fingerprint of what was applied.
func (c *Cluster) Ensure(object Identified) (Written, error) {
	untyped, err := objectOf(object)
	if err != nil {
		return Written{}, err
	}
	wanted, err := desiredOf(untyped)
	if err != nil {
		return Written{}, err
	}
	present, err := c.Get(wanted.object.GVK(), wanted.object.Key())
	if err != nil || present != nil && wanted.heldBy(present) {
		return Written{present, Unchanged}, err
	}
	stored, err := c.Apply(wanted.next(present), Force)
	if err == nil && !wanted.heldBy(stored) {
		stored, err = c.Apply(wanted.noted(stored), Force)
	}
	switch {
	case err != nil:
		return Written{}, err
	case present == nil:
		return Written{stored, Created}, nil
	}
	return Written{stored, Updated}, nil
}

// CreateOrUpdate reads an object, or begins one with only its kind and key, and lets change change it in place. It writes the object
// only if that changed it. The error is conflict if another wrote it meanwhile.
func (c *Cluster) CreateOrUpdate(kind GroupVersionKind, key ObjectKey, change func(Object) error) (Written, error) {
	present, err := c.Get(kind, key)
	if err != nil {
		return Written{}, err
	}
	object := NewObject(kind, key)
	if present != nil {
		if object, err = copied(present); err != nil {
			return Written{}, err
		}
	}
	if err := change(object); err != nil {
		return Written{}, err
	}
	if present == nil {
		stored, err := c.Create(object)
		return Written{stored, Created}, err
	}
	after, err := copied(object)
	if err != nil || reflect.DeepEqual(present, after) {
		return Written{present, Unchanged}, err
	}
	stored, err := c.Update(object)
	return Written{stored, Updated}, err
}

// SetStatus gives the status these fields, of a map or of a struct; nil removes one. It reads the object and patches only what differs, at the version that was
// read: the error is conflict if another wrote it meanwhile.
func (c *Cluster) SetStatus(kind GroupVersionKind, key ObjectKey, status any) (Written, error) {
	present, err := c.Get(kind, key)
	if err != nil {
		return Written{}, err
	}
	return c.writeStatus(kind, key, present, status)
}

// writeStatus patches what differs from an object that was read.
func (c *Cluster) writeStatus(kind GroupVersionKind, key ObjectKey, present Object, status any) (Written, error) {
	wanted, err := copied(status)
	if err != nil {
		return Written{}, err
	}
	before, _ := present.At("status").(map[string]any)
	changed := difference(before, wanted)
	if present != nil && len(changed) == 0 {
		return Written{present, Unchanged}, nil
	}
	patch := map[string]any{"status": changed}
	if version := present.ResourceVersion(); version != "" {
		patch["metadata"] = map[string]any{"resourceVersion": version}
	}
	stored, err := c.Patch(kind, key, MergePatch(patch), Status)
	if IsNotFound(err) && present != nil {
		// A server answers the same for an object that is gone.
		if there, failed := c.Get(kind, key, Live); failed != nil || there != nil {
			return Written{}, cmp.Or(failed, refused(named(present)+": its kind has no subresource status, which its definition has to name"))
		}
	}
	return Written{stored, Updated}, err
}

// copied is a copy with the types that a value has when it is read.
func copied(value any) (Object, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, unfit("encode", "an object", err)
	}
	var object Object
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, unfit("decode", "an object", err)
	}
	return object, nil
}

// difference is the merge patch that gives present the fields of desired.
func difference(present, desired map[string]any) map[string]any {
	patch := map[string]any{}
	for name, value := range desired {
		before, wasMap := present[name].(map[string]any)
		if inner, isMap := value.(map[string]any); isMap && wasMap {
			if changed := difference(before, inner); len(changed) > 0 {
				patch[name] = changed
			}
		} else if !reflect.DeepEqual(present[name], value) {
			patch[name] = value
		}
	}
	return patch
}
