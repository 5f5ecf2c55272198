// Places Workloads of the hub on clusters that they select and that have processors left.
package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"windlass.dev/windlass"
	"windlass.dev/windlass/mapper"
)

const (
	// The label of the guest's Deployments. Others are never changed.
	placed = "example.windlass.dev/placed"
	// The label of a cluster with the number of its processors.
	cpus = "cpus"
	// How long a cluster that is not ready, or not in the fleet, keeps what it has.
	patience = 5 * time.Minute
)

// Workload is what the guest reads, and the status that it writes.
type Workload struct {
	windlass.ObjectMeta `json:"metadata"`
	Spec                struct {
		Image           string `json:"image"`
		Replicas        int    `json:"replicas"`
		CPUs            int    `json:"cpus"`
		ClusterSelector string `json:"clusterSelector"`
	} `json:"spec"`
	Status struct {
		Clusters   []Share              `json:"clusters"`
		Conditions []windlass.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

// Share is what runs in a cluster.
type Share struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	// Since when the cluster is not in the fleet.
	AwaySince string `json:"awaySince,omitempty"`
}

// GVK is the kind.
func (Workload) GVK() windlass.GroupVersionKind { return workloads }

var (
	workloads   = windlass.GVK("example.windlass.dev/v1", "Workload")
	deployments = windlass.GVK("apps/v1", "Deployment")
	namespaces  = windlass.GVK("v1", "Namespace")
	clusters    = windlass.FleetCluster{}.GVK()
)

type guest struct{}

func init() {
	windlass.Register(guest{})
	mapper.Register(guest{})
}

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

func (guest) Describe() (windlass.Description, error) {
	return windlass.Description{Title: "places workloads on clusters", Watches: []windlass.Watch{
		{Kind: workloads, Clusters: windlass.LocalCluster},
		{Kind: workloads, Clusters: windlass.LocalCluster, Enqueue: windlass.Mapped},
		{Kind: clusters, Enqueue: windlass.Mapped},
		{Kind: deployments, Clusters: windlass.ProviderClusters, LabelSelector: placed, Enqueue: windlass.SameName},
	}}, nil
}

// Reconcile decides in a request of the hub where a Workload runs, and makes it so in one of another cluster.
func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	hub, err := windlass.Local()
	if err != nil {
		return done, err
	}
	workload, err := windlass.Get[Workload](hub, req.ObjectKey)
	switch {
	case err != nil:
		return done, err
	case req.Cluster != "":
		return done, run(req, cluster, workload)
	case workload == nil:
		return done, nil
	}
	return place(cluster, workload)
}

func (guest) Map(hub *windlass.Cluster, kind windlass.GroupVersionKind, objects []windlass.Object) (requests []windlass.Request, err error) {
	if kind != clusters {
		// It starts or ends where it ran or runs, and others that wait may have its room.
		for _, object := range objects {
			workload, err := windlass.As[Workload](object)
			if err != nil {
				return nil, err
			}
			for _, share := range workload.Status.Clusters {
				requests = append(requests, windlass.Request{Cluster: share.Name, ObjectKey: workload.Key()})
			}
		}
	}
	for workload, err := range windlass.ListAll[Workload](hub) {
		if err != nil {
			return nil, err
		}
		if kind == clusters || !workload.isPlaced() {
			requests = append(requests, windlass.Request{ObjectKey: workload.Key()})
		}
	}
	return requests, nil
}

func run(req windlass.Request, cluster *windlass.Cluster, workload *Workload) error {
	replicas := workload.shareOf(req.Cluster).Replicas
	present, err := cluster.Get(deployments, req.ObjectKey)
	if err != nil {
		return err
	}
	if present != nil && present.Label(placed) == "" {
		if replicas > 0 {
			return fmt.Errorf("Deployment %s is there and not the scheduler's", req.ObjectKey)
		}
		return nil
	}
	if replicas == 0 {
		if present != nil {
			err = cluster.Delete(deployments, req.ObjectKey)
		}
		return err
	}
	if present == nil {
		namespace := windlass.NewObject(namespaces, windlass.ObjectKey{Name: req.Namespace})
		if _, err := cluster.Ensure(namespace); err != nil {
			return err
		}
	}
	_, err = cluster.Ensure(deployment(workload, replicas))
	return err
}

