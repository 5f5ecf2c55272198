// Keeps a ConfigMap with the size of each Shelf.
package main

import (
	"fmt"

	"windlass.dev/windlass"
)

var configMap = windlass.GVK("v1", "ConfigMap")

type guest struct{}

func init() { windlass.Register(guest{}) }

func main() {} // a guest is called by its exports

func (guest) Describe() (windlass.Description, error) {
	return windlass.Description{
		Title: "labels shelves",
		Watches: []windlass.Watch{
			{Kind: Shelf{}.GVK()},
			{Kind: configMap, Enqueue: windlass.ControllerOwner},
		},
	}, nil
}

func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	shelf, err := windlass.Get[Shelf](cluster, req.ObjectKey)
	if err != nil || shelf == nil {
		return done, err
	}
	label := windlass.NewObject(configMap, req.ObjectKey)
	if err := label.SetController(shelf); err != nil {
		return done, err
	}
	label.Set(fmt.Sprintf("room for %d", shelf.Spec.Size), "data", "text")
	if _, err := cluster.Ensure(label); err != nil {
		return done, err
	}
	_, err = cluster.SetStatus(shelf.GVK(), req.ObjectKey, map[string]any{"phase": "Labelled"})
	return done, err
}
