package windlass

// The other clusters. A guest that calls a function of this file needs a rule that names clusters.

// Clusters returns the granted clusters, sorted by name. The labels select as kubectl's -l; "" selects all. It is the only
// function of this file that a [Mapper] may call.
func Clusters(labels Labels) ([]ClusterInfo, error) { return hostClusters(string(labels)) }

// Open opens a cluster until the current call ends; "" is the local one. The error is denied if no rule grants the cluster,
// cluster-gone if there is none.
func Open(name string) (*Cluster, error) {
	backend, err := hostOpen(name)
	if err != nil {
		return nil, err
	}
	return NewCluster(backend), nil
}

// Local opens the local (hub) cluster.
func Local() (*Cluster, error) { return Open("") }

// In is an operation and its cluster.
type In struct {
	// Cluster is its name; "" is the local one.
	Cluster string
	// Operation is the operation in that cluster.
	Operation Operation
}

// BatchAcross runs operations concurrently in the host, each in its cluster; the replies are in the same order.
func BatchAcross(operations ...In) []Reply {
	plain := make([]Operation, len(operations))
	clusters := make([]string, 0, len(operations))
	for i, in := range operations {
		plain[i] = in.Operation
		if in.Operation.err == nil {
			clusters = append(clusters, in.Cluster)
		}
	}
	return runBatch(plain, func(sent []Operation) []Reply { return hostBatchAcross(clusters, sent) })
}

// FleetCluster is a cluster as an object of the local cluster, which a guest watches and lists as it does any kind: one for each
// cluster that a rule opens. Its labels are those of the cluster, its annotations the properties. The host makes it, and nobody
// writes it.
type FleetCluster struct {
	ObjectMeta `json:"metadata"`
	// Spec tells which cluster it is.
	Spec FleetClusterSpec `json:"spec"`
	// Status tells how the cluster is.
	Status FleetClusterStatus `json:"status"`
}

// GVK is the kind of clusters.
func (FleetCluster) GVK() GroupVersionKind { return GVK("fleet.windlass.dev/v1alpha1", "Cluster") }

// FleetClusterSpec tells which cluster a [FleetCluster] is.
type FleetClusterSpec struct {
	// Name is the cluster's name in requests and for [Open]. The name of the object differs only where it could not be one.
	Name string `json:"name"`
	// Provider is the Provider that found it.
	Provider string `json:"provider,omitempty"`
}

// FleetClusterStatus tells how the cluster of a [FleetCluster] is.
type FleetClusterStatus struct {
	// State is Connecting, Syncing, Ready or Degraded.
	State string `json:"state"`
	// Ready tells whether the cluster answers and its caches are filled.
	Ready bool `json:"ready"`
	// Reason tells why it is in that state, for people.
	Reason string `json:"reason"`
	// Conditions has the condition Ready, for what reads conditions.
	Conditions []Condition `json:"conditions,omitempty"`
}
