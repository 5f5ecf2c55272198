// Package windlass is for writing Windlass guests in Go: reconcilers that run as WebAssembly components, each request with a
// client of the request's own cluster.
//
// A guest is a program whose init registers a [Reconciler]. Its main runs in a process of its own alone, not in a component:
//
//	func main() { windlass.Run() }
//
//	func init() { windlass.Register(greeter{}) }
//
//	type greeter struct{}
//
//	var maps = windlass.GVK("v1", "ConfigMap")
//
//	func (greeter) Describe() (windlass.Description, error) {
//		return windlass.Description{
//			Title:   "greets the people that ConfigMaps name",
//			Watches: []windlass.Watch{{Kind: maps, LabelSelector: "hello.windlass.dev/greet"}},
//		}, nil
//	}
//
//	func (greeter) Reconcile(req windlass.Request, cluster *windlass.Cluster) (windlass.Result, error) {
//		object, err := cluster.Get(maps, req.ObjectKey)
//		if err != nil || object == nil {
//			return windlass.Result{}, err
//		}
//		slog.Info("greeted", "who", object.Label("hello.windlass.dev/greet"))
//		return windlass.Result{}, nil
//	}
//
// # Failing
//
// An error that Reconcile returns makes the host retry the request with growing delay; one made by [Terminal] waits for the next
// event instead. A panic counts as an error, which tells where it was. Calls of a cluster fail with an [*APIError]:
// use [errors.As], or helpers such as [IsNotFound] and [IsConflict].
//
// # Objects
//
// Methods of [Cluster] use [Object], a map of JSON values, for every kind. Functions such as [Get] and [ListAll] do the same
// with your own struct that names its kind ([Kinded]).
//
// # Other servers
//
// [HTTPGet] and [HTTPDo] call servers that are no API servers, as far as the operator allows it. Package httpclient does so for libraries that
// use net/http.
//
// # Logging
//
// In a component the default logger of [log/slog] writes to the host's log.
//
// # Memory
//
// If the heap has grown, the garbage collector runs when a call begins and after calls to the host. It never runs at other
// times: the host may allocate in the guest while it answers a call, and no collection may run then. Code that allocates
// much without calling the host may call [runtime.GC] itself.
//
// # Testing
//
// Package windlasstest runs a reconciler with plain `go test`, against a script of expected calls or against clusters in memory.
// [Run] serves `windlass dev --native RECONCILER`, so that a debugger stops in the guest.
package windlass
