//go:build !wasip1

package windlasstest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"windlass.dev/windlass"
)

// stamp is the time of every creation and deletion, so that what a test reads does not depend on when it runs.
const stamp = "2026-01-01T00:00:00Z"

// identity is what names an object, without the version: an object can be read in several versions.
type identity struct{ group, kind, namespace, name string }

func identityOf(kind windlass.GroupVersionKind, key windlass.ObjectKey) identity {
	return identity{kind.Group, kind.Kind, key.Namespace, key.Name}
}

func compared(one, other identity) int {
	return cmp.Or(
		strings.Compare(one.group, other.group), strings.Compare(one.kind, other.kind),
		strings.Compare(one.namespace, other.namespace), strings.Compare(one.name, other.name),
	)
}

// store has the objects of a cluster. It never changes an object in place, so that objects may share what they have in common.
type store struct {
	objects map[identity]windlass.Object
	// applied has what the guest applied last: fields that it no longer applies are removed.
	applied map[identity]windlass.Object
	// version grows with every change of any object.
	version int
}

func newStore() *store {
	return &store{objects: map[identity]windlass.Object{}, applied: map[identity]windlass.Object{}}
}

// sorted are the identities by kind, namespace and name.
func (s *store) sorted() []identity {
	return slices.SortedFunc(maps.Keys(s.objects), compared)
}

// put stores an object of the test, without preconditions.
func (s *store) put(object windlass.Object) {
	identity := identityOf(object.GVK(), object.Key())
	if stored, ok := s.objects[identity]; ok {
		next := maps.Clone(stored)
		for name, value := range object {
			if name == "metadata" {
				value = merged(stored[name], value)
			}
			next[name] = value
		}
		object = deletedAs(stored, next)
	}
	s.save(identity, object)
}

func (s *store) create(kind windlass.GroupVersionKind, object windlass.Object, dry bool) (windlass.Object, error) {
	identity, err := named(kind, object)
	if err != nil {
		return nil, err
	}
	if _, exists := s.objects[identity]; exists {
		return nil, Error(windlass.CodeAlreadyExists, fmt.Sprintf("%v %v already exists", kind, object.Key()))
	}
	if versionOf(object) != nil {
		return nil, invalid("metadata.resourceVersion must not be set on objects to be created")
	}
	next := withMetadata(object)
	delete(next["metadata"].(map[string]any), "uid")
	return s.saveUnless(dry, identity, next), nil
}

// update replaces the main part or the status; the other stays as it is stored.
func (s *store) update(kind windlass.GroupVersionKind, object windlass.Object, status, dry bool) (windlass.Object, error) {
	identity, err := named(kind, object)
	if err != nil {
		return nil, err
	}
	stored, exists := s.objects[identity]
	if !exists {
		return nil, notFound(kind, object.Key())
	}
	given := versionOf(object)
	if given != nil && given != any(stored.ResourceVersion()) {
		message := fmt.Sprintf("%v %v has changed: read it again", kind, object.Key())
		return nil, Error(windlass.CodeConflict, message)
	}
	next := combined(stored, object, status)
	if status && object["status"] == nil {
		delete(next, "status") // it is replaced whole
	}
	return s.saveUnless(dry, identity, next), nil
}

func (s *store) patch(
	kind windlass.GroupVersionKind, key windlass.ObjectKey, patch windlass.Object, status, dry bool,
) (windlass.Object, error) {
	stored, exists := s.objects[identityOf(kind, key)]
	if !exists {
		return nil, notFound(kind, key)
	}
	next := merged(map[string]any(stored), map[string]any(patch)).(map[string]any)
	return s.update(kind, next, status, dry)
}

func (s *store) apply(kind windlass.GroupVersionKind, object windlass.Object, status, dry bool) (windlass.Object, error) {
	identity, err := named(kind, object)
	if err != nil {
		return nil, err
	}
	next := object
	if stored, exists := s.objects[identity]; exists {
		before := map[string]any(s.applied[identity])
		next = combined(stored, appliedFields(stored, before, object), status)
	} else if status {
		return nil, notFound(kind, object.Key())
	}
	if !dry {
		s.applied[identity] = object
	}
	return s.saveUnless(dry, identity, next), nil
}

