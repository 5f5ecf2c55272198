package windlass

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"reflect"
	"slices"
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

// applied is the annotation with the fingerprint of what was applied: by it a field is found that is no longer desired.
const applied = "windlass.dev/applied"

// Ensure is [Cluster.Apply] with [Force], only if something differs: a field that is not as desired, or one that was applied by
// Ensure before and is no longer desired. The annotation windlass.dev/applied has a fingerprint of what was applied.
func (c *Cluster) Ensure(object Object) (Written, error) {
	desired, err := stamped(object)
	if err != nil {
		return Written{}, err
	}
	present, err := c.Get(desired.GVK(), desired.Key())
	if err != nil || present != nil && covers(map[string]any(present), map[string]any(desired)) {
		return Written{present, Unchanged}, err
	}
	stored, err := c.Apply(desired, Force)
	switch {
	case err != nil:
		return Written{}, err
	case present == nil:
		return Written{stored, Created}, nil
	case present.ResourceVersion() == stored.ResourceVersion():
		return Written{stored, Unchanged}, nil
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

// SetStatus gives the status these fields; nil removes one. It reads the object and patches only what differs, at the version that was
// read: the error is conflict if another wrote it meanwhile.
func (c *Cluster) SetStatus(kind GroupVersionKind, key ObjectKey, status map[string]any) (Written, error) {
	present, err := c.Get(kind, key)
	if err != nil {
		return Written{}, err
	}
	return c.writeStatus(kind, key, present, status)
}

// writeStatus patches what differs from an object that was read.
func (c *Cluster) writeStatus(kind GroupVersionKind, key ObjectKey, present Object, status map[string]any) (Written, error) {
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
	return Written{stored, Updated}, err
}

// stamped is a copy of an object with the fingerprint of its fields.
func stamped(object Object) (Object, error) {
	desired, err := copied(object)
	if err != nil {
		return nil, err
	}
	desired.Set(fingerprint(map[string]any(desired)), "metadata", "annotations", applied)
	return desired, nil
}

// copied is a copy with the types that a value has when it is read.
func copied(value map[string]any) (Object, error) {
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

// covers reports whether an object has everything that is desired. The fingerprint is a field like another, so it was applied with
// the same fields.
func covers(present, desired any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		fields, ok := present.(map[string]any)
		for name, each := range desired {
			ok = ok && covers(fields[name], each)
		}
		return ok
	case []any:
		items, ok := present.([]any)
		ok = ok && len(items) == len(desired)
		for i := range desired {
			ok = ok && covers(items[i], desired[i])
		}
		return ok
	}
	return present == desired
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

// fingerprint is FNV-1a over a value, with sorted names: the same for equal values, in every language's SDK.
func fingerprint(value any) string {
	hash := fnv.New32a()
	walk(hash, value)
	return fmt.Sprintf("%08x", hash.Sum32())
}

func walk(into io.Writer, value any) {
	switch value := value.(type) {
	case nil:
		io.WriteString(into, "n")
	case bool:
		io.WriteString(into, fmt.Sprint(value)[:1])
	case string:
		io.WriteString(into, `"`+value+"\x00")
	case []any:
		io.WriteString(into, "[")
		for _, each := range value {
			walk(into, each)
		}
		io.WriteString(into, "]")
	case map[string]any:
		io.WriteString(into, "{")
		for _, name := range slices.Sorted(maps.Keys(value)) {
			walk(into, name)
			walk(into, value[name])
		}
		io.WriteString(into, "}")
	default: // a number
		fmt.Fprintf(into, "#%v;", value)
	}
}
