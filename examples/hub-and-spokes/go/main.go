// Keeps the hub's ConfigMaps that are labelled in all other clusters, or in those that they select.
package main

import (
	"fmt"
	"slices"

	"windlass.dev/windlass"
	"windlass.dev/windlass/mapper"
)

const (
	// The label of originals, in the hub.
	spread = "hub.windlass.dev/spread"
	// The annotation of originals with the labels of their clusters, as `kubectl -l` has them. Without it they are for all.
	selector = "hub.windlass.dev/clusters"
	// The label of copies. Objects without it are never changed.
	copied = "hub.windlass.dev/copy"
)

var configMap, cluster = windlass.GVK("v1", "ConfigMap"), windlass.FleetCluster{}.GVK()

type guest struct{}

func init() {
	windlass.Register(guest{})
	mapper.Register(guest{})
}

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

func (guest) Describe() (windlass.Description, error) {
	return windlass.Description{Title: "keeps ConfigMaps of the hub in all clusters", Watches: []windlass.Watch{
		{Kind: configMap, LabelSelector: copied, Clusters: windlass.ProviderClusters},
		{Kind: configMap, LabelSelector: spread, Clusters: windlass.LocalCluster, Enqueue: windlass.Mapped},
		{Kind: cluster, Changes: []windlass.Change{windlass.LabelsChange}, Enqueue: windlass.Mapped},
	}}, nil
}

func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	hub, err := windlass.Local()
	if err != nil {
		return done, err
	}
	original, err := hub.Get(configMap, req.ObjectKey)
	if err != nil {
		return done, err
	}
	present, err := cluster.Get(configMap, req.ObjectKey)
	if err != nil {
		return done, err
	}
	wanted, err := isFor(original, cluster.Name())
	if err != nil {
		return done, err
	}
	if !wanted {
		if present != nil && has(present, copied) {
			err = cluster.Delete(configMap, req.ObjectKey)
		}
		return done, err
	}
	if present != nil && !has(present, copied) {
		return done, fmt.Errorf("%s is there and no copy", req.ObjectKey)
	}
	_, err = cluster.CreateOrUpdate(configMap, req.ObjectKey, func(wanted windlass.Object) error {
		wanted.Set("yes", "metadata", "labels", copied)
		wanted["data"] = original["data"]
		return nil
	})
	return done, err
}

func isFor(original windlass.Object, cluster string) (bool, error) {
	if original == nil || !has(original, spread) {
		return false, nil
	}
	clusters, err := windlass.Clusters(windlass.Labels(original.Annotation(selector)))
	return slices.ContainsFunc(clusters, func(to windlass.ClusterInfo) bool { return to.Name == cluster }), err
}

func has(object windlass.Object, label string) bool {
	return object.At("metadata", "labels", label) != nil
}

// Map gets objects of the hub: an original asks for a copy in each cluster, a cluster for a copy of each original.
func (guest) Map(hub *windlass.Cluster, kind windlass.GroupVersionKind, objects []windlass.Object) ([]windlass.Request, error) {
	object := objects[len(objects)-1]
	var requests []windlass.Request
	if kind == cluster {
		for original, err := range hub.ListAll(configMap, windlass.Labels(spread)) {
			if err != nil {
				return nil, err
			}
			requests = append(requests, windlass.Request{Cluster: object.String("spec", "name"), ObjectKey: original.Key()})
		}
		return requests, nil
	}
	clusters, err := windlass.Clusters("")
	for _, to := range clusters {
		if to.Name != "" {
			requests = append(requests, windlass.Request{Cluster: to.Name, ObjectKey: object.Key()})
		}
	}
	return requests, err
}
