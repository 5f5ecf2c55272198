package windlass

import (
	"fmt"
	"slices"
)

// Finalizers are the finalizers that must be removed before the object is deleted.
func (o Object) Finalizers() []string {
	listed, _ := o.At("metadata", "finalizers").([]any)
	var finalizers []string
	for _, each := range listed {
		if name, ok := each.(string); ok {
			finalizers = append(finalizers, name)
		}
	}
	return finalizers
}

// HasFinalizer reports whether the object has this finalizer.
func (o Object) HasFinalizer(finalizer string) bool {
	return slices.Contains(o.Finalizers(), finalizer)
}

// EnsureFinalizer adds a finalizer to an object that was read, unless it has it or is being deleted. The error is conflict if the
// object has changed.
func (c *Cluster) EnsureFinalizer(object Identified, finalizer string) (Written, error) {
	read, err := objectOf(object)
	if err != nil {
		return Written{}, err
	}
	if read.Deleting() || read.HasFinalizer(finalizer) {
		return Written{read, Unchanged}, nil
	}
	return c.writeFinalizers(read, append(read.Finalizers(), finalizer))
}

// RemoveFinalizer removes a finalizer from an object that was read, if it has it. The error is conflict if the object has changed.
func (c *Cluster) RemoveFinalizer(object Identified, finalizer string) (Written, error) {
	read, err := objectOf(object)
	if err != nil {
		return Written{}, err
	}
	if !read.HasFinalizer(finalizer) {
		return Written{read, Unchanged}, nil
	}
	others := slices.DeleteFunc(read.Finalizers(), func(each string) bool { return each == finalizer })
	written, err := c.writeFinalizers(read, others)
	if IsNotFound(err) {
		return Written{read, Unchanged}, nil
	}
	return written, err
}

// writeFinalizers writes the list to the version that was read, so that no finalizer of another is lost.
func (c *Cluster) writeFinalizers(object Object, finalizers []string) (Written, error) {
	version := object.ResourceVersion()
	if version == "" {
		return Written{}, refused(named(object) + " has no resourceVersion: take an object that was read from a cluster")
	}
	metadata := map[string]any{"resourceVersion": version, "finalizers": finalizers}
	stored, err := c.Patch(object.GVK(), object.Key(), MergePatch(map[string]any{"metadata": metadata}))
	return Written{stored, Updated}, err
}

// named is kind, namespace and name, for people.
func named(object Object) string { return fmt.Sprintf("%s %v", object.GVK().Kind, object.Key()) }
