// Keeps a ConfigMap with the text of each {{kind}}, and a copy of it in another namespace.
package main

import "windlass.dev/windlass"

var configMap = windlass.GVK("v1", "ConfigMap")

// parts are the objects that a {{kind}} should have. It cannot own the copy, which is in another namespace: the finalizer waits
// for its deletion. A controller without such objects needs no finalizer.
var parts = windlass.Dependents{
	Kinds:     []windlass.GroupVersionKind{configMap},
	Finalizer: "{{group}}/copy",
}

type guest struct{}

func init() { windlass.Register(guest{}) }

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

// Describe watches the kind, and its dependents: an event on one of them enqueues its owner.
func (guest) Describe() (windlass.Description, error) {
	return windlass.Description{
		Title:   "keeps a ConfigMap for each {{kind}}",
		Watches: parts.Watches(windlass.Watch{Kind: {{type}}{}.GVK()}),
		Indexes: parts.Indexes(),
	}, nil
}

// Reconcile brings the dependents of one object to their desired state. It is called again until it succeeds, and after every
// change that may matter. A request names an object and never an event. An error is retried with growing delay.
func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	// Reads come from the host's cache.
	object, err := windlass.Get[{{type}}](cluster, req.ObjectKey)
	if err != nil || object == nil {
		return done, err
	}
	// The name of the object alone may be that of a ConfigMap of somebody else.
	name := req.Name + "-{{singular}}"
	keys := []windlass.ObjectKey{req.Sibling(name)}
	if namespace := object.Spec.CopyTo; namespace != nil {
		keys = append(keys, windlass.ObjectKey{Namespace: *namespace, Name: req.Namespace + "." + name})
	}
	var desired []windlass.Identified
	for _, key := range keys {
		wanted := windlass.NewObject(configMap, key)
		wanted.Set(object.Spec.Text, "data", "text")
		desired = append(desired, wanted)
	}

	// Applies what differs, deletes what is no longer desired, and sets the conditions Ready and Progressing.
	status := map[string]any{"observedGeneration": object.Generation}
	return parts.WithStatus(status).Reconcile(cluster, object, desired...)
}
