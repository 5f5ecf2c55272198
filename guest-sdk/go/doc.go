// Package windlass is for writing Windlass guests in Go: reconcilers that run as WebAssembly components, each request with a
// client of the request's own cluster.
//
// A guest is a program whose init registers a [Reconciler]; its main stays empty:
//
//	func main() {}
//
//	func init() { windlass.Register(greeter{}) }
//
//	type greeter struct{}
//
//	var maps = windlass.GVK("v1", "ConfigMap")
//
//	func (greeter) Describe() (windlass.Description, error) {
//		return windlass.Description{
//			Title:   "greets whom ConfigMaps ask to greet",
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
// An error that Reconcile returns has the request run again with growing delay; one made by [Terminal] waits for the next
// event instead. A panic is logged with its stack and counts as an error. Calls of a cluster fail with an [*APIError]:
// use [errors.As], or helpers such as [IsNotFound] and [IsConflict].
//
// # Objects
//
// Methods of [Cluster] speak of any kind as [Object], a map as JSON has it. Functions such as [Get] and [ListAll] do the same
// with a struct of your own that names its kind ([Kinded]).
//
// # Logging
//
// In a component the default logger of [log/slog] writes to the host's log.
//
// # Memory
//
// The collector runs when a call begins and after calls to the host, once the heap has grown, and never in between: the
// host may allocate in the guest while it answers a call, and no collection may be under way then. Code that allocates much without
// calling the host may call [runtime.GC] itself.
//
// # Testing
//
// Package windlasstest runs a reconciler against a script of expected calls, with plain `go test`.
package windlass
