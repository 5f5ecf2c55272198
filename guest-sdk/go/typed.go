package windlass

import (
	"iter"
	"slices"
)

// Kinded is a type with a method that returns its kind: a struct with the fields that a guest needs.
//
//	type ConfigMap struct {
//		windlass.ObjectMeta `json:"metadata"`
//		Data map[string]string `json:"data,omitempty"`
//	}
//
//	func (ConfigMap) GVK() windlass.GroupVersionKind { return windlass.GVK("v1", "ConfigMap") }
//
// Writes add apiVersion and kind. An update of what was read keeps the fields that the struct does not have, if it embeds [ObjectMeta].
type Kinded interface {
	// GVK is the kind; called on the zero value too.
	GVK() GroupVersionKind
}

// ObjectMeta is `metadata` of an object: the fields that controllers use. Embed it with the tag `json:"metadata"`.
type ObjectMeta struct {
	// Name is unique in the namespace.
	Name string `json:"name,omitempty"`
	// Namespace is "" for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	// UID is unique in time and space; set by the API server.
	UID string `json:"uid,omitempty"`
	// ResourceVersion changes with every write; set by the API server.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Generation changes with the desired state; set by the API server.
	Generation int64 `json:"generation,omitempty"`
	// CreationTimestamp is RFC 3339; set by the API server.
	CreationTimestamp string `json:"creationTimestamp,omitempty"`
	// DeletionTimestamp is RFC 3339; set when the object is being deleted and finalizers hold it.
	DeletionTimestamp string `json:"deletionTimestamp,omitempty"`
	// Labels are for selection.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are for notes.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Finalizers must be removed before the object is deleted.
	Finalizers []string `json:"finalizers,omitempty"`
	// OwnerReferences are the owners of this object.
	OwnerReferences []OwnerReference `json:"ownerReferences,omitempty"`

	// The whole object, as it was read.
	read string
}

// OwnerReference refers to the owner of an object.
type OwnerReference struct {
	// APIVersion of the owner.
	APIVersion string `json:"apiVersion"`
	// Kind of the owner.
	Kind string `json:"kind"`
	// Name of the owner.
	Name string `json:"name"`
	// UID of the owner.
	UID string `json:"uid"`
	// Controller: the owner manages the object.
	Controller bool `json:"controller,omitempty"`
	// BlockOwnerDeletion: a foreground deletion of the owner waits for the object.
	BlockOwnerDeletion bool `json:"blockOwnerDeletion,omitempty"`
}

// Key is the namespace and name.
func (m *ObjectMeta) Key() ObjectKey { return ObjectKey{Namespace: m.Namespace, Name: m.Name} }

// Deleting reports whether the object is being deleted and finalizers hold it.
func (m *ObjectMeta) Deleting() bool { return m.DeletionTimestamp != "" }

// Controller is the owner that manages the object; nil where there is none.
func (m *ObjectMeta) Controller() *OwnerReference {
	for i := range m.OwnerReferences {
		if m.OwnerReferences[i].Controller {
			return &m.OwnerReferences[i]
		}
	}
	return nil
}

// SetController makes owner the controller of the object and keeps its other owners. The object is deleted after owner, and an
// event on the object enqueues owner. If the object has another controller, the error is conflict.
// The error is invalid for an owner in another namespace.
func (m *ObjectMeta) SetController(owner Identified) error {
	if err := inReach(owner, "object", m.Key()); err != nil {
		return err
	}
	reference := controllerReference(owner)
	if err := takenBy(m.Controller(), reference, "object", m.Key()); err != nil {
		return err
	}
	for i := range m.OwnerReferences {
		if m.OwnerReferences[i].UID == reference.UID {
			m.OwnerReferences[i] = reference
			return nil
		}
	}
	m.OwnerReferences = append(m.OwnerReferences, reference)
	return nil
}

// SetOwner adds owner to the owners of the object, unless it is one. The object is deleted after its last owner.
// The error is invalid for an owner in another namespace, which the garbage collector would take for one that is gone.
func (m *ObjectMeta) SetOwner(owner Identified) error {
	if err := inReach(owner, "object", m.Key()); err != nil {
		return err
	}
	reference := ownerReference(owner)
	for _, there := range m.OwnerReferences {
		if there.UID == reference.UID {
			return nil
		}
	}
	m.OwnerReferences = append(m.OwnerReferences, reference)
	return nil
}

