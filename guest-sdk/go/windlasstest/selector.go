//go:build !wasip1

package windlasstest

import (
	"fmt"
	"regexp"
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
	parts := fieldComparison.FindStringSubmatch(requirement)
	if parts == nil {
		return nil, invalid("%q is not a field selector", requirement)
	}
	path, wanted, differs := parts[1], parts[3], parts[2] == "!="
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

// A key, a value, and the three forms of a requirement.
const (
	keyPattern   = `([A-Za-z0-9./_-]+)`
	valuePattern = `[A-Za-z0-9./_-]*`
)

var (
	comparison = regexp.MustCompile(`^` + keyPattern + `\s*(!=|==?)\s*(` + valuePattern + `)$`)
	membership = regexp.MustCompile(
		`^` + keyPattern + `\s+(in|notin)\s*\(\s*(` + valuePattern + `(?:\s*,\s*` + valuePattern + `)*)\s*\)$`)
	existence       = regexp.MustCompile(`^(!?)\s*` + keyPattern + `$`)
	fieldComparison = regexp.MustCompile(`^([^=!]*)(!=|==?)([^=]*)$`)
)

func parseLabel(requirement string) (func(map[string]string) bool, error) {
	if parts := comparison.FindStringSubmatch(requirement); parts != nil {
		return func(labels map[string]string) bool {
			value, found := labels[parts[1]]
			return (found && value == parts[3]) == (parts[2] != "!=")
		}, nil
	}
	if parts := membership.FindStringSubmatch(requirement); parts != nil {
		set := strings.Split(parts[3], ",")
		for i := range set {
			set[i] = strings.TrimSpace(set[i])
		}
		return func(labels map[string]string) bool {
			value, found := labels[parts[1]]
			return (found && slices.Contains(set, value)) == (parts[2] == "in")
		}, nil
	}
	if parts := existence.FindStringSubmatch(requirement); parts != nil {
		return func(labels map[string]string) bool {
			_, found := labels[parts[2]]
			return found == (parts[1] == "")
		}, nil
	}
	return nil, invalid("%q is not a label selector", requirement)
}

func invalid(format string, values ...any) error {
	return Error(windlass.CodeInvalid, fmt.Sprintf(format, values...))
}
