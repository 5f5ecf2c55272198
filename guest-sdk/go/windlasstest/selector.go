//go:build !wasip1

package windlasstest

import (
	"fmt"
	"slices"
	"strings"

	"windlass.dev/windlass"
)

// parseLabels makes a test of labels from a selector in the syntax of kubectl's -l: a=b, a!=b, a in (b,c), a notin (b), a, !a.
func parseLabels(selector string) (func(labels map[string]string) bool, error) {
	return parseAll(selector, parseLabel)
}

// parseFields makes a test of objects from a selector on metadata.name and metadata.namespace.
func parseFields(selector string) (func(object windlass.Object) bool, error) {
	return parseAll(selector, parseField)
}

// parseAll makes one test from all requirements of a selector.
func parseAll[T any](selector string, parse func(requirement string) (func(T) bool, error)) (func(T) bool, error) {
	var tests []func(T) bool
	for _, requirement := range requirements(selector) {
		test, err := parse(requirement)
		if err != nil {
			return nil, err
		}
		tests = append(tests, test)
	}
	return func(value T) bool {
		return !slices.ContainsFunc(tests, func(test func(T) bool) bool { return !test(value) })
	}, nil
}

func parseField(requirement string) (func(windlass.Object) bool, error) {
	path, wanted, differs := strings.Cut(requirement, "!=")
	if !differs {
		var equals bool
		if path, wanted, equals = strings.Cut(requirement, "="); !equals {
			return nil, invalid("%q is not a field selector", requirement)
		}
		wanted = strings.TrimLeft(wanted, "=")
	}
	path = strings.TrimSpace(path)
	if path != "metadata.name" && path != "metadata.namespace" {
		return nil, invalid("a cluster in memory does not select by the field %q", path)
	}
	return func(object windlass.Object) bool {
		// Not as a text: an object without a namespace does not have the namespace "".
		found := object.At(strings.Split(path, ".")...)
		return (found == any(strings.TrimSpace(wanted))) != differs
	}, nil
}

// labelsOf are the labels of an object.
func labelsOf(object windlass.Object) map[string]string {
	labels := map[string]string{}
	fields, _ := object.At("metadata", "labels").(map[string]any)
	for name, value := range fields {
		labels[name], _ = value.(string)
	}
	return labels
}

// requirements are the parts of a selector, between the commas that are not inside parentheses.
func requirements(selector string) []string {
	depth := 0
	var parts []string
	start := 0
	add := func(end int) {
		if part := strings.TrimSpace(selector[start:end]); part != "" {
			parts = append(parts, part)
		}
		start = end + 1
	}
	for at, character := range selector {
		switch {
		case character == '(':
			depth++
		case character == ')':
			depth = max(depth-1, 0)
		case character == ',' && depth == 0:
			add(at)
		}
	}
	add(len(selector))
	return parts
}

func parseLabel(requirement string) (func(map[string]string) bool, error) {
	label := func(name string, accepts func(value string, found bool) bool) (func(map[string]string) bool, error) {
		name = strings.TrimSpace(name)
		return func(labels map[string]string) bool {
			value, found := labels[name]
			return accepts(value, found)
		}, nil
	}
	if name, wanted, ok := strings.Cut(requirement, "!="); ok {
		wanted = strings.TrimSpace(wanted)
		return label(name, func(value string, found bool) bool { return !found || value != wanted })
	}
	if name, wanted, ok := strings.Cut(requirement, "="); ok {
		wanted = strings.TrimSpace(strings.TrimLeft(wanted, "="))
		return label(name, func(value string, found bool) bool { return found && value == wanted })
	}
	if head, list, ok := strings.Cut(requirement, "("); ok {
		set := strings.Split(strings.TrimRight(list, ")"), ",")
		for i := range set {
			set[i] = strings.TrimSpace(set[i])
		}
		head = strings.TrimSpace(head)
		space := strings.LastIndexByte(head, ' ')
		operator := head[space+1:]
		if operator != "in" && operator != "notin" {
			return nil, invalid("%q is not a label selector", requirement)
		}
		return label(head[:max(space, 0)], func(value string, found bool) bool {
			return (found && slices.Contains(set, value)) == (operator == "in")
		})
	}
	if name, absent := strings.CutPrefix(requirement, "!"); absent {
		return label(name, func(_ string, found bool) bool { return !found })
	}
	return label(requirement, func(_ string, found bool) bool { return found })
}

func invalid(format string, values ...any) error {
	return Error(windlass.CodeInvalid, fmt.Sprintf(format, values...))
}
