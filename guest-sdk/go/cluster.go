package windlass

import (
	"encoding/json"
	"iter"
)

// Cluster is one cluster's API, within the grants of the operator. It is valid until the call that received it ends.
//
// Reads come from the host's cache, or from the API server if the cache cannot answer, so nil always means absent.
// A call that no rule grants fails with the error denied; the message contains the missing rule.
type Cluster struct{ backend Backend }

// Name is the cluster's name; "" is the local cluster.
func (c *Cluster) Name() string { return c.backend.Name() }

// Get reads an object; nil if there is none.
func (c *Cluster) Get(kind GroupVersionKind, key ObjectKey, options ...GetOption) (Object, error) {
	text, found, err := c.backend.Get(kind, key, getOptions(options))
	if err != nil || !found {
		return nil, err
	}
	return decodeObject(kind, text)
}

// List reads one page of objects. [Cluster.ListAll] reads all of them.
func (c *Cluster) List(kind GroupVersionKind, options ...ListOption) (*Page[Object], error) {
	page, err := c.backend.List(kind, listOptions(options))
	if err != nil {
		return nil, err
	}
	objects, err := decodeObjects(kind, page.Items)
	return &Page[Object]{Items: objects, Continue: page.Continue, ResourceVersion: page.ResourceVersion}, err
}

// ListAll iterates over every selected object. It reads a page only when it is needed, and ends after an error.
func (c *Cluster) ListAll(kind GroupVersionKind, options ...ListOption) iter.Seq2[Object, error] {
	return pages(c, kind, options, decodeObject)
}

// Create creates an object and returns it as stored. An object of its name is the error already-exists.
func (c *Cluster) Create(object Object, options ...WriteOption) (Object, error) {
	return writeObject(object, writeOptions(options), c.backend.Create)
}

// Update replaces an object and returns it as stored; with a resource version only if that is still its version, else the error
// is conflict.
func (c *Cluster) Update(object Object, options ...WriteOption) (Object, error) {
	return writeObject(object, writeOptions(options), c.backend.Update)
}

// Apply creates or changes an object so that it has these fields, and drops those that this reconciler applied before and are no
// longer there (server-side apply). It returns the object as stored. A field of another manager is the error conflict, unless
// [Force] takes it over.
func (c *Cluster) Apply(object Object, options ...ApplyOption) (Object, error) {
	return writeObject(object, applyOptions(options), c.backend.Apply)
}

// Patch patches an object and returns it as stored.
func (c *Cluster) Patch(kind GroupVersionKind, key ObjectKey, patch Patch, options ...WriteOption) (Object, error) {
	text, err := c.patch(kind, key, patch, options)
	if err != nil {
		return nil, err
	}
	return decodeObject(kind, text)
}

func (c *Cluster) patch(kind GroupVersionKind, key ObjectKey, patch Patch, options []WriteOption) (string, error) {
	text, err := patch.encode()
	if err != nil {
		return "", err
	}
	return c.backend.Patch(kind, key, patch.Type, text, writeOptions(options))
}

// Delete deletes an object. An absent one is the error not-found: see [IgnoreNotFound].
func (c *Cluster) Delete(kind GroupVersionKind, key ObjectKey, options ...DeleteOption) error {
	return c.backend.Delete(kind, key, deleteOptions(options))
}

// DeleteCollection deletes every selected object of a kind.
func (c *Cluster) DeleteCollection(kind GroupVersionKind, selection Selection, options ...DeleteOption) error {
	return c.backend.DeleteCollection(kind, selection, deleteOptions(options))
}

// Event records an event about an object, for people: shown by `kubectl describe` and `kubectl get events`. The reason is one CamelCase word.
// It needs no rule, is recorded in the background, and never fails a reconcile.
func (c *Cluster) Event(about Identified, reason, note string) {
	c.RecordEvent(Event{Kind: about.GVK(), Key: about.Key(), Reason: reason, Note: note})
}

// Warn is [Cluster.Event] with the type Warning.
func (c *Cluster) Warn(about Identified, reason, note string) {
	c.RecordEvent(Event{Kind: about.GVK(), Key: about.Key(), Warning: true, Reason: reason, Note: note})
}

// RecordEvent is [Cluster.Event] with all fields of an event.
func (c *Cluster) RecordEvent(event Event) {
	if event.Action == "" {
		event.Action = "Reconcile"
	}
	c.backend.RecordEvent(event)
}

// Batch runs the operations concurrently in the host; the replies are in the same order.
func (c *Cluster) Batch(operations ...Operation) []Reply {
	return runBatch(operations, c.backend.Batch)
}

// Identified is a value that has an object's kind and key: an [Object], or a pointer to a [Kinded] struct.
type Identified interface {
	Kinded
	// Key is the namespace and name.
	Key() ObjectKey
}

// Patch is a change of an object. Made by [MergePatch], [JSONPatch] and [StrategicPatch].
type Patch struct {
	// Type is the format.
	Type PatchType
	// Body is anything that marshals to the patch; a [json.RawMessage] is the patch.
	Body any
}

// MergePatch merges a partial object (RFC 7386); null removes.
func MergePatch(partial any) Patch { return Patch{Type: MergePatchType, Body: partial} }

// StrategicPatch is a [MergePatch] that merges lists by their keys. Not for custom resources.
func StrategicPatch(partial any) Patch { return Patch{Type: StrategicPatchType, Body: partial} }

// JSONPatch runs operations one after the other (RFC 6902).
func JSONPatch(operations ...PatchOperation) Patch {
	return Patch{Type: JSONPatchType, Body: operations}
}

// PatchOperation is one step of a [JSONPatch].
type PatchOperation struct {
	// Op is add, remove, replace, move, copy or test.
	Op string `json:"op"`
	// Path is a JSON pointer: /metadata/labels/app.
	Path string `json:"path"`
	// From is a JSON pointer, for move and copy.
	From string `json:"from,omitempty"`
	// Value is for add, replace and test.
	Value any `json:"value"`
}

func (p Patch) encode() (string, error) {
	text, err := json.Marshal(p.Body)
	if err != nil {
		return "", unfit("encode", "a patch", err)
	}
	return string(text), nil
}

func writeObject[O any](object Object, options O, call func(GroupVersionKind, string, O) (string, error)) (Object, error) {
	kind, text, err := encode(object)
	if err != nil {
		return nil, err
	}
	if text, err = call(kind, text, options); err != nil {
		return nil, err
	}
	return decodeObject(kind, text)
}

// pages iterates over a list, page by page.
func pages[T any](c *Cluster, kind GroupVersionKind, options []ListOption, decode func(GroupVersionKind, string) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		asked := listOptions(options)
		for {
			page, err := c.backend.List(kind, asked)
			if err != nil {
				yield(none, err)
				return
			}
			for _, text := range page.Items {
				object, err := decode(kind, text)
				if !yield(object, err) || err != nil {
					return
				}
			}
			if page.Continue == "" {
				return
			}
			asked.Continue = page.Continue
		}
	}
}
