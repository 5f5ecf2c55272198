// The conformance reconciler: a case for each part of the contract.
//
// A ConfigMap labelled conformance.windlass.dev/case names the case that runs for it. ../../conformance/README.md says what each case
// calls and what it logs; every language has the same reconciler, and one suite compares what they do.
package main

import (
	"errors"
	"fmt"
	"log/slog"

	"windlass.dev/windlass"
	"windlass.dev/windlass/mapper"
)

const (
	// caseLabel of a ConfigMap asks for a case. Its value is the case's name.
	caseLabel = "conformance.windlass.dev/case"
	// askLabel of a Secret asks for requests.
	askLabel = "conformance.windlass.dev/ask"
	// forAnnotation of such a Secret is the cluster that is asked for.
	forAnnotation = "conformance.windlass.dev/for"
)

// conformance is the guest.
type conformance struct{}

func init() {
	windlass.Register(conformance{})
	mapper.Register(conformance{})
}

func main() { windlass.Run() }

// Describe has a watch of every sort.
func (conformance) Describe() (windlass.Description, error) {
	var config struct{ Refuse, Later string }
	if err := windlass.Config(&config); err != nil {
		return windlass.Description{}, err
	}
	if config.Refuse != "" {
		return windlass.Description{}, errors.New(config.Refuse)
	}
	options := func(part string) map[string]string {
		if part != config.Later {
			return nil
		}
		return map[string]string{"later": "yes"}
	}
	return windlass.Description{
		Title: "walks through the contract",
		Watches: []windlass.Watch{
			{
				Kind: configMaps, Clusters: windlass.ProviderClusters,
				Changes: []windlass.Change{windlass.LabelsChange, windlass.AnnotationsChange},
			},
			{
				Kind: deployments, Enqueue: windlass.ControllerOwner,
				Changes: []windlass.Change{windlass.GenerationChange, windlass.StatusChange},
			},
			{Kind: windlass.GVK("v1", "Secret"), Enqueue: windlass.Mapped, LabelSelector: askLabel, MetadataOnly: true},
			{Kind: windlass.GVK("v1", "ServiceAccount"), Enqueue: windlass.AnyOwner},
			{
				Kind: windlass.GVK("v1", "PersistentVolumeClaim"), Enqueue: windlass.SameName,
				FieldSelector: "metadata.namespace!=kube-system",
			},
			{Kind: windlass.GVK("v1", "Service"), Enqueue: windlass.ByIndex("service"), Options: options("watch")},
		},
		Indexes: []windlass.Index{
			{Kind: configMaps, Name: "color", Path: "data.color"},
			{
				Kind: configMaps, Name: "service", Path: "data.service", NamespacePath: "data['service.namespace']",
				Options: options("index"),
			},
		},
		Options: options("description"),
	}, nil
}

// Reconcile runs the case that the object names.
func (conformance) Reconcile(req windlass.Request, cluster *windlass.Cluster) (windlass.Result, error) {
	primary, err := windlass.Get[ConfigMap](cluster, req.ObjectKey)
	if err != nil {
		return windlass.Result{}, err
	}
	if primary == nil {
		slog.Info("gone", "key", req.ObjectKey)
		return windlass.Result{}, nil
	}
	name, asked := primary.Labels[caseLabel]
	if !asked {
		return windlass.Result{}, nil // objects of the cases
	}
	s := &scene{cluster: cluster, key: req.ObjectKey, primary: primary}
	if run, ok := cases[name]; ok {
		return windlass.Result{}, run(s)
	}
	return end(name, s)
}

// cases are those that end in done.
var cases = map[string]func(*scene) error{
	"read": read, "list": list, "many": many,
	"create": create, "update": update, "patch": patch, "apply": apply, "status": status, "delete": remove,
	"ensure": ensure, "collection": collection, "batch": batch, "text": text, "large": large,
	"events": events, "log": logLines, "config": config, "clock": clock, "random": random,
	"clusters": clusters, "open": open, "across": across, "http": http,
	"codes": codes, "limits": limits, "cancelled": cancelled,
}

// Map answers a request for the cluster that a Secret asks for.
func (conformance) Map(
	cluster *windlass.Cluster, kind windlass.GroupVersionKind, objects []windlass.Object,
) ([]windlass.Request, error) {
	newest := objects[len(objects)-1]
	asked := newest.Annotation(forAnnotation)
	if asked == "" {
		return nil, errors.New("no cluster is asked for")
	}
	key := newest.Key().Sibling("apple")
	apple, err := windlass.Get[ConfigMap](cluster, key)
	if err != nil {
		return nil, err
	}
	infos, err := windlass.Clusters("")
	if err != nil {
		return nil, err
	}
	slog.Info("mapped", "kind", kind, "objects", len(objects), "color", apple.value("color"), "clusters", clusterNames(infos))
	if _, err := windlass.Get[ConfigMap](cluster, key, windlass.Live); err != nil {
		return []windlass.Request{{Cluster: asked, ObjectKey: newest.Key().Sibling("asked")}}, refused("live", err)
	}
	return []windlass.Request{{Cluster: asked, ObjectKey: newest.Key().Sibling("asked")}}, nil
}

// scene has the surroundings of a case.
type scene struct {
	// cluster is the request's.
	cluster *windlass.Cluster
	// key is the request's. The case has its namespace for itself.
	key windlass.ObjectKey
	// primary is the ConfigMap that asked for the case.
	primary *ConfigMap
}

// at names an object of the namespace.
func (s *scene) at(name string) windlass.ObjectKey { return s.key.Sibling(name) }

// get reads a ConfigMap of the namespace; nil if there is none.
func (s *scene) get(name string, options ...windlass.GetOption) (*ConfigMap, error) {
	return windlass.Get[ConfigMap](s.cluster, s.at(name), options...)
}

// present reads an object that has to be there, as it is before it is replaced.
func (s *scene) present(
	kind windlass.GroupVersionKind, name string, options ...windlass.GetOption,
) (windlass.Object, error) {
	object, err := s.cluster.Get(kind, s.at(name), options...)
	if err == nil && object == nil {
		err = fmt.Errorf("there is no %s %s", kind.Kind, name)
	}
	return object, err
}
