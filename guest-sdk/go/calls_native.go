//go:build !wasip1

package windlass

// Calls is a cluster whose operations all take one way, for hosts that are no component's: [BackendOf] makes a backend of it.
type Calls interface {
	Name() string
	Run(operation Operation) Reply
	DeleteCollection(kind GroupVersionKind, selection Selection, options DeleteOptions) error
	RecordEvent(event Event)
	Batch(operations []Operation) []Reply
}

// BackendOf is the API of a cluster through its calls. Only in native builds.
func BackendOf(calls Calls) Backend { return backendOf{calls} }

type backendOf struct{ Calls }

func (b backendOf) Get(kind GroupVersionKind, key ObjectKey, options GetOptions) (string, bool, error) {
	reply := b.Run(Operation{Verb: VerbGet, Kind: kind, Key: key, Get: options})
	return reply.Text, reply.Text != "", reply.Err
}

func (b backendOf) List(kind GroupVersionKind, options ListOptions) (Page[string], error) {
	reply := b.Run(Operation{Verb: VerbList, Kind: kind, List: options})
	if reply.Err != nil {
		return Page[string]{}, reply.Err
	}
	return *reply.Page, nil
}

func (b backendOf) Create(kind GroupVersionKind, object string, options WriteOptions) (string, error) {
	return b.write(Operation{Verb: VerbCreate, Kind: kind, Text: object, Write: options})
}

func (b backendOf) Update(kind GroupVersionKind, object string, options WriteOptions) (string, error) {
	return b.write(Operation{Verb: VerbUpdate, Kind: kind, Text: object, Write: options})
}

func (b backendOf) Patch(
	kind GroupVersionKind, key ObjectKey, patchType PatchType, patch string, options WriteOptions,
) (string, error) {
	return b.write(Operation{Verb: VerbPatch, Kind: kind, Key: key, PatchType: patchType, Text: patch, Write: options})
}

func (b backendOf) Apply(kind GroupVersionKind, object string, options ApplyOptions) (string, error) {
	return b.write(Operation{Verb: VerbApply, Kind: kind, Text: object, Apply: options})
}

func (b backendOf) Delete(kind GroupVersionKind, key ObjectKey, options DeleteOptions) error {
	return b.Run(Operation{Verb: VerbDelete, Kind: kind, Key: key, Delete: options}).Err
}

func (b backendOf) write(operation Operation) (string, error) {
	reply := b.Run(operation)
	return reply.Text, reply.Err
}
