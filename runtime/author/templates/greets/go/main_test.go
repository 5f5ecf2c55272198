// Tests of the guest, against a script of the calls that it makes: plain `go test`.
package main

import (
	"testing"

	"windlass.dev/windlass"
	"windlass.dev/windlass/windlasstest"
)

var crew = windlass.ObjectKey{Namespace: "default", Name: "crew"}

// asking is a ConfigMap that asks for a greeting.
func asking() windlass.Object {
	object := windlass.NewObject(configMap, crew)
	object.Set("1", "metadata", "uid")
	object.Set("world", "metadata", "labels", greet)
	return object
}

// greeting is the expected greeting.
func greeting() windlass.Object {
	object := windlass.NewObject(configMap, crew.Sibling("crew-greeting"))
	_ = object.SetController(asking())
	object.Set("hello, world, from alpha", "data", "greeting")
	return object
}

func TestWhoAsksIsGreeted(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	alpha.ExpectGet(configMap, crew).Return(asking())
	alpha.ExpectGet(configMap, greeting().Key()) // there is none
	alpha.ExpectApply(greeting(), windlass.Force)
	if result, err := alpha.Reconcile(greeter{}, crew); err != nil || result != (windlass.Result{}) {
		t.Errorf("got %v, %v", result, err)
	}
	if events := alpha.Events(); len(events) != 1 || events[0].Reason != "Greeted" {
		t.Errorf("got %v", events)
	}
}

func TestWhoIsGreetedAlreadyIsLeftAlone(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	alpha.ExpectGet(configMap, crew).Return(asking())
	alpha.ExpectGet(configMap, greeting().Key()).Return(greeting())
	if _, err := alpha.Reconcile(greeter{}, crew); err != nil {
		t.Error(err)
	}
}

func TestWithoutTheLabelNobodyIsGreeted(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	alpha.ExpectGet(configMap, crew).Return(windlass.NewObject(configMap, crew))
	if _, err := alpha.Reconcile(greeter{}, crew); err != nil {
		t.Error(err)
	}
}

func TestAFailedWriteIsTriedAgain(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	alpha.ExpectGet(configMap, crew).Return(asking())
	alpha.ExpectGet(configMap, greeting().Key())
	alpha.ExpectApply(greeting(), windlass.Force).Fail(windlasstest.Error(windlass.CodeUnavailable, "no server"))
	if _, err := alpha.Reconcile(greeter{}, crew); err == nil || windlass.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

func TestItWatchesWhoAsks(t *testing.T) {
	description, err := windlasstest.New(t).Describe(greeter{})
	if err != nil || description.Watches[0].LabelSelector != greet {
		t.Errorf("got %v, %v", description, err)
	}
}
