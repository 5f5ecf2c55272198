package windlass

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Object is a Kubernetes object as decoded JSON: maps, slices, strings, booleans, int64, and float64 for other numbers. A nil
// Object means that the object is absent.
type Object map[string]any

// NewObject is an object with only its kind and key.
func NewObject(kind GroupVersionKind, key ObjectKey) Object {
	metadata := map[string]any{"name": key.Name}
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	return Object{"apiVersion": kind.APIVersion(), "kind": kind.Kind, "metadata": metadata}
}

// GVK is the object's kind.
func (o Object) GVK() GroupVersionKind { return GVK(o.String("apiVersion"), o.String("kind")) }

// Key is the object's namespace and name.
func (o Object) Key() ObjectKey {
	return ObjectKey{Namespace: o.String("metadata", "namespace"), Name: o.String("metadata", "name")}
}

// UID is unique in time and space; set by the API server.
func (o Object) UID() string { return o.String("metadata", "uid") }

// ResourceVersion changes with every write; set by the API server.
func (o Object) ResourceVersion() string { return o.String("metadata", "resourceVersion") }

// Label is the value of a label; "" where there is none.
func (o Object) Label(name string) string { return o.String("metadata", "labels", name) }

// Annotation is the value of an annotation; "" where there is none.
func (o Object) Annotation(name string) string { return o.String("metadata", "annotations", name) }

// Deleting reports whether the object is being deleted and finalizers hold it.
func (o Object) Deleting() bool { return o.String("metadata", "deletionTimestamp") != "" }

// At is the value under these names; nil where there is none.
func (o Object) At(path ...string) any {
	var value any = map[string]any(o)
	for _, name := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[name]
	}
	return value
}

// String is the text under these names; "" where there is none.
func (o Object) String(path ...string) string {
	text, _ := o.At(path...).(string)
	return text
}

// Int is the whole number under these names; 0 where there is none.
func (o Object) Int(path ...string) int64 {
	number, _ := o.At(path...).(int64)
	return number
}

// Set stores a value under these names, and makes the missing maps on the path.
func (o Object) Set(value any, path ...string) {
	fields := map[string]any(o)
	for _, name := range path[:len(path)-1] {
		next, ok := fields[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			fields[name] = next
		}
		fields = next
	}
	fields[path[len(path)-1]] = value
}

// Controller is the owner that manages the object; nil where there is none.
func (o Object) Controller() *OwnerReference {
	references, _ := o.At("metadata", "ownerReferences").([]any)
	for _, reference := range references {
		fields, _ := reference.(map[string]any)
		if fields["controller"] != true {
			continue
		}
		owner := Object(fields)
		blocks, _ := fields["blockOwnerDeletion"].(bool)
		return &OwnerReference{
			APIVersion: owner.String("apiVersion"), Kind: owner.String("kind"), Name: owner.String("name"), UID: owner.String("uid"),
			Controller: true, BlockOwnerDeletion: blocks,
		}
	}
	return nil
}

// SetController makes owner the controller of the object and keeps its other owners. The object is deleted after owner, and an
// event on the object enqueues owner. If the object has another controller, the error is conflict.
// The error is invalid for an owner in another namespace.
func (o Object) SetController(owner Identified) error {
	if err := inReach(owner, o.GVK().Kind, o.Key()); err != nil {
		return err
	}
	reference := controllerReference(owner)
	if err := takenBy(o.Controller(), reference, o.GVK().Kind, o.Key()); err != nil {
		return err
	}
	fields := map[string]any{
		"apiVersion": reference.APIVersion, "kind": reference.Kind, "name": reference.Name, "uid": reference.UID,
		"controller": true, "blockOwnerDeletion": true,
	}
	references, _ := o.At("metadata", "ownerReferences").([]any)
	for i, there := range references {
		if before, _ := there.(map[string]any); before["uid"] == reference.UID {
			references[i] = fields
			return nil
		}
	}
	o.Set(append(references, fields), "metadata", "ownerReferences")
	return nil
}

// inReach is the error for an owner in another namespace: the garbage collector looks for an owner in the namespace of what it owns.
func inReach(owner Identified, kind string, key ObjectKey) error {
	by := owner.Key()
	if by.Namespace == "" || by.Namespace == key.Namespace {
		return nil
	}
	of := owner.GVK().Kind
	return refused(fmt.Sprintf("%s %v cannot be owned by %s %v: an owner is of the same namespace, or of none", kind, key, of, by))
}

// takenBy is the error if the object has another controller.
func takenBy(controller *OwnerReference, owner OwnerReference, kind string, key ObjectKey) error {
	if controller == nil || controller.UID == owner.UID {
		return nil
	}
	return failing(&APIError{
		Code: CodeConflict, Reason: "AlreadyOwned",
		Message: fmt.Sprintf("%s %v has a controller already: %s %s", kind, key, controller.Kind, controller.Name),
	})
}

