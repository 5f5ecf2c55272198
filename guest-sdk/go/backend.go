package windlass

// Backend is the API of one cluster in the contract's form, with objects as JSON text. The host implements it in a component,
// package windlasstest in a test. An error is an [*APIError].
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

// NewCluster makes a cluster from a backend, for tests and for wrappers of a cluster.
func NewCluster(backend Backend) *Cluster { return &Cluster{backend} }

// Page is one page of a list.
type Page[T any] struct {
	// Items are the objects.
	Items []T
	// Continue asks for the next page; "" on the last.
	Continue string
	// ResourceVersion is the version of the list.
	ResourceVersion string
}

// PatchType is the format of a patch.
type PatchType uint8

// The formats of a patch.
const (
	// JSONPatchType: RFC 6902, a list of operations.
	JSONPatchType PatchType = iota
	// MergePatchType: RFC 7386, a partial object; null removes.
	MergePatchType
	// StrategicPatchType: as merge, with lists merged by their keys. Not for custom resources.
	StrategicPatchType
)

// Verb is the function of the contract that an [Operation] calls.
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
