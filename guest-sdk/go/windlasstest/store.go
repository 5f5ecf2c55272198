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

// part is an object, or its status.
type part struct {
	of     identity
	status bool
}

// store has the objects of a cluster. It never changes an object in place, so that objects may share what they have in common.
type store struct {
	objects map[identity]windlass.Object
	// applied has what the guest applied last: fields that it no longer applies are removed.
	applied map[part]windlass.Object
	// version grows with every change of any object.
	version int
}

func newStore() *store {
	return &store{objects: map[identity]windlass.Object{}, applied: map[part]windlass.Object{}}
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
	if given(object, "resourceVersion") != nil {
		return nil, invalid("metadata.resourceVersion must not be set on objects to be created")
	}
	next := combined(nil, withMetadata(object), false)
	delete(next["metadata"].(map[string]any), "uid")
	return s.saveUnless(dry, identity, next)
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
	if err := checkMeant(kind, stored, object); err != nil {
		return nil, err
	}
	return s.saveUnless(dry, identity, combined(stored, object, status))
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
	stored, exists := s.objects[identity]
	if !exists && status {
		return nil, notFound(kind, object.Key())
	}
	if err := checkMeant(kind, stored, object); err != nil {
		return nil, err
	}
	of, next := part{identity, status}, object
	if exists {
		next = appliedFields(stored, s.applied[of], object)
	}
	saved, err := s.saveUnless(dry, identity, combined(stored, next, status))
	if _, exists := s.objects[identity]; exists && err == nil && !dry {
		s.applied[of] = object
	}
	return saved, err
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

// remove deletes an object, or marks it for deletion if finalizers hold it. Then it deletes what has no other owner.
func (s *store) remove(identity identity) {
	object, exists := s.objects[identity]
	switch {
	case !exists:
	case !hasFinalizers(object):
		delete(s.objects, identity)
		delete(s.applied, part{identity, false})
		delete(s.applied, part{identity, true})
		s.version++
		s.collect(object.UID())
	case !isDeleting(object):
		next := withMetadata(object)
		next.Set(stamp, "metadata", "deletionTimestamp")
		s.save(identity, next)
	}
}

// collect takes an owner that is gone out of all objects, and deletes those that it was the last one of.
func (s *store) collect(uid string) {
	for _, each := range s.sorted() {
		owners, _ := s.objects[each].At("metadata", "ownerReferences").([]any)
		others := slices.DeleteFunc(slices.Clone(owners), func(owner any) bool {
			fields, _ := owner.(map[string]any)
			return fields["uid"] == any(uid)
		})
		if len(others) == len(owners) {
			continue
		}
		next := withMetadata(s.objects[each])
		if len(others) > 0 {
			next.Set(others, "metadata", "ownerReferences")
			s.save(each, next)
			continue
		}
		delete(next["metadata"].(map[string]any), "ownerReferences")
		s.save(each, next)
		s.remove(each)
	}
}

// saveUnless ends a write of a guest.
func (s *store) saveUnless(dry bool, identity identity, object windlass.Object) (windlass.Object, error) {
	stored := s.objects[identity]
	next := deletedAs(stored, object)
	if isDeleting(stored) && addsFinalizer(stored, next) {
		return nil, invalid("metadata.finalizers: no new finalizers can be added if the object is being deleted")
	}
	if dry {
		return next, nil
	}
	return s.save(identity, next), nil
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
		if !reflect.DeepEqual(desired(stored), desired(next)) || isDeleting(next) && !isDeleting(stored) {
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
	if isDeleting(next) && !hasFinalizers(next) {
		s.remove(identity)
	}
	return next
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
