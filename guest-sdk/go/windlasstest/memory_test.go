//go:build !wasip1

package windlasstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"

	"windlass.dev/windlass"
)

// memoryStep is a call, or an act of the test, with what it takes under its name: see guest-sdk/spec/README.md.
type memoryStep struct {
	Put, Create, Update, Apply              windlass.Object
	Remove, Patch, Delete, DeleteCollection *memoryArguments
	Get, List                               *memoryArguments
	Status, More                            bool
	Answer                                  json.RawMessage
	Fails                                   windlass.Code
}

type memoryArguments struct {
	Kind, Key                               string
	Patch                                   windlass.Object
	UID, ResourceVersion                    string
	Namespace, LabelSelector, FieldSelector string
	Limit                                   uint32
}

func (a memoryArguments) kind() windlass.GroupVersionKind {
	at := strings.LastIndex(a.Kind, "/")
	return windlass.GVK(a.Kind[:at], a.Kind[at+1:])
}

func (a memoryArguments) key() windlass.ObjectKey {
	namespace, name, _ := strings.Cut(a.Key, "/")
	return windlass.ObjectKey{Namespace: namespace, Name: name}
}

// run does a step, and returns what it answers: an object, names, whether there was an object, or nothing.
func (s memoryStep) run(t *testing.T, alpha *MemoryCluster) (any, error) {
	t.Helper()
	client := alpha.Client()
	write := windlass.WriteOptions{}
	if s.Status {
		write.Subresource = "status"
	}
	switch {
	case s.Put != nil:
		alpha.Put(s.Put)
		return nil, nil
	case s.Remove != nil:
		alpha.Remove(s.Remove.kind(), s.Remove.key())
		return nil, nil
	case s.Create != nil:
		return client.Create(s.Create)
	case s.Update != nil:
		return client.Update(s.Update, write)
	case s.Apply != nil:
		return client.Apply(s.Apply, windlass.ApplyOptions{Subresource: write.Subresource})
	case s.Patch != nil:
		return client.Patch(s.Patch.kind(), s.Patch.key(), windlass.MergePatch(s.Patch.Patch), write)
	case s.Get != nil:
		return client.Get(s.Get.kind(), s.Get.key())
	case s.Delete != nil:
		err := client.Delete(s.Delete.kind(), s.Delete.key(), windlass.DeleteOptions{
			UID: s.Delete.UID, ResourceVersion: s.Delete.ResourceVersion,
		})
		return !windlass.IsNotFound(err), windlass.IgnoreNotFound(err)
	case s.DeleteCollection != nil:
		d := s.DeleteCollection
		return nil, client.DeleteCollection(d.kind(), windlass.Selection{
			Namespace: d.Namespace, LabelSelector: d.LabelSelector, FieldSelector: d.FieldSelector,
		})
	case s.List != nil:
		page, err := client.List(s.List.kind(), windlass.ListOptions{
			Namespace: s.List.Namespace, LabelSelector: s.List.LabelSelector, FieldSelector: s.List.FieldSelector,
			Limit: s.List.Limit,
		})
		if err != nil {
			return nil, err
		}
		if more := page.Continue != ""; more != s.More {
			t.Errorf("a further page: %v", more)
		}
		names := []any{}
		for _, object := range page.Items {
			names = append(names, object.Key().Name)
		}
		return names, nil
	}
	t.Fatalf("a step that is not known: %+v", s)
	return nil, nil
}

// has reports whether an answer has at least the fields of a case; null is a field that must not be there.
func has(answer, wanted any) bool {
	if object, is := answer.(windlass.Object); is {
		answer = map[string]any(object)
	}
	fields, is := wanted.(map[string]any)
	if !is {
		return reflect.DeepEqual(answer, wanted)
	}
	present, is := answer.(map[string]any)
	for name, value := range fields {
		there, found := present[name]
		is = is && found == (value != nil) && (value == nil || has(there, value))
	}
	return is && present != nil
}

func TestEveryCaseOfTheSpecificationOfMemory(t *testing.T) {
	text, err := os.ReadFile("../../spec/memory/cases.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the specification is not part of a project")
	}
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		About string
		Cases []struct {
			Name  string
			Steps []memoryStep
		}
	}
	// A step that this test does not know is not left out.
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&spec); err != nil || len(spec.Cases) == 0 {
		t.Fatal(err, len(spec.Cases))
	}
	for _, c := range spec.Cases {
		t.Run(c.Name, func(t *testing.T) {
			alpha := NewFleet(t).Cluster("alpha")
			for at, step := range c.Steps {
				answer, err := step.run(t, alpha)
				if code := windlass.CodeOf(err); code != step.Fails || (err != nil) != (step.Fails != "") {
					t.Fatalf("step %d: %v instead of %q", at+1, err, step.Fails)
				}
				if step.Answer == nil || step.Fails != "" {
					continue
				}
				// Read as an object, for the whole numbers.
				var wanted windlass.Object
				if err := json.Unmarshal([]byte(`{"answer":`+string(step.Answer)+`}`), &wanted); err != nil {
					t.Fatal(err)
				}
				if object, is := answer.(windlass.Object); is && (object == nil || wanted["answer"] == nil) {
					if object != nil || wanted["answer"] != nil {
						t.Fatalf("step %d: got %v instead of %s", at+1, object, step.Answer)
					}
				} else if !has(answer, wanted["answer"]) {
					t.Fatalf("step %d: got %v instead of %s", at+1, answer, step.Answer)
				}
			}
		})
	}
}
