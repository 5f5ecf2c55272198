//go:build !wasip1

package windlasstest

import (
	"fmt"
	"slices"
	"strings"

	"windlass.dev/windlass"
)

// labelsMatch reports whether labels match a selector in the syntax of kubectl's -l: a=b, a!=b, a in (b,c), a notin (b), a, !a.
func labelsMatch(selector string, labels map[string]string) (bool, error) {
	for _, requirement := range requirements(selector) {
		if ok, err := labelMatches(requirement, labels); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// fieldsMatch reports whether an object matches a selector on metadata.name and metadata.namespace.
func fieldsMatch(selector string, object windlass.Object) (bool, error) {
	for _, requirement := range requirements(selector) {
		path, wanted, differs := strings.Cut(requirement, "!=")
		if !differs {
			var equals bool
			if path, wanted, equals = strings.Cut(requirement, "="); !equals {
				return false, invalid("%q is not a field selector", requirement)
			}
			wanted = strings.TrimLeft(wanted, "=")
		}
		path = strings.TrimSpace(path)
		if path != "metadata.name" && path != "metadata.namespace" {
			return false, invalid("a cluster in memory does not select by the field %q", path)
		}
		// Not as a text: an object without a namespace does not have the namespace "".
		found := object.At(strings.Split(path, ".")...)
		if (found == any(strings.TrimSpace(wanted))) == differs {
			return false, nil
		}
	}
	return true, nil
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

func labelMatches(requirement string, labels map[string]string) (bool, error) {
	value := func(name string) (string, bool) {
		found, ok := labels[strings.TrimSpace(name)]
		return found, ok
	}
	if name, wanted, ok := strings.Cut(requirement, "!="); ok {
		found, has := value(name)
		return !has || found != strings.TrimSpace(wanted), nil
	}
	if name, wanted, ok := strings.Cut(requirement, "="); ok {
		found, has := value(name)
		return has && found == strings.TrimSpace(strings.TrimLeft(wanted, "=")), nil
	}
	if head, list, ok := strings.Cut(requirement, "("); ok {
		set := strings.Split(strings.TrimRight(list, ")"), ",")
		for i := range set {
			set[i] = strings.TrimSpace(set[i])
		}
		head = strings.TrimSpace(head)
		space := strings.LastIndexByte(head, ' ')
		found, has := value(head[:max(space, 0)])
		within := has && slices.Contains(set, found)
		switch head[space+1:] {
		case "in":
			return within, nil
		case "notin":
			return !within, nil
		}
		return false, invalid("%q is not a label selector", requirement)
	}
	if name, absent := strings.CutPrefix(requirement, "!"); absent {
		_, has := value(name)
		return !has, nil
	}
	_, has := value(requirement)
	return has, nil
}

func invalid(format string, values ...any) error {
	return Error(windlass.CodeInvalid, fmt.Sprintf(format, values...))
}
