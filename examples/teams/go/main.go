// Keeps a namespace in each cluster for each Team of the hub, with a quota, and with a RoleBinding for each member.
package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"windlass.dev/windlass"
	"windlass.dev/windlass/mapper"
)

const (
	// The label of all objects of a team, with its name. Others are never changed.
	label     = "example.windlass.dev/team"
	finalizer = "example.windlass.dev/namespaces"
	rbac      = "rbac.authorization.k8s.io"
)

var (
	namespaces = windlass.GVK("v1", "Namespace")
	quotas     = windlass.GVK("v1", "ResourceQuota")
	bindings   = windlass.GVK(rbac+"/v1", "RoleBinding")
	clusters   = windlass.FleetCluster{}.GVK()
)

// Team is what the guest reads, and the status that it writes.
type Team struct {
	windlass.ObjectMeta `json:"metadata"`
	Spec                struct {
		Members []string `json:"members"`
		CPUs    int      `json:"cpus"`
	} `json:"spec"`
	Status struct {
		Clusters   []string             `json:"clusters"`
		Conditions []windlass.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

// GVK is the kind.
func (Team) GVK() windlass.GroupVersionKind { return windlass.GVK("example.windlass.dev/v1", "Team") }

type guest struct{}

func init() {
	windlass.Register(guest{})
	mapper.Register(guest{})
}

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

func (guest) Describe() (windlass.Description, error) {
	watches := []windlass.Watch{
		{Kind: Team{}.GVK(), Clusters: windlass.LocalCluster},
		{Kind: Team{}.GVK(), Clusters: windlass.LocalCluster, Enqueue: windlass.Mapped},
		{Kind: clusters, Enqueue: windlass.Mapped},
	}
	for _, kind := range []windlass.GroupVersionKind{namespaces, quotas, bindings} {
		watch := windlass.Watch{Kind: kind, LabelSelector: label, Clusters: windlass.ProviderClusters, Enqueue: windlass.Mapped}
		watches = append(watches, watch)
	}
	return windlass.Description{Title: "keeps namespaces for teams", Watches: watches}, nil
}

// Reconcile is about the Team itself in a request of the hub, and about its namespace in one of another cluster.
func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	hub, err := windlass.Local()
	if err != nil {
		return done, err
	}
	team, err := windlass.Get[Team](hub, req.ObjectKey)
	switch {
	case err != nil:
		return done, err
	case req.Cluster != "":
		return done, keep(cluster, req.ObjectKey, team)
	case team == nil:
		return done, nil
	}
	return done, report(cluster, team)
}

func (guest) Map(cluster *windlass.Cluster, kind windlass.GroupVersionKind, objects []windlass.Object) (requests []windlass.Request, err error) {
	ask := func(cluster string, key windlass.ObjectKey) {
		requests = append(requests, windlass.Request{Cluster: cluster, ObjectKey: key})
	}
	switch kind {
	case Team{}.GVK():
		others, err := others()
		for _, other := range others {
			ask(other.Name, objects[0].Key())
		}
		return requests, err
	case clusters:
		for team, err := range windlass.ListAll[Team](cluster) {
			if err != nil {
				return nil, err
			}
			ask("", team.Key())
			ask(objects[0].String("spec", "name"), team.Key())
		}
	default:
		for _, object := range objects {
			key := windlass.ObjectKey{Name: object.Label(label)}
			ask("", key)
			ask(cluster.Name(), key)
		}
	}
	return requests, nil
}

func others() ([]windlass.ClusterInfo, error) {
	all, err := windlass.Clusters("")
	return slices.DeleteFunc(all, func(cluster windlass.ClusterInfo) bool { return cluster.Name == "" }), err
}

func keep(cluster *windlass.Cluster, key windlass.ObjectKey, team *Team) error {
	present, err := cluster.Get(namespaces, key)
	switch {
	case err != nil:
		return err
	case present != nil && present.Label(label) != key.Name:
		if team != nil {
			return fmt.Errorf("Namespace %s is there and not the team's", key.Name)
		}
		return nil
	case present != nil && present.Deleting():
		return nil // what ends is gone at an event
	case team == nil || team.DeletionTimestamp != "":
		if present == nil {
			return nil
		}
		return cluster.Delete(namespaces, key)
	}
	for _, object := range wanted(key.Name, team) {
		if _, err := cluster.Ensure(object); err != nil {
			return err
		}
	}
	for binding, err := range cluster.ListAll(bindings, windlass.InNamespace(key.Name), windlass.Labels(label)) {
		if err == nil && !slices.Contains(team.Spec.Members, binding.Key().Name) {
			err = cluster.Delete(bindings, binding.Key())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func wanted(name string, team *Team) []windlass.Object {
	namespace := windlass.NewObject(namespaces, windlass.ObjectKey{Name: name})
	quota := windlass.NewObject(quotas, windlass.ObjectKey{Namespace: name, Name: "team"})
	quota.Set(strconv.Itoa(team.Spec.CPUs), "spec", "hard", "requests.cpu")
	objects := []windlass.Object{namespace, quota}
	for _, member := range team.Spec.Members {
		binding := windlass.NewObject(bindings, windlass.ObjectKey{Namespace: name, Name: member})
		binding["roleRef"] = map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"}
		binding["subjects"] = []any{map[string]any{"apiGroup": rbac, "kind": "User", "name": member}}
		objects = append(objects, binding)
	}
	for _, object := range objects {
		object.Set(name, "metadata", "labels", label)
	}
	return objects
}

func report(hub *windlass.Cluster, team *Team) error {
	deleting := team.DeletionTimestamp != ""
	others, err := others()
	if err != nil {
		return err
	}
	there, waiting := []string{}, []string{}
	for _, other := range others {
		has := false
		if other.Ready {
			if has, err = hasNamespace(other.Name, team.Key()); err != nil {
				return err
			}
		}
		if has {
			there = append(there, other.Name)
		}
		// A cluster that does not answer may have one.
		if !other.Ready || has == deleting {
			waiting = append(waiting, other.Name)
		}
	}
	condition := windlass.Condition{Type: "Ready", Status: windlass.False, Reason: "Deleting"}
	if len(waiting) > 0 {
		condition.Message = "waits for " + strings.Join(waiting, ", ")
	}
	if !deleting {
		if _, err := hub.EnsureFinalizer(team, finalizer); err != nil {
			return err
		}
		condition.Status, condition.Reason = windlass.StatusOf(len(waiting) == 0), "Done"
		if len(waiting) > 0 {
			condition.Reason = "Waiting"
		}
	} else if len(waiting) == 0 {
		_, err := hub.RemoveFinalizer(team, finalizer)
		return err
	}
	team.Status.Clusters = there
	if _, err := windlass.SetCondition(team, condition); err != nil {
		return err
	}
	_, err = hub.SetStatus(Team{}.GVK(), team.Key(), team.Status)
	return err
}

func hasNamespace(name string, key windlass.ObjectKey) (bool, error) {
	cluster, err := windlass.Open(name)
	if err != nil {
		return false, err
	}
	namespace, err := cluster.Get(namespaces, key)
	return namespace != nil && namespace.Label(label) == key.Name, err
}
