package windlass

// Description has the watches and indexes that a guest needs. They narrow the grants of the operator; anything outside the
// grants fails the load.
type Description struct {
	// Title is for people; the reconciler's name is the operator's.
	Title string
	// Primary is the kind that requests name. The zero value stands for the kind of the watch that enqueues [Primary].
	Primary GroupVersionKind
	// Watches are the kinds to watch.
	Watches []Watch
	// Indexes are the indexes that the host keeps.
	Indexes []Index
	// Options are for hosts of later versions; a key that the host does not know fails the load.
	Options map[string]string
}

// Watch is one kind to watch. Only Kind is needed.
type Watch struct {
	// Kind is the kind to watch.
	Kind GroupVersionKind
	// Enqueue is how an event becomes requests; the zero value is [Primary].
	Enqueue Enqueue
	// Clusters are the clusters to watch; the zero value is [AsConfigured].
	Clusters ClusterScope
	// LabelSelector is as kubectl's -l; "": every object.
	LabelSelector string
	// FieldSelector is as kubectl's --field-selector, on metadata.name and metadata.namespace; "": every object.
	FieldSelector string
	// Changes are the changes that count; empty: every change. Creation, deletion and a deletionTimestamp always count.
	Changes []Change
	// MetadataOnly: the guest needs only apiVersion, kind and metadata, and the host keeps no more.
	MetadataOnly bool
	// Options are for hosts of later versions; a key that the host does not know fails the load.
	Options map[string]string
}

// Index is a lookup by the value of a field, kept by the host.
type Index struct {
	// Kind is the kind to index.
	Kind GroupVersionKind
	// Name is unique for the kind.
	Name string
	// Path has dot-separated names, ['quoted'] ones, and [*] for every element: spec.template.spec.volumes[*].configMap.name
	Path string
	// NamespacePath is the path of the referenced object's namespace; "": the object's own namespace.
	NamespacePath string
	// Options are for hosts of later versions; a key that the host does not know fails the load.
	Options map[string]string
}

// Enqueue is how an event on a watched object becomes requests.
type Enqueue struct {
	how   uint8
	index string
}

// Ways to turn an event into requests; [ByIndex] makes another one.
var (
	// Primary asks for the object itself.
	Primary = Enqueue{}
	// ControllerOwner asks for the owner of the primary kind that controls the object.
	ControllerOwner = Enqueue{how: 1}
	// AnyOwner asks for every owner of the primary kind.
	AnyOwner = Enqueue{how: 2}
	// SameName asks for the primary object of the same namespace and name.
	SameName = Enqueue{how: 3}
	// Mapped leaves it to the [Mapper] that package mapper registered.
	Mapped = Enqueue{how: 5}
)

const byIndex = 4

// ByIndex asks for every primary object whose named index holds the object's name (same namespace, or one of the two has
// none) or `namespace/name`.
func ByIndex(index string) Enqueue { return Enqueue{how: byIndex, index: index} }

// String is for people.
func (e Enqueue) String() string {
	if e.how == byIndex {
		return "by-index " + e.index
	}
	return [...]string{"primary", "controller-owner", "any-owner", "same-name", "", "mapped"}[e.how]
}

// ClusterScope is which clusters a watch engages.
type ClusterScope uint8

// Which clusters a watch engages.
const (
	// AsConfigured: those that the operator chose.
	AsConfigured ClusterScope = iota
	// LocalCluster: the local cluster.
	LocalCluster
	// ProviderClusters: the clusters of providers.
	ProviderClusters
	// AllClusters: both.
	AllClusters
)

// Change is a part of an object whose change counts.
type Change uint8

// Which changes of an object count.
const (
	// GenerationChange: metadata.generation. Objects without it: any change outside metadata and status.
	GenerationChange Change = iota
	// LabelsChange: metadata.labels.
	LabelsChange
	// AnnotationsChange: metadata.annotations.
	AnnotationsChange
	// StatusChange: status.
	StatusChange
)

// primary is the kind that requests name; if it is not set, the kind of the watch with [Primary].
func (d *Description) primary() (GroupVersionKind, bool) {
	if d.Primary != (GroupVersionKind{}) {
		return d.Primary, true
	}
	for _, watch := range d.Watches {
		if watch.Enqueue == Primary {
			return watch.Kind, true
		}
	}
	return GroupVersionKind{}, false
}
