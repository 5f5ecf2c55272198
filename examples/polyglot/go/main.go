// Greets in one language: beside each ConfigMap labelled polyglot.windlass.dev/greet it keeps a ConfigMap <name>-<language>.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"windlass.dev/windlass"
)

// greet is the label that asks for greetings; its value is the name in the greeting.
const greet = "polyglot.windlass.dev/greet"

// ConfigMap is a ConfigMap with the fields that matter here.
type ConfigMap struct {
	windlass.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

// GVK is the kind.
func (ConfigMap) GVK() windlass.GroupVersionKind { return windlass.GVK("v1", "ConfigMap") }

// config is what the operator configures: the end of the greeting's name, and what is said.
type config struct{ Language, Greeting string }

func settings() (c config, err error) {
	if err = windlass.Config(&c); err == nil && (c.Language == "" || c.Greeting == "") {
		err = errors.New("config: expected a language and a greeting")
	}
	return c, err
}

type greeter struct{}

func init() { windlass.Register(greeter{}) }

func main() { windlass.Run() } // for `windlass dev --native`; a component is called by its exports

func (greeter) Describe() (windlass.Description, error) {
	kind := ConfigMap{}.GVK()
	_, err := settings() // wrong ones fail the load
	return windlass.Description{
		Title:   "greets in one language, in Go",
		Watches: []windlass.Watch{{Kind: kind, LabelSelector: greet}, {Kind: kind, Enqueue: windlass.ControllerOwner}},
	}, err
}

func (greeter) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {
	asking, err := windlass.Get[ConfigMap](cluster, req.ObjectKey)
	if err != nil || asking == nil || asking.Labels[greet] == "" {
		return done, err
	}
	who := asking.Labels[greet]
	c, err := settings()
	if err != nil {
		return done, err
	}
	wanted := &ConfigMap{Data: map[string]string{"greeting": fmt.Sprintf("%s, %s, from %s", c.Greeting, who, cluster.Name())}}
	wanted.Namespace, wanted.Name = req.Namespace, req.Name+"-"+c.Language
	if err := wanted.SetController(asking); err != nil {
		return done, err
	}
	present, err := windlass.Get[ConfigMap](cluster, wanted.Key())
	if err != nil || present != nil && maps.Equal(present.Data, wanted.Data) {
		return done, err
	}
	if _, err = windlass.Apply(cluster, wanted, windlass.Force); err == nil {
		slog.Info("greeted", "who", who, "greeting", wanted.Key())
	}
	return done, err
}