// OwnerReference is the owner reference that makes this object an owner of another one, which it does not manage.
func (o Object) OwnerReference() OwnerReference { return ownerReference(o) }

// SetOwner adds owner to the owners of the object, unless it is one. The object is deleted after its last owner.
// The error is invalid for an owner in another namespace, which the garbage collector would take for one that is gone.
func (o Object) SetOwner(owner Identified) error {
	reference := ownerReference(owner)
	if err := inReach(owner, o.GVK().Kind, o.Key()); err != nil || o.isOwnedBy(reference.UID) {
		return err
	}
	references, _ := o.At("metadata", "ownerReferences").([]any)
	fields := map[string]any{"apiVersion": reference.APIVersion, "kind": reference.Kind, "name": reference.Name, "uid": reference.UID}
	o.Set(append(references, fields), "metadata", "ownerReferences")
	return nil
}

func (o Object) isOwnedBy(uid string) bool {
	references, _ := o.At("metadata", "ownerReferences").([]any)
	for _, reference := range references {
		if fields, _ := reference.(map[string]any); fields["uid"] == uid {
			return true
		}
	}
	return false
}

// ControllerReference is the owner reference that makes this object the controller of another one.
func (o Object) ControllerReference() OwnerReference { return controllerReference(o) }

func (o Object) uid() string { return o.UID() }

func ownerReference(of Identified) OwnerReference {
	kind := of.GVK()
	reference := OwnerReference{APIVersion: kind.APIVersion(), Kind: kind.Kind, Name: of.Key().Name}
	if read, is := of.(interface{ uid() string }); is {
		reference.UID = read.uid()
	}
	return reference
}

func controllerReference(of Identified) OwnerReference {
	reference := ownerReference(of)
	reference.Controller, reference.BlockOwnerDeletion = true, true
	return reference
}

// UnmarshalJSON reads whole numbers as int64, so that they are written as they were read.
func (o *Object) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return err
	}
	for name, value := range fields {
		fields[name] = plain(value)
	}
	*o = fields
	return nil
}

// plain replaces JSON numbers by int64 or float64, in place.
func plain(value any) any {
	switch value := value.(type) {
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		number, err := value.Float64()
		if err != nil {
			return value
		}
		return number
	case map[string]any:
		for name, field := range value {
			value[name] = plain(field)
		}
	case []any:
		for i, element := range value {
			value[i] = plain(element)
		}
	}
	return value
}

// decodeObject reads an object that the host returned.
func decodeObject(kind GroupVersionKind, text string) (Object, error) {
	var object Object
	err := decodeInto(kind, text, &object)
	return object, err
}

func decodeObjects(kind GroupVersionKind, texts []string) ([]Object, error) {
	objects := make([]Object, len(texts))
	for i, text := range texts {
		var err error
		if objects[i], err = decodeObject(kind, text); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func decodeInto(kind GroupVersionKind, text string, into any) error {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return unfit("decode", namedIn(kind, text), inField(err))
	}
	return nil
}

// namedIn is a kind, with the name of an object that does not fit.
func namedIn(kind GroupVersionKind, text string) string {
	var object Object
	if json.Unmarshal([]byte(text), &object) != nil || object.Key().Name == "" {
		return kind.String()
	}
	return fmt.Sprintf("%v %v", kind, object.Key())
}

// inField is an error in the words of JSON, with the path of the field that does not fit.
func inField(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: expected %v, found %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return err
}

// encode writes an object with its apiVersion and kind, and returns its kind.
func encode(object Kinded) (GroupVersionKind, string, error) {
	kind := object.GVK()
	if kind.Version == "" || kind.Kind == "" {
		return kind, "", unfit("encode", "an object", errors.New("it has no apiVersion or no kind"))
	}
	text, err := json.Marshal(object)
	if err != nil {
		return kind, "", unfit("encode", kind, err)
	}
	if _, whole := object.(Object); whole {
		return kind, string(text), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return kind, "", unfit("encode", kind, errors.Join(errors.New("it is no object"), err))
	}
	named := true
	for name, word := range map[string]string{"apiVersion": kind.APIVersion(), "kind": kind.Kind} {
		if given := string(fields[name]); given != "" && given != `""` {
			continue
		}
		named = false
		if fields[name], err = json.Marshal(word); err != nil {
			return kind, "", unfit("encode", kind, err)
		}
	}
	if named {
		return kind, string(text), nil
	}
	if text, err = json.Marshal(fields); err != nil {
		return kind, "", unfit("encode", kind, err)
	}
	return kind, string(text), nil
}