func place(hub *windlass.Cluster, workload *Workload) (result windlass.Result, err error) {
	used, err := usedByOthers(hub, workload)
	if err != nil {
		return result, err
	}
	// Read first, so that a cluster that joins meanwhile is not taken for one that is not selected.
	known := map[string]bool{}
	for cluster, err := range windlass.ListAll[windlass.FleetCluster](hub) {
		if err != nil {
			return result, err
		}
		known[cluster.Spec.Name] = true
	}
	var names []string
	rooms, awaySince := map[string]int{}, map[string]string{}
	add := func(name string, room int) { names, rooms[name] = append(names, name), room }
	// What it has, while it may keep that.
	keep := func(name, since string, room int) error {
		left, err := patienceLeft(since)
		room = min(room, workload.shareOf(name).Replicas)
		if err != nil || left <= 0 || room == 0 {
			return err
		}
		if result.RequeueAfter == 0 || left < result.RequeueAfter {
			result = windlass.RequeueAfter(left)
		}
		add(name, room)
		return nil
	}
	selected := windlass.Labels(workload.Spec.ClusterSelector)
	for cluster, err := range windlass.ListAll[windlass.FleetCluster](hub, selected) {
		if windlass.IsInvalid(err) {
			// What runs stays until the selector can be read.
			return result, report(hub, workload, windlass.Condition{Reason: "BadSelector", Message: err.Error()})
		}
		if err != nil {
			return result, err
		}
		name := cluster.Spec.Name
		known[name] = true
		all, _ := strconv.Atoi(cluster.Labels[cpus])
		room := max(all-used[name], 0) / workload.Spec.CPUs
		if cluster.Status.Ready {
			add(name, room)
		} else if err := keep(name, readySince(cluster), room); err != nil {
			return result, err
		}
	}
	// A cluster that is not in the fleet has left, or no Provider has reported it yet since the start.
	for _, share := range workload.Status.Clusters {
		if known[share.Name] {
			continue
		}
		since := cmp.Or(share.AwaySince, windlass.Now().Format(time.RFC3339))
		awaySince[share.Name] = since
		if err := keep(share.Name, since, share.Replicas); err != nil {
			return result, err
		}
	}
	// What runs stays, as far as it may. The rest goes where most room is.
	left, runs := workload.Spec.Replicas, map[string]int{}
	give := func(name string, most int) {
		more := min(most, rooms[name]-runs[name], left)
		runs[name] += more
		left -= more
	}
	slices.Sort(names)
	for _, name := range names {
		give(name, workload.shareOf(name).Replicas)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rooms[b]-runs[b], rooms[a]-runs[a]) })
	for _, name := range names {
		give(name, left)
	}
	slices.Sort(names)
	shares := []Share{}
	for _, name := range names {
		if runs[name] > 0 {
			shares = append(shares, Share{name, runs[name], awaySince[name]})
		}
	}
	workload.Status.Clusters = shares
	condition := windlass.Condition{Reason: "Done"}
	if left > 0 {
		condition.Reason = "NoRoom"
		condition.Message = fmt.Sprintf("%d of %d replicas have no cluster", left, workload.Spec.Replicas)
	}
	return result, report(hub, workload, condition)
}

func report(hub *windlass.Cluster, workload *Workload, condition windlass.Condition) error {
	condition.Type, condition.Status = "Placed", windlass.StatusOf(condition.Reason == "Done")
	if workload.Status.Clusters == nil {
		workload.Status.Clusters = []Share{}
	}
	if _, err := windlass.SetCondition(workload, condition); err != nil {
		return err
	}
	_, err := hub.SetStatus(workloads, workload.Key(), workload.Status)
	return err
}

func (w *Workload) shareOf(cluster string) Share {
	if w != nil {
		for _, share := range w.Status.Clusters {
			if share.Name == cluster {
				return share
			}
		}
	}
	return Share{}
}

func (w *Workload) isPlaced() bool {
	isSo := func(each windlass.Condition) bool { return each.Type == "Placed" && each.Status == windlass.True }
	return slices.ContainsFunc(w.Status.Conditions, isSo)
}

func usedByOthers(hub *windlass.Cluster, workload *Workload) (map[string]int, error) {
	used := map[string]int{}
	for other, err := range windlass.ListAll[Workload](hub) {
		if err != nil {
			return nil, err
		}
		if other.Key() != workload.Key() {
			for _, share := range other.Status.Clusters {
				used[share.Name] += share.Replicas * other.Spec.CPUs
			}
		}
	}
	return used, nil
}

func readySince(cluster *windlass.FleetCluster) string {
	for _, condition := range cluster.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.LastTransitionTime
		}
	}
	return ""
}

func patienceLeft(since string) (time.Duration, error) {
	start, err := time.Parse(time.RFC3339, since)
	return start.Add(patience).Sub(windlass.Now()), err
}

func deployment(workload *Workload, replicas int) windlass.Object {
	labels := map[string]any{"app": workload.Key().Name}
	requests := map[string]any{"cpu": strconv.Itoa(workload.Spec.CPUs)}
	container := map[string]any{
		"name": "app", "image": workload.Spec.Image, "resources": map[string]any{"requests": requests},
	}
	wanted := windlass.NewObject(deployments, workload.Key())
	wanted.Set("yes", "metadata", "labels", placed)
	wanted["spec"] = map[string]any{
		"replicas": replicas,
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{container}},
		},
	}
	return wanted
}
