// Runs websites: for each a page, its servers, their address, and an entry for the gateway.
package main

import "windlass.dev/windlass"

var (
	website    = windlass.GVK("example.windlass.dev/v1", "Website")
	configMap  = windlass.GVK("v1", "ConfigMap")
	deployment = windlass.GVK("apps/v1", "Deployment")
	service    = windlass.GVK("v1", "Service")
)

// A Website cannot own the entry, which is in another namespace: the finalizer waits for its deletion.
var parts = windlass.Dependents{
	Kinds:     []windlass.GroupVersionKind{configMap, deployment, service},
	Finalizer: "example.windlass.dev/gateway",
}

type guest struct{}

func init() { windlass.Register(guest{}) }

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

func (guest) Describe() (windlass.Description, error) {
	watches := parts.Watches(windlass.Watch{Kind: website})
	return windlass.Description{Title: "runs websites", Watches: watches, Indexes: parts.Indexes()}, nil
}

func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	site, err := cluster.Get(website, req.ObjectKey)
	if err != nil || site == nil {
		return done, err
	}
	labels := map[string]any{"website": req.Name}
	host := site.String("spec", "host")

	page := windlass.NewObject(configMap, req.ObjectKey)
	page.Set(site.String("spec", "html"), "data", "index.html")

	servers := windlass.NewObject(deployment, req.ObjectKey)
	servers.Set(site.Int("spec", "replicas"), "spec", "replicas")
	servers.Set(labels, "spec", "selector", "matchLabels")
	servers.Set(labels, "spec", "template", "metadata", "labels")
	servers.Set([]any{map[string]any{
		"name":         "server",
		"image":        "nginx:1.29",
		"ports":        []any{map[string]any{"containerPort": 80}},
		"volumeMounts": []any{map[string]any{"name": "page", "mountPath": "/usr/share/nginx/html"}},
	}}, "spec", "template", "spec", "containers")
	volume := map[string]any{"name": "page", "configMap": map[string]any{"name": req.Name}}
	servers.Set([]any{volume}, "spec", "template", "spec", "volumes")

	address := windlass.NewObject(service, req.ObjectKey)
	address.Set(labels, "spec", "selector")
	address.Set([]any{map[string]any{"port": 80}}, "spec", "ports")

	entry := windlass.NewObject(configMap, windlass.ObjectKey{Namespace: "gateway", Name: req.Namespace + "." + req.Name})
	entry.Set(host, "data", "host")
	entry.Set(req.Name+"."+req.Namespace+".svc", "data", "address")

	status := map[string]any{"url": "http://" + host}
	return parts.WithStatus(status).Reconcile(cluster, site, page, servers, address, entry)
}
