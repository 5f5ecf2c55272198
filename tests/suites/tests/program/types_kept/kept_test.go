// Objects survive their types: each is read, changed and written, and no other field differs.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"windlass.dev/windlass"
	"windlass.dev/windlass/windlasstest"
)

func read(t *testing.T, file string) (object windlass.Object) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// survives changes the object of a file as a guest does, and compares it with what is expected.
func survives[T windlass.Kinded](alpha *windlasstest.MemoryCluster, t *testing.T, file string, change func(*T)) {
	t.Helper()
	before := read(t, file+".json")
	alpha.Put(before)
	object, err := windlass.Get[T](alpha.Client(), before.Key())
	if err != nil {
		t.Fatal(err)
	}
	change(object)
	if _, err := windlass.Update(alpha.Client(), object); err != nil {
		t.Fatal(err)
	}
	after, expected := alpha.Object(before.GVK(), before.Key()), read(t, file+".changed.json")
	for _, object := range []windlass.Object{after, expected} {
		for _, ofServers := range []string{"resourceVersion", "generation", "creationTimestamp", "managedFields"} {
			delete(object["metadata"].(map[string]any), ofServers)
		}
	}
	if !reflect.DeepEqual(after, expected) {
		t.Errorf("%s\nis %v\nnot %v", file, after, expected)
	}
}

func TestAnOddObjectSurvives(t *testing.T) {
	alpha := windlasstest.NewFleet(t).Cluster("alpha")
	survives(alpha, t, "odd", changeOdd)
}

func changeOdd(odd *Odd) {
	odd.Labels["kept"] = "yes"
	odd.Spec.Ports[1].Port = 8443
}