// ControllerReference is the owner reference that makes an object of this kind and metadata the controller of another one.
func (m *ObjectMeta) ControllerReference(kind GroupVersionKind) OwnerReference {
	reference := m.OwnerReference(kind)
	reference.Controller, reference.BlockOwnerDeletion = true, true
	return reference
}

// OwnerReference is the owner reference that makes an object of this kind and metadata an owner of another one, which it does not manage.
func (m *ObjectMeta) OwnerReference(kind GroupVersionKind) OwnerReference {
	return OwnerReference{APIVersion: kind.APIVersion(), Kind: kind.Kind, Name: m.Name, UID: m.UID}
}

// HasFinalizer reports whether the object has this finalizer.
func (m *ObjectMeta) HasFinalizer(finalizer string) bool {
	return slices.Contains(m.Finalizers, finalizer)
}

func (m *ObjectMeta) uid() string { return m.UID }

// As is an object as a struct.
func As[T Kinded](object Object) (*T, error) {
	kind, text, err := encode(object)
	if err != nil {
		return nil, err
	}
	return decode[T](kind, text)
}

// objectOf is an object of any type without its type.
func objectOf(of Identified) (Object, error) {
	if object, is := of.(Object); is {
		return object, nil
	}
	kind, text, err := encode(of)
	if err != nil {
		return nil, err
	}
	return decodeObject(kind, text)
}

// Get reads an object into a struct; nil if there is none.
func Get[T Kinded](cluster *Cluster, key ObjectKey, options ...GetOption) (*T, error) {
	kind := kindOf[T]()
	text, found, err := cluster.backend.Get(kind, key, getOptions(options))
	if err != nil || !found {
		return nil, err
	}
	return decode[T](kind, text)
}

// ListAll iterates over every selected object. It reads a page only when it is needed, and ends after an error.
func ListAll[T Kinded](cluster *Cluster, options ...ListOption) iter.Seq2[*T, error] {
	return pages(cluster, kindOf[T](), options, decode[T])
}

// Create creates an object and returns it as stored. An object of its name is the error already-exists.
func Create[T Kinded](cluster *Cluster, object *T, options ...WriteOption) (*T, error) {
	return write(*object, writeOptions(options), cluster.backend.Create)
}

// Update replaces an object and returns it as stored; with a resource version only if that is still its version, else the error
// is conflict.
func Update[T Kinded](cluster *Cluster, object *T, options ...WriteOption) (*T, error) {
	update := func(kind GroupVersionKind, text string, options WriteOptions) (string, error) {
		whole, err := withUnknown(object, text)
		if err != nil {
			return "", err
		}
		return cluster.backend.Update(kind, whole, options)
	}
	return write(*object, writeOptions(options), update)
}

// Apply creates or changes an object so that it has these fields (server-side apply), and returns it as stored. A field of
// another manager is the error conflict, unless [Force] takes it over.
func Apply[T Kinded](cluster *Cluster, object *T, options ...ApplyOption) (*T, error) {
	return write(*object, applyOptions(options), cluster.backend.Apply)
}

// PatchAs patches an object and returns it as stored, as [Cluster.Patch].
func PatchAs[T Kinded](cluster *Cluster, key ObjectKey, patch Patch, options ...WriteOption) (*T, error) {
	kind := kindOf[T]()
	text, err := cluster.patch(kind, key, patch, options)
	if err != nil {
		return nil, err
	}
	return decode[T](kind, text)
}

func kindOf[T Kinded]() GroupVersionKind {
	var zero T
	return zero.GVK()
}

func decode[T any](kind GroupVersionKind, text string) (*T, error) {
	into := new(T)
	if err := decodeInto(kind, text, into); err != nil {
		return nil, err
	}
	if into, is := any(into).(kept); is {
		into.keep(text)
	}
	return into, nil
}

func write[T Kinded, O any](object T, options O, call func(GroupVersionKind, string, O) (string, error)) (*T, error) {
	kind, text, err := encode(object)
	if err != nil {
		return nil, err
	}
	if text, err = call(kind, text, options); err != nil {
		return nil, err
	}
	return decode[T](kind, text)
}