func (s *store) delete(kind windlass.GroupVersionKind, key windlass.ObjectKey, options windlass.DeleteOptions) error {
	stored, exists := s.objects[identityOf(kind, key)]
	if !exists {
		return notFound(kind, key)
	}
	if options.UID != "" && options.UID != stored.UID() ||
		options.ResourceVersion != "" && options.ResourceVersion != stored.ResourceVersion() {
		message := fmt.Sprintf("%v %v is not the object that the precondition names", kind, key)
		return Error(windlass.CodeConflict, message)
	}
	if !options.DryRun {
		s.remove(identityOf(kind, key))
	}
	return nil
}

// remove deletes an object, or marks it for deletion if finalizers hold it. Then it deletes what the object alone owned.
func (s *store) remove(identity identity) {
	object, exists := s.objects[identity]
	switch {
	case !exists:
	case !hasFinalizers(object):
		delete(s.objects, identity)
		delete(s.applied, identity)
		s.version++
		s.collect(object.UID())
	case object.At("metadata", "deletionTimestamp") == nil:
		next := withMetadata(object)
		next.Set(stamp, "metadata", "deletionTimestamp")
		s.save(identity, next)
	}
}

// collect deletes the objects whose last owner had this uid.
func (s *store) collect(uid string) {
	for _, each := range s.sorted() {
		owners, _ := s.objects[each].At("metadata", "ownerReferences").([]any)
		other := func(owner any) bool {
			fields, _ := owner.(map[string]any)
			return fields["uid"] != any(uid)
		}
		if len(owners) > 0 && !slices.ContainsFunc(owners, other) {
			s.remove(each)
		}
	}
}

// saveUnless ends a write of a guest.
func (s *store) saveUnless(dry bool, identity identity, object windlass.Object) windlass.Object {
	next := deletedAs(s.objects[identity], object)
	if dry {
		return next
	}
	return s.save(identity, next)
}

// save stores an object with the metadata that a server sets. An unchanged object keeps its version.
func (s *store) save(identity identity, object windlass.Object) windlass.Object {
	next := withMetadata(object)
	metadata := next["metadata"].(map[string]any)
	stored, exists := s.objects[identity]
	if exists {
		for _, name := range []string{"uid", "creationTimestamp", "resourceVersion"} {
			metadata[name] = stored.At("metadata", name)
		}
		generation := stored.Int("metadata", "generation")
		if !reflect.DeepEqual(desired(stored), desired(next)) {
			generation++
		}
		metadata["generation"] = generation
	} else {
		if _, given := metadata["uid"].(string); !given {
			metadata["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", s.version+1)
		}
		metadata["creationTimestamp"] = stamp
		metadata["generation"] = int64(1)
	}
	if exists && reflect.DeepEqual(stored, next) {
		return next
	}
	s.version++
	metadata["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[identity] = next
	if metadata["deletionTimestamp"] != nil && !hasFinalizers(next) {
		s.remove(identity)
	}
	return next
}

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
	if at := stored.At("metadata", "deletionTimestamp"); at != nil {
		metadata["deletionTimestamp"] = at
	}
	return next
}

// versionOf is the version that a write names; nil if it names none, or an empty one.
func versionOf(object windlass.Object) any {
	version := object.At("metadata", "resourceVersion")
	if version == any("") {
		return nil
	}
	return version
}

// combined is the stored object with one part replaced.
func combined(stored, given windlass.Object, status bool) windlass.Object {
	next, source := maps.Clone(given), stored
	if status {
		next, source = maps.Clone(stored), given
	}
	// An object that is stored without a status has none to protect: which kinds have the subresource is not known here.
	if value, has := source["status"]; has {
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

func hasFinalizers(object windlass.Object) bool {
	finalizers, _ := object.At("metadata", "finalizers").([]any)
	return len(finalizers) > 0
}

// named is the identity of an object to write.
func named(kind windlass.GroupVersionKind, object windlass.Object) (identity, error) {
	if object.Key().Name == "" {
		return identity{}, invalid("metadata.name is required")
	}
	return identityOf(kind, object.Key()), nil
}

func notFound(kind windlass.GroupVersionKind, key windlass.ObjectKey) error {
	return Error(windlass.CodeNotFound, fmt.Sprintf("%v %v not found", kind, key))
}
