package windlass

import (
	"errors"
	"fmt"
	"log/slog"
)

// Reconciler is a guest.
type Reconciler interface {
	// Describe returns what to watch. It is called when the guest is loaded and when its config or grants change. Every call to a
	// cluster is denied; [Config] works. An error fails the load.
	Describe() (Description, error)

	// Reconcile brings the object that req names to its desired state. The request names an object and never an event: read,
	// compare, write the differences. At most one call runs for a request at a time, in any number of fresh instances.
	Reconcile(req Request, cluster *Cluster) (Result, error)
}

// Mapper turns events into requests, for watches with [Mapped]. Package mapper registers one.
type Mapper interface {
	// Map returns the requests, of any granted cluster, for these changed objects of cluster. An update passes the old and the new
	// object. Reads come only from the cache; [Clusters] returns the granted clusters. After an error the event is mapped
	// again with growing delay.
	Map(cluster *Cluster, kind GroupVersionKind, objects []Object) ([]Request, error)
}

var registered Reconciler

// Register makes r the guest of this program. Call it once, in an init function.
func Register(r Reconciler) {
	if registered != nil {
		panic("windlass: a program is one guest: Register was called twice")
	}
	registered = r
}

// describe asks the registered guest.
func describe() (description Description, err error) {
	entered()
	defer recovered(&err)
	if registered == nil {
		return description, fmt.Errorf("there is no reconciler: call windlass.Register in an init function")
	}
	description, err = registered.Describe()
	return description, placed(err)
}

// reconcile runs the registered guest.
func reconcile(req Request, cluster *Cluster) (result Result, err error) {
	entered()
	defer recovered(&err)
	result, err = Reconcile(registered, req, cluster)
	return result, placed(err)
}

// Reconcile calls a reconciler as the host does: an error of [NotReady] is a requeue.
func Reconcile(reconciler Reconciler, req Request, cluster *Cluster) (Result, error) {
	result, err := reconciler.Reconcile(req, cluster)
	var waits *notReady
	if errors.As(err, &waits) {
		slog.Info("not ready yet", "why", waits.why)
		return RequeueAfter(waits.after), nil
	}
	return result, err
}

// mapObjects runs a mapper.
func mapObjects(mapper Mapper, cluster *Cluster, kind GroupVersionKind, texts []string) (requests []Request, err error) {
	entered()
	defer recovered(&err)
	objects, err := decodeObjects(kind, texts)
	if err != nil {
		return nil, err
	}
	requests, err = mapper.Map(cluster, kind, objects)
	return requests, placed(err)
}

// recovered turns a panic into an error that tells where it was.
func recovered(err *error) {
	if why := recover(); why != nil {
		*err = fmt.Errorf("panic: %v%s", why, located())
	}
}
