//go:build !wasip1

package windlasstest

import (
	"fmt"
	"maps"
	"slices"

	"windlass.dev/windlass"
)

// withMetadata is an object whose metadata can be changed without a change of the one that it was made from.
func withMetadata(object windlass.Object) windlass.Object {
	next := maps.Clone(object)
	metadata, _ := next["metadata"].(map[string]any)
	next["metadata"] = maps.Clone(metadata)
	return next
}

// deletedAs is an object with the time of deletion of the stored one: only a server sets it.
func deletedAs(stored, object windlass.Object) windlass.Object {
	next := withMetadata(object)
	metadata := next["metadata"].(map[string]any)
	delete(metadata, "deletionTimestamp")
	if isDeleting(stored) {
		metadata["deletionTimestamp"] = stored.At("metadata", "deletionTimestamp")
	}
	return next
}

// given is a field of the metadata that a write names; nil if it names none, or an empty one.
func given(object windlass.Object, field string) any {
	value := object.At("metadata", field)
	if value == any("") {
		return nil
	}
	return value
}

// checkMeant refuses a write of another object, or of another version, than the stored one. There may be none.
func checkMeant(kind windlass.GroupVersionKind, stored, object windlass.Object) error {
	uid, version := given(object, "uid"), given(object, "resourceVersion")
	if uid != nil && uid != stored.At("metadata", "uid") {
		return Error(windlass.CodeConflict, fmt.Sprintf("%v %v is not the object with the uid %v", kind, object.Key(), uid))
	}
	if version != nil && stored != nil && version != stored.At("metadata", "resourceVersion") {
		return Error(windlass.CodeConflict, fmt.Sprintf("%v %v has changed: read it again", kind, object.Key()))
	}
	return nil
}

// combined is the stored object with one part replaced: its status, or the rest. There may be none.
func combined(stored, given windlass.Object, status bool) windlass.Object {
	next, source := maps.Clone(given), stored
	if status {
		next, source = maps.Clone(stored), given
	}
	delete(next, "status")
	if value := source["status"]; value != nil {
		next["status"] = value
	}
	return next
}

// desired is the part whose changes metadata.generation counts.
func desired(object windlass.Object) windlass.Object {
	fields := maps.Clone(object)
	delete(fields, "metadata")
	delete(fields, "status")
	return fields
}

func isDeleting(object windlass.Object) bool {
	return object.At("metadata", "deletionTimestamp") != nil
}

func finalizers(object windlass.Object) []any {
	finalizers, _ := object.At("metadata", "finalizers").([]any)
	return finalizers
}

func hasFinalizers(object windlass.Object) bool { return len(finalizers(object)) > 0 }

func addsFinalizer(stored, object windlass.Object) bool {
	return slices.ContainsFunc(finalizers(object), func(name any) bool { return !slices.Contains(finalizers(stored), name) })
}
