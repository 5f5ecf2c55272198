//go:build !wasip1

package windlasstest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"windlass.dev/windlass"
)

var (
	configMaps = windlass.GVK("v1", "ConfigMap")
	key        = windlass.ObjectKey{Namespace: "default", Name: "a"}
)

// fake is a test that records its failures.
type fake struct {
	testing.TB
	name     string
	failures []string
	cleanups []func()
}

func (f *fake) Name() string     { return f.name }
func (f *fake) Helper()          {}
func (f *fake) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fake) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}
func (f *fake) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }
func (f *fake) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs a test to its end and returns its failures.
func failures(test func(*Script)) string {
	return failuresOf(func(f *fake) { test(New(f)) })
}

func failuresOf(test func(*fake)) string {
	f := &fake{name: "TestOfAGuest"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, cleanup := range f.cleanups {
				cleanup()
			}
		}()
		test(f)
	}()
	<-done
	return strings.Join(f.failures, "\n")
}

func TestASecondHostInOneTestFailsIt(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	patience = 10 * time.Millisecond
	for _, second := range []func(*fake){
		func(f *fake) { New(f) },
		func(f *fake) { NewFleet(f) },
		func(f *fake) { f.name += "/in_a_subtest"; New(f) },
	} {
		said := failuresOf(func(f *fake) {
			NewFleet(f)
			second(f)
			t.Error("the test goes on")
		})
		if !strings.Contains(said, "TestOfAGuest has a script or a fleet already") {
			t.Error(said)
		}
	}
	if said := failuresOf(func(f *fake) { New(f) }); said != "" {
		t.Error(said)
	}
}

func TestTestsBesideEachOtherWait(t *testing.T) {
	for _, name := range []string{"delete", "delete/owner", "delete/finalizer", "delete"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewFleet(t)
			time.Sleep(5 * time.Millisecond)
		})
	}
}

func TestACallThatIsNotInTheScriptEndsTheTest(t *testing.T) {
	said := failures(func(s *Script) {
		_, _ = s.Cluster("alpha").Client().Get(configMaps, key)
		t.Error("the test goes on")
	})
	if want := `does not expect: get v1/ConfigMap default/a in cluster "alpha"`; !strings.Contains(said, want) {
		t.Errorf("got %s", said)
	}
}

func TestACallWithOtherOptionsOrAnotherObjectIsAnother(t *testing.T) {
	for name, test := range map[string]func(*Cluster, *windlass.Cluster){
		"options": func(expected *Cluster, client *windlass.Cluster) {
			expected.ExpectGet(configMaps, key)
			_, _ = client.Get(configMaps, key, windlass.Live)
		},
		"object": func(expected *Cluster, client *windlass.Cluster) {
			expected.ExpectCreate(windlass.NewObject(configMaps, key))
			_, _ = client.Create(windlass.NewObject(configMaps, key.Sibling("b")))
		},
		"patch": func(expected *Cluster, client *windlass.Cluster) {
			expected.ExpectPatch(configMaps, key, windlass.MergePatch(map[string]any{"data": nil}))
			_, _ = client.Patch(configMaps, key, windlass.StrategicPatch(map[string]any{"data": nil}))
		},
		"selection": func(expected *Cluster, client *windlass.Cluster) {
			expected.ExpectDeleteCollection(configMaps, windlass.Selection{LabelSelector: "a=b"})
			_ = client.DeleteCollection(configMaps, windlass.Selection{LabelSelector: "a=c"})
		},
		"cluster": func(expected *Cluster, client *windlass.Cluster) {
			expected.script.Cluster("beta").ExpectDelete(configMaps, key)
			_ = client.Delete(configMaps, key)
		},
	} {
		said := failures(func(s *Script) { test(s.Cluster("alpha"), s.Cluster("alpha").Client()) })
		if !strings.Contains(said, "does not expect now") {
			t.Errorf("%s: got %q", name, said)
		}
	}
}

func TestWhatWasExpectedAndNotCalledFailsTheTest(t *testing.T) {
	said := failures(func(s *Script) {
		s.Cluster("alpha").ExpectGet(configMaps, key)
		s.Cluster("alpha").ExpectDelete(configMaps, key)
		_, _ = s.Cluster("alpha").Client().Get(configMaps, key)
	})
	if want := `expected, and not called: delete v1/ConfigMap default/a in cluster "alpha"`; said != want {
		t.Errorf("got %s", said)
	}
}

func TestAScriptThatIsFollowedDoesNotFail(t *testing.T) {
	said := failures(func(s *Script) {
		alpha := s.Cluster("alpha")
		alpha.ExpectPatch(configMaps, key, windlass.JSONPatch(windlass.PatchOperation{Op: "remove", Path: "/data"}), windlass.Status)
		alpha.ExpectUpdate(windlass.NewObject(configMaps, key)).Fail(Error(windlass.CodeConflict, "changed"))
		remove := windlass.JSONPatch(windlass.PatchOperation{Op: "remove", Path: "/data"})
		if patched, err := alpha.Client().Patch(configMaps, key, remove, windlass.Status); err != nil || patched.Key() != key {
			t.Errorf("got %v, %v", patched, err)
		}
		if _, err := alpha.Client().Update(windlass.NewObject(configMaps, key)); !windlass.IsConflict(err) {
			t.Errorf("got %v", err)
		}
	})
	if said != "" {
		t.Errorf("got %s", said)
	}
}

func TestAClusterThatTheScriptDoesNotHaveEndsTheTest(t *testing.T) {
	said := failures(func(*Script) { _, _ = windlass.Open("nowhere") })
	if !strings.Contains(said, `does not have: "nowhere"`) {
		t.Errorf("got %s", said)
	}
}
