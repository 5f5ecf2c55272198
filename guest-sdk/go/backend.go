package windlass

// Backend is the API of one cluster as the contract has it, with objects as JSON text. In a component it is the host's, in
// a test that of package windlasstest. An error is an [*APIError].
type Backend interface {
	Name() string
	Get(kind GroupVersionKind, key ObjectKey, options GetOptions) (object string, found bool, err error)
	List(kind GroupVersionKind, options ListOptions) (Page[string], error)
	Create(kind GroupVersionKind, object string, options WriteOptions) (string, error)
	Update(kind GroupVersionKind, object string, options WriteOptions) (string, error)
	Patch(kind GroupVersionKind, key ObjectKey, patchType PatchType, patch string, options WriteOptions) (string, error)
	Apply(kind GroupVersionKind, object string, options ApplyOptions) (string, error)
	Delete(kind GroupVersionKind, key ObjectKey, options DeleteOptions) error
	DeleteCollection(kind GroupVersionKind, selection Selection, options DeleteOptions) error
	RecordEvent(event Event)
	Batch(operations []Operation) []Reply
}

// NewCluster makes a cluster of a backend, for tests and for what stands between a reconciler and its cluster.
func NewCluster(backend Backend) *Cluster { return &Cluster{backend} }

// Page is one page of a list.
type Page[T any] struct {
	// Items are the objects.
	Items []T
	// Continue asks for the next page; "" on the last.
	Continue string
	// ResourceVersion is what the list is of.
	ResourceVersion string
}

// PatchType is how a patch is written.
type PatchType uint8

// How a patch is written.
const (
	// JSONPatchType: RFC 6902, a list of operations.
	JSONPatchType PatchType = iota
	// MergePatchType: RFC 7386, a partial object; null removes.
	MergePatchType
	// StrategicPatchType: as merge, with lists merged by their keys. Not for custom resources.
	StrategicPatchType
)

// Verb is the function of the contract that an [Operation] is a call of.
type Verb string

// Functions that a batch can call.
const (
	VerbGet    Verb = "get"
	VerbList   Verb = "list"
	VerbCreate Verb = "create"
	VerbUpdate Verb = "update"
	VerbPatch  Verb = "patch"
	VerbApply  Verb = "apply"
	VerbDelete Verb = "delete"
)
