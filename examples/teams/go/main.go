// Keeps a namespace in each cluster for each Team of the hub, with a quota, and with a RoleBinding for each member.
package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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
			return notTheTeams(present)
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
	if !slices.Contains(team.Finalizers, finalizer) {
		return nil // once it is there, this is asked again
	}
	// Those who leave come first: nothing that fails below keeps their rights.
	bound, err := names(cluster, bindings, key.Name)
	if err != nil {
		return err
	}
	for name := range bound {
		if !slices.Contains(team.Spec.Members, name) {
			if err := cluster.Delete(bindings, windlass.ObjectKey{Namespace: key.Name, Name: name}); err != nil {
				return err
			}
		}
	}
	var taken error
	for _, object := range wanted(key.Name, team) {
		present, err := cluster.Get(object.GVK(), object.Key())
		switch {
		case err != nil:
			return err
		case present != nil && present.Label(label) != key.Name:
			taken = notTheTeams(present)
		default:
			if _, err := cluster.Ensure(object); err != nil {
				return err
			}
		}
	}
	return taken
}

// It is looked at again, as what has no label of the guest makes no events.
func notTheTeams(present windlass.Object) error {
	return windlass.NotReady(time.Minute, "%s %s is there and not the team's", present.GVK().Kind, present.Key())
}

// The names of the team's objects. A list with the labels of the watch is of its cache, while a Get of what is absent is a call.
func names(cluster *windlass.Cluster, kind windlass.GroupVersionKind, team string) (map[string]bool, error) {
	options := []windlass.ListOption{windlass.Labels(label)}
	if kind != namespaces {
		options = append(options, windlass.InNamespace(team))
	}
	names := map[string]bool{}
	for object, err := range cluster.ListAll(kind, options...) {
		if err != nil {
			return nil, err
		}
		if object.Label(label) == team {
			names[object.Key().Name] = true
		}
	}
	return names, nil
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
		has, all := false, false
		if other.Ready {
			if has, all, err = look(other.Name, team); err != nil {
				return err
			}
		}
		if has {
			there = append(there, other.Name)
		}
		// A cluster that does not answer may have one.
		if !other.Ready || deleting && has || !deleting && !all {
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

// Whether a cluster has the team's namespace, and all that belongs into it.
func look(name string, team *Team) (has, all bool, err error) {
	cluster, err := windlass.Open(name)
	if err != nil {
		return false, false, err
	}
	key, found := team.Key().Name, map[windlass.GroupVersionKind]map[string]bool{}
	for _, kind := range []windlass.GroupVersionKind{namespaces, quotas, bindings} {
		if found[kind], err = names(cluster, kind, key); err != nil {
			return false, false, err
		}
	}
	members := map[string]bool{}
	for _, member := range team.Spec.Members {
		members[member] = true
	}
	has = found[namespaces][key]
	return has, has && found[quotas]["team"] && maps.Equal(found[bindings], members), nil
}
