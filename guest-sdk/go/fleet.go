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
