package windlass

// The other clusters. A guest that calls anything here needs a rule that names clusters; one that does not imports nothing of it.

// Clusters are those granted, sorted by name. The labels select as kubectl's -l; "" selects all. It is the one function here
// that a [Mapper] may call.
func Clusters(labels Labels) ([]ClusterInfo, error) { return hostClusters(string(labels)) }

// Open opens a cluster until the call that does so ends; "" is the local one. The error is denied when no rule opens it,
// cluster-gone when there is none.
func Open(name string) (*Cluster, error) {
	backend, err := hostOpen(name)
	if err != nil {
		return nil, err
	}
	return NewCluster(backend), nil
}

// Local opens the local (hub) cluster.
func Local() (*Cluster, error) { return Open("") }

// In is an operation and the cluster that it is for.
type In struct {
	// Cluster is its name; "" is the local one.
	Cluster string
	// Operation is what to do there.
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
