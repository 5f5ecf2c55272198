//go:build !wasip1

package windlasstest

import "maps"

// applied is stored with the fields of now, where before was applied last: fields of before that now lacks are removed, and all
// others stay. Lists are replaced whole. The arguments stay as they are.
func applied(stored, before, now any) any {
	present, isPresent := stored.(map[string]any)
	wanted, isWanted := now.(map[string]any)
	if !isPresent || !isWanted {
		return now
	}
	last, _ := before.(map[string]any)
	return appliedFields(present, last, wanted)
}

func appliedFields(stored, before, now map[string]any) map[string]any {
	next := maps.Clone(stored)
	for name, old := range before {
		if _, stays := now[name]; stays {
			continue
		}
		// Only the applied fields of an object are removed; fields that other writers set stay.
		fields, isMap := next[name].(map[string]any)
		gone, wasMap := old.(map[string]any)
		if !isMap || !wasMap {
			delete(next, name)
		} else if rest := appliedFields(fields, gone, nil); len(rest) == 0 {
			delete(next, name)
		} else {
			next[name] = rest
		}
	}
	for name, value := range now {
		next[name] = applied(next[name], before[name], value)
	}
	return next
}

// merged is target with a merge patch (RFC 7386). The arguments stay as they are.
func merged(target, patch any) any {
	changes, is := patch.(map[string]any)
	if !is {
		return patch
	}
	next := map[string]any{}
	if fields, is := target.(map[string]any); is {
		next = maps.Clone(fields)
	}
	for name, change := range changes {
		if change == nil {
			delete(next, name)
		} else {
			next[name] = merged(next[name], change)
		}
	}
	return next
}
