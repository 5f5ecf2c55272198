//go:build !wasip1

package windlasstest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"windlass.dev/windlass"
)

// VerbDeleteCollection is the only call that a batch cannot contain.
const VerbDeleteCollection windlass.Verb = "delete-collection"

// Call is an expected call and its answer.
type Call struct {
	script    *Script
	cluster   string
	operation windlass.Operation
	selection windlass.Selection

	items []string
	token string
	err   *windlass.APIError
}

// Return sets the answer: the object that a get reads or a write stored, or the objects of a list's page.
func (c *Call) Return(objects ...windlass.Kinded) *Call {
	c.script.t.Helper()
	c.items = make([]string, len(objects))
	for i, object := range objects {
		// Encoded as for a create, which adds apiVersion and kind.
		c.items[i] = windlass.OpCreate(object).Text
		if c.items[i] == "" {
			c.script.t.Fatalf("this object cannot be encoded: %v", object)
		}
	}
	return c
}

// Continue adds a token for the next page to the answer of a list.
func (c *Call) Continue(token string) *Call {
	c.token = token
	return c
}

// Fail sets an error as the answer.
func (c *Call) Fail(err *windlass.APIError) *Call {
	c.err = err
	return c
}

// is reports whether both are the same call.
func (c *Call) is(other *Call) bool {
	mine, theirs := c.operation, other.operation
	same := sameJSON(mine.Text, theirs.Text)
	mine.Text, theirs.Text = "", ""
	return same && c.cluster == other.cluster && c.selection == other.selection && reflect.DeepEqual(mine, theirs)
}

func sameJSON(one, other string) bool {
	if one == other {
		return true
	}
	var first, second any
	return json.Unmarshal([]byte(one), &first) == nil && json.Unmarshal([]byte(other), &second) == nil &&
		reflect.DeepEqual(first, second)
}

// object is the answer to a get and to a write.
func (c *Call) object() (string, bool) {
	if len(c.items) > 0 {
		return c.items[0], true
	}
	switch c.operation.Verb {
	case windlass.VerbCreate, windlass.VerbUpdate, windlass.VerbApply:
		return c.operation.Text, true
	}
	return "", false
}

// page is the answer to a list.
func (c *Call) page() windlass.Page[string] {
	return windlass.Page[string]{Items: c.items, Continue: c.token, ResourceVersion: "1"}
}

// failure is the answer's error, as an interface that is nil where there is none.
func (c *Call) failure() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

// String describes the call, without unset options.
func (c *Call) String() string {
	o := c.operation
	var text strings.Builder
	fmt.Fprintf(&text, "%s %v", o.Verb, o.Kind)
	if o.Key != (windlass.ObjectKey{}) {
		fmt.Fprintf(&text, " %v", o.Key)
	}
	fmt.Fprintf(&text, " in cluster %q", c.cluster)
	for _, options := range []any{o.Get, o.List, o.Write, o.Apply, o.Delete, c.selection} {
		if !reflect.ValueOf(options).IsZero() {
			fmt.Fprintf(&text, " %+v", options)
		}
	}
	if o.Text != "" {
		fmt.Fprintf(&text, ": %s", o.Text)
	}
	return text.String()
}
