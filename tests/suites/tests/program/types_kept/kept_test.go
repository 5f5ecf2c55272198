// Objects survive their types: each is read, changed and written, and no other field differs.
package main

import (
	"encoding/json"
	"os"
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

// survives changes the object of a file as a guest does, and expects the changed one to be written.
func survives[T windlass.Kinded](alpha *windlasstest.Cluster, t *testing.T, file string, change func(*T)) {
	t.Helper()
	before, after := read(t, file+".json"), read(t, file+".changed.json")
	alpha.ExpectGet(before.GVK(), before.Key()).Return(before)
	alpha.ExpectUpdate(after).Return(after)
	object, err := windlass.Get[T](alpha.Client(), before.Key())
	if err != nil {
		t.Fatal(err)
	}
	change(object)
	if _, err := windlass.Update(alpha.Client(), object); err != nil {
		t.Fatal(err)
	}
}

func TestAnOddObjectSurvives(t *testing.T) {
	alpha := windlasstest.New(t).Cluster("alpha")
	survives(alpha, t, "odd", changeOdd)
}

func changeOdd(odd *Odd) {
	odd.Labels["kept"] = "yes"
	odd.Spec.Ports[1].Port = 8443
}
