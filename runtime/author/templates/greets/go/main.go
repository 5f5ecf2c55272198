// Greets: keeps a ConfigMap <name>-greeting beside each ConfigMap labelled hello.windlass.dev/greet.
package main

import (
	"fmt"
	"log/slog"

	"windlass.dev/windlass"
)

// greet is the label that asks for a greeting; its value is the name in the greeting.
const greet = "hello.windlass.dev/greet"

var configMap = windlass.GVK("v1", "ConfigMap")

type greeter struct{}

func init() { windlass.Register(greeter{}) }

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

// Describe watches the ConfigMaps with the label, and the greetings: an event on a greeting enqueues its owner.
func (greeter) Describe() (windlass.Description, error) {
	return windlass.Description{
		Title: "greets the people that ConfigMaps name",
		Watches: []windlass.Watch{
			{Kind: configMap, LabelSelector: greet},
			{Kind: configMap, Enqueue: windlass.ControllerOwner},
		},
	}, nil
}

// Reconcile creates or updates one greeting. It is called again until it succeeds, and after every change that may matter.
// A request names an object and never an event. An error is retried with growing delay.
func (greeter) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	// Reads come from the host's cache. A deleted object needs nothing: the garbage collector deletes its greeting.
	asking, err := cluster.Get(configMap, req.ObjectKey)
	if err != nil || asking == nil || asking.Label(greet) == "" {
		return done, err
	}
	who := asking.Label(greet)
	wanted := windlass.NewObject(configMap, req.Sibling(req.Name+"-greeting"))
	if err := wanted.SetController(asking); err != nil {
		return done, err
	}
	wanted.Set(fmt.Sprintf("hello, %s, from %s", who, cluster.Name()), "data", "greeting")

	// Write only the differences.
	present, err := cluster.Get(configMap, wanted.Key())
	if err != nil || present.String("data", "greeting") == wanted.String("data", "greeting") {
		return done, err
	}
	if _, err := cluster.Apply(wanted, windlass.Force); err != nil {
		return done, err
	}
	cluster.Event(asking, "Greeted", fmt.Sprintf("%s is greeted by %s", who, wanted.Key().Name))
	slog.Info("greeted", "who", who, "greeting", wanted.Key())
	return done, nil
}
