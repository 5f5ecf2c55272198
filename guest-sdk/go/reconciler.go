package windlass

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Reconciler is a guest.
type Reconciler interface {
	// Describe tells what to watch. It is called when the guest is loaded and when its config or grants change, with every call to a
	// cluster denied; it may read [Config]. An error fails the load.
	Describe() (Description, error)

	// Reconcile makes what req names as it should be. The request says what to look at, never what happened: read, compare,
	// write what differs. At most one call runs for a request at a time, in any number of fresh instances.
	Reconcile(req Request, cluster *Cluster) (Result, error)
}

// Mapper turns events into requests itself, for watches with [Mapped]. Package mapper registers one.
type Mapper interface {
	// Map answers the requests, of any granted cluster, that these objects of cluster ask for; an update passes the old and the new
	// object. Reads come from the cache only; [Clusters] tells which clusters there are. After an error the event is mapped
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
	defer recovered(&err)
	if registered == nil {
		return description, fmt.Errorf("there is no reconciler: call windlass.Register in an init function")
	}
	return registered.Describe()
}

// reconcile runs the registered guest.
func reconcile(req Request, cluster *Cluster) (result Result, err error) {
	defer recovered(&err)
	return registered.Reconcile(req, cluster)
}

// mapObjects runs a mapper.
func mapObjects(mapper Mapper, cluster *Cluster, kind GroupVersionKind, texts []string) (requests []Request, err error) {
	defer recovered(&err)
	objects, err := decodeObjects(kind, texts)
	if err != nil {
		return nil, err
	}
	return mapper.Map(cluster, kind, objects)
}

// longestStack bounds what a panic logs, in bytes.
const longestStack = 8 << 10

// recovered makes a panic an error, and logs where it came from.
func recovered(err *error) {
	why := recover()
	if why == nil {
		return
	}
	stack := debug.Stack()
	slog.Error("guest panicked", "why", why, "stack", string(stack[:min(len(stack), longestStack)]))
	*err = fmt.Errorf("panic: %v", why)
}
