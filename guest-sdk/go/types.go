package windlass

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// GroupVersionKind names a kind of object.
type GroupVersionKind struct {
	// Group is "" for the core group.
	Group string
	// Version is for example v1.
	Version string
	// Kind is for example ConfigMap.
	Kind string
}

// GVK makes a kind from the apiVersion and kind of its objects: GVK("apps/v1", "Deployment").
func GVK(apiVersion, kind string) GroupVersionKind {
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	return GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// APIVersion is the apiVersion of objects of this kind.
func (k GroupVersionKind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// String is for people: apps/v1/Deployment.
func (k GroupVersionKind) String() string { return k.APIVersion() + "/" + k.Kind }

// ObjectKey is the namespace and name of an object.
type ObjectKey struct {
	// Namespace is "" for cluster-scoped objects.
	Namespace string
	// Name is the object's name.
	Name string
}

// Sibling is the key of another object in the same namespace.
func (k ObjectKey) Sibling(name string) ObjectKey {
	return ObjectKey{Namespace: k.Namespace, Name: name}
}

// String is for people: namespace/name.
func (k ObjectKey) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Request names an object to reconcile. It contains neither the object nor the event that caused it.
type Request struct {
	// Cluster is "" for the local cluster.
	Cluster string
	// ObjectKey names the object.
	ObjectKey
}

// String is for people: cluster://cluster/namespace/name.
func (r Request) String() string {
	return "cluster://" + escaped(r.Cluster) + "/" + r.Namespace + "/" + r.Name
}

// escaped percent-encodes every byte that a URL cannot contain as it is.
func escaped(text string) string {
	var url strings.Builder
	for _, b := range []byte(text) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', strings.IndexByte("-._~", b) >= 0:
			url.WriteByte(b)
		default:
			fmt.Fprintf(&url, "%%%02X", b)
		}
	}
	return url.String()
}

// wellFormed replaces each byte that is not UTF-8 by U+FFFD: a call with other text would trap.
func wellFormed(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// Result decides when a successful reconcile runs again. The zero value: after the next event.
type Result struct {
	// RequeueAfter runs the request again after this time, or earlier after an event. Fractions of a millisecond are
	// rounded up; the longest time is about 49 days. If it is 0, Requeue decides.
	RequeueAfter time.Duration
	// Requeue runs the request again at once, but at most every 100 ms for a key.
	Requeue bool
}

// RequeueAfter is the result of a reconcile that runs again after this time, or earlier after an event.
func RequeueAfter(delay time.Duration) Result {
	return Result{RequeueAfter: delay, Requeue: delay <= 0}
}

// millis is the delay of the contract; false: none.
func (r Result) millis() (uint32, bool) {
	if r.RequeueAfter <= 0 {
		return 0, r.Requeue
	}
	const longest = 1<<32 - 1
	millis := (r.RequeueAfter + time.Millisecond - 1) / time.Millisecond
	if r.RequeueAfter > longest*time.Millisecond {
		millis = longest
	}
	return uint32(millis), true
}

// ClusterInfo has the facts about a cluster that need no request to it.
type ClusterInfo struct {
	// Name is "" for the local cluster.
	Name string
	// Labels are the labels that the provider gave it.
	Labels map[string]string
	// Properties are the properties that the provider gave it.
	Properties map[string]string
	// Ready is whether the cluster answers and its caches are filled.
	Ready bool
}

// Event is an event about an object, as `kubectl describe` shows it.
type Event struct {
	// Kind of the object.
	Kind GroupVersionKind
	// Key of the object.
	Key ObjectKey
	// Warning gives the event the type Warning.
	Warning bool
	// Reason is one CamelCase word of at most 128 bytes.
	Reason string
	// Action is what was done, one CamelCase word of at most 128 bytes. "" stands for Reconcile.
	Action string
	// Note is for people, at most 1024 bytes.
	Note string
}
